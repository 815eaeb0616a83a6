// SPDX-License-Identifier: GPL-2.0
/*
 * What the programs of sched_latency share: CPUs and their topology, samples,
 * threads, what disturbed a run, options, the JSON of a run, and the judging of
 * results, which is at the end and explained there.
 *
 * None of these changes a setting of the machine: only attributes of the
 * process, and /dev/cpu_dma_latency, which the kernel resets when the file is
 * closed.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <getopt.h>
#include <limits.h>
#include <linux/elf.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <math.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "sched_latency.h"

#define MOST_METRICS	256
#define MOST_ABSENT	64
#define MOST_ROWS	10240
#define MOST_BARS	8192
#define MOST_RUNS	100
#define MOST_TESTS	32
#define MOST_SESSIONS	20
#define MOST_RECORDED	128
#define MOST_LIMITS	64

/* A list that names every other CPU. */
#define LIST_SIZE	(MOST_CPUS / 2 * 5)

struct common common;
const char *sysfs = "/sys";

/* Files. */

static int open_named(int flags, const char *format, va_list args)
{
	char path[4096];

	vsnprintf(path, sizeof(path), format, args);
	return open(path, flags | O_CLOEXEC);
}

bool read_line(char *text, size_t size, const char *format, ...)
{
	size_t had = 0;
	va_list args;
	ssize_t len;
	int fd;

	va_start(args, format);
	fd = open_named(O_RDONLY, format, args);
	va_end(args);
	text[0] = '\0';
	if (fd < 0)
		return false;
	while ((len = read(fd, text + had, size - 1 - had)) > 0)
		had += len;
	close(fd);
	text[had] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return len >= 0;
}

bool write_text(const char *text, const char *format, ...)
{
	va_list args;
	ssize_t len;
	int fd;

	va_start(args, format);
	fd = open_named(O_WRONLY, format, args);
	va_end(args);
	if (fd < 0)
		return false;
	len = write(fd, text, strlen(text));
	close(fd);
	return len >= 0;
}

/* CPUs. */

bool cpus_has(const struct cpus *set, int cpu)
{
	return cpu >= 0 && cpu < MOST_CPUS && set->bits[cpu / WORD_BITS] >> cpu % WORD_BITS & 1;
}

void cpus_add(struct cpus *set, int cpu)
{
	set->bits[cpu / WORD_BITS] |= 1UL << cpu % WORD_BITS;
}

void cpus_and(struct cpus *set, const struct cpus *other)
{
	for (size_t i = 0; i < ARRAY_SIZE(set->bits); i++)
		set->bits[i] &= other->bits[i];
}

void cpus_or(struct cpus *set, const struct cpus *other)
{
	for (size_t i = 0; i < ARRAY_SIZE(set->bits); i++)
		set->bits[i] |= other->bits[i];
}

int cpus_count(const struct cpus *set)
{
	int count = 0;

	for (size_t i = 0; i < ARRAY_SIZE(set->bits); i++)
		count += __builtin_popcountl(set->bits[i]);
	return count;
}

int cpus_next(const struct cpus *set, int cpu)
{
	for (cpu++; cpu < MOST_CPUS; cpu = (cpu / WORD_BITS + 1) * WORD_BITS) {
		unsigned long rest = set->bits[cpu / WORD_BITS] >> cpu % WORD_BITS;

		if (rest)
			return cpu + __builtin_ctzl(rest);
	}
	return -1;
}

bool cpus_parse(const char *text, struct cpus *set)
{
	memset(set, 0, sizeof(*set));
	while (*text) {
		char *next;
		long from = strtol(text, &next, 10), to = from;

		if (next == text)
			return false;
		if (*next == '-') {
			text = next + 1;
			to = strtol(text, &next, 10);
			if (next == text)
				return false;
		}
		if (from < 0 || to < from || to >= MOST_CPUS || (*next && *next != ','))
			return false;
		for (; from <= to; from++)
			cpus_add(set, from);
		text = next + (*next == ',');
	}
	return cpus_count(set);
}

const char *cpus_list(const struct cpus *set)
{
	static char text[LIST_SIZE];
	int len = 0;

	text[0] = '\0';
	for (int from = cpus_next(set, -1), to; from >= 0; from = cpus_next(set, to)) {
		to = from;
		while (cpus_has(set, to + 1))
			to++;
		len += snprintf(text + len, sizeof(text) - len, "%s%d", len ? "," : "", from);
		if (to > from)
			len += snprintf(text + len, sizeof(text) - len, "-%d", to);
	}
	return text;
}

/* A list that lacks its own CPU is wrong, and would make all results wrong. */
static bool sysfs_cpus(int cpu, const char *name, struct cpus *set)
{
	char text[LIST_SIZE];

	if (!sysfs_line(text, sizeof(text), "%s", name))
		return false;
	if (!cpus_parse(text, set) || !cpus_has(set, cpu))
		ksft_exit_fail_msg("%s/devices/system/%s: '%s' is no list with CPU %d\n",
				   sysfs, name, text, cpu);
	return true;
}

/* The cache of the highest level of a CPU that holds data. */
static bool llc_of(int cpu, struct cpus *set)
{
	int best = 0, found = -1;
	char text[64], name[128];

	for (int i = 0; sysfs_line(text, sizeof(text), "cpu/cpu%d/cache/index%d/level", cpu, i);
	     i++) {
		int level = atoi(text);

		if (level > best &&
		    sysfs_line(text, sizeof(text), "cpu/cpu%d/cache/index%d/type", cpu, i) &&
		    strcmp(text, "Instruction")) {
			best = level;
			found = i;
		}
	}
	snprintf(name, sizeof(name), "cpu/cpu%d/cache/index%d/shared_cpu_list", cpu, found);
	return found >= 0 && sysfs_cpus(cpu, name, set);
}

static bool node_of(int cpu, struct cpus *set)
{
	char text[LIST_SIZE];
	struct cpus nodes;

	if (!sysfs_line(text, sizeof(text), "node/online") || !cpus_parse(text, &nodes))
		return false;
	for_each_cpu(node, &nodes)
		if (sysfs_line(text, sizeof(text), "node/node%d/cpulist", node) &&
		    cpus_parse(text, set) && cpus_has(set, cpu))
			return true;
	return false;
}

bool cpus_sharing(int cpu, enum sharing what, struct cpus *set)
{
	static const char * const lists[] = {
		[CORE] = "core_cpus_list",
		[CLUSTER] = "cluster_cpus_list",
		[PACKAGE] = "package_cpus_list",
	};
	char name[128];

	if (what == LLC)
		return llc_of(cpu, set);
	if (what == NODE)
		return node_of(cpu, set);
	snprintf(name, sizeof(name), "cpu/cpu%d/topology/%s", cpu, lists[what]);
	return sysfs_cpus(cpu, name, set);
}

bool real_cluster_of(int cpu, struct cpus *cluster)
{
	struct cpus core, llc;

	return cpus_sharing(cpu, CLUSTER, cluster) && cpus_sharing(cpu, CORE, &core) &&
	       cpus_count(cluster) > cpus_count(&core) &&
	       (cpus_sharing(cpu, LLC, &llc) || cpus_sharing(cpu, PACKAGE, &llc)) &&
	       cpus_count(cluster) < cpus_count(&llc);
}

void cpus_allowed(struct cpus *set)
{
	memset(set, 0, sizeof(*set));
	if (sched_getaffinity(0, sizeof(*set), (cpu_set_t *)set))
		ksft_exit_fail_perror("sched_getaffinity");
}

bool run_on(const struct cpus *set)
{
	return !sched_setaffinity(0, sizeof(*set), (const cpu_set_t *)set);
}

bool run_on_cpu(int cpu)
{
	struct cpus one = {};

	cpus_add(&one, cpu);
	return run_on(&one);
}

/* Time. */

__u64 now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * NS_PER_S + time.tv_nsec;
}

__u64 woken(void)
{
	__u64 end, time = now();

	for (end = time + common.inject_us * 1000; time < end; time = now())
		;
	return time;
}

void sleep_until(__u64 ns)
{
	const struct timespec time = { ns / NS_PER_S, ns % NS_PER_S };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
		;
}

/* Real-time threads. The limit for all of them, sched_rt_runtime_us, is not changed. */

/* Includes time in which the host runs something else: seconds, if emulated. */
#define RTTIME_US	5000000

/* musl's sched_setscheduler() always fails. */
static bool set_policy(int policy, int priority)
{
	struct sched_param param = { .sched_priority = priority };

	return !syscall(SYS_sched_setscheduler, 0, policy, &param);
}

bool be_realtime(int priority)
{
	return set_policy(SCHED_FIFO, priority);
}

const char *why_no_realtime(int priority)
{
	if (be_realtime(priority)) {
		set_policy(SCHED_OTHER, 0);
		return NULL;
	}
	if (errno == EPERM && geteuid())
		return "SCHED_FIFO needs root, CAP_SYS_NICE or RLIMIT_RTPRIO";
	if (errno == EPERM)
		return "SCHED_FIFO is not allowed: no cpu.rt_runtime_us, or a container";
	return strerror(errno);
}

void be_prompt(void)
{
	const struct rlimit limit = { RTTIME_US, RTTIME_US + 1000000 };
	int fd = open("/dev/cpu_dma_latency", O_RDWR | O_CLOEXEC);
	struct stat found;
	__s32 no_latency = 0;

	if (setrlimit(RLIMIT_RTTIME, &limit))
		give_up_refused("RLIMIT_RTTIME", errno);
	/* A container may have a plain file of that name. */
	if (fd >= 0 && (fstat(fd, &found) || !S_ISCHR(found.st_mode) ||
			write(fd, &no_latency, sizeof(no_latency)) < 0))
		close(fd);
	/* It is no error if this is refused. */
	mlockall(MCL_CURRENT | MCL_FUTURE);
}

/* Results. The run, a process, shares them with the process that judges them. */

/* In percent of the time of the CPUs, but realtime: of one CPU. */
struct disturbance {
	double steal, irq, others, realtime, hidden;
	long throttled;
	/* Why the figures may be spoiled; empty if they are not. */
	char why[160];
};

struct row {
	char group[32];
	int cpu;
	__u64 n;
	/* p50, p99 and most in ns, and what was missed in percent, or -1. */
	double of[4];
};

struct results {
	struct timespec started;
	double uptime;
	int nr_metrics, nr_absent, nr_rows, nr_bars;
	bool done, refused;
	/* Why the run has no results. */
	char error[256];
	/* The first wake-up beyond --threshold-us; broken_cpu is one too high. */
	int broken_cpu;
	__u64 broken_ns;
	struct disturbance disturbance;
	struct metric metrics[MOST_METRICS];
	struct {
		char name[56], reason[160];
	} absent[MOST_ABSENT];
	struct row rows[MOST_ROWS];
	/* What each bucket of a histogram counted. */
	struct {
		char name[40];
		__u64 from, count;
	} bars[MOST_BARS];
};

