# SPDX-License-Identifier: GPL-2.0
"""`schedline evidence`: what a premerge found, as a text for a mail, and that text held against the data."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from pathlib import Path

from schedlib.cache import cache_dir, write_atomic
from schedlib.errors import SchedlineError
from schedlib.formats.cover_letter import printable
from schedlib.git import try_git
from schedlib.layout.compile import host_rules
from schedlib.premerge.evidence import BEGIN, block_in, evidence
from schedlib.verdict import Verdict, worst

_DESCRIPTION = """\
Makes a small text from what `schedline premerge --out DIR` left: base, patch ids, the rules on each architecture, KUnit
on base and head, the runs of base, candidate and placebo. It fits under the --- of a patch, or into a reply.

`verify FILE DIR` makes the text again from the raw data in DIR (offsets, consoles, runs), by its own rules and lists of
tests, and says whether FILE, a text or a mail, tells what they show. The sender's word counts for nothing but the data
themselves, the mutants, and the names of what was left out; both are in the text."""

_EXAMPLES = """\
examples:
  schedline evidence premerge-out                      to standard output
  schedline evidence premerge-out -o evidence.txt
  schedline evidence verify 0001-sched.patch premerge-out

exit codes: those of the verdict; verify: 1 where FILE and DIR differ, else those of the verdict that DIR gives
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `schedline evidence`."""
    parser = subparsers.add_parser(
        "evidence",
        help="what a premerge found, for a mail; verify holds such a text against the data",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("words", nargs="+", metavar="DIR | verify FILE DIR", help="the --out of a premerge")
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help="write the text here")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    words = arguments.words
    if words[0] == "verify":
        if len(words) != 3 or arguments.out:
            raise SchedlineError("verify takes a file and a directory", "schedline evidence verify FILE DIR")
        return _verify(Path(words[1]), Path(words[2]))
    if len(words) != 1:
        raise SchedlineError("one directory makes one text", "schedline evidence DIR")
    made = evidence(Path(words[0]), host_rules(cache_dir()))
    if arguments.out:
        write_atomic(arguments.out, made.text)
    else:
        print(made.text, end="")
    return made.verdict.exit_code


def _verify(file: Path, directory: Path) -> int:
    try:
        content = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise SchedlineError(f"{file}: {error.strerror}", "name the text, or a mail that has it") from error
    said = block_in(content.decode(errors="replace"))
    if said is None:
        raise SchedlineError(f"{file} holds no whole evidence, from {BEGIN!r} to its end", "schedline evidence DIR")
    made = evidence(directory, host_rules(cache_dir()))
    problems = list(
        difflib.unified_diff(said.splitlines(), made.text.splitlines(), "said", "shown by the data", "", "", 1)
    )
    if re.search(rb"^diff --git ", content, re.M):
        rows = try_git(directory, "patch-id", "--stable", stdin=content).stdout.decode().splitlines()
        for identity in [row.split()[0] for row in rows]:
            if identity not in made.patch_ids:
                problems.append(f"{file}: its patch, {identity}, is none of those that the data are about")
    else:
        print("the patch itself was not given: its id is taken as the sender says")
    for line in problems:
        print(printable(line))
    verdict = worst([made.verdict, Verdict.FAIL if problems else Verdict.PASS])
    print("the text is not what the data show" if problems else "the data show what the text says")
    print(f"verdict: {verdict.name}")
    return verdict.exit_code
