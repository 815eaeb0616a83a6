// SPDX-License-Identifier: GPL-2.0
/*
 * A plugin of QEMU that feeds the guest's accesses to the model, between the
 * start and the stop marker of a program in the guest.
 *
 * Arguments: plan=FILE, out=FILE, trace=FILE (see tape.h), line=BYTES,
 * quantum=BLOCKS (0: QEMU's own turns), cluster=CPUS, llc=CPUS, node=CPUS (this
 * number of consecutive CPUs share one), user=on (user-space instructions too),
 * everything=on (all of the kernel's memory, not only what the plan lists).
 *
 * The plan lists what to watch; see objects.h. The output consists of the
 * objects and then the records of the model. It ends with a line `end` and the
 * number of records: an output without this line is incomplete. Nothing is
 * written before the stop marker.
 *
 * Before the ready marker, nothing is instrumented and no turn is cut short. At
 * the marker, everything is translated again. The scheduler then runs for a
 * while before the program reaches the start marker, so it is warm.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch.h"
#include "die.h"
#include "internals.h"
#include "memory.h"
#include "model.h"
#include "objects.h"
#include "qemu_api.h"
#include "recorder.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int qemu_plugin_version = QEMU_API_VERSION;
EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
			       char **argv);

static struct {
	char *plan, *out, *trace;
	unsigned long line, quantum, cluster, llc, node;
	bool user, everything;
} option = { .line = 64, .cluster = 1, .llc = C2C_MAX_CPUS, .node = C2C_MAX_CPUS };

static const struct arch {
	const char *name;
	enum mark (*mark)(const uint8_t *code, size_t size);
	enum traffic (*traffic)(const uint8_t *code, size_t size);
	bool maps_devices;		/* among memory, not at fixed places alone */
} arches[] = {
	{ "x86_64", x86_mark, x86_traffic, false },
	{ "aarch64", aarch64_mark, aarch64_traffic, true },
};

static const struct arch *arch;

static struct c2c_model *model;
static unsigned int cpus;
static qemu_plugin_id_t own_id;
static bool instrumented, started, counting;
static unsigned long blocks;
static uint64_t callbacks;

/*
 * The upper bits of an address are all equal, so this bit can be used as a
 * flag: inverted, it marks the pc of an atomic instruction.
 */
#define ATOMIC (1ull << 62)

static void start(unsigned int cpu)
{
	if (!instrumented)
		die("a start marker that no ready marker came before", "");
	if (started)
		die("a second start marker", "");
	objects_find(model, option.plan, cpus, cpu);
	memory_begin(cpu);
	started = counting = true;
}

static void write_memory(unsigned int cpu, FILE *file)
{
	struct c2c_private private = { 0 };

	objects_write_offsets(cpu, file);
	memory_write(model, cpu, file);
	c2c_sum_private(model, &private);
	fprintf(file, "private %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", private.lines,
		private.accesses, private.misses);
}

static void stop(unsigned int cpu)
{
	FILE *file;
	long number;

	if (!counting)
		die("a stop marker without a start", "");
	counting = false;
	recorder_end();
	file = fopen(option.out, "w");
	if (!file)
		die("cannot be written: ", option.out);
	fprintf(file, "c2c-raw 3\nmachine %u %lu %lu %lu %lu %lu\n", cpus, option.line,
		option.cluster, option.llc, option.node, option.quantum);
	objects_write(file);
	if (option.everything)
		write_memory(cpu, file);
	number = c2c_write(model, file);
	fprintf(file, "seen %" PRIu64 " %" PRIu64 "\n", callbacks, c2c_total(model));
	fprintf(file, "end %ld\n", number);
	if (number < 0 || ferror(file) || fclose(file))
		die("cannot be written: ", option.out);
}

static void on_translation(uint64_t id_or_tb, void *tb_or_data);

static void instrument(uint64_t id_or_data)
{
	(void)id_or_data;
	instrumented = true;
	qemu_plugin_register_vcpu_tb_trans_cb(own_id, on_translation, NULL);
}

static void on_mark(unsigned int cpu, void *data)
{
	switch ((enum mark)(uintptr_t)data) {
	case MARK_READY:
		if (!instrumented)
			qemu_plugin_reset(own_id, instrument, NULL);
		break;
	case MARK_START:
		start(cpu);
		break;
	default:
		stop(cpu);
	}
}

static bool is_device(qemu_plugin_meminfo_t info, uint64_t address)
{
	struct qemu_plugin_hwaddr *physical;

	if (!arch->maps_devices || !memory_is_mapped(address))
		return false;
	physical = qemu_plugin_get_hwaddr(info, address);
	return physical && qemu_plugin_hwaddr_is_io(physical);
}

static void on_access(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
	bool is_store = qemu_plugin_mem_is_store(info);
	uint64_t pc = (uintptr_t)data;
	bool is_atomic = (pc ^ pc >> 1) & ATOMIC;
	enum c2c_kind kind = is_store ? C2C_STORE : C2C_LOAD;
	unsigned int size = 1u << qemu_plugin_mem_size_shift(info);

	if (!counting)
		return;
	callbacks++;
	if (option.everything ? !memory_is_kernel(address) : !c2c_maybe_watched(model, address))
		return;
	if (option.everything && is_device(info, address))
		return;
	/*
	 * When one thread runs all CPUs, QEMU reports an atomic instruction
	 * as a load and a store.
	 */
	if (is_atomic) {
		kind = C2C_RMW;
		pc ^= ATOMIC;
	}
	if (!is_atomic || !is_store)
		recorder_access(cpu, kind, address, size, pc);
	if (is_store)
		objects_written(cpu, address, size);
}

