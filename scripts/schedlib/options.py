# SPDX-License-Identifier: GPL-2.0
"""What all verbs share: how one is declared, and the options that several of them have."""

from __future__ import annotations

import argparse
import inspect
import os
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeAlias, TypeVar

from schedlib import names
from schedlib.names import one_of, some_of, unknown, words
from schedlib.progress import printable
from schedlib.verdict import Verdict

Verbs: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Options = TypeVar("Options")

DEFAULT_SERIES = "7.3"

MOST_CPUS = 64
"""NR_CPUS of a guest's kernel. Without a topology a guest has this many possible CPUs, to make fake topologies of."""

BASIC = ("requirements.txt",)
"""The libraries of most verbs."""


class VerbParser(argparse.ArgumentParser):
    """A parser that takes no shortened options and ends a usage error with the next step, exit code 2.

    Attributes:
        below: see verbs_below().
        behind: see words_behind_dashes().
    """

    def __init__(self, *args: Any, **words: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False} | words)
        self.below: Verbs = argparse._SubParsersAction([], self.prog, type(self), metavar="VERB")
        self.behind = ""

    def error(self, message: str) -> NoReturn:
        said = printable(message, "\n\t")
        self.exit(Verdict.ERROR.exit_code, f"{self.prog}: {said}\n  next: {self.prog} --help\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As usual, but for an unknown option the error names the nearest known one."""
        given = list(sys.argv[1:] if args is None else args)
        if given and given[0] in self.below.choices:
            return self.below.choices[given[0]].parse_known_args(given[1:], namespace)
        if self.behind and "--" in given:
            at = given.index("--")
            found, more = self.parse_known_args(given[:at], namespace)
            setattr(found, self.behind, tuple(given[at + 1 :]))
            return found, more
        below = {
            name for each in self._actions if isinstance(each, argparse._SubParsersAction) for name in each.choices
        }
        for word in given:
            if word == "--" or word in below:
                break
            option = word.partition("=")[0]
            if option.startswith("--") and option not in self._option_string_actions:
                self.error(unknown("option", option, sorted(self._option_string_actions)))
        return super().parse_known_args(given, namespace)


def verbs_below(parser: argparse.ArgumentParser) -> Verbs:
    """The verbs below one that has operands. The first word chooses one of them; any other word is an operand."""
    if not isinstance(parser, VerbParser):
        raise TypeError(f"{parser.prog} has to be a VerbParser")
    return parser.below


def words_behind_dashes(parser: argparse.ArgumentParser, name: str) -> None:
    """Let a verb take words behind `--`, which are another program's; they are the argument of this name."""
    if not isinstance(parser, VerbParser):
        raise TypeError(f"{parser.prog} has to be a VerbParser")
    parser.behind = name
    parser.set_defaults(**{name: ()})


def add_verb(
    verbs: Verbs,
    name: str,
    about: str,
    *,
    first: Sequence[str],
    text: str,
    examples: Sequence[str] = (),
    operands: str = "",
    read: Callable[[argparse.Namespace], Options],
    job: Callable[[Options], Verdict],
    libraries: Sequence[str] | Callable[[Options], Sequence[str]] = BASIC,
    download: bool = True,
) -> argparse.ArgumentParser:
    """Declare a verb.

    Args:
        about: one line for the list of verbs.
        first: the commands that most people want, usually two; each is `schedline ...   what it does`.
        text: what the verb does.
        examples: more commands, for the end of its --help.
        operands: what follows the verb's name, for the usage line.
        read: turns the parsed words into the verb's options, a frozen dataclass. It uses the standard library alone
            and raises SchedlineError for what argparse cannot check.
        job: does the work.
        libraries: the requirements files whose libraries the job needs, or a function that computes them from the
            options.
        download: False if nothing may be downloaded onto the machine.
    """
    parser = verbs.add_parser(
        name,
        help=about,
        description="\n".join(f"  {line}" for line in first) + f"\n\n{textwrap.dedent(text).strip()}",
        epilog="\n".join(["more examples:", *(f"  {line}" for line in examples)]) if examples else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.usage = " ".join([parser.prog, *operands.split(), "[options]"])
    needed = libraries if callable(libraries) else lambda _: libraries
    parser.set_defaults(read=read, job=job, libraries=needed, download=download)
    return parser


def options_of(kind: Callable[..., Options], arguments: argparse.Namespace, **others: object) -> Options:
    """A verb's options: each field has the value of the argument of its name, or the one given here."""
    given = vars(arguments) | others
    return kind(**{name: given[name] for name in inspect.signature(kind).parameters})


@dataclass(frozen=True)
class TreeOptions:
    """Which kernel source: a user's tree, or else a series that Debian packages."""

    kdir: Path | None = None
    series: str | None = None

    @property
    def needs(self) -> tuple[str, ...]:
        """The jobs of doctor that getting this tree needs; a user's tree needs none."""
        return () if self.kdir is not None else ("fetch",)

    def words(self) -> list[str]:
        """These options as command-line arguments."""
        if self.kdir is not None:
            return ["--kdir", str(self.kdir)]
        return ["--series", self.series] if self.series else []


@dataclass(frozen=True)
class ChangeOptions:
    """The changes to apply to a tree, and those to leave out or revert."""

    with_: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


def add_tree_options(parser: argparse.ArgumentParser) -> None:
    """--kdir, --series."""
    which = parser.add_mutually_exclusive_group()
    about = "your kernel tree (git, plain directory or tarball); it is only read, never written to"
    which.add_argument("--kdir", type=existing_path, metavar="PATH", help=about)
    about = f"a kernel that Debian packages: {', '.join(names.series_names())} (default: {DEFAULT_SERIES})"
    which.add_argument("--series", type=one_of("series", names.series_names), metavar="NAME", help=about)


def tree_options(arguments: argparse.Namespace) -> TreeOptions:
    """What add_tree_options() read."""
    return options_of(TreeOptions, arguments)


def add_change_options(parser: argparse.ArgumentParser) -> None:
    """--with, --without."""
    chosen = some_of("change", names.change_ids)
    about = "apply these carried changes, too; Debian's kernels get all but the optional ones anyway"
    parser.add_argument("--with", dest="with_", type=chosen, default=(), metavar="ID,...", help=about)
    about = "leave these changes out; revert them where they are upstream"
    parser.add_argument("--without", type=chosen, default=(), metavar="ID,...", help=about)


def change_options(arguments: argparse.Namespace) -> ChangeOptions:
    """What add_change_options() read."""
    return options_of(ChangeOptions, arguments)


def add_topology_option(parser: argparse._ActionsContainer, about: str) -> None:
    """--topology."""
    parser.add_argument("--topology", type=one_of("topology", names.topology_names), metavar="NAME", help=about)


def add_config_option(parser: argparse._ActionsContainer, about: str) -> None:
    """--config: fragments of a kernel configuration."""
    parser.add_argument("--config", type=fragments, default=(), metavar="FRAGMENT,...", help=about)


def add_cpupri_option(parser: argparse._ActionsContainer, about: str) -> None:
    """--cpupri: variants of cpupri-split; each needs its own kernel."""
    chosen = some_of("variant of cpupri-split", names.cpupri_variants, everything="all")
    about = f"{about}: {', '.join(names.cpupri_variants())}, or all"
    parser.add_argument("--cpupri", type=chosen, default=(), metavar="NAME,...", help=about)


def add_values(parser: argparse._ActionsContainer, *rows: tuple[str, Callable[[str], object], str, str]) -> None:
    """Options with one value. A row: the name, the type, what --help calls the value, and what the option is for."""
    for name, kind, shown, about in rows:
        parser.add_argument(name, type=kind, metavar=shown, help=about)


def _path(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("the path is empty: is a shell variable unset?")
    return Path(text).expanduser()


def existing_path(text: str) -> Path:
    """An argparse type: a file or directory that exists."""
    path = _path(text)
    if not path.exists():
        raise argparse.ArgumentTypeError(f"{text}: no such file or directory")
    return path


def existing_directory(text: str) -> Path:
    """An argparse type: a directory that exists and is to be read."""
    path = existing_path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is no directory")
    return path


def new_path(text: str) -> Path:
    """An argparse type: a file or directory that can be created or written; `-` is standard output."""
    path = Path("/dev/stdout") if text == "-" else _path(text)
    there = next(each for each in (path, *path.absolute().parents) if os.access(each, os.F_OK))
    if there != path and not there.is_dir():
        raise argparse.ArgumentTypeError(f"{there} is no directory")
    if not os.access(there, os.W_OK):
        raise argparse.ArgumentTypeError(f"{there} cannot be written; name another place")
    return path


def new_directory(text: str) -> Path:
    """An argparse type: a directory that can be created or written."""
    path = new_path(text)
    if path.exists() and not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is no directory")
    return path


def new_file(text: str) -> Path:
    """An argparse type: a file that can be created or written."""
    path = new_path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a directory; name a file")
    return path


def fragments(text: str) -> tuple[str, ...]:
    """An argparse type: fragments of configs/kernel/, or paths of other fragments."""
    for name in words(text):
        if name not in names.fragment_names() and not Path(name).is_file():
            raise argparse.ArgumentTypeError(unknown("fragment", name, names.fragment_names()))
    return words(text)


def cpu_count(text: str) -> int:
    """An argparse type: the number of CPUs of a guest."""
    if not text.isdecimal() or not 1 <= int(text) <= MOST_CPUS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of CPUs; 1 to {MOST_CPUS} are possible")
    return int(text)


def positive(text: str) -> int:
    """An argparse type: how often something is done."""
    if not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to 1000")
    return int(text)


def seconds(text: str) -> float:
    """An argparse type: a time limit."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value
