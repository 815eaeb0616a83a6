struct cpupri_vec {
	atomic_t		count;
	cpumask_var_t		mask;
};
