// SPDX-License-Identifier: GPL-2.0
/*
 * Where the compiler put the members that the layout rules name. Needs no link:
 * compiled for any architecture, the tables can be read out of the object.
 */
#include <linux/build_bug.h>
#include <linux/mmu_context.h>

#include "../sched.h"
#include "layout_rules.h"

#define TYPE(type)	{ #type, sizeof(struct type), __alignof__(struct type) }

const struct sched_layout_type sched_layout_types[] = {
	TYPE(rq),
	TYPE(cpupri_vec),
	TYPE(cpupri),
#ifdef CONFIG_SCHED_CPUPRI_SPLIT
	TYPE(cpupri_line),
	TYPE(cpupri_leaf),
#endif
#ifdef CONFIG_SMP
	TYPE(root_domain),
#endif
};

#define MEMBER(type, member...) \
	{ #type, #member, offsetof(struct type, member), sizeof_field(struct type, member), 1, 0 }
#define IN_VECS(type, member...) \
	{ #type, #member, offsetof(struct type, member), sizeof_field(struct type, member), \
	  CPUPRI_NR_PRIORITIES, sizeof(struct cpupri_vec) }

/*
 * What the clauses name, and enough around it to draw the lines. A member is
 * listed under the condition under which every kernel has it: some older ones
 * have no root_domain, and less of rq, without SMP.
 */
const struct sched_layout_field sched_layout_fields[] = {
	MEMBER(rq, nr_running),
#ifdef CONFIG_NUMA_BALANCING
	MEMBER(rq, nr_numa_running),
	MEMBER(rq, nr_preferred_running),
	MEMBER(rq, numa_migrate_on),
#endif
	MEMBER(rq, donor),
	MEMBER(rq, curr),
	MEMBER(rq, idle),
	MEMBER(rq, nr_switches),
	MEMBER(rq, __lock),
#ifdef CONFIG_NO_HZ_COMMON
	MEMBER(rq, nohz_tick_stopped),
	MEMBER(rq, nohz_flags),
#endif
#ifdef CONFIG_UCLAMP_TASK
	MEMBER(rq, uclamp),
	MEMBER(rq, uclamp_flags),
#endif
	MEMBER(rq, cfs),
	MEMBER(rq, rt),
	MEMBER(rq, dl),
	MEMBER(rq, fair_server),
#ifdef CONFIG_FAIR_GROUP_SCHED
	MEMBER(rq, leaf_cfs_rq_list),
	MEMBER(rq, tmp_alone_branch),
#endif
	MEMBER(rq, nr_uninterruptible),
	MEMBER(rq, dl_server),
	MEMBER(rq, stop),
	MEMBER(rq, next_balance),
	MEMBER(rq, prev_mm),
	MEMBER(rq, clock_task),
	MEMBER(rq, clock_pelt),
	MEMBER(rq, clock),
	MEMBER(rq, lost_idle_time),
	MEMBER(rq, clock_update_flags),
	MEMBER(rq, clock_pelt_idle),
	MEMBER(rq, clock_idle),
#ifndef CONFIG_64BIT
	MEMBER(rq, clock_pelt_idle_copy),
	MEMBER(rq, clock_idle_copy),
#endif
#ifdef CONFIG_MEMBARRIER
	MEMBER(rq, membarrier_state),
#endif
	MEMBER(rq, calc_load_update),
	MEMBER(rq, calc_load_active),
	MEMBER(rq, push_busy),
	MEMBER(rq, push_work),
	MEMBER(rq, scratch_mask),
	MEMBER(rq, nr_iowait),
	MEMBER(cpupri_vec, count),
#ifndef CONFIG_SCHED_CPUPRI_SPLIT
	MEMBER(cpupri_vec, mask),
#endif
	MEMBER(cpupri, pri_to_cpu),
	IN_VECS(cpupri, pri_to_cpu[0].count),
#ifndef CONFIG_SCHED_CPUPRI_SPLIT
	IN_VECS(cpupri, pri_to_cpu[0].mask),
#endif
	MEMBER(cpupri, cpu_to_pri),
#ifdef CONFIG_SCHED_CPUPRI_SPLIT
	MEMBER(cpupri, place),
	MEMBER(cpupri, leaves),
	MEMBER(cpupri, nr_leaves),
	MEMBER(cpupri_line, word),
	MEMBER(cpupri_line, byte),
	MEMBER(cpupri_leaf, line),
	MEMBER(cpupri_leaf, group),
	MEMBER(cpupri_leaf, nr_words),
	MEMBER(cpupri_leaf, mask_word),
#endif
#ifdef CONFIG_SMP
	MEMBER(rq, ttwu_pending),
	MEMBER(rq, cpu_capacity),
#ifdef CONFIG_NO_HZ_COMMON
	MEMBER(rq, has_blocked_load),
	MEMBER(rq, last_blocked_load_update_tick),
	MEMBER(rq, nohz_csd),
#endif
	MEMBER(rq, rd),
	MEMBER(rq, sd),
	MEMBER(rq, balance_callback),
	MEMBER(rq, nohz_idle_balance),
	MEMBER(rq, idle_balance),
	MEMBER(rq, misfit_task_load),
	MEMBER(rq, nr_pinned),
#ifdef CONFIG_CFS_BANDWIDTH
	MEMBER(rq, cfsb_csd),
	MEMBER(rq, cfsb_csd_list),
#endif
	MEMBER(root_domain, refcount),
	MEMBER(root_domain, rto_count),
	MEMBER(root_domain, rcu),
	MEMBER(root_domain, span),
	MEMBER(root_domain, online),
	MEMBER(root_domain, overloaded),
	MEMBER(root_domain, overutilized),
	MEMBER(root_domain, dlo_mask),
	MEMBER(root_domain, dlo_count),
	MEMBER(root_domain, dl_bw),
	MEMBER(root_domain, cpudl),
#ifdef HAVE_RT_PUSH_IPI
	MEMBER(root_domain, rto_push_work),
	MEMBER(root_domain, rto_lock),
	MEMBER(root_domain, rto_loop),
	MEMBER(root_domain, rto_cpu),
	MEMBER(root_domain, rto_loop_next),
	MEMBER(root_domain, rto_loop_start),
#endif
	MEMBER(root_domain, rto_mask),
	MEMBER(root_domain, cpupri),
	IN_VECS(root_domain, cpupri.pri_to_cpu[0].count),
#ifndef CONFIG_SCHED_CPUPRI_SPLIT
	IN_VECS(root_domain, cpupri.pri_to_cpu[0].mask),
#endif
	MEMBER(root_domain, cpupri.cpu_to_pri),
	MEMBER(root_domain, pd),
#endif /* CONFIG_SMP */
};

#define HOLDS(cond, expr)	((expr) ? BIT(LAYOUT_##cond) : 0)
#define LOCKS_DEBUGGED		(sizeof(raw_spinlock_t) > sizeof(arch_spinlock_t))

const struct sched_layout_env sched_layout_env = {
	.version	= SCHED_LAYOUT_VERSION,
	.type_size	= sizeof(sched_layout_types[0]),
	.nr_types	= ARRAY_SIZE(sched_layout_types),
	.field_size	= sizeof(sched_layout_fields[0]),
	.nr_fields	= ARRAY_SIZE(sched_layout_fields),
	.line		= SMP_CACHE_BYTES,
	.mask		= sizeof(cpumask_var_t),
	.holds		= HOLDS(SMP, IS_ENABLED(CONFIG_SMP)) |
			  HOLDS(64BIT, IS_ENABLED(CONFIG_64BIT)) |
			  HOLDS(LINE_64, SMP_CACHE_BYTES == 64) |
			  HOLDS(LINE_MIN_64, SMP_CACHE_BYTES >= 64) |
			  HOLDS(LINE_MAX_128, SMP_CACHE_BYTES <= 128) |
			  HOLDS(MASK_8, sizeof(cpumask_var_t) == 8) |
			  HOLDS(PLAIN_LOCKS, !LOCKS_DEBUGGED) |
			  HOLDS(DEBUG_LOCKS, LOCKS_DEBUGGED) |
			  HOLDS(PROXY_EXEC, IS_ENABLED(CONFIG_SCHED_PROXY_EXEC)) |
			  HOLDS(NO_PROXY_EXEC, !IS_ENABLED(CONFIG_SCHED_PROXY_EXEC)) |
			  HOLDS(UP, !IS_ENABLED(CONFIG_SMP)) |
			  HOLDS(CPUPRI_SPLIT, IS_ENABLED(CONFIG_SCHED_CPUPRI_SPLIT)),
};
