static int choose_idle_cpu(int cpu, struct task_struct *p)
	if (sched_smt_active() && !is_core_idle(ilb_cpu))
	if (READ_ONCE(nohz.has_blocked_load) &&
	if (unlikely(cpumask_empty(nohz.idle_cpus_mask)))
	if (!cpumask_and(cpus, sched_domain_span(sd), p->cpus_ptr))
	bool cluster_equal_cap = static_branch_unlikely(&sched_cluster_active) &&
