/* SPDX-License-Identifier: GPL-2.0 */
/* The model's counts for each address, size, kind of access and instruction. */
#ifndef C2C_RECORDS_H
#define C2C_RECORDS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum c2c_kind {
	C2C_LOAD,
	C2C_STORE,
	C2C_RMW,		/* atomic: reads and writes at once */
	C2C_KINDS,
};

/* Where a miss fetches the line from. */
enum c2c_distance {
	C2C_SAME_CLUSTER,
	C2C_SAME_LLC,
	C2C_SAME_NODE,
	C2C_OTHER_NODE,
	C2C_DISTANCES,
};

/* The counts of a record, in the order of the output. */
struct c2c_counts {
	uint64_t accesses;
	uint64_t hits;
	/* misses on a line that another CPU has modified */
	uint64_t hitm[C2C_DISTANCES];
	/* misses on a line that others have unmodified */
	uint64_t clean[C2C_DISTANCES];
	uint64_t cold;			/* misses on a line in no cache */
	uint64_t upgrades;		/* writes to a line shared with others */
	uint64_t invalidated;		/* copies invalidated by writes */
	uint64_t essential;		/* essential misses, cold or not */
	uint64_t false_shared;		/* all other misses */
};

/* What a record is about. */
struct c2c_key {
	uint64_t address;
	uint64_t pc;
	uint16_t epoch;		/* of the object; 0 if there is none */
	uint16_t size;
	uint8_t kind;
};

struct c2c_record {
	struct c2c_key key;
	bool used;
	uint64_t cpus;		/* a bit for each that made these accesses */
	struct c2c_counts counts;
};

/* A hash table of records. An empty table is all zero. */
struct c2c_records {
	struct c2c_record *slots;
	uint32_t room, used;
};

/*
 * Return a record, which is added if it does not exist. The pointer is valid
 * until another record is added.
 */
struct c2c_record *c2c_record_of(struct c2c_records *records, const struct c2c_key *what);

/* Add all counts of a table to a sum. */
void c2c_add_up(const struct c2c_records *records, struct c2c_counts *sum);

/* Sort an array of records, and write it; see write_record(). */
void c2c_write_records(struct c2c_record *records, size_t number, FILE *file);

/* Allocate zeroed memory, or end the program. */
void *c2c_allocate(size_t number, size_t size);

/* Give memory room for this many, more than none, or end the program. What is new in it is not set. */
void *c2c_grow(void *memory, size_t number, size_t size);

uint32_t c2c_hash(uint64_t value);

#endif
