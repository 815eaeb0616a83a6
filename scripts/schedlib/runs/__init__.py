# SPDX-License-Identifier: GPL-2.0
"""`schedline run`: workloads and tools on this machine, with a file for each run. Judging is separate."""
