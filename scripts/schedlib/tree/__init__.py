# SPDX-License-Identifier: GPL-2.0
"""Kernel sources, as they are and with the tests and the changes added."""
