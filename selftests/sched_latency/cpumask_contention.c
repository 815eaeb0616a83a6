// SPDX-License-Identifier: GPL-2.0
/*
 * What does it cost to keep a CPU's bit in a mask that other CPUs write, too?
 *
 * On each CPU two threads take turns and yield to each other. One sets the bit
 * of its CPU, the other one clears it: a change at each task switch, the worst
 * case of cpupri. The mask is one for all CPUs, one for each NUMA node, or one
 * for each last level cache (LLC); or the LLC has a byte for each CPU, which
 * needs no locked instruction. A mask begins a cache line, on memory that a CPU
 * of its group touched first.
 *
 * How it is measured: the clock is read before and after the operation and
 * nothing else, so neither the yield nor the wait for the turn counts. What two
 * readings cost is measured the same way, with no operation between them, and
 * is taken off. The first reading waits for what came before it and the second
 * one for a locked instruction, but not for a plain store to leave the store
 * buffer: as in a scheduler that goes on at once. A coarse clock is no worse,
 * for the sum over many turns is the same. What takes more than INTERRUPTED ns
 * is not counted: an interrupt, or a host that ran something else. Where
 * perf_event_open() works, user cycles are read around the same operation, and
 * corrected the same way.
 *
 * The variants are measured in turn, in each of several rounds: the ratio to
 * the global mask is that of one round, and the median of the rounds is shown.
 * Before that, a round without the clock looks at each turn whether the bit is
 * still what the other thread made it; and each slice ends with a look at the
 * masks, for the last operation of each CPU is known.
 *
 * Nothing is changed on the machine.
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "topology.h"

#define INTERRUPTED	100000
#define MOST_ROUNDS	1000
#define MOST_SECONDS	3600
#define BITS		(8 * sizeof(unsigned long))
/* More than the line of any CPU, and than what a prefetcher takes together. */
#define APART		256

enum operation { NOTHING, LOCKED_BIT, STORED_BYTE, RACY_BIT };
enum variant { EMPTY, GLOBAL, BY_NODE, BY_LLC, LLC_BYTES, VARIANTS };

static const char * const names[VARIANTS] = {
	"empty", "global", "node", "llc", "llc_bytes",
};

static const char * const kept[VARIANTS] = {
	NULL, "kept_global", "kept_node", "kept_llc", "kept_llc_bytes",
};

static const char * const compared[VARIANTS] = {
	NULL, NULL, "compared_node", "compared_llc", "compared_llc_bytes",
};

/* One CPU, and whose turn it is there. */
struct cpu {
	alignas(APART) int id;
	int runs_on;
	int turn;
	/* Which mask of each variant is its own, and its place there. */
	int group[VARIANTS], place[VARIANTS];
};

struct worker {
	alignas(APART) pthread_t thread;
	struct cpu *cpu;
	int set, perf;
	__u64 turns, ns, cycles, interrupted, lost;
};

struct figures {
	double ns[MOST_ROUNDS], cycles[MOST_ROUNDS];
	__u64 turns, interrupted, lost;
	int wrong;
};

static struct cpu *cpus;
static struct worker *workers;
static struct figures figures[VARIANTS];
static unsigned char **masks[VARIANTS];
static int groups[VARIANTS];
static int nr_cpus, nr_rounds = 7;
static double seconds = 0.2;
static size_t line_size = 64;
static const char *json;
static bool racy, rehearsal, have_cycles = true;
static int perf_errno;

static pthread_barrier_t begin, end;
static enum variant current;
static bool checking, quit;
static struct {
	alignas(APART) int stop;
} all;

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
	struct cpus every, shared;
	char text[64];

	memset(&every, 0xff, sizeof(every));
	for (int id = cpus_next(wanted, -1); id >= 0; id = cpus_next(wanted, id)) {
		struct cpu *cpu = &cpus[nr_cpus++];

		cpu->id = id;
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

/* Whole pages, so that a node can have its own; nr_cpus bytes are more than as many bits. */
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

/* Two groups never write one line. */
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

/* A CPU whose turn it is to clear has set; and nothing else is set. Then all is cleared. */
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

/* The threads. */

static __always_inline __u64 now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

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
		/* What must not be done; slow enough for others to come between. */
		value = __atomic_load_n(word, __ATOMIC_RELAXED);
		for (int i = 0; i < 100; i++)
			__atomic_signal_fence(__ATOMIC_SEQ_CST);
		__atomic_store_n(word, set ? value | bit : value & ~bit, __ATOMIC_RELAXED);
		break;
	}
}

