/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The guest's objects: found by a plan, and found again when a pointer to them changes.
 *
 * The plan's lines are
 *
 *	expect ADDRESS VALUE			eight bytes that must be there: no KASLR
 *	offsets ADDRESS				of __per_cpu_offset
 *	watch KEY static|percpu ADDRESS SIZE [OFFSET...]
 *
 * with hexadecimal addresses. For each offset the pointer at the address is followed, and the
 * offset added. An object is watched for as long as some CPU's pointers lead to it: what is
 * allocated later counts from when it is first pointed to, what nothing points to any more
 * does not, and memory that is used again is another object's.
 */
#ifndef C2C_OBJECTS_H
#define C2C_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "model.h"

/* Read the plan, and watch what it names; `cpu` is the one whose page tables are used. */
void objects_find(struct c2c_model *model, const char *plan, unsigned int cpus, unsigned int cpu);

/* A CPU has written: look again where a pointer that leads to an object was. */
void objects_written(unsigned int cpu, uint64_t address, unsigned int size);

/*
 * All that were found, a line each, "object KEY CPU ADDRESS SIZE EPOCH"; the epoch of those
 * that were there from the start is 1. "absent KEY CPU" where a CPU never had one.
 */
void objects_write(FILE *file);

#endif
