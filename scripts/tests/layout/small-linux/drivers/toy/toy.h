#ifndef TOY_H
#define TOY_H
#include <linux/types.h>
#include "inner.h"
struct toy {
	u64 read;
#ifdef CONFIG_MORE
	u64 more;
#endif
	struct inner inner;
	u64 written ____cacheline_aligned;
};
#endif
