/* SPDX-License-Identifier: GPL-2.0 */
/* What the model counts, for each place, size, kind of access and instruction. */
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

/* Where what a miss fetches comes from. */
enum c2c_distance {
	C2C_SAME_CLUSTER,
	C2C_SAME_LLC,
	C2C_SAME_NODE,
	C2C_OTHER_NODE,
	C2C_DISTANCES,
};

/* What is counted for each (place, size, kind, instruction), in the order of the output. */
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
	uint16_t epoch;		/* of the object there; 0 where none is watched, only its line */
	uint16_t size;
	uint8_t kind;
	bool used;
	struct c2c_counts counts;
};

/* A hash table of records; empty where all is zero. */
struct c2c_records {
	struct c2c_record *slots;
	uint32_t room, used;
};

/*
 * The counts of a record, which is added where there is none. The pointer holds until the
 * next call.
 */
struct c2c_counts *c2c_counts_of(struct c2c_records *records, const struct c2c_record *what);

/* Write records that were put behind each other, sorted; see write_record(). */
void c2c_write_records(struct c2c_record *records, size_t number, FILE *file);

/* Zeroed memory, or the end of the program. */
void *c2c_allocate(size_t number, size_t size);

uint32_t c2c_hash(uint64_t value);

#endif
