# SPDX-License-Identifier: GPL-2.0
"""`schedline premerge` and `premerge evidence`: checks of a series before it is merged, on one page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from schedlib.errors import SchedlineError
from schedlib.gate import gate_options
from schedlib.gate.gate_options import gates_file
from schedlib.names import arch_names, one_of, some_of
from schedlib.options import (
    BASIC,
    Verbs,
    add_verb,
    bisect_flag,
    existing_directory,
    existing_path,
    new_directory,
    new_file,
    option,
)

PARTS = ("layout", "kunit", "c2c", "mutants")

SERIES = "premerge.json"
LAYOUTS = "layout.json"
GUESTS = "guests.json"
RUNS = "runs"
TRAFFIC = "c2c"
GATES = "gates.toml"


@dataclass(frozen=True)
class PremergeOptions:
    """The options of a premerge. Without a base, b4 names base and head."""

    kdir: Path = option("--kdir PATH", "your kernel tree (git); it is only read", existing_path)
    base: str | None = option("--base REV", "the revision that the series is based on")
    contracts: Path | None = option(
        "--contracts DIR", "contracts of structures of your own, see schedline layout", existing_path
    )
    measured: Path | None = option(
        "--measured DIR", "samples of the base on a real machine, beside its counts; see c2c import", existing_path
    )
    placebo: Path | None = option("--placebo DIR", "with --runs: runs of the placebo kernel", existing_directory)
    gates: str | None = option(
        "--gates NAME|FILE", "with --runs: the gates file, or its name in configs/gates", gates_file
    )
    out: Path | None = option("--out DIR", "directory for logs, page, JSON and JUnit", new_directory)
    json: Path | None = option("--json FILE", "write the page's JSON here too", new_file)
    html: Path | None = option("--html FILE", "write the page as HTML here", new_file)
    head: str | None = option("--head REV", "the last commit of the series (default: HEAD)", group="series")
    mbox: Path | None = option(
        "--mbox FILE", "mails instead of commits, as b4 am writes them", existing_path, group="series"
    )
    archs: tuple[str, ...] = option(
        "--arch ARCH,...",
        "architectures for the layout (default: all)",
        some_of("architecture", arch_names, everything="all"),
        default="all",
    )
    skip: tuple[str, ...] = option(
        "--skip PART,...", f"leave out some of {', '.join(PARTS)}", some_of("part", lambda: PARTS), default=()
    )
    runs: tuple[Path, Path] | None = option(
        "--runs",
        "runs of both kernels on a real machine, for the gate",
        existing_directory,
        nargs=2,
        metavar=("BASE", "CANDIDATE"),
    )
    form: str = option(
        "--format FORMAT",
        "text, or b4 for b4.review-series-check-cmd; b4 also names base and head of a series under review",
        one_of("format", lambda: ("text", "b4")),
        default="text",
    )
    bisect: bool = bisect_flag()


@dataclass(frozen=True)
class EvidenceOptions:
    """The directory of a premerge, and a text or mail to compare with it (`-`: standard input), or a file for one."""

    words: tuple[str, ...] = option(
        "DIR | verify FILE DIR", "directory that premerge --out wrote", default=(), nargs="+"
    )
    out: Path | None = option("-o --out FILE", "write the text here", new_file)

    @property
    def directory(self) -> Path:
        return Path(self.words[-1])

    @property
    def verify(self) -> Path | None:
        return Path(self.words[1]) if self.words[0] == "verify" else None


def add_parser(verbs: Verbs) -> None:
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
    more = parser.add_subparsers(prog=parser.prog, metavar="VERB", help="schedline premerge VERB --help")
    evidence = add_verb(
        more,
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
        lists of tests of this schedline, and says whether FILE, a text or a mail, agrees with it. Three things cannot
        be verified, and the text names them: the mutants, what was left out, and what only sources show.

        verify exits with 1 if FILE and DIR differ, else with the code of the verdict that DIR gives.""",
        examples=["schedline premerge evidence premerge-out      to standard output"],
        options=EvidenceOptions,
        read=_checked_evidence,
        job="premerge.evidence.evidence",
        libraries=lambda wanted: gate_options.LIBRARIES if (wanted.directory / RUNS).is_dir() else BASIC,
    )
    evidence.usage = f"{evidence.prog} [-o FILE] DIR\n       {evidence.prog} verify FILE DIR"


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
    # What an earlier premerge has left could be taken for this one's.
    names = (SERIES, LAYOUTS, "base", "head", TRAFFIC, RUNS)
    if options.out and (old := next((name for name in names if (options.out / name).exists()), None)):
        raise SchedlineError(
            f"--out: {options.out} has {old} of an earlier premerge", "name a new directory, or remove it"
        )
    return options


def _checked_evidence(options: EvidenceOptions) -> EvidenceOptions:
    verify = options.verify
    if verify:
        if len(options.words) != 3 or options.out:
            raise SchedlineError("verify takes a file and a directory", "schedline premerge evidence verify FILE DIR")
        if options.words[1] != "-" and not verify.exists():
            raise SchedlineError(f"{verify}: no such file", "name the text, or a mail that has it")
    elif len(options.words) != 1:
        raise SchedlineError("one directory makes one text", "schedline premerge evidence DIR")
    place = options.directory
    if not (place / SERIES).is_file() and not (place / RUNS).is_dir():
        raise SchedlineError(f"{place} has neither {SERIES} nor {RUNS}/", "schedline premerge --out DIR makes them")
    return options
