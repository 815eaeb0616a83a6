/* SPDX-License-Identifier: GPL-2.0 */
/* What has to be known of an instruction, from its bytes: x86.c and aarch64.c. */
#ifndef C2C_ARCH_H
#define C2C_ARCH_H

#include <stddef.h>
#include <stdint.h>

/* What a guest's program marks with; guest.h writes the same instructions. */
enum mark {
	MARK_NONE,
	MARK_START,
	MARK_STOP,
	MARK_READY,
};

/* What of QEMU's reports on an instruction is to be counted, and as what. */
enum traffic {
	TRAFFIC_PLAIN,		/* each load and each store */
	TRAFFIC_ATOMIC,		/* load and store as one step */
	TRAFFIC_STORE,		/* the store alone: the instruction itself loads nothing */
	TRAFFIC_STACK,		/* nothing: it accesses the stack and nothing else */
};

/*
 * The marker that an instruction is: nopl 0x2cc2NNNN(%rax,%rax), NNNN being the number. A nop
 * to any CPU, and eight bytes that no compiler writes.
 */
enum mark x86_mark(const uint8_t *code, size_t size);

/*
 * Atomic is what has a lock prefix, and an xchg with memory; of the stack are push, pop, call,
 * return and leave.
 */
enum traffic x86_traffic(const uint8_t *code, size_t size);

/*
 * The marker that an instruction is: movz xzr, #0xc2cN, N being the number. What it moves is
 * thrown away, and no compiler writes it.
 */
enum mark aarch64_mark(const uint8_t *code, size_t size);

/*
 * Atomic are LD<op> and ST<op>, SWP, CAS and CASP, those of LSE. A pair of exclusives is a load
 * and a store, each where it stands: LDXR does not own the line, and may have no STXR behind
 * it. Where one thread runs all CPUs, QEMU 7.2 does a STXR as a compare-and-swap with what LDXR
 * has read, and reports that one's load; it reports nothing of a STXR that has lost its
 * monitor. (One that finds another value is reported as if it had stored: the turn of a CPU
 * would have to end between the two.) CASP, LDXP and STXP of 64-bit registers are two accesses
 * of 8 bytes. Of the stack is what has the stack pointer for its base: half of all accesses.
 */
enum traffic aarch64_traffic(const uint8_t *code, size_t size);

#endif
