# SPDX-License-Identifier: GPL-2.0
"""The paths of the parts of this project, in a clone and where pip has installed it."""

from __future__ import annotations

import sys
from pathlib import Path

CODE = Path(__file__).resolve().parent
INSTALLED = (CODE / "data").is_dir()
"""pip has installed it: pyproject.toml puts what is read beside the code into this directory."""

PROJECT = CODE / "data" if INSTALLED else CODE.parents[1]
CONFIGS = PROJECT / "configs"
KUNIT = PROJECT / "kunit"
PATCHES = PROJECT / "patches"
SELFTESTS = PROJECT / "selftests"

PROGRAM = PROJECT / "scripts/schedline"
COMMAND = (sys.executable, str(PROGRAM)) if INSTALLED else (str(PROGRAM),)
"""How other programs start this schedline. The python of the program's first line may not have what pip installed."""

TYPED = "schedline" if INSTALLED else "scripts/schedline"
"""How a user starts it."""

COLLECTION = "sched_latency"
"""The name of our workloads, here and in a kernel tree."""

BUNDLE = PROJECT / "bundle.json"
"""It exists only in a bundle for a machine that is to be measured: `schedline run --pack`."""

BUNDLED_PROGRAMS = PROJECT / "programs"
BUNDLED_LIBRARIES = PROJECT / "libraries"

KSELFTESTS = "tools/testing/selftests"
"""The directory of the selftests in a kernel tree."""

PLAN = "plan"
"""The file that marks a directory with runs. Without .json, because readers take each .json file for a run."""
