# SPDX-License-Identifier: GPL-2.0
"""Kernels to be measured against each other: base, candidate, and a placebo that has the candidate's sizes alone."""
