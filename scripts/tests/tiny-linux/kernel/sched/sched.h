#include "cpupri.h"
#include "cpudeadline.h"

struct root_domain {
	atomic_t		refcount;
	atomic_t		rto_count;
	cpumask_var_t		rto_mask;
	struct cpupri		cpupri;
	struct perf_domain __rcu *pd;
};

struct rq {
	raw_spinlock_t		__lock;
	unsigned int		nr_running;
	struct task_struct	*donor;
};

struct cfs_rq {
	unsigned int		h_nr_idle;
};

extern struct static_key_false sched_cluster_active;
void sched_domains_free_llc_id(int cpu);
static inline int get_rd_overloaded(struct root_domain *rd);
extern __read_mostly unsigned int sysctl_sched_features;
