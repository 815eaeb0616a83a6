# SPDX-License-Identifier: GPL-2.0
"""Many machines, booted by LAVA: job definitions go out, runs come home."""
