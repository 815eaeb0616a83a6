// SPDX-License-Identifier: GPL-2.0
/* See model.h. */
#include <stdlib.h>
#include <string.h>

#include "model.h"

#define PAGE_SHIFT 12
#define FILTER_BITS (1u << 20)

/* Objects begin and end at multiples of this number of bytes. */
#define GRANULE 8

/* A miss is open until it is known whether the fetched line is of use. */
struct open_miss {
	bool is_open;
	struct c2c_key what;
};

/* The arrays are as long as there are CPUs, bytes or granules. */
struct line {
	uint64_t address;
	uint64_t holders;
	uint64_t ever;			/* CPUs that have held it */
	uint32_t version;
	uint32_t occupied;		/* how many epochs are not zero */
	uint8_t owner;
	bool modified;
	struct c2c_records records;
	struct open_miss *misses;	/* of each CPU */
	uint32_t *essential;		/* version at each CPU's last essential miss */
	uint32_t *written;		/* version that last wrote each byte */
	uint16_t *epochs;		/* of the objects at each granule */
	uint8_t *writer;		/* of each byte */
};

struct c2c_model {
	struct c2c_shape shape;
	unsigned int line;
	bool everything, pairs;
	struct line **table;
	uint32_t room, used;
	uint64_t total;
	uint64_t filter[FILTER_BITS / 64];
};

struct c2c_model *c2c_new(const struct c2c_shape *shape, unsigned int line)
{
	struct c2c_model *model;

	if (!shape->cpus || shape->cpus > C2C_MAX_CPUS)
		return NULL;
	if (!shape->per_cluster || !shape->per_llc || !shape->per_node)
		return NULL;
	if (line != 64 && line != 128 && line != 256)
		return NULL;
	model = c2c_allocate(1, sizeof(*model));
	model->shape = *shape;
	model->line = line;
	model->room = 1024;
	model->table = c2c_allocate(model->room, sizeof(*model->table));
	return model;
}

static uint32_t slot_of(const struct c2c_model *model, uint64_t address)
{
	uint32_t slot = c2c_hash(address) & (model->room - 1);

	while (model->table[slot] && model->table[slot]->address != address)
		slot = (slot + 1) & (model->room - 1);
	return slot;
}

static void grow_table(struct c2c_model *model)
{
	struct line **old = model->table;
	uint32_t i, room = model->room;

	model->room *= 2;
	model->table = c2c_allocate(model->room, sizeof(*model->table));
	for (i = 0; i < room; i++)
		if (old[i])
			model->table[slot_of(model, old[i]->address)] = old[i];
	free(old);
}

static uint32_t filter_bit(uint64_t address)
{
	return c2c_hash(address >> PAGE_SHIFT) & (FILTER_BITS - 1);
}

void c2c_mind(struct c2c_model *model, uint64_t address)
{
	uint32_t bit = filter_bit(address);

	model->filter[bit / 64] |= 1ull << (bit % 64);
}

/* All in one piece: there are many lines, and they are never freed. */
static struct line *new_line(const struct c2c_model *model, uint64_t address)
{
	unsigned int cpus = model->shape.cpus, bytes = model->line;
	struct line *line = c2c_allocate(1, sizeof(*line) + cpus * sizeof(*line->misses) +
						    cpus * sizeof(*line->essential) +
						    bytes * sizeof(*line->written) +
						    bytes / GRANULE * sizeof(*line->epochs) + bytes);

	line->address = address;
	line->misses = (struct open_miss *)(line + 1);
	line->essential = (uint32_t *)(line->misses + cpus);
	line->written = line->essential + cpus;
	line->epochs = (uint16_t *)(line->written + bytes);
	line->writer = (uint8_t *)(line->epochs + bytes / GRANULE);
	return line;
}

static struct line *line_at(struct c2c_model *model, uint64_t address)
{
	uint32_t slot = slot_of(model, address);

	if (model->table[slot])
		return model->table[slot];
	if (2 * ++model->used > model->room) {
		grow_table(model);
		slot = slot_of(model, address);
	}
	model->table[slot] = new_line(model, address);
	return model->table[slot];
}

bool c2c_maybe_watched(const struct c2c_model *model, uint64_t address)
{
	uint32_t bit = filter_bit(address);

	return model->filter[bit / 64] >> (bit % 64) & 1;
}

static enum c2c_distance distance(const struct c2c_shape *shape, unsigned int one,
				  unsigned int other)
{
	if (one / shape->per_node != other / shape->per_node)
		return C2C_OTHER_NODE;
	if (one / shape->per_llc != other / shape->per_llc)
		return C2C_SAME_NODE;
	return one / shape->per_cluster == other / shape->per_cluster ? C2C_SAME_CLUSTER :
									C2C_SAME_LLC;
}

