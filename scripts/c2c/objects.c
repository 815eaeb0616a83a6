// SPDX-License-Identifier: GPL-2.0
/* See objects.h. */
#include <inttypes.h>
#include <string.h>

#include "die.h"
#include "internals.h"
#include "memory.h"
#include "objects.h"
#include "recorder.h"

#define MOST_HOPS 8
#define POINTER 8
#define NOWHERE (-1)

struct watch {
	char key[96];
	uint64_t address, size, hops[MOST_HOPS];
	unsigned int number_of_hops;
	bool is_per_cpu, is_allocated;
	int at[C2C_MAX_CPUS];		/* the object that this CPU's pointers lead to */
	bool was_found[C2C_MAX_CPUS];
};

struct object {
	const struct watch *watch;
	unsigned int cpu;		/* the first that led to it */
	unsigned int users;		/* CPUs that lead to it now */
	uint64_t address;
	uint16_t epoch;
};

static struct c2c_model *model;
static unsigned int cpus;
static uint64_t per_cpu_offsets;
static struct watch *watches;
static size_t number_of_watches;
static struct object *objects;
static size_t number_of_objects, room_of_objects;
static uint16_t epoch = 1;

/* Hash table of the addresses of followed pointers; 0 is an empty slot. */
static uint64_t *links;
static size_t number_of_links, room_of_links;

static uint64_t *link_slot(uint64_t address)
{
	size_t slot = c2c_hash(address);

	while (links[slot % room_of_links] && links[slot % room_of_links] != address)
		slot++;
	return &links[slot % room_of_links];
}

static void grow_links(void)
{
	uint64_t *old = links;
	size_t i, room = room_of_links;

	room_of_links = room ? 2 * room : 1024;
	links = c2c_allocate(room_of_links, sizeof(*links));
	for (i = 0; i < room; i++)
		if (old[i])
			*link_slot(old[i]) = old[i];
	free(old);
}

static void add_link(uint64_t address)
{
	uint64_t *slot;

	if (2 * (number_of_links + 1) > room_of_links)
		grow_links();
	slot = link_slot(address);
	number_of_links += !*slot;
	*slot = address;
	c2c_mind(model, address);
}

static uint64_t offset_of(unsigned int of, unsigned int cpu)
{
	uint64_t value;

	if (!internals_read(cpu, per_cpu_offsets + POINTER * of, &value, sizeof(value)))
		die("the guest maps no offsets of per-CPU variables", "");
	return value;
}

/* Find a CPU's object. Returns false if a pointer on the way is null, or an empty list. */
static bool locate(const struct watch *watch, unsigned int of, unsigned int cpu, uint64_t *address)
{
	uint64_t value;
	unsigned int i;

	*address = watch->address;
	if (watch->is_per_cpu && !watch->is_allocated)
		*address += offset_of(of, cpu);
	for (i = 0; i < watch->number_of_hops; i++) {
		add_link(*address);
		if (!internals_read(cpu, *address, &value, sizeof(value)))
			die("the guest maps nothing where a pointer should be: ", watch->key);
		if (!value || value == *address)
			return false;
		*address = value + watch->hops[i];
	}
	if (watch->is_allocated)
		*address += offset_of(of, cpu);
	return true;
}

/*
 * Return the object of a watch at an address. If no CPU's pointers lead to one
 * there, add a new one.
 */
static int object_at(struct watch *watch, unsigned int of, uint64_t address)
{
	unsigned int i;

	for (i = 0; i < cpus; i++)
		if (watch->at[i] != NOWHERE && objects[watch->at[i]].address == address)
			return watch->at[i];
	if (number_of_objects == room_of_objects) {
		room_of_objects = room_of_objects ? 2 * room_of_objects : 256;
		objects = c2c_grow(objects, room_of_objects, sizeof(*objects));
	}
	objects[number_of_objects] = (struct object){ watch, of, 0, address, epoch };
	return number_of_objects++;
}

static bool moved(struct watch *watch, unsigned int of, unsigned int cpu)
{
	uint64_t address;
	int before = watch->at[of], now = NOWHERE;

	if (locate(watch, of, cpu, &address))
		now = object_at(watch, of, address);
	if (now == before)
		return false;
	if (before != NOWHERE && !--objects[before].users)
		recorder_unwatch(objects[before].address, watch->size);
	watch->at[of] = now;
	if (now == NOWHERE)
		return true;
	objects[now].users++;
	watch->was_found[of] = true;
	return true;
}

