/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The command line: options are rows, and --help is made from them.
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <getopt.h>

#include "results.h"

#define MOST_OPTIONS	40

/* A DURATION is in seconds, or has one of s, m, h and d behind it. */
enum option_type { FLAG, COUNT, NUMBER, WORD, CPUS, DURATION, OPTION_TYPES };
/* Added to a type: the value may be missing, as in cyclictest's -a, -h and -t. */
#define OPTIONAL	0x10
/* Added to a type: it does not change what is measured. */
#define HARMLESS	0x20

/* One option. Its value is written to *to, whose content is the default. */
struct option_row {
	const char *name;
	/* The short option, or 0. */
	char letter;
	int type;
	void *to;
	double least, most;
	/* The text of --help; NULL for a hidden option. */
	const char *help;
};

/* Options of every workload. */
static struct {
	int runs, histogram_us;
	double inject_us;
	const char *json, *baseline, *limit;
	bool record, known_defect, cpus_given, quiet, histogram;
	struct cpus cpus;
} common;

static const struct option_row common_rows[] = {
	{ "cpus", 'a', CPUS | OPTIONAL, &common.cpus, 0, 0,
	  "use only these CPUs, such as 0-3,8 (all that may be used)" },
	{ "json", 0, WORD, &common.json, 0, 0,
	  "write the run to FILE; if there are several, the second to FILE-2" },
	{ "histogram", 'h', COUNT | OPTIONAL, &common.histogram_us, 0, 1e9,
	  "print a histogram, up to N us (0: all)" },
	{ "quiet", 'q', FLAG, &common.quiet, 0, 0, "print the verdicts only, no figures" },
	{ "runs", 0, COUNT, &common.runs, 1, MOST_RUNS,
	  "number of runs (1; 5 if there is a baseline; 20 with --record)" },
	{ "baseline", 0, WORD, &common.baseline, 0, 0,
	  "compare with this baseline, not with this machine's own" },
	{ "record", 0, FLAG, &common.record, 0, 0,
	  "add what is measured to the baseline; best at several times" },
	{ "aim-median", 0, NUMBER, &aims[MEDIAN], 1, 1000,
	  "regression of a median that a pass has to exclude, in percent" },
	{ "aim-tail", 0, NUMBER, &aims[TAIL], 1, 10000,
	  "regression of p99 and p99.9 that a pass has to exclude, in percent" },
	{ "limit", 0, WORD, &common.limit, 0, 0,
	  "fail beyond a limit: timer.max=80us,timer.p99=30us (limits/BOARD)" },
	{ "inject-delay-us", 0, NUMBER, &common.inject_us, 0, 1e6,
	  "inject this delay to check that a regression is caught" },
	{ NULL, 'k', FLAG, &common.known_defect, 0, 0, NULL },
};

static inline int type_of(const struct option_row *row)
{
	return row->type & ~(OPTIONAL | HARMLESS);
}

static inline void print_default(const struct option_row *row)
{
	if (type_of(row) == COUNT && *(int *)row->to)
		printf(" (%d)", *(int *)row->to);
	if ((type_of(row) == NUMBER || type_of(row) == DURATION) && *(double *)row->to)
		printf(" (%g)", *(double *)row->to);
	if (type_of(row) == WORD && *(const char **)row->to)
		printf(" (%s)", *(const char **)row->to);
}

