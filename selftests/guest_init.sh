#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
#
# The first process of a busybox guest: does /job, which runs programs and sends
# what they left, and ends the guest. What is sent goes to a disk of its own, a
# slot for each: the console mixes with what the kernel says, and stops with it.

SLOT=8192 # blocks

# send N DIR: the files of a directory, as an archive in slot N. Its size and
# sum stand before it, and are written last: half of it is never taken for all.
send()
{
	tar -cf /tmp/sent.tar -C "$2" .
	size=$(stat -c %s /tmp/sent.tar)
	if [ "$size" -gt $(((SLOT - 1) * 512)) ]; then
		echo "# $2: $size bytes are too many to be sent"
		return 1
	fi
	sum=$(sha256sum </tmp/sent.tar)
	dd if=/tmp/sent.tar of=/dev/vda bs=512 seek=$(($1 * SLOT + 1)) conv=fsync 2>/dev/null &&
		echo "$size ${sum%% *}" |
		dd of=/dev/vda bs=512 seek=$(($1 * SLOT)) conv=sync,fsync 2>/dev/null
}

export PATH=/bin:/sbin:/usr/bin:/usr/sbin:/usr/local/bin HOME=/tmp TMPDIR=/tmp
# The times of an emulated machine mean nothing: tests that need them are skips.
export KSFT_MACHINE_SLOW=yes

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
# Where all addresses are of the loopback netperf resolves none (AI_ADDRCONFIG).
ip address add 192.0.2.1/32 dev lo

# shellcheck source=/dev/null
. /job
reboot -f
