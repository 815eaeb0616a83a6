#pragma once
#include "cpudeadline.h"
#if defined(CONFIG_SMP) && !defined(TOGETHER)
#define ____cacheline_aligned_in_smp ____cacheline_aligned
#else
#define ____cacheline_aligned_in_smp
#endif
#define CPUPRI_NR_PRIORITIES 101

struct callback_head { void *next; void (*func)(struct callback_head *head); };

#if !defined(CONFIG_SCHED_CPUPRI_SPLIT) && !defined(CONFIG_SCHED_CPUPRI_SBM)
struct cpupri_vec {
	atomic_t count;
	cpumask_var_t mask ____cacheline_aligned_in_smp;
};
#else
struct cpupri_vec {
	atomic_t count;
} ____cacheline_aligned_in_smp;
#endif
#ifdef CONFIG_SCHED_CPUPRI_SBM
struct sbm_leaf {
	unsigned long bits;
} ____cacheline_aligned_in_smp;
#endif
#ifdef CONFIG_SCHED_CPUPRI_SPLIT
struct cpupri_line {
	union { unsigned long word[SMP_CACHE_BYTES / sizeof(long)]; u8 byte[SMP_CACHE_BYTES]; };
} ____cacheline_aligned_in_smp;
struct cpupri_leaf {
	struct cpupri_line line[CPUPRI_NR_PRIORITIES];
	int group;
	u32 nr_words;
	u16 mask_word[SMP_CACHE_BYTES / sizeof(long)];
};
#endif
struct cpupri {
#ifdef CONFIG_SCHED_CPUPRI_ARRAYS
	atomic_t normal_count ____cacheline_aligned_in_smp;
	atomic_t rt_counts[CPUPRI_NR_PRIORITIES - 1] ____cacheline_aligned_in_smp;
	cpumask_var_t masks[CPUPRI_NR_PRIORITIES] ____cacheline_aligned_in_smp;
#else
	struct cpupri_vec pri_to_cpu[CPUPRI_NR_PRIORITIES];
#endif
	int *cpu_to_pri;
#ifdef CONFIG_SCHED_CPUPRI_SPLIT
	void *place, **leaves;
	u32 nr_leaves;
#endif
#ifdef CONFIG_SCHED_CPUPRI_SBM
	void *map[3], *sbm[CPUPRI_NR_PRIORITIES];
#endif
};

#ifdef CONFIG_SMP
struct root_domain {
	atomic_t refcount, rto_count;
	struct callback_head rcu;
#ifdef OLD_RD
	int overloaded ____cacheline_aligned, overutilized;
	cpumask_var_t rto_mask, dlo_mask;
	struct { void *elements; } cpudl;
#endif
	cpumask_var_t span, online;
	atomic_t dlo_count;
	struct { u64 bw[3]; } dl_bw;
#ifndef OLD_RD
	struct { void *elements; } cpudl;
#endif
#ifdef HAVE_RT_PUSH_IPI
	u64 rto_push_work[6];
	raw_spinlock_t rto_lock;
	int rto_loop, rto_cpu;
	atomic_t rto_loop_next;
#ifdef LOOPS_APART
	char between[TOY_LINE];
#endif
	atomic_t rto_loop_start;
#endif
#ifndef OLD_RD
	cpumask_var_t dlo_mask;
#endif
	u64 visit_cookie;
	struct cpupri cpupri;
#ifdef OLD_RD
	void *pd;
#else
	void *pd ____cacheline_aligned;
#ifdef RD_STRANGER
	int rd_stranger;
#endif
	cpumask_var_t rto_mask;
	int overloaded ____cacheline_aligned, overutilized;
#endif
};
#endif

struct rq {
#ifdef OLD_RQ
	raw_spinlock_t __lock;
#endif
	u32 nr_running;
#ifdef CONFIG_NUMA_BALANCING
	u32 nr_numa_running, nr_preferred_running;
#endif
#ifdef CONFIG_SMP
	u32 ttwu_pending;
	unsigned long cpu_capacity;
#endif
#ifdef OLD_RQ
	u64 nr_switches;
#endif
#ifdef NARROW
	u64 narrow[2];
#endif
#ifdef NARROWER
	u64 narrower[3];
#endif
#ifdef WIDE
	u64 wide[4];
#endif
#ifdef CONFIG_SCHED_PROXY_EXEC
	void *donor, *curr;
#else
	union { void *donor, *curr; };
#endif
	void *idle;
#ifdef STRANGER
	u32 stranger;
#endif
#ifndef OLD_RQ
	u64 nr_switches ____cacheline_aligned;
	raw_spinlock_t __lock;
#endif
#ifdef OLD_RQ
	u64 clock, clock_task, clock_pelt, lost_idle_time;
#else
	u64 clock_task ____cacheline_aligned, clock_pelt, clock, lost_idle_time;
#endif
	u32 clock_update_flags;
	u64 clock_pelt_idle, clock_idle, last_seen_need_resched_ns;
	void *rd, *sd, *balance_callback;
	unsigned long misfit_task_load;
	int cpu, active_balance, active_balance_work, cfs_tasks;
	u64 cfs[8], rt[8], dl[8], fair_server[8];
	u32 nr_uninterruptible;
	void *dl_server, *stop, *prev_mm;
	unsigned long next_balance;
	unsigned long calc_load_update;
	long calc_load_active;
	u8 push_busy;
	u64 push_work[4];
	cpumask_var_t scratch_mask;
	atomic_t nr_iowait;
#ifdef CONFIG_NUMA_BALANCING
	u32 numa_migrate_on;
#endif
	u8 nohz_idle_balance, idle_balance;
	u32 nr_pinned;
} ____cacheline_aligned;
