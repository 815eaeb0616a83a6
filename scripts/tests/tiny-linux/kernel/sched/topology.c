static void detach_destroy_domains(const struct cpumask *cpu_map)
{
	if (static_branch_unlikely(&sched_cluster_active))
		static_branch_dec_cpuslocked(&sched_cluster_active);
}
	sd_weight = cpumask_weight(sd_span);
