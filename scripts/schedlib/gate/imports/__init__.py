# SPDX-License-Identifier: GPL-2.0
"""Result files of other tools, read as runs."""
