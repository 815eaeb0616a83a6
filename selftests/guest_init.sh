#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
#
# The first process of a busybox guest. Runs /job, which runs programs and sends
# their files with the function of /send, and then ends the guest.

export PATH=/bin:/sbin:/usr/bin:/usr/sbin:/usr/local/bin HOME=/tmp TMPDIR=/tmp
# Times on an emulated machine mean nothing: tests that need them are skipped.
if [ -e /slow ]; then
	export KSFT_MACHINE_SLOW=yes
fi

/bin/busybox --install -s /bin
mkdir -p /proc /sys /dev /tmp
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm
mount -t tmpfs shm /dev/shm
mount -t tmpfs tmp /tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t debugfs debugfs /sys/kernel/debug
ln -s /proc/self/fd/1 /dev/stdout
ip link set lo up
# With loopback addresses only, netperf resolves no address (AI_ADDRCONFIG).
ip address add 192.0.2.1/32 dev lo

# shellcheck source=/dev/null
. /send
# shellcheck source=/dev/null
. /job
reboot -f
