// SPDX-License-Identifier: GPL-2.0
/*
 * Wake-ups of RT tasks: the threads of guest_wakeup.c, each at one of eight
 * priorities. There are two for each CPU, so a CPU often has more than it can
 * run, and others pull from it.
 *
 * Workload, 100 rounds: pairs of SCHED_FIFO threads that wake each other, at
 * eight priorities
 */
#define PRIORITY(number) (10 + 7 * ((number) % 8))

#include "guest_wakeup.c"
