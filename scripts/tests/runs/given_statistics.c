// SPDX-License-Identifier: GPL-2.0
/* Prints what statistics.h computes of the questions on standard input, see test_workload_baselines.py. */
#include <stdio.h>
#include "statistics.h"

int main(void)
{
	char what;
	int m, j, n;

	while (scanf(" %c %d %d %d", &what, &m, &j, &n) == 4)
		if (what == 'w') {
			double values[MOST_RECORDED];

			for (int i = 0; i < m; i++)
				values[i] = (i * 7919 + n) % 101 / (j ? 1 : 40);
			sort_values(values, m);
			for (int i = 0; i < m; i++)
				printf("%.17g\n", median_without(values, m, values[i]));
		} else if (what == 'c')
			printf("%.17g\n", chance_beyond(m, j, n));
		else if (what == 'r')
			printf("%d\n", rank_for(m, n, FALSE_ALARMS / j));
		else
			printf("%d\n", least_slices(m));
	return 0;
}
