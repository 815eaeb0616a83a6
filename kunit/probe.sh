#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Finds out which of the features that the tests use this kernel has, and prints
# a header that defines them. The kernel has a feature if its snippet compiles.
# All snippets are compiled at once, and the errors name those that fail.
#
# usage: probe.sh COMPILER FLAG... > sched_kunit_features.h

set -eu
export LC_ALL=C
tests=$(dirname "$0")

includes() {
	cat <<-END
	#include <kunit/test.h>
	#include <linux/cleanup.h>
	#include <linux/cpu.h>
	#include <linux/mmu_context.h>
	#include <linux/sched/cputime.h>
	#include "$tests/../sched.h"
	#include "$tests/../../../lib/kunit/test.c"
	static const struct { char name[2]; } rows[] __maybe_unused = { { "x" } };
	END
}

# Feature, then its snippet: one line that, without the feature, causes an error
# that no option silences. The first snippet never compiles: if no error is
# found for it, this script does not understand the compiler's errors.
snippets() {
	cat <<-'END'
	NOTHING          static int nothing = there_is_no_such_thing;
	ADD_ACTION       static void *add_action = kunit_add_action_or_reset;
	CLUSTER_SCAN     static void *key = &sched_cluster_active;
	CPUS_GUARD       static void hold(void) { guard(cpus_read_lock)(); }
	H_NR_IDLE        static int nr_idle(struct cfs_rq *cfs_rq) { return cfs_rq->h_nr_idle; }
	LLC_ID_ALLOC     static void *free_id = sched_domains_free_llc_id;
	PARAM_DESC       KUNIT_ARRAY_PARAM_DESC(rows, rows, name); static void *params = rows_gen_params;
	PARAM_SKIP       static int level = KUNIT_LEVEL_CASE_PARAM;
	REMOVE_CPU       static void *remove = remove_cpu;
	SD_SHARE_LLC     static int llc = SD_SHARE_LLC;
	UTIL_EST_WORD    static int est(struct task_struct *p) { return p->se.avg.util_est + 1; }
	END
}

# Features that are inside a function of fair.c: feature, then the line of code.
lines() {
	cat <<-'END'
	CLUSTER_EQUAL_CAP bool cluster_equal_cap = static_branch_unlikely(&sched_cluster_active) &&
	IDLE_POLICY      static int choose_idle_cpu(int cpu, struct task_struct *p)
	NOTHING_ALLOWED  if (!cpumask_and(cpus, sched_domain_span(sd), p->cpus_ptr))
	END
}

compile() {
	"$@" -w -fsyntax-only -x c -
}

errors=$({
	includes
	snippets | sed 's/^\([A-Z_]*\) *\(.*\)/#line 1 "probe:\1"\n\2/'
} | compile "$@" 2>&1 | sed -n 's/^probe:\([A-Z_]*\):.*/\1/p')

# The headers alone must compile. This is run last, so that the list of headers
# that the compiler leaves for make is complete.
includes | compile "$@"

case $errors in
*NOTHING*) ;;
*) echo "probe.sh: the errors of $1 are not understood" >&2; exit 1 ;;
esac

echo "/* Made by probe.sh. */"
snippets | while read -r feature _; do
	echo "$errors" | grep -qx "$feature" || echo "#define SCHED_KUNIT_HAS_$feature"
done
lines | while read -r feature line; do
	! grep -qF "$line" "$tests/../fair.c" || echo "#define SCHED_KUNIT_HAS_$feature"
done
