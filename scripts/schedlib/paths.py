# SPDX-License-Identifier: GPL-2.0
"""The paths of the parts of this project."""

from __future__ import annotations

from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
CONFIGS = PROJECT / "configs"
KUNIT = PROJECT / "kunit"
PATCHES = PROJECT / "patches"
REPORTS = PATCHES / "reports"
SELFTESTS = PROJECT / "selftests"

COLLECTION = "sched_latency"
"""The name of our workloads, here and in a kernel tree."""

BUNDLE = PROJECT / "bundle.json"
"""It exists only in a bundle for a machine that is to be measured: `schedline run --pack`."""

BUNDLED_PROGRAMS = PROJECT / "programs"
BUNDLED_LIBRARIES = PROJECT / "libraries"

KSELFTESTS = "tools/testing/selftests"
"""The directory of the selftests in a kernel tree."""