/* Those of this run. */
static struct results *all;

void *shared_memory(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		ksft_exit_fail_perror("mmap");
	return memory;
}

static struct results *results_new(void)
{
	struct results *results = shared_memory(sizeof(*results));
	struct timespec up;

	clock_gettime(CLOCK_REALTIME, &results->started);
	clock_gettime(CLOCK_BOOTTIME, &up);
	results->uptime = up.tv_sec + up.tv_nsec / 1e9;
	return results;
}

struct metric *add_metric(enum kind kind, enum direction direction, const char *unit,
			  double value, __u64 n, const char *format, ...)
{
	struct metric *metric = &all->metrics[all->nr_metrics++];
	va_list args;

	if (all->nr_metrics > MOST_METRICS)
		ksft_exit_fail_msg("more than %d metrics\n", MOST_METRICS);
	va_start(args, format);
	vsnprintf(metric->name, sizeof(metric->name), format, args);
	va_end(args);
	snprintf(metric->unit, sizeof(metric->unit), "%s", unit);
	metric->direction = direction;
	metric->kind = kind;
	metric->value = value;
	metric->n = n;
	metric->cpu = -1;
	return metric;
}

void add_absent(const char *name, const char *format, ...)
{
	va_list args;

	if (all->nr_absent == MOST_ABSENT)
		ksft_exit_fail_msg("more than %d metrics are missing\n", MOST_ABSENT);
	snprintf(all->absent[all->nr_absent].name, sizeof(all->absent->name), "%s", name);
	va_start(args, format);
	vsnprintf(all->absent[all->nr_absent++].reason, sizeof(all->absent->reason), format, args);
	va_end(args);
}

double percent(double part, double whole)
{
	return whole ? 100 * part / whole : 0;
}

void give_up(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (all)
		vsnprintf(all->error, sizeof(all->error), format, args);
	else
		vfprintf(stderr, format, args);
	va_end(args);
	_exit(KSFT_FAIL);
}

void give_up_refused(const char *what, int error)
{
	if (all)
		all->refused = error == EMFILE || error == ENFILE || error == EAGAIN ||
			       error == ENOMEM || error == EPERM || error == EACCES;
	give_up("%s: %s", what, strerror(error));
}

void must(bool done, const char *what)
{
	if (!done)
		give_up("%s: %s", what, strerror(errno));
}

int ran_on(const struct cpus *set)
{
	int cpu = sched_getcpu();

	/* The kernel moves even a pinned thread when its CPU goes offline. */
	if (!cpus_has(set, cpu))
		give_up("a thread ran on CPU %d, not where it is pinned: was a CPU set offline?",
			cpu);
	return cpu;
}

/* Samples. */

int bucket_of(__u64 ns)
{
	int shift;

	if (ns < STEPS)
		return ns;
	if (ns >> TOP_BITS)
		return BUCKETS - 1;
	shift = 63 - __builtin_clzll(ns) - STEPS_BITS;
	return (shift << STEPS_BITS) + (ns >> shift);
}

__u64 bucket_start(int bucket)
{
	if (bucket < 2 * STEPS)
		return bucket;
	return (__u64)(STEPS + bucket % STEPS) << ((bucket >> STEPS_BITS) - 1);
}

