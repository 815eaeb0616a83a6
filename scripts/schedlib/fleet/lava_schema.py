# SPDX-License-Identifier: GPL-2.0
"""LAVA's own check of job definitions: the Python module lava_common of Debian's package lava-common."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from schedlib.errors import SchedlineError
from schedlib.process import run

PACKAGE = "lava-common"
PYTHON = Path("/usr/bin/python3")
"""Debian's: the package is for it alone."""

_PROGRAM = """\
import json, sys, yaml
from lava_common.schemas import validate
wrong = {}
for name, text in json.load(sys.stdin).items():
    try:
        validate(yaml.safe_load(text), strict=True)
    except Exception as error:
        wrong[name] = f"{type(error).__name__}: {error}"
print(json.dumps(wrong))
"""


@cache
def is_there() -> bool:
    """Whether this machine has the package."""
    return PYTHON.exists() and run([PYTHON, "-I", "-c", "import lava_common.schemas"]).returncode == 0


def errors(texts: Mapping[str, str]) -> dict[str, str]:
    """What LAVA's schema says against each of some job definitions; only those that it refuses."""
    done = run([PYTHON, "-I", "-c", _PROGRAM], stdin=json.dumps(dict(texts)).encode())
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise SchedlineError(f"LAVA's schema cannot be asked: {''.join(said)}", f"apt-get install {PACKAGE}")
    found: dict[str, str] = json.loads(done.stdout)
    return found


def refuse_invalid(texts: Mapping[str, str]) -> str:
    """Check job definitions; returns why that was not possible, or an empty text.

    Raises:
        SchedlineError: one of them is not valid.
    """
    if not is_there():
        return f"not checked by LAVA's own schema: this machine lacks its package {PACKAGE} (schedline doctor fleet)"
    if wrong := errors(texts):
        name, said = next(iter(wrong.items()))
        raise SchedlineError(f"LAVA's schema refuses {name}: {said}", "correct the file of the device")
    return ""
