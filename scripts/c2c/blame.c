// SPDX-License-Identifier: GPL-2.0
/* See blame.h. */
#include <inttypes.h>
#include <string.h>

#include "blame.h"
#include "die.h"

#define MOST_GROUPS 64		/* of a block */

/* A field alone, or a block without a group, has this much room of its own. */
#define ROOM C2C_MAX_LINE

struct byte {
	uint32_t group;		/* 0: no field that is looked at */
	uint32_t field;		/* the offset of its first byte */
};

struct watch {
	struct byte *bytes;
	uint64_t size;
};

struct object {
	unsigned int watch;
	uint64_t address;
};

struct block {
	uint64_t address;
	uint32_t groups[MOST_GROUPS];
	uint32_t rooms[MOST_GROUPS];	/* of the block without this group */
	unsigned int number;
};

/* A field that is played alone. */
struct alone {
	uint64_t address;
	uint32_t group, room;
};

/*
 * A hash table from an address and a group to a number, which is 0 if they are not
 * there.
 */
struct table {
	struct { uint64_t key; uint32_t group, value; } *slots;
	uint32_t room, used;
};

static struct c2c_model *as_is, *moved;
static unsigned int line, block_size;
static struct watch *watches;
static size_t number_of_watches;
static struct object *objects;		/* in as_is, an epoch is an object's number, from 1 */
static size_t number_of_objects;
static struct block *blocks;
static size_t number_of_blocks;
static struct alone *alones;
static size_t number_of_alones;
static struct table block_at, alone_at;
static uint32_t groups, rooms = 1;

static void *grow(void *memory, size_t number, size_t size)
{
	memory = realloc(memory, number * size);
	if (!memory)
		die("out of memory", "");
	return memory;
}

static uint32_t slot_of(const struct table *table, uint64_t key, uint32_t group)
{
	uint32_t slot = c2c_hash(key + group) & (table->room - 1);

	while (table->slots[slot].value &&
	       (table->slots[slot].key != key || table->slots[slot].group != group))
		slot = (slot + 1) & (table->room - 1);
	return slot;
}

static uint32_t value_of(const struct table *table, uint64_t key, uint32_t group)
{
	return table->room ? table->slots[slot_of(table, key, group)].value : 0;
}

static void set_value(struct table *table, uint64_t key, uint32_t group, uint32_t value)
{
	struct table old = *table;
	uint32_t i, slot;

	if (2 * (table->used + 1) > table->room) {
		table->room = old.room ? 2 * old.room : 1024;
		table->used = 0;
		table->slots = c2c_allocate(table->room, sizeof(*table->slots));
		for (i = 0; i < old.room; i++)
			if (old.slots[i].value)
				set_value(table, old.slots[i].key, old.slots[i].group,
					  old.slots[i].value);
		free(old.slots);
	}
	slot = slot_of(table, key, group);
	table->used += !table->slots[slot].value;
	table->slots[slot].key = key;
	table->slots[slot].group = group;
	table->slots[slot].value = value;
}

static void add_field(unsigned int number, uint64_t offset, uint64_t size, uint32_t group)
{
	struct watch *watch;
	uint64_t i;

	if (group > groups)
		groups = group;
	for (; number_of_watches <= number; number_of_watches++) {
		watches = grow(watches, number_of_watches + 1, sizeof(*watches));
		memset(&watches[number_of_watches], 0, sizeof(*watches));
	}
	watch = &watches[number];
	if (watch->size < offset + size) {
		watch->bytes = grow(watch->bytes, offset + size, sizeof(*watch->bytes));
		memset(watch->bytes + watch->size, 0,
		       (offset + size - watch->size) * sizeof(*watch->bytes));
		watch->size = offset + size;
	}
	for (i = offset; i < offset + size; i++)
		watch->bytes[i] = (struct byte){ group, offset };
}

static void add_block(const char *text)
{
	struct block *block;
	char *end;
	uint32_t group;

	blocks = grow(blocks, number_of_blocks + 1, sizeof(*blocks));
	block = &blocks[number_of_blocks++];
	block->number = 0;
	block->address = strtoull(text, &end, 16);
	set_value(&block_at, block->address, 0, number_of_blocks);
	for (text = end; (group = strtoul(text, &end, 10)); text = end) {
		if (block->number == MOST_GROUPS)
			return;
		block->groups[block->number] = group;
		block->rooms[block->number++] = rooms++;
	}
}

