// SPDX-License-Identifier: GPL-2.0
/*
 * See internals.h. The prototypes are those of QEMU 7.2: include/exec/cpu-all.h,
 * include/hw/core/cpu.h. QEMU exports these names because plugins and modules
 * are linked against it. They are not a stable interface.
 */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "internals.h"

struct cpu_state;

static struct cpu_state *(*find_cpu)(int index);
static int (*read_memory)(struct cpu_state *cpu, uint64_t address, void *buffer, uint64_t size,
			  bool is_write);
static void (*exit_loop)(struct cpu_state *cpu);

/* Unlike ISO C, POSIX can convert an object pointer to a function pointer. */
static bool find(void *pointer, const char *name)
{
	*(void **)pointer = dlsym(RTLD_DEFAULT, name);
	return *(void **)pointer;
}

const char *internals_probe(void)
{
	if (!find(&find_cpu, "qemu_get_cpu"))
		return "qemu_get_cpu";
	if (!find(&read_memory, "cpu_memory_rw_debug"))
		return "cpu_memory_rw_debug";
	if (!find(&exit_loop, "cpu_exit"))
		return "cpu_exit";
	return NULL;
}

bool internals_read(unsigned int cpu, uint64_t address, void *to, size_t size)
{
	struct cpu_state *state = find_cpu(cpu);
	int other;

	if (state && !read_memory(state, address, to, size, false))
		return true;
	if (!(address >> 63))
		return false;
	for (other = 0; (state = find_cpu(other)); other++)
		if (!read_memory(state, address, to, size, false))
			return true;
	return false;
}

void internals_end_turn(unsigned int cpu)
{
	exit_loop(find_cpu(cpu));
}
