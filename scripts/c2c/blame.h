/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a field costs by its place: plays a trace, and beside it what would
 * happen if the field lay on a line of its own.
 *
 * Lines do not influence each other. So a field's move changes only the counts
 * of its line. For each line and each group of fields there, two more are
 * played: the line without these fields, and each of these fields alone.
 *
 * A file says which fields belong to a group, and which blocks to look at. A
 * block is a line, or a pair of lines if these are fetched together. Its lines
 * are
 *
 *	field WATCH OFFSET SIZE GROUP		decimal; groups count from 1
 *	block ADDRESS GROUP...			the address is hexadecimal
 *	object WATCH ADDRESS SIZE		one that the trace has no watch for
 *
 * The output has a line
 *
 *	group GROUP MISSES WITHOUT ALONE UPGRADES WITHOUT ALONE FALSE
 *
 * for each group: misses and upgrades on the blocks that have it, on these
 * blocks without its fields, and on its fields alone; and how many of the misses
 * on the fields alone are false sharing, between bytes of one field.
 */
#ifndef C2C_BLAME_H
#define C2C_BLAME_H

#include "model.h"
#include "tape.h"

/* `as_is` and `moved` are two new models; `moved` watches everything. */
void blame_begin(const char *file, struct c2c_model *as_is, struct c2c_model *moved,
		 unsigned int line, bool pairs);
void blame_play(const struct tape_entry *entry);
void blame_write(FILE *file);

#endif
