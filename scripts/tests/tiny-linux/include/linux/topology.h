static inline int *cpu_smt_mask(int cpu)
{
	return cpumask_of(cpu);
}
