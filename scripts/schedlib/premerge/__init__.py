# SPDX-License-Identifier: GPL-2.0
"""One patch or series -> everything that can be said of it before it is merged, on one page."""
