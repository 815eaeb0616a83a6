/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The baseline of a workload on a machine: what --record measured, in a text
 * file. First the conditions, a line each. They have to be the same in the run
 * that is judged. Then the session of each recorded run. Then a line for each
 * metric, with its CPU (-1: all CPUs together) and its value in each run, "-"
 * where it is missing. The last line is a checksum. Thresholds of your own are
 * given with --limit, not here.
 */
#ifndef BASELINE_H
#define BASELINE_H

#include <math.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "results.h"
#include "statistics.h"

#define BASELINE_HEAD	"# sched_latency baseline 3; an edited file is not used, for own limits see --limit"
/* To be increased when a workload measures something else under the same name. */
#define MEASUREMENT	2
#define MOST_CONDITION	4096
/* What is recorded later than this belongs to another session: machines drift. */
#define SESSION_MINUTES	10

/* What has to be equal for a comparison. */
enum condition { TOOL, MACHINE, OPTIONS, CPUS_USED, GOVERNOR, KERNEL, CONDITIONS };
static const char * const condition_names[CONDITIONS] = {
	[TOOL] = "tool", [MACHINE] = "machine", [OPTIONS] = "options", [CPUS_USED] = "cpus",
	[GOVERNOR] = "governor", [KERNEL] = "kernel-options",
};

/* The values of a metric in all recorded runs, NAN where it is missing. */
struct series {
	char name[64];
	int cpu;
	double *values;
};

struct baseline {
	char path[4000];
	/* Why there is none that can be used; empty if there is one. */
	char missing[768];
	bool damaged;
	char conditions[CONDITIONS][MOST_CONDITION];
	int nr_runs;
	/* The boot, a dot, and its age in minutes when the session began. */
	char sessions[MOST_RECORDED][64];
	int nr_series;
	struct series *series;
};

/* A figure of one run that is recorded. */
struct figure {
	char name[64];
	int cpu;
	double value;
	enum aim aim;
	enum direction direction;
	const char *unit;
};

static inline void add_figure(struct figure *figure, const char *group, const char *name, int cpu,
			      double value, enum aim aim, const char *unit)
{
	snprintf(figure->name, sizeof(figure->name), "%s.%s", group, name);
	figure->cpu = cpu;
	figure->value = value;
	figure->aim = aim;
	figure->direction = LOWER;
	figure->unit = unit;
}

/* All figures of a run that a baseline keeps. Returns their number. */
static inline int figures_of(const struct results *results, struct figure **list)
{
	struct figure *figures = calloc(results->nr_metrics + 3 * results->nr_rows + 3,
					sizeof(*figures));
	const struct disturbance *found = &results->disturbance;
	int nr = 0;

	if (!figures)
		ksft_exit_fail_msg("no memory\n");
	*list = figures;
	for (int i = 0; i < results->nr_metrics; i++) {
		const struct metric *metric = &results->metrics[i];

		if (!metric->aim)
			continue;
		snprintf(figures[nr].name, sizeof(figures[nr].name), "%s", metric->name);
		figures[nr].cpu = -1;
		figures[nr].value = metric->value;
		figures[nr].aim = metric->aim;
		figures[nr].direction = metric->direction;
		figures[nr++].unit = metric->unit;
	}
	for (int i = 0; i < results->nr_rows; i++) {
		const struct row *row = &results->rows[i];

		if (!row->compared)
			continue;
		add_figure(&figures[nr++], row->group, "p50", row->cpu, row->p50, CPU_MEDIAN, "ns");
		add_figure(&figures[nr++], row->group, "p99", row->cpu, row->p99, CPU_TAIL, "ns");
		if (row->missed >= 0)
			add_figure(&figures[nr++], row->group, "missed", row->cpu, row->missed,
				   CPU_POINTS, "%");
	}
	/* Not judged, but named if the baseline is too noisy. */
	add_figure(&figures[nr++], "noise", "steal", -1, found->steal, NOT_COMPARED, "%");
	add_figure(&figures[nr++], "noise", "interrupts", -1, found->irq, NOT_COMPARED, "%");
	add_figure(&figures[nr++], "noise", "others", -1, found->others, NOT_COMPARED, "%");
	return nr;
}