/* A function for each operation: no branch is measured. */
static __always_inline void take_turns(struct worker *worker, enum operation operation)
{
	enum variant variant = current == EMPTY ? GLOBAL : current;
	struct cpu *cpu = worker->cpu;
	void *cell = cell_of(cpu, variant);
	unsigned long bit = bit_of(cpu, variant);
	__u64 start, ns, counted;

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

static void start_threads(void)
{
	int nr = 2 * nr_cpus, error = 0;

	pthread_barrier_init(&begin, NULL, nr + 1);
	pthread_barrier_init(&end, NULL, nr + 1);
	for (int i = 0; i < nr && !error; i++) {
		workers[i].cpu = &cpus[i / 2];
		workers[i].set = i % 2;
		workers[i].cpu->turn = 1;
		error = pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	}
	if (error)
		ksft_exit_fail_msg("%d threads cannot be started: %s\n", nr, strerror(error));
}

static void run_slice(enum variant variant, int round)
{
	struct timespec length = { seconds, (seconds - (long)seconds) * 1e9 };
	struct figures *sum = &figures[variant];
	__u64 turns = 0, ns = 0, counted = 0;

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
	while (nanosleep(&length, &length) && errno == EINTR)
		;
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
		ksft_exit_fail_msg("%s: no operation in %g s; more --seconds?\n",
				   names[variant], seconds);
	sum->turns += turns;
	sum->ns[round] = (double)ns / turns;
	sum->cycles[round] = (double)counted / turns;
}

/* What came out of it. */

struct summary {
	double median, least, most;
};

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static struct summary summarise(const double *values)
{
	static double sorted[MOST_ROUNDS];
	int half = nr_rounds / 2;

	memcpy(sorted, values, nr_rounds * sizeof(*values));
	qsort(sorted, nr_rounds, sizeof(*sorted), compare);
	return (struct summary){
		nr_rounds % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2,
		sorted[0], sorted[nr_rounds - 1],
	};
}

static struct summary less_empty(const double *values, const double *empty)
{
	static double net[MOST_ROUNDS];

	for (int i = 0; i < nr_rounds; i++)
		net[i] = values[i] - empty[i];
	return summarise(net);
}

/* In percent; valid where an operation on the global mask was seen to take time in each round. */
static struct summary of_global(enum variant variant)
{
	static double ratio[MOST_ROUNDS];

	for (int i = 0; i < nr_rounds; i++)
		ratio[i] = 100 * (figures[variant].ns[i] - figures[EMPTY].ns[i]) /
			   (figures[GLOBAL].ns[i] - figures[EMPTY].ns[i]);
	return summarise(ratio);
}

/* Why a variant says nothing beside the global mask; NULL where it does. */
static const char *cannot_show(enum variant variant)
{
	if (!groups[variant])
		return variant == BY_NODE ? "sysfs shows no node of these CPUs" :
					 "sysfs shows no last level cache of these CPUs";
	if (nr_cpus < 3)
		return "one or two CPUs do not contend as many do";
	if (groups[variant] == 1)
		return variant == BY_NODE ? "one NUMA node: its mask is the global one" :
		       variant == BY_LLC ? "one LLC: its mask is the global one" :
					"one LLC: its bytes are on lines that all CPUs write";
	if (groups[variant] == nr_cpus)
		return "each CPU would have a mask of its own: no CPUs share";
	if (less_empty(figures[GLOBAL].ns, figures[EMPTY].ns).least <= 0)
		return "an operation on the global mask takes less than the clock can tell";
	return NULL;
}

static void print_table(void)
{
	ksft_print_msg("%-10s %5s %9s %19s %9s %10s\n", "variant", "masks", "ns/op",
		       "(of the rounds)", "cycles/op", "of global");
	for (enum variant variant = GLOBAL; variant < VARIANTS; variant++) {
		struct summary ns = less_empty(figures[variant].ns, figures[EMPTY].ns);
		struct summary count = less_empty(figures[variant].cycles, figures[EMPTY].cycles);
		struct summary ratio = of_global(variant);
		char range[64], taken[32] = "-", share[96] = "-";

		if (!groups[variant])
			continue;
		snprintf(range, sizeof(range), "%.1f..%.1f", ns.least, ns.most);
		if (have_cycles)
			snprintf(taken, sizeof(taken), "%.1f", count.median);
		if (variant != GLOBAL && !cannot_show(variant))
			snprintf(share, sizeof(share), "%.2f%% (%.2f..%.2f)",
				 ratio.median, ratio.least, ratio.most);
		ksft_print_msg("%-10s %5d %9.1f %19s %9s %10s\n", names[variant],
			       groups[variant], ns.median, range, taken, share);
	}
}

static void write_summary(FILE *file, const char *name, struct summary summary)
{
	fprintf(file, ", \"%s\": {\"median\": %.4f, \"min\": %.4f, \"max\": %.4f}",
		name, summary.median, summary.least, summary.most);
}

static void write_json(void)
{
	const char *comma = "";
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s.new", json);
	file = fopen(path, "w");
	if (!file)
		ksft_exit_fail_msg("--json %s: %s\n", json, strerror(errno));
	fprintf(file, "{\"tool\": \"cpumask_contention\", \"cpus\": %d, \"line_size\": %zu, ",
		nr_cpus, line_size);
	fprintf(file, "\"rounds\": %d, \"seconds\": %g, \"rehearsal\": %s, \"variants\": [",
		nr_rounds, seconds, rehearsal ? "true" : "false");
	for (enum variant variant = EMPTY; variant < VARIANTS; variant++) {
		const struct figures *sum = &figures[variant];
		bool empty = variant == EMPTY;
		const char *why = empty || variant == GLOBAL ? NULL : cannot_show(variant);

		if (!empty && !groups[variant])
			continue;
		fprintf(file, "%s\n {\"name\": \"%s\", \"masks\": %d, \"operations\": %llu, ",
			comma, names[variant], groups[variant], (unsigned long long)sum->turns);
		fprintf(file, "\"interrupted\": %llu", (unsigned long long)sum->interrupted);
		write_summary(file, "ns", empty ? summarise(sum->ns) :
						  less_empty(sum->ns, figures[EMPTY].ns));
		if (have_cycles)
			write_summary(file, "cycles",
				      empty ? summarise(sum->cycles) :
					      less_empty(sum->cycles, figures[EMPTY].cycles));
		if (why)
			fprintf(file, ", \"cannot_show\": \"%s\"", why);
		else if (variant > GLOBAL)
			write_summary(file, "percent_of_global", of_global(variant));
		fprintf(file, "}");
		comma = ",";
	}
	fprintf(file, "\n]}\n");
	if (fclose(file) || rename(path, json))
		ksft_exit_fail_msg("--json %s: %s\n", json, strerror(errno));
}

static void print_results(void)
{
	ksft_test_result(lines_apart(), "lines_apart\n");
	for (enum variant variant = GLOBAL; variant < VARIANTS; variant++) {
		const struct figures *sum = &figures[variant];

		if (!groups[variant]) {
			ksft_test_result_code(KSFT_SKIP, kept[variant], "%s",
					      cannot_show(variant));
			continue;
		}
		if (sum->lost || sum->wrong)
			ksft_print_msg("%s: %llu changes were lost, %d bits wrong at the end\n",
				       names[variant], (unsigned long long)sum->lost, sum->wrong);
		ksft_test_result(!sum->lost && !sum->wrong, "%s\n", kept[variant]);
	}
	for (enum variant variant = BY_NODE; variant < VARIANTS; variant++) {
		const char *why = cannot_show(variant);

		if (why)
			ksft_test_result_code(KSFT_SKIP, compared[variant], "%s", why);
		else
			ksft_test_result_pass("%s\n", compared[variant]);
	}
}

/* What is asked for. */

static const char usage[] =
	"usage: cpumask_contention [options]\n"
	"\n"
	"What a CPU pays to set or clear its bit in a mask: one for all CPUs, one for each\n"
	"NUMA node, one for each LLC, or bytes for each LLC. KTAP on standard output.\n"
	"\n"
	"  --rounds N      how often each variant is measured (7)\n"
	"  --seconds S     how long each time (0.2)\n"
	"  --cpus LIST     these CPUs alone, such as 0-15,64-79 (all that may be used)\n"
	"  --json FILE     write the figures there, too\n"
	"  --sysfs DIR     the topology of another machine: a rehearsal, whose threads share\n"
	"                  the CPUs that there are, and whose figures mean nothing\n"
	"  -k              taken for the sake of the other programs here; changes nothing\n"
	"  --help          this\n"
	"\n"
	"examples:\n"
	"  cpumask_contention\n"
	"  cpumask_contention --rounds 21 --seconds 1 --json masks.json\n"
	"  cpumask_contention --cpus 0-15            one LLC, to see what a mask costs there\n";

static double value_of(const char *name, const char *text, double least, double most)
{
	char *rest;
	double value = strtod(text, &rest);

	if (rest == text || *rest || !(value >= least && value <= most))
		ksft_exit_fail_msg("--%s %s: not a number from %g to %g\n",
				   name, text, least, most);
	return value;
}

static void parse(int argc, char **argv, struct cpus *wanted)
{
	static const struct option options[] = {
		{ "rounds", required_argument, NULL, 'r' },
		{ "seconds", required_argument, NULL, 's' },
		{ "cpus", required_argument, NULL, 'c' },
		{ "json", required_argument, NULL, 'j' },
		{ "sysfs", required_argument, NULL, 'y' },
		/* For the test of this test: bits are changed without a locked instruction. */
		{ "racy", no_argument, NULL, 'x' },
		{ "help", no_argument, NULL, 'h' },
		{}
	};
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "k", options, NULL)) >= 0) {
		switch (option) {
		case 'r':
			nr_rounds = value_of("rounds", optarg, 1, MOST_ROUNDS);
			break;
		case 's':
			seconds = value_of("seconds", optarg, 0.001, MOST_SECONDS);
			break;
		case 'c':
			if (!cpus_parse(optarg, wanted))
				ksft_exit_fail_msg("--cpus %s: not a list such as 0-3,8\n", optarg);
			break;
		case 'j':
			json = optarg;
			break;
		case 'y':
			sysfs = optarg;
			rehearsal = true;
			break;
		case 'x':
			racy = true;
			break;
		case 'k':
			break;
		default:
			ksft_exit_fail_msg("%s is no option, or lacks its value; see --help\n",
					   argv[optind - 1]);
		}
	}
	if (optind < argc)
		ksft_exit_fail_msg("%s is no option; see --help\n", argv[optind]);
}

