# SPDX-License-Identifier: GPL-2.0
"""`schedline export`: everything that a kernel tree needs to run the tests itself, as a series for git am."""
