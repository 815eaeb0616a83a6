# SPDX-License-Identifier: GPL-2.0
"""Base against candidate: one verdict from the runs of two kernels. Nothing here measures."""
