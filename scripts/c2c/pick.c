// SPDX-License-Identifier: GPL-2.0
/*
 * Makes a tape (see tape.h) that has some objects alone:
 *
 *	pick TAPE OBJECTS OUT
 *
 * The lines of OBJECTS are
 *
 *	object WATCH ADDRESS SIZE	one that the tape does not tell of: it is there from the start
 *	there ADDRESS SIZE		one that it tells of
 *
 * Addresses are hexadecimal. What is kept are the accesses to the longest lines
 * that have bytes of these objects, so that a replay gives the same counts for
 * them, whatever its lines.
 */
#include <inttypes.h>

#include "die.h"
#include "model.h"
#include "tape.h"

static struct c2c_model *where;

static void add(struct tape *out, const char *text)
{
	struct tape_entry entry = { .what = TAPE_WATCH, .epoch = 1 };

	if (sscanf(text, "object %u %" SCNx64 " %" SCNu64, &entry.watch, &entry.address,
		   &entry.size) == 3)
		tape_write(out, &entry);
	else if (sscanf(text, "there %" SCNx64 " %" SCNu64, &entry.address, &entry.size) != 2)
		die("not understood in the objects: ", text);
	c2c_watch(where, entry.address, entry.size, 1);
}

static bool is_wanted(const struct tape_entry *entry)
{
	return c2c_watched(where, entry->address) ||
	       (entry->size && c2c_watched(where, entry->address + entry->size - 1));
}

int main(int argc, char **argv)
{
	struct c2c_shape any = { 1, 1, 1, 1 };
	struct tape in = { 0 }, out = { 0 };
	struct tape_entry entry;
	char text[256];
	FILE *objects;

	if (argc != 4)
		die("usage: see ", "pick.c");
	objects = fopen(argv[2], "r");
	out.file = fopen(argv[3], "w");
	if (!objects || !out.file)
		die("cannot be opened: ", objects ? argv[3] : argv[2]);
	where = c2c_new(&any, C2C_MAX_LINE);
	while (fgets(text, sizeof(text), objects))
		add(&out, text);
	tape_open(&in, argv[1]);
	while (tape_read(&in, &entry))
		if (is_wanted(&entry))
			tape_write(&out, &entry);
	return !tape_end(&out);
}
