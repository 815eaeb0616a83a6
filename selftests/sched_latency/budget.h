/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The budget file of a machine: plain text, one line for each metric, with its
 * budget and the values of the recorded runs:
 *
 *	tool metric unit direction budget first-value second-value ...
 *
 * The budget is how much worse a value may get: a percentage of the value
 * (25%), or a time (20us). It may be edited.
 */
#ifndef BUDGET_H
#define BUDGET_H

#include "budget_table.h"
#include "results.h"
#include "run_file.h"

#define RECORDED_RUNS	10
/* The least budget of --record, in percent: equal machines differ by less. */
#define LEAST_BUDGET	25
#define BUDGET_HEAD	"# sched_latency budget 1"
#define LINE_FORM	"tool, metric, unit, direction, budget (25%% or 20us), %d to %d values"

struct budget_line {
	char tool[32], metric[56], unit[16], direction[8], budget[24];
	int nr;
	double values[MOST_RECORDED];
	/* The limit for a recorded value v is v * factor + more. */
	double factor, more;
};

struct budget {
	char path[4096];
	/* Why there is no budget; empty if there is one. */
	char missing[256];
	/* The lines of this tool come first, then those of other tools. */
	int nr_lines, nr_others;
	struct budget_line lines[2 * FAMILY];
};

static inline void budget_path(struct budget *budget, const char *named)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	size_t size = sizeof(budget->path);

	if (!named)
		named = getenv("SCHED_LATENCY_BUDGET");
	if (named)
		snprintf(budget->path, size, "%s", named);
	else if (config)
		snprintf(budget->path, size, "%s/sched_latency/%s.budget", config, machine_name());
	else
		snprintf(budget->path, size, "%s/.config/sched_latency/%s.budget",
			 home ? home : "", machine_name());
}

static inline bool read_budget(struct budget_line *line)
{
	bool lower = !strcmp(line->direction, "lower");
	char *rest;
	double value = strtod(line->budget, &rest);

	if (rest == line->budget || !(value >= 0 && value <= 1e9) ||
	    (!lower && strcmp(line->direction, "higher")))
		return false;
	line->factor = 1;
	line->more = 0;
	if (!strcmp(rest, "%"))
		line->factor = lower ? 1 + value / 100 : 1 - value / 100;
	else if (!strcmp(rest, "us") && !strcmp(line->unit, "ns"))
		line->more = value * 1000;
	else
		return false;
	return true;
}

static inline bool parse_line(const char *text, struct budget_line *line)
{
	int len = 0, more;

	if (sscanf(text, "%31s %55s %15s %7s %23s%n", line->tool, line->metric, line->unit,
		   line->direction, line->budget, &len) != 5 || !read_budget(line))
		return false;
	for (line->nr = 0; line->nr < MOST_RECORDED; line->nr++, len += more)
		if (sscanf(text + len, "%lf%n", &line->values[line->nr], &more) != 1)
			break;
	return line->nr >= FEWEST_RECORDED && !text[len + strspn(text + len, "\n ")];
}

static inline void budget_read(struct budget *budget, FILE *file, const char *tool)
{
	struct budget_line lines[2][FAMILY];
	int nr[2] = {}, number = 0;
	char text[4096], machine[32];

	while (fgets(text, sizeof(text), file)) {
		struct budget_line line = {};
		bool other;

		number++;
		if (sscanf(text, "# machine %31s", machine) == 1 && strcmp(machine, machine_name()))
			ksft_exit_fail_msg("%s: from another machine, %s; this one is %s\n",
					   budget->path, machine, machine_name());
		if (text[0] == '#' || text[0] == '\n')
			continue;
		if (!parse_line(text, &line))
			ksft_exit_fail_msg("%s:%d: not " LINE_FORM "\n", budget->path, number,
					   FEWEST_RECORDED, MOST_RECORDED);
		other = strcmp(line.tool, tool);
		/* The rule against false alarms holds for FAMILY metrics. */
		if (nr[0] + nr[1] == FAMILY)
			ksft_exit_fail_msg("%s: more than %d metrics\n", budget->path, FAMILY);
		lines[other][nr[other]++] = line;
	}
	memcpy(budget->lines, lines[0], nr[0] * sizeof(lines[0][0]));
	memcpy(budget->lines + nr[0], lines[1], nr[1] * sizeof(lines[0][0]));
	budget->nr_lines = nr[0];
	budget->nr_others = nr[1];
}

static inline struct budget *budget_load(const char *named, const char *tool, bool record)
{
	struct budget *budget = calloc(1, sizeof(*budget));
	FILE *file;

	if (!budget)
		ksft_exit_fail_msg("no memory\n");
	budget_path(budget, named);
	file = fopen(budget->path, "re");
	if (file) {
		budget_read(budget, file, tool);
		fclose(file);
	} else if (errno != ENOENT || (named && !record)) {
		ksft_exit_fail_msg("%s: %s\n", budget->path, strerror(errno));
	}
	if (!budget->nr_lines)
		snprintf(budget->missing, sizeof(budget->missing),
			 "no budget for this machine: record one with %s --record", tool);
	return budget;
}

