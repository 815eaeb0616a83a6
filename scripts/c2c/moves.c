// SPDX-License-Identifier: GPL-2.0
/* See moves.h. */
#include <inttypes.h>
#include <string.h>

#include "die.h"
#include "model.h"
#include "moves.h"

#define GRANULE 8
#define NOWHERE (-1)

struct object {
	unsigned int watch;
	uint64_t from, size, to, new_size;
};

/* The new offset of each byte of a watch's objects. */
struct pieces {
	int32_t *to;
	uint64_t size;
};

static play_t play;
static struct object *objects;
static size_t number_of_objects;
static struct pieces *pieces;
static size_t number_of_pieces;

/* Where the objects are now; its epochs are their numbers, from 1. */
static struct c2c_model *where;

static void add_object(const struct object *object)
{
	objects = c2c_grow(objects, number_of_objects + 1, sizeof(*objects));
	objects[number_of_objects++] = *object;
	if (number_of_objects == UINT16_MAX)
		die("too many objects are moved", "");
}

/* The trace has no watch for it, so it is there from the start. */
static void add_named(const struct object *object)
{
	add_object(object);
	c2c_watch(where, object->from, object->size, number_of_objects);
}

static void add_piece(unsigned int watch, uint64_t offset, uint64_t size, uint64_t to)
{
	struct pieces *of;
	uint64_t i;

	for (; number_of_pieces <= watch; number_of_pieces++) {
		pieces = c2c_grow(pieces, number_of_pieces + 1, sizeof(*pieces));
		memset(&pieces[number_of_pieces], 0, sizeof(*pieces));
	}
	of = &pieces[watch];
	if (of->size < offset + size) {
		of->to = c2c_grow(of->to, offset + size, sizeof(*of->to));
		for (; of->size < offset + size; of->size++)
			of->to[of->size] = NOWHERE;
	}
	for (i = 0; i < size; i++)
		of->to[offset + i] = to + i;
}

void moves_begin(const char *name, play_t function)
{
	struct c2c_shape any = { 1, 1, 1, 1 };
	FILE *file = fopen(name, "r");
	uint64_t offset, size, to;
	struct object object;
	unsigned int watch;
	char text[256];

	if (!file)
		die("cannot be read: ", name);
	play = function;
	where = c2c_new(&any, C2C_MAX_LINE);
	while (fgets(text, sizeof(text), file)) {
		if (sscanf(text, "object %u %" SCNx64 " %" SCNu64 " %" SCNx64 " %" SCNu64,
			   &object.watch, &object.from, &object.size, &object.to,
			   &object.new_size) == 5)
			add_object(&object);
		else if (sscanf(text,
				"named %u %" SCNx64 " %" SCNu64 " %" SCNx64 " %" SCNu64,
				&object.watch, &object.from, &object.size, &object.to,
				&object.new_size) == 5)
			add_named(&object);
		else if (sscanf(text, "piece %u %" SCNu64 " %" SCNu64 " %" SCNu64, &watch,
				&offset, &size, &to) == 4)
			add_piece(watch, offset, size, to);
		else
			die("not understood in the moves: ", text);
	}
	fclose(file);
}

static const struct object *object_at(uint64_t address)
{
	uint16_t number = c2c_epoch_at(where, address);

	return number ? &objects[number - 1] : NULL;
}

/* What lies beside an object stays beside it, on the longest of lines. */
static uint64_t beside(uint64_t address)
{
	uint64_t first = address & ~(uint64_t)(C2C_MAX_LINE - 1);
	uint64_t at = address & ~(uint64_t)(GRANULE - 1), near;
	const struct object *found;

	for (near = at; near > first; near -= GRANULE) {
		found = object_at(near - GRANULE);
		if (found)
			return address - (found->from + found->size) + found->to + found->new_size;
	}
	for (near = at + GRANULE; near < first + C2C_MAX_LINE; near += GRANULE) {
		found = object_at(near);
		if (found)
			return address - found->from + found->to;
	}
	return address;
}

/* Where a byte goes. Returns false if the new layout does not have it. */
static bool place(uint64_t address, uint64_t *to)
{
	const struct object *object = object_at(address);
	uint64_t offset;

	if (!object) {
		*to = beside(address);
		return true;
	}
	offset = address - object->from;
	if (offset >= object->size) {
		*to = object->to + object->new_size + offset - object->size;
		return true;
	}
	if (object->watch < number_of_pieces && pieces[object->watch].to) {
		const struct pieces *of = &pieces[object->watch];

		if (offset >= of->size || of->to[offset] == NOWHERE)
			return false;
		offset = of->to[offset];
	}
	*to = object->to + offset;
	return true;
}

/* Bytes that are still in a row remain one access. */
static void move_access(const struct tape_entry *entry)
{
	struct tape_entry part = *entry;
	uint64_t at, to = 0;

	/* Most accesses are to lines on which nothing moves. */
	if (!c2c_watched(where, entry->address) &&
	    !c2c_watched(where, entry->address + entry->size - 1)) {
		play(entry);
		return;
	}
	part.size = 0;
	for (at = entry->address; at < entry->address + entry->size; at++) {
		bool kept = place(at, &to);

		if (kept && part.size && to == part.address + part.size) {
			part.size++;
			continue;
		}
		if (part.size)
			play(&part);
		part.address = to;
		part.size = kept;
	}
	if (part.size)
		play(&part);
}

static uint16_t number_of(const struct tape_entry *entry)
{
	size_t i;

	if (entry->what == TAPE_UNWATCH)
		return c2c_epoch_at(where, entry->address);
	for (i = 0; i < number_of_objects; i++)
		if (objects[i].watch == entry->watch && objects[i].from == entry->address)
			return i + 1;
	return 0;
}

void moves_apply(const struct tape_entry *entry)
{
	struct tape_entry moved = *entry;
	uint16_t number;

	if (entry->what == TAPE_ACCESS) {
		move_access(entry);
		return;
	}
	number = number_of(entry);
	if (number) {
		moved.address = objects[number - 1].to;
		moved.size = objects[number - 1].new_size;
		if (entry->what == TAPE_WATCH)
			c2c_watch(where, entry->address, entry->size, number);
		else
			c2c_unwatch(where, entry->address, entry->size);
	}
	play(&moved);
}
