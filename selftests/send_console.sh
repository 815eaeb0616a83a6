# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
#
# Files are sent on the console: a board in a lab has nothing else. No disk is
# written to, because it may hold somebody's data.

# send N DIR: print the files of a directory as number N: an archive, compressed,
# as text. Its size and checksum precede it. A kernel message in the middle of a
# line damages it, and the checksum tells. So it is printed twice, and the first
# whole one counts.
send()
{
	tar -cf /tmp/sent.tar -C "$2" .
	size=$(stat -c %s /tmp/sent.tar)
	sum=$(sha256sum </tmp/sent.tar)
	for _ in first second; do
		echo "# sent $1: $size bytes, sha256 ${sum%% *}"
		gzip -c /tmp/sent.tar | base64 -w 100 | sed "s/^/# sent $1= /"
		echo "# sent $1: end"
	done
}

# LAVA waits for this line.
echo "schedline: ready"
