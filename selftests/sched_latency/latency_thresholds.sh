#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Runs after the workloads and checks their results together: does each workload
# have a measurement of this run, are all of one kernel, and was every metric
# measured that has a budget on this machine? Each workload has judged its own
# results before.

usage="usage: latency_thresholds.sh [--results DIR] [--budget FILE]

Is there a measurement of each workload, of this run and of one kernel, with all
that has a budget? KTAP on standard output.

  --results DIR  where the workloads left their runs (\$SCHED_LATENCY_RESULTS, or
                 sched_latency-UID in \$TMPDIR or /tmp)
  --budget FILE  in place of this machine's own
  --help         this

examples:
  latency_thresholds.sh
  latency_thresholds.sh --results /tmp/sched_latency-0
"

TOOLS="cluster_wakeup cpumask_contention rt_push_pull rt_wakeup sleep_storm wakeup_pingpong"

DIR=$(dirname "$(readlink -f "$0")")
if [ ! -r "$DIR/../kselftest/ktap_helpers.sh" ]; then
	echo "TAP version 13"
	echo "Bail out! $DIR/../kselftest/ktap_helpers.sh is missing: use make install"
	exit 1
fi
# shellcheck source=/dev/null
. "$DIR/../kselftest/ktap_helpers.sh"

results=${SCHED_LATENCY_RESULTS:-${TMPDIR:-/tmp}/sched_latency-$(id -u)}
budget=${SCHED_LATENCY_BUDGET:-}

[ "$1" = --help ] || ktap_print_header
while [ $# -gt 0 ]; do
	case "$1" in
	--help)
		printf "%s" "$usage"
		exit "$KSFT_PASS" ;;
	-k)
		# Accepted because the programs accept it; no effect.
		;;
	--results | --budget)
		[ $# -gt 1 ] || ktap_exit_fail_msg "$1 lacks its value"
		[ "$1" = --results ] && results=$2 || budget=$2
		shift ;;
	*)
		ktap_exit_fail_msg "$1 is no option: see --help" ;;
	esac
	shift
done

# Print a text or a number of a run, by the name of its field.
field()
{
	sed -n "s/^ *\"$2\": \"\{0,1\}\([^\"]*[^\",]\)\"\{0,1\},\{0,1\}\$/\1/p" "$results/$1.json" |
		head -n 1
}

# Print when the runner of the kselftests was started, in ticks since boot: the
# oldest ancestor that is make or run_kselftest.sh. 0 if there is none.
runner_started()
{
	pid=$$
	found=0
	while [ "$pid" -gt 0 ] && read -r line < "/proc/$pid/stat"; do
		name=${line#*\(}
		name=${name%\)*}
		# shellcheck disable=SC2086 # the fields behind the name
		set -- ${line##*\) }
		case "$name" in
		make | gmake)
			found=${20} ;;
		*)
			tr '\0' ' ' < "/proc/$pid/cmdline" 2>/dev/null |
				grep -q 'run_kselftest\.sh' && found=${20} ;;
		esac
		pid=$2
	done 2>/dev/null
	echo "$found"
}

# Print why the result of a tool is not of this run; nothing if it is.
stale()
{
	if [ ! -r "$results/$1.json" ]; then
		echo "no measurement: run $1 first"
	elif [ "$(field "$1" boot_id)" != "$boot" ]; then
		echo "the measurement of $(field "$1" started) is of an earlier boot: run $1 again"
	elif ! awk "BEGIN { exit !($(field "$1" uptime_s) >= $since / $ticks) }"; then
		echo "the measurement of $(field "$1" started) is older than this run: run $1 again"
	fi
}

boot=$(cat /proc/sys/kernel/random/boot_id)
ticks=$(getconf CLK_TCK 2>/dev/null || echo 100)
since=$(runner_started)
[ "$since" != 0 ] || ktap_print_msg "no runner of kselftests above: any run of this boot counts"

fresh=
for tool in $TOOLS; do
	[ -n "$(stale "$tool")" ] || fresh="$fresh $tool"
done
if [ -z "$fresh" ]; then
	ktap_skip_all "nothing was measured in this run: run the workloads before"
	exit "$KSFT_SKIP"
fi

skip()
{
	KTAP_CNT_SKIP=$((KTAP_CNT_SKIP + 1))
	echo "ok $KTAP_TESTNO $1 # SKIP $2"
	KTAP_TESTNO=$((KTAP_TESTNO + 1))
}

# shellcheck disable=SC2086 # the words are counted
set -- $TOOLS
ktap_set_plan $(($# + 2))

for tool in $TOOLS; do
	why=$(stale "$tool")
	status=
	[ -n "$why" ] || status=$(field "$tool" status)
	case "$status" in
	DONE)
		ktap_test_pass "measured_$tool" ;;
	SKIP)
		skip "measured_$tool" "$(field "$tool" reason)" ;;
	*)
		ktap_print_msg "$tool: ${why:-$(field "$tool" reason)}"
		ktap_test_fail "measured_$tool" ;;
	esac
done

# shellcheck disable=SC2086 # a list of tools
kernels=$(for tool in $fresh; do
	echo "$(field "$tool" machine_name) $(field "$tool" kernel) $(field "$tool" build_id)"
done | sort -u)
if [ "$(echo "$kernels" | wc -l)" -eq 1 ]; then
	ktap_test_pass "one_kernel"
else
	echo "$kernels" | while read -r line; do
		ktap_print_msg "measured on: $line"
	done
	ktap_test_fail "one_kernel"
fi

# shellcheck disable=SC2086 # the first word
set -- $fresh
if [ -z "$budget" ]; then
	budget=${XDG_CONFIG_HOME:-${HOME:-}/.config}/sched_latency/$(field "$1" machine_name).budget
fi
if [ ! -r "$budget" ]; then
	ktap_print_msg "NO BUDGET: nothing says what this machine was able to do before."
	for tool in $TOOLS; do
		ktap_print_msg "record one with: $DIR/$tool --record"
	done
	skip "budget_complete" "no budget for this machine, $budget"
else
	lacking=$(grep -v '^#' "$budget" | while read -r tool metric rest; do
		[ -n "$rest" ] || continue
		case " $fresh " in
		*" $tool "*)
			grep -q "\"name\": \"$metric\"" "$results/$tool.json" ||
				echo "$tool $metric: not measured" ;;
		*)
			echo "$tool $metric: $(stale "$tool")" ;;
		esac
	done)
	if [ -z "$lacking" ]; then
		ktap_test_pass "budget_complete"
	else
		echo "$lacking" | while read -r line; do
			ktap_print_msg "$line"
		done
		ktap_test_fail "budget_complete"
	fi
fi
ktap_finished
