// SPDX-License-Identifier: GPL-2.0
/*
 * What does it cost to keep a CPU's bit in a mask that other CPUs write, too?
 *
 * On each CPU two threads take turns and yield to each other. One sets the bit
 * of its CPU, the other one clears it: a change at each task switch, the worst
 * case of cpupri. There is one mask for all CPUs, one for each NUMA node, or
 * one for each last level cache (LLC). In the last variant the LLC has a byte
 * for each CPU, which needs no locked instruction. A mask begins on a cache
 * line, in memory that a CPU of its group touched first.
 *
 * How it is measured: the clock is read immediately before and after the
 * operation, so neither the yield nor the wait for the turn counts. The cost of
 * two readings is measured in the same way, with no operation between them, and
 * is subtracted. The first reading waits for all earlier instructions. The
 * second one waits for a locked instruction, but not for a plain store to leave
 * the store buffer, like a scheduler that continues at once. A coarse clock
 * does no harm, because its errors cancel out in the sum over many turns.
 * Operations of more than INTERRUPTED ns are not counted: there was an
 * interrupt, or the host ran something else. If perf_event_open() works, user
 * cycles are read around the same operation, and corrected in the same way.
 *
 * Each of several rounds measures all variants in turn. The ratio to the global
 * mask is computed within a round, and the median of the rounds is shown.
 * Before these rounds, a round without the clock checks at each turn that the
 * bit still has the value that the other thread gave it. Each slice ends with a
 * check of the masks, because the last operation of each CPU is known.
 *
 * Nothing is changed on the machine.
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <stdalign.h>
#include <stdint.h>

#include "workload.h"

/*
 * The masks of cpumask_contention: one for all CPUs, one for each NUMA node or
 * LLC, or bytes for each LLC; and where each CPU has its bit.
 */

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
static void join(struct cpu *cpu, enum variant variant, const struct cpus *shared)
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

static void read_topology(const struct cpus *wanted)
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

static unsigned char *byte_of(const struct cpu *cpu, enum variant variant)
{
	return masks[variant][cpu->group[variant]] + cpu->place[variant];
}

static unsigned long *word_of(const struct cpu *cpu, enum variant variant)
{
	unsigned long *words = (unsigned long *)masks[variant][cpu->group[variant]];

	return words + cpu->place[variant] / BITS;
}

static unsigned long bit_of(const struct cpu *cpu, enum variant variant)
{
	return 1UL << cpu->place[variant] % BITS;
}

static void pin(int cpu)
{
	if (!run_on_cpu(cpu))
		ksft_exit_fail_msg("CPU %d cannot be used: %s\n", cpu, strerror(errno));
}

/* Whole pages, to be on one node; nr_cpus bytes also hold nr_cpus bits. */
static size_t mask_size(void)
{
	size_t page = sysconf(_SC_PAGESIZE);

	return (nr_cpus + BITS + page - 1) / page * page;
}

static void make_masks(enum variant variant)
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

static void *cell_of(const struct cpu *cpu, enum variant variant)
{
	return variant == LLC_BYTES ? (void *)byte_of(cpu, variant) : word_of(cpu, variant);
}

/* Whether no line is written by two groups. */
static bool lines_apart(void)
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

static bool is_set(const struct cpu *cpu, enum variant variant)
{
	if (variant == LLC_BYTES)
		return __atomic_load_n(byte_of(cpu, variant), __ATOMIC_RELAXED);
	return __atomic_load_n(word_of(cpu, variant), __ATOMIC_RELAXED) & bit_of(cpu, variant);
}

/*
 * Count wrong bits, and clear the masks. A CPU's bit must be set if it is the
 * turn of the thread that clears it. No other bit may be set.
 */
static int count_wrong(enum variant variant)
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

#define INTERRUPTED	100000

enum operation { NOTHING, LOCKED_BIT, STORED_BYTE, RACY_BIT };

struct worker {
	alignas(APART) pthread_t thread;
	struct results *results;
	struct cpu *cpu;
	int set, perf;
	__u64 turns, ns, cycles, interrupted, lost;
};

struct figures {
	double ns[MOST_ROUNDS], cycles[MOST_ROUNDS];
	__u64 turns, interrupted, lost;
	int wrong;
};

static struct worker *workers;
static struct figures figures[VARIANTS];
/* For each round and CPU: ns per operation, including the clock readings. */
static double *ns_on[VARIANTS];
static int nr_rounds = 7;
static double seconds = 0.2;
static bool racy, have_cycles = true;
static int perf_errno;

static pthread_barrier_t begin, end;
static enum variant current;
static bool checking, quit;
static struct {
	alignas(APART) int stop;
} all;

/* The threads. */

