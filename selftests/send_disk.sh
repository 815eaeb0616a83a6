# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
#
# Files are sent on a disk of their own, in slots. Where the guest can have such
# a disk the console would not do: it also carries kernel messages, and stops
# with the kernel.

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
