/* SPDX-License-Identifier: GPL-2.0 */
/* Tells the model about accesses and objects, and keeps a trace of it if one is wanted. */
#ifndef C2C_RECORDER_H
#define C2C_RECORDER_H

#include "model.h"

/*
 * Begin. `trace` is the file for the trace, or NULL. With `everything` it has all
 * accesses.
 */
void recorder_begin(struct c2c_model *model, const struct c2c_shape *shape, const char *trace,
		    bool everything);

/* An object of a watch of the plan, by its number there; see c2c_watch(). */
void recorder_watch(unsigned int watch, uint64_t address, uint64_t size, uint16_t epoch);

/* See c2c_unwatch(). */
void recorder_unwatch(uint64_t address, uint64_t size);

/* See c2c_access(). */
void recorder_access(unsigned int cpu, enum c2c_kind kind, uint64_t address, unsigned int size,
		     uint64_t pc);

/* End the trace. */
void recorder_end(void);

#endif
