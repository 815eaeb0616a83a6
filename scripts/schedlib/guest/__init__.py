# SPDX-License-Identifier: GPL-2.0
"""Booting a built kernel: the guest's programs, its console and its results."""
