#pragma once
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long u64;
#define SMP_CACHE_BYTES TOY_LINE
#define ____cacheline_aligned __attribute__((__aligned__(SMP_CACHE_BYTES)))
#define S32_MAX 0x7fffffff
#define bool _Bool
#define true 1
#define false 0
#define BIT(nr) (1UL << (nr))
#define NULL ((void *)0)
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define offsetof(type, member) __builtin_offsetof(type, member)
#define sizeof_field(type, member) sizeof(((type *)0)->member)
#define offsetofend(type, member) (offsetof(type, member) + sizeof_field(type, member))
#define static_assert(expr, msg) _Static_assert(expr, msg)
typedef struct { int counter; } atomic_t;
typedef struct { u32 slock; } arch_spinlock_t;
typedef struct {
	arch_spinlock_t raw_lock;
#ifdef CONFIG_DEBUG_SPINLOCK
	u64 more[7];
#endif
} raw_spinlock_t;
typedef struct { unsigned long bits[1]; } cpumask_var_t[1];
#define _PLACEHOLDER_1 0,
#define _SECOND(ignored, value, ...) value
#define _IS3(arg_or_junk) _SECOND(arg_or_junk 1, 0)
#define _IS2(value) _IS3(_PLACEHOLDER_##value)
#define IS_ENABLED(option) _IS2(option)
