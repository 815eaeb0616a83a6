# SPDX-License-Identifier: GPL-2.0
"""`schedline export`: what a kernel tree needs to run the tests by itself, as a series for git am."""