/* The series, which is probably at @place; NULL if there is none. */
static inline struct series *find_series(const struct baseline *baseline, const char *name,
					 int cpu, int place)
{
	for (int i = 0; i < baseline->nr_series; i++) {
		struct series *series = &baseline->series[(place + i) % baseline->nr_series];

		if (series->cpu == cpu && !strcmp(series->name, name))
			return series;
	}
	return NULL;
}

static inline struct series *add_series(struct baseline *baseline, const char *name, int cpu)
{
	struct series *series;
	void *more;

	/* Twice the size at 1, 2, 4, 8 and so on. */
	if (!(baseline->nr_series & (baseline->nr_series - 1))) {
		more = realloc(baseline->series,
			       (2 * baseline->nr_series + 1) * sizeof(*baseline->series));
		if (!more)
			ksft_exit_fail_msg("no memory\n");
		baseline->series = more;
	}
	series = &baseline->series[baseline->nr_series++];
	snprintf(series->name, sizeof(series->name), "%s", name);
	series->cpu = cpu;
	series->values = malloc(MOST_RECORDED * sizeof(double));
	if (!series->values)
		ksft_exit_fail_msg("no memory\n");
	for (int i = 0; i < MOST_RECORDED; i++)
		series->values[i] = NAN;
	return series;
}

/* The conditions of this run. */

/* Options of the kernel that change latencies, and boot parameters that do. */
static const char * const kernel_options[] = {
	"HZ", "NO_HZ", "PREEMPT", "HIGH_RES", "SCHED_", "NUMA", "SMP", "CPUSETS", "CGROUP_SCHED",
	"FAIR_GROUP", "RT_GROUP", "UCLAMP", "CPU_IDLE", "IRQ_TIME", "VIRT_CPU", "DEBUG_", "KASAN",
	"KCSAN", "KMSAN", "UBSAN", "LOCKDEP", "PROVE_", "LOCK_STAT", "FUNCTION_TRACER", "RCU_NOCB",
	"PARAVIRT", "CC_OPTIMIZE",
};

static const char * const boot_parameters[] = {
	"isolcpus", "nohz", "rcu_nocbs", "mitigations", "idle", "processor.", "intel_idle.",
	"preempt", "threadirqs", "irqaffinity", "nosmt", "cpuidle.", "skew_tick", "hlt_poll",
};

static inline bool begins_with_one(const char *text, const char * const *words, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (!strncmp(text, words[i], strlen(words[i])))
			return true;
	return false;
}

static inline size_t add_word(char *text, size_t len, const char *word)
{
	int more = snprintf(text + len, MOST_CONDITION - len, "%s%s", len ? " " : "", word);

	/* What does not fit is left out, in the same way each time. */
	return len + more < MOST_CONDITION ? len + more : len;
}

static inline void kernel_condition(char *text)
{
	static char line[4096];
	struct utsname name;
	char command[256];
	size_t len = 0;
	FILE *options;

	text[0] = '\0';
	uname(&name);
	snprintf(command, sizeof(command),
		 "zcat /proc/config.gz 2>/dev/null || cat '/boot/config-%.60s' 2>/dev/null",
		 name.release);
	options = strchr(name.release, '\'') ? NULL : popen(command, "re");
	while (options && fgets(line, sizeof(line), options)) {
		line[strcspn(line, "\n")] = '\0';
		if (!strncmp(line, "CONFIG_", 7) &&
		    begins_with_one(line + 7, kernel_options, ARRAY_SIZE(kernel_options)))
			len = add_word(text, len, line + 7);
	}
	if (options)
		pclose(options);
	if (!len)
		len = add_word(text, len, "unknown");
	if (!read_line(line, sizeof(line), "/proc/cmdline"))
		return;
	for (char *word = strtok(line, " "); word; word = strtok(NULL, " "))
		if (begins_with_one(word, boot_parameters, ARRAY_SIZE(boot_parameters)))
			len = add_word(text, len, word);
}

