// SPDX-License-Identifier: GPL-2.0
/*
 * Answers what lines of a structure would cost, again and again:
 *
 *	lines TAPE MAP ATOMS
 *
 * Lines do not influence each other: what happens on one follows from the
 * accesses to what lies on it. An atom is a piece of the structure that never
 * straddles lines. A question is a list of atoms that share a line, in decimal,
 * on a line of its own; an empty line ends a batch of questions, and is answered
 * with one line
 *
 *	MISSES
 *
 * for each, and another empty line: the sum over all objects of the structure,
 * whose lines are separate. They are those of model.h.
 *
 * The lines of MAP are
 *
 *	piece OFFSET SIZE ATOM		decimal; atoms count from 0
 *	object ADDRESS			hexadecimal
 *
 * Accesses of one CPU in a row are left out if they can change nothing, whatever
 * else lies on the line.
 */
#include <inttypes.h>
#include <string.h>

#include "die.h"
#include "tape.h"

#define NOTHING (-1)

struct event {
	uint32_t object;
	uint16_t atom;
	uint8_t cpu;
	bool store;
};

/* The run of accesses in which an atom of an object was last loaded, and stored to. */
struct seen {
	uint32_t load, store;
};

static uint64_t *objects;
static uint32_t *cpu_of;	/* of each object: who accessed it last, plus one */
static uint32_t *run_of;
static struct seen *seen;	/* by object and atom */
static size_t number_of_objects;

static int32_t *atom_at;	/* by offset */
static uint64_t size;
static unsigned int atoms;

static struct event *events;
static size_t number_of_events, room;

static uint64_t *bits;		/* by atom: which events are its own */
static size_t words;
static uint64_t *chosen, *holders;

static int by_address(const void *one, const void *other)
{
	uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;

	return a < b ? -1 : a > b;
}

static void read_map(const char *name)
{
	FILE *file = fopen(name, "r");
	uint64_t address, offset, length;
	unsigned int atom;
	char text[128];

	if (!file)
		die("cannot be read: ", name);
	while (fgets(text, sizeof(text), file)) {
		if (sscanf(text, "object %" SCNx64, &address) == 1) {
			objects = c2c_grow(objects, number_of_objects + 1, sizeof(*objects));
			objects[number_of_objects++] = address;
		} else if (sscanf(text, "piece %" SCNu64 " %" SCNu64 " %u", &offset, &length,
				  &atom) == 3 && atom < atoms) {
			if (size < offset + length)
				atom_at = c2c_grow(atom_at, offset + length, sizeof(*atom_at));
			for (; size < offset + length; size++)
				atom_at[size] = NOTHING;
			for (; length; length--)
				atom_at[offset++] = atom;
		} else {
			die("not understood in the map: ", text);
		}
	}
	fclose(file);
	qsort(objects, number_of_objects, sizeof(*objects), by_address);
	cpu_of = c2c_allocate(number_of_objects, sizeof(*cpu_of));
	run_of = c2c_allocate(number_of_objects, sizeof(*run_of));
	seen = c2c_allocate(number_of_objects * atoms, sizeof(*seen));
}

/* The object that a byte may belong to: the last one that begins before it. */
static long object_of(uint64_t address)
{
	size_t low = 0, high = number_of_objects;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (objects[middle] <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return (long)low - 1;
}

static void add(uint32_t object, unsigned int atom, unsigned int cpu, enum c2c_kind kind)
{
	struct seen *of = &seen[(size_t)object * atoms + atom];

	if (cpu_of[object] != cpu + 1) {
		cpu_of[object] = cpu + 1;
		run_of[object]++;
	}
	/* A store makes the line the CPU's own: until another CPU comes, nothing else happens. */
	if (of->store == run_of[object] || (kind == C2C_LOAD && of->load == run_of[object]))
		return;
	*(kind == C2C_LOAD ? &of->load : &of->store) = run_of[object];
	if (number_of_events == room) {
		room = room ? 2 * room : 1 << 16;
		events = c2c_grow(events, room, sizeof(*events));
	}
	events[number_of_events++] = (struct event){ object, atom, cpu, kind != C2C_LOAD };
}

static void load_access(const struct tape_entry *entry)
{
	uint64_t at, end = entry->address + entry->size;
	long object = object_of(entry->address);
	int32_t before = NOTHING;

	for (at = entry->address; at < end; at++) {
		uint64_t offset;
		int32_t atom;

		if (object + 1 < (long)number_of_objects && objects[object + 1] <= at)
			object++;
		offset = object < 0 ? size : at - objects[object];
		atom = offset < size ? atom_at[offset] : NOTHING;
		if (atom != NOTHING && atom != before)
			add(object, atom, entry->cpu, entry->kind);
		before = atom;
	}
}

static void load(const char *name)
{
	struct tape_entry entry;
	struct tape tape = { 0 };
	size_t i;

	tape_open(&tape, name);
	while (tape_read(&tape, &entry))
		if (entry.what == TAPE_ACCESS && number_of_objects)
			load_access(&entry);
	fclose(tape.file);
	words = (number_of_events + 63) / 64;
	bits = c2c_allocate(words * atoms, sizeof(*bits));
	chosen = c2c_allocate(words, sizeof(*chosen));
	holders = c2c_allocate(number_of_objects, sizeof(*holders));
	for (i = 0; i < number_of_events; i++)
		bits[events[i].atom * words + i / 64] |= 1ull << i % 64;
}

/* The first line of the output: the atoms that were accessed. */
static void write_used(void)
{
	unsigned int atom;
	size_t word;

	fputs("used", stdout);
	for (atom = 0; atom < atoms; atom++) {
		for (word = 0; word < words && !bits[atom * words + word]; word++)
			;
		if (word < words)
			printf(" %u", atom);
	}
	puts("");
}

static void answer(void)
{
	uint64_t misses = 0;
	size_t word;

	memset(holders, 0, number_of_objects * sizeof(*holders));
	for (word = 0; word < words; word++) {
		for (uint64_t left = chosen[word]; left; left &= left - 1) {
			const struct event *event = &events[word * 64 + __builtin_ctzll(left)];
			uint64_t *have = &holders[event->object], own = 1ull << event->cpu;

			misses += !(*have & own);
			*have = event->store ? own : *have | own;
		}
	}
	printf("%" PRIu64 "\n", misses);
}

/* Choose the events of the atoms that a question names. */
static void ask(char *text)
{
	char *end = text;

	memset(chosen, 0, words * sizeof(*chosen));
	for (;;) {
		unsigned long atom = strtoul(text, &end, 10);
		size_t word;

		if (end == text)
			break;
		if (atom >= atoms)
			die("there is no such atom: ", text);
		for (word = 0; word < words; word++)
			chosen[word] |= bits[atom * words + word];
		text = end;
	}
}

int main(int argc, char **argv)
{
	char *text = NULL;
	size_t length = 0;

	if (argc != 4)
		die("usage: see ", "lines.c");
	atoms = atoi(argv[3]);
	read_map(argv[2]);
	load(argv[1]);
	write_used();
	fflush(stdout);
	while (getline(&text, &length, stdin) > 0) {
		if (*text == '\n') {
			puts("");
			fflush(stdout);
			continue;
		}
		ask(text);
		answer();
	}
	return ferror(stdout);
}
