// SPDX-License-Identifier: GPL-2.0
/* Stubs of the symbols of QEMU that -D names, and what the plugin's calls make of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "internals.h"

int qemu_plugin_version = QEMU_API_VERSION;
static const uint8_t code[4] = { 0x0f, 0x1f, 0x84, 0x00 };

#ifdef CPU
/* CPU 0 maps only the lower half, CPU 1 both. */
void *qemu_get_cpu(int index) { return index < 2 ? (char *)1 + index : NULL; }
void cpu_exit(void *cpu) { printf("ended %d\n", (int)(long)cpu - 1); }
#endif
#ifdef DEBUG
int cpu_memory_rw_debug(void *cpu, uint64_t address, void *to, uint64_t size, bool is_write)
{
	if (is_write || (address >> 63 && cpu == (void *)1))
		return -1;
	memset(to, 'd', size);
	return 0;
}
#endif
#ifdef NEW
struct bytes { uint8_t *data; unsigned int size; };
struct bytes *g_byte_array_new(void) { return calloc(1, sizeof(struct bytes)); }
uint8_t *g_byte_array_free(struct bytes *bytes, int all) { free(bytes->data); free(bytes); return all ? NULL : NULL; }
bool qemu_plugin_read_memory_vaddr(uint64_t address, struct bytes *to, size_t size)
{
	to->data = malloc(size);
	to->size = size;
	memset(to->data, 'o', size);
	return !(address >> 63);
}
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *to, size_t size)
{
	memcpy(to, code, size < sizeof(code) ? size : sizeof(code));
	return sizeof(code);
}
#else
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn) { return code; }
#endif
#ifdef DATA
void qemu_plugin_set_pc(uint64_t pc) { (void)pc; }
#endif

static void read_at(uint64_t address)
{
	char text[9] = "";

	printf("%s\n", internals_read(0, address, text, 8) ? text : "nothing");
}

int main(void)
{
	const char *missing = internals_probe();

	printf("version %d, %s\n", qemu_plugin_version, missing ? missing : "complete");
	if (missing)
		return 0;
	printf("code %d\n", memcmp(internals_code(NULL), code, sizeof(code)));
	read_at(0x1000);
	read_at(0xffffffff81000000);
	internals_end_turn(1);
	return 0;
}
