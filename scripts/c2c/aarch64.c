// SPDX-License-Identifier: GPL-2.0
/* See arch.h. Encodings: Arm's Architecture Reference Manual, C4.1.94, "Loads and Stores". */
#include <stdbool.h>

#include "arch.h"

#define STACK_POINTER 31

static uint32_t word_of(const uint8_t *code, size_t size)
{
	if (size != 4)
		return 0;
	return code[0] | code[1] << 8 | code[2] << 16 | (uint32_t)code[3] << 24;
}

enum mark aarch64_mark(const uint8_t *code, size_t size)
{
	uint32_t number, word = word_of(code, size);

	if ((word & 0xfffffe1f) != 0xd298581f)
		return MARK_NONE;
	number = word >> 5 & 0xf;
	return number > MARK_NONE && number <= MARK_READY ? (enum mark)number : MARK_NONE;
}

static bool is_atomic(uint32_t word)
{
	/*
	 * CAS has o2 and o1 set. CASP has only o1 set, and a size that STXP
	 * and LDXP cannot have.
	 */
	if ((word & 0x3fa07c00) == 0x08a07c00 || (word & 0xbfa07c00) == 0x08207c00)
		return true;
	/* LD<op> and SWP; others with o3 set, such as LDAPR, are not atomic. */
	return (word & 0x3f200c00) == 0x38200000 && (!(word & 0x8000) || !(word & 0x7000));
}

static bool is_store_exclusive(uint32_t word)
{
	/* STXR and STLXR; STXP and STLXP of 32 and 64 bits. */
	return (word & 0x3fe00000) == 0x08000000 || (word & 0xbfe00000) == 0x88200000;
}

static bool is_stack(uint32_t word)
{
	bool is_literal = (word & 0x3b000000) == 0x18000000;

	return (word & 0x0a000000) == 0x08000000 && !is_literal &&
	       (word >> 5 & 0x1f) == STACK_POINTER;
}

enum traffic aarch64_traffic(const uint8_t *code, size_t size)
{
	uint32_t word = word_of(code, size);

	if (is_stack(word))
		return TRAFFIC_STACK;
	if (is_store_exclusive(word))
		return TRAFFIC_STORE;
	return is_atomic(word) ? TRAFFIC_ATOMIC : TRAFFIC_PLAIN;
}