/* A line is fetched from the nearest cache that has it. */
static enum c2c_distance nearest(const struct c2c_shape *shape, const struct line *line,
				 unsigned int cpu)
{
	enum c2c_distance best = C2C_OTHER_NODE;
	uint64_t left;

	for (left = line->holders; left; left &= left - 1) {
		enum c2c_distance found = distance(shape, cpu, __builtin_ctzll(left));

		if (found < best)
			best = found;
	}
	return best;
}

/*
 * Whether another CPU has written any of these bytes since this CPU's last
 * essential miss.
 */
static bool brings_news(const struct line *line, unsigned int cpu, unsigned int offset,
			unsigned int size)
{
	unsigned int i;

	for (i = offset; i < offset + size; i++)
		if (line->written[i] > line->essential[cpu] && line->writer[i] != cpu)
			return true;
	return false;
}

static void close_miss(struct line *line, unsigned int cpu, bool essential)
{
	struct open_miss *miss = &line->misses[cpu];

	if (!miss->is_open)
		return;
	if (essential)
		c2c_record_of(&line->records, &miss->what)->counts.essential++;
	else
		c2c_record_of(&line->records, &miss->what)->counts.false_shared++;
	miss->is_open = false;
}

/* Record which object lies at a granule; an epoch of 0 means none. */
static void occupy(struct line *line, unsigned int granule, uint16_t epoch)
{
	line->occupied += !line->epochs[granule] - !epoch;
	line->epochs[granule] = epoch;
}

void c2c_watch(struct c2c_model *model, uint64_t address, uint64_t size, uint16_t epoch)
{
	uint64_t at, mask = model->line - 1;

	for (at = address & ~(uint64_t)(GRANULE - 1); at < address + size; at += GRANULE) {
		c2c_mind(model, at);
		occupy(line_at(model, at & ~mask), (at & mask) / GRANULE, epoch);
	}
}

/* Remove the line from all caches, but keep the counts. */
static void forget(const struct c2c_model *model, struct line *line)
{
	unsigned int cpu;

	for (cpu = 0; cpu < model->shape.cpus; cpu++)
		close_miss(line, cpu, false);
	line->holders = 0;
	line->modified = false;
	line->ever = 0;
	line->version = 0;
	memset(line->written, 0, model->line * sizeof(*line->written));
	memset(line->essential, 0, model->shape.cpus * sizeof(*line->essential));
}

void c2c_unwatch(struct c2c_model *model, uint64_t address, uint64_t size)
{
	uint64_t at, mask = model->line - 1;

	for (at = address & ~(uint64_t)(GRANULE - 1); at < address + size; at += GRANULE) {
		struct line *line = line_at(model, at & ~mask);

		occupy(line, (at & mask) / GRANULE, 0);
		if (!line->occupied && !model->everything)
			forget(model, line);
	}
}

/* NULL if there is none, unless everything is watched. */
static struct line *find_line(struct c2c_model *model, uint64_t address)
{
	address &= ~(uint64_t)(model->line - 1);
	return model->everything ? line_at(model, address) : model->table[slot_of(model, address)];
}

static bool is_watched(const struct c2c_model *model, const struct line *line)
{
	return line && (model->everything || line->occupied);
}

/* The other line of a pair comes along, as a copy that nobody has asked for. */
static void fetch_other(struct c2c_model *model, const struct line *line, unsigned int cpu)
{
	struct line *other = find_line(model, line->address ^ model->line);

	if (!is_watched(model, other) || other->holders >> cpu & 1)
		return;
	other->holders |= 1ull << cpu;
	other->modified = false;
}

/* Fetch the line into a CPU's cache. */
static void fetch(struct c2c_model *model, struct line *line, unsigned int cpu,
		  const struct c2c_key *what, struct c2c_counts *counts)
{
	if (line->modified)
		counts->hitm[distance(&model->shape, cpu, line->owner)]++;
	else if (line->holders)
		counts->clean[nearest(&model->shape, line, cpu)]++;
	else
		counts->cold++;
	line->misses[cpu].is_open = true;
	line->misses[cpu].what = *what;
	if (!(line->ever >> cpu & 1)) {
		line->ever |= 1ull << cpu;
		line->essential[cpu] = line->version;
		close_miss(line, cpu, true);
	}
	/* A modified line is written back when another CPU fetches it. */
	line->modified = false;
	if (model->pairs)
		fetch_other(model, line, cpu);
}

/* Invalidate all other copies. */
static void take_over(struct line *line, unsigned int cpu, struct c2c_counts *counts)
{
	uint64_t others = line->holders & ~(1ull << cpu), left;

	for (left = others; left; left &= left - 1)
		close_miss(line, __builtin_ctzll(left), false);
	counts->invalidated += __builtin_popcountll(others);
	line->holders = 1ull << cpu;
}

