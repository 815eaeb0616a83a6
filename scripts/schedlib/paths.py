# SPDX-License-Identifier: GPL-2.0
"""Where the parts of this project lie."""

from __future__ import annotations

from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
CONFIGS = PROJECT / "configs"
KUNIT = PROJECT / "kunit"
PATCHES = PROJECT / "patches"
SELFTESTS = PROJECT / "selftests"
