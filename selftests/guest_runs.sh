# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
#
# The job of a guest that runs workloads: each of /runs/ in its order, as the host
# has written it: command, server, and about: what it is called, after how many
# seconds it is ended, and where its server listens. What a run left, and how it
# ended, is sent; nothing is judged here.

uptime()
{
	read -r up _ </proc/uptime
	echo "$up"
}

# Until somebody listens at a TCP port (hexadecimal, as in /proc/net), or the clock is at $2.
listening()
{
	until cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -q ":$1 [0-9A-F]*:0000 0A "; do
		up=$(uptime)
		[ "${up%.*}" -lt "$2" ] || return 1
	done
}

run()
{
	place=/tmp/$number
	mkdir "$place"
	cd "$place" || return 1
	read -r name limit port <"$1/about"
	echo "# selftests: guest: $name"
	if [ -n "$port" ]; then
		setsid "$1/server" </dev/null >/dev/null 2>&1 &
		up=$(uptime)
		listening "$port" $((${up%.*} + limit)) || echo "its server does not listen" >problem
	fi
	started=$(date -u +%Y-%m-%dT%H:%M:%SZ)
	before=$(uptime)
	status=
	if [ ! -e problem ]; then
		SCHED_LATENCY_RESULTS=$place setsid timeout -s KILL "$limit" "$1/command" \
			</dev/null >stdout 2>stderr
		status=$?
	fi
	echo "$started $before $(uptime) $status" >ending
	# All but this process: servers, and what a tool has left running.
	kill -9 -1
	wait
	cd /
	send "$number" "$place"
}

# By the clock of the host, where the guest has none.
date -u -s "@$(cat /epoch)" >/dev/null
set -- /runs/*
echo "TAP version 13"
echo "1..$#"
number=0
for each; do
	result=ok
	run "$each" || result="not ok"
	number=$((number + 1))
	echo "$result $number selftests: guest: $name"
done
