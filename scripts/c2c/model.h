/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A model of coherent caches, for a few watched ranges of memory.
 *
 * Each CPU has a cache of its own that never runs full: a line leaves it when another CPU
 * writes, and for no other reason. There is no prefetcher, no store buffer and no time;
 * accesses come one after the other. A line is modified in one cache, exclusive in one, shared
 * in several, or in none.
 *
 * Misses are told apart as by Dubois and others, "The Detection and Elimination of Useless
 * Misses in Multiprocessors", ISCA 1993, with bytes for words. A miss is essential when it is
 * the CPU's first one on the line, or when, while it then holds the line, it touches a byte
 * that another CPU has written since its last essential miss. The others fetch what nobody
 * asked for: pure false sharing.
 *
 * Nothing here knows of QEMU.
 */
#ifndef C2C_MODEL_H
#define C2C_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define C2C_MAX_CPUS 64
#define C2C_MAX_LINE 256

enum c2c_kind {
	C2C_LOAD,
	C2C_STORE,
	C2C_RMW,		/* atomic: reads and writes at once */
	C2C_KINDS,
};

/* Where what a miss fetches comes from. */
enum c2c_distance {
	C2C_SAME_LLC,
	C2C_SAME_NODE,
	C2C_OTHER_NODE,
	C2C_DISTANCES,
};

/* What is counted for each (line, place, size, kind, instruction). */
struct c2c_counts {
	uint64_t accesses;
	uint64_t hits;
	uint64_t hitm[C2C_DISTANCES];	/* misses on a line that another CPU has modified */
	uint64_t clean[C2C_DISTANCES];	/* misses on a line that others have unmodified */
	uint64_t cold;			/* misses on a line that no cache has */
	uint64_t upgrades;		/* writes to a line that is here and elsewhere */
	uint64_t invalidated;		/* copies that these writes took from others */
	uint64_t essential;		/* misses, cold ones among them */
	uint64_t false_shared;		/* misses, the others */
};

struct c2c_record {
	uint64_t address;
	uint64_t pc;
	uint16_t size;
	uint8_t kind;
	bool used;
	struct c2c_counts counts;
};

struct c2c_model;

/*
 * A model of so many CPUs, with lines of 64, 128 or 256 bytes; so many CPUs, in order, share
 * an LLC, and a node. NULL where a number is impossible.
 */
struct c2c_model *c2c_new(unsigned int cpus, unsigned int line, unsigned int per_llc,
			  unsigned int per_node);

/* Watch all lines of a range. Lines may be watched more than once. */
void c2c_watch(struct c2c_model *model, uint64_t address, uint64_t size);

/* Whether a line of this page of 4096 bytes may be watched; never false where one is. */
bool c2c_maybe_watched(const struct c2c_model *model, uint64_t address);

/*
 * One access; what lies on no watched line is passed over. One that straddles lines is an
 * access to each.
 */
void c2c_access(struct c2c_model *model, unsigned int cpu, enum c2c_kind kind, uint64_t address,
		unsigned int size, uint64_t pc);

/* Forget all counts and what the caches hold. What is watched stays so. */
void c2c_reset(struct c2c_model *model);

/*
 * Decide what is still open, a held line whose fetch has not been of use, and write all
 * records, sorted. Returns how many there are, or -1 where they could not be written.
 */
long c2c_write(struct c2c_model *model, FILE *file);

/* Accesses to watched lines since the last reset. */
uint64_t c2c_total(const struct c2c_model *model);

#endif
