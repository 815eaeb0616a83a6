#include <kunit/test.h>
#include "../sched.h"
static struct rq the_rq;
#define cpu_rq(cpu) (&the_rq)
#ifdef CONFIG_SMP
static struct root_domain def_root_domain;
#endif
#include "sched_layout_kunit.c"

static void judge_all(const char *change, const struct layout_rule *rules, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		struct kunit test = { rules + i };

		failed[0] = skipped[0] = 0;
		if (!__builtin_setjmp(resume))
			check_rule(&test, change);
		printf("%s\t%s\t%s\n", rules[i].id, *failed ? "fail" : *skipped ? "n/a" : "pass",
			*failed ? failed : skipped);
	}
}

#define JUDGE(change, rules) judge_all(change, rules, ARRAY_SIZE(rules))

int main(int argc, char **argv)
{
#ifndef SCHED_KUNIT_EXPORTED
	expect = argc > 1 ? argv[1] : "";
#endif
	JUDGE("rq-order", rq_order_rules);
#ifndef ONE_CHANGE
	JUDGE("rd-lines", rd_lines_rules);
	JUDGE("cpupri-lines", cpupri_lines_rules);
	JUDGE("cpupri-split", cpupri_split_rules);
	JUDGE("rq-readers", rq_readers_rules);
#endif
	return 0;
}