static inline void print_rows(const struct option_row *rows, int nr)
{
	static const char * const values[] = {
		[FLAG] = "", [COUNT] = "N", [NUMBER] = "N", [WORD] = "FILE", [CPUS] = "LIST",
		[DURATION] = "TIME",
	};

	for (int i = 0; i < nr; i++) {
		const char *value = values[type_of(&rows[i])];
		char text[64];
		int len = 0;

		if (!rows[i].help)
			continue;
		if (rows[i].letter)
			len = snprintf(text, sizeof(text), "-%c%s", rows[i].letter,
				       rows[i].name ? ", " : "");
		if (rows[i].name)
			len += snprintf(text + len, sizeof(text) - len, "--%s", rows[i].name);
		/* A word with a default is a choice, not a file. */
		if (type_of(&rows[i]) == WORD && *(const char **)rows[i].to)
			value = "NAME";
		else if (rows[i].to == &common.limit)
			value = "LIST";
		if (*value)
			snprintf(text + len, sizeof(text) - len,
				 rows[i].type & OPTIONAL ? "[=%s]" : " %s", value);
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

/* "--name" or "-n", for messages. */
static inline const char *option_name(const struct option_row *row)
{
	static char name[64];

	if (row->name)
		snprintf(name, sizeof(name), "--%s", row->name);
	else
		snprintf(name, sizeof(name), "-%c", row->letter);
	return name;
}

static inline double take_number(const struct option_row *row, const char *text)
{
	static const char units[] = "smhd";
	static const double seconds[] = { 1, 60, 3600, 86400 };
	const char *unit;
	char *rest;
	double value = strtod(text, &rest);

	unit = type_of(row) == DURATION && *rest && !rest[1] ? strchr(units, *rest) : NULL;
	if (unit)
		value *= seconds[unit - units];
	if (rest == text || (*rest && !unit) || !(value >= row->least && value <= row->most) ||
	    (type_of(row) == COUNT && value != (int)value))
		ksft_exit_fail_msg("%s %s: not a%s number from %.12g to %.12g\n",
				   option_name(row), text, type_of(row) == COUNT ? " whole" : "",
				   row->least, row->most);
	return value;
}

static inline void take_value(const struct option_row *row, const char *text)
{
	if (row->to == &common.histogram_us)
		common.histogram = true;
	if (row->type & OPTIONAL && !text)
		return;
	switch (type_of(row)) {
	case FLAG:
		*(bool *)row->to = true;
		break;
	case WORD:
		*(const char **)row->to = text;
		break;
	case CPUS:
		if (!cpus_parse(text, row->to))
			ksft_exit_fail_msg("%s %s: not a list such as 0-3,8\n", option_name(row),
					   text);
		break;
	case COUNT:
		*(int *)row->to = take_number(row, text);
		break;
	case NUMBER:
	case DURATION:
		*(double *)row->to = take_number(row, text);
		break;
	}
}

/* A number behind an option without its value is the value, as in cyclictest's "-t 4". */
static inline char *optional_value(const struct option_row *row, int argc, char **argv)
{
	if (row->type & OPTIONAL && !optarg && optind < argc && argv[optind][0] >= '0' &&
	    argv[optind][0] <= '9')
		return argv[optind++];
	return optarg;
}

static inline void parse_options(int argc, char **argv, const struct option_row *own, int nr_own)
{
	static const char * const after[] = { ":", "::" };
	const struct option_row *rows[MOST_OPTIONS];
	struct option options[MOST_OPTIONS + 1] = {};
	char letters[4 * MOST_OPTIONS + 1] = "";
	int nr = 0, nr_long = 0, found;

	for (int i = 0; i < nr_own; i++)
		rows[nr++] = &own[i];
	for (size_t i = 0; i < ARRAY_SIZE(common_rows); i++)
		rows[nr++] = &common_rows[i];
	/* getopt_long() returns a letter, or 256 plus the index of the row. */
	for (int i = 0; i < nr; i++) {
		/* The workload's own letters come first. */
		if (rows[i]->letter && !strchr(letters, rows[i]->letter))
			sprintf(letters + strlen(letters), "%c%s", rows[i]->letter,
				type_of(rows[i]) == FLAG ? "" :
				after[!!(rows[i]->type & OPTIONAL)]);
		if (rows[i]->name)
			options[nr_long++] = (struct option){
				rows[i]->name, type_of(rows[i]) == FLAG ? no_argument :
				rows[i]->type & OPTIONAL ? optional_argument : required_argument,
				NULL, 256 + i };
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
		take_value(row, optional_value(row, argc, argv));
	}
	if (optind < argc)
		ksft_exit_fail_msg("%s is no option; see --help\n", argv[optind]);
}

/* The workload's own options with their values: what a baseline depends on. */
static inline void options_text(char *text, size_t size, const struct option_row *rows, int nr)
{
	size_t len = 0;

	text[0] = '\0';
	for (int i = 0; i < nr && len < size; i++) {
		const struct option_row *row = &rows[i];
		const char *gap = len ? " " : "";

		if (row->type & HARMLESS)
			continue;
		if (type_of(row) == FLAG)
			len += snprintf(text + len, size - len, "%s%s=%d", gap, option_name(row),
					*(bool *)row->to);
		else if (type_of(row) == COUNT)
			len += snprintf(text + len, size - len, "%s%s=%d", gap, option_name(row),
					*(int *)row->to);
		else if (type_of(row) == NUMBER || type_of(row) == DURATION)
			len += snprintf(text + len, size - len, "%s%s=%g", gap, option_name(row),
					*(double *)row->to);
		else if (type_of(row) == WORD && *(const char **)row->to)
			len += snprintf(text + len, size - len, "%s%s=%s", gap, option_name(row),
					*(const char **)row->to);
	}
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
