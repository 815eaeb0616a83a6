# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
#
# The job of a guest that runs workloads. The host has written one directory in
# /runs/ for each run, in order. It contains command, server, and about: name,
# time limit in seconds, and port of the server. The files of each run and its
# exit status are sent; nothing is judged here.

uptime()
{
	read -r up _ </proc/uptime
	echo "$up"
}

# Wait until a process listens on TCP port $1 (hexadecimal, as in /proc/net), or
# until the uptime is $2 seconds.
listening()
{
	until cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -q ":$1 [0-9A-F]*:0000 0A "; do
		up=$(uptime)
		[ "${up%.*}" -lt "$2" ] || return 1
	done
}

# Wait until the kernel has chosen its clock, which x86 does some seconds after
# boot, but not for longer than until the uptime is 30 seconds. The clock is part
# of what a run was measured on.
settle()
{
	clock=/sys/devices/system/clocksource/clocksource0/current_clocksource
	while grep -q early "$clock" 2>/dev/null; do
		up=$(uptime)
		[ "${up%.*}" -lt 30 ] || return
		sleep 1
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
	# Kill all other processes: servers, and what a tool has left running.
	kill -9 -1
	wait
	cd /
	send "$number" "$place"
}

# Set the clock to the host's time: the guest may have no clock.
date -u -s "@$(cat /epoch)" >/dev/null
set -- /runs/*
settle
echo "TAP version 13"
echo "1..$#"
number=0
for each; do
	result=ok
	run "$each" || result="not ok"
	number=$((number + 1))
	echo "$result $number selftests: guest: $name"
done
