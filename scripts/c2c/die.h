/* SPDX-License-Identifier: GPL-2.0 */
#ifndef C2C_DIE_H
#define C2C_DIE_H

#include <stdio.h>
#include <stdlib.h>

/* Give up. The reader sees from the incomplete output that the run failed. */
static inline void __attribute__((noreturn)) die(const char *what, const char *of)
{
	fprintf(stderr, "c2c: %s%s\n", what, of);
	exit(1);
}

#endif