void histogram_add(struct histogram *histogram, __u64 ns)
{
	unsigned long had = __atomic_load_n(&histogram->most, __ATOMIC_RELAXED);
	unsigned long now = ns < ULONG_MAX ? ns : ULONG_MAX;

	while (now > had && !__atomic_compare_exchange_n(&histogram->most, &had, now, true,
							 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	__atomic_add_fetch(&histogram->buckets[bucket_of(ns)], 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&histogram->n, 1, __ATOMIC_RELAXED);
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
	if (from->most > into->most)
		into->most = from->most;
	into->n += from->n;
	for (int i = 0; i < BUCKETS && from->n; i++)
		into->buckets[i] += from->buckets[i];
}

/* Interpolated within the bucket of the sample of this rank. */
double histogram_quantile(const struct histogram *histogram, double share)
{
	double rank = share * histogram->n, before = 0;

	for (int i = 0; i < BUCKETS - 1 && share < 1; i++) {
		__u64 count = histogram->buckets[i], width = bucket_start(i + 1) - bucket_start(i);

		if (count && before + count >= rank)
			return fmin(bucket_start(i) + (rank - before) / count * (width - 1),
				    histogram->most);
		before += count;
	}
	return histogram->most;
}

void samples_new(struct samples *samples)
{
	samples->nr_cpus = sysconf(_SC_NPROCESSORS_CONF);
	for_each_cpu(cpu, &common.cpus)
		if (cpu >= samples->nr_cpus)
			samples->nr_cpus = cpu + 1;
	samples->on = shared_memory(samples->nr_cpus * sizeof(*samples->on));
	samples->missed = NULL;
}

/* Only the first one beyond the threshold stops tracing. */
static void note_threshold(int cpu, __u64 ns)
{
	static const char * const places[] = { "/sys/kernel/tracing", "/sys/kernel/debug/tracing" };
	char text[80];
	int none = 0;

	if (!__atomic_compare_exchange_n(&all->broken_cpu, &none, cpu + 1, false,
					 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	all->broken_ns = ns;
	snprintf(text, sizeof(text), "sched_latency: CPU %d was %.1f us late\n", cpu, ns / 1e3);
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		if (write_text(text, "%s/trace_marker", places[i]) &&
		    write_text("0", "%s/tracing_on", places[i]))
			return;
}

bool beyond_threshold(void)
{
	return __atomic_load_n(&all->broken_cpu, __ATOMIC_RELAXED);
}

void sample(struct samples *samples, int cpu, __u64 ns)
{
	histogram_add(&samples->on[cpu < samples->nr_cpus ? cpu : samples->nr_cpus - 1], ns);
	if (common.threshold_us && ns > common.threshold_us * 1000)
		note_threshold(cpu, ns);
}

__u64 samples_count(const struct samples *samples)
{
	__u64 n = 0;

	for (int cpu = 0; cpu < samples->nr_cpus; cpu++)
		n += samples->on[cpu].n;
	return n;
}

/* A row for each CPU that has samples. */
static void add_rows(const char *name, const struct samples *samples)
{
	for (int cpu = 0; cpu < samples->nr_cpus; cpu++) {
		const struct histogram *on = &samples->on[cpu];
		struct row *row = &all->rows[all->nr_rows];

		if (!on->n || all->nr_rows == MOST_ROWS)
			continue;
		all->nr_rows++;
		snprintf(row->group, sizeof(row->group), "%s", name);
		row->cpu = cpu;
		row->n = on->n;
		row->of[0] = histogram_quantile(on, 0.5);
		row->of[1] = histogram_quantile(on, 0.99);
		row->of[2] = on->most;
		row->of[3] = samples->missed ?
			     percent(samples->missed[cpu], samples->missed[cpu] + on->n) : -1;
	}
}

/* Of its CPUs, the worst one by each figure. */
static void add_worst_cpu(const char *name, int first_row)
{
	static const char * const names[] = { "p50", "p99", NULL, "missed_share" };

	for (int what = 0; what < 4; what++) {
		const struct row *worst = &all->rows[first_row];

		for (int i = first_row; i < all->nr_rows; i++)
			if (all->rows[i].of[what] > worst->of[what])
				worst = &all->rows[i];
		if (names[what] && worst->n && worst->of[what] >= 0)
			add_metric(what == 3 ? RATE : QUANTILE, LOWER, what == 3 ? "%" : "ns",
				   worst->of[what], worst->n, "%s.worst_cpu_%s", name,
				   names[what])->cpu = worst->cpu;
	}
}

void add_samples(const char *name, const struct samples *samples, bool worst)
{
	static const struct {
		const char *name;
		double share;
	} quantiles[] = {
		{ "p50", 0.5 }, { "p90", 0.9 }, { "p99", 0.99 }, { "p99_9", 0.999 }, { "max", 1 },
	};
	struct histogram *sum = shared_memory(sizeof(*sum));
	int first_row = all->nr_rows;

	for (int cpu = 0; cpu < samples->nr_cpus; cpu++)
		histogram_merge(sum, &samples->on[cpu]);
	add_metric(EXACT, NEITHER, "samples", sum->n, sum->n, "%s.samples", name);
	for (size_t i = 0; i < ARRAY_SIZE(quantiles) && sum->n; i++)
		add_metric(QUANTILE, LOWER, "ns", histogram_quantile(sum, quantiles[i].share),
			   sum->n, "%s.%s", name, quantiles[i].name);
	add_rows(name, samples);
	if (worst)
		add_worst_cpu(name, first_row);
	for (int i = 0; i < BUCKETS && all->nr_bars < MOST_BARS; i++)
		if (sum->buckets[i]) {
			snprintf(all->bars[all->nr_bars].name, sizeof(all->bars->name), "%s", name);
			all->bars[all->nr_bars].from = bucket_start(i);
			all->bars[all->nr_bars++].count = sum->buckets[i];
		}
	munmap(sum, sizeof(*sum));
}

/* Threads and processes. */

pid_t fork_bound(void)
{
	pid_t parent = getpid(), pid = fork();

	if (!pid && (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent))
		_exit(KSFT_FAIL);
	return pid;
}

void start_thread(pthread_t *thread, void *(*work)(void *argument), void *argument)
{
	pthread_attr_t attributes;
	int error;

	pthread_attr_init(&attributes);
	/* Locked in memory: the default 8 MB are too much for 1000 threads. */
	pthread_attr_setstacksize(&attributes, 256 << 10);
	error = pthread_create(thread, &attributes, work, argument);
	pthread_attr_destroy(&attributes);
	if (error)
		give_up_refused("a thread cannot be started", error);
}

static pthread_barrier_t ready;
static __u64 start_of_all;

__u64 be_ready(const struct cpus *set, int priority)
{
	must(run_on(set), "a thread cannot have its CPUs");
	must(!priority || be_realtime(priority), "SCHED_FIFO");
	/* First until all are ready, then until the start is set. */
	pthread_barrier_wait(&ready);
	pthread_barrier_wait(&ready);
	return start_of_all;
}

void run_threads(int nr, void *(*work)(void *argument), void *array, size_t size)
{
	pthread_t *threads = calloc(nr, sizeof(*threads));

	if (!threads || pthread_barrier_init(&ready, NULL, nr + 1))
		give_up("no memory");
	for (int i = 0; i < nr; i++)
		start_thread(&threads[i], work, (char *)array + i * size);
	pthread_barrier_wait(&ready);
	start_of_all = now();
	pthread_barrier_wait(&ready);
	for (int i = 0; i < nr; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&ready);
	free(threads);
}

void futex_wait(__u32 *word, __u32 value)
{
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == value)
		syscall(SYS_futex, word, FUTEX_WAIT, value, NULL, NULL, 0);
}

void futex_wake(__u32 *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Wake-ups of a task on an idle CPU outside of the waker's cluster. */

struct wakee {
	const struct place *place;
	struct samples *latency;
	pid_t tid;
	int slept_on, ran_on, to[2], from[2];
	__u64 stamp;
	bool over;
};

#define BROKEN	"a wake-up failed"

/* The syscall file of a thread that is off its CPU names its system call. */
static void await_read(pid_t tid)
{
	char text[256];

	do {
		must(read_line(text, sizeof(text), "/proc/self/task/%d/syscall", tid), BROKEN);
	} while (!strncmp(text, "running", 7) || atoi(text) != SYS_read);
}

static void *be_woken(void *argument)
{
	struct wakee *own = argument;
	char byte = 0;
	__u64 time;

	own->tid = syscall(SYS_gettid);
	for (;;) {
		/* If it sleeps elsewhere, it may rightly stay there. */
		must(run_on_cpu(own->place->wakee) && run_on(&own->place->llc), BROKEN);
		own->slept_on = sched_getcpu();
		must(write(own->from[1], &byte, 1) == 1 && read(own->to[0], &byte, 1) == 1, BROKEN);
		if (own->over)
			return NULL;
		time = woken();
		own->ran_on = ran_on(&own->place->llc);
		sample(own->latency, own->ran_on, time - own->stamp);
		must(write(own->from[1], &byte, 1) == 1, BROKEN);
	}
}

void wake_from_cluster(const struct place *place, int wakeups, int patience,
		       struct samples *latency, struct placed *placed)
{
	struct wakee wakee = { .place = place, .latency = latency };
	__u64 until = now() + patience * NS_PER_S;
	pthread_t thread;
	char byte = 0;

	must(run_on_cpu(place->waker), BROKEN);
	must(!pipe2(wakee.to, O_CLOEXEC) && !pipe2(wakee.from, O_CLOEXEC), "pipe");
	start_thread(&thread, be_woken, &wakee);
	for (int i = 0; i < wakeups; i++) {
		must(read(wakee.from[0], &byte, 1) == 1, BROKEN);
		await_read(wakee.tid);
		wakee.stamp = now();
		must(write(wakee.to[1], &byte, 1) == 1 && read(wakee.from[0], &byte, 1) == 1,
		     BROKEN);
		if (patience && !placed->cluster && now() < until &&
		    !cpus_has(&place->cluster, wakee.ran_on))
			i--;
		else if (wakee.slept_on != place->wakee)
			/* Something else moved it before it slept. */
			placed->moved++;
		else if (cpus_has(&place->cluster, wakee.ran_on))
			placed->cluster++;
		else if (wakee.ran_on == place->wakee)
			placed->stayed++;
		else
			placed->elsewhere++;
	}
	must(read(wakee.from[0], &byte, 1) == 1, BROKEN);
	wakee.over = true;
	must(write(wakee.to[1], &byte, 1) == 1, BROKEN);
	pthread_join(thread, NULL);
	for (int i = 0; i < 2; i++) {
		close(wakee.to[i]);
		close(wakee.from[i]);
	}
}

/*
 * What else happened on the CPUs, read before and after a run. Kernel threads
 * never excuse a run: they belong to the kernel that is tested.
 */

#define MOST_STEAL	1.0
#define MOST_IRQ	20.0
#define MOST_OTHERS	5.0
/* Of one CPU: such a task runs whatever priority ours have. */
#define MOST_REALTIME	1.0

/* A flag in /proc/PID/stat, and a policy. */
#define KERNEL_THREAD	0x00200000
#define DEADLINE	6
/* The largest number of a process. */
#define MOST_PIDS	(4 << 20)

struct moment {
	__u64 time, steal, irq;
	long throttled;
	/* Of each process, by its number. */
	__u32 *ticks;
};

static void read_moment(struct moment *moment)
{
	FILE *file = fopen("/proc/stat", "re");
	unsigned long long irq, softirq, steal;
	char line[512], text[64];
	int of;

	moment->time = now();
	while (file && fgets(line, sizeof(line), file) && !strncmp(line, "cpu", 3))
		if (sscanf(line, "cpu%d %*u %*u %*u %*u %*u %llu %llu %llu", &of, &irq, &softirq,
			   &steal) == 4 && cpus_has(&common.cpus, of)) {
			moment->irq += irq + softirq;
			moment->steal += steal;
		}
	if (file)
		fclose(file);
	for_each_cpu(cpu, &common.cpus)
		if (sysfs_line(text, sizeof(text),
			       "cpu/cpu%d/thermal_throttle/core_throttle_count", cpu))
			moment->throttled += atol(text);
}

/* Note what each process had, or with @found how much that grew; the name of the busiest. */
static void read_others(__u32 *had, struct disturbance *found, double per_tick, char *busiest)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	double most = 0;

	while (proc && (entry = readdir(proc))) {
		/* Numbered as in proc(5). */
		unsigned long fields[42] = {};
		pid_t pid = atoi(entry->d_name);
		char text[1024], *end;
		double share;

		if (pid <= 0 || pid >= MOST_PIDS || pid == getpid() || pid == getppid() ||
		    !read_line(text, sizeof(text), "/proc/%d/stat", pid))
			continue;
		end = strrchr(text, ')');
		for (int i = 3; end && *end && i < 42; i++) {
			end += strcspn(end, " ");
			end += strspn(end, " ");
			fields[i] = strtoul(end, NULL, 10);
		}
		/* A process that is new began with 0. */
		share = (fields[14] + fields[15] - had[pid]) * per_tick;
		had[pid] = fields[14] + fields[15];
		if (!found || fields[9] & KERNEL_THREAD || !cpus_has(&common.cpus, fields[39]))
			continue;
		if (fields[41] == SCHED_FIFO || fields[41] == SCHED_RR || fields[41] == DEADLINE)
			found->realtime += share;
		else
			found->others += share / cpus_count(&common.cpus);
		if (share > most) {
			most = share;
			snprintf(busiest, 64, "pid %d %.20s", pid, strchr(text, '('));
		}
	}
	if (proc)
		closedir(proc);
}

static void compare_moments(const struct moment *before, struct disturbance *found)
{
	struct moment after = {};
	double per_tick, of_all;
	char busiest[64] = "";

	read_moment(&after);
	per_tick = 100.0 * NS_PER_S / (after.time - before->time) / sysconf(_SC_CLK_TCK);
	of_all = per_tick / cpus_count(&common.cpus);
	/* A CPU that went offline takes its counts along. */
	found->steal = after.steal > before->steal ? of_all * (after.steal - before->steal) : 0;
	found->irq = after.irq > before->irq ? of_all * (after.irq - before->irq) : 0;
	found->throttled = after.throttled - before->throttled;
	read_others(before->ticks, found, per_tick, busiest);
	if (found->steal >= MOST_STEAL)
		snprintf(found->why, sizeof(found->why), "the hypervisor stole %.1f %% of the time",
			 found->steal);
	else if (found->others >= MOST_OTHERS)
		snprintf(found->why, sizeof(found->why),
			 "other tasks took %.0f %% of the time, first %.60s", found->others,
			 busiest);
	else if (found->throttled > 0)
		snprintf(found->why, sizeof(found->why), "a CPU was too hot %ld times",
			 found->throttled);
}

/* Statistics. */

static int compare_values(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double median_of(double *values, int nr)
{
	qsort(values, nr, sizeof(*values), compare_values);
	return nr ? values[(nr - 1) / 2] : NAN;
}

/*
 * References: costs of the machine, measured before and after each run on its
 * first CPU. What two CPUs do for each other drifts with the cost of an IPI,
 * what one CPU does with that of a system call.
 */

#define REFERENCE_ROUNDS	9

static const char * const reference_names[REFERENCES] = { "", "ipi", "syscall" };
static const int repeats[REFERENCES] = { 0, 50, 1000 };
/* Of all rounds, those after the run too. */
static double costs[REFERENCES][2 * REFERENCE_ROUNDS];
static bool references_done, helper_runs;

static void *occupy(void *argument)
{
	must(run_on_cpu(*(int *)argument), "a second CPU");
	__atomic_store_n(&helper_runs, true, __ATOMIC_RELAXED);
	while (!__atomic_load_n(&references_done, __ATOMIC_RELAXED))
		;
	return NULL;
}

static void *measure_references(void *argument)
{
	struct cpus cpus = common.cpus;
	double *into = argument;
	int first, second;
	pthread_t helper;

	if (strcmp(sysfs, "/sys"))
		cpus_allowed(&cpus);
	first = cpus_next(&cpus, -1);
	second = cpus_next(&cpus, first);
	references_done = second < 0;
	helper_runs = second < 0;
	/* On the second CPU the helper would never let it go on. */
	must(run_on_cpu(first), "a CPU");
	/* The helper inherits it. */
	be_realtime(sched_get_priority_max(SCHED_FIFO));
	if (second >= 0)
		start_thread(&helper, occupy, &second);
	while (!__atomic_load_n(&helper_runs, __ATOMIC_RELAXED))
		sched_yield();
	syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
	for (int i = 0; i < REFERENCE_ROUNDS * REFERENCES; i++) {
		enum reference what = i % REFERENCES;
		__u64 start = now();

		for (int turn = 0; turn < repeats[what]; turn++) {
			if (what == IPI)
				syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
			else if (what == SYSCALL)
				syscall(SYS_getppid);
		}
		into[what * 2 * REFERENCE_ROUNDS + i / REFERENCES] = now() - start;
	}
	__atomic_store_n(&references_done, true, __ATOMIC_RELAXED);
	if (second >= 0)
		pthread_join(helper, NULL);
	return NULL;
}

/* In a thread, because it changes its CPUs and its policy. */
static void take_references(int half)
{
	pthread_t thread;

	start_thread(&thread, measure_references, &costs[0][half * REFERENCE_ROUNDS]);
	pthread_join(thread, NULL);
}

static void add_references(void)
{
	for (enum reference what = IPI; what < REFERENCES; what++)
		add_metric(QUANTILE, NEITHER, "ns",
			   median_of(costs[what], 2 * REFERENCE_ROUNDS) / repeats[what],
			   2 * REFERENCE_ROUNDS, "reference.%s", reference_names[what]);
}

/* Fingerprint. */

/* FNV-1a: for short names only, not for security. */
static __u64 hash_of(__u64 hash, const void *data, size_t size)
{
	const unsigned char *byte = data;

	while (size--)
		hash = (hash ^ *byte++) * 0x100000001b3ULL;
	return hash;
}

#define HASH_START	0xcbf29ce484222325ULL

static void cpu_model(char *text, size_t size)
{
	FILE *file = fopen("/proc/cpuinfo", "re");
	char line[512], implementer[32] = "", part[32] = "";

	text[0] = '\0';
	while (file && !text[0] && fgets(line, sizeof(line), file)) {
		char *value = strstr(line, ": ");

		line[strcspn(line, "\n")] = '\0';
		if (!value)
			continue;
		if (!strncmp(line, "model name", 10) || !strncmp(line, "cpu\t", 4))
			snprintf(text, size, "%s", value + 2);
		if (!strncmp(line, "CPU implementer", 15))
			snprintf(implementer, sizeof(implementer), "%.30s", value + 2);
		if (!strncmp(line, "CPU part", 8))
			snprintf(part, sizeof(part), "%.30s", value + 2);
	}
	if (file)
		fclose(file);
	if (!text[0] && part[0])
		snprintf(text, size, "implementer %s part %s", implementer, part);
}

static int count_shared(const struct cpus *cpus, enum sharing what)
{
	struct cpus seen = {}, shared;
	int nr = 0;

	for_each_cpu(cpu, cpus) {
		if (cpus_has(&seen, cpu))
			continue;
		if (!cpus_sharing(cpu, what, &shared))
			return 0;
		cpus_or(&seen, &shared);
		nr++;
	}
	return nr;
}

/* A container with half of the CPUs is another machine. */
static const char *machine_text(void)
{
	static char text[1024];
	struct utsname name;
	struct cpus cpus;
	char model[256];

	uname(&name);
	cpu_model(model, sizeof(model));
	cpus_allowed(&cpus);
	snprintf(text, sizeof(text), "%s %s, CPUs %.256s, %d LLCs, %d nodes", name.machine, model,
		 cpus_list(&cpus), count_shared(&cpus, LLC), count_shared(&cpus, NODE));
	return text;
}

static const char *machine_name(void)
{
	const char *text = machine_text();
	static char name[17];

	snprintf(name, sizeof(name), "%016llx",
		 (unsigned long long)hash_of(HASH_START, text, strlen(text)));
	return name;
}

/* From the notes of the kernel. */
static void kernel_build_id(char *text, size_t size)
{
	FILE *file = fopen("/sys/kernel/notes", "re");
	char owner[64], id[64];
	struct elf64_note note;

	text[0] = '\0';
	while (file && !text[0] && fread(&note, sizeof(note), 1, file)) {
		size_t owner_size = (note.n_namesz + 3) & ~3, id_size = (note.n_descsz + 3) & ~3;

		if (owner_size > sizeof(owner) || id_size > sizeof(id)) {
			if (fseek(file, owner_size + id_size, SEEK_CUR))
				break;
			continue;
		}
		if (fread(owner, 1, owner_size, file) != owner_size ||
		    fread(id, 1, id_size, file) != id_size)
			break;
		if (note.n_type == 3 && !strncmp(owner, "GNU", 4))
			for (size_t i = 0; i < note.n_descsz && 2 * i + 2 < size; i++)
				sprintf(text + 2 * i, "%02x", (unsigned char)id[i]);
	}
	if (file)
		fclose(file);
}

/* A hash of the kernel's compressed configuration, to tell two apart. */
static void configuration_name(char *text, size_t size)
{
	FILE *file = fopen("/proc/config.gz", "re");
	__u64 hash = HASH_START;
	char part[4096];
	size_t len;

	text[0] = '\0';
	if (!file)
		return;
	while ((len = fread(part, 1, sizeof(part), file)))
		hash = hash_of(hash, part, len);
	fclose(file);
	snprintf(text, size, "config.gz fnv1a %016llx", (unsigned long long)hash);
}

/* The file of a run: JSON in schema run-1 of schedline, each metric on a line of its own. */

static void write_string(FILE *file, const char *text)
{
	fputc('"', file);
	for (; *text; text++) {
		unsigned char c = *text;

		if (c == '"' || c == '\\')
			fprintf(file, "\\%c", c);
		else if (c < ' ' || c > '~')
			fprintf(file, "\\u%04x", c);
		else
			fputc(c, file);
	}
	fputc('"', file);
}

static void write_field(FILE *file, const char *name, const char *text, const char *end)
{
	fprintf(file, "  \"%s\": ", name);
	write_string(file, text);
	fprintf(file, "%s\n", end);
}

static void write_fingerprint(FILE *file, const char *command)
{
	static const char * const files[][2] = {
		{ "kernel_command_line", "/proc/cmdline" },
		{ "boot_id", "/proc/sys/kernel/random/boot_id" },
		{ "clocksource",
		  "/sys/devices/system/clocksource/clocksource0/current_clocksource" },
		{ "governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor" },
	};
	struct utsname name;
	char text[4096];

	uname(&name);
	fprintf(file, "\"fingerprint\": {\n");
	write_field(file, "machine_name", machine_name(), ",");
	write_field(file, "machine", machine_text(), ",");
	snprintf(text, sizeof(text), "%s %s", name.release, name.version);
	write_field(file, "kernel", text, ",");
	kernel_build_id(text, sizeof(text));
	write_field(file, "build_id", text, ",");
	configuration_name(text, sizeof(text));
	write_field(file, "configuration", text, ",");
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		read_line(text, sizeof(text), "%s", files[i][1]);
		write_field(file, files[i][0], text, ",");
	}
	write_field(file, "compiler", __VERSION__, ",");
	write_field(file, "command_line", command, "");
	fprintf(file, "},\n");
}

static void write_metric(FILE *file, const struct metric *metric)
{
	static const char * const directions[] = { "lower", "higher", "neither" };
	static const char * const kinds[] = { "exact", "quantile", "rate", "exceedance" };

	fprintf(file, "\n  {\"name\": \"%s\", \"unit\": \"%s\", \"direction\": \"%s\", ",
		metric->name, metric->unit, directions[metric->direction]);
	fprintf(file, "\"kind\": \"%s\", \"value\": %.9g, \"n\": %llu", kinds[metric->kind],
		metric->value, (unsigned long long)metric->n);
	for (int i = 0; i < metric->nr_rounds; i++)
		fprintf(file, "%s%.9g", i ? ", " : ", \"rounds\": [", metric->rounds[i]);
	fprintf(file, "%s}", metric->nr_rounds ? "]" : "");
}

static void write_rows(FILE *file, const struct results *results)
{
	fprintf(file, "\n],\n\"cpus\": [");
	for (int i = 0; i < results->nr_rows; i++) {
		const struct row *row = &results->rows[i];

		fprintf(file, "%s\n  {\"group\": \"%s\", \"cpu\": %d, \"n\": %llu, ",
			i ? "," : "", row->group, row->cpu, (unsigned long long)row->n);
		fprintf(file, "\"p50_ns\": %.9g, \"p99_ns\": %.9g, \"max_ns\": %.9g",
			row->of[0], row->of[1], row->of[2]);
		if (row->of[3] >= 0)
			fprintf(file, ", \"missed_percent\": %.9g", row->of[3]);
		fprintf(file, "}");
	}
	fprintf(file, "\n],\n\"histograms\": {");
	for (int i = 0; i < results->nr_bars; i++) {
		if (i && !strcmp(results->bars[i].name, results->bars[i - 1].name))
			fprintf(file, ", ");
		else
			fprintf(file, "%s\n  \"%s\": [", i ? "]," : "", results->bars[i].name);
		fprintf(file, "[%llu, %llu]", (unsigned long long)results->bars[i].from,
			(unsigned long long)results->bars[i].count);
	}
	fprintf(file, "%s\n},\n", results->nr_bars ? "]" : "");
}

static void write_run(FILE *file, const struct results *results, const char *tool,
		      const char *command, const char *status)
{
	const struct disturbance *found = &results->disturbance;
	struct tm utc;
	char text[64];

	gmtime_r(&results->started.tv_sec, &utc);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
	fprintf(file, "{\n\"schema\": \"run-1\",\n\"tool\": \"%s\",\n", tool);
	fprintf(file, "\"started\": \"%s\",\n\"uptime_s\": %.2f,\n", text, results->uptime);
	write_fingerprint(file, command);
	fprintf(file, "\"status\": \"%s\",\n\"reason\": ", status);
	write_string(file, results->error);
	fprintf(file, ",\n\"metrics\": [");
	for (int i = 0; i < results->nr_metrics; i++) {
		fprintf(file, "%s", i ? "," : "");
		write_metric(file, &results->metrics[i]);
	}
	fprintf(file, "\n],\n\"absent\": [");
	for (int i = 0; i < results->nr_absent; i++) {
		fprintf(file, "%s\n  {\"name\": \"%s\", \"reason\": ", i ? "," : "",
			results->absent[i].name);
		write_string(file, results->absent[i].reason);
		fprintf(file, "}");
	}
	write_rows(file, results);
	fprintf(file, "\"disturbance\": {\"steal_percent\": %.4g, \"interrupts_percent\": %.4g, ",
		found->steal, found->irq);
	fprintf(file, "\"others_percent\": %.4g, \"realtime_percent\": %.4g, \"throttled\": %ld, ",
		found->others, found->realtime, found->throttled);
	fprintf(file, "\"why\": ");
	write_string(file, found->why);
	fprintf(file, "}\n}\n");
}

/* The whole text or the old file; errno says why it failed. */
static bool replace_file(const char *path, const char *text)
{
	char new[4096];
	FILE *file;
	bool done;
	int error;

	snprintf(new, sizeof(new), "%.4000s.new", path);
	/* If a link exists there, do not write through it. */
	unlink(new);
	file = fopen(new, "wxe");
	if (!file)
		return false;
	done = fputs(text, file) >= 0 && !fflush(file) && !fsync(fileno(file));
	error = errno;
	if (!fclose(file) && done && !rename(new, path))
		return true;
	error = done ? errno : error;
	unlink(new);
	errno = error;
	return false;
}

/* file.json, file-2.json and so on. */
static void save_run(const char *path, int number, const struct results *results,
		     const char *tool, const char *command, const char *status)
{
	const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
	char numbered[4096], digits[16] = "", *text = NULL;
	size_t size;
	FILE *memory = open_memstream(&text, &size);

	if (!memory)
		ksft_exit_fail_perror("open_memstream");
	write_run(memory, results, tool, command, status);
	fclose(memory);
	if (!dot || (slash && dot < slash))
		dot = path + strlen(path);
	if (number > 1)
		snprintf(digits, sizeof(digits), "-%d", number);
	snprintf(numbered, sizeof(numbered), "%.*s%s%.90s", (int)(dot - path), path, digits, dot);
	if (!replace_file(numbered, text))
		ksft_exit_fail_msg("--json %s: %s\n", numbered, strerror(errno));
	free(text);
}

static void keep_run(const struct workload *workload, const struct results *results,
		     const char *command, const char *status)
{
	const char *directory = getenv("SCHED_LATENCY_RESULTS");
	static int number;
	char path[4096];

	number++;
	if (common.json)
		save_run(common.json, number, results, workload->name, command, status);
	if (!directory)
		return;
	snprintf(path, sizeof(path), "%.4000s/%s.json", directory, workload->name);
	save_run(path, 1, results, workload->name, command, status);
}

/* Options: rows, from which --help is made. */

static const struct option_row common_rows[] = {
	{ "cpus", 'a', CPUS, &common.cpus, 0, 0, "use only these CPUs, such as 0-3,8" },
	{ "verbose", 'v', FLAG, &common.verbose, 0, 0, "print all figures" },
	{ "json", 0, WORD, &common.json, 0, 0, "write the run to FILE, the second to FILE-2" },
	{ "runs", 0, COUNT, &common.runs, 1, MOST_RUNS,
	  "number of runs (1; 5 if there is a baseline; 20 with --record)" },
	{ "record", 0, FLAG, &common.record, 0, 0,
	  "add a session to the baseline; best in several boots" },
	{ "limits", 0, WORD, &common.limits, 0, 0, "the file of limits and baselines" },
	{ "limit", 0, WORD, &common.limit, 0, 0, "fail beyond: timer.max=80us,timer.p99=30us" },
	{ "threshold-us", 'b', NUMBER, &common.threshold_us, 0.001, 1e9,
	  "stop the kernel's tracing at the first wake-up that is N us late" },
	{ "on-threshold", 0, WORD, &common.on_threshold, 0, 0, "run this command then" },
	{ "inject-delay-us", 0, NUMBER, &common.inject_us, 0, 1e6,
	  "delay each wake-up, to check that a regression is caught" },
	{ NULL, 'k', FLAG, &common.known_defect, 0, 0, NULL },
	/* Of cyclictest: nothing else is done here. */
	{ NULL, 'm', FLAG, &(bool){ false }, 0, 0, NULL },
	{ NULL, 'q', FLAG, &(bool){ false }, 0, 0, NULL },
};

static int type_of(const struct option_row *row)
{
	return row->type & ~HARMLESS;
}

/* The value of an option, also for --help and for what a baseline depends on. */
static const char *value_text(const struct option_row *row)
{
	static char text[256];

	text[0] = '\0';
	if (type_of(row) == FLAG)
		snprintf(text, sizeof(text), "%d", *(bool *)row->to);
	else if (type_of(row) == COUNT)
		snprintf(text, sizeof(text), "%d", *(int *)row->to);
	else if (type_of(row) == NUMBER || type_of(row) == DURATION)
		snprintf(text, sizeof(text), "%g", *(double *)row->to);
	else if (type_of(row) == WORD && *(const char **)row->to)
		snprintf(text, sizeof(text), "%s", *(const char **)row->to);
	return text;
}

static void print_rows(const struct option_row *rows, int nr)
{
	static const char * const values[] = {
		[COUNT] = " N", [NUMBER] = " N", [WORD] = " WORD", [CPUS] = " LIST",
		[DURATION] = " TIME",
	};

	for (int i = 0; i < nr; i++) {
		const char *value = values[type_of(&rows[i])], *given = value_text(&rows[i]);
		char text[64], letter[8] = "";

		if (!rows[i].help)
			continue;
		if (rows[i].letter)
			snprintf(letter, sizeof(letter), "-%c, ", rows[i].letter);
		snprintf(text, sizeof(text), "%s--%s%s", letter, rows[i].name, value ?: "");
		printf("  %-24s %s", text, rows[i].help);
		printf(*given && strcmp(given, "0") ? " (%s)\n" : "\n", given);
	}
}

static void take_value(const struct option_row *row, const char *name, const char *text)
{
	static const char units[] = "smhd";
	static const double seconds[] = { 1, 60, 3600, 86400 };
	const char *unit;
	double value;
	char *rest;

	if (type_of(row) == FLAG) {
		*(bool *)row->to = true;
		return;
	}
	if (type_of(row) == WORD) {
		*(const char **)row->to = text;
		return;
	}
	if (type_of(row) == CPUS) {
		if (!cpus_parse(text, row->to))
			ksft_exit_fail_msg("%s %s: not a list such as 0-3,8\n", name, text);
		return;
	}
	value = strtod(text, &rest);
	unit = type_of(row) == DURATION && *rest && !rest[1] ? strchr(units, *rest) : NULL;
	if (unit)
		value *= seconds[unit - units];
	if (rest == text || (*rest && !unit) || !(value >= row->least && value <= row->most) ||
	    (type_of(row) == COUNT && value != (int)value))
		ksft_exit_fail_msg("%s %s: not a%s number from %.12g to %.12g\n", name, text,
				   type_of(row) == COUNT ? " whole" : "", row->least, row->most);
	if (type_of(row) == COUNT)
		*(int *)row->to = value;
	else
		*(double *)row->to = value;
}

#define MOST_OPTIONS	40

static void parse_options(int argc, char **argv, const struct workload *workload)
{
	const struct option_row *rows[MOST_OPTIONS];
	struct option options[MOST_OPTIONS + 1] = {};
	char letters[2 * MOST_OPTIONS + 2] = ":", name[64];
	int nr = 0, nr_long = 0, found;

	for (int i = 0; i < workload->nr_rows; i++)
		rows[nr++] = &workload->rows[i];
	for (size_t i = 0; i < ARRAY_SIZE(common_rows); i++)
		rows[nr++] = &common_rows[i];
	/* getopt_long() returns a letter, or 256 plus the index of the row. */
	for (int i = 0; i < nr; i++) {
		int value = type_of(rows[i]) == FLAG ? no_argument : required_argument;

		if (rows[i]->letter)
			sprintf(letters + strlen(letters), "%c%s", rows[i]->letter,
				value == no_argument ? "" : ":");
		if (rows[i]->name)
			options[nr_long++] = (struct option){ rows[i]->name, value, NULL, 256 + i };
	}
	opterr = 0;
	while ((found = getopt_long(argc, argv, letters, options, NULL)) >= 0) {
		const struct option_row *row = found >= 256 ? rows[found - 256] : NULL;

		/* The workload's own letters come first. */
		for (int i = 0; i < nr && !row; i++)
			if (found == rows[i]->letter)
				row = rows[i];
		if (!row)
			ksft_exit_fail_msg("%s is no option, or lacks its value; see --help\n",
					   argv[optind - 1]);
		snprintf(name, sizeof(name), "--%s", row->name);
		take_value(row, name, optarg);
	}
	if (optind < argc)
		ksft_exit_fail_msg("%s is no option; see --help\n", argv[optind]);
}

/* The CPUs to use: those of --cpus, which must be available, or all. */
static void choose_allowed(void)
{
	struct cpus there, both = common.cpus;
	char text[LIST_SIZE];

	if (!strcmp(sysfs, "/sys"))
		cpus_allowed(&there);
	else if (!sysfs_line(text, sizeof(text), "cpu/online") || !cpus_parse(text, &there))
		ksft_exit_fail_msg("%s/devices/system/cpu/online: no list of CPUs\n", sysfs);
	common.cpus_given = cpus_count(&common.cpus);
	if (!common.cpus_given)
		common.cpus = there;
	cpus_and(&both, &there);
	if (common.cpus_given && memcmp(&both, &common.cpus, sizeof(both)))
		ksft_exit_fail_msg("--cpus: some are offline or may not be used\n");
}

/*
 * The file of limits and baselines, for all programs of a machine:
 *
 *	rt_wakeup timer.max=80us		a limit of the user
 *	rt_wakeup for MACHINE, OPTIONS		the baseline is valid for these
 *	rt_wakeup sessions BOOT.MINUTE BOOT.MINUTE
 *	rt_wakeup timer.p50 20900-21600 21500	the medians of each session
 *
 * It is that of --limits or $SCHED_LATENCY_LIMITS, or else
 * ~/.config/sched_latency/MACHINE.
 */

/* To be increased when a workload measures something else under the same name. */
#define MEASUREMENT	3
/* What is recorded earlier than this replaces the session before: machines drift. */
#define SESSION_MINUTES	10

/* The lowest and the highest median of a session; NAN if it has none. */
struct range {
	double low, high;
};

struct recorded {
	char name[64];
	struct range of[MOST_SESSIONS];
};

static struct {
	char path[4096], valid_for[4096];
	/* Limits of the user, and where they are from. */
	char limits[MOST_LIMITS][96];
	const char *source;
	int nr_limits, nr_sessions, nr_recorded;
	char sessions[MOST_SESSIONS][64];
	struct recorded recorded[MOST_RECORDED];
} base;

static void find_limits_file(void)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	const char *named = common.limits ?: getenv("SCHED_LATENCY_LIMITS");

	if (named)
		snprintf(base.path, sizeof(base.path), "%s", named);
	else
		snprintf(base.path, sizeof(base.path), "%.2000s%s/sched_latency/%s",
			 config ?: home ?: "", config ? "" : "/.config", machine_name());
}

static void add_limit(const char *text, const char *source)
{
	if (base.nr_limits == MOST_LIMITS || strlen(text) >= sizeof(base.limits[0]))
		ksft_exit_fail_msg("%s: too many limits, or one is too long\n", source);
	snprintf(base.limits[base.nr_limits++], sizeof(base.limits[0]), "%s", text);
	base.source = source;
}

static struct recorded *find_recorded(const char *name)
{
	for (int i = 0; i < base.nr_recorded; i++)
		if (!strcmp(base.recorded[i].name, name))
			return &base.recorded[i];
	return NULL;
}

/* A new one has no value in any session. */
static struct recorded *add_recorded(const char *name)
{
	struct recorded *recorded = &base.recorded[base.nr_recorded];

	if (base.nr_recorded == MOST_RECORDED)
		ksft_exit_fail_msg("more than %d metrics are recorded\n", MOST_RECORDED);
	base.nr_recorded++;
	snprintf(recorded->name, sizeof(recorded->name), "%s", name);
	for (int i = 0; i < MOST_SESSIONS; i++)
		recorded->of[i] = (struct range){ NAN, NAN };
	return recorded;
}

/* What follows the name of the program; false if it is nothing of the above. */
static bool parse_line(char *text)
{
	char *word = strtok(text, " "), *rest;
	struct recorded *recorded;

	if (!word)
		return false;
	if (strchr(word, '=')) {
		if (!common.limit)
			add_limit(word, base.path);
		return !strtok(NULL, " ");
	}
	if (!strcmp(word, "for")) {
		word = strtok(NULL, "");
		snprintf(base.valid_for, sizeof(base.valid_for), "%s", word ?: "");
		return word;
	}
	if (!strcmp(word, "sessions")) {
		while ((word = strtok(NULL, " ")) && base.nr_sessions < MOST_SESSIONS)
			snprintf(base.sessions[base.nr_sessions++], 64, "%s", word);
		return !word && base.nr_sessions;
	}
	recorded = add_recorded(word);
	for (int i = 0; i < base.nr_sessions; i++) {
		word = strtok(NULL, " ");
		if (!word)
			return false;
		recorded->of[i].low = strtod(word, &rest);
		recorded->of[i].high = *rest == '-' ? strtod(rest + 1, &rest) : recorded->of[i].low;
		if (*rest)
			return false;
	}
	return base.nr_sessions && !strtok(NULL, " ");
}

/* With @others, the lines that do not belong to the baseline of this program are kept there. */
static void read_limits(const char *tool, FILE *others)
{
	FILE *file = fopen(base.path, "re");
	size_t len = strlen(tool), room = 0;
	char *line = NULL;
	int number = 0;

	if (!file && errno != ENOENT && common.limits)
		ksft_exit_fail_msg("%s: %s\n", base.path, strerror(errno));
	while (file && getline(&line, &room, file) > 0) {
		bool own = !strncmp(line, tool, len) && line[len] == ' ';

		number++;
		line[strcspn(line, "\n")] = '\0';
		if (others && (!own || strchr(line, '=')) && strncmp(line + len, " for ", 5))
			fprintf(others, "%s\n", line);
		else if (!others && own && !parse_line(line + len + 1))
			ksft_exit_fail_msg("%s:%d: not a line of limits or of a baseline\n",
					   base.path, number);
	}
	free(line);
	if (file)
		fclose(file);
}

/* What has to be equal for a comparison. */
static const char *valid_now(const struct workload *workload)
{
	const char *machine = machine_text();
	static char text[4096];
	char governor[64];
	size_t len;

	if (!read_line(governor, sizeof(governor),
		       "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor",
		       cpus_next(&common.cpus, -1)))
		snprintf(governor, sizeof(governor), "none");
	snprintf(text, sizeof(text), "measurement %d, %.800s, governor %s, --cpus %.1000s",
		 MEASUREMENT, machine, governor, cpus_list(&common.cpus));
	for (int i = 0; i < workload->nr_rows; i++)
		if (!(workload->rows[i].type & HARMLESS) && workload->rows[i].name) {
			len = strlen(text);
			snprintf(text + len, sizeof(text) - len, ", --%s %s",
				 workload->rows[i].name, value_text(&workload->rows[i]));
		}
	return text;
}

/*
 * Judging. A test is a row, and enum rule says what each kind asks for.
 *
 * The rule for a baseline: --record measures 20 runs, and adds the lowest and
 * the highest median of 5 of them as one session. Later, 5 runs are measured. A
 * metric fails if its median is above (1 + tolerance) times the highest one, and
 * is so in 5 runs more. One session alone says nothing of the drift, so the
 * tolerance is twice as large then. It is no pass if the medians differ so much
 * that twice the tolerance could be missed after the lowest one. Rates are
 * inverted, and for shares the tolerance is added, in points.
 *
 * Runs that something else disturbed do not count for a baseline. If most are
 * disturbed there is no verdict. What is beyond a limit of AT_MOST is a skip if
 * others had so much of the CPUs that they can be the reason.
 */

#define JUDGED_RUNS	5
#define RECORDED_RUNS	20

static const double tolerances[] = { [MEDIAN] = 0.1, [TAIL] = 0.4, [POINTS] = 1 };

struct verdict {
	int result;
	char text[512];
};

struct batch {
	struct results *runs[MOST_RUNS];
	int nr;
};

static __printf(2, 3) void say(struct verdict *verdict, const char *format, ...)
{
	size_t len = strlen(verdict->text);
	va_list args;

	if (len && len + 2 < sizeof(verdict->text))
		len += sprintf(verdict->text + len, "; ");
	va_start(args, format);
	vsnprintf(verdict->text + len, sizeof(verdict->text) - len, format, args);
	va_end(args);
}

static const struct metric *find_metric(const struct results *results, const char *name)
{
	for (int i = 0; name && i < results->nr_metrics; i++)
		if (!strcmp(results->metrics[i].name, name))
			return &results->metrics[i];
	return NULL;
}

/* Why a metric is absent: its name, or only its prefix, is in the list. */
static const char *why_absent(const struct results *results, const char *name)
{
	for (int i = 0; i < results->nr_absent; i++) {
		size_t len = strlen(results->absent[i].name);

		if (!strncmp(results->absent[i].name, name, len) &&
		    (!name[len] || name[len] == '.'))
			return results->absent[i].reason;
	}
	return NULL;
}

/* Of a metric that was not measured: a skip if the run says why. */
static int missing(struct verdict *verdict, const struct batch *batch, const char *name)
{
	const char *why = why_absent(batch->runs[0], name);

	/* Other metrics of the test are often absent for the same reason. */
	if (!why)
		say(verdict, "%s was not measured", name);
	else if (!strstr(verdict->text, why))
		say(verdict, "%s", why);
	return why ? KSFT_SKIP : KSFT_FAIL;
}

/* "20.9 us" of a metric in ns. */
static const char *figure(const char *unit, double value)
{
	static char texts[4][64];
	static int next;
	char *text = texts[next++ % 4];

	if (!strcmp(unit, "ns") && value >= 1e6)
		snprintf(text, 64, "%.3g ms", value / 1e6);
	else if (!strcmp(unit, "ns") && value >= 1e3)
		snprintf(text, 64, "%.3g us", value / 1e3);
	else
		snprintf(text, 64, "%.4g %s", value, unit);
	return text;
}

static void judge_count(struct verdict *verdict, const struct test *test,
			const struct batch *batch)
{
	int found = 0;

	for (int i = 0; i < MOST_COMPARED && test->metrics[i]; i++)
		for (int run = 0; run < batch->nr && verdict->result != KSFT_FAIL; run++) {
			const struct metric *metric = find_metric(batch->runs[run],
								  test->metrics[i]);
			bool bad = metric && !metric->value == (test->rule == DONE);

			if (!metric) {
				bad = !why_absent(batch->runs[run], test->metrics[i]);
				if (bad || (!i && !test->metrics[1]))
					verdict->result = missing(verdict, batch, test->metrics[i]);
				continue;
			}
			if (bad)
				verdict->result = KSFT_FAIL;
			if (bad || !found++)
				say(verdict, "%s %s", metric->name,
				    figure(metric->unit, metric->value));
		}
}

static void judge_above(struct verdict *verdict, const struct test *test,
			const struct batch *batch)
{
	int above = 0, nr = 0;

	for (int run = 0; run < batch->nr; run++) {
		const struct metric *a = find_metric(batch->runs[run], test->metrics[0]);
		const struct metric *b = find_metric(batch->runs[run], test->metrics[1]);

		if (!a || !b) {
			verdict->result = missing(verdict, batch, test->metrics[a ? 1 : 0]);
			return;
		}
		for (int i = 0; i < a->nr_rounds; i++, nr++)
			above += a->rounds[i] > b->rounds[i];
		if (!run)
			say(verdict, "%s %s, by chance %s", a->name, figure(a->unit, a->value),
			    figure(b->unit, b->value));
	}
	say(verdict, "above in %d of %d slices, at least nine of ten are needed", above, nr);
	if (10 * above < 9 * nr)
		verdict->result = KSFT_FAIL;
}

/*
 * Limits for any machine: in ms, because a machine that is fit to run Linux is
 * faster by far. That of a timer has to be below the jiffy by which a broken one
 * is late, unless the kernel has no better timers; a turn may end with a jiffy.
 */
static double limit_ms(const struct test *test)
{
	struct timespec jiffy = {}, grain = {};
	double ms;

	clock_getres(CLOCK_MONOTONIC_COARSE, &jiffy);
	clock_getres(CLOCK_MONOTONIC, &grain);
	ms = jiffy.tv_sec * 1e3 + jiffy.tv_nsec / 1e6;
	if (test->most_ms == TURN_MS)
		return fmax(3 * ms, TURN_MS);
	if (test->most_ms != TIMER_MS)
		return test->most_ms;
	return grain.tv_nsec > 1 ? 2 * ms : fmax(ms / 2, TIMER_MS);
}

static bool is_time(const struct metric *metric)
{
	return !strcmp(metric->unit, "ns");
}

static double limit_of(const struct test *test, const struct metric *metric)
{
	return is_time(metric) ? 1e6 * limit_ms(test) : 50;
}

/* Above 1 it is beyond the limit. */
static double used_of(const struct test *test, const struct metric *metric)
{
	double limit = limit_of(test, metric);

	if (is_time(metric))
		return metric->value / limit;
	return metric->value ? limit / metric->value : INFINITY;
}

/*
 * The percentage of the CPUs that others need as an excuse. For a tenth of the
 * rounds it is a tenth of one CPU. A real-time task that is twice as late takes
 * twice as much of them, and so does time that a task was seen to run; a quarter
 * is enough for all, because one of two CPUs may be gone for half of the time. An
 * ordinary task queues behind others, and who had little can be in front of it
 * all the time.
 */
static double excuse(const struct test *test, const struct metric *metric)
{
	if (!is_time(metric))
		return (limit_of(test, metric) - metric->value) / cpus_count(&common.cpus);
	if (!test->realtime && !test->own_time)
		return MOST_OTHERS;
	return fmin(MOST_OTHERS * used_of(test, metric), 25);
}

/* What is shorter makes nothing late by a limit. */
#define STILL_NS	(TIMER_MS * 1000000)
#define WATCHED_NS	(NS_PER_S / 5)

/*
 * If a loop that nothing more urgent can stop is interrupted for long, the CPU
 * stood still, as an emulator's does, which tells nobody. All CPUs have to be
 * busy, because they may share those of a host.
 */
struct watched {
	struct cpus cpu;
	double lost;
};

static void *watch_cpu(void *argument)
{
	struct watched *own = argument;
	__u64 last = be_ready(&own->cpu, sched_get_priority_max(SCHED_FIFO));
	__u64 end = last + WATCHED_NS, lost = 0;

	for (__u64 time; last < end; last = time) {
		time = now();
		lost += time - last > STILL_NS ? time - last : 0;
	}
	own->lost = percent(lost, WATCHED_NS + last - end);
	return NULL;
}

static void watch_cpus(void)
{
	int nr = cpus_count(&common.cpus), i = 0;
	struct watched *watched = calloc(nr, sizeof(*watched));

	if (!watched || why_no_realtime(1))
		return;
	for_each_cpu(cpu, &common.cpus)
		cpus_add(&watched[i++].cpu, cpu);
	run_threads(nr, watch_cpu, watched, sizeof(*watched));
	for (i = 0; i < nr; i++)
		all->disturbance.hidden += watched[i].lost / nr;
}

static bool beyond_limit(const struct workload *workload)
{
	for (int i = 0; i < workload->nr_tests; i++) {
		const struct test *test = &workload->tests[i];

		if (test->rule != AT_MOST)
			continue;
		for (int j = 0; j < MOST_COMPARED && test->metrics[j]; j++) {
			const struct metric *metric = find_metric(all, test->metrics[j]);

			if (metric && used_of(test, metric) > 1)
				return true;
		}
	}
	return false;
}

/* The worst of all runs and metrics decides. */
static void judge_at_most(struct verdict *verdict, const struct test *test,
			  const struct batch *batch)
{
	static const int results[] = { KSFT_PASS, KSFT_SKIP, KSFT_FAIL };
	double worst_used = -1;
	int worst = 0;

	for (int i = 0; i < MOST_COMPARED && test->metrics[i]; i++)
		for (int run = 0; run < batch->nr; run++) {
			const struct results *of = batch->runs[run];
			const struct disturbance *found = &of->disturbance;
			const struct metric *metric = find_metric(of, test->metrics[i]);
			double used, others;
			int bad;

			if (!metric)
				continue;
			used = used_of(test, metric);
			/* A CPU that stands still is no excuse for a task on a wrong one. */
			others = found->steal + found->irq +
				 (is_time(metric) ? found->hidden : 0) +
				 (test->realtime ? 0 : found->others) +
				 found->realtime / cpus_count(&common.cpus);
			bad = used <= 1 ? 0 : 2 - (others > excuse(test, metric));
			if (bad < worst || (bad == worst && used <= worst_used))
				continue;
			worst = bad;
			worst_used = used;
			verdict->text[0] = '\0';
			say(verdict, "%s %s, at %s %s on any machine", metric->name,
			    figure(metric->unit, metric->value), is_time(metric) ? "most" : "least",
			    figure(metric->unit, limit_of(test, metric)));
			if (bad == 1)
				say(verdict, "others had %.0f %% of the CPUs", others);
		}
	verdict->result = worst_used < 0 ? missing(verdict, batch, test->metrics[0]) :
			  results[worst];
}

/* The median over the runs that nothing disturbed, in units of the reference; NAN if missing. */
static double median_over(const struct batch *batch, const char *name, enum reference reference)
{
	double values[MOST_RUNS];
	int nr = 0;

	for (int run = 0; run < batch->nr; run++) {
		const struct metric *metric = find_metric(batch->runs[run], name), *cost;
		char cost_name[32];

		if (batch->runs[run]->disturbance.why[0])
			continue;
		snprintf(cost_name, sizeof(cost_name), "reference.%s", reference_names[reference]);
		cost = find_metric(batch->runs[run], cost_name);
		/* A metric that is gone in one of the runs proves nothing. */
		if (!metric || (reference && !cost))
			return NAN;
		values[nr++] = reference ? metric->value / cost->value : metric->value;
	}
	return median_of(values, nr);
}

/* Why there are too few runs to compare; NULL if there are enough. */
static const char *why_disturbed(const struct batch *batch)
{
	const char *why = NULL;
	int nr = 0;

	for (int run = 0; run < batch->nr; run++)
		if (batch->runs[run]->disturbance.why[0]) {
			why = batch->runs[run]->disturbance.why;
			nr++;
		}
	return 2 * nr >= batch->nr ? why : NULL;
}

struct limits {
	double lowest, highest, limit;
	int nr;
};

/* Of the recorded sessions, each worse if it is higher. */
static struct limits limits_of(const struct recorded *recorded, enum tolerance tolerance,
			       bool inverted)
{
	struct limits found = { INFINITY, -INFINITY, 0, 0 };
	double more = tolerances[tolerance];

	for (int i = 0; recorded && i < base.nr_sessions; i++) {
		double low = recorded->of[i].low, high = recorded->of[i].high;

		if (isnan(low))
			continue;
		found.lowest = fmin(found.lowest, inverted ? 1 / high : low);
		found.highest = fmax(found.highest, inverted ? 1 / low : high);
		found.nr++;
	}
	more *= found.nr == 1 ? 2 : 1;
	found.limit = tolerance == POINTS ? found.highest + more : found.highest * (1 + more);
	return found;
}

/* If the reference itself has moved, a ratio to it proves nothing. */
static bool reference_moved(struct verdict *verdict, const struct batch *batch,
			    enum reference reference)
{
	struct limits known;
	char name[32];
	double value;

	snprintf(name, sizeof(name), "reference.%s", reference_names[reference]);
	known = limits_of(find_recorded(name), MEDIAN, false);
	value = median_over(batch, name, NO_REFERENCE);
	if (!reference || (value < 1.2 * known.highest && value > known.lowest / 1.2))
		return false;
	say(verdict, "%s moved to %s, recorded %s to %s", name, figure("ns", value),
	    figure("ns", known.lowest), figure("ns", known.highest));
	return true;
}

static int compare(struct verdict *verdict, const struct test *test, const struct batch *batch,
		   const char *name)
{
	const struct metric *metric = find_metric(batch->runs[0], name);
	bool inverted = metric && metric->direction == HIGHER, fails, blind;
	double value = median_over(batch, name, test->reference), worse, sees;
	struct limits known = limits_of(find_recorded(name), test->tolerance, inverted);
	const char *unit = test->reference ? reference_names[test->reference] : metric ?
			   metric->unit : "";

	if (isnan(value))
		return missing(verdict, batch, name);
	if (!known.nr) {
		say(verdict, "%s was not recorded", name);
		return KSFT_SKIP;
	}
	worse = inverted ? 1 / value : value;
	fails = worse > known.limit;
	sees = test->tolerance == POINTS ? known.limit - known.lowest :
	       known.limit / known.lowest - 1;
	blind = sees > 2.000001 * tolerances[test->tolerance];
	say(verdict, "%s %s", name, figure(unit, value));
	if (metric->cpu >= 0)
		sprintf(verdict->text + strlen(verdict->text), " on CPU %d", metric->cpu);
	say(verdict, "at %s %s, of %d sessions", inverted ? "least" : "most",
	    figure(unit, inverted ? 1 / known.limit : known.limit), known.nr);
	if (reference_moved(verdict, batch, test->reference))
		return KSFT_SKIP;
	if (fails)
		return KSFT_FAIL;
	if (blind)
		say(verdict, "sessions differ too much: only +%.3g%s would fail",
		    test->tolerance == POINTS ? sees : 100 * sees,
		    test->tolerance == POINTS ? " points" : " %");
	return blind ? KSFT_SKIP : KSFT_PASS;
}

/* A skip if none of the metrics could have failed. */
static void judge_baseline(struct verdict *verdict, const struct workload *workload,
			   const struct test *test, const struct batch *batch)
{
	bool passed = false, failed = false;

	verdict->result = KSFT_SKIP;
	if (common.record)
		say(verdict, "it was recorded by this run");
	else if (!base.nr_sessions)
		say(verdict, "no baseline: %s --record", workload->name);
	else if (strcmp(base.valid_for, valid_now(workload)))
		say(verdict, "the baseline is for %.400s", base.valid_for);
	else if (why_disturbed(batch))
		say(verdict, "%s", why_disturbed(batch));
	if (verdict->text[0])
		return;
	for (int i = 0; i < MOST_COMPARED && test->metrics[i]; i++) {
		int result = compare(verdict, test, batch, test->metrics[i]);

		failed |= result == KSFT_FAIL;
		passed |= result == KSFT_PASS;
	}
	verdict->result = failed ? KSFT_FAIL : passed ? KSFT_PASS : KSFT_SKIP;
}

static double unit_ns(const char *unit)
{
	return !strcmp(unit, "ns") ? 1 : !strcmp(unit, "us") ? 1e3 : !strcmp(unit, "ms") ? 1e6 :
	       !strcmp(unit, "s") ? 1e9 : 0;
}

static void judge_limits(struct verdict *verdict, const struct batch *batch)
{
	if (!base.nr_limits) {
		verdict->result = KSFT_SKIP;
		say(verdict, "no --limit, and none in %.300s", base.path);
	}
	for (int i = 0; i < base.nr_limits; i++) {
		const char *text = base.limits[i], *equals = strchr(text, '=');
		char name[64], *unit;
		double limit = strtod(equals ? equals + 1 : text, &unit), of_metric;

		snprintf(name, sizeof(name), "%.*s", equals ? (int)(equals - text) : 0, text);
		if (!equals || unit == equals + 1 || !(limit >= 0 && limit < 1e15))
			ksft_exit_fail_msg("%s: '%s' is no limit such as timer.max=80us\n",
					   base.source, text);
		for (int run = 0; run < batch->nr; run++) {
			const struct metric *metric = find_metric(batch->runs[run], name);

			if (!metric && !why_absent(batch->runs[run], name))
				ksft_exit_fail_msg("%s: %s: there is no such metric\n",
						   base.source, text);
			if (!metric) {
				verdict->result = missing(verdict, batch, name);
				break;
			}
			if (strcmp(unit, metric->unit) && !(unit_ns(unit) && unit_ns(metric->unit)))
				ksft_exit_fail_msg("%s: %s: %s is in %s\n", base.source, text, name,
						   metric->unit);
			of_metric = unit_ns(unit) ? limit * unit_ns(unit) / unit_ns(metric->unit) :
				    limit;
			if (!run)
				say(verdict, "%s, from %.200s", text, base.source);
			if (metric->direction == HIGHER ? metric->value >= of_metric :
			    metric->value <= of_metric)
				continue;
			verdict->result = KSFT_FAIL;
			say(verdict, "%s in run %d", figure(metric->unit, metric->value), run + 1);
		}
	}
}

/* True if a failure has to be confirmed by another batch. */
static bool judge(struct verdict *verdicts, const struct workload *workload,
		  const struct batch *batch)
{
	bool doubtful = false;

	memset(verdicts, 0, MOST_TESTS * sizeof(*verdicts));
	for (int i = 0; i < workload->nr_tests; i++) {
		const struct test *test = &workload->tests[i];

		if (test->rule == ABOVE)
			judge_above(&verdicts[i], test, batch);
		else if (test->rule == AT_MOST)
			judge_at_most(&verdicts[i], test, batch);
		else if (test->rule == BASELINE)
			judge_baseline(&verdicts[i], workload, test, batch);
		else if (test->rule == LIMITS)
			judge_limits(&verdicts[i], batch);
		else
			judge_count(&verdicts[i], test, batch);
		if (verdicts[i].result == KSFT_FAIL &&
		    !ksft_min_kernel_version(test->since_major, test->since_minor)) {
			verdicts[i].result = KSFT_SKIP;
			say(&verdicts[i], "kernels before %u.%u lack this", test->since_major,
			    test->since_minor);
		}
		doubtful |= test->rule >= ABOVE && test->rule <= BASELINE &&
			    verdicts[i].result == KSFT_FAIL;
	}
	return doubtful;
}

static void confirm(struct verdict *verdicts, const struct verdict *again,
		    const struct workload *workload)
{
	for (int i = 0; i < workload->nr_tests; i++) {
		bool alone = workload->tests[i].rule < ABOVE || workload->tests[i].rule > BASELINE;

		if (alone ? again[i].result == KSFT_FAIL : verdicts[i].result == KSFT_FAIL)
			verdicts[i] = again[i];
	}
}

static void print_verdicts(const struct verdict *verdicts, const struct workload *workload)
{
	for (int i = 0; i < workload->nr_tests; i++) {
		const char *name = workload->tests[i].name, *text = verdicts[i].text;

		if (verdicts[i].result == KSFT_SKIP)
			ksft_test_result_code(KSFT_SKIP, name, "%s", text);
		else if (verdicts[i].result == KSFT_PASS)
			ksft_test_result_pass("%s # %s\n", name, text);
		else
			ksft_test_result_fail("%s # %s\n", name, text);
	}
}

/* Recording. */

/* The number of this session: that of the last one if it is only minutes old, or a new one. */
static int session_now(char *name, size_t size)
{
	char boot[37], last[37] = "";
	long minutes, began = 0;
	struct timespec age;
	int nr = base.nr_sessions;

	clock_gettime(CLOCK_BOOTTIME, &age);
	minutes = age.tv_sec / 60;
	read_line(boot, sizeof(boot), "/proc/sys/kernel/random/boot_id");
	snprintf(name, size, "%s.%ld", boot, minutes);
	if (nr && sscanf(base.sessions[nr - 1], "%36[^.].%ld", last, &began) == 2 &&
	    !strcmp(last, boot) && minutes - began < SESSION_MINUTES)
		return nr - 1;
	if (nr < MOST_SESSIONS)
		return nr;
	/* Forget the oldest one. */
	memmove(base.sessions, base.sessions + 1, (nr - 1) * sizeof(base.sessions[0]));
	for (int i = 0; i < base.nr_recorded; i++)
		memmove(base.recorded[i].of, base.recorded[i].of + 1,
			(nr - 1) * sizeof(struct range));
	return nr - 1;
}

static void record_metric(const struct batch *batch, int session, const char *name,
			  enum reference reference)
{
	struct recorded *recorded = find_recorded(name) ?: add_recorded(name);
	struct range *of = &recorded->of[session];

	of->low = median_over(batch, name, reference);
	of->high = of->low;
	if (isnan(of->low))
		return;
	for (int first = 0; first + JUDGED_RUNS <= batch->nr; first += JUDGED_RUNS) {
		struct batch part = { .nr = JUDGED_RUNS };
		double median;

		memcpy(part.runs, batch->runs + first, JUDGED_RUNS * sizeof(*part.runs));
		median = median_over(&part, name, reference);
		of->low = fmin(of->low, median);
		of->high = fmax(of->high, median);
	}
}

static void add_session(const struct workload *workload, const struct batch *batch)
{
	static char directory[4096];
	char *text = NULL, name[64];
	size_t size;
	FILE *file = open_memstream(&text, &size);
	int session;

	if (base.nr_sessions && strcmp(base.valid_for, valid_now(workload)))
		ksft_exit_fail_msg("--record: the baseline in %s is for %s; use other --limits\n",
				   base.path, base.valid_for);
	if (why_disturbed(batch))
		ksft_exit_fail_msg("--record: most runs are disturbed: %s\n", why_disturbed(batch));
	read_limits(workload->name, file);
	session = session_now(name, sizeof(name));
	snprintf(base.sessions[session], sizeof(base.sessions[session]), "%s", name);
	base.nr_sessions = session + 1;
	for (enum reference what = IPI; what < REFERENCES; what++) {
		snprintf(name, sizeof(name), "reference.%s", reference_names[what]);
		record_metric(batch, session, name, NO_REFERENCE);
	}
	for (int i = 0; i < workload->nr_tests; i++)
		for (int j = 0; j < MOST_COMPARED && workload->tests[i].metrics[j]; j++)
			if (workload->tests[i].rule == BASELINE)
				record_metric(batch, session, workload->tests[i].metrics[j],
					      workload->tests[i].reference);
	fprintf(file, "%s for %s\n%s sessions", workload->name, valid_now(workload),
		workload->name);
	for (int i = 0; i < base.nr_sessions; i++)
		fprintf(file, " %s", base.sessions[i]);
	for (int i = 0; i < base.nr_recorded; i++) {
		fprintf(file, "\n%s %s", workload->name, base.recorded[i].name);
		for (int j = 0; j < base.nr_sessions; j++) {
			const struct range *of = &base.recorded[i].of[j];

			fprintf(file, " %.6g", of->low);
			if (of->high > of->low)
				fprintf(file, "-%.6g", of->high);
		}
	}
	fprintf(file, "\n");
	fclose(file);
	for (char *slash = base.path; (slash = strchr(slash + 1, '/')); ) {
		snprintf(directory, sizeof(directory), "%.*s", (int)(slash - base.path), base.path);
		mkdir(directory, 0755);
	}
	if (!replace_file(base.path, text))
		ksft_exit_fail_msg("--record: %s: %s\n", base.path, strerror(errno));
	free(text);
	ksft_print_msg("the baseline has %d sessions now: %s\n", base.nr_sessions, base.path);
}

/* Running. */

static void run_child(const struct workload *workload)
{
	struct moment before = { .ticks = shared_memory(MOST_PIDS * sizeof(*before.ticks)) };
	char none[64];

	take_references(0);
	read_others(before.ticks, NULL, 0, none);
	read_moment(&before);
	workload->measure();
	compare_moments(&before, &all->disturbance);
	take_references(1);
	add_references();
	if (beyond_limit(workload))
		watch_cpus();
	if (common.threshold_us)
		add_metric(EXACT, LOWER, "wake-ups", beyond_threshold(), 1, "beyond_threshold");
	else
		add_absent("beyond_threshold", "no --threshold-us");
	all->done = true;
	_exit(KSFT_PASS);
}

static struct results *run_once(const struct workload *workload)
{
	struct results *results = results_new();
	int status = 0;
	pid_t pid;

	all = results;
	fflush(stdout);
	pid = fork_bound();
	if (pid < 0)
		ksft_exit_fail_perror("fork");
	if (!pid)
		run_child(workload);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (results->done || results->error[0])
		return results;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
		snprintf(results->error, sizeof(results->error),
			 "an RT thread ran for %d s without sleep: ended by RLIMIT_RTTIME",
			 RTTIME_US / 1000000);
	else if (WIFSIGNALED(status))
		snprintf(results->error, sizeof(results->error), "the run was killed: %s",
			 strsignal(WTERMSIG(status)));
	else
		snprintf(results->error, sizeof(results->error), "the run ended early: exit %d",
			 WEXITSTATUS(status));
	return results;
}

static void print_run(const struct results *results)
{
	if (common.verbose)
		for (int i = 0; i < results->nr_metrics; i++)
			ksft_print_msg("%-34s %14.10g %s\n", results->metrics[i].name,
				       results->metrics[i].value, results->metrics[i].unit);
	if (results->disturbance.why[0])
		ksft_print_msg("disturbed: %s\n", results->disturbance.why);
	if (!results->broken_cpu)
		return;
	ksft_print_msg("CPU %d woke up %.1f us late, beyond %g us; tracing is off\n",
		       results->broken_cpu - 1, results->broken_ns / 1e3, common.threshold_us);
	fflush(stdout);
	if (common.on_threshold && system(common.on_threshold))
		ksft_print_msg("--on-threshold failed: %s\n", common.on_threshold);
}

static void run_batch(const struct workload *workload, const char *command, struct batch *batch)
{
	for (batch->nr = 0; batch->nr < common.runs; batch->nr++) {
		struct results *results = run_once(workload);

		keep_run(workload, results, command, results->done ? "DONE" :
			 results->refused ? "SKIP" : "ERROR");
		for (int i = 0; results->refused && i < workload->nr_tests; i++)
			ksft_test_result_code(KSFT_SKIP, workload->tests[i].name, "%s",
					      results->error);
		if (results->refused)
			ksft_finished();
		if (!results->done)
			ksft_exit_fail_msg("%s\n", results->error);
		print_run(results);
		batch->runs[batch->nr] = results;
	}
}

int workload_main(const struct workload *workload, int argc, char **argv)
{
	static struct verdict verdicts[MOST_TESTS], again[MOST_TESTS];
	static struct batch first, second;
	static char command[2048];
	const char *why;

	for (int i = 0; i < argc; i++) {
		size_t len = strlen(command);

		snprintf(command + len, sizeof(command) - len, "%s%s", i ? " " : "", argv[i]);
		if (strcmp(argv[i], "--help"))
			continue;
		printf("usage: %s [options]\n\n%s\n\n", workload->name, workload->about);
		print_rows(workload->rows, workload->nr_rows);
		print_rows(common_rows, ARRAY_SIZE(common_rows));
		return KSFT_PASS;
	}
	ksft_print_header();
	parse_options(argc, argv, workload);
	for (char *one = strtok(strdup(common.limit ?: ""), ","); one; one = strtok(NULL, ","))
		add_limit(one, "--limit");
	choose_allowed();
	find_limits_file();
	read_limits(workload->name, NULL);
	why = workload->cannot ? workload->cannot() : NULL;
	if (why) {
		all = results_new();
		snprintf(all->error, sizeof(all->error), "%s", why);
		keep_run(workload, all, command, "SKIP");
		ksft_exit_skip("%s\n", why);
	}
	if (!common.runs)
		common.runs = common.record ? RECORDED_RUNS : base.nr_sessions ? JUDGED_RUNS : 1;
	ksft_set_plan(workload->nr_tests);
	run_batch(workload, command, &first);
	if (common.record)
		add_session(workload, &first);
	if (judge(verdicts, workload, &first)) {
		ksft_print_msg("once more, to confirm it\n");
		run_batch(workload, command, &second);
		judge(again, workload, &second);
		confirm(verdicts, again, workload);
	}
	print_verdicts(verdicts, workload);
	ksft_finished();
}
