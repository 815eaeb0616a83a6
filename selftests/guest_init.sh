#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
#
# The first process of a busybox guest. Runs /job, which runs programs and sends
# their files, and then ends the guest. The files are written to a disk of their
# own, in slots. The console would not do: it also carries kernel messages, and
# stops with the kernel.

SLOT=8192 # blocks

# send N DIR: write the files of a directory to slot N, as an archive. Its size
# and checksum precede it and are written last, so that an incomplete archive is
# never taken for a complete one.
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
# Times on an emulated machine mean nothing: tests that need them are skipped.
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
# With loopback addresses only, netperf resolves no address (AI_ADDRCONFIG).
ip address add 192.0.2.1/32 dev lo

# shellcheck source=/dev/null
. /job
reboot -f
