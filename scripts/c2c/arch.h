/* SPDX-License-Identifier: GPL-2.0 */
/* Classify an instruction by its bytes; see x86.c and aarch64.c. */
#ifndef C2C_ARCH_H
#define C2C_ARCH_H

#include <stddef.h>
#include <stdint.h>

/* The markers in a guest's program; guest.h emits these instructions. */
enum mark {
	MARK_NONE,
	MARK_START,
	MARK_STOP,
	MARK_READY,
};

/* Which of QEMU's reports on an instruction to count, and as what. */
enum traffic {
	TRAFFIC_PLAIN,		/* each load and each store */
	TRAFFIC_ATOMIC,		/* load and store as one step */
	TRAFFIC_STORE,		/* the store alone: the instruction itself loads nothing */
	TRAFFIC_STACK,		/* nothing: it only accesses the stack */
};

/*
 * Return the marker that this instruction is. A marker is
 * nopl 0x2cc2NNNN(%rax,%rax), where NNNN is the number. It is a nop to any CPU,
 * and no compiler emits these eight bytes.
 */
enum mark x86_mark(const uint8_t *code, size_t size);

/*
 * Atomic are instructions with a lock prefix, and xchg with memory. Stack
 * accesses are push, pop, pushf, popf, call, return and leave.
 */
enum traffic x86_traffic(const uint8_t *code, size_t size);

/*
 * Return the marker that this instruction is. A marker is movz xzr, #0xc2cN,
 * where N is the number. It has no effect, and no compiler emits it.
 */
enum mark aarch64_mark(const uint8_t *code, size_t size);

/*
 * Atomic are the LSE instructions LD<op>, ST<op>, SWP, CAS and CASP.
 *
 * A pair of exclusives counts as a load at the LDXR and a store at the STXR.
 * LDXR does not own the line, and a STXR need not follow it. When one thread
 * runs all CPUs, QEMU 7.2 emulates a STXR as a compare-and-swap with the value
 * that LDXR has read, and also reports the load of that compare-and-swap. It
 * does not report a STXR that has lost its monitor. A STXR that finds another
 * value is reported as if it had stored; this can only happen if the turn of a
 * CPU ends between LDXR and STXR.
 *
 * CASP, LDXP and STXP of 64-bit registers are two accesses of 8 bytes.
 *
 * Stack accesses are those with the stack pointer as base: half of all
 * accesses.
 */
enum traffic aarch64_traffic(const uint8_t *code, size_t size);

#endif
