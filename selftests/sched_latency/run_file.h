/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A run as a JSON file, in schema run-1 of schedline. Each metric is on a line
 * of its own, so that a shell script can read it, too.
 */
#ifndef RUN_FILE_H
#define RUN_FILE_H

#include <sys/stat.h>

#include "results.h"

static inline void write_metric(FILE *file, const struct metric *metric)
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

static inline void write_head(FILE *file, const struct results *results, const char *tool,
			      const char *command, const char *status)
{
	struct tm utc;
	char text[64];

	gmtime_r(&results->started.tv_sec, &utc);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
	fprintf(file, "{\n\"schema\": \"run-1\",\n\"tool\": \"%s\",\n", tool);
	fprintf(file, "\"started\": \"%s\",\n\"uptime_s\": %.2f,\n", text, results->uptime);
	write_fingerprint(file, command);
	fprintf(file, "\"status\": \"%s\",\n\"reason\": ", status);
	write_string(file, results->error);
}

/* Each bucket that counted something: where it begins, in ns, and its count. */
static inline void write_histograms(FILE *file, const struct results *results)
{
	fprintf(file, "\"histograms\": {");
	for (int i = 0; i < results->nr_bars; i++) {
		const struct bar *bar = &results->bars[i];

		if (i && !strcmp(bar->name, bar[-1].name))
			fprintf(file, ", ");
		else
			fprintf(file, "%s\n  \"%s\": [", i ? "]," : "", bar->name);
		fprintf(file, "[%llu, %llu]", (unsigned long long)bar->from,
			(unsigned long long)bar->count);
	}
	fprintf(file, "%s\n},\n", results->nr_bars ? "]" : "");
}

static inline void write_disturbance(FILE *file, const struct disturbance *found)
{
	fprintf(file, "\"disturbance\": {\"steal_percent\": %.4g, \"interrupts_percent\": %.4g, ",
		found->steal, found->irq);
	fprintf(file, "\"others_percent\": %.4g, ", found->others);
	fprintf(file, "\"realtime_percent\": %.4g, \"throttled\": %ld, \"why\": ",
		found->realtime, found->throttled);
	write_string(file, found->why);
	fprintf(file, "}\n");
}

static inline void write_run(FILE *file, const struct results *results)
{
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
	fprintf(file, "\n],\n\"cpus\": [");
	for (int i = 0; i < results->nr_rows; i++) {
		const struct row *row = &results->rows[i];

		fprintf(file, "%s\n  {\"group\": \"%s\", \"cpu\": %d, \"n\": %llu, ",
			i ? "," : "", row->group, row->cpu, (unsigned long long)row->n);
		fprintf(file, "\"p50_ns\": %.9g, \"p99_ns\": %.9g, \"max_ns\": %.9g",
			row->p50, row->p99, row->most);
		if (row->missed >= 0)
			fprintf(file, ", \"missed_percent\": %.9g", row->missed);
		fprintf(file, "}");
	}
	fprintf(file, "\n],\n");
	write_histograms(file, results);
	write_disturbance(file, &results->disturbance);
	fprintf(file, "}\n");
}

/* Write the whole file or nothing; errno says why it failed. */
static inline bool save_run(const char *path, const struct results *results, const char *tool,
			    const char *command, const char *status)
{
	char new[4096];
	bool failed;
	FILE *file;
	int error;

	if (snprintf(new, sizeof(new), "%s.new", path) >= (int)sizeof(new)) {
		errno = ENAMETOOLONG;
		return false;
	}
	/* If a link exists there, do not write through it. */
	unlink(new);
	file = fopen(new, "wxe");
	if (!file)
		return false;
	write_head(file, results, tool, command, status);
	write_run(file, results);
	failed = ferror(file) || fflush(file);
	error = errno;
	if (fclose(file) && !failed) {
		failed = true;
		error = errno;
	}
	if (!failed && rename(new, path)) {
		failed = true;
		error = errno;
	}
	if (failed)
		unlink(new);
	errno = error;
	return !failed;
}

#endif