static void choose_cpus(const struct cpus *asked)
{
	struct cpus online, allowed, wanted;
	char text[LIST_SIZE];
	int nr;

	if (!sysfs_line(text, sizeof(text), "cpu/online"))
		ksft_exit_fail_msg("%s/devices/system/cpu/online cannot be read\n", sysfs);
	if (!cpus_parse(text, &online))
		ksft_exit_fail_msg("%s/devices/system/cpu/online: '%s' is no list of CPUs\n",
				   sysfs, text);
	cpus_allowed(&allowed);
	if (!rehearsal)
		cpus_and(&online, &allowed);
	wanted = online;
	if (cpus_count(asked)) {
		cpus_and(&wanted, asked);
		if (!cpus_equal(&wanted, asked))
			ksft_exit_fail_msg("--cpus: some are offline, or may not be used\n");
	}
	nr = cpus_count(&wanted);
	cpus = aligned_alloc(APART, nr * sizeof(*cpus));
	workers = aligned_alloc(APART, nr * 2 * sizeof(*workers));
	if (!cpus || !workers)
		ksft_exit_fail_msg("no memory\n");
	memset(cpus, 0, nr * sizeof(*cpus));
	memset(workers, 0, nr * 2 * sizeof(*workers));
	read_topology(&wanted);
	for (int i = 0; i < nr_cpus; i++)
		cpus[i].runs_on = rehearsal ? cpus_nth(&allowed, i % cpus_count(&allowed)) :
				  cpus[i].id;
}

