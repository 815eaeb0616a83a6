struct sched_avg {
	unsigned int			util_est;
};
