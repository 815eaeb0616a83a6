#include <linux/types.h>
struct alone { u64 first; };