/* The number of an object, which is added if it is new. */
static size_t object_of(unsigned int watch, uint64_t address)
{
	size_t i;

	for (i = 0; i < number_of_objects; i++)
		if (objects[i].watch == watch && objects[i].address == address)
			return i + 1;
	objects = grow(objects, number_of_objects + 1, sizeof(*objects));
	objects[number_of_objects++] = (struct object){ watch, address };
	if (number_of_objects == UINT16_MAX)
		die("too many objects", "");
	return number_of_objects;
}

void blame_begin(const char *name, struct c2c_model *first, struct c2c_model *second,
		 unsigned int bytes, bool pairs)
{
	FILE *file = fopen(name, "r");
	uint64_t offset, size;
	unsigned int watch, group;
	char text[4096];

	if (!file)
		die("cannot be read: ", name);
	as_is = first;
	moved = second;
	line = bytes;
	block_size = pairs ? 2 * line : line;
	while (fgets(text, sizeof(text), file)) {
		if (sscanf(text, "field %u %" SCNu64 " %" SCNu64 " %u", &watch, &offset, &size,
			   &group) == 4)
			add_field(watch, offset, size, group);
		else if (sscanf(text, "object %u %" SCNx64 " %" SCNu64, &watch, &offset, &size) == 3)
			c2c_watch(as_is, offset, size, object_of(watch, offset));
		else if (!strncmp(text, "block ", 6))
			add_block(text + 6);
		else
			die("not understood in the fields: ", text);
	}
	fclose(file);
}

/* The field of a byte; its `field` is then the address of the first byte. */
static uint32_t field_of(uint64_t address, uint64_t *field)
{
	uint16_t number = c2c_epoch_at(as_is, address);
	const struct object *object;
	uint64_t offset;

	if (!number)
		return 0;
	object = &objects[number - 1];
	offset = address - object->address;
	if (object->watch >= number_of_watches || offset >= watches[object->watch].size)
		return 0;
	*field = object->address + watches[object->watch].bytes[offset].field;
	return watches[object->watch].bytes[offset].group;
}

/* A group is part of the key: a union has fields of the same address. */
static uint32_t room_of(uint64_t field, uint32_t group)
{
	uint32_t number = value_of(&alone_at, field, group);

	if (!number) {
		alones = grow(alones, number_of_alones + 1, sizeof(*alones));
		alones[number_of_alones++] = (struct alone){ field, group, rooms++ };
		number = number_of_alones;
		set_value(&alone_at, field, group, number);
	}
	return alones[number - 1].room;
}

/* Part of an access: bytes of one field, or of none. */
struct part {
	uint64_t address, field;
	unsigned int size;
	uint32_t group;
};

static unsigned int split(const struct tape_entry *entry, uint64_t stop, struct part *parts)
{
	unsigned int number = 0;
	uint64_t at, field;

	for (at = entry->address; at < stop; at++) {
		uint32_t group;

		field = 0;
		group = field_of(at, &field);
		if (number && parts[number - 1].group == group && parts[number - 1].field == field)
			parts[number - 1].size++;
		else
			parts[number++] = (struct part){ at, field, 1, group };
	}
	return number;
}

static void play_in(uint32_t room, uint64_t offset, unsigned int size,
		    const struct tape_entry *entry)
{
	c2c_access(moved, entry->cpu, entry->kind, (uint64_t)room * ROOM + offset, size, 0);
}

static void play_group(const struct block *block, unsigned int number, const struct part *parts,
		       unsigned int length, const struct tape_entry *entry)
{
	uint32_t group = block->groups[number];
	uint64_t from = 0;
	unsigned int i, size = 0;

	for (i = 0; i < length; i++) {
		if (parts[i].group == group) {
			play_in(room_of(parts[i].field, group), parts[i].address - parts[i].field,
				parts[i].size, entry);
		} else if (size && parts[i].address == from + size) {
			size += parts[i].size;
		} else {
			if (size)
				play_in(block->rooms[number], from & (block_size - 1), size, entry);
			from = parts[i].address;
			size = parts[i].size;
		}
	}
	if (size)
		play_in(block->rooms[number], from & (block_size - 1), size, entry);
}

