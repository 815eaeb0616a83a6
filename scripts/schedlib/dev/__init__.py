# SPDX-License-Identifier: GPL-2.0
"""What only developers of schedline run."""
