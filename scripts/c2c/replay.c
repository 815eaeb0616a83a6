// SPDX-License-Identifier: GPL-2.0
/*
 * Plays a tape (see tape.h) to the model:
 *
 *	replay TAPE CPUS LINE CLUSTER LLC NODE one|pair some|all MOVES [FIELDS]
 *
 * CLUSTER, LLC and NODE are the numbers of CPUs that share one. With `pair` a
 * fetch brings two lines. With `all` everything is watched. MOVES is a file as
 * in moves.h, or `-`. The output is that of the plugin without objects and pages;
 * with FIELDS, a file as in blame.h, it is as described there. An output without
 * the line `end` is incomplete.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "blame.h"
#include "die.h"
#include "model.h"
#include "moves.h"
#include "tape.h"

static struct c2c_model *model;

static void play(const struct tape_entry *entry)
{
	switch (entry->what) {
	case TAPE_WATCH:
		c2c_watch(model, entry->address, entry->size, entry->epoch);
		break;
	case TAPE_UNWATCH:
		c2c_unwatch(model, entry->address, entry->size);
		break;
	default:
		c2c_access(model, entry->cpu, entry->kind, entry->address, entry->size, entry->pc);
	}
}

static void set_up(struct c2c_model *of, char **argv)
{
	if (!strcmp(argv[7], "pair"))
		c2c_fetch_pairs(of);
	if (!strcmp(argv[8], "all"))
		c2c_watch_everything(of);
}

static void write_private(void)
{
	struct c2c_private private = { 0 };

	c2c_sum_private(model, &private);
	printf("private %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", private.lines, private.accesses,
	       private.misses);
}

int main(int argc, char **argv)
{
	struct c2c_shape shape;
	struct tape_entry entry;
	struct tape tape = { 0 };
	play_t last = play, first;
	long number = 0;

	if (argc < 10 || argc > 11)
		die("usage: see ", "replay.c");
	shape = (struct c2c_shape){ atoi(argv[2]), atoi(argv[4]), atoi(argv[5]), atoi(argv[6]) };
	model = c2c_new(&shape, atoi(argv[3]));
	if (!model || (!strcmp(argv[7], "pair") && atoi(argv[3]) == C2C_MAX_LINE))
		die("no such machine", "");
	set_up(model, argv);
	if (argc == 11) {
		struct c2c_model *moved = c2c_new(&shape, atoi(argv[3]));

		set_up(moved, argv);
		c2c_watch_everything(moved);
		blame_begin(argv[10], model, moved, atoi(argv[3]), !strcmp(argv[7], "pair"));
		last = blame_play;
	}
	first = last;
	if (strcmp(argv[9], "-")) {
		moves_begin(argv[9], last);
		first = moves_apply;
	}
	tape_open(&tape, argv[1]);
	while (tape_read(&tape, &entry))
		first(&entry);
	if (argc == 11) {
		blame_write(stdout);
	} else {
		printf("c2c-raw 3\nmachine %u %u %u %u %u 0\n", shape.cpus,
		       atoi(argv[3]), shape.per_cluster, shape.per_llc, shape.per_node);
		if (!strcmp(argv[8], "all"))
			write_private();
		number = c2c_write(model, stdout);
		printf("seen %" PRIu64 " %" PRIu64 "\n", tape.entries, c2c_total(model));
	}
	printf("end %ld\n", number);
	return number < 0 || fflush(stdout) || ferror(stdout);
}