int main(int argc, char **argv)
{
	struct cpus wanted = {};

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--help")) {
			fputs(usage, stdout);
			return KSFT_PASS;
		}
	}
	ksft_print_header();
	parse(argc, argv, &wanted);
	choose_cpus(&wanted);
	ksft_set_plan(1 + (VARIANTS - GLOBAL) + (VARIANTS - BY_NODE));
	ksft_print_msg("%d CPUs, %d nodes, %d LLCs, lines of %zu bytes; %d rounds of %g s\n",
		       nr_cpus, groups[BY_NODE], groups[BY_LLC], line_size, nr_rounds, seconds);
	if (rehearsal)
		ksft_print_msg("a rehearsal of %s: the figures mean nothing\n", sysfs);

	for (enum variant variant = GLOBAL; variant < VARIANTS; variant++)
		make_masks(variant);
	start_threads();
	for (int round = -1; round < nr_rounds; round++)
		for (enum variant variant = EMPTY; variant < VARIANTS; variant++)
			if (groups[variant] || (variant == EMPTY && round >= 0))
				run_slice(variant, round);
	quit = true;
	pthread_barrier_wait(&begin);
	for (int i = 0; i < 2 * nr_cpus; i++)
		pthread_join(workers[i].thread, NULL);

	if (!have_cycles)
		ksft_print_msg("no cycles: perf_event_open: %s\n", strerror(perf_errno));
	print_table();
	if (json)
		write_json();
	print_results();
	ksft_finished();
}
