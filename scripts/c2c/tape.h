/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A trace of one guest: what the model was told, in the order in which it was
 * told. Played to a new model, it gives the same counts.
 *
 * Each entry begins with a byte. Its lowest two bits are the kind of an access,
 * or 3 for anything else.
 *
 *	access	bits 2 to 4: its size is 2 to the power of this
 *		bit 5: it is another CPU than before; its number follows as a byte
 *		then the differences of pc and of address to those before
 *	other	bits 2 and 3:
 *		0  watch: number in the plan, difference of address, size, epoch
 *		1  unwatch: difference of address, size
 *		2  end: number of entries before it
 *
 * A number is written in groups of seven bits, the lowest first; all bytes but
 * the last have the top bit set. A difference d is written as the number 2d, or
 * -2d - 1 if it is negative. CPU, pc and address are 0 at the start; each watch
 * and unwatch sets the address too.
 */
#ifndef C2C_TAPE_H
#define C2C_TAPE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "records.h"

enum tape_what {
	TAPE_WATCH,
	TAPE_UNWATCH,
	TAPE_END,
	TAPE_ACCESS,
};

struct tape_entry {
	enum tape_what what;
	unsigned int cpu;	/* of an access, and its pc and kind */
	enum c2c_kind kind;
	uint64_t pc;
	uint64_t address, size;
	unsigned int watch;	/* of a watch: its number in the plan, and the epoch */
	uint16_t epoch;
};

/* Where a reader or a writer is. */
struct tape {
	FILE *file;
	unsigned int cpu;
	uint64_t pc, address, entries;
};

void tape_write(struct tape *tape, const struct tape_entry *entry);

/* Write the end. Returns false if anything could not be written. */
bool tape_end(struct tape *tape);

/* Read this file from its beginning, or end the program. The reader is all zero. */
void tape_open(struct tape *tape, const char *name);

/*
 * Read the next entry. Returns false at the end of the tape; ends the program if
 * the tape is cut off or damaged.
 */
bool tape_read(struct tape *tape, struct tape_entry *entry);

#endif
