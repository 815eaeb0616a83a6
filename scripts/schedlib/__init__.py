# SPDX-License-Identifier: GPL-2.0
"""schedline: tests that hold the Linux scheduler's cache lines where they were put."""

TOOL = "schedline 0.1.0"
"""The name and version that a document records as its writer."""
