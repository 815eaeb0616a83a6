# SPDX-License-Identifier: GPL-2.0
"""The contracts of configs/contracts: who owns each cache line, as rules, and as C tables for a kernel tree."""
