# SPDX-License-Identifier: GPL-2.0
"""`schedline premerge`: checks a patch or series before it is merged, with the results on one page."""
