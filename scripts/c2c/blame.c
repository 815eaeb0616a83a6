// SPDX-License-Identifier: GPL-2.0
/* See blame.h. */
#include <inttypes.h>
#include <string.h>

#include "blame.h"
#include "die.h"

#define MOST_GROUPS 64		/* of a block */

/* A field alone has this much room of its own. */
#define ROOM C2C_MAX_LINE

#define GRANULE 8		/* see model.c */

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

/*
 * A line of which only misses and upgrades are of interest: these depend on who
 * has it, and not on which bytes were written.
 */
struct lane {
	uint64_t holders, misses, upgrades;
};

/* A block has one line, or two that are fetched together. */
struct lanes {
	struct lane line[2];
};

struct block {
	uint64_t address;
	uint32_t groups[MOST_GROUPS];
	unsigned int number;
	struct lanes as_is, *without;	/* each group */
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
static struct table block_at, alone_at, object_at;
static uint32_t groups, rooms = 1;

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
		watches = c2c_grow(watches, number_of_watches + 1, sizeof(*watches));
		memset(&watches[number_of_watches], 0, sizeof(*watches));
	}
	watch = &watches[number];
	if (watch->size < offset + size) {
		watch->bytes = c2c_grow(watch->bytes, offset + size, sizeof(*watch->bytes));
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

	blocks = c2c_grow(blocks, number_of_blocks + 1, sizeof(*blocks));
	block = &blocks[number_of_blocks++];
	memset(block, 0, sizeof(*block));
	block->address = strtoull(text, &end, 16);
	set_value(&block_at, block->address, 0, number_of_blocks);
	for (text = end; (group = strtoul(text, &end, 10)); text = end) {
		if (block->number == MOST_GROUPS)
			break;
		block->groups[block->number++] = group;
	}
	block->without = c2c_allocate(block->number + 1, sizeof(*block->without));
}

/* The number of an object, which is added if it is new. */
static size_t object_of(unsigned int watch, uint64_t address)
{
	size_t number = value_of(&object_at, address, watch);

	if (number)
		return number;
	objects = c2c_grow(objects, number_of_objects + 1, sizeof(*objects));
	objects[number_of_objects++] = (struct object){ watch, address };
	if (number_of_objects == UINT16_MAX)
		die("too many objects", "");
	set_value(&object_at, address, watch, number_of_objects);
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

/* The field of a byte of an object; its `field` is then the address of the first byte. */
static uint32_t field_of(uint16_t number, uint64_t address, uint64_t *field)
{
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
		alones = c2c_grow(alones, number_of_alones + 1, sizeof(*alones));
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
	uint16_t object = 0;
	uint64_t at, field;

	for (at = entry->address; at < stop; at++) {
		uint32_t group;

		if (at == entry->address || !(at % GRANULE))
			object = c2c_epoch_at(as_is, at);
		field = 0;
		group = field_of(object, at, &field);
		if (number && parts[number - 1].group == group && parts[number - 1].field == field)
			parts[number - 1].size++;
		else
			parts[number++] = (struct part){ at, field, 1, group };
	}
	return number;
}

/* What the model does with an access, as far as it is counted here. */
static void visit(struct lanes *lanes, const struct tape_entry *entry, bool has_other)
{
	unsigned int which = (entry->address & (block_size - 1)) / line;
	struct lane *lane = &lanes->line[which];
	uint64_t own = 1ull << entry->cpu;

	if (!(lane->holders & own)) {
		lane->misses++;
		if (has_other)
			lanes->line[!which].holders |= own;
	} else if (entry->kind != C2C_LOAD && lane->holders != own) {
		lane->upgrades++;
	}
	lane->holders = entry->kind == C2C_LOAD ? lane->holders | own : own;
}

static bool is_more_than(const struct part *parts, unsigned int length, uint32_t group)
{
	unsigned int i;

	for (i = 0; i < length; i++)
		if (parts[i].group != group)
			return true;
	return false;
}

static void play_alone(const struct block *block, const struct part *part,
		       const struct tape_entry *entry)
{
	unsigned int i;
	uint64_t at = part->address - part->field;

	for (i = 0; i < block->number && block->groups[i] != part->group; i++)
		;
	if (!part->group || i == block->number)
		return;
	at += (uint64_t)room_of(part->field, part->group) * ROOM;
	c2c_access(moved, entry->cpu, entry->kind, at, part->size, 0);
}

/* The part of an access that is on one line. */
static void play_line(const struct tape_entry *entry, uint64_t stop)
{
	uint32_t number = value_of(&block_at, entry->address & ~(uint64_t)(block_size - 1), 0);
	struct part parts[C2C_MAX_LINE];
	struct block *block;
	unsigned int length, i;
	bool pairs = block_size > line;

	if (!number || !c2c_watched(as_is, entry->address))
		return;
	block = &blocks[number - 1];
	visit(&block->as_is, entry, pairs && c2c_watched(as_is, entry->address ^ line));
	length = split(entry, stop, parts);
	for (i = 0; i < block->number; i++)
		if (is_more_than(parts, length, block->groups[i]))
			visit(&block->without[i], entry, pairs);
	for (i = 0; i < length; i++)
		play_alone(block, &parts[i], entry);
}

/* What is no longer watched is in no cache any more, wherever it was moved. */
static void forget(uint64_t at)
{
	uint32_t number = value_of(&block_at, at & ~(uint64_t)(block_size - 1), 0);
	unsigned int which = (at & (block_size - 1)) / line;
	size_t i;

	if (number) {
		struct block *block = &blocks[number - 1];

		block->as_is.line[which].holders = 0;
		for (i = 0; i < block->number; i++)
			block->without[i].line[which].holders = 0;
	}
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

static void add(const struct lanes *lanes, struct sum *sum, unsigned int way)
{
	unsigned int i;

	for (i = 0; i < 2; i++) {
		sum->misses[way] += lanes->line[i].misses;
		sum->upgrades[way] += lanes->line[i].upgrades;
	}
}

static void add_alone(const struct alone *alone, struct sum *sum)
{
	struct c2c_counts counts = { 0 };
	unsigned int offset;

	for (offset = 0; offset < ROOM; offset += line)
		c2c_sum(moved, (uint64_t)alone->room * ROOM + offset, &counts);
	sum->misses[2] += counts.essential + counts.false_shared;
	sum->upgrades[2] += counts.upgrades;
	sum->inside += counts.false_shared;
}

void blame_write(FILE *file)
{
	struct sum *sums = c2c_allocate(groups + 1, sizeof(*sums));
	uint32_t group;
	size_t i;
	unsigned int j;

	c2c_close(moved);
	for (i = 0; i < number_of_blocks; i++) {
		for (j = 0; j < blocks[i].number; j++) {
			add(&blocks[i].as_is, &sums[blocks[i].groups[j]], 0);
			add(&blocks[i].without[j], &sums[blocks[i].groups[j]], 1);
		}
	}
	for (i = 0; i < number_of_alones; i++)
		add_alone(&alones[i], &sums[alones[i].group]);
	for (group = 1; group <= groups; group++)
		fprintf(file,
			"group %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
			" %" PRIu64 " %" PRIu64 "\n",
			group, sums[group].misses[0], sums[group].misses[1],
			sums[group].misses[2], sums[group].upgrades[0], sums[group].upgrades[1],
			sums[group].upgrades[2], sums[group].inside);
	free(sums);
}
