# SPDX-License-Identifier: GPL-2.0
"""The options of `schedline premerge` and `schedline premerge evidence`, and the names of the files of a premerge."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from schedlib.errors import SchedlineError
from schedlib.gate.gate_options import gates_file
from schedlib.names import arch_names, one_of, some_of
from schedlib.options import existing_directory, existing_path, new_directory, new_file, option

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


@dataclass(frozen=True)
class EvidenceOptions:
    """The directory of a premerge, and a text or mail to compare with it (`-`: standard input), or a file for one."""

    words: tuple[str, ...] = option(
        "DIR | verify FILE DIR", "directory that premerge --out wrote", default=(), nargs="+"
    )
    out: Path | None = option("-o --out FILE", "write the text here", new_file)

    @property
    def directory(self) -> Path:
        """The directory of the premerge."""
        return Path(self.words[-1])

    @property
    def verify(self) -> Path | None:
        """The text or mail to compare."""
        return Path(self.words[1]) if self.words[0] == "verify" else None


def refuse_old(out: Path) -> None:
    """Reject a directory with files of an earlier premerge, which could be taken for this one's.

    Raises SchedlineError: such a file exists.
    """
    if old := next((name for name in (SERIES, LAYOUTS, "base", "head", TRAFFIC, RUNS) if (out / name).exists()), None):
        raise SchedlineError(f"--out: {out} has {old} of an earlier premerge", "name a new directory, or remove it")


def require_premerge(directory: Path) -> None:
    """Reject a directory that has no data for evidence.

    Raises SchedlineError: the directory does not exist, or has neither a series nor runs.
    """
    if not (directory / SERIES).is_file() and not (directory / RUNS).is_dir():
        raise SchedlineError(f"{directory} has neither {SERIES} nor {RUNS}/", "schedline premerge --out DIR makes them")
