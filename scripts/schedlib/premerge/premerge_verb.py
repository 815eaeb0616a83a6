# SPDX-License-Identifier: GPL-2.0
"""`schedline premerge`: checks of a series before it is merged, on one page."""

from __future__ import annotations

import argparse
from pathlib import Path

from schedlib import options
from schedlib.errors import SchedlineError
from schedlib.gate import gate_options
from schedlib.names import arch_names, one_of, some_of
from schedlib.options import BASIC, Verbs, add_verb, options_of
from schedlib.premerge import premerge_options
from schedlib.premerge.premerge_options import PARTS, EvidenceOptions, PremergeOptions
from schedlib.verdict import Verdict


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
            "schedline premerge --kdir ~/linux --base v7.3 --runs runs/base runs/candidate",
            "schedline premerge evidence premerge-out -o evidence.txt",
            "git bisect run schedline premerge --kdir . --base v7.3 --skip mutants --bisect",
        ],
        operands="--kdir PATH --base REV",
        read=_read,
        job=_premerge,
        libraries=lambda wanted: gate_options.LIBRARIES if wanted.runs else BASIC,
    )
    runs, there, gates = options.existing_directory, options.existing_path, gate_options.gates_file
    options.add_values(
        parser,
        ("--kdir", there, "PATH", "your kernel tree (git); it is only read"),
        ("--base", str, "REV", "the revision that the series is based on"),
        ("--contracts", there, "DIR", "contracts of structures of your own, see schedline layout"),
        ("--measured", there, "DIR", "samples of the base on a real machine, beside its counts; see c2c import"),
        ("--placebo", runs, "DIR", "with --runs: runs of the placebo kernel"),
        ("--gates", gates, "NAME|FILE", "with --runs: the gates file, or its name in configs/gates"),
        ("--out", options.new_directory, "DIR", "directory for logs, page, JSON and JUnit"),
        ("--json", options.new_file, "FILE", "write the page's JSON here too"),
    )
    options.add_values(
        parser.add_mutually_exclusive_group(),
        ("--head", str, "REV", "the last commit of the series (default: HEAD)"),
        ("--mbox", there, "FILE", "mails instead of commits, as b4 am writes them"),
    )
    archs, about = some_of("architecture", arch_names, everything="all"), "architectures for the layout (default: all)"
    parser.add_argument("--arch", dest="archs", type=archs, default=arch_names(), metavar="ARCH,...", help=about)
    parts, about = some_of("part", lambda: PARTS), f"leave out some of {', '.join(PARTS)}"
    parser.add_argument("--skip", type=parts, default=(), metavar="PART,...", help=about)
    both, about = ("BASE", "CANDIDATE"), "runs of both kernels on a real machine, for the gate"
    parser.add_argument("--runs", nargs=2, type=runs, metavar=both, help=about)
    parser.add_argument(
        "--format",
        dest="form",
        type=one_of("format", lambda: ("text", "b4")),
        default="text",
        metavar="FORMAT",
        help="text, or b4 for b4.review-series-check-cmd; b4 also names base and head of a series under review",
    )
    parser.add_argument("--bisect", action="store_true", help="exit 125 unless the verdict is PASS or FAIL")
    more = parser.add_subparsers(prog=parser.prog, metavar="VERB", help="schedline premerge VERB --help")
    _add_evidence(more)


def _read(arguments: argparse.Namespace) -> PremergeOptions:
    # If argparse required these two, it would also require them for `premerge evidence`.
    if arguments.kdir is None or (arguments.base is None and arguments.form != "b4"):
        raise SchedlineError(
            "premerge needs a kernel tree and the revision that the series is based on",
            "schedline premerge --kdir PATH --base REV, or schedline premerge evidence DIR",
        )
    if not (arguments.kdir / ".git").exists():
        raise SchedlineError(f"{arguments.kdir} is no git tree, and a series needs revisions", "give a git tree")
    if arguments.measured and "c2c" in arguments.skip:
        raise SchedlineError("--measured needs the emulated counts, which --skip leaves out", "do not skip c2c")
    if (arguments.placebo or arguments.gates) and not arguments.runs:
        raise SchedlineError("--placebo and --gates need the runs of base and candidate", "give --runs, too")
    if arguments.out:
        premerge_options.refuse_old(arguments.out)
    return options_of(PremergeOptions, arguments, runs=tuple(arguments.runs) if arguments.runs else None)


def _premerge(wanted: PremergeOptions) -> Verdict:
    from schedlib.premerge.premerge_job import premerge

    return premerge(wanted)


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
        read=_read_evidence,
        job=_evidence,
        libraries=lambda wanted: (
            gate_options.LIBRARIES if (wanted.directory / premerge_options.RUNS).is_dir() else BASIC
        ),
    )
    parser.usage = f"{parser.prog} [-o FILE] DIR\n       {parser.prog} verify FILE DIR"
    parser.add_argument("words", nargs="+", metavar="DIR | verify FILE DIR", help="directory that premerge --out wrote")
    parser.add_argument("-o", "--out", type=options.new_file, metavar="FILE", help="write the text here")


def _read_evidence(arguments: argparse.Namespace) -> EvidenceOptions:
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
    premerge_options.require_premerge(directory)
    return EvidenceOptions(directory, verify, arguments.out)


def _evidence(wanted: EvidenceOptions) -> Verdict:
    from schedlib.premerge.evidence import make, verify

    return verify(wanted.verify, wanted.directory) if wanted.verify else make(wanted.directory, wanted.out)
