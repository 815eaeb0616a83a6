struct above { char first; };
