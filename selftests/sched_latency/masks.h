/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The masks of cpumask_contention: one for all CPUs, one for each NUMA node or
 * LLC, or bytes for each LLC; and where each CPU has its bit.
 */
#ifndef MASKS_H
#define MASKS_H

#include <stdalign.h>
#include <stdint.h>

#include "workload.h"

#define BITS		(8 * sizeof(unsigned long))
/* More than any cache line, and more than a prefetcher fetches together. */
#define APART		256

enum variant { EMPTY, GLOBAL, BY_NODE, BY_LLC, LLC_BYTES, VARIANTS };

static const char * const names[VARIANTS] = {
	"empty", "global", "node", "llc", "llc_bytes",
};

/* One CPU, and whose turn it is there. */
struct cpu {
	alignas(APART) int id;
	int runs_on;
	int turn;
	/* For each variant: the number of its mask, and its place there. */
	int group[VARIANTS], place[VARIANTS];
};

static struct cpu *cpus;
static unsigned char **masks[VARIANTS];
static int groups[VARIANTS];
static int nr_cpus;
static size_t line_size = 64;

/* The topology. */

/* A CPU joins the group of the first CPU that shares with it. */
static inline void join(struct cpu *cpu, enum variant variant, const struct cpus *shared)
{
	cpu->group[variant] = groups[variant];
	cpu->place[variant] = 0;
	for (struct cpu *other = cpus; other < cpu; other++) {
		if (cpus_has(shared, other->id)) {
			cpu->group[variant] = other->group[variant];
			cpu->place[variant]++;
		}
	}
	if (!cpu->place[variant])
		groups[variant]++;
}

static inline void read_topology(const struct cpus *wanted)
{
	bool llcs = true, nodes = true;
	struct cpus every, shared, allowed;
	char text[64];

	cpus_allowed(&allowed);
	memset(&every, 0xff, sizeof(every));
	for (int id = cpus_next(wanted, -1); id >= 0; id = cpus_next(wanted, id)) {
		struct cpu *cpu = &cpus[nr_cpus++];

		cpu->id = id;
		cpu->runs_on = id;
		if (rehearsal())
			cpu->runs_on = cpus_nth(&allowed, (nr_cpus - 1) % cpus_count(&allowed));
		join(cpu, GLOBAL, &every);
		nodes = nodes && cpus_sharing(id, NODE, &shared);
		if (nodes)
			join(cpu, BY_NODE, &shared);
		llcs = llcs && cpus_sharing(id, LLC, &shared);
		if (llcs) {
			join(cpu, BY_LLC, &shared);
			join(cpu, LLC_BYTES, &shared);
		}
	}
	if (!nodes)
		groups[BY_NODE] = 0;
	if (!llcs) {
		groups[BY_LLC] = 0;
		groups[LLC_BYTES] = 0;
	}
	if (sysfs_line(text, sizeof(text), "cpu/cpu%d/cache/index0/coherency_line_size",
		       cpus[0].id) && atoi(text) > 0)
		line_size = atoi(text);
}

/* The masks. */

static inline unsigned char *byte_of(const struct cpu *cpu, enum variant variant)
{
	return masks[variant][cpu->group[variant]] + cpu->place[variant];
}

static inline unsigned long *word_of(const struct cpu *cpu, enum variant variant)
{
	unsigned long *words = (unsigned long *)masks[variant][cpu->group[variant]];

	return words + cpu->place[variant] / BITS;
}

static inline unsigned long bit_of(const struct cpu *cpu, enum variant variant)
{
	return 1UL << cpu->place[variant] % BITS;
}

static inline void pin(int cpu)
{
	if (!run_on_cpu(cpu))
		ksft_exit_fail_msg("CPU %d cannot be used: %s\n", cpu, strerror(errno));
}

/* Whole pages, to be on one node; nr_cpus bytes also hold nr_cpus bits. */
static inline size_t mask_size(void)
{
	size_t page = sysconf(_SC_PAGESIZE);

	return (nr_cpus + BITS + page - 1) / page * page;
}

static inline void make_masks(enum variant variant)
{
	struct cpus before;

	cpus_allowed(&before);
	masks[variant] = calloc(groups[variant] + 1, sizeof(*masks[variant]));
	for (int i = 0; i < nr_cpus && masks[variant]; i++) {
		void *mask;

		if (cpus[i].place[variant])
			continue;
		mask = mmap(NULL, mask_size(), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (mask == MAP_FAILED)
			ksft_exit_fail_perror("mmap");
		pin(cpus[i].runs_on);
		memset(mask, 0, mask_size());
		masks[variant][cpus[i].group[variant]] = mask;
	}
	run_on(&before);
}

static inline void *cell_of(const struct cpu *cpu, enum variant variant)
{
	return variant == LLC_BYTES ? (void *)byte_of(cpu, variant) : word_of(cpu, variant);
}

/* Whether no line is written by two groups. */
static inline bool lines_apart(void)
{
	for (enum variant variant = GLOBAL; variant < VARIANTS; variant++) {
		for (int i = 0; i < nr_cpus && groups[variant]; i++) {
			uintptr_t line = (uintptr_t)cell_of(&cpus[i], variant) / line_size;

			for (int j = 0; j < i; j++)
				if ((uintptr_t)cell_of(&cpus[j], variant) / line_size == line &&
				    cpus[i].group[variant] != cpus[j].group[variant])
					return false;
		}
	}
	return true;
}

static inline bool is_set(const struct cpu *cpu, enum variant variant)
{
	if (variant == LLC_BYTES)
		return __atomic_load_n(byte_of(cpu, variant), __ATOMIC_RELAXED);
	return __atomic_load_n(word_of(cpu, variant), __ATOMIC_RELAXED) & bit_of(cpu, variant);
}

/*
 * Count wrong bits, and clear the masks. A CPU's bit must be set if it is the
 * turn of the thread that clears it. No other bit may be set.
 */
static inline int count_wrong(enum variant variant)
{
	int wrong = 0, stray = 0;

	for (int i = 0; i < nr_cpus; i++) {
		wrong += is_set(&cpus[i], variant) == cpus[i].turn;
		cpus[i].turn = 1;
		if (variant == LLC_BYTES)
			*byte_of(&cpus[i], variant) = 0;
		else
			*word_of(&cpus[i], variant) &= ~bit_of(&cpus[i], variant);
	}
	for (int group = 0; group < groups[variant]; group++) {
		for (size_t i = 0; i < mask_size(); i++)
			stray += masks[variant][group][i];
		memset(masks[variant][group], 0, mask_size());
	}
	return wrong + stray;
}

#endif