static __always_inline __u64 cycles(const struct worker *worker)
{
	__u64 count;

	if (!have_cycles || read(worker->perf, &count, sizeof(count)) != sizeof(count))
		return 0;
	return count;
}

static __always_inline void operate(enum operation operation, void *cell,
				    unsigned long bit, int set)
{
	unsigned long *word = cell, value;

	switch (operation) {
	case NOTHING:
		break;
	case LOCKED_BIT:
		if (set)
			__atomic_or_fetch(word, bit, __ATOMIC_RELAXED);
		else
			__atomic_and_fetch(word, ~bit, __ATOMIC_RELAXED);
		break;
	case STORED_BYTE:
		__atomic_store_n((unsigned char *)cell, set, __ATOMIC_RELAXED);
		break;
	case RACY_BIT:
		/* Wrong on purpose, and slow enough for others to interfere. */
		value = __atomic_load_n(word, __ATOMIC_RELAXED);
		for (int i = 0; i < 100; i++)
			__atomic_signal_fence(__ATOMIC_SEQ_CST);
		__atomic_store_n(word, set ? value | bit : value & ~bit, __ATOMIC_RELAXED);
		break;
	}
}

/* Inlined for each operation, so that no branch is measured. */
static __always_inline void take_turns(struct worker *worker, enum operation operation)
{
	enum variant variant = current == EMPTY ? GLOBAL : current;
	struct cpu *cpu = worker->cpu;
	void *cell = cell_of(cpu, variant);
	unsigned long bit = bit_of(cpu, variant);
	__u64 start, ns, counted;
	int ran_on;

	while (!__atomic_load_n(&all.stop, __ATOMIC_RELAXED)) {
		if (__atomic_load_n(&cpu->turn, __ATOMIC_ACQUIRE) != worker->set) {
			sched_yield();
			continue;
		}
		if (checking) {
			worker->lost += is_set(cpu, variant) == worker->set;
			operate(operation, cell, bit, worker->set);
		} else {
			counted = cycles(worker);
			start = now();
			operate(operation, cell, bit, worker->set);
			ns = now() - start;
			counted = cycles(worker) - counted;
			if (ns < INTERRUPTED) {
				worker->turns++;
				worker->ns += ns;
				worker->cycles += counted;
			} else {
				worker->interrupted++;
			}
		}
		ran_on = sched_getcpu();
		if (ran_on != cpu->runs_on)
			give_up(worker->results, MOVED_AWAY, ran_on);
		__atomic_store_n(&cpu->turn, !worker->set, __ATOMIC_RELEASE);
	}
}

static int open_cycles(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_HW_CPU_CYCLES,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};

	return syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static void *work(void *argument)
{
	struct worker *worker = argument;

	pin(worker->cpu->runs_on);
	worker->perf = open_cycles();
	if (worker->perf < 0) {
		__atomic_store_n(&perf_errno, errno, __ATOMIC_RELAXED);
		__atomic_store_n(&have_cycles, false, __ATOMIC_RELAXED);
	}
	for (;;) {
		pthread_barrier_wait(&begin);
		if (quit)
			return NULL;
		if (current == EMPTY)
			take_turns(worker, NOTHING);
		else if (current == LLC_BYTES)
			take_turns(worker, STORED_BYTE);
		else if (racy)
			take_turns(worker, RACY_BIT);
		else
			take_turns(worker, LOCKED_BIT);
		pthread_barrier_wait(&end);
	}
}

static void start_threads(struct results *results)
{
	int nr = 2 * nr_cpus;

	pthread_barrier_init(&begin, NULL, nr + 1);
	pthread_barrier_init(&end, NULL, nr + 1);
	for (int i = 0; i < nr; i++) {
		workers[i].results = results;
		workers[i].cpu = &cpus[i / 2];
		workers[i].set = i % 2;
		workers[i].cpu->turn = 1;
		start_thread(results, &workers[i].thread, work, &workers[i]);
	}
}

