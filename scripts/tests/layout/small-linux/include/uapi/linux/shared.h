struct of_users {
	int first;
};
