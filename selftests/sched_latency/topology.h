/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which CPUs share a core, a cluster, a last level cache (LLC), a node or a
 * package, according to sysfs. If it does not say, nothing is assumed.
 */
#ifndef TOPOLOGY_H
#define TOPOLOGY_H

#include "cpu_list.h"

#define MOST_NODES	1024

enum sharing { CORE, CLUSTER, LLC, NODE, PACKAGE };

/* A list that lacks its own CPU is wrong, and would make all results wrong. */
static inline bool sysfs_cpus(int cpu, const char *name, struct cpus *set)
{
	char text[LIST_SIZE];

	if (!sysfs_line(text, sizeof(text), "%s", name))
		return false;
	if (!cpus_parse(text, set) || !cpus_has(set, cpu))
		ksft_exit_fail_msg("%s/devices/system/%s: '%s' is no list with CPU %d\n",
				   sysfs, name, text, cpu);
	return true;
}

/* The cache of the highest level of a CPU that holds data. */
static inline bool llc_of(int cpu, struct cpus *set)
{
	int best = 0, found = -1;
	char text[64], name[128];

	for (int i = 0; sysfs_line(text, sizeof(text), "cpu/cpu%d/cache/index%d/level", cpu, i);
	     i++) {
		int level = atoi(text);

		if (level > best &&
		    sysfs_line(text, sizeof(text), "cpu/cpu%d/cache/index%d/type", cpu, i) &&
		    strcmp(text, "Instruction")) {
			best = level;
			found = i;
		}
	}
	snprintf(name, sizeof(name), "cpu/cpu%d/cache/index%d/shared_cpu_list", cpu, found);
	return found >= 0 && sysfs_cpus(cpu, name, set);
}

static inline bool node_of(int cpu, struct cpus *set)
{
	static int nodes[MOST_NODES], nr = -1;
	char text[LIST_SIZE];

	/* Most numbers are no node: try each only once. */
	if (nr < 0) {
		nr = 0;
		for (int node = 0; node < MOST_NODES; node++)
			if (sysfs_line(text, sizeof(text), "node/node%d/cpulist", node))
				nodes[nr++] = node;
	}
	for (int i = 0; i < nr; i++)
		if (sysfs_line(text, sizeof(text), "node/node%d/cpulist", nodes[i]) &&
		    cpus_parse(text, set) && cpus_has(set, cpu))
			return true;
	return false;
}

/* The CPUs that share it with this one, which is included; false if unknown. */
static inline bool cpus_sharing(int cpu, enum sharing what, struct cpus *set)
{
	static const char * const lists[] = {
		[CORE] = "core_cpus_list",
		[CLUSTER] = "cluster_cpus_list",
		[PACKAGE] = "package_cpus_list",
	};
	char name[128];

	if (what == LLC)
		return llc_of(cpu, set);
	if (what == NODE)
		return node_of(cpu, set);
	snprintf(name, sizeof(name), "cpu/cpu%d/topology/%s", cpu, lists[what]);
	return sysfs_cpus(cpu, name, set);
}

/* A cluster with a sched domain: more CPUs than a core, fewer than the LLC. */
static inline bool real_cluster_of(int cpu, struct cpus *cluster)
{
	struct cpus core, llc;

	return cpus_sharing(cpu, CLUSTER, cluster) && cpus_sharing(cpu, CORE, &core) &&
	       cpus_count(cluster) > cpus_count(&core) &&
	       (cpus_sharing(cpu, LLC, &llc) || cpus_sharing(cpu, PACKAGE, &llc)) &&
	       cpus_count(cluster) < cpus_count(&llc);
}

/* Why the caches in sysfs may not be real; NULL if there is no such reason. */
static inline const char *made_up_topology(void)
{
	const char *slow = getenv("KSFT_MACHINE_SLOW");
	char text[256];

	if (slow && !strcmp(slow, "yes"))
		return "KSFT_MACHINE_SLOW=yes: the times of this machine mean nothing";
	if (strcmp(sysfs, "/sys"))
		return "a rehearsal: this machine does not have those CPUs";
	if ((read_line(text, sizeof(text), "/sys/class/dmi/id/sys_vendor") &&
	     !strcmp(text, "QEMU")) ||
	    (read_line(text, sizeof(text), "/sys/firmware/devicetree/base/compatible") &&
	     !strcmp(text, "linux,dummy-virt")))
		return "QEMU invented this topology: its CPUs do not share caches like that";
	return NULL;
}

#endif
