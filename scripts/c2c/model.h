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

#include "records.h"

#define C2C_MAX_CPUS 64
#define C2C_MAX_LINE 256

/* So many CPUs, in order, share what; a cluster of one CPU is none. */
struct c2c_shape {
	unsigned int cpus, per_cluster, per_llc, per_node;
};

struct c2c_model;

/*
 * A model of such CPUs, with lines of 64, 128 or 256 bytes. NULL where a number is impossible.
 */
struct c2c_model *c2c_new(const struct c2c_shape *shape, unsigned int line);

/*
 * Watch all lines of an object. Memory may be used again: accesses to it are told apart by the
 * epoch, which is not 0, of the object that lies there last.
 */
void c2c_watch(struct c2c_model *model, uint64_t address, uint64_t size, uint16_t epoch);

/* The object is gone: what lies there is a stranger's, and lines without any are not watched. */
void c2c_unwatch(struct c2c_model *model, uint64_t address, uint64_t size);

/* Make c2c_maybe_watched() true of an address that somebody else asks for. */
void c2c_mind(struct c2c_model *model, uint64_t address);

/* Whether a line of this page of 4096 bytes may be watched; never false where one is. */
bool c2c_maybe_watched(const struct c2c_model *model, uint64_t address);

/*
 * One access; what lies on no watched line is passed over. One that straddles lines is an
 * access to each.
 */
void c2c_access(struct c2c_model *model, unsigned int cpu, enum c2c_kind kind, uint64_t address,
		unsigned int size, uint64_t pc);

/*
 * Decide what is still open, a held line whose fetch has not been of use, and write all
 * records, sorted. Returns how many there are, or -1 where they could not be written.
 */
long c2c_write(struct c2c_model *model, FILE *file);

/* Accesses to watched lines so far. */
uint64_t c2c_total(const struct c2c_model *model);

#endif
