struct needs { struct other other; };