/* QEMU 7.2 accepts a callback for stores only, but calls it for loads, too. */
static void on_store(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
	if (qemu_plugin_mem_is_store(info))
		on_access(cpu, info, address, data);
}

static void on_stack(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
	if (counting)
		memory_is_stack(address);
	on_access(cpu, info, address, data);
}

static void on_block(unsigned int cpu, void *data)
{
	(void)data;
	if (++blocks < option.quantum)
		return;
	blocks = 0;
	internals_end_turn(cpu);
}

static void watch_for_mark(struct qemu_plugin_insn *insn, enum mark mark)
{
	qemu_plugin_register_vcpu_insn_exec_cb(insn, on_mark, QEMU_PLUGIN_CB_NO_REGS,
					       (void *)(uintptr_t)mark);
}

static void on_translation(uint64_t id_or_tb, void *tb_or_data)
{
	bool tb_is_first = qemu_plugin_version >= QEMU_API_DATA;
	struct qemu_plugin_tb *tb = tb_is_first ? (void *)(uintptr_t)id_or_tb : tb_or_data;
	size_t i, number = qemu_plugin_tb_n_insns(tb);

	if (!instrumented && qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, 0)) >> 63)
		return;
	if (instrumented && option.quantum)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_NO_REGS, NULL);
	for (i = 0; i < number; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		const uint8_t *code = internals_code(insn);
		size_t size = qemu_plugin_insn_size(insn);
		uint64_t pc = qemu_plugin_insn_vaddr(insn);
		qemu_plugin_vcpu_mem_cb_t callback = on_access;
		bool in_kernel = pc >> 63;

		if (!in_kernel) {
			enum mark mark = arch->mark(code, size);

			if (mark != MARK_NONE)
				watch_for_mark(insn, mark);
			if (!option.user)
				continue;
		}
		if (!instrumented)
			continue;
		switch (arch->traffic(code, size)) {
		case TRAFFIC_STACK:
			if (!option.everything)
				continue;
			callback = on_stack;
			break;
		case TRAFFIC_ATOMIC:
			pc ^= ATOMIC;
			break;
		case TRAFFIC_STORE:
			callback = on_store;
			break;
		default:
			break;
		}
		qemu_plugin_register_vcpu_mem_cb(insn, callback, QEMU_PLUGIN_CB_NO_REGS,
						 QEMU_PLUGIN_MEM_RW, (void *)(uintptr_t)pc);
	}
}

static bool take(const char *argument, const char *name, char **value)
{
	size_t length = strlen(name);

	if (strncmp(argument, name, length) || argument[length] != '=')
		return false;
	*value = strdup(argument + length + 1);
	return true;
}

static bool read_option(const char *argument)
{
	struct {
		const char *name;
		unsigned long *value;
	} numbers[] = {
		{ "line", &option.line }, { "quantum", &option.quantum },
		{ "cluster", &option.cluster }, { "llc", &option.llc }, { "node", &option.node },
	};
	char *value, *end;
	size_t i;

	if (take(argument, "plan", &option.plan) || take(argument, "out", &option.out) ||
	    take(argument, "trace", &option.trace))
		return true;
	if (!strcmp(argument, "user=on"))
		return option.user = true;
	if (!strcmp(argument, "everything=on"))
		return option.everything = true;
	for (i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		if (!take(argument, numbers[i].name, &value))
			continue;
		*numbers[i].value = strtoul(value, &end, 10);
		return *value && !*end;
	}
	return false;
}

static const struct arch *find_arch(const qemu_info_t *info)
{
	size_t i;

	for (i = 0; i < sizeof(arches) / sizeof(*arches); i++)
		if (info->system_emulation && !strcmp(info->target_name, arches[i].name))
			return &arches[i];
	return NULL;
}

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	const char *missing = internals_probe();
	struct c2c_shape shape;
	int i;

	own_id = id;
	if (missing) {
		fprintf(stderr, "c2c: this QEMU lacks %s\n", missing);
		return 1;
	}
	arch = find_arch(info);
	if (!arch) {
		fprintf(stderr, "c2c: made for machines of x86_64 and aarch64, not for %s\n",
			info->target_name);
		return 1;
	}
	for (i = 0; i < argc; i++) {
		if (!read_option(argv[i])) {
			fprintf(stderr, "c2c: %s: not understood\n", argv[i]);
			return 1;
		}
	}
	cpus = info->system.smp_vcpus;
	shape = (struct c2c_shape){ cpus, option.cluster, option.llc, option.node };
	model = c2c_new(&shape, option.line);
	if (!model || !option.plan || !option.out) {
		fprintf(stderr, "c2c: no such machine, no plan or no output\n");
		return 1;
	}
	if (option.everything)
		c2c_watch_everything(model);
	recorder_begin(model, &shape, option.trace, option.everything);
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation, NULL);
	return 0;
}
