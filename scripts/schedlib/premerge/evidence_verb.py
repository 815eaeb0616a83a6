# SPDX-License-Identifier: GPL-2.0
"""`schedline premerge evidence`: makes a text for a mail from a premerge, and compares such a text with the data."""

from __future__ import annotations

import argparse
from pathlib import Path

from schedlib import options
from schedlib.errors import SchedlineError
from schedlib.gate import gate_options
from schedlib.options import BASIC, Verbs, add_verb
from schedlib.premerge.premerge_options import RUNS, EvidenceOptions, require_premerge
from schedlib.verdict import Verdict


def add_parser(verbs: Verbs) -> None:
    """Add `evidence` below `schedline premerge`."""
    parser = add_verb(
        verbs,
        "evidence",
        "what a premerge found, as a text for a mail; verify compares such a text with the data",
        first=[
            "schedline premerge evidence premerge-out -o evidence.txt              make the text",
            "schedline premerge evidence verify 0001-sched.patch premerge-out      check somebody's text",
        ],
        text="""
        Makes a short text from what `schedline premerge --out DIR` left: base, patch ids, the rules on each
        architecture, KUnit on base and head, the runs of base, candidate and placebo. It fits under the --- of a patch,
        or into a reply.

        `verify FILE DIR` makes the text again from the raw data in DIR (offsets, consoles, runs), with the rules and
        lists of tests of this schedline, and says whether FILE, a text or a mail, agrees with it. Two things cannot be
        verified, and the text names both: the mutants, and what was left out.

        verify exits with 1 if FILE and DIR differ, else with the code of the verdict that DIR gives.""",
        examples=["schedline premerge evidence premerge-out      to standard output"],
        read=_read,
        job=_evidence,
        libraries=_libraries,
    )
    parser.usage = f"{parser.prog} [-o FILE] DIR\n       {parser.prog} verify FILE DIR"
    parser.add_argument("words", nargs="+", metavar="DIR | verify FILE DIR", help="directory that premerge --out wrote")
    parser.add_argument("-o", "--out", type=options.new_file, metavar="FILE", help="write the text here")


def _read(arguments: argparse.Namespace) -> EvidenceOptions:
    words: list[str] = arguments.words
    verify = None
    if words[0] == "verify":
        if len(words) != 3 or arguments.out:
            raise SchedlineError("verify takes a file and a directory", "schedline premerge evidence verify FILE DIR")
        verify = Path(words[1])
        if words[1] != "-" and not verify.exists():
            raise SchedlineError(f"{verify}: no such file", "name the text, or a mail that has it")
    elif len(words) != 1:
        raise SchedlineError("one directory makes one text", "schedline premerge evidence DIR")
    directory = Path(words[-1])
    require_premerge(directory)
    return EvidenceOptions(directory, verify, arguments.out)


def _libraries(wanted: EvidenceOptions) -> tuple[str, ...]:
    return gate_options.LIBRARIES if (wanted.directory / RUNS).is_dir() else BASIC


def _evidence(wanted: EvidenceOptions) -> Verdict:
    from schedlib.premerge.evidence import make, verify

    return verify(wanted.verify, wanted.directory) if wanted.verify else make(wanted.directory, wanted.out)
