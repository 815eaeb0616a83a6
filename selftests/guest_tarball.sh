# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
#
# The job of a guest that runs what gen_tar has packed, as docs/big-machine.md says it:
# the words of /words are for run_kselftest.sh; the runs are sent.

export SCHED_LATENCY_RESULTS=/tmp/runs
mkdir "$SCHED_LATENCY_RESULTS" /tarball
tar -xzf /kselftest.tar.gz -C /tarball
cd /tarball || exit
# shellcheck disable=SC2046 # words
./run_kselftest.sh $(cat /words)
cd /
send 0 "$SCHED_LATENCY_RESULTS"
