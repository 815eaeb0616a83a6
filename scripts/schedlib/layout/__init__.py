# SPDX-License-Identifier: GPL-2.0
"""The layout rules, judged without booting: on any architecture, and on a kernel that somebody else built."""
