/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Plays a trace as if structures had another layout.
 *
 * A file says where objects and their bytes go. All numbers are decimal, but
 * addresses are hexadecimal. Its lines are
 *
 *	object WATCH ADDRESS SIZE NEW_ADDRESS NEW_SIZE
 *	named WATCH ADDRESS SIZE NEW_ADDRESS NEW_SIZE	one that the trace has no watch for
 *	piece WATCH OFFSET SIZE NEW_OFFSET
 *
 * WATCH is the number of the watch in the plan. Objects that are not named stay
 * where they are. An object of a watch with pieces has nothing else: accesses
 * to other bytes of it are left out. Memory beside an object stays beside it.
 */
#ifndef C2C_MOVES_H
#define C2C_MOVES_H

#include "tape.h"

typedef void (*play_t)(const struct tape_entry *entry);

/* Read the file, and play the moved entries with this function. */
void moves_begin(const char *file, play_t play);

/* Move an entry, and play what it becomes: any number of entries. */
void moves_apply(const struct tape_entry *entry);

#endif
