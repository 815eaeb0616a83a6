# SPDX-License-Identifier: GPL-2.0
"""Cache-line traffic of the scheduler, from emulated CPUs."""
