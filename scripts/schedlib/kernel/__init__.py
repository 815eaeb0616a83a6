# SPDX-License-Identifier: GPL-2.0
"""A patched tree, configured and built."""
