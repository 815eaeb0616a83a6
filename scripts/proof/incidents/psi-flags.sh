# SPDX-License-Identifier: GPL-2.0
# schedline c2c --program psi-flags.sh --marked --cpus 4 --quanta 100 --objects all --no-blame \
#   --config c2c-accounting,c2c-memcg,c2c-stalls
# Pairs of tasks that wake each other through pipes, and stall: on the memory of their cgroup, and on a device to read.
set -e
dd if=/dev/zero of=/tmp/disk bs=1M count=4 2>/dev/null
losetup /dev/loop0 /tmp/disk
cd /sys/fs/cgroup
echo +memory >cgroup.subtree_control
mkdir stalls
echo 4M >stalls/memory.high
schedline-count start
for pair in 1 2 3 4 5 6; do
	(
		echo 0 >stalls/cgroup.procs
		cat /dev/loop0 | tail -c 128k >/dev/null
	) &
done
wait
schedline-count stop
cat stalls/memory.pressure stalls/io.pressure stalls/memory.events
losetup -d /dev/loop0
