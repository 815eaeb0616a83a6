// SPDX-License-Identifier: GPL-2.0
/*
 * Dispatch by a BPF scheduler (sched_ext): two fair threads for each CPU, not
 * bound, that work and yield. The scheduler is the smallest with a queue of its
 * own: a task that finds no idle CPU goes to the end of the one queue, and a CPU
 * that has nothing to do takes the first task of it. tools/sched_ext/scx_simple
 * of the kernel does the same, if it is told to be first in, first out.
 *
 * The three programs are short enough to be written as instructions, so neither
 * a compiler for BPF nor a library is needed.
 */
#define _GNU_SOURCE
#include "guest_bpf.h"
#include "guest_phases.h"

#define WARM_UP 5
#define QUEUE 0
#define SLICE_NS 20000000		/* SCX_SLICE_DFL */
#define STATE "/sys/kernel/sched_ext/state"
#define MOST_BYTES 4096			/* of the table */
#define MOST_STEPS 8

#define SET(register, value) { BPF_ALU64 | BPF_MOV | BPF_K, register, 0, 0, value }
#define COPY(to, from) { BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0 }
#define ARGUMENT(to, number) { BPF_LDX | BPF_MEM | BPF_DW, to, BPF_REG_1, 8 * (number), 0 }
/* The number of the function is set when the program is loaded. */
#define CALL { BPF_JMP | BPF_CALL, 0, BPF_PSEUDO_KFUNC_CALL, 0, 0 }
#define RETURN { BPF_JMP | BPF_EXIT, 0, 0, 0, 0 }

static const struct program {
	const char *member;		/* of struct sched_ext_ops */
	const char *calls;		/* the function that CALL stands for */
	__u32 flags;
	__u32 number;			/* of steps */
	struct bpf_insn steps[MOST_STEPS];
} programs[] = {
	{ "init", "scx_bpf_create_dsq", BPF_F_SLEEPABLE, 4, {
		SET(BPF_REG_1, QUEUE), SET(BPF_REG_2, -1), CALL, RETURN } },
	{ "enqueue", "scx_bpf_dsq_insert", 0, 7, {
		ARGUMENT(BPF_REG_4, 1), ARGUMENT(BPF_REG_1, 0), SET(BPF_REG_2, QUEUE),
		SET(BPF_REG_3, SLICE_NS), CALL, SET(BPF_REG_0, 0), RETURN } },
	{ "dispatch", "scx_bpf_dsq_move_to_local", 0, 4, {
		SET(BPF_REG_1, QUEUE), CALL, SET(BPF_REG_0, 0), RETURN } },
};

static int load_program(const struct program *program, struct kernel_type table, int member)
{
	struct bpf_insn steps[MOST_STEPS];
	union bpf_attr attributes = {
		.prog_type = BPF_PROG_TYPE_STRUCT_OPS,
		.insns = (__u64)(uintptr_t)steps,
		.insn_cnt = program->number,
		.license = (__u64)(uintptr_t)"GPL",
		.log_buf = (__u64)(uintptr_t)bpf_log,
		.log_size = sizeof(bpf_log),
		.log_level = 1,
		.prog_flags = program->flags,
		.attach_btf_id = table.id,
		.expected_attach_type = member,
	};
	__u32 i;

	memcpy(steps, program->steps, sizeof(steps));
	for (i = 0; i < program->number; i++)
		if (steps[i].src_reg == BPF_PSEUDO_KFUNC_CALL && steps[i].code == (BPF_JMP | BPF_CALL))
			steps[i].imm = find_type(BTF_KIND_FUNC, program->calls).id;
	return bpf(BPF_PROG_LOAD, &attributes, program->member);
}

/* The scheduler stays until the guest ends. */
static void load_scheduler(void)
{
	struct kernel_type table = find_type(BTF_KIND_STRUCT, "sched_ext_ops");
	struct kernel_type value = find_type(BTF_KIND_STRUCT, "bpf_struct_ops_sched_ext_ops");
	static char bytes[MOST_BYTES];
	__u32 key = 0;
	union bpf_attr map = {
		.map_type = BPF_MAP_TYPE_STRUCT_OPS,
		.key_size = sizeof(key),
		.value_size = value.at->size,
		.max_entries = 1,
		.btf_fd = load_own_types(),
		.btf_vmlinux_value_type_id = value.id,
	};
	union bpf_attr entry = {
		.map_fd = bpf(BPF_MAP_CREATE, &map, "the map of the scheduler"),
		.key = (__u64)(uintptr_t)&key,
		.value = (__u64)(uintptr_t)bytes,
	};
	size_t i, start, offset;

	if (value.at->size > sizeof(bytes))
		fail("the table of the scheduler is too large");
	find_member(value, "data", &start);
	for (i = 0; i < sizeof(programs) / sizeof(*programs); i++) {
		int member = find_member(table, programs[i].member, &offset);
		__u64 program = load_program(&programs[i], table, member);

		memcpy(bytes + start + offset, &program, sizeof(program));
	}
	find_member(table, "name", &offset);
	strcpy(bytes + start + offset, "schedline");
	bpf(BPF_MAP_UPDATE_ELEM, &entry, "the kernel does not take the scheduler");
}

/* The kernel throws a scheduler out that makes a mistake or starves a task. */
static void expect_scheduler(void)
{
	char state[16] = "";
	int file = open(STATE, O_RDONLY);

	if (file < 0 || read(file, state, sizeof(state) - 1) < 0)
		fail(STATE);
	close(file);
	errno = 0;
	if (strcmp(state, "enabled\n"))
		fail("the kernel has thrown the scheduler out");
}

static void *work(void *argument)
{
	long number = (long)argument;
	unsigned int state = number * 2654435761u + 1;
	int i;

	pthread_barrier_wait(&phase.barrier);
	for (i = 0; i < phase.rounds; i++) {
		burn(draw(&state) % 2000);
		sched_yield();
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int cpus, number = rounds_of(argc, argv);

	mkdir("/sys", 0755);
	if (mount("sysfs", "/sys", "sysfs", 0, NULL))
		fail("/sys");
	read_kernel_types();
	load_scheduler();
	cpus = begin();
	phase.threads = 2 * cpus;
	run_phase(work, WARM_UP, 0);
	expect_scheduler();
	run_phase(work, number, 1);
	expect_scheduler();
	end((unsigned long)phase.threads * number);
}