/* @options: those that change what is measured. */
static inline void conditions_now(char (*texts)[MOST_CONDITION], const char *tool,
				  const char *options, const struct cpus *cpus)
{
	char machine[1024];

	machine_text(machine, sizeof(machine));
	snprintf(texts[TOOL], MOST_CONDITION, "%s %d", tool, MEASUREMENT);
	snprintf(texts[MACHINE], MOST_CONDITION, "%s %s", machine_name(), machine);
	snprintf(texts[OPTIONS], MOST_CONDITION, "%s", options);
	snprintf(texts[CPUS_USED], MOST_CONDITION, "%s", cpus_list(cpus));
	if (!read_line(texts[GOVERNOR], MOST_CONDITION,
		       "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor",
		       cpus_next(cpus, -1)))
		snprintf(texts[GOVERNOR], MOST_CONDITION, "none");
	kernel_condition(texts[KERNEL]);
}

/* The first word in which two texts differ. */
static inline void name_difference(char *text, size_t size, const char *what, const char *had,
				   const char *has)
{
	size_t start = 0, i = 0;

	for (; had[i] == has[i] && had[i]; i++)
		if (had[i] == ' ')
			start = i + 1;
	snprintf(text, size, "its %s: %.*s, now %.*s", what,
		 (int)strcspn(had + start, " "), had[start] ? had + start : "none",
		 (int)strcspn(has + start, " "), has[start] ? has + start : "none");
}

/* Reading. */

static inline void baseline_path(struct baseline *baseline, const char *named, const char *tool)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	const char *directory = getenv("SCHED_LATENCY_BASELINES");
	size_t size = sizeof(baseline->path);

	if (named)
		snprintf(baseline->path, size, "%s", named);
	else if (directory)
		snprintf(baseline->path, size, "%s/%s.baseline", directory, tool);
	else if (config)
		snprintf(baseline->path, size, "%s/sched_latency/%s/%s.baseline", config,
			 machine_name(), tool);
	else
		snprintf(baseline->path, size, "%s/.config/sched_latency/%s/%s.baseline",
			 home ? home : "", machine_name(), tool);
}

/* "name cpu" and a value for each run; false if it is not that. */
static inline bool parse_series(struct baseline *baseline, const char *text)
{
	struct series *series;
	char name[64], *rest;
	int cpu, len = 0;

	if (sscanf(text, "%63s %d%n", name, &cpu, &len) != 2 || cpu < -1 || cpu >= MOST_CPUS)
		return false;
	series = add_series(baseline, name, cpu);
	text += len;
	for (int i = 0; i < baseline->nr_runs; i++) {
		if (!strncmp(text, " -", 2) && (text[2] == ' ' || text[2] == '\n')) {
			text += 2;
			continue;
		}
		series->values[i] = strtod(text, &rest);
		if (*text != ' ' || rest == text || !isfinite(series->values[i]))
			return false;
		text = rest;
	}
	return !strcmp(text, "\n");
}

static inline bool parse_sessions(struct baseline *baseline, const char *text)
{
	int len;

	for (; baseline->nr_runs < MOST_RECORDED &&
	     sscanf(text, "%63s%n", baseline->sessions[baseline->nr_runs], &len) == 1; text += len)
		baseline->nr_runs++;
	return baseline->nr_runs && text[strspn(text, "\n ")] == '\0';
}

static inline bool parse_baseline_line(struct baseline *baseline, char *text)
{
	for (int i = 0; i < CONDITIONS; i++) {
		size_t len = strlen(condition_names[i]);

		if (!baseline->nr_runs && !strncmp(text, condition_names[i], len) &&
		    text[len] == ' ') {
			text[strcspn(text, "\n")] = '\0';
			snprintf(baseline->conditions[i], MOST_CONDITION, "%s", text + len + 1);
			return true;
		}
	}
	if (!baseline->nr_runs)
		return !strncmp(text, "sessions ", 9) && parse_sessions(baseline, text + 9);
	return parse_series(baseline, text);
}

