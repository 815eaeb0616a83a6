// SPDX-License-Identifier: GPL-2.0
/*
 * `schedline-count start` and `schedline-count stop` in a guest: where counting
 * starts and ends, for scripts and for programs that somebody else wrote. A
 * program in C can have MARK_START() and MARK_STOP() of guest.h instead.
 */
#define _GNU_SOURCE
#include "guest.h"

int main(int argc, char **argv)
{
	const char *word = argc == 2 ? argv[1] : "";

	if (!strcmp(word, "start")) {
		MARK_START();
		return 0;
	}
	if (!strcmp(word, "stop")) {
		MARK_STOP();
		return 0;
	}
	fprintf(stderr, "usage: schedline-count start|stop\n");
	return 2;
}
