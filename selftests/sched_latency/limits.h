/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Absolute limits, whatever the baseline says: --limit timer.max=80us, or a
 * line "rt_wakeup timer.max=80us" in limits/BOARD beside the program. BOARD is
 * the model of the device tree or the product name of the DMI, with "_" for
 * every character that is no letter, digit, dot or dash. A metric where higher
 * is better may not be below its limit.
 */
#ifndef LIMITS_H
#define LIMITS_H

#include <libgen.h>

#include "results.h"

#define MOST_LIMITS	64

struct limit {
	char metric[64];
	double value;
	char unit[16], text[104];
};

static struct limit limits[MOST_LIMITS];
static int nr_limits;
/* Where this board's limits would be. */
static char limits_path[512];

static inline void add_limit(const char *text, const char *where)
{
	static const char * const units[] = { "ns", "us", "ms", "s", "%", "/s", "" };
	struct limit *limit = &limits[nr_limits];
	char unit[16] = "";
	int len = 0;

	if (nr_limits == MOST_LIMITS)
		ksft_exit_fail_msg("%s: more than %d limits\n", where, MOST_LIMITS);
	if (sscanf(text, "%63[^=]=%lf%n", limit->metric, &limit->value, &len) != 2 ||
	    !(limit->value >= 0 && limit->value <= 1e15) || strlen(text + len) >= sizeof(unit))
		ksft_exit_fail_msg("%s: '%s' is no limit such as timer.max=80us\n", where, text);
	snprintf(unit, sizeof(unit), "%s", text + len);
	snprintf(limit->text, sizeof(limit->text), "%s", text);
	snprintf(limit->unit, sizeof(limit->unit), "%s", unit);
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (!strcmp(unit, units[i])) {
			nr_limits++;
			return;
		}
	ksft_exit_fail_msg("%s: '%s': the unit is ns, us, ms, s, %%, /s or none\n", where, text);
}

/* The limit in the unit of the metric; a limit in another unit is an error. */
static inline double limit_for(const struct limit *limit, const struct metric *metric)
{
	static const struct {
		const char *name;
		double ns;
	} times[] = { { "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 } };
	const char *slash = strstr(metric->unit, "/s");
	double ns = 0, unit_ns = 0;

	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		if (!strcmp(limit->unit, times[i].name))
			ns = times[i].ns;
		if (!strcmp(metric->unit, times[i].name))
			unit_ns = times[i].ns;
	}
	if (ns && unit_ns)
		return limit->value * ns / unit_ns;
	if (ns || unit_ns || (!strcmp(limit->unit, "%") && strcmp(metric->unit, "%")) ||
	    (!strcmp(limit->unit, "/s") && !slash))
		ksft_exit_fail_msg("--limit %s: %s is in %s\n", limit->text, metric->name,
				   metric->unit);
	return limit->value;
}

/* "timer.max=80us,timer.p99=30us" */
static inline void add_limits(const char *list)
{
	static char text[4096];

	if (snprintf(text, sizeof(text), "%s", list) >= (int)sizeof(text))
		ksft_exit_fail_msg("--limit: it is too long\n");
	for (char *one = strtok(text, ","); one; one = strtok(NULL, ","))
		add_limit(one, "--limit");
}

static inline void board_name(char *name, size_t size)
{
	name[0] = '\0';
	if (!read_line(name, size, "/sys/firmware/devicetree/base/model") &&
	    !read_line(name, size, "/sys/class/dmi/id/product_name"))
		snprintf(name, size, "unknown");
	for (char *c = name; *c; c++)
		if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
		      (*c >= '0' && *c <= '9') || *c == '.' || *c == '-'))
			*c = '_';
}

/* The limits of this board, unless --limit gave some. It is no error if there is no file. */
static inline void read_board_limits(const char *tool)
{
	char board[128], self[256], name[32], text[100];
	static char line[512];
	int number = 0;
	FILE *file;
	ssize_t len;

	board_name(board, sizeof(board));
	len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[len < 0 ? 0 : len] = '\0';
	snprintf(limits_path, sizeof(limits_path), "%s/limits/%s", dirname(self), board);
	file = nr_limits ? NULL : fopen(limits_path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		number++;
		if (line[0] == '#' || line[0] == '\n')
			continue;
		if (sscanf(line, "%31s %99s", name, text) != 2)
			ksft_exit_fail_msg("%s:%d: not a line such as rt_wakeup timer.max=80us\n",
					   limits_path, number);
		if (!strcmp(name, tool))
			add_limit(text, limits_path);
	}
	if (file)
		fclose(file);
}

#endif
