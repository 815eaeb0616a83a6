#include <linux/types.h>
struct shared { u64 first; u64 second; };