/* The part of an access that is on one line. */
static void play_line(const struct tape_entry *entry, uint64_t stop)
{
	struct part parts[C2C_MAX_LINE];
	unsigned int length, i;
	uint32_t number;

	if (!c2c_watched(as_is, entry->address))
		return;
	c2c_access(as_is, entry->cpu, entry->kind, entry->address, stop - entry->address, 0);
	number = value_of(&block_at, entry->address & ~(uint64_t)(block_size - 1), 0);
	if (!number)
		return;
	length = split(entry, stop, parts);
	for (i = 0; i < blocks[number - 1].number; i++)
		play_group(&blocks[number - 1], i, parts, length, entry);
}

/* What is no longer watched is in no cache any more, wherever it was moved. */
static void forget(uint64_t at)
{
	uint32_t number = value_of(&block_at, at & ~(uint64_t)(block_size - 1), 0);
	size_t i;

	for (i = 0; number && i < blocks[number - 1].number; i++)
		c2c_forget(moved, (uint64_t)blocks[number - 1].rooms[i] * ROOM +
					  (at & (block_size - 1)));
	for (i = 0; i < number_of_alones; i++) {
		uint64_t room = (uint64_t)alones[i].room * ROOM, offset;

		if ((alones[i].address & ~(uint64_t)(line - 1)) != at)
			continue;
		for (offset = 0; offset < ROOM; offset += line)
			c2c_forget(moved, room + offset);
	}
}

void blame_play(const struct tape_entry *entry)
{
	uint64_t mask = ~(uint64_t)(line - 1), at, stop, end = entry->address + entry->size;
	struct tape_entry part = *entry;

	switch (entry->what) {
	case TAPE_WATCH:
		c2c_watch(as_is, entry->address, entry->size,
			  object_of(entry->watch, entry->address));
		break;
	case TAPE_UNWATCH:
		c2c_unwatch(as_is, entry->address, entry->size);
		for (at = entry->address & mask; at < end; at += line)
			if (!c2c_watched(as_is, at))
				forget(at);
		break;
	default:
		for (; part.address < end; part.address = stop) {
			stop = (part.address & mask) + line;
			if (stop > end)
				stop = end;
			play_line(&part, stop);
		}
	}
}

/* The numbers of a group; the ways are: as it is, without it, it alone. */
struct sum {
	uint64_t misses[3], upgrades[3], inside;
};

static void add(struct c2c_model *model, uint64_t address, unsigned int size, struct sum *sum,
		unsigned int way)
{
	struct c2c_counts counts = { 0 };
	unsigned int offset;

	for (offset = 0; offset < size; offset += line)
		c2c_sum(model, address + offset, &counts);
	sum->misses[way] += counts.essential + counts.false_shared;
	sum->upgrades[way] += counts.upgrades;
	if (way == 2)
		sum->inside += counts.false_shared;
}

void blame_write(FILE *file)
{
	struct sum *sums = c2c_allocate(groups + 1, sizeof(*sums));
	uint32_t group;
	size_t i;
	unsigned int j;

	c2c_close(as_is);
	c2c_close(moved);
	for (i = 0; i < number_of_blocks; i++) {
		for (j = 0; j < blocks[i].number; j++) {
			group = blocks[i].groups[j];
			add(as_is, blocks[i].address, block_size, &sums[group], 0);
			add(moved, (uint64_t)blocks[i].rooms[j] * ROOM, ROOM, &sums[group], 1);
		}
	}
	for (i = 0; i < number_of_alones; i++)
		add(moved, (uint64_t)alones[i].room * ROOM, ROOM, &sums[alones[i].group], 2);
	for (group = 1; group <= groups; group++)
		fprintf(file,
			"group %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
			" %" PRIu64 " %" PRIu64 "\n",
			group, sums[group].misses[0], sums[group].misses[1],
			sums[group].misses[2], sums[group].upgrades[0], sums[group].upgrades[1],
			sums[group].upgrades[2], sums[group].inside);
	free(sums);
}
