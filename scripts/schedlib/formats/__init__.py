# SPDX-License-Identifier: GPL-2.0
"""Every document that leaves or comes in: one reader and one writer each."""
