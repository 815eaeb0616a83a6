/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Finds the guest's objects by a plan, and again when a pointer to them
 * changes.
 *
 * The plan's lines are
 *
 *	expect ADDRESS VALUE			eight bytes that must be there: no KASLR
 *	offsets ADDRESS				of __per_cpu_offset
 *	memory ...				see memory.h
 *	watch KEY static|percpu|allocated ADDRESS SIZE [OFFSET...]
 *
 * with hexadecimal addresses. For each OFFSET, the pointer at the address is
 * followed, and the offset is added to its value. What the last pointer of an
 * allocated one leads to lies behind each CPU's offset. An object is watched as long
 * as some CPU's pointers lead to it. An object that is allocated later is
 * counted from when a pointer first leads to it. An object that no pointer
 * leads to is no longer counted. Reused memory belongs to a new object.
 */
#ifndef C2C_OBJECTS_H
#define C2C_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "model.h"

/* Read the plan, and watch its objects, through the page tables of `cpu`. */
void objects_find(struct c2c_model *model, const char *plan, unsigned int cpus, unsigned int cpu);

/* A CPU has written: if to a pointer that leads to an object, look again. */
void objects_written(unsigned int cpu, uint64_t address, unsigned int size);

/*
 * Write a line "object KEY CPU ADDRESS SIZE EPOCH" for each object that was
 * found. The epoch is 1 for objects that existed at the start. Write a line
 * "absent KEY CPU" for each CPU that never had an object.
 */
void objects_write(FILE *file);

/* Write a line "percpu CPU OFFSET" for each CPU, read as `cpu` maps it. */
void objects_write_offsets(unsigned int cpu, FILE *file);

#endif
