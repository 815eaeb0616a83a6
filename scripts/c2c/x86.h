/* SPDX-License-Identifier: GPL-2.0 */
/* What has to be known of an x86-64 instruction, from its bytes. */
#ifndef C2C_X86_H
#define C2C_X86_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a guest's program marks with; c2c/guest.h has the same bytes. */
enum mark {
	MARK_NONE,
	MARK_START,
	MARK_STOP,
	MARK_READY,
};

/*
 * The marker that an instruction is: nopl 0x2cc2NNNN(%rax,%rax), NNNN being the number. A nop
 * to any CPU, and eight bytes that no compiler writes.
 */
enum mark x86_mark(const uint8_t *code, size_t size);

/* Whether it reads and writes memory as one step: a lock prefix, or an xchg with memory. */
bool x86_is_atomic(const uint8_t *code, size_t size);

/*
 * Whether it is a push, pop, call, return or leave: its only access to memory is to the stack.
 */
bool x86_is_stack(const uint8_t *code, size_t size);

#endif
