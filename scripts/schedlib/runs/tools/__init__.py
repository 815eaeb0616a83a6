# SPDX-License-Identifier: GPL-2.0
"""The wrapped tools: how to call each, and how to parse its output. Every quirk was observed: scripts/tests/tools/."""
