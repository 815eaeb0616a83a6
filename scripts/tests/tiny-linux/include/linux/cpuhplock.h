static inline int remove_cpu(unsigned int cpu) { return -EPERM; }
DEFINE_LOCK_GUARD_0(cpus_read_lock, cpus_read_lock(), cpus_read_unlock())