static void run_slice(struct results *results, enum variant variant, int round)
{
	struct figures *sum = &figures[variant];
	__u64 turns = 0, ns = 0, counted = 0, turns_on;

	for (int i = 0; i < 2 * nr_cpus; i++) {
		workers[i].turns = 0;
		workers[i].ns = 0;
		workers[i].cycles = 0;
		workers[i].interrupted = 0;
		workers[i].lost = 0;
	}
	current = variant;
	checking = round < 0;
	all.stop = 0;
	pthread_barrier_wait(&begin);
	sleep_until(now() + (__u64)(seconds * NS_PER_S));
	__atomic_store_n(&all.stop, 1, __ATOMIC_RELAXED);
	pthread_barrier_wait(&end);

	for (int i = 0; i < 2 * nr_cpus; i++) {
		turns += workers[i].turns;
		ns += workers[i].ns;
		counted += workers[i].cycles;
		sum->interrupted += workers[i].interrupted;
		sum->lost += workers[i].lost;
	}
	if (variant == EMPTY) {
		for (int i = 0; i < nr_cpus; i++)
			cpus[i].turn = 1;
	} else {
		sum->wrong += count_wrong(variant);
	}
	if (checking)
		return;
	if (!turns)
		give_up(results, "%s: no operation in %g s; try more --seconds", names[variant],
			seconds);
	for (int i = 0; i < nr_cpus; i++) {
		turns_on = workers[2 * i].turns + workers[2 * i + 1].turns;
		ns_on[variant][round * nr_cpus + i] = !turns_on ? 0 :
			(double)(workers[2 * i].ns + workers[2 * i + 1].ns) / turns_on;
	}
	sum->turns += turns;
	sum->ns[round] = (double)ns / turns;
	sum->cycles[round] = (double)counted / turns;
}

/* The results. */

static double net(enum variant variant, int round)
{
	return figures[variant].ns[round] - (variant == EMPTY ? 0 : figures[EMPTY].ns[round]);
}

/* In percent; valid if the global mask's time is above 0 in each round. */
static double of_global(enum variant variant, int round)
{
	return variant == GLOBAL ? 100 : 100 * net(variant, round) / net(GLOBAL, round);
}

/* Why a variant cannot be compared with the global mask; NULL if it can. */
static const char *cannot_show(enum variant variant)
{
	if (!groups[variant])
		return variant == BY_NODE ? "sysfs shows no node of these CPUs" :
					 "sysfs shows no last level cache of these CPUs";
	if (nr_cpus < 3)
		return "one or two CPUs are too few for contention";
	if (groups[variant] == 1)
		return variant == BY_NODE ? "one NUMA node: its mask is the global one" :
		       variant == BY_LLC ? "one LLC: its mask is the global one" :
					"one LLC: its bytes are on lines that all CPUs write";
	if (groups[variant] == nr_cpus)
		return "each CPU would have a mask of its own, so no CPUs share one";
	for (int round = 0; round < nr_rounds; round++)
		if (net(GLOBAL, round) <= 0)
			return "an operation takes less time than the clock can measure";
	return NULL;
}

static void add_rounds(struct results *results, enum direction direction, const char *unit,
		       enum variant variant, const char *name,
		       double (*value)(enum variant variant, int round))
{
	struct metric *metric = add_metric(results, QUANTILE, direction, unit, 0, "%s.%s",
					   names[variant], name);

	metric->n = figures[variant].turns;
	metric->nr_rounds = nr_rounds;
	for (int round = 0; round < nr_rounds; round++)
		metric->rounds[round] = value(variant, round);
	metric->value = median_of(metric->rounds, nr_rounds);
}

static double cycles_of(enum variant variant, int round)
{
	return figures[variant].cycles[round] -
	       (variant == EMPTY ? 0 : figures[EMPTY].cycles[round]);
}

/* The rounds of each CPU, to show which one is slow. */
static void report_cpus(struct results *results, enum variant variant)
{
	static struct histogram rounds;

	for (int i = 0; i < nr_cpus; i++) {
		memset(&rounds, 0, sizeof(rounds));
		for (int round = 0; round < nr_rounds; round++) {
			double ns = ns_on[variant][round * nr_cpus + i];

			if (ns)
				histogram_add(&rounds, ns + 0.5);
		}
		add_row(results, names[variant], cpus[i].id, &rounds);
	}
}

static void report(struct results *results, enum variant variant)
{
	const struct figures *sum = &figures[variant];
	const char *name = names[variant], *why = variant > GLOBAL ? cannot_show(variant) : NULL;
	char absent[64];

	if (variant != EMPTY && !groups[variant]) {
		add_absent(results, name, "%s", why);
		return;
	}
	if (sum->lost || sum->wrong)
		ksft_print_msg("%s: %llu changes were lost, %d bits wrong at the end\n", name,
			       (unsigned long long)sum->lost, sum->wrong);
	add_metric(results, EXACT, NEITHER, "masks", groups[variant], "%s.masks", name);
	add_metric(results, EXACT, NEITHER, "operations", sum->turns, "%s.operations", name);
	add_metric(results, EXCEEDANCE, NEITHER, "operations", sum->interrupted,
		   "%s.interrupted", name);
	add_metric(results, EXACT, LOWER, "bits", sum->lost + sum->wrong, "%s.lost", name);
	add_rounds(results, LOWER, "ns", variant, "ns_per_operation", net);
	if (have_cycles)
		add_rounds(results, LOWER, "cycles", variant, "cycles_per_operation", cycles_of);
	report_cpus(results, variant);
	snprintf(absent, sizeof(absent), "%s.percent_of_global", name);
	if (why)
		add_absent(results, absent, "%s", why);
	else if (variant != EMPTY)
		add_rounds(results, LOWER, "%", variant, "percent_of_global", of_global);
}

