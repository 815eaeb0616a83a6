# SPDX-License-Identifier: GPL-2.0
"""A kernel source, and the same with the tests and the changes laid in."""
