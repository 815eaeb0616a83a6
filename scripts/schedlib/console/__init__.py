# SPDX-License-Identifier: GPL-2.0
"""Console logs, and the verdict on them."""
