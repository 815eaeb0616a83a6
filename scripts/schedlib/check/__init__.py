# SPDX-License-Identifier: GPL-2.0
"""`schedline check`: one tree, its guests, one verdict."""
