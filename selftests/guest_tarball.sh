# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
#
# The job of a guest that runs the tarball made by gen_tar, as described in
# docs/big-machine.md. /words contains the arguments for run_kselftest.sh. The
# results of the runs are sent.

export SCHED_LATENCY_RESULTS=/tmp/runs
mkdir "$SCHED_LATENCY_RESULTS" /tarball
tar -xzf /kselftest.tar.gz -C /tarball
cd /tarball || exit
# shellcheck disable=SC2046 # words
./run_kselftest.sh $(cat /words)
cd /
send 0 "$SCHED_LATENCY_RESULTS"
