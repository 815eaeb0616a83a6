// SPDX-License-Identifier: GPL-2.0
/*
 * See internals.h. The prototypes of what is not in the API are those of QEMU
 * 7.2: include/exec/cpu-all.h, include/hw/core/cpu.h. QEMU exports these names
 * because plugins and modules are linked against it. They are not a stable
 * interface.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#include "internals.h"

struct cpu_state;

static struct cpu_state *(*find_cpu)(int index);
static int (*read_memory)(struct cpu_state *cpu, uint64_t address, void *buffer, uint64_t size,
			  bool is_write);
static void (*exit_loop)(struct cpu_state *cpu);

/* GLib's: QEMU links it, and only a few of its calls are needed here. */
struct byte_array {
	uint8_t *data;
	unsigned int size;
};

static struct byte_array *(*new_array)(void);
static uint8_t *(*free_array)(struct byte_array *array, int with_data);

/* Of API version 4. It reads as the running CPU maps the address. */
static bool (*read_official)(uint64_t address, struct byte_array *to, size_t size);

/* It returns a pointer before API version 3, and a number of bytes since then. */
static const void *(*code_of)(const struct qemu_plugin_insn *insn);
static size_t (*copy_code)(const struct qemu_plugin_insn *insn, void *to, size_t size);

/* Unlike ISO C, POSIX can convert an object pointer to a function pointer. */
static bool find(void *pointer, const char *name)
{
	*(void **)pointer = dlsym(RTLD_DEFAULT, name);
	return *(void **)pointer;
}

/*
 * QEMU compares this number with the versions that it supports before it calls
 * anything of the plugin, but after it has run its constructors.
 */
static void __attribute__((constructor)) choose_version(void)
{
	if (find(&read_official, "qemu_plugin_read_memory_vaddr"))
		qemu_plugin_version = QEMU_API_READS;
	if (dlsym(RTLD_DEFAULT, "qemu_plugin_set_pc"))
		qemu_plugin_version = QEMU_API_DATA;
}

const char *internals_probe(void)
{
	bool official = read_official && find(&new_array, "g_byte_array_new") &&
			find(&free_array, "g_byte_array_free");

	if (read_official ? !find(&copy_code, "qemu_plugin_insn_data") :
			    !find(&code_of, "qemu_plugin_insn_data"))
		return "qemu_plugin_insn_data";
	if (!find(&find_cpu, "qemu_get_cpu"))
		return "qemu_get_cpu";
	if (!find(&read_memory, "cpu_memory_rw_debug") && !official)
		return "cpu_memory_rw_debug";
	if (!find(&exit_loop, "cpu_exit"))
		return "cpu_exit";
	return NULL;
}

const uint8_t *internals_code(const struct qemu_plugin_insn *insn)
{
	static uint8_t code[16];

	if (!copy_code)
		return code_of(insn);
	copy_code(insn, code, sizeof(code));
	return code;
}

/* With the call of the API, if this QEMU has it. */
static bool read_here(uint64_t address, void *to, size_t size)
{
	struct byte_array *bytes = new_array ? new_array() : NULL;
	bool found;

	if (!bytes)
		return false;
	found = read_official(address, bytes, size) && bytes->size >= size;
	if (found)
		memcpy(to, bytes->data, size);
	free_array(bytes, true);
	return found;
}

bool internals_read(unsigned int cpu, uint64_t address, void *to, size_t size)
{
	struct cpu_state *state = find_cpu(cpu);
	int other;

	if (read_here(address, to, size))
		return true;
	if (!read_memory)
		return false;
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