/* The line that is wrong, 0 if all are right, or -1 if the end is missing. */
static inline int parse_baseline(struct baseline *baseline, FILE *file)
{
	__u64 hash = HASH_START;
	size_t room = 0;
	char *text = NULL, end[32];
	int number = 0, wrong = -1;

	while (getline(&text, &room, file) > 0 && wrong == -1) {
		number++;
		snprintf(end, sizeof(end), "end %016llx\n", (unsigned long long)hash);
		if (!strcmp(text, end))
			wrong = 0;
		hash = hash_of(hash, text, strlen(text));
		if (wrong && (number == 1 ? strncmp(text, BASELINE_HEAD, 26) :
			      !parse_baseline_line(baseline, text)))
			wrong = number;
	}
	free(text);
	return wrong;
}

/* Whether the file is there and whole. If not, baseline->missing says why. */
static inline bool baseline_read(struct baseline *baseline, const char *tool)
{
	FILE *file = fopen(baseline->path, "re");
	int wrong;

	baseline->nr_runs = 0;
	baseline->nr_series = 0;
	baseline->series = NULL;
	baseline->missing[0] = '\0';
	baseline->damaged = false;
	if (!file && errno == ENOENT) {
		snprintf(baseline->missing, sizeof(baseline->missing),
			 "no baseline: record one with %s --record", tool);
		return false;
	}
	wrong = file ? parse_baseline(baseline, file) : errno;
	if (file)
		fclose(file);
	if (!file)
		snprintf(baseline->missing, sizeof(baseline->missing), "the baseline %.500s: %s",
			 baseline->path, strerror(wrong));
	else if (wrong)
		snprintf(baseline->missing, sizeof(baseline->missing),
			 "the baseline %.500s was edited or cut short%s: remove it, and record again",
			 baseline->path, wrong > 0 ? ", or is of another version" : "");
	baseline->damaged = !file || wrong;
	return !baseline->damaged;
}

/* Whether it may be compared with this run. If not, baseline->missing says why. */
static inline bool baseline_fits(struct baseline *baseline, char (*now)[MOST_CONDITION])
{
	char difference[400];

	for (int i = 0; i < CONDITIONS; i++) {
		if (!strcmp(baseline->conditions[i], now[i]))
			continue;
		name_difference(difference, sizeof(difference), condition_names[i],
				baseline->conditions[i], now[i]);
		snprintf(baseline->missing, sizeof(baseline->missing),
			 "the baseline is of another combination, %s", difference);
		return false;
	}
	return true;
}

/* Recording. */

/* The session of a run that is recorded now: that of the last run, or a new one. */
static inline void name_session(struct baseline *baseline, int run)
{
	char boot[37], last[37] = "";
	struct timespec age;
	long minutes, began;

	clock_gettime(CLOCK_BOOTTIME, &age);
	minutes = age.tv_sec / 60;
	if (!read_line(boot, sizeof(boot), "/proc/sys/kernel/random/boot_id"))
		snprintf(boot, sizeof(boot), "unknown");
	if (run && sscanf(baseline->sessions[run - 1], "%36[^.].%ld", last, &began) == 2 &&
	    !strcmp(last, boot) && minutes - began < SESSION_MINUTES)
		minutes = began;
	snprintf(baseline->sessions[run], sizeof(baseline->sessions[run]), "%s.%ld", boot, minutes);
}

static inline void append_run(struct baseline *baseline, const struct results *results)
{
	struct figure *figures;
	int nr = figures_of(results, &figures), run = baseline->nr_runs++;

	name_session(baseline, run);
	for (int i = 0; i < nr; i++) {
		struct series *series = find_series(baseline, figures[i].name, figures[i].cpu, i);

		if (!series)
			series = add_series(baseline, figures[i].name, figures[i].cpu);
		series->values[run] = figures[i].value;
	}
	free(figures);
}

/* Forget the oldest runs. */
static inline void forget_runs(struct baseline *baseline, int nr)
{
	baseline->nr_runs -= nr;
	memmove(baseline->sessions, baseline->sessions + nr,
		baseline->nr_runs * sizeof(baseline->sessions[0]));
	for (int i = 0; i < baseline->nr_series; i++) {
		double *values = baseline->series[i].values;

		memmove(values, values + nr, baseline->nr_runs * sizeof(*values));
		for (int run = baseline->nr_runs; run < MOST_RECORDED; run++)
			values[run] = NAN;
	}
}