static void measure(struct results *results)
{
	cpus = aligned_alloc(APART, cpus_count(&common.cpus) * sizeof(*cpus));
	workers = aligned_alloc(APART, cpus_count(&common.cpus) * 2 * sizeof(*workers));
	for (enum variant variant = EMPTY; variant < VARIANTS; variant++)
		ns_on[variant] = calloc(cpus_count(&common.cpus) * nr_rounds, sizeof(double));
	if (!cpus || !workers || !ns_on[VARIANTS - 1])
		give_up(results, "no memory");
	memset(cpus, 0, cpus_count(&common.cpus) * sizeof(*cpus));
	memset(workers, 0, cpus_count(&common.cpus) * 2 * sizeof(*workers));
	read_topology(&common.cpus);
	ksft_print_msg("%d CPUs, %d nodes, %d LLCs, lines of %zu bytes; %d rounds of %g s\n",
		       nr_cpus, groups[BY_NODE], groups[BY_LLC], line_size, nr_rounds, seconds);
	if (rehearsal())
		ksft_print_msg("a rehearsal of %s: the figures mean nothing\n", sysfs);

	for (enum variant variant = GLOBAL; variant < VARIANTS; variant++)
		make_masks(variant);
	start_threads(results);
	for (int round = -1; round < nr_rounds; round++)
		for (enum variant variant = EMPTY; variant < VARIANTS; variant++)
			if (groups[variant] || (variant == EMPTY && round >= 0))
				run_slice(results, variant, round);
	quit = true;
	pthread_barrier_wait(&begin);
	for (int i = 0; i < 2 * nr_cpus; i++)
		pthread_join(workers[i].thread, NULL);

	if (!have_cycles)
		ksft_print_msg("no cycles: perf_event_open: %s\n", strerror(perf_errno));
	add_metric(results, EXACT, LOWER, "lines", !lines_apart(), "lines_shared");
	for (enum variant variant = EMPTY; variant < VARIANTS; variant++)
		report(results, variant);
}

static const struct option_row rows[] = {
	{ "rounds", 0, COUNT, &nr_rounds, 1, MOST_ROUNDS, "how often each variant is measured" },
	{ "seconds", 0, NUMBER, &seconds, 0.001, 3600, "length of each measurement" },
	{ "sysfs", 0, WORD, &sysfs, 0, 0,
	  "use another machine's topology, as a rehearsal without figures" },
	/* For the test of this test: bits are changed without a locked instruction. */
	{ "racy", 0, FLAG, &racy, 0, 0, NULL },
};

static const struct test tests[] = {
	{ .name = "lines_apart", .rule = NONE, .metric = "lines_shared" },
	{ .name = "kept_global", .rule = NONE, .metric = "global.lost" },
	{ .name = "kept_node", .rule = NONE, .metric = "node.lost" },
	{ .name = "kept_llc", .rule = NONE, .metric = "llc.lost" },
	{ .name = "kept_llc_bytes", .rule = NONE, .metric = "llc_bytes.lost" },
	{ .name = "compared_node", .rule = WORK, .metric = "node.percent_of_global" },
	{ .name = "compared_llc", .rule = WORK, .metric = "llc.percent_of_global" },
	{ .name = "compared_llc_bytes", .rule = WORK, .metric = "llc_bytes.percent_of_global" },
	{ .name = "llc_not_dearer", .rule = NOT_ABOVE, .metric = "llc.percent_of_global",
	  .other = "global.percent_of_global", .caches = true },
	{ .name = "within_limits", .rule = LIMITS },
};

static const struct workload cpumask_contention = {
	.name = "cpumask_contention",
	.about =
		"What a CPU pays to set or clear its bit in a mask: one for all CPUs, one for each\n"
		"NUMA node, one for each LLC, or bytes for each LLC. KTAP on standard output.",
	.examples =
		"  cpumask_contention\n"
		"  cpumask_contention --rounds 21 --seconds 1 --json masks.json\n"
		"  cpumask_contention --cpus 0-15            one LLC, to see what a mask costs there\n",
	.rows = rows,
	.nr_rows = ARRAY_SIZE(rows),
	.tests = tests,
	.nr_tests = ARRAY_SIZE(tests),
	.measure = measure,
};

int main(int argc, char **argv)
{
	return workload_main(&cpumask_contention, argc, argv);
}
