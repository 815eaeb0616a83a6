// SPDX-License-Identifier: GPL-2.0
/* See arch.h. Opcodes: Intel's Software Developer's Manual, volume 2, appendix A. */
#include <stdbool.h>
#include <string.h>

#include "arch.h"

enum mark x86_mark(const uint8_t *code, size_t size)
{
	static const uint8_t head[] = { 0x0f, 0x1f, 0x84, 0x00 };
	unsigned int number;

	if (size != 8 || memcmp(code, head, sizeof(head)) || code[6] != 0xc2 || code[7] != 0x2c)
		return MARK_NONE;
	number = code[4] | code[5] << 8;
	return number > MARK_NONE && number <= MARK_READY ? (enum mark)number : MARK_NONE;
}

static bool is_prefix(uint8_t byte)
{
	/* Operand size, repeat, and the six segments. */
	return byte == 0x66 || byte == 0xf2 || byte == 0xf3 || byte == 0x64 || byte == 0x65 ||
	       (byte & 0xe7) == 0x26;
}

static bool is_atomic(const uint8_t *code, size_t size)
{
	size_t i = 0;

	while (i < size && is_prefix(code[i]))
		i++;
	if (i < size && code[i] == 0xf0)
		return true;
	if (i < size && (code[i] & 0xf0) == 0x40)
		i++;
	return i + 1 < size && (code[i] == 0x86 || code[i] == 0x87) && code[i + 1] >> 6 != 3;
}

static bool is_stack(const uint8_t *code, size_t size)
{
	size_t i = size > 1 && (code[0] & 0xf0) == 0x40 ? 1 : 0;

	if (code[i] >= 0x50 && code[i] <= 0x5f)
		return true;
	/* call, near returns, leave, pushf and popf */
	return code[i] == 0xe8 || code[i] == 0xc3 || code[i] == 0xc2 || code[i] == 0xc9 ||
	       code[i] == 0x9c || code[i] == 0x9d;
}

enum traffic x86_traffic(const uint8_t *code, size_t size)
{
	if (is_stack(code, size))
		return TRAFFIC_STACK;
	return is_atomic(code, size) ? TRAFFIC_ATOMIC : TRAFFIC_PLAIN;
}