static inline void write_baseline(const struct baseline *baseline, FILE *file)
{
	fprintf(file, "%s\n", BASELINE_HEAD);
	for (int i = 0; i < CONDITIONS; i++)
		fprintf(file, "%s %s\n", condition_names[i], baseline->conditions[i]);
	fprintf(file, "sessions");
	for (int i = 0; i < baseline->nr_runs; i++)
		fprintf(file, " %s", baseline->sessions[i]);
	fprintf(file, "\n");
	for (int i = 0; i < baseline->nr_series; i++) {
		const struct series *series = &baseline->series[i];

		fprintf(file, "%s %d", series->name, series->cpu);
		for (int run = 0; run < baseline->nr_runs; run++)
			if (isnan(series->values[run]))
				fprintf(file, " -");
			else
				fprintf(file, " %.6g", series->values[run]);
		fprintf(file, "\n");
	}
}

/* Create the directories in which the file lies. */
static inline void make_directories(const char *path)
{
	static char part[4096];

	snprintf(part, sizeof(part), "%s", path);
	for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(part, 0755);
		*slash = '/';
	}
}

/* The whole new file, or the old one. errno says why it failed. */
static inline bool replace_baseline(const struct baseline *baseline)
{
	static char new[4096];
	size_t size = 0;
	char *text = NULL;
	FILE *memory = open_memstream(&text, &size), *file;
	int error;
	bool done;

	if (!memory)
		return false;
	write_baseline(baseline, memory);
	if (fclose(memory))
		return false;
	snprintf(new, sizeof(new), "%s.new", baseline->path);
	unlink(new);
	file = fopen(new, "wxe");
	if (!file)
		return false;
	done = fprintf(file, "%send %016llx\n", text,
		       (unsigned long long)hash_of(HASH_START, text, size)) > 0 &&
	       !fflush(file) && !fsync(fileno(file));
	error = errno;
	free(text);
	if (!fclose(file) && done && !rename(new, baseline->path))
		return true;
	error = done ? errno : error;
	unlink(new);
	errno = error;
	return false;
}

/* Add runs to the baseline. It is read again: somebody else may have recorded, too. */
static inline void baseline_record(struct baseline *baseline, const char *tool,
				   char (*now)[MOST_CONDITION], struct results **runs, int nr)
{
	static char lock[4096];
	bool there;
	int fd;

	make_directories(baseline->path);
	snprintf(lock, sizeof(lock), "%s.lock", baseline->path);
	fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || flock(fd, LOCK_EX))
		ksft_exit_fail_msg("--record: %s: %s\n", lock, strerror(errno));
	there = baseline_read(baseline, tool);
	if (baseline->damaged)
		ksft_exit_fail_msg("--record: %s\n", baseline->missing);
	if (there && !baseline_fits(baseline, now))
		ksft_exit_fail_msg("--record: %s: %s; remove it, or name another with --baseline\n",
				   baseline->path, baseline->missing);
	memcpy(baseline->conditions, now, sizeof(baseline->conditions));
	baseline->missing[0] = '\0';
	if (baseline->nr_runs + nr > MOST_RECORDED)
		forget_runs(baseline, baseline->nr_runs + nr - MOST_RECORDED);
	for (int i = 0; i < nr; i++)
		append_run(baseline, runs[i]);
	if (!replace_baseline(baseline))
		ksft_exit_fail_msg("--record: %s: %s\n", baseline->path, strerror(errno));
	close(fd);
	ksft_print_msg("%d runs are added to the baseline, which has %d now: %s\n", nr,
		       baseline->nr_runs, baseline->path);
}

/* For each run, the first run of its session. Returns the number of sessions. */
static inline int number_sessions(const struct baseline *baseline, int *first)
{
	int nr = 0;

	for (int i = 0; i < baseline->nr_runs; i++) {
		for (first[i] = 0; strcmp(baseline->sessions[first[i]], baseline->sessions[i]); )
			first[i]++;
		nr += first[i] == i;
	}
	return nr;
}

#endif
