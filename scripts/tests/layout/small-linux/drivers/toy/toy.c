#include <linux/types.h>
#include "toy.h"
union both { u64 one; int other; };
typedef struct { u64 first; } toy_t;
struct below
{
	u64 first;
};
static struct {
	u64 first;
} things[2] ____cacheline_aligned = { };
struct __attribute__((packed)) tight {
	u64 first;
#ifdef CONFIG_MORE
	u64 same;
#else
	int same;
#endif
	int last;
};
#ifdef CONFIG_MORE
struct whole {
	int a;
};
#endif