static void look(unsigned int cpu)
{
	size_t before = number_of_objects, i;
	bool any = false;

	if (room_of_links)
		memset(links, 0, room_of_links * sizeof(*links));
	number_of_links = 0;
	for (i = 0; i < number_of_watches; i++) {
		unsigned int of, number = watches[i].is_per_cpu ? cpus : 1;

		for (of = 0; of < number; of++)
			any |= moved(&watches[i], of, cpu);
	}
	/* A removed object may have overlapped others: watch these again. */
	for (i = 0; any && i < number_of_objects; i++)
		if (objects[i].users)
			recorder_watch(objects[i].watch - watches, objects[i].address,
				       objects[i].watch->size, objects[i].epoch);
	if (number_of_objects > before && ++epoch == UINT16_MAX)
		die("objects come and go all the time", "");
}

static void read_watch(const char *text)
{
	struct watch *watch;
	char place[10], *end;
	unsigned int i;
	int used;

	watches = c2c_grow(watches, number_of_watches + 1, sizeof(*watches));
	watch = &watches[number_of_watches++];
	memset(watch, 0, sizeof(*watch));
	if (sscanf(text, "watch %95s %9s %" SCNx64 " %" SCNu64 "%n", watch->key, place,
		   &watch->address, &watch->size, &used) != 4)
		die("not understood in the plan: ", text);
	watch->is_allocated = !strcmp(place, "allocated");
	watch->is_per_cpu = watch->is_allocated || !strcmp(place, "percpu");
	for (i = 0; i < C2C_MAX_CPUS; i++)
		watch->at[i] = NOWHERE;
	for (text += used; ; text = end) {
		uint64_t hop = strtoull(text, &end, 10);

		if (end == text)
			return;
		if (watch->number_of_hops == MOST_HOPS)
			die("too many pointers to follow: ", watch->key);
		watch->hops[watch->number_of_hops++] = hop;
	}
}

static void expect(unsigned int cpu, uint64_t address, uint64_t value)
{
	uint64_t found;

	if (!internals_read(cpu, address, &found, sizeof(found)) || found != value)
		die("the guest's kernel is not where its vmlinux says: ",
		    "KASLR is on, or it is another one");
}

void objects_find(struct c2c_model *of, const char *plan, unsigned int number, unsigned int cpu)
{
	FILE *file = fopen(plan, "r");
	uint64_t address, value;
	char text[4096];

	if (!file)
		die("cannot be read: ", plan);
	model = of;
	cpus = number;
	while (fgets(text, sizeof(text), file)) {
		if (sscanf(text, "expect %" SCNx64 " %" SCNx64, &address, &value) == 2)
			expect(cpu, address, value);
		else if (sscanf(text, "offsets %" SCNx64, &per_cpu_offsets) != 1 &&
			 !memory_plan(text))
			read_watch(text);
	}
	fclose(file);
	look(cpu);
}

void objects_written(unsigned int cpu, uint64_t address, unsigned int size)
{
	uint64_t at;

	if (!room_of_links)
		return;
	for (at = address & ~(uint64_t)(POINTER - 1); at < address + size; at += POINTER) {
		if (*link_slot(at)) {
			look(cpu);
			return;
		}
	}
}

void objects_write(FILE *file)
{
	size_t i;
	unsigned int of;

	for (i = 0; i < number_of_objects; i++)
		fprintf(file, "object %s %u %" PRIx64 " %" PRIu64 " %u\n", objects[i].watch->key,
			objects[i].cpu, objects[i].address, objects[i].watch->size,
			objects[i].epoch);
	for (i = 0; i < number_of_watches; i++)
		for (of = 0; of < (watches[i].is_per_cpu ? cpus : 1); of++)
			if (!watches[i].was_found[of])
				fprintf(file, "absent %s %u\n", watches[i].key, of);
}

void objects_write_offsets(unsigned int cpu, FILE *file)
{
	unsigned int of;

	for (of = 0; of < cpus; of++)
		fprintf(file, "percpu %u %" PRIx64 "\n", of, offset_of(of, cpu));
}
