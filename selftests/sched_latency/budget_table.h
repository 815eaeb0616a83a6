/* SPDX-License-Identifier: GPL-2.0 */
/* Made by schedline's budget_table.py, which says how; a test compares the two. */
#ifndef BUDGET_TABLE_H
#define BUDGET_TABLE_H

/* Metrics that one budget file may hold, for 1 % of false alarms in all of them. */
#define FAMILY		16
/* Runs that are held against the baseline, and again to confirm. */
#define BATCH		5
/* Runs of a baseline. */
#define FEWEST_RECORDED	5
#define MOST_RECORDED	20

/* Pairs of a run and a recorded run, by the number of these. */
static const int ranks_table[] __maybe_unused = {
	25, 29, 33, 37, 41, 45, 48, 52, 56, 60, 64, 67,
	71, 75, 79, 83,
};

/* Slices of a run, of which one in a hundred runs has so many by chance. */
#define FEWEST_SLICES	7
#define MOST_SLICES	125

static const int slices_table[] __maybe_unused = {
	7, 8, 9, 10, 10, 11, 12, 12, 13, 14, 14, 15,
	15, 16, 17, 17, 18, 19, 19, 20, 20, 21, 22, 22,
	23, 24, 24, 25, 25, 26, 27, 27, 28, 28, 29, 29,
	30, 31, 31, 32, 32, 33, 34, 34, 35, 35, 36, 36,
	37, 38, 38, 39, 39, 40, 41, 41, 42, 42, 43, 43,
	44, 45, 45, 46, 46, 47, 47, 48, 49, 49, 50, 50,
	51, 51, 52, 52, 53, 54, 54, 55, 55, 56, 56, 57,
	58, 58, 59, 59, 60, 60, 61, 61, 62, 63, 63, 64,
	64, 65, 65, 66, 66, 67, 68, 68, 69, 69, 70, 70,
	71, 71, 72, 73, 73, 74, 74, 75, 75, 76, 76,
};

#endif
