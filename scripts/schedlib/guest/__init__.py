# SPDX-License-Identifier: GPL-2.0
"""A built kernel, booted: what goes into the guest, and what comes out of it."""
