// SPDX-License-Identifier: GPL-2.0
/* Asks the library of the workloads, see test_workloads.py. */
#define _GNU_SOURCE
#include "sched_latency.h"

int main(int argc, char **argv)
{
	static struct histogram own, merged;
	unsigned long long ns;
	struct cpus cpus;

	if (argc > 1) {
		if (!cpus_parse(argv[1], &cpus))
			return 1;
		printf("%d %s\n", cpus_count(&cpus), cpus_list(&cpus));
		return 0;
	}
	for (int i = 0; scanf("%llu", &ns) == 1; i++)
		histogram_add(i % 2 ? &own : &merged, ns);
	histogram_merge(&merged, &own);
	printf("%lu %lu", merged.n, merged.most);
	for (int percent = 0; percent <= 100; percent++)
		printf(" %.6f", histogram_quantile(&merged, percent / 100.0));
	for (int bucket = 1; bucket < BUCKETS; bucket++)
		if (bucket_of(bucket_start(bucket)) != bucket ||
		    bucket_of(bucket_start(bucket) - 1) != bucket - 1)
			return 2;
	return 0;
}
