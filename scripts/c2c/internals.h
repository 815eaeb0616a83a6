/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions that QEMU's plugin API lacks, or that differ between its versions.
 * All use of symbols outside the API is in internals.c. Symbols are looked up
 * when the plugin is loaded, so that one plugin serves several versions.
 */
#ifndef C2C_INTERNALS_H
#define C2C_INTERNALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "qemu_api.h"

/*
 * Look up the symbols that are needed. Returns the name of the first symbol
 * that this QEMU lacks, or NULL if it has all of them.
 */
const char *internals_probe(void);

/* The bytes of an instruction, until the next call. */
const uint8_t *internals_code(const struct qemu_plugin_insn *insn);

/*
 * Read the guest's memory at a virtual address, as this CPU maps it. It has to
 * be the running CPU. The API's own call is used where there is one. An arm64
 * CPU in user space cannot read kernel memory, not even for a debugger. Kernel
 * addresses are then read through another CPU that is in the kernel, such as an
 * idle one, which has the same mapping. Returns false if no CPU maps the
 * address.
 */
bool internals_read(unsigned int cpu, uint64_t address, void *to, size_t size);

/* End the turn of the running CPU, so that the next one runs. */
void internals_end_turn(unsigned int cpu);

#endif
