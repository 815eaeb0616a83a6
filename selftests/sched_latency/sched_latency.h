/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the programs of sched_latency share. sched_latency.c explains how
 * results are judged.
 */
#ifndef SCHED_LATENCY_H
#define SCHED_LATENCY_H

#include <errno.h>
#include <fcntl.h>
#include <linux/types.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kselftest.h"

/* Nobody frees it: a run is a process of its own. */
__printf(1, 2) const char *text_of(const char *format, ...);
/* In a static buffer, without the newline at its end; NULL if it cannot be read. */
char *read_text(const char *path);
bool write_text(const char *text, const char *path);

/*
 * Sets of CPUs. A cpu_set_t holds 1024 CPUs; these hold the largest NR_CPUS
 * that can be configured.
 */
#define MOST_CPUS	8192

struct cpus {
	cpu_set_t sets[MOST_CPUS / CPU_SETSIZE];
};

enum sharing { CORE, CLUSTER, LLC, NODE, PACKAGE };

#define for_each_cpu(cpu, set) \
	for (int cpu = cpus_next(set, -1); cpu >= 0; cpu = cpus_next(set, cpu))

/* Another machine's /sys makes a run a rehearsal. */
extern const char *sysfs;

#define cpus_has(set, cpu)	CPU_ISSET_S(cpu, sizeof(struct cpus), (set)->sets)
#define cpus_add(set, cpu)	CPU_SET_S(cpu, sizeof(struct cpus), (set)->sets)
#define cpus_count(set)		CPU_COUNT_S(sizeof(struct cpus), (set)->sets)
#define cpus_and(set, other)	\
	CPU_AND_S(sizeof(struct cpus), (set)->sets, (set)->sets, (other)->sets)
#define cpus_or(set, other)	\
	CPU_OR_S(sizeof(struct cpus), (set)->sets, (set)->sets, (other)->sets)

/* The next CPU after @cpu, or -1 if there is none. */
int cpus_next(const struct cpus *set, int cpu);
/* A list such as 0-3,8; false if the text is no list, or has no CPUs. */
bool cpus_parse(const char *text, struct cpus *set);
const char *cpus_list(const struct cpus *set);
/* A list below devices/system/ of sysfs; false if it is missing or empty. */
bool cpus_read(struct cpus *set, const char *name);
/* The CPUs that share it with this one, which is included; false if unknown. */
bool cpus_sharing(int cpu, enum sharing what, struct cpus *set);
/* A cluster with a sched domain: more CPUs than a core, fewer than the LLC. */
bool real_cluster_of(int cpu, struct cpus *cluster);
/* The CPUs that this task may use. */
void cpus_allowed(struct cpus *set);
bool run_on(const struct cpus *set);
bool run_on_cpu(int cpu);

/* Time. */

#define NS_PER_S	1000000000ULL
/* How much longer a run may last for its first samples: a guest can be slow. */
#define PATIENCE	(60 * NS_PER_S)

__u64 now(void);
/* The same, after --inject-delay-us, by what has just been woken. */
__u64 woken(void);
void sleep_until(__u64 ns);
double seconds_since(__u64 ns);

/* Work of so many steps: to read the clock meanwhile would take much of the time. */
void work_steps(long steps);
double steps_per_us(void);

/* Real-time threads. */

/* The lowest of the run's real-time threads: what is less urgent is no excuse for them. */
extern int rt_priority;

bool be_realtime(int priority);
/* Why SCHED_FIFO cannot be used; NULL if it can. */
const char *why_no_realtime(int priority);
/* Lock memory, keep CPUs awake, and let the kernel end what never sleeps. */
void be_prompt(void);

/* Samples: latencies in ns, for each CPU in 64 buckets for a power of two. */

#define STEPS_BITS	6
#define STEPS		64
/* 18 minutes; what is longer is in the last bucket. */
#define TOP_BITS	40
#define BUCKETS		((TOP_BITS - STEPS_BITS + 1) << STEPS_BITS)

/* Long, because many CPUs of 32 bits have no wider atomics: there .most ends at 4.3 s. */
struct histogram {
	unsigned long n, most, buckets[BUCKETS];
};

struct samples {
	int nr_cpus;
	/* Intervals without a sample, or NULL if they are not counted. */
	long *missed;
	struct histogram *on;
};

__u64 bucket_start(int bucket);
int bucket_of(__u64 ns);
/* Tasks and processes may add at the same time. */
void histogram_add(struct histogram *histogram, __u64 ns);
void histogram_merge(struct histogram *into, const struct histogram *from);
double histogram_quantile(const struct histogram *histogram, double share);
void samples_new(struct samples *samples);
void sample(struct samples *samples, int cpu, __u64 ns);
__u64 samples_count(const struct samples *samples);
/* How many CPUs of the run have no sample. */
int samples_idle(const struct samples *samples);

/* Memory that children of the run share, full of zeros. */
void *shared_memory(size_t size);

/*
 * What a run measured. Each run is a process. Metrics are numbers with units;
 * tests are rows, which sched_latency.c alone reads.
 */
#define MOST_ROUNDS	100

enum direction { LOWER, HIGHER, NEITHER };
enum kind { EXACT, QUANTILE, RATE, EXCEEDANCE };

struct metric {
	char name[56], unit[16];
	enum direction direction;
	enum kind kind;
	double value;
	__u64 n;
	/* The CPU of the worst one, or -1. */
	int cpu;
	/* Why it, and all whose names begin with its name, are missing; or empty. */
	char absent[160];
	/* A value for each slice of the run, where slices are compared. */
	int nr_rounds;
	double rounds[MOST_ROUNDS];
};

