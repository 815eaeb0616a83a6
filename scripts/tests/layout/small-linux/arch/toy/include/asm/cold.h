struct cold {
	int first;
};
