/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A model of coherent caches, for a few watched ranges of memory.
 *
 * Each CPU has its own cache, which never runs full: a line leaves it only when
 * another CPU writes to the line. There is no prefetcher, no store buffer and
 * no time; accesses happen one after the other. A line is modified in one
 * cache, exclusive in one, shared in several, or in none.
 *
 * Misses are classified as in Dubois and others, "The Detection and Elimination
 * of Useless Misses in Multiprocessors", ISCA 1993, with bytes instead of
 * words. A miss is essential if it is the CPU's first one on the line. It is
 * also essential if the CPU, while it then holds the line, accesses a byte that
 * another CPU has written since this CPU's last essential miss. All other
 * misses are pure false sharing.
 *
 * The model is independent of QEMU.
 */
#ifndef C2C_MODEL_H
#define C2C_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "records.h"

#define C2C_MAX_CPUS 64
#define C2C_MAX_LINE 256

/*
 * How many consecutive CPUs share a cluster, an LLC and a node. Clusters of one
 * CPU mean that there are no clusters.
 */
struct c2c_shape {
	unsigned int cpus, per_cluster, per_llc, per_node;
};

struct c2c_model;

/*
 * Create a model of these CPUs, with lines of 64, 128 or 256 bytes. Returns
 * NULL if a number is invalid.
 */
struct c2c_model *c2c_new(const struct c2c_shape *shape, unsigned int line);

/*
 * Watch all lines of an object. Memory may be reused: an access is recorded
 * with the epoch of the latest object at its address. The epoch must not be 0.
 */
void c2c_watch(struct c2c_model *model, uint64_t address, uint64_t size, uint16_t epoch);

/*
 * The object is gone. Its memory no longer belongs to a watched object. Lines
 * that then hold no watched object are not watched any more.
 */
void c2c_unwatch(struct c2c_model *model, uint64_t address, uint64_t size);

/*
 * Count all accesses. Lines that hold no watched object have the epoch 0, and are
 * written only if several CPUs have used them. Caches keep the lines of objects
 * that are gone.
 */
void c2c_watch_everything(struct c2c_model *model);

/*
 * A fetch also brings the other line of its pair, as the adjacent-line
 * prefetcher does. Such a line is in the cache, but nothing has missed on it.
 */
void c2c_fetch_pairs(struct c2c_model *model);

/* Whether the line of this address is watched. */
bool c2c_watched(struct c2c_model *model, uint64_t address);

/* The epoch of the object at this address, or 0 if there is none. */
uint16_t c2c_epoch_at(struct c2c_model *model, uint64_t address);

/* Remove the line of this address from all caches. Its counts stay. */
void c2c_forget(struct c2c_model *model, uint64_t address);

/* Count misses that are still open as false sharing: nothing follows any more. */
void c2c_close(struct c2c_model *model);

/* Add the counts of a line to a sum. */
void c2c_sum(struct c2c_model *model, uint64_t address, struct c2c_counts *sum);

/*
 * Make c2c_maybe_watched() return true for this address although the model may
 * not watch it.
 */
void c2c_mind(struct c2c_model *model, uint64_t address);

/*
 * Whether a line of this page of 4096 bytes may be watched. There are false
 * positives, but no false negatives.
 */
bool c2c_maybe_watched(const struct c2c_model *model, uint64_t address);

/*
 * Model one access. Lines that are not watched are ignored. An access that
 * straddles lines counts as an access to each.
 */
void c2c_access(struct c2c_model *model, unsigned int cpu, enum c2c_kind kind, uint64_t address,
		unsigned int size, uint64_t pc);

/*
 * Close the misses, and write all records, sorted. Returns the number of records,
 * or -1 on a write error.
 */
long c2c_write(struct c2c_model *model, FILE *file);

/* Call a function with the address of each line that would be written. */
void c2c_each_shared(struct c2c_model *model, void (*call)(uint64_t address));

/* What the lines that are not written add up to. */
struct c2c_private {
	uint64_t lines, accesses, misses;
};

void c2c_sum_private(const struct c2c_model *model, struct c2c_private *sum);

/* Accesses to watched lines so far. */
uint64_t c2c_total(const struct c2c_model *model);

#endif
