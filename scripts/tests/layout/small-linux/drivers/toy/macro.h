#define MOST 2
struct macro { char first[MOST]; };
