# SPDX-License-Identifier: GPL-2.0
"""A console log, and the verdict on it."""
