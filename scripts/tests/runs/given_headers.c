// SPDX-License-Identifier: GPL-2.0
/* Asks cpu_list.h and histogram.h, see test_workload_headers.py. */
#define _GNU_SOURCE
#include "cpu_list.h"
#include "histogram.h"

int main(int argc, char **argv)
{
	static struct histogram own, shared, merged;
	unsigned long long ns;
	struct cpus cpus;

	if (argc > 1) {
		if (!cpus_parse(argv[1], &cpus))
			return 1;
		printf("%d %d %s\n", cpus_count(&cpus), cpus_last(&cpus), cpus_list(&cpus));
		return 0;
	}
	for (int i = 0; scanf("%llu", &ns) == 1; i++) {
		histogram_add(i % 2 ? &own : &merged, ns);
		histogram_add_shared(&shared, ns);
	}
	histogram_merge(&merged, &own);
	histogram_settle(&shared);
	if (memcmp(&merged, &shared, sizeof(merged)))
		return 2;
	printf("%llu %llu %llu %llu", merged.n, merged.overflow, merged.least, merged.most);
	for (int percent = 0; percent <= 100; percent++)
		printf(" %.6f", histogram_quantile(&merged, percent / 100.0));
	for (int bucket = 1; bucket < BUCKETS; bucket++)
		if (bucket_start(bucket) != bucket_start(bucket - 1) + bucket_width(bucket - 1))
			return 3;
	for (int bucket = 1; bucket < BUCKETS; bucket++)
		if (bucket_of(bucket_start(bucket)) != bucket)
			return 4;
	for (int bucket = 1; bucket < BUCKETS; bucket++)
		if (bucket_of(bucket_start(bucket) - 1) != bucket - 1)
			return 5;
	return 0;
}
