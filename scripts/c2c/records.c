// SPDX-License-Identifier: GPL-2.0
/* See records.h. */
#include <inttypes.h>
#include <stdlib.h>

#include "die.h"
#include "records.h"

void *c2c_allocate(size_t number, size_t size)
{
	void *memory = calloc(number, size);

	if (!memory)
		die("out of memory", "");
	return memory;
}

uint32_t c2c_hash(uint64_t value)
{
	return (value * 0x9E3779B97F4A7C15ull) >> 32;
}

static bool is_same(const struct c2c_record *one, const struct c2c_record *other)
{
	return one->address == other->address && one->epoch == other->epoch &&
	       one->pc == other->pc && one->size == other->size && one->kind == other->kind;
}

static uint32_t slot_of(const struct c2c_records *records, const struct c2c_record *what)
{
	uint64_t value = what->pc * 31 + what->address * 8 + what->kind + what->size * 1024u +
			 what->epoch * 65599ull;
	uint32_t slot = c2c_hash(value) & (records->room - 1);

	while (records->slots[slot].used && !is_same(&records->slots[slot], what))
		slot = (slot + 1) & (records->room - 1);
	return slot;
}

struct c2c_counts *c2c_counts_of(struct c2c_records *records, const struct c2c_record *what)
{
	struct c2c_record *old = records->slots;
	uint32_t i, room = records->room, slot;

	if (2 * (records->used + 1) > room) {
		records->room = room ? 2 * room : 16;
		records->slots = c2c_allocate(records->room, sizeof(*records->slots));
		for (i = 0; i < room; i++)
			if (old[i].used)
				records->slots[slot_of(records, &old[i])] = old[i];
		free(old);
	}
	slot = slot_of(records, what);
	if (!records->slots[slot].used) {
		records->slots[slot] = *what;
		records->slots[slot].used = true;
		records->used++;
	}
	return &records->slots[slot].counts;
}

static int order(const void *left, const void *right)
{
	const struct c2c_record *one = left, *other = right;

	if (one->address != other->address)
		return one->address < other->address ? -1 : 1;
	if (one->epoch != other->epoch)
		return one->epoch < other->epoch ? -1 : 1;
	if (one->size != other->size)
		return one->size < other->size ? -1 : 1;
	if (one->kind != other->kind)
		return one->kind < other->kind ? -1 : 1;
	return (one->pc > other->pc) - (one->pc < other->pc);
}

static void write_record(const struct c2c_record *record, FILE *file)
{
	static const char *const kinds[C2C_KINDS] = { "load", "store", "rmw" };
	const uint64_t *counts = (const uint64_t *)&record->counts;
	size_t i;

	fprintf(file, "record %" PRIx64 " %u %u %s %" PRIx64, record->address, record->epoch,
		record->size, kinds[record->kind], record->pc);
	for (i = 0; i < sizeof(record->counts) / sizeof(*counts); i++)
		fprintf(file, " %" PRIu64, counts[i]);
	fputc('\n', file);
}

void c2c_write_records(struct c2c_record *records, size_t number, FILE *file)
{
	size_t i;

	qsort(records, number, sizeof(*records), order);
	for (i = 0; i < number; i++)
		write_record(&records[i], file);
}