static inline int compare_values(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static inline double median_of(const double *values, int nr)
{
	double sorted[MOST_RUNS];

	memcpy(sorted, values, nr * sizeof(*values));
	qsort(sorted, nr, sizeof(*sorted), compare_values);
	return nr % 2 ? sorted[nr / 2] : (sorted[nr / 2 - 1] + sorted[nr / 2]) / 2;
}

/* At least twice the spread of the recorded runs, this machine's A/A floor. */
static inline int percent_for(const double *values, int nr)
{
	double least = values[0], most = values[0], median = median_of(values, nr);
	double spread;

	for (int i = 1; i < nr; i++) {
		least = values[i] < least ? values[i] : least;
		most = values[i] > most ? values[i] : most;
	}
	spread = median > 0 ? 200 * (most - least) / median : 0;
	return spread < LEAST_BUDGET ? LEAST_BUDGET : spread > 1e6 ? 1e6 : spread + 1;
}

static inline void print_line(FILE *file, const struct budget_line *line)
{
	fprintf(file, "%s %s %s %s %s", line->tool, line->metric, line->unit, line->direction,
		line->budget);
	for (int i = 0; i < line->nr; i++)
		fprintf(file, " %.6g", line->values[i]);
	fprintf(file, "\n");
}

static inline void budget_line_of(struct budget_line *line, const char *tool,
				  struct results **runs, int nr_runs, int place)
{
	const struct metric *metric = &runs[0]->metrics[place];
	int percent;

	memset(line, 0, sizeof(*line));
	snprintf(line->tool, sizeof(line->tool), "%s", tool);
	snprintf(line->metric, sizeof(line->metric), "%s", metric->name);
	snprintf(line->unit, sizeof(line->unit), "%s", metric->unit);
	snprintf(line->direction, sizeof(line->direction), "%s",
		 metric->direction == LOWER ? "lower" : "higher");
	for (int i = 0; i < nr_runs && line->nr < MOST_RECORDED; i++) {
		const struct metric *again = find_metric(runs[i], metric->name);

		if (again)
			line->values[line->nr++] = again->value;
	}
	percent = percent_for(line->values, line->nr);
	/* A rate never falls below a limit of 0: 100% would be no budget. */
	if (metric->direction == HIGHER && percent > 90)
		percent = 90;
	snprintf(line->budget, sizeof(line->budget), "%d%%", percent);
	read_budget(line);
}

/* Create the directories in which the budget file lies. */
static inline void make_directories(const char *path)
{
	char part[4096];

	snprintf(part, sizeof(part), "%s", path);
	for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(part, 0755);
		*slash = '/';
	}
}

static inline void write_budget(const struct budget *budget, FILE *file, const char *command)
{
	char machine[1024];

	machine_text(machine, sizeof(machine));
	fprintf(file, "%s\n# machine %s %s\n", BUDGET_HEAD, machine_name(), machine);
	fprintf(file, "# tool metric unit direction budget recorded-values\n");
	for (int i = 0; i < budget->nr_lines + budget->nr_others; i++) {
		if (!i)
			fprintf(file, "# %s\n", command);
		print_line(file, &budget->lines[i]);
	}
}

/* Replace this tool's lines in the file, and keep those of other tools. */
static inline void budget_record(struct budget *budget, const char *tool, struct results **runs,
				 int nr_runs, const char *command)
{
	struct budget_line others[FAMILY];
	int nr = 0, nr_others = budget->nr_others;
	char new[4104];
	FILE *file;

	memcpy(others, budget->lines + budget->nr_lines, nr_others * sizeof(*others));
	for (int i = 0; i < runs[0]->nr_metrics; i++) {
		if (!runs[0]->metrics[i].gated)
			continue;
		if (nr + nr_others == FAMILY)
			ksft_exit_fail_msg("--record: more than %d metrics\n", FAMILY);
		budget_line_of(&budget->lines[nr++], tool, runs, nr_runs, i);
	}
	memcpy(budget->lines + nr, others, nr_others * sizeof(*others));
	budget->nr_lines = nr;
	budget->missing[0] = '\0';
	make_directories(budget->path);
	snprintf(new, sizeof(new), "%s.new", budget->path);
	unlink(new);
	file = fopen(new, "wxe");
	if (!file)
		ksft_exit_fail_msg("--record: %s: %s\n", new, strerror(errno));
	write_budget(budget, file, command);
	if (ferror(file) | fclose(file) || rename(new, budget->path)) {
		int error = errno;

		unlink(new);
		ksft_exit_fail_msg("--record: %s: %s\n", budget->path, strerror(error));
	}
	ksft_print_msg("the baseline of %d metrics is in %s\n", nr, budget->path);
}

#endif
