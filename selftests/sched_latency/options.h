/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The command line: options are rows, and --help is made from them.
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <getopt.h>

#include "cpu_list.h"

#define MOST_OPTIONS	32

enum option_type { FLAG, COUNT, NUMBER, WORD, CPUS };

/* One option. Its value is written to *to, whose content is the default. */
struct option_row {
	const char *name;
	/* The short option, or 0. */
	char letter;
	enum option_type type;
	void *to;
	double least, most;
	/* The text of --help; NULL for a hidden option. */
	const char *help;
};

/* Options of every workload. */
static struct {
	int runs;
	double inject_us;
	const char *json, *budget;
	bool record, known_defect, cpus_given;
	struct cpus cpus;
} common;

static const struct option_row common_rows[] = {
	{ "cpus", 0, CPUS, &common.cpus, 0, 0,
	  "use only these CPUs, such as 0-3,8 (all that may be used)" },
	{ "json", 0, WORD, &common.json, 0, 0,
	  "write the run to FILE; if there are several, the second to FILE-2" },
	{ "runs", 0, COUNT, &common.runs, 1, 100,
	  "number of runs (1; 5 if there is a budget; 10 with --record)" },
	{ "budget", 0, WORD, &common.budget, 0, 0,
	  "judge the runs by this budget file, not by this machine's own" },
	{ "record", 0, FLAG, &common.record, 0, 0,
	  "write what is measured to the budget file, as the baseline" },
	{ "inject-delay-us", 0, NUMBER, &common.inject_us, 0, 1e6,
	  "inject this delay to check that a regression is caught" },
	{ NULL, 'k', FLAG, &common.known_defect, 0, 0, NULL },
};

static inline void print_default(const struct option_row *row)
{
	if (row->type == COUNT && *(int *)row->to)
		printf(" (%d)", *(int *)row->to);
	if (row->type == NUMBER && *(double *)row->to)
		printf(" (%g)", *(double *)row->to);
	if (row->type == WORD && *(const char **)row->to)
		printf(" (%s)", *(const char **)row->to);
}

static inline void print_rows(const struct option_row *rows, int nr)
{
	static const char * const values[] = {
		[FLAG] = "", [COUNT] = " N", [NUMBER] = " N", [WORD] = " FILE", [CPUS] = " LIST",
	};

	for (int i = 0; i < nr; i++) {
		char text[64];
		int len = 0;

		if (!rows[i].help)
			continue;
		if (rows[i].letter)
			len = snprintf(text, sizeof(text), "-%c, ", rows[i].letter);
		/* A word with a default is a choice, not a file. */
		snprintf(text + len, sizeof(text) - len, "--%s%s", rows[i].name,
			 rows[i].type == WORD && *(const char **)rows[i].to ? " NAME" :
			 values[rows[i].type]);
		printf("  %-22s %s", text, rows[i].help);
		print_default(&rows[i]);
		printf("\n");
	}
}

static inline void print_usage(const char *name, const char *about, const char *examples,
			       const struct option_row *rows, int nr)
{
	printf("usage: %s [options]\n\n%s\n\n", name, about);
	print_rows(rows, nr);
	print_rows(common_rows, ARRAY_SIZE(common_rows));
	printf("  %-22s print this text\n\nexamples:\n%s", "--help", examples);
}

static inline void take_value(const struct option_row *row, const char *text)
{
	char *rest;
	double value;

	switch (row->type) {
	case FLAG:
		*(bool *)row->to = true;
		break;
	case WORD:
		*(const char **)row->to = text;
		break;
	case CPUS:
		if (!cpus_parse(text, row->to))
			ksft_exit_fail_msg("--%s %s: not a list such as 0-3,8\n", row->name, text);
		break;
	case COUNT:
	case NUMBER:
		value = strtod(text, &rest);
		if (rest == text || *rest || !(value >= row->least && value <= row->most) ||
		    (row->type == COUNT && value != (int)value))
			ksft_exit_fail_msg("--%s %s: not a%s number from %.12g to %.12g\n",
					   row->name, text, row->type == COUNT ? " whole" : "",
					   row->least, row->most);
		if (row->type == COUNT)
			*(int *)row->to = value;
		else
			*(double *)row->to = value;
		break;
	}
}

static inline void parse_options(int argc, char **argv, const struct option_row *own, int nr_own)
{
	const struct option_row *rows[MOST_OPTIONS];
	struct option options[MOST_OPTIONS + 1] = {};
	char letters[3 * MOST_OPTIONS + 1] = "";
	int nr = 0, nr_long = 0, found;

	for (int i = 0; i < nr_own; i++)
		rows[nr++] = &own[i];
	for (size_t i = 0; i < ARRAY_SIZE(common_rows); i++)
		rows[nr++] = &common_rows[i];
	/* getopt_long() returns a letter, or 256 plus the index of the row. */
	for (int i = 0; i < nr; i++) {
		if (rows[i]->letter)
			sprintf(letters + strlen(letters), "%c%s", rows[i]->letter,
				rows[i]->type == FLAG ? "" : ":");
		if (rows[i]->name)
			options[nr_long++] = (struct option){ rows[i]->name,
							      rows[i]->type != FLAG, NULL,
							      256 + i };
	}
	opterr = 0;
	while ((found = getopt_long(argc, argv, letters, options, NULL)) >= 0) {
		const struct option_row *row = found >= 256 ? rows[found - 256] : NULL;

		for (int i = 0; i < nr && !row; i++)
			if (found == rows[i]->letter)
				row = rows[i];
		if (!row)
			ksft_exit_fail_msg("%s is no option, or lacks its value; see --help\n",
					   argv[optind - 1]);
		take_value(row, optarg);
	}
	if (optind < argc)
		ksft_exit_fail_msg("%s is no option; see --help\n", argv[optind]);
}

/* Whether the topology is another machine's: its CPUs are only simulated. */
static inline bool rehearsal(void)
{
	return strcmp(sysfs, "/sys");
}

/* The CPUs to use: those of --cpus, which must be available, or all. */
static inline void choose_allowed(void)
{
	struct cpus there, both = common.cpus;
	char text[LIST_SIZE];

	if (!rehearsal())
		cpus_allowed(&there);
	else if (!sysfs_line(text, sizeof(text), "cpu/online"))
		ksft_exit_fail_msg("%s/devices/system/cpu/online cannot be read\n", sysfs);
	else if (!cpus_parse(text, &there))
		ksft_exit_fail_msg("%s/devices/system/cpu/online: '%s' is no list of CPUs\n",
				   sysfs, text);
	common.cpus_given = cpus_count(&common.cpus);
	if (!common.cpus_given) {
		common.cpus = there;
		return;
	}
	cpus_and(&both, &there);
	if (!cpus_equal(&both, &common.cpus))
		ksft_exit_fail_msg("--cpus: some are offline or may not be used\n");
}

#endif
