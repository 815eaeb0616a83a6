// SPDX-License-Identifier: GPL-2.0
/* See records.h. */
#include <inttypes.h>
#include <stdlib.h>

#include "die.h"
#include "records.h"

void *c2c_allocate(size_t number, size_t size)
{
	void *memory = calloc(number ? number : 1, size);

	if (!memory)
		die("out of memory", "");
	return memory;
}

void *c2c_grow(void *memory, size_t number, size_t size)
{
	memory = realloc(memory, number * size);
	if (!memory)
		die("out of memory", "");
	return memory;
}

uint32_t c2c_hash(uint64_t value)
{
	return (value * 0x9E3779B97F4A7C15ull) >> 32;
}

static bool is_same(const struct c2c_key *one, const struct c2c_key *other)
{
	return one->address == other->address && one->epoch == other->epoch &&
	       one->pc == other->pc && one->size == other->size && one->kind == other->kind;
}

static uint32_t slot_of(const struct c2c_records *records, const struct c2c_key *what)
{
	uint64_t value = what->pc * 31 + what->address * 8 + what->kind + what->size * 1024u +
			 what->epoch * 65599ull;
	uint32_t slot = c2c_hash(value) & (records->room - 1);

	while (records->slots[slot].used && !is_same(&records->slots[slot].key, what))
		slot = (slot + 1) & (records->room - 1);
	return slot;
}

static void grow(struct c2c_records *records)
{
	struct c2c_record *old = records->slots;
	uint32_t i, room = records->room;

	records->room = room ? 2 * room : 4;
	records->slots = c2c_allocate(records->room, sizeof(*records->slots));
	for (i = 0; i < room; i++)
		if (old[i].used)
			records->slots[slot_of(records, &old[i].key)] = old[i];
	free(old);
}

struct c2c_record *c2c_record_of(struct c2c_records *records, const struct c2c_key *what)
{
	uint32_t slot = records->room ? slot_of(records, what) : 0;

	if (records->room && records->slots[slot].used)
		return &records->slots[slot];
	if (2 * (records->used + 1) > records->room) {
		grow(records);
		slot = slot_of(records, what);
	}
	records->slots[slot].key = *what;
	records->slots[slot].used = true;
	records->used++;
	return &records->slots[slot];
}

void c2c_add_up(const struct c2c_records *records, struct c2c_counts *sum)
{
	uint64_t *to = (uint64_t *)sum;
	uint32_t i;
	size_t j;

	for (i = 0; i < records->room; i++) {
		const uint64_t *from = (const uint64_t *)&records->slots[i].counts;

		for (j = 0; records->slots[i].used && j < sizeof(*sum) / sizeof(*to); j++)
			to[j] += from[j];
	}
}

static int order(const void *left, const void *right)
{
	const struct c2c_key *one = &((const struct c2c_record *)left)->key;
	const struct c2c_key *other = &((const struct c2c_record *)right)->key;

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

	fprintf(file, "record %" PRIx64 " %u %u %s %" PRIx64, record->key.address,
		record->key.epoch, record->key.size, kinds[record->key.kind], record->key.pc);
	for (i = 0; i < sizeof(record->counts) / sizeof(*counts); i++)
		fprintf(file, " %" PRIu64, counts[i]);
	fprintf(file, " %" PRIx64 "\n", record->cpus);
}

void c2c_write_records(struct c2c_record *records, size_t number, FILE *file)
{
	size_t i;

	qsort(records, number, sizeof(*records), order);
	for (i = 0; i < number; i++)
		write_record(&records[i], file);
}
