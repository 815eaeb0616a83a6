// SPDX-License-Identifier: GPL-2.0
/* See tape.h. */
#define _GNU_SOURCE
#include "die.h"
#include "tape.h"

#define NO_ACCESS 3
#define OTHER_CPU 0x20
#define MOST_BITS 63
#define BUFFER (1 << 20)	/* of a reader */

static void put(struct tape *tape, uint64_t value)
{
	for (; value > 0x7f; value >>= 7)
		putc_unlocked(0x80 | (value & 0x7f), tape->file);
	putc_unlocked(value, tape->file);
}

static void put_difference(struct tape *tape, uint64_t *before, uint64_t now)
{
	uint64_t difference = now - *before;

	put(tape, difference << 1 ^ -(difference >> 63));
	*before = now;
}

static void put_access(struct tape *tape, const struct tape_entry *entry)
{
	unsigned int head = entry->kind | __builtin_ctzll(entry->size) << 2;

	if (entry->cpu != tape->cpu) {
		putc_unlocked(head | OTHER_CPU, tape->file);
		putc_unlocked(entry->cpu, tape->file);
		tape->cpu = entry->cpu;
	} else {
		putc_unlocked(head, tape->file);
	}
	put_difference(tape, &tape->pc, entry->pc);
	put_difference(tape, &tape->address, entry->address);
}

void tape_write(struct tape *tape, const struct tape_entry *entry)
{
	tape->entries++;
	if (entry->what == TAPE_ACCESS) {
		put_access(tape, entry);
		return;
	}
	putc_unlocked(NO_ACCESS | entry->what << 2, tape->file);
	if (entry->what == TAPE_WATCH)
		put(tape, entry->watch);
	put_difference(tape, &tape->address, entry->address);
	put(tape, entry->size);
	if (entry->what == TAPE_WATCH)
		put(tape, entry->epoch);
}

bool tape_end(struct tape *tape)
{
	putc_unlocked(NO_ACCESS | TAPE_END << 2, tape->file);
	put(tape, tape->entries);
	return !fflush(tape->file) && !ferror(tape->file);
}

void tape_open(struct tape *tape, const char *name)
{
	tape->file = fopen(name, "r");
	if (!tape->file)
		die("cannot be read: ", name);
	setvbuf(tape->file, NULL, _IOFBF, BUFFER);
}

static unsigned int get_byte(struct tape *tape)
{
	int byte = getc_unlocked(tape->file);

	if (byte == EOF)
		die("the trace is cut off", "");
	return byte;
}

static uint64_t get(struct tape *tape)
{
	uint64_t value = 0;
	unsigned int shift, byte;

	for (shift = 0; shift <= MOST_BITS; shift += 7) {
		byte = get_byte(tape);
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
	die("the trace is damaged: a number has too many bytes", "");
}

static uint64_t get_difference(struct tape *tape, uint64_t *before)
{
	uint64_t value = get(tape);

	return *before += value >> 1 ^ -(value & 1);
}

bool tape_read(struct tape *tape, struct tape_entry *entry)
{
	unsigned int head = get_byte(tape);

	if ((head & NO_ACCESS) != NO_ACCESS) {
		if (head & OTHER_CPU)
			tape->cpu = get_byte(tape);
		entry->what = TAPE_ACCESS;
		entry->kind = head & NO_ACCESS;
		entry->cpu = tape->cpu;
		entry->size = 1u << (head >> 2 & 7);
		entry->pc = get_difference(tape, &tape->pc);
		entry->address = get_difference(tape, &tape->address);
		tape->entries++;
		return true;
	}
	entry->what = head >> 2;
	switch (entry->what) {
	case TAPE_END:
		if (get(tape) != tape->entries)
			die("the trace is damaged: entries are missing", "");
		return false;
	case TAPE_WATCH:
		entry->watch = get(tape);
		break;
	case TAPE_UNWATCH:
		break;
	default:
		die("the trace is damaged: it has an unknown entry", "");
	}
	entry->address = get_difference(tape, &tape->address);
	entry->size = get(tape);
	if (entry->what == TAPE_WATCH)
		entry->epoch = get(tape);
	tape->entries++;
	return true;
}
