# SPDX-License-Identifier: GPL-2.0
"""Simulated campaigns that show how often the gate is wrong."""