struct metric *add_metric(enum kind kind, enum direction direction, const char *unit,
			  double value, __u64 n, const char *name);
/* All metrics whose name begins with @name are missing. */
void add_absent(const char *name, const char *why);
/* Quantiles, a row for each CPU, and if asked for the figures of the worst CPU. */
void add_samples(const char *name, const struct samples *samples, bool worst);
double percent(double part, double whole);
/* The values are sorted; of an even number, the lower of the two. */
double median_of(double *values, int nr);

/* End the run without results. */
__noreturn __printf(1, 2) void give_up(const char *format, ...);
/* Give up unless this was done; the run is a skip if errno is a limit of the user. */
void must(bool done, const char *what);
/* The CPU of this task, which has to be in the set. */
int ran_on(const struct cpus *set);

/* Of RUSAGE_SELF or RUSAGE_THREAD. */
struct rusage usage_of(int who);

/* Threads. */

#define load(what)	__atomic_load_n(&(what), __ATOMIC_ACQUIRE)
#define store(what, to)	__atomic_store_n(&(what), to, __ATOMIC_RELEASE)

/* A thread of run_on_each(). */
struct pinned {
	struct cpus cpus;
	int cpu, number;
};

void start_thread(pthread_t *thread, void *(*work)(void *argument), void *argument);
/* Start @nr threads, each with an element of @array, and wait for all. */
void run_threads(int nr, void *(*work)(void *argument), void *array, size_t size);
/* The same with @each threads on each CPU, in the order of the CPUs. */
void run_on_each(const struct cpus *set, int each, void *(*work)(void *pinned));
/* In such a thread: the start of all, when each is on its CPUs. */
__u64 be_ready(const struct cpus *set, int priority);
/* A child that does not outlive its parent. */
pid_t fork_bound(void);
/* Wait until another thread of this process sleeps in this system call. */
void await_sleep(pid_t tid, long call);
/* Wait while the word has this value, or give it one and wake all that wait. */
void futex_wait(__u32 *word, __u32 value);
void futex_wake(__u32 *word, __u32 value);

/* A task that sleeps on @wakee is woken from @waker, through a pipe. */
struct place {
	int waker, wakee;
	struct cpus cluster, llc;
};

struct placed {
	long cluster, stayed, elsewhere, moved;
};

/* @patience: seconds in which wake-ups before the first in the cluster do not count. */
void wake_from_cluster(const struct place *place, int wakeups, int patience,
		       struct samples *latency, struct placed *placed);

/* Tests. */

enum rule {
	/* The metric is there and is not 0; or it is 0. */
	DONE, ZERO,
	/* In nine of ten slices it is above the second metric. */
	ABOVE,
	/* Times are at most .most_ms, and shares at least half: on any machine. */
	AT_MOST,
	/* Not worse than what was recorded here. */
	BASELINE,
	/* Not beyond limits of the user. */
	LIMITS,
};

/* How much worse than the worst recorded session a metric may be. */
enum tolerance { MEDIAN, TAIL, POINTS };

/* Costs of the machine, which are metrics of each run. */
#define IPI		"reference.ipi"
#define SYSCALL		"reference.syscall"

/* A timer is late by microseconds, and a broken one by a jiffy. */
#define TIMER_MS	1
#define REALTIME_MS	5
/* A task that is not real-time may wait for a slice of another one. */
#define FAIR_MS		10
/* A slice of 3 ms that only a tick ends. */
#define TURN_MS		15

#define MOST_COMPARED	24

struct test {
	const char *name;
	enum rule rule;
	const char *metrics[MOST_COMPARED];
	double most_ms;
	/* Tasks that are not real-time are no excuse. */
	bool realtime;
	/* Only time in which a task was seen to run. */
	bool own_time;
	enum tolerance tolerance;
	/* The baseline is kept in units of this cost. */
	const char *reference;
	/* On kernels before this version a failure is a skip. */
	unsigned int since_major, since_minor;
};

#define for_each_metric(name, test) \
	for (const char * const *name = (test)->metrics; *name; name++)

/* Options. A DURATION is in seconds, or has one of s, m, h and d behind it. */
enum option_type { FLAG, COUNT, NUMBER, WORD, CPUS, DURATION };
/* Added to a type: it does not change what is measured. */
#define HARMLESS	0x20

struct option_row {
	const char *name;
	char letter;
	int type;
	/* Its content is the default. */
	void *to;
	double least, most;
	/* The text of --help; NULL for a hidden option. */
	const char *help;
};

/* Options of every workload. */
struct common {
	int runs;
	double inject_us, threshold_us;
	const char *json, *limits, *limit, *on_threshold;
	bool record, verbose;
	struct cpus cpus;
};

extern struct common common;

/* Whether a wake-up was beyond --threshold-us. */
bool beyond_threshold(void);

struct workload {
	const char *name, *about;
	const struct option_row *rows;
	int nr_rows;
	const struct test *tests;
	int nr_tests;
	/* Why there is nothing to measure here, or NULL. */
	const char *(*cannot)(void);
	void (*measure)(void);
};

int workload_main(const struct workload *workload, int argc, char **argv);

/* Of a program with measure(), and with arrays of rows and tests. */
#define WORKLOAD_MAIN(name, cannot, about)						\
	int main(int argc, char **argv)							\
	{										\
		static const struct workload workload = {				\
			name, about, rows, ARRAY_SIZE(rows), tests, ARRAY_SIZE(tests),	\
			cannot, measure							\
		};									\
											\
		exit(workload_main(&workload, argc, argv));				\
	}

#endif
