# SPDX-License-Identifier: GPL-2.0
"""An order of members that costs fewer cache misses, found with traces of schedline c2c."""
