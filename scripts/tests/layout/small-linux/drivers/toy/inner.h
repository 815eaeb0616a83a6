struct inner { int a; };
