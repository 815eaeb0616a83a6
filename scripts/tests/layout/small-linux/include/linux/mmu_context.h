struct other { int a; };
