# SPDX-License-Identifier: GPL-2.0
"""How we know that schedline is right: a script for each page of docs/results/. Nothing imports them.

`python3 scripts/proof` lists them, and `python3 scripts/proof gate_rates` runs one.
"""
