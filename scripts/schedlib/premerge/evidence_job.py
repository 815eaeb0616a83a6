# SPDX-License-Identifier: GPL-2.0
"""Write the text for the directory of a premerge, or compare somebody's text with the data in the directory."""

from __future__ import annotations

import difflib
import re
import sys
from pathlib import Path

from schedlib.cache import write_atomic
from schedlib.contracts.contract_rules import our_rules
from schedlib.errors import SchedlineError
from schedlib.formats.cover_letter import printable
from schedlib.git import try_git
from schedlib.premerge.evidence import BEGIN, block_in, evidence
from schedlib.verdict import Verdict, worst


def make(directory: Path, out: Path | None) -> Verdict:
    """Write the text to a file or to standard output. Returns the verdict of the data.

    Raises:
        SchedlineError: the data are damaged.
    """
    made = evidence(directory, our_rules())
    if out:
        write_atomic(out, made.text)
    else:
        print(made.text, end="")
    return made.verdict


def verify(file: Path, directory: Path) -> Verdict:
    """Compare a text, or a mail that contains it, with the data. FAIL if they differ.

    Args:
        file: the text or mail; `-` is standard input.

    Raises:
        SchedlineError: the data are damaged, or the file contains no such text.
    """
    try:
        content = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise SchedlineError(f"{file}: {error.strerror}", "name the text, or a mail that has it") from error
    said = block_in(content.decode(errors="replace"))
    if said is None:
        raise SchedlineError(
            f"{file} holds no complete evidence, from {BEGIN!r} to its end", "schedline premerge evidence DIR"
        )
    made = evidence(directory, our_rules())
    problems = list(
        difflib.unified_diff(said.splitlines(), made.text.splitlines(), "said", "shown by the data", "", "", 1)
    )
    if re.search(rb"^diff --git ", content, re.M):
        rows = try_git(directory, "patch-id", "--stable", stdin=content).stdout.decode().splitlines()
        for identity in [row.split()[0] for row in rows]:
            if identity not in made.patch_ids:
                problems.append(f"{file}: the data are not about its patch, {identity}")
    else:
        print("the patch itself was not given, so its id is not checked")
    for line in problems:
        print(printable(line))
    verdict = worst([made.verdict, Verdict.FAIL if problems else Verdict.PASS])
    print("the data do not show what the text says" if problems else "the data show what the text says")
    print(f"verdict: {verdict.name}")
    return verdict
