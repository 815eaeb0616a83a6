// SPDX-License-Identifier: GPL-2.0
/*
 * What the programs of sched_latency share: CPUs and their topology, samples,
 * threads, what disturbed a run, options, the JSON of a run, and the judging of
 * results, which is at the end and explained there.
 *
 * None of these changes a setting of the machine: only attributes of the
 * process, and /dev/cpu_dma_latency, which the kernel resets when the file is
 * closed. Two do what they are asked for: --threshold-us stops tracing, and
 * cluster_partition makes partitions, and removes them.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <getopt.h>
#include <limits.h>
#include <linux/elf.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <math.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "sched_latency.h"

#define MOST_METRICS	256
#define MOST_RUNS	100
#define MOST_TESTS	32
#define MOST_SESSIONS	20
#define MOST_RECORDED	128
#define MOST_LIMITS	64

/* A list that names every other CPU. */
#define LIST_SIZE	(MOST_CPUS / 2 * 5)

struct common common;
const char *sysfs = "/sys";
int rt_priority = 1;

/* Texts. */

const char *text_of(const char *format, ...)
{
	char *text = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		ksft_exit_fail_perror("vasprintf");
	va_end(args);
	return text;
}

char *read_text(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	static char text[LIST_SIZE];
	ssize_t len = -1;
	size_t had = 0;

	while (fd >= 0 && (len = read(fd, text + had, sizeof(text) - 1 - had)) > 0)
		had += len;
	if (fd >= 0)
		close(fd);
	had -= had && text[had - 1] == '\n';
	text[had] = '\0';
	return len < 0 ? NULL : text;
}

bool write_text(const char *text, const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : write(fd, text, strlen(text));

	if (fd >= 0)
		close(fd);
	return len >= 0;
}

/* CPUs. */

int cpus_next(const struct cpus *set, int cpu)
{
	while (++cpu < MOST_CPUS)
		if (cpus_has(set, cpu))
			return cpu;
	return -1;
}

bool cpus_parse(const char *text, struct cpus *set)
{
	char *end;

	memset(set, 0, sizeof(*set));
	do {
		long from = strtol(text, &end, 10), to = from;

		if (end != text && *end == '-') {
			text = end + 1;
			to = strtol(text, &end, 10);
		}
		if (end == text || from < 0 || to < from || to >= MOST_CPUS ||
		    (*end && *end != ','))
			return false;
		for (; from <= to; from++)
			cpus_add(set, from);
		text = end + 1;
	} while (*end && *text);
	return true;
}

const char *cpus_list(const struct cpus *set)
{
	static char text[LIST_SIZE];
	int len = 0;

	text[0] = '\0';
	for (int from = cpus_next(set, -1), to; from >= 0; from = cpus_next(set, to)) {
		for (to = from; cpus_has(set, to + 1); to++)
			;
		len += sprintf(text + len, "%s%d", len ? "," : "", from);
		if (to > from)
			len += sprintf(text + len, "-%d", to);
	}
	return text;
}

bool cpus_read(struct cpus *set, const char *name)
{
	const char *text = read_text(text_of("%s/devices/system/%s", sysfs, name));

	return text && cpus_parse(text, set);
}

/* The cache of the highest level of a CPU that holds data, or -1. */
static int llc_of(int cpu)
{
	int best = 0, found = -1;

	for (int i = 0;; i++) {
		const char *at = text_of("%s/devices/system/cpu/cpu%d/cache/index%d", sysfs, cpu,
					 i);
		int level = atoi(read_text(text_of("%s/level", at)) ?: "");
		const char *type = read_text(text_of("%s/type", at));

		if (!level || !type)
			return found;
		if (level > best && strcmp(type, "Instruction")) {
			best = level;
			found = i;
		}
	}
}

