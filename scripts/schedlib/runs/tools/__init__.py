# SPDX-License-Identifier: GPL-2.0
"""The wrapped tools: how each is called, and what its output says. All quirks here were seen: scripts/tests/tools/."""
