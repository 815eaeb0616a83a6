/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What QEMU's plugin API does not have, and QEMU's own symbols give. All that is not API is in
 * internals.c.
 */
#ifndef C2C_INTERNALS_H
#define C2C_INTERNALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Look for what is needed. The name of the first symbol that this QEMU lacks; NULL where all
 * are there.
 */
const char *internals_probe(void);

/*
 * Read the guest's memory at a virtual address, as this CPU maps it. An arm64 CPU that is in a
 * program may not read the kernel, not even for a debugger: another one that is in the kernel,
 * as one that idles is, maps the same. False where no CPU maps anything there.
 */
bool internals_read(unsigned int cpu, uint64_t address, void *to, size_t size);

/* Let the CPU that is running end its turn, so that the next one has its own. */
void internals_end_turn(unsigned int cpu);

#endif