static void access_line(struct c2c_model *model, struct line *line, unsigned int cpu,
			const struct c2c_key *what)
{
	/* Valid to the end: a miss that is closed meanwhile has a record already. */
	struct c2c_record *record = c2c_record_of(&line->records, what);
	struct c2c_counts *counts = &record->counts;
	unsigned int offset = what->address - line->address, i;
	bool here = line->holders >> cpu & 1, alone = line->holders == 1ull << cpu;

	model->total++;
	counts->accesses++;
	record->cpus |= 1ull << cpu;
	if (!here)
		fetch(model, line, cpu, what, counts);
	else if (what->kind == C2C_LOAD || alone)
		counts->hits++;
	else
		counts->upgrades++;
	line->holders |= 1ull << cpu;
	if (line->misses[cpu].is_open && brings_news(line, cpu, offset, what->size)) {
		line->essential[cpu] = line->version;
		close_miss(line, cpu, true);
	}
	if (what->kind == C2C_LOAD)
		return;
	take_over(line, cpu, counts);
	line->modified = true;
	line->owner = cpu;
	line->version++;
	for (i = offset; i < offset + what->size; i++) {
		line->written[i] = line->version;
		line->writer[i] = cpu;
	}
}

void c2c_access(struct c2c_model *model, unsigned int cpu, enum c2c_kind kind, uint64_t address,
		unsigned int size, uint64_t pc)
{
	uint64_t end = address + size;

	if (cpu >= model->shape.cpus)
		return;
	while (address < end) {
		uint64_t first = address & ~(uint64_t)(model->line - 1);
		uint64_t stop = end < first + model->line ? end : first + model->line;
		struct line *line = find_line(model, first);
		struct c2c_key what = {
			.address = address,
			.pc = pc,
			.size = stop - address,
			.kind = kind,
		};

		if (is_watched(model, line)) {
			what.epoch = line->epochs[(address - first) / GRANULE];
			access_line(model, line, cpu, &what);
		}
		address = stop;
	}
}

void c2c_watch_everything(struct c2c_model *model)
{
	model->everything = true;
}

void c2c_fetch_pairs(struct c2c_model *model)
{
	model->pairs = true;
}

bool c2c_watched(struct c2c_model *model, uint64_t address)
{
	return is_watched(model, find_line(model, address));
}

uint16_t c2c_epoch_at(struct c2c_model *model, uint64_t address)
{
	const struct line *line = find_line(model, address);

	return line ? line->epochs[(address - line->address) / GRANULE] : 0;
}

void c2c_forget(struct c2c_model *model, uint64_t address)
{
	struct line *line = find_line(model, address);

	if (line)
		forget(model, line);
}

void c2c_sum(struct c2c_model *model, uint64_t address, struct c2c_counts *sum)
{
	const struct line *line = find_line(model, address);

	if (line)
		c2c_add_up(&line->records, sum);
}

uint64_t c2c_total(const struct c2c_model *model)
{
	return model->total;
}

/* A line that only one CPU has used says nothing about sharing. */
static bool is_written(const struct line *line)
{
	return line && (line->occupied || (line->ever & (line->ever - 1)));
}

static int by_address(const void *left, const void *right)
{
	uint64_t one = *(const uint64_t *)left, other = *(const uint64_t *)right;

	return (one > other) - (one < other);
}

void c2c_each_shared(struct c2c_model *model, void (*call)(uint64_t address))
{
	uint64_t *found = c2c_allocate(model->used + 1, sizeof(*found));
	uint32_t i, number = 0;

	for (i = 0; i < model->room; i++)
		if (is_written(model->table[i]))
			found[number++] = model->table[i]->address;
	qsort(found, number, sizeof(*found), by_address);
	for (i = 0; i < number; i++)
		call(found[i]);
	free(found);
}

void c2c_sum_private(const struct c2c_model *model, struct c2c_private *sum)
{
	uint32_t i;

	for (i = 0; i < model->room; i++) {
		struct c2c_counts counts = { 0 };

		if (!model->table[i] || is_written(model->table[i]))
			continue;
		c2c_add_up(&model->table[i]->records, &counts);
		sum->lines++;
		sum->accesses += counts.accesses;
		sum->misses += counts.accesses - counts.hits;
	}
}

void c2c_close(struct c2c_model *model)
{
	uint32_t i, cpu;

	for (i = 0; i < model->room; i++)
		for (cpu = 0; model->table[i] && cpu < model->shape.cpus; cpu++)
			close_miss(model->table[i], cpu, false);
}

long c2c_write(struct c2c_model *model, FILE *file)
{
	struct c2c_record *all;
	uint32_t i, j;
	size_t number = 0;

	c2c_close(model);
	for (i = 0; i < model->room; i++)
		if (model->table[i] && (!model->everything || is_written(model->table[i])))
			number += model->table[i]->records.used;
	all = c2c_allocate(number + 1, sizeof(*all));
	number = 0;
	for (i = 0; i < model->room; i++) {
		struct line *line = model->table[i];

		if (!line || (model->everything && !is_written(line)))
			continue;
		for (j = 0; j < line->records.room; j++)
			if (line->records.slots[j].used)
				all[number++] = line->records.slots[j];
	}
	c2c_write_records(all, number, file);
	free(all);
	return ferror(file) ? -1 : (long)number;
}
