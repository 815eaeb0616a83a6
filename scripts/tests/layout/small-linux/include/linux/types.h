#pragma once
typedef unsigned long long u64;
#define SMP_CACHE_BYTES 64
#define ____cacheline_aligned __attribute__((aligned(64)))
static inline int bits_of(long value)
{
	return value > 1;
}