bool cpus_sharing(int cpu, enum sharing what, struct cpus *set)
{
	static const char * const lists[] = {
		[CORE] = "core_cpus_list",
		[CLUSTER] = "cluster_cpus_list",
		[PACKAGE] = "package_cpus_list",
	};
	struct cpus nodes = {};
	const char *name;

	if (what == NODE) {
		cpus_read(&nodes, "node/online");
		for_each_cpu(node, &nodes)
			if (cpus_read(set, text_of("node/node%d/cpulist", node)) &&
			    cpus_has(set, cpu))
				return true;
		return false;
	}
	if (what == LLC)
		name = text_of("cpu/cpu%d/cache/index%d/shared_cpu_list", cpu, llc_of(cpu));
	else
		name = text_of("cpu/cpu%d/topology/%s", cpu, lists[what]);
	if (!cpus_read(set, name))
		return false;
	/* Else all results would be wrong. */
	if (!cpus_has(set, cpu))
		ksft_exit_fail_msg("%s/devices/system/%s: '%s' is no list with CPU %d\n",
				   sysfs, name, cpus_list(set), cpu);
	return true;
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

double seconds_since(__u64 ns)
{
	return (now() - ns) / (double)NS_PER_S;
}

void work_steps(long steps)
{
	__u64 value = steps;

	while (steps--) {
		value = value * 6364136223846793005ULL + 1442695040888963407ULL;
		/* Else the compiler could compute the result. */
		__asm__ volatile("" : "+r" (value));
	}
}

/* The fastest of some tries: whatever else runs makes them slower. */
double steps_per_us(void)
{
	__u64 best = ~0ULL;

	for (int i = 0; i < 200; i++) {
		__u64 begin = now(), took;

		work_steps(2000);
		took = now() - begin;
		if (took && took < best)
			best = took;
	}
	return 2000 * 1000.0 / best;
}

/* Real-time threads. The limit for all of them, sched_rt_runtime_us, is not changed. */

/* Includes time in which the host runs something else: seconds, if emulated. */
#define RTTIME_US	5000000

bool be_realtime(int priority)
{
	struct sched_param param = { .sched_priority = priority };

	/* musl's sched_setscheduler() always fails. */
	return !syscall(SYS_sched_setscheduler, 0, priority ? SCHED_FIFO : SCHED_OTHER, &param);
}

const char *why_no_realtime(int priority)
{
	if (be_realtime(priority)) {
		be_realtime(0);
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
	__s32 no_latency = 0;

	must(!setrlimit(RLIMIT_RTTIME, &limit), "RLIMIT_RTTIME");
	/* It is no error if these are refused. The file stays open. */
	if (fd >= 0 && write(fd, &no_latency, sizeof(no_latency)) < 0)
		close(fd);
	/* Not what is mapped and never used, such as most of the 16 MB for each text. */
	mlockall(MCL_CURRENT | MCL_ONFAULT);
	mlockall(MCL_FUTURE);
}

/* Results. The run, a process, shares them with the process that judges them. */

/* In percent of the time of the CPUs, but realtime and urgent: of one CPU. */
struct disturbance {
	double busy, steal, irq, others, realtime, hidden, throttled;
	/* A part of realtime: what the run's own real-time threads cannot preempt. */
	double urgent;
	/* A part of others that may have been real-time. */
	double unseen;
	/* Why the figures may be spoiled; empty if they are not. */
	char why[160];
};

struct results {
	struct timespec started;
	double uptime;
	bool done, refused;
	/* Why the run has no results. */
	char error[256];
	/* The first wake-up beyond --threshold-us; broken_cpu is one too high. */
	int broken_cpu;
	bool tracing_off;
	__u64 broken_ns;
	struct disturbance disturbance;
	int nr_metrics;
	struct metric metrics[MOST_METRICS];
};

/* Those of this run. */
static struct results *all;

/*
 * Parts of the file of the run: a row for each CPU of each group of samples, and
 * what each bucket of their histograms counted. Only pages that are used exist.
 */
#define MOST_TEXT	(16 << 20)

static struct {
	char *text;
	FILE *file;
} json_rows, json_bars;

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
			  double value, __u64 n, const char *name)
{
	struct metric *metric = &all->metrics[all->nr_metrics++];

	if (all->nr_metrics > MOST_METRICS)
		ksft_exit_fail_msg("more than %d metrics\n", MOST_METRICS);
	*metric = (struct metric){ .kind = kind, .direction = direction, .value = value, .n = n,
				   .cpu = -1 };
	snprintf(metric->name, sizeof(metric->name), "%s", name);
	snprintf(metric->unit, sizeof(metric->unit), "%s", unit);
	return metric;
}

void add_absent(const char *name, const char *why)
{
	struct metric *metric = add_metric(EXACT, NEITHER, "", 0, 0, name);

	snprintf(metric->absent, sizeof(metric->absent), "%s", why);
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

void must(bool done, const char *what)
{
	if (done)
		return;
	if (all)
		all->refused = errno == EMFILE || errno == ENFILE || errno == EAGAIN ||
			       errno == ENOMEM || errno == EPERM || errno == EACCES;
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
	unsigned long had = load(histogram->most), now = ns < ULONG_MAX ? ns : ULONG_MAX;

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
	static const char * const directories[] = {
		"/sys/kernel/tracing", "/sys/kernel/debug/tracing",
	};
	char text[80];
	int none = 0;

	if (!__atomic_compare_exchange_n(&all->broken_cpu, &none, cpu + 1, false,
					 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	all->broken_ns = ns;
	sprintf(text, "sched_latency: CPU %d was %.1f us late\n", cpu, ns / 1e3);
	for (size_t i = 0; i < ARRAY_SIZE(directories) && !all->tracing_off; i++) {
		write_text(text, text_of("%s/trace_marker", directories[i]));
		all->tracing_off = write_text("0", text_of("%s/tracing_on", directories[i]));
	}
}

bool beyond_threshold(void)
{
	return load(all->broken_cpu);
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

int samples_idle(const struct samples *samples)
{
	int idle = 0;

	for_each_cpu(cpu, &common.cpus)
		idle += !samples->on[cpu].n;
	return idle;
}

void add_samples(const char *name, const struct samples *samples, bool worst)
{
	static const struct {
		const char *name;
		double share;
	} quantiles[] = {
		{ "p50", 0.5 }, { "p90", 0.9 }, { "p99", 0.99 }, { "p99_9", 0.999 }, { "max", 1 },
	};
	static const char * const names[] = { "p50", "p99", "missed_share" };
	double most[] = { -1, -1, -1 };
	int at[ARRAY_SIZE(names)] = {};
	struct histogram *sum = shared_memory(sizeof(*sum));

	for (int cpu = 0; cpu < samples->nr_cpus; cpu++) {
		const struct histogram *on = &samples->on[cpu];
		double missed = samples->missed ? samples->missed[cpu] : -1;
		double of[] = { histogram_quantile(on, 0.5), histogram_quantile(on, 0.99),
				missed < 0 ? -1 : percent(missed, missed + on->n) };

		if (!on->n)
			continue;
		histogram_merge(sum, on);
		fprintf(json_rows.file, ",\n  {\"group\": \"%s\", \"cpu\": %d, \"n\": %lu, ", name,
			cpu, on->n);
		fprintf(json_rows.file, "\"p50_ns\": %.9g, \"p99_ns\": %.9g, \"max_ns\": %.9g",
			of[0], of[1], (double)on->most);
		fprintf(json_rows.file, missed < 0 ? "}" : ", \"missed_percent\": %.9g}", of[2]);
		for (size_t i = 0; i < ARRAY_SIZE(of); i++)
			if (of[i] > most[i]) {
				most[i] = of[i];
				at[i] = cpu;
			}
	}
	add_metric(EXACT, NEITHER, "samples", sum->n, sum->n,
		   text_of("%s.samples", name));
	for (size_t i = 0; i < ARRAY_SIZE(quantiles) && sum->n; i++)
		add_metric(QUANTILE, LOWER, "ns", histogram_quantile(sum, quantiles[i].share),
			   sum->n, text_of("%s.%s", name, quantiles[i].name));
	for (size_t i = 0; i < ARRAY_SIZE(names) && worst; i++)
		if (most[i] >= 0)
			add_metric(i < 2 ? QUANTILE : RATE, LOWER, i < 2 ? "ns" : "%", most[i],
				   samples->on[at[i]].n,
				   text_of("%s.worst_cpu_%s", name, names[i]))->cpu = at[i];
	if (sum->n)
		fprintf(json_bars.file, ",\n  \"%s\": [", name);
	for (int i = 0, nr = 0; i < BUCKETS; i++)
		if (sum->buckets[i])
			fprintf(json_bars.file, "%s[%llu, %lu]", nr++ ? ", " : "",
				(unsigned long long)bucket_start(i), sum->buckets[i]);
	if (sum->n)
		fprintf(json_bars.file, "]");
	munmap(sum, sizeof(*sum));
	must(!fflush(json_rows.file) && !fflush(json_bars.file), "the rows of CPUs");
}

/* Threads and processes. */

struct rusage usage_of(int who)
{
	struct rusage usage;

	must(!getrusage(who, &usage), "getrusage");
	return usage;
}

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

	pthread_attr_init(&attributes);
	/* Locked in memory: the default 8 MB are too much for 1000 threads. */
	pthread_attr_setstacksize(&attributes, 256 << 10);
	errno = pthread_create(thread, &attributes, work, argument);
	must(!errno, "a thread cannot be started");
	pthread_attr_destroy(&attributes);
}

static pthread_barrier_t ready;
static __u64 start_of_all;

__u64 be_ready(const struct cpus *set, int priority)
{
	must(run_on(set), "a thread cannot have its CPUs");
	must(!priority || be_realtime(priority), "SCHED_FIFO");
	/* Until all are ready, and one of them has set the start. */
	if (pthread_barrier_wait(&ready) == PTHREAD_BARRIER_SERIAL_THREAD)
		start_of_all = now();
	pthread_barrier_wait(&ready);
	return start_of_all;
}

void run_threads(int nr, void *(*work)(void *argument), void *array, size_t size)
{
	pthread_t *threads = calloc(nr, sizeof(*threads));

	must(threads && !pthread_barrier_init(&ready, NULL, nr), "threads");
	for (int i = 0; i < nr; i++)
		start_thread(&threads[i], work, (char *)array + i * size);
	for (int i = 0; i < nr; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&ready);
	free(threads);
}

void run_on_each(const struct cpus *set, int each, void *(*work)(void *pinned))
{
	int nr = 0;
	struct pinned *array = calloc(each * cpus_count(set), sizeof(*array));

	must(array, "threads");
	for_each_cpu(cpu, set)
		for (int i = 0; i < each; i++, nr++) {
			array[nr] = (struct pinned){ .cpu = cpu, .number = nr };
			cpus_add(&array[nr].cpus, cpu);
		}
	run_threads(nr, work, array, sizeof(*array));
	free(array);
}

void futex_wait(__u32 *word, __u32 value)
{
	while (load(*word) == value)
		syscall(SYS_futex, word, FUTEX_WAIT, value, NULL, NULL, 0);
}

void futex_wake(__u32 *word, __u32 value)
{
	store(*word, value);
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* The syscall file of a thread names its system call only when it is off its CPU. */
void await_sleep(pid_t tid, long call)
{
	const char *path = text_of("/proc/self/task/%d/syscall", tid), *text;
	__u64 until = now() + PATIENCE;
	long found;
	char *end;

	do {
		text = read_text(path);
		must(text, path);
		if (now() >= until)
			give_up("a task does not sleep");
		found = strtol(text, &end, 10);
	} while (end == text || found != call);
}

/* Wake-ups of a task on an idle CPU outside of the waker's cluster. */

static struct {
	const struct place *place;
	struct samples *latency;
	pid_t tid;
	__u32 ready;
	int slept_on, ran_on, pipe[2];
	__u64 stamp;
	bool over;
} wakee;

static void *be_woken(void *unused)
{
	__u64 time;
	char byte;

	wakee.tid = syscall(SYS_gettid);
	for (;;) {
		/* If it sleeps elsewhere, it may rightly stay there. */
		must(run_on_cpu(wakee.place->wakee) && run_on(&wakee.place->llc), "a CPU");
		wakee.slept_on = sched_getcpu();
		futex_wake(&wakee.ready, 1);
		must(read(wakee.pipe[0], &byte, 1) == 1, "a wake-up failed");
		time = woken();
		if (wakee.over)
			return unused;
		wakee.ran_on = ran_on(&wakee.place->llc);
		sample(wakee.latency, wakee.ran_on, time - wakee.stamp);
	}
}

static void await_ready(void)
{
	futex_wait(&wakee.ready, 0);
	store(wakee.ready, 0);
}

static void wake_wakee(void)
{
	await_sleep(wakee.tid, SYS_read);
	wakee.stamp = now();
	must(write(wakee.pipe[1], "", 1) == 1, "a wake-up failed");
}

void wake_from_cluster(const struct place *place, int wakeups, int patience,
		       struct samples *latency, struct placed *placed)
{
	__u64 until = now() + patience * NS_PER_S;
	pthread_t thread;

	wakee.place = place;
	wakee.latency = latency;
	wakee.over = false;
	must(run_on_cpu(place->waker) && !pipe2(wakee.pipe, O_CLOEXEC), "a pipe");
	start_thread(&thread, be_woken, NULL);
	await_ready();
	for (int i = 0; i < wakeups; i++) {
		int slept_on = wakee.slept_on;
		bool in_cluster;

		wake_wakee();
		await_ready();
		in_cluster = cpus_has(&place->cluster, wakee.ran_on);
		if (patience && !placed->cluster && now() < until && !in_cluster)
			i--;
		else if (slept_on != place->wakee)
			/* Something else moved it before it slept. */
			placed->moved++;
		else if (in_cluster)
			placed->cluster++;
		else if (wakee.ran_on == place->wakee)
			placed->stayed++;
		else
			placed->elsewhere++;
	}
	wakee.over = true;
	wake_wakee();
	pthread_join(thread, NULL);
	close(wakee.pipe[0]);
	close(wakee.pipe[1]);
}

/*
 * What else happened on the CPUs, read before and after a run. Kernel threads
 * never excuse a run: they belong to the kernel that is tested.
 */

#define MOST_STEAL	1.0
#define MOST_OTHERS	5.0

/* A flag in /proc/PID/stat. */
#define KERNEL_THREAD	0x00200000
#define THROTTLED	"%s/devices/system/cpu/cpu%d/thermal_throttle/core_throttle_count"
/* The largest number of a process. */
#define MOST_PIDS	(4 << 20)

/* What each task had, by its number, when the run began. */
static __u32 *ticks;

static double jiffy_ns(void)
{
	struct timespec jiffy = {};

	clock_getres(CLOCK_MONOTONIC_COARSE, &jiffy);
	return jiffy.tv_nsec;
}

/* Count what the CPUs had, with a sign: below 0 before the run, above 0 after it. */
static void count_cpus(int sign, struct disturbance *found)
{
	unsigned long long user, nice, system, irq, softirq, steal;
	FILE *file = fopen("/proc/stat", "re");
	char line[512];
	int of;

	while (file && fgets(line, sizeof(line), file) && !strncmp(line, "cpu", 3))
		if (sscanf(line, "cpu%d %llu %llu %llu %*u %*u %llu %llu %llu", &of, &user, &nice,
			   &system, &irq, &softirq, &steal) == 7 && cpus_has(&common.cpus, of)) {
			found->busy += sign * (double)(user + nice + system);
			found->irq += sign * (double)(irq + softirq);
			found->steal += sign * (double)steal;
		}
	if (file)
		fclose(file);
	for_each_cpu(cpu, &common.cpus)
		found->throttled += sign * atof(read_text(text_of(THROTTLED, sysfs, cpu)) ?: "");
}

/* What a task had since the last call; the busiest gets a name. Returns that of kernel threads. */
static double read_task(const char *path, struct disturbance *found, double per_tick, double *most,
			char *busiest)
{
	/* Numbered as in proc(5). */
	unsigned long fields[42] = {}, had;
	const char *text = read_text(path), *name = text ? strchr(text, '(') : NULL;
	char *end = name ? strrchr(name, ')') : NULL;
	int pid = atoi(text ?: ""), len;
	double share;

	if (!end || pid <= 0 || pid >= MOST_PIDS)
		return 0;
	len = end + 1 - name;
	for (int i = 3; *end && i < 42; i++) {
		end += strcspn(end, " ");
		end += strspn(end, " ");
		fields[i] = strtoul(end, NULL, 10);
	}
	/* A task that is new began with 0, also if it has the number of one that has ended. */
	had = fields[14] + fields[15];
	share = (had < ticks[pid] ? had : had - ticks[pid]) * per_tick;
	ticks[pid] = had;
	if (!cpus_has(&common.cpus, fields[39]))
		return 0;
	if (fields[9] & KERNEL_THREAD)
		return share;
	if (fields[41] == SCHED_FIFO || fields[41] == SCHED_RR || fields[41] == SCHED_DEADLINE) {
		found->realtime += share;
		if (fields[41] == SCHED_DEADLINE || fields[40] >= (unsigned long)rt_priority)
			found->urgent += share;
	} else {
		found->others += share / cpus_count(&common.cpus);
	}
	if (share > *most) {
		*most = share;
		snprintf(busiest, 64, "pid %d %.*s", pid, len < 20 ? len : 20, name);
	}
	return 0;
}

/* The same of all tasks but those of this run. */
static double read_tasks(struct disturbance *found, double per_tick, char *busiest)
{
	DIR *proc = opendir("/proc"), *tasks;
	struct dirent *entry, *task;
	double most = 0, kernel = 0;

	while (proc && (entry = readdir(proc))) {
		pid_t pid = atoi(entry->d_name);

		if (pid <= 0 || pid == getpid() || pid == getppid())
			continue;
		tasks = opendir(text_of("/proc/%d/task", pid));
		while (tasks && (task = readdir(tasks)))
			if (task->d_name[0] != '.')
				kernel += read_task(text_of("/proc/%d/task/%s/stat", pid,
							    task->d_name),
						    found, per_tick, &most, busiest);
		if (tasks)
			closedir(tasks);
	}
	if (proc)
		closedir(proc);
	return kernel;
}

/* In ns, of this run. */
static double own_time(void)
{
	double us = 0;

	for (int who = RUSAGE_CHILDREN; who <= RUSAGE_SELF; who++) {
		struct rusage usage = usage_of(who);

		us += 1e6 * (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
		      usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
	}
	return 1e3 * us;
}

/* @own: what this run had of the time that it @took, in ns. */
static void note_disturbance(struct disturbance *found, __u64 took, double own)
{
	double per_tick = 100.0 * NS_PER_S / took / sysconf(_SC_CLK_TCK), kernel, unseen;
	int nr_cpus = cpus_count(&common.cpus);
	char busiest[64] = "";

	count_cpus(1, found);
	/* A CPU that went offline takes its counts along. */
	found->steal = fmax(per_tick / nr_cpus * found->steal, 0);
	found->irq = fmax(per_tick / nr_cpus * found->irq, 0);
	kernel = read_tasks(found, per_tick, busiest);
	/*
	 * Tasks that have ended, or that a container hides, are what is left of the busy time.
	 * That is a count of samples, one in a jiffy: three standard deviations are no finding.
	 */
	unseen = per_tick / nr_cpus * found->busy - percent(own, (double)took * nr_cpus) -
		 found->others - (found->realtime + kernel) / nr_cpus;
	if (unseen > 150 / sqrt(took / jiffy_ns() * nr_cpus)) {
		if (unseen > found->others)
			sprintf(busiest, "tasks that have ended or are hidden");
		found->others += unseen;
		found->unseen = unseen;
	}
	found->others = fmin(found->others, 100);
	if (found->steal >= MOST_STEAL)
		sprintf(found->why, "the hypervisor stole %.1f %% of the time", found->steal);
	else if (found->others >= MOST_OTHERS)
		sprintf(found->why, "other tasks took %.0f %% of the time, first %.60s",
			found->others, busiest);
	else if (found->throttled > 0)
		sprintf(found->why, "a CPU was too hot %.0f times", found->throttled);
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

static const struct {
	const char *name;
	long call;
	int repeats;
} references[] = {
	{ IPI, SYS_membarrier, 50 },
	{ SYSCALL, SYS_getppid, 1000 },
};

static double costs[ARRAY_SIZE(references)][2 * REFERENCE_ROUNDS];
static int nr_costs;
/* The second thread keeps a second CPU busy for the first one, if there is one. */
static bool alone, spins;

static void *measure_references(void *argument)
{
	struct pinned *own = argument;
	__u64 end;

	/* Before they wait for each other: an ordinary one might never run beside what is not. */
	be_realtime(sched_get_priority_max(SCHED_FIFO));
	end = be_ready(&own->cpus, 0) + NS_PER_S;
	if (own->number) {
		store(spins, true);
		while (load(spins) && now() < end)
			;
		return NULL;
	}
	while (!alone && !load(spins) && now() < end)
		sched_yield();
	for (int round = 0; round < REFERENCE_ROUNDS; round++, nr_costs++)
		for (size_t i = 0; i < ARRAY_SIZE(references); i++) {
			__u64 start = now();

			for (int turn = 0; turn < references[i].repeats; turn++)
				syscall(references[i].call, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
			costs[i][nr_costs] = (double)(now() - start) / references[i].repeats;
		}
	store(spins, false);
	return NULL;
}

/* In threads, because they change their CPUs and their policy. */
static void take_references(void)
{
	struct cpus every = common.cpus, two = {};

	if (strcmp(sysfs, "/sys"))
		cpus_allowed(&every);
	for_each_cpu(cpu, &every)
		if (cpus_count(&two) < 2)
			cpus_add(&two, cpu);
	alone = cpus_count(&two) < 2;
	/* It may wait for a grace period of RCU. */
	syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
	run_on_each(&two, 1, measure_references);
}

/* Fingerprint. */

#define HASH_START	0xcbf29ce484222325ULL

/* FNV-1a: for short names only, not for security. */
static __u64 hash_more(__u64 hash, unsigned char byte)
{
	return (hash ^ byte) * 0x100000001b3ULL;
}

static const char *cpu_model(void)
{
	const char *info = text_of("\n%s", read_text("/proc/cpuinfo") ?: ""), *at;
	char model[256], part[32];

	at = strstr(info, "\nmodel name") ?: strstr(info, "\ncpu\t") ?: "";
	if (sscanf(at, " %*[^:]: %255[^\n]", model) == 1)
		return text_of("%s", model);
	/* Two lines are between these. */
	at = strstr(info, "\nCPU implementer") ?: "";
	if (sscanf(at, " %*[^:]: %30s %*[^:]: %*s %*[^:]: %*s CPU part : %30s", model, part) == 2)
		return text_of("implementer %s part %s", model, part);
	return "";
}

/* How many of them are the first of those that share it; 0 if unknown. */
static int count_shared(const struct cpus *cpus, enum sharing what)
{
	struct cpus shared;
	int nr = 0;

	for_each_cpu(cpu, cpus) {
		if (!cpus_sharing(cpu, what, &shared))
			return 0;
		cpus_and(&shared, cpus);
		nr += cpus_next(&shared, -1) == cpu;
	}
	return nr;
}

/* What the machine is, and a short name for that. */
static struct {
	char text[1024], name[17];
} machine;

/* A container with half of the CPUs is another machine. */
static void read_machine(void)
{
	__u64 hash = HASH_START;
	struct utsname name;
	struct cpus cpus;

	uname(&name);
	cpus_allowed(&cpus);
	sprintf(machine.text, "%s %s, CPUs %.256s, %d LLCs, %d nodes", name.machine, cpu_model(),
		cpus_list(&cpus), count_shared(&cpus, LLC), count_shared(&cpus, NODE));
	for (const char *text = machine.text; *text; text++)
		hash = hash_more(hash, *text);
	sprintf(machine.name, "%016llx", (unsigned long long)hash);
}

/* From the notes of the kernel: words before "GNU" are its length, that of the ID, and a type. */
static const char *kernel_build_id(void)
{
	FILE *file = fopen("/sys/kernel/notes", "re");
	__u32 notes[1024];
	static char id[64];
	size_t nr = 0;

	if (file) {
		nr = fread(notes, sizeof(*notes), ARRAY_SIZE(notes), file);
		fclose(file);
	}
	for (size_t i = 1; i + 2 < nr && !id[0]; i++)
		if (notes[i] == 3 && !memcmp(&notes[i + 1], "GNU", 4))
			for (size_t j = 0; j < notes[i - 1] && 2 * j + 2 < sizeof(id); j++)
				sprintf(id + 2 * j, "%02x", ((unsigned char *)&notes[i + 2])[j]);
	return id;
}

/* A hash of the kernel's compressed configuration, to tell two apart. */
static const char *configuration_name(void)
{
	FILE *file = fopen("/proc/config.gz", "re");
	__u64 hash = HASH_START;

	if (!file)
		return "";
	for (int byte = getc(file); byte != EOF; byte = getc(file))
		hash = hash_more(hash, byte);
	fclose(file);
	return text_of("config.gz fnv1a %016llx", (unsigned long long)hash);
}

/* The file of a run: JSON in schema run-1 of schedline, each metric on a line of its own. */

/* A string of JSON, in a static buffer. */
static const char *quoted(const char *text)
{
	static char texts[4][6 * 4096 + 3];
	static int next;
	char *found = texts[next++ % ARRAY_SIZE(texts)], *to = found + 1;

	found[0] = '"';
	for (; *text; text++) {
		unsigned char c = *text;

		if (c == '"' || c == '\\')
			to += sprintf(to, "\\%c", c);
		else
			to += sprintf(to, c < ' ' || c > '~' ? "\\u%04x" : "%c", c);
	}
	sprintf(to, "\"");
	return found;
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

	uname(&name);
	fprintf(file, "\"fingerprint\": {\n  \"machine_name\": %s,\n  \"machine\": %s,\n",
		quoted(machine.name), quoted(machine.text));
	fprintf(file, "  \"kernel\": %s,\n  \"build_id\": %s,\n  \"configuration\": %s,\n",
		quoted(text_of("%s %s", name.release, name.version)), quoted(kernel_build_id()),
		quoted(configuration_name()));
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		fprintf(file, "  \"%s\": %s,\n", files[i][0],
			quoted(text_of("%s", read_text(files[i][1]) ?: "")));
	fprintf(file, "  \"compiler\": %s,\n  \"command_line\": %s\n},\n", quoted(__VERSION__),
		quoted(text_of("%.2000s", command)));
}

static void write_metrics(FILE *file, const struct results *results)
{
	static const char * const directions[] = { "lower", "higher", "neither" };
	static const char * const kinds[] = { "exact", "quantile", "rate", "exceedance" };
	const char *comma = "";

	for (int i = 0; i < results->nr_metrics; i++) {
		const struct metric *metric = &results->metrics[i];

		if (metric->absent[0])
			continue;
		fprintf(file, "%s\n  {\"name\": \"%s\", \"unit\": \"%s\", \"direction\": \"%s\", ",
			comma, metric->name, metric->unit, directions[metric->direction]);
		fprintf(file, "\"kind\": \"%s\", \"value\": %.9g, \"n\": %llu",
			kinds[metric->kind], metric->value, (unsigned long long)metric->n);
		for (int j = 0; j < metric->nr_rounds; j++)
			fprintf(file, "%s%.9g", j ? ", " : ", \"rounds\": [", metric->rounds[j]);
		fprintf(file, metric->nr_rounds ? "]}" : "}");
		comma = ",";
	}
	fprintf(file, "\n],\n\"absent\": [");
	comma = "";
	for (int i = 0; i < results->nr_metrics; i++)
		if (results->metrics[i].absent[0]) {
			fprintf(file, "%s\n  {\"name\": \"%s\", \"reason\": %s}", comma,
				results->metrics[i].name, quoted(results->metrics[i].absent));
			comma = ",";
		}
}

static void write_run(FILE *file, const struct results *results, const char *tool,
		      const char *command, const char *status)
{
	const struct disturbance *found = &results->disturbance;
	struct tm utc;
	char text[64];

	gmtime_r(&results->started.tv_sec, &utc);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
	fprintf(file, "{\n\"schema\": \"run-1\",\n\"tool\": \"%s\",\n\"started\": \"%s\",\n", tool,
		text);
	fprintf(file, "\"uptime_s\": %.2f,\n", results->uptime);
	write_fingerprint(file, command);
	fprintf(file, "\"status\": \"%s\",\n\"reason\": %s,\n\"metrics\": [", status,
		quoted(results->error));
	write_metrics(file, results);
	/* Each row of these begins with a comma. */
	fprintf(file, "\n],\n\"cpus\": [%s", json_rows.text + !!json_rows.text[0]);
	fprintf(file, "\n],\n\"histograms\": {%s\n},\n", json_bars.text + !!json_bars.text[0]);
	fprintf(file, "\"disturbance\": {\"steal_percent\": %.4g, \"interrupts_percent\": %.4g, ",
		found->steal, found->irq);
	fprintf(file, "\"others_percent\": %.4g, \"realtime_percent\": %.4g, ", found->others,
		found->realtime);
	fprintf(file, "\"throttled\": %.0f, \"why\": %s}\n}\n", found->throttled,
		quoted(found->why));
}

static const char *directory_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? text_of("%.*s", (int)(slash + 1 - path), path) : ".";
}

/* Where a file is that may be replaced. Asked before the runs, too, which may take hours. */
static const char *check_writable(const char *what, const char *path)
{
	const char *to = realpath(path, NULL) ?: path;
	struct stat old;

	if (access(directory_of(to), W_OK))
		ksft_exit_fail_msg("%s %s: %s\n", what, path, strerror(errno));
	/* Also a link to what is not there. */
	if (!lstat(to, &old) && !S_ISREG(old.st_mode))
		ksft_exit_fail_msg("%s %s: no regular file\n", what, path);
	return to;
}

/* The whole text or the old file, or the end of the program, which says @what it writes. */
static void replace_file(const char *what, const char *path, const char *text)
{
	const char *to = check_writable(what, path), *new = text_of("%s.new", to);
	struct stat old;
	int fd, error;

	/* If a link exists there, do not write through it. */
	unlink(new);
	fd = open(new, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd >= 0 && !stat(to, &old))
		fchmod(fd, old.st_mode & 0777);
	if (fd >= 0 && dprintf(fd, "%s", text) >= 0 && !fsync(fd) && !rename(new, to)) {
		close(fd);
		return;
	}
	error = errno;
	unlink(new);
	ksft_exit_fail_msg("%s %s: %s\n", what, path, strerror(error));
}

/* For a runner. */
static const char *in_results(const struct workload *workload)
{
	return text_of("%s/%s.json", getenv("SCHED_LATENCY_RESULTS"), workload->name);
}

/* In file.json, file-2.json and so on, and in the directory of a runner. */
static void keep_run(const struct workload *workload, const struct results *results,
		     const char *command, const char *status)
{
	const char *path = common.json, *dot;
	static int number;
	char *text = NULL;
	size_t size;
	FILE *memory = open_memstream(&text, &size);

	if (!memory)
		ksft_exit_fail_perror("open_memstream");
	write_run(memory, results, workload->name, command, status);
	fclose(memory);
	dot = path ? strrchr(path, '.') : NULL;
	if (path && (!dot || strchr(dot, '/')))
		dot = path + strlen(path);
	if (++number > 1 && path)
		path = text_of("%.*s-%d%s", (int)(dot - path), path, number, dot);
	if (path)
		replace_file("--json", path, text);
	if (getenv("SCHED_LATENCY_RESULTS"))
		replace_file("--json", in_results(workload), text);
	free(text);
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
};

/* Of the kselftests' runner, and of cyclictest: nothing else is done here. */
#define IGNORED		"kmqnS"

static int type_of(const struct option_row *row)
{
	return row->type & ~HARMLESS;
}

/* The value of an option, also for --help and for what a baseline depends on. */
static const char *value_text(const struct option_row *row)
{
	switch (type_of(row)) {
	case FLAG:
		return text_of("%d", *(bool *)row->to);
	case COUNT:
		return text_of("%d", *(int *)row->to);
	case WORD:
		return *(const char **)row->to ?: "";
	case CPUS:
		return "";
	default:
		return text_of("%g", *(double *)row->to);
	}
}

static void print_rows(const struct option_row *rows, int nr)
{
	static const char * const values[] = { "", " N", " N", " WORD", " LIST", " TIME" };

	for (const struct option_row *row = rows; row < rows + nr; row++) {
		const char *given = value_text(row);
		const char *letter = row->letter ? text_of("-%c, ", row->letter) : "";

		if (!row->help)
			continue;
		printf("  %-24s %s", text_of("%s--%s%s", letter, row->name, values[type_of(row)]),
		       row->help);
		printf(*given && strcmp(given, "0") ? " (%s)\n" : "\n", given);
	}
}

static void take_value(const struct option_row *row, const char *text)
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
		if (!*text)
			ksft_exit_fail_msg("--%s: an empty word\n", row->name);
		*(const char **)row->to = text;
		return;
	}
	if (type_of(row) == CPUS) {
		if (!cpus_parse(text, row->to))
			ksft_exit_fail_msg("--%s %s: not a list such as 0-3,8\n", row->name, text);
		return;
	}
	value = strtod(text, &rest);
	unit = type_of(row) == DURATION && *rest ? strchr(units, *rest) : NULL;
	value *= unit ? seconds[unit - units] : 1;
	if (rest == text || rest[!!unit] || !(value >= row->least && value <= row->most) ||
	    (type_of(row) == COUNT && value != (int)value))
		ksft_exit_fail_msg("--%s %s: not a%s number from %.12g to %.12g\n", row->name, text,
				   type_of(row) == COUNT ? " whole" : "", row->least, row->most);
	if (type_of(row) == COUNT)
		*(int *)row->to = value;
	else
		*(double *)row->to = value;
}

#define MOST_OPTIONS	40

static void parse_options(const struct workload *workload, int argc, char **argv)
{
	int nr = workload->nr_rows + ARRAY_SIZE(common_rows), found, i;
	const struct option_row *rows[MOST_OPTIONS];
	struct option options[MOST_OPTIONS + 1] = {};
	char letters[2 * MOST_OPTIONS + 8] = ":";
	bool given[MOST_OPTIONS] = {};

	for (i = 0; i < nr; i++) {
		rows[i] = i < workload->nr_rows ? &workload->rows[i] :
			  &common_rows[i - workload->nr_rows];
		options[i] = (struct option){ rows[i]->name, type_of(rows[i]) != FLAG, NULL,
					      rows[i]->letter ?: 256 + i };
		if (rows[i]->letter)
			sprintf(letters + strlen(letters), "%c%s", rows[i]->letter,
				type_of(rows[i]) == FLAG ? "" : ":");
	}
	/* The workload's own letters come first. */
	strcat(letters, IGNORED);
	opterr = 0;
	while ((found = getopt_long(argc, argv, letters, options, NULL)) >= 0) {
		for (i = 0; i < nr && options[i].val != found; i++)
			;
		if (i == nr && !strchr(IGNORED, found))
			ksft_exit_fail_msg("%s is no option, or lacks its value; see --help\n",
					   argv[optind - 1]);
		if (i == nr)
			continue;
		if (type_of(rows[i]) == WORD && given[i])
			ksft_exit_fail_msg("--%s is given twice\n", rows[i]->name);
		given[i] = true;
		take_value(rows[i], optarg);
	}
	if (optind < argc)
		ksft_exit_fail_msg("%s is no option; see --help\n", argv[optind]);
}

/* The CPUs to use: those of --cpus, which must be available, or all. */
static void choose_cpus(void)
{
	struct cpus there, both = common.cpus;

	if (!strcmp(sysfs, "/sys"))
		cpus_allowed(&there);
	else if (!cpus_read(&there, "cpu/online"))
		ksft_exit_fail_msg("%s/devices/system/cpu/online: no list of CPUs\n", sysfs);
	cpus_and(&both, &there);
	if (memcmp(&both, &common.cpus, sizeof(both)))
		ksft_exit_fail_msg("--cpus: some are offline or may not be used\n");
	if (!cpus_count(&common.cpus))
		common.cpus = there;
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

/* The lowest and the highest median of each session; NAN if it has none. */
struct recorded {
	char name[64];
	double low[MOST_SESSIONS + 1], high[MOST_SESSIONS + 1];
};

/* A limit of the user, and where it is from. */
struct user_limit {
	char name[64], unit[16];
	double value;
	const char *text, *source;
};

static struct {
	char path[PATH_MAX], valid_for[4096];
	struct user_limit limits[MOST_LIMITS];
	int nr_limits, nr_sessions, nr_recorded;
	char sessions[MOST_SESSIONS + 1][64];
	struct recorded recorded[MOST_RECORDED];
	/* The lines of the file that are not the baseline of this program. */
	char *others;
} base;

/* Those of --limit come first, and replace those of the file. */
static void add_limit(const char *text, const char *source)
{
	struct user_limit limit = { .text = strdup(text), .source = source };
	int end = strlen(text);

	if (sscanf(text, "%63[^=]=%lf%15s%n", limit.name, &limit.value, limit.unit, &end) < 2 ||
	    text[end] || !(limit.value >= 0 && limit.value < 1e15))
		ksft_exit_fail_msg("%s: '%s' is no limit such as timer.max=80us\n", source, text);
	for (int i = 0; i < base.nr_limits; i++) {
		if (strcmp(base.limits[i].name, limit.name))
			continue;
		if (base.limits[i].source == source)
			ksft_exit_fail_msg("%s: %s has two limits\n", source, limit.name);
		return;
	}
	if (base.nr_limits == MOST_LIMITS)
		ksft_exit_fail_msg("%s: more than %d limits\n", source, MOST_LIMITS);
	base.limits[base.nr_limits++] = limit;
}

/* A new one has no value in any session. */
static struct recorded *recorded_of(const char *name)
{
	struct recorded *recorded = base.recorded;

	for (; recorded < base.recorded + base.nr_recorded; recorded++)
		if (!strcmp(recorded->name, name))
			return recorded;
	if (++base.nr_recorded > MOST_RECORDED)
		ksft_exit_fail_msg("more than %d metrics are recorded\n", MOST_RECORDED);
	snprintf(recorded->name, sizeof(recorded->name), "%s", name);
	for (int i = 0; i <= MOST_SESSIONS; i++)
		recorded->low[i] = NAN;
	return recorded;
}

/* What follows the name of the program; false if it is nothing of the above. */
static bool parse_line(char *text)
{
	char *word = strtok(text, " \t"), *rest;
	struct recorded *recorded;
	int had = base.nr_recorded;

	if (!word)
		return false;
	if (strchr(word, '=')) {
		add_limit(word, base.path);
		return !strtok(NULL, " \t");
	}
	if (!strcmp(word, "for")) {
		if (base.valid_for[0])
			return false;
		word = strtok(NULL, "");
		snprintf(base.valid_for, sizeof(base.valid_for), "%s", word ?: "");
		return word;
	}
	if (!strcmp(word, "sessions")) {
		if (base.nr_sessions)
			return false;
		while ((word = strtok(NULL, " ")) && base.nr_sessions < MOST_SESSIONS)
			snprintf(base.sessions[base.nr_sessions++], 64, "%s", word);
		return !word && base.nr_sessions;
	}
	recorded = recorded_of(word);
	for (int i = 0; i < base.nr_sessions; i++) {
		word = strtok(NULL, " ");
		if (!word)
			return false;
		recorded->low[i] = strtod(word, &rest);
		recorded->high[i] = *rest == '-' ? strtod(rest + 1, &rest) : recorded->low[i];
		if (*rest || (!isnan(recorded->low[i]) &&
			      !(recorded->low[i] >= 0 && recorded->low[i] <= recorded->high[i] &&
				recorded->high[i] < 1e15)))
			return false;
	}
	/* What is there twice says nothing. */
	return base.nr_sessions && base.nr_recorded > had && !strtok(NULL, " ");
}

/* Whether a line begins with the name of a program that is beside this one. */
static bool names_program(const char *line)
{
	int len = strcspn(line, " \t");
	char self[PATH_MAX] = "";

	/* A path is no name: no program would use the line. */
	return !memchr(line, '/', len) &&
	       (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0 ||
		!access(text_of("%s%.*s", directory_of(self), len, line), X_OK));
}

/* @named: the user chose the file. */
static void read_limits(const char *tool, bool named)
{
	size_t len = strlen(tool), room = 0, size;
	FILE *file = fopen(base.path, "re"), *others;
	char *line = NULL;
	ssize_t read;

	if (!file && named && (errno != ENOENT || !common.record))
		ksft_exit_fail_msg("%s: %s\n", base.path, strerror(errno));
	/* It is perhaps another user's, with a HOME that stayed. */
	if (!file && errno != ENOENT)
		ksft_print_msg("%s is not used: %s\n", base.path, strerror(errno));
	others = open_memstream(&base.others, &size);
	for (int number = 1; file && (read = getline(&line, &room, file)) > 0; number++) {
		char *text = line + strspn(line, " \t"), *end, *rest;
		bool own = strcspn(text, " \t\r\n") == len && !strncmp(text, tool, len);

		end = line + strcspn(line, "\r\n");
		if (end + strspn(end, "\r\n") != line + read)
			ksft_exit_fail_msg("%s:%d: a NUL byte or a CR\n", base.path, number);
		*end = '\0';
		rest = text + len + 1;
		/* In a limit no space is in front of the sign. */
		if (!own || (text[len] && rest[strcspn(rest, " \t=")] == '='))
			fprintf(others, "%s\n", line);
		if (own && !(text[len] && parse_line(rest)))
			ksft_exit_fail_msg("%s:%d: not a line of limits or of a baseline\n",
					   base.path, number);
		if (*text && *text != '#' && !own && !names_program(text))
			ksft_print_msg("%s:%d is not used: no such program beside %s\n",
				       base.path, number, tool);
	}
	if (file && ferror(file))
		ksft_exit_fail_msg("%s: %s\n", base.path, strerror(errno));
	free(line);
	fclose(others);
	if (file)
		fclose(file);
}

/* What has to be equal for a comparison. */
static const char *valid_now(const struct workload *workload)
{
	const char *at = "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor", *governor, *text;

	governor = read_text(text_of(at, cpus_next(&common.cpus, -1)));
	text = text_of("measurement %d, %.800s, governor %s, --cpus %.1000s", MEASUREMENT,
		       machine.text, governor ?: "none", cpus_list(&common.cpus));
	for (int i = 0; i < workload->nr_rows; i++)
		if (!(workload->rows[i].type & HARMLESS))
			text = text_of("%s, --%s %s", text, workload->rows[i].name,
				       value_text(&workload->rows[i]));
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
	struct results **runs;
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

static const struct metric *find_metric(const struct results *run, const char *name)
{
	for (const struct metric *metric = run->metrics; metric < run->metrics + run->nr_metrics;
	     metric++)
		if (!metric->absent[0] && !strcmp(metric->name, name))
			return metric;
	return NULL;
}

/* Why a metric is absent: its name, or only its prefix, is named. */
static const char *why_absent(const struct results *run, const char *name)
{
	for (int i = 0; i < run->nr_metrics; i++) {
		size_t len = strlen(run->metrics[i].name);

		if (run->metrics[i].absent[0] && !strncmp(run->metrics[i].name, name, len) &&
		    (!name[len] || name[len] == '.'))
			return run->metrics[i].absent;
	}
	return NULL;
}

/* Of a metric that was not measured: a skip if the run says why. */
static int missing(struct verdict *verdict, const struct results *run, const char *name)
{
	const char *why = why_absent(run, name);

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
	if (!strcmp(unit, "ns") && value >= 1e6)
		return text_of("%.3g ms", value / 1e6);
	if (!strcmp(unit, "ns") && value >= 1e3)
		return text_of("%.3g us", value / 1e3);
	return text_of("%.4g %s", value, unit);
}

static void judge_count(struct verdict *verdict, const struct test *test,
			const struct batch *batch)
{
	int said = 0, nr_cpus = cpus_count(&common.cpus);

	for_each_metric(name, test)
		for (int run = 0; run < batch->nr && verdict->result != KSFT_FAIL; run++) {
			const struct disturbance *found = &batch->runs[run]->disturbance;
			const struct metric *metric = find_metric(batch->runs[run], *name);
			bool bad = metric && !metric->value == (test->rule == DONE);
			double others = found->urgent + nr_cpus * found->unseen;

			if (metric && (bad || !said++))
				say(verdict, "%s %s", *name, figure(metric->unit, metric->value));
			/* A real-time thread cannot move if others have all CPUs but one. */
			if (bad && test->realtime && others >= 50 * (nr_cpus - 1)) {
				verdict->result = KSFT_SKIP;
				say(verdict, "others had %.0f %% of a CPU", others);
			} else if (bad) {
				verdict->result = KSFT_FAIL;
			}
			/* Of several metrics, some may be absent. */
			if (!metric && !(test->metrics[1] && why_absent(batch->runs[run], *name)))
				verdict->result = missing(verdict, batch->runs[0], *name);
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
			verdict->result = missing(verdict, batch->runs[0], test->metrics[!!a]);
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
static double limit_ns(const struct test *test)
{
	double limit = 1e6 * test->most_ms, jiffy = jiffy_ns();
	struct timespec grain = {};

	clock_getres(CLOCK_MONOTONIC, &grain);
	if (test->most_ms == TURN_MS)
		return fmax(3 * jiffy, limit);
	if (test->most_ms != TIMER_MS)
		return limit;
	return grain.tv_nsec > 1 ? 2 * jiffy : fmax(jiffy / 2, limit);
}

/*
 * The worst of all runs and metrics decides. Others are an excuse if they had a
 * percentage of the CPUs. For a tenth of the rounds it is a tenth of one CPU. A
 * real-time task that is twice as late takes twice as much of them, and so does
 * time that a task was seen to run; a quarter is enough for all, because one of
 * two CPUs may be gone for half of the time. An ordinary task queues behind
 * others, and who had little can be in front of it all the time.
 */
static void judge_at_most(struct verdict *verdict, const struct test *test,
			  const struct batch *batch)
{
	static const int results[] = { KSFT_PASS, KSFT_SKIP, KSFT_FAIL };
	double worst_used = -1, nr_cpus = cpus_count(&common.cpus);
	int worst = 0;

	for_each_metric(name, test)
		for (int run = 0; run < batch->nr; run++) {
			const struct disturbance *found = &batch->runs[run]->disturbance;
			const struct metric *metric = find_metric(batch->runs[run], *name);
			bool time = metric && !strcmp(metric->unit, "ns");
			double limit = time ? limit_ns(test) : 50, used, excuse, others;
			int bad;

			if (!metric)
				continue;
			/* A CPU that stands still is no excuse for a task on a wrong one. */
			others = found->steal + found->irq + (time ? found->hidden : 0) +
				 (test->realtime ? found->unseen + found->urgent / nr_cpus :
						   found->others + found->realtime / nr_cpus);
			/* On the worst CPU may be all of it. */
			if (metric->cpu >= 0)
				others *= nr_cpus;
			used = time ? metric->value / limit : limit / metric->value;
			excuse = MOST_OTHERS;
			if (!time)
				excuse = (limit - metric->value) / nr_cpus;
			else if (test->realtime || test->own_time)
				excuse = fmin(MOST_OTHERS * used, 25);
			bad = used <= 1 ? 0 : 2 - (others > excuse);
			if (bad < worst || (bad == worst && used <= worst_used))
				continue;
			worst = bad;
			worst_used = used;
			verdict->text[0] = '\0';
			say(verdict, "%s %s, at %s %s on any machine", metric->name,
			    figure(metric->unit, metric->value), time ? "most" : "least",
			    figure(metric->unit, limit));
			if (bad == 1)
				say(verdict, "others had %.0f %% of the CPU%s", others,
				    metric->cpu >= 0 ? "" : "s");
		}
	verdict->result = worst_used < 0 ? missing(verdict, batch->runs[0], test->metrics[0]) :
			  results[worst];
}

/* What is shorter makes nothing late by a limit. */
#define STILL_NS	(TIMER_MS * 1000000)
#define WATCHED_NS	(NS_PER_S / 5)

/*
 * If a loop that nothing more urgent can stop is interrupted for long, the CPU
 * stood still, as an emulator's does, which tells nobody. All CPUs have to be
 * busy, because they may share those of a host.
 */
static double lost_of[MOST_CPUS];

static void *watch_cpu(void *argument)
{
	struct pinned *own = argument;
	__u64 last = be_ready(&own->cpus, sched_get_priority_max(SCHED_FIFO));
	__u64 end = last + WATCHED_NS, lost = 0;

	for (__u64 time; last < end; last = time) {
		time = now();
		lost += time - last > STILL_NS ? time - last : 0;
	}
	lost_of[own->number] = percent(lost, WATCHED_NS + last - end);
	return NULL;
}

/* What may be no fault of the kernel. */
static void watch_cpus(const struct workload *workload)
{
	const struct batch batch = { &all, 1 };
	int nr = cpus_count(&common.cpus), failed = 0;

	for (int i = 0; i < workload->nr_tests; i++) {
		struct verdict verdict = {};

		if (workload->tests[i].rule == AT_MOST)
			judge_at_most(&verdict, &workload->tests[i], &batch);
		failed += verdict.result == KSFT_FAIL;
	}
	if (!failed || why_no_realtime(1))
		return;
	run_on_each(&common.cpus, 1, watch_cpu);
	for (int i = 0; i < nr; i++)
		all->disturbance.hidden += lost_of[i] / nr;
}

/* The median over the runs that nothing disturbed, in units of the reference; NAN if missing. */
static double median_over(const struct batch *batch, const char *name, const char *reference)
{
	double values[MOST_RUNS];
	int nr = 0;

	for (int i = 0; i < batch->nr; i++) {
		const struct results *run = batch->runs[i];
		const struct metric *metric = find_metric(run, name);

		if (run->disturbance.why[0])
			continue;
		/* A metric that is gone in one of the runs proves nothing. */
		if (!metric)
			return NAN;
		values[nr++] = metric->value / (reference ? find_metric(run, reference)->value : 1);
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
	double lowest, highest, more, limit;
	int nr;
};

/* Of the recorded sessions, each worse if it is higher. */
static struct limits limits_of(const char *name, enum tolerance tolerance, bool inverted)
{
	const struct recorded *recorded = recorded_of(name);
	struct limits found = { INFINITY, -INFINITY, tolerances[tolerance], 0, 0 };

	for (int i = 0; i < base.nr_sessions; i++) {
		double low = recorded->low[i], high = recorded->high[i];

		if (isnan(low))
			continue;
		found.lowest = fmin(found.lowest, inverted ? 1 / high : low);
		found.highest = fmax(found.highest, inverted ? 1 / low : high);
		found.nr++;
	}
	found.more *= found.nr == 1 ? 2 : 1;
	found.limit = tolerance == POINTS ? found.highest + found.more :
		      found.highest * (1 + found.more);
	return found;
}

static int compare(struct verdict *verdict, const struct test *test, const struct batch *batch,
		   const char *name)
{
	const struct metric *metric = find_metric(batch->runs[0], name);
	bool inverted = metric && metric->direction == HIGHER, points = test->tolerance == POINTS;
	double value = median_over(batch, name, test->reference), cost, sees;
	struct limits known = limits_of(name, test->tolerance, inverted), costs;
	const char *unit;

	if (!metric || isnan(value))
		return missing(verdict, batch->runs[0], name);
	if (!known.nr) {
		say(verdict, "%s was not recorded", name);
		return KSFT_SKIP;
	}
	unit = test->reference ? strchr(test->reference, '.') + 1 : metric->unit;
	say(verdict, "%s %s", name, figure(unit, value));
	if (metric->cpu >= 0)
		sprintf(verdict->text + strlen(verdict->text), " on CPU %d", metric->cpu);
	say(verdict, "at %s %s, of %d session%s", inverted ? "least" : "most",
	    figure(unit, inverted ? 1 / known.limit : known.limit), known.nr,
	    known.nr == 1 ? "" : "s");
	if (test->reference) {
		/* If the reference itself has moved, a ratio to it proves nothing. */
		costs = limits_of(test->reference, MEDIAN, false);
		cost = median_over(batch, test->reference, NULL);
		if (!(cost < 1.2 * costs.highest && cost > costs.lowest / 1.2)) {
			say(verdict, "%s moved to %s, recorded %s to %s", test->reference,
			    figure("ns", cost), figure("ns", costs.lowest),
			    figure("ns", costs.highest));
			return KSFT_SKIP;
		}
	}
	if ((inverted ? 1 / value : value) > known.limit)
		return KSFT_FAIL;
	sees = points ? known.limit - known.lowest : known.limit / known.lowest - 1;
	if (sees <= 2.000001 * known.more)
		return KSFT_PASS;
	say(verdict, "sessions differ too much: only +%.3g%s would fail",
	    points ? sees : 100 * sees, points ? " points" : " %");
	return KSFT_SKIP;
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
	else if (common.threshold_us)
		say(verdict, "a run that --threshold-us may end is not compared");
	else if (strcmp(base.valid_for, valid_now(workload)))
		say(verdict, "the baseline is for %.400s", base.valid_for);
	else if (why_disturbed(batch))
		say(verdict, "%s", why_disturbed(batch));
	if (verdict->text[0])
		return;
	for_each_metric(name, test) {
		int result = compare(verdict, test, batch, *name);

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

/* The limit in the unit of the metric, or the end of the program. */
static double scaled_limit(const struct user_limit *limit, const struct metric *metric)
{
	double scale = strcmp(limit->unit, metric->unit) ?
		       unit_ns(limit->unit) / unit_ns(metric->unit) : 1;

	if (!(scale > 0 && scale < INFINITY))
		ksft_exit_fail_msg("%s: %s: %s is in %s\n", limit->source, limit->text,
				   limit->name, metric->unit);
	return limit->value * scale;
}

/* Against the first run, before others follow. */
static void check_limits(const struct results *run)
{
	for (int i = 0; i < base.nr_limits; i++) {
		const struct user_limit *limit = &base.limits[i];
		const struct metric *metric = find_metric(run, limit->name);

		if (metric)
			scaled_limit(limit, metric);
		else if (!why_absent(run, limit->name))
			ksft_exit_fail_msg("%s: %s: there is no such metric\n", limit->source,
					   limit->text);
	}
}

static void judge_limits(struct verdict *verdict, const struct batch *batch)
{
	if (!base.nr_limits) {
		verdict->result = KSFT_SKIP;
		say(verdict, "no --limit, and none in %.300s", base.path);
	}
	for (int i = 0; i < base.nr_limits; i++) {
		const struct user_limit *limit = &base.limits[i];

		for (int run = 0; run < batch->nr; run++) {
			const struct metric *metric = find_metric(batch->runs[run], limit->name);
			double most;

			if (!metric) {
				int result = missing(verdict, batch->runs[run], limit->name);

				if (verdict->result != KSFT_FAIL)
					verdict->result = result;
				break;
			}
			most = scaled_limit(limit, metric);
			if (!run)
				say(verdict, "%s, from %.200s", limit->text, limit->source);
			if (metric->direction == HIGHER ? metric->value >= most :
			    metric->value <= most)
				continue;
			verdict->result = KSFT_FAIL;
			say(verdict, "%s in run %d", figure(metric->unit, metric->value), run + 1);
		}
	}
}

/* In a second batch, @again, what may fail by chance has to fail once more. True if it may. */
static bool judge(struct verdict *verdicts, const struct workload *workload,
		  const struct batch *batch, bool again)
{
	bool doubtful = false;

	for (int i = 0; i < workload->nr_tests; i++) {
		const struct test *test = &workload->tests[i];
		bool by_chance = test->rule != LIMITS && (test->rule > ZERO || test->realtime);
		struct verdict found = {};

		if (test->rule == ABOVE)
			judge_above(&found, test, batch);
		else if (test->rule == AT_MOST)
			judge_at_most(&found, test, batch);
		else if (test->rule == BASELINE)
			judge_baseline(&found, workload, test, batch);
		else if (test->rule == LIMITS)
			judge_limits(&found, batch);
		else
			judge_count(&found, test, batch);
		if (found.result == KSFT_FAIL &&
		    !ksft_min_kernel_version(test->since_major, test->since_minor)) {
			found.result = KSFT_SKIP;
			say(&found, "kernels before %u.%u lack this", test->since_major,
			    test->since_minor);
		}
		if (!again || (by_chance ? verdicts[i].result : found.result) == KSFT_FAIL)
			verdicts[i] = found;
		doubtful |= by_chance && found.result == KSFT_FAIL;
	}
	return doubtful;
}

/* Recording. */

/* The number of this session: that of the last one if it is only minutes old, or a new one. */
static int session_now(void)
{
	const char *boot = read_text("/proc/sys/kernel/random/boot_id") ?: "";
	int nr = base.nr_sessions;
	struct timespec age;
	long began = 0;
	char last[37];

	clock_gettime(CLOCK_BOOTTIME, &age);
	if (nr && sscanf(base.sessions[nr - 1], "%36[^.].%ld", last, &began) == 2 &&
	    !strcmp(last, boot) && age.tv_sec / 60 - began < SESSION_MINUTES)
		nr--;
	sprintf(base.sessions[nr], "%.36s.%ld", boot, (long)age.tv_sec / 60);
	base.nr_sessions = nr + 1;
	return nr;
}

static void record_metric(const struct batch *batch, int session, const char *name,
			  const char *reference)
{
	struct recorded *recorded = recorded_of(name);
	double low = median_over(batch, name, reference), high = low;

	for (int first = 0; !isnan(low) && first + JUDGED_RUNS <= batch->nr; first += JUDGED_RUNS) {
		struct batch part = { batch->runs + first, JUDGED_RUNS };

		low = fmin(low, median_over(&part, name, reference));
		high = fmax(high, median_over(&part, name, reference));
	}
	recorded->low[session] = low;
	recorded->high[session] = high;
}

static void add_session(const struct workload *workload, const struct batch *batch)
{
	int session, first, lock = open(directory_of(base.path), O_RDONLY | O_CLOEXEC);
	char *text = NULL;
	size_t size;
	FILE *file;

	/* Another program may have written it meanwhile, and must not write it now. */
	flock(lock, LOCK_EX);
	base.nr_sessions = 0;
	base.nr_recorded = 0;
	base.valid_for[0] = '\0';
	while (base.nr_limits && base.limits[base.nr_limits - 1].source == base.path)
		base.nr_limits--;
	read_limits(workload->name, false);
	if (base.nr_sessions && strcmp(base.valid_for, valid_now(workload)))
		ksft_exit_fail_msg("--record: the baseline in %s is for %s; use other --limits\n",
				   base.path, base.valid_for);
	if (why_disturbed(batch))
		ksft_exit_fail_msg("--record: most runs are disturbed: %s\n", why_disturbed(batch));
	session = session_now();
	for (size_t i = 0; i < ARRAY_SIZE(references); i++)
		record_metric(batch, session, references[i].name, NULL);
	for (int i = 0; i < workload->nr_tests; i++)
		for_each_metric(name, &workload->tests[i])
			if (workload->tests[i].rule == BASELINE)
				record_metric(batch, session, *name, workload->tests[i].reference);
	/* Forget the oldest one. */
	first = base.nr_sessions > MOST_SESSIONS;
	file = open_memstream(&text, &size);
	fprintf(file, "%s%s for %s\n%s sessions", base.others, workload->name, valid_now(workload),
		workload->name);
	for (int i = first; i < base.nr_sessions; i++)
		fprintf(file, " %s", base.sessions[i]);
	for (int i = 0; i < base.nr_recorded; i++) {
		const struct recorded *of = &base.recorded[i];

		fprintf(file, "\n%s %s", workload->name, of->name);
		for (int j = first; j < base.nr_sessions; j++) {
			fprintf(file, " %.6g", of->low[j]);
			if (of->high[j] > of->low[j])
				fprintf(file, "-%.6g", of->high[j]);
		}
	}
	fprintf(file, "\n");
	fclose(file);
	replace_file("--record:", base.path, text);
	close(lock);
	free(text);
	ksft_print_msg("the baseline has %d session%s now: %s\n", base.nr_sessions - first,
		       base.nr_sessions - first == 1 ? "" : "s", base.path);
}

/* Running. */

static void run_child(const struct workload *workload)
{
	struct disturbance found = {};
	char none[64];
	double own;
	__u64 began;

	json_rows.file = fmemopen(json_rows.text, MOST_TEXT, "w");
	json_bars.file = fmemopen(json_bars.text, MOST_TEXT, "w");
	ticks = shared_memory(MOST_PIDS * sizeof(*ticks));
	take_references();
	read_tasks(&found, 0, none);
	count_cpus(-1, &found);
	own = own_time();
	began = now();
	workload->measure();
	note_disturbance(&found, now() - began, own_time() - own);
	take_references();
	for (size_t i = 0; i < ARRAY_SIZE(references); i++)
		add_metric(QUANTILE, NEITHER, "ns", median_of(costs[i], nr_costs), nr_costs,
			   references[i].name);
	all->disturbance = found;
	watch_cpus(workload);
	if (common.threshold_us)
		add_metric(EXACT, LOWER, "wake-ups", beyond_threshold(), 1, "beyond_threshold");
	all->done = true;
	_exit(KSFT_PASS);
}

static struct results *run_once(const struct workload *workload)
{
	int status = 0;
	pid_t pid;

	all = results_new();
	fflush(stdout);
	pid = fork_bound();
	if (pid < 0)
		ksft_exit_fail_perror("fork");
	if (!pid)
		run_child(workload);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (all->done || all->error[0])
		return all;
	if (WIFEXITED(status))
		sprintf(all->error, "the run ended early: exit %d", WEXITSTATUS(status));
	else if (WTERMSIG(status) == SIGXCPU)
		sprintf(all->error, "an RT thread ran for %d s without sleep: ended by %s",
			RTTIME_US / 1000000, "RLIMIT_RTTIME");
	else
		sprintf(all->error, "the run was killed: %s", strsignal(WTERMSIG(status)));
	return all;
}

static void print_run(const struct results *run)
{
	for (int i = 0; i < run->nr_metrics && common.verbose; i++)
		if (!run->metrics[i].absent[0])
			ksft_print_msg("%-34s %14.10g %s\n", run->metrics[i].name,
				       run->metrics[i].value, run->metrics[i].unit);
	if (run->disturbance.why[0])
		ksft_print_msg("disturbed: %s\n", run->disturbance.why);
	if (!run->broken_cpu)
		return;
	ksft_print_msg("CPU %d woke up %.1f us late, beyond %g us; %s\n", run->broken_cpu - 1,
		       run->broken_ns / 1e3, common.threshold_us,
		       run->tracing_off ? "tracing is off" : "tracing could not be stopped");
	fflush(stdout);
	if (common.on_threshold && system(common.on_threshold))
		ksft_print_msg("--on-threshold failed: %s\n", common.on_threshold);
}

static struct batch run_batch(const struct workload *workload, const char *command)
{
	struct batch batch = { calloc(common.runs, sizeof(*batch.runs)), 0 };

	while (batch.nr < common.runs) {
		struct results *run = run_once(workload);

		keep_run(workload, run, command, run->done ? "DONE" :
			 run->refused ? "SKIP" : "ERROR");
		for (int i = 0; run->refused && i < workload->nr_tests; i++)
			ksft_test_result_code(KSFT_SKIP, workload->tests[i].name, "%s",
					      run->error);
		if (run->refused)
			ksft_finished();
		if (!run->done)
			ksft_exit_fail_msg("%s\n", run->error);
		print_run(run);
		if (!batch.nr)
			check_limits(run);
		batch.runs[batch.nr++] = run;
	}
	return batch;
}

int workload_main(const struct workload *workload, int argc, char **argv)
{
	static struct verdict verdicts[MOST_TESTS];
	const char *command = argv[0], *why, *config, *chosen;
	struct batch batch;

	for (int i = 1; i < argc; i++) {
		command = text_of("%.2000s %s", command, argv[i]);
		if (strcmp(argv[i], "--help"))
			continue;
		printf("usage: %s [options]\n\n%s\n\n", workload->name, workload->about);
		print_rows(workload->rows, workload->nr_rows);
		print_rows(common_rows, ARRAY_SIZE(common_rows));
		return KSFT_PASS;
	}
	/* The caller may be real-time, and may ignore what ends. */
	be_realtime(0);
	signal(SIGCHLD, SIG_DFL);
	ksft_print_header();
	parse_options(workload, argc, argv);
	if (common.on_threshold && !common.threshold_us)
		ksft_exit_fail_msg("--on-threshold needs --threshold-us\n");
	if (common.record && (common.inject_us || common.threshold_us))
		ksft_exit_fail_msg("--record: a baseline cannot be made with --%s\n",
				   common.inject_us ? "inject-delay-us" : "threshold-us");
	if (common.record && common.runs && common.runs < JUDGED_RUNS)
		ksft_exit_fail_msg("--record needs at least %d --runs\n", JUDGED_RUNS);
	if (common.json)
		check_writable("--json", common.json);
	if (getenv("SCHED_LATENCY_RESULTS"))
		check_writable("--json", in_results(workload));
	if (common.threshold_us) {
		add_limit("beyond_threshold=0wake-ups", "--threshold-us");
		base.limits[base.nr_limits - 1].text =
			text_of("wake-ups at most %g us late", common.threshold_us);
	}
	for (char *one = strtok(strdup(common.limit ?: ""), ","); one; one = strtok(NULL, ","))
		add_limit(one, "--limit");
	choose_cpus();
	read_machine();
	config = getenv("XDG_CONFIG_HOME") ?: "";
	if (!*config)
		config = text_of("%s/.config", getenv("HOME") ?: "");
	chosen = common.limits ?: getenv("SCHED_LATENCY_LIMITS");
	snprintf(base.path, sizeof(base.path), "%s",
		 chosen ?: text_of("%s/sched_latency/%s", config, machine.name));
	read_limits(workload->name, chosen);
	for (char *slash = base.path; common.record && (slash = strchr(slash + 1, '/'));
	     *slash = '/') {
		*slash = '\0';
		mkdir(base.path, 0755);
	}
	if (common.record)
		check_writable("--record:", base.path);
	json_rows.text = shared_memory(MOST_TEXT);
	json_bars.text = shared_memory(MOST_TEXT);
	why = workload->cannot ? workload->cannot() : NULL;
	if (why) {
		all = results_new();
		snprintf(all->error, sizeof(all->error), "%s", why);
		keep_run(workload, all, command, "SKIP");
		ksft_exit_skip("%s\n", why);
	}
	if (!common.runs)
		common.runs = common.record ? RECORDED_RUNS :
			      base.nr_sessions && !common.threshold_us ? JUDGED_RUNS : 1;
	ksft_set_plan(workload->nr_tests);
	batch = run_batch(workload, command);
	if (common.record)
		add_session(workload, &batch);
	if (judge(verdicts, workload, &batch, false)) {
		ksft_print_msg("once more, to confirm it\n");
		batch = run_batch(workload, command);
		judge(verdicts, workload, &batch, true);
	}
	for (int i = 0; i < workload->nr_tests; i++) {
		const char *name = workload->tests[i].name, *text = verdicts[i].text;

		if (verdicts[i].result == KSFT_SKIP)
			ksft_test_result_code(KSFT_SKIP, name, "%s", text);
		else
			ksft_test_result(verdicts[i].result == KSFT_PASS, "%s # %s\n", name, text);
	}
	ksft_finished();
}
