# SPDX-License-Identifier: GPL-2.0
"""Every document that schedline reads or writes: one reader and one writer for each kind."""
