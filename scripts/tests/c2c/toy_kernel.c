// SPDX-License-Identifier: GPL-2.0
/* Structures and variables with the scheduler's names, small enough to check by hand. */
typedef struct { int counter; } atomic_t;
struct cpumask { unsigned long bits[1]; };
typedef struct cpumask *cpumask_var_t;
struct cpupri_vec { atomic_t count; cpumask_var_t mask; };
#ifdef SPLIT
struct cpupri_leaf { unsigned long line[4]; int group; };
struct cpupri_place { unsigned short leaf, pos; };
struct cpupri_leaf a_leaf = { { 1 } };
struct cpupri { struct cpupri_vec pri_to_cpu[3]; int *cpu_to_pri; struct cpupri_place *place;
	struct cpupri_leaf **leaves; };
#elif defined(SBM)
struct sbm_leaf { unsigned long bits, padding[7]; };
struct sbm { unsigned int nr_leaves; struct sbm_leaf *leaves[]; };
struct sbm_leaf a_leaf = { 1 };
struct cpupri { struct cpupri_vec pri_to_cpu[3]; int *cpu_to_pri; struct sbm *sbm[3]; };
#else
struct cpupri { struct cpupri_vec pri_to_cpu[3]; int *cpu_to_pri; };
#endif
struct cpudl_item { unsigned long dl; int cpu; int idx; };
struct root_domain {
	atomic_t refcount, rto_count;
	union { int first; short second[2]; };
	char overloaded:1, overutilized:1;
	cpumask_var_t rto_mask;
	struct cpupri cpupri;
};
struct sched_domain { struct sched_domain *parent; struct sched_group *groups; };
struct sched_group_capacity { int capacity; };
struct sched_group { struct sched_group *next; struct sched_group_capacity *sgc; };
struct sched_domain_shared { atomic_t nr_busy_cpus; char has_idle_cores; unsigned is_set:1; short nr_idle_scan; };
struct rq { unsigned int nr_running; struct root_domain *rd; struct sched_domain *sd; };
struct rq runqueues = { 1 };
struct root_domain def_root_domain = { .first = 1 };
struct sched_domain_shared *sd_llc_shared = (void *)8;
struct sched_group_capacity a_capacity = { 1 };
struct sched_group a_group = { .sgc = &a_capacity };
static struct { cpumask_var_t idle_cpus_mask; atomic_t nr_cpus; } nohz
	__attribute__((used, aligned(64))) = { 0, { 1 } };
struct list_head { struct list_head *next, *prev; };
struct cgroup_subsys_state { void *cgroup; struct list_head sibling, children; };
struct cfs_rq { long load; };
struct cfs_tg_state { struct cfs_rq cfs_rq; long se[15]; } a_state = { { 1 } };
struct task_group { struct cgroup_subsys_state css; int idle; struct cfs_rq *cfs_rq; };
struct task_group root_task_group = { .idle = 1 };
unsigned long __per_cpu_offset[4] = { 1 };
char linux_banner[] = "Linux version 7.3";
struct cpudl_item item = { 1 };
struct sched_domain domain = { 0, &a_group };
int pull_rt_task(void) { return runqueues.nr_running; }
int main(void) { return pull_rt_task(); }
