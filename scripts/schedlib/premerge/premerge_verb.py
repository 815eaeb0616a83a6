# SPDX-License-Identifier: GPL-2.0
"""`schedline premerge`: checks of a series before it is merged, on one page."""

from __future__ import annotations

from collections.abc import Sequence

from schedlib.errors import SchedlineError
from schedlib.gate import gate_options
from schedlib.options import BASIC, Verbs, add_verb
from schedlib.premerge import premerge_options
from schedlib.premerge.premerge_options import EvidenceOptions, PremergeOptions


def add_parser(verbs: Verbs) -> None:
    """Add `schedline premerge`, and `evidence` below it."""
    parser = add_verb(
        verbs,
        "premerge",
        "a series against its base: layout, suites, traffic, mutants and runs on one page",
        first=[
            "schedline premerge --kdir ~/linux --base origin/master             your branch",
            "schedline premerge --kdir ~/linux --base v7.3 --mbox series.mbox   mails, as b4 am writes them",
        ],
        text="""
        Compares a series with its base: the layout on each architecture, the KUnit suites on both, the cache-line
        traffic of both on emulated CPUs, the mutants of the files that the series touches, and runs of a real machine
        if there are some. Tests that already fail on the base are listed apart, because the series did not break them.

        `schedline premerge evidence DIR` makes a short text for a mail from the --out of a premerge.""",
        examples=[
            "schedline premerge --kdir ~/linux --base v7.3 --mbox series.mbox --skip mutants",
            "schedline premerge --kdir ~/linux --base v7.3 --html page.html   a page to read or to send",
            "schedline premerge --kdir ~/linux --base v7.3 --runs runs/base runs/candidate",
            "schedline premerge evidence premerge-out -o evidence.txt",
            "git bisect run schedline premerge --kdir . --base v7.3 --skip mutants --bisect",
        ],
        operands="--kdir PATH --base REV",
        options=PremergeOptions,
        read=_checked,
        job="premerge.premerge_job.premerge",
        libraries=_libraries,
    )
    parser.add_argument("--bisect", action="store_true", help="exit 125 unless the verdict is PASS or FAIL")
    more = parser.add_subparsers(prog=parser.prog, metavar="VERB", help="schedline premerge VERB --help")
    _add_evidence(more)


def _libraries(wanted: PremergeOptions) -> Sequence[str]:
    if wanted.html:
        return gate_options.PAGE_LIBRARIES
    return gate_options.LIBRARIES if wanted.runs else BASIC


def _checked(options: PremergeOptions) -> PremergeOptions:
    # If argparse required these two, it would also require them for `premerge evidence`.
    if options.kdir is None or (options.base is None and options.form != "b4"):
        raise SchedlineError(
            "premerge needs a kernel tree and the revision that the series is based on",
            "schedline premerge --kdir PATH --base REV, or schedline premerge evidence DIR",
        )
    if not (options.kdir / ".git").exists():
        raise SchedlineError(f"{options.kdir} is no git tree, and a series needs revisions", "give a git tree")
    if options.measured and "c2c" in options.skip:
        raise SchedlineError("--measured needs the emulated counts, which --skip leaves out", "do not skip c2c")
    if (options.placebo or options.gates) and not options.runs:
        raise SchedlineError("--placebo and --gates need the runs of base and candidate", "give --runs, too")
    if options.out:
        premerge_options.refuse_old(options.out)
    return options


def _add_evidence(verbs: Verbs) -> None:
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
        options=EvidenceOptions,
        read=_checked_evidence,
        job="premerge.evidence.evidence",
        libraries=lambda wanted: (
            gate_options.LIBRARIES if (wanted.directory / premerge_options.RUNS).is_dir() else BASIC
        ),
    )
    parser.usage = f"{parser.prog} [-o FILE] DIR\n       {parser.prog} verify FILE DIR"


def _checked_evidence(options: EvidenceOptions) -> EvidenceOptions:
    verify = options.verify
    if verify:
        if len(options.words) != 3 or options.out:
            raise SchedlineError("verify takes a file and a directory", "schedline premerge evidence verify FILE DIR")
        if options.words[1] != "-" and not verify.exists():
            raise SchedlineError(f"{verify}: no such file", "name the text, or a mail that has it")
    elif len(options.words) != 1:
        raise SchedlineError("one directory makes one text", "schedline premerge evidence DIR")
    premerge_options.require_premerge(options.directory)
    return options
