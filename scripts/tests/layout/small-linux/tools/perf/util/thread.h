struct thread {
	int first;
};
