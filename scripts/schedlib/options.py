# SPDX-License-Identifier: GPL-2.0
"""What all verbs share: how one is declared, and the options that several of them have."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import Field, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeAlias, TypeVar

from schedlib import names
from schedlib.names import one_of, some_of, split_list, unknown
from schedlib.progress import printable
from schedlib.verdict import Verdict

Verbs: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Options = TypeVar("Options")

DEFAULT_SERIES = "7.3"

MOST_CPUS = 64
"""NR_CPUS of a guest's kernel. Without a topology a guest has this many possible CPUs, to make fake topologies of."""

BASIC = ("core",)
"""The libraries of most verbs."""


class VerbParser(argparse.ArgumentParser):
    """A parser that takes no shortened options and ends a usage error with the next step, exit code 2."""

    def __init__(self, *args: Any, **words: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False} | words)
        self.below: Verbs = argparse._SubParsersAction([], self.prog, type(self), metavar="VERB")
        self.behind = ""
        self.given: Sequence[str] = ()
        self.unread: Callable[[Sequence[str]], None] = lambda _: None

    def error(self, message: str) -> NoReturn:
        self.unread(self.given)
        said = printable(message, "\n\t")
        self.exit(Verdict.ERROR.exit_code, f"{self.prog}: {said}\n  next: {self.prog} --help\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self.given = given = list(sys.argv[1:] if args is None else args)
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
        found, more = super().parse_known_args(given, namespace)
        if more:
            self.unread(self.given)
        return found, more


def verbs_below(parser: argparse.ArgumentParser) -> Verbs:
    """The verbs below one that has operands. The first word chooses one of them; any other word is an operand."""
    assert isinstance(parser, VerbParser)  # noqa: S101 - for the type checker
    return parser.below


def words_behind_dashes(parser: argparse.ArgumentParser, name: str) -> None:
    """Let a verb take words behind `--`, which are another program's; they are the argument of this name."""
    assert isinstance(parser, VerbParser)  # noqa: S101 - for the type checker
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
    options: type[Options] | None = None,
    read: Callable[[Any], Options] | None = None,
    job: Callable[[Options], Verdict] | str,
    libraries: Sequence[str] | Callable[[Options], Sequence[str]] = BASIC,
    download: bool = True,
    unread: Callable[[Sequence[str]], None] = lambda _: None,
) -> argparse.ArgumentParser:
    """Declare a verb.

    Args:
        about: one line for the list of verbs.
        first: the commands that most people want, usually two; each is `schedline ...   what it does`.
        text: what the verb does.
        examples: more commands, for the end of its --help.
        operands: what follows the verb's name, for the usage line.
        options: the frozen dataclass that the job takes; its fields say what is parsed, see option().
        read: checks the options, and may change them; without `options` it makes them from the parsed words. It uses
            the standard library alone and raises SchedlineError for what argparse cannot check.
        job: does the work: a function, or its dotted name in this package, which is imported only when it is run.
        libraries: the extras of pyproject.toml whose libraries the job needs, or a function that computes them from
            the options.
        download: False if nothing may be downloaded onto the machine.
        unread: called with the verb's words if they cannot be read.
    """
    parser = verbs.add_parser(
        name,
        help=about,
        description=_description(first, text),
        epilog="\n".join(["more examples:", *(f"  {line}" for line in examples)]) if examples else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.usage = " ".join([parser.prog, *operands.split(), "[options]"])
    assert isinstance(parser, VerbParser)  # noqa: S101 - for the type checker
    parser.unread = unread
    if options is not None:
        add_options(parser, options)

    def read_words(arguments: argparse.Namespace) -> Any:
        made = arguments if options is None else options_of(options, arguments)
        return read(made) if read else made

    def work(wanted: Any) -> Verdict:
        if not isinstance(job, str):
            return job(wanted)
        module, _, function = job.rpartition(".")
        verdict: Verdict = getattr(importlib.import_module(f"schedlib.{module}"), function)(wanted)
        return verdict

    needed = libraries if callable(libraries) else lambda _: libraries
    parser.set_defaults(read=read_words, job=work, libraries=needed, download=download)
    return parser


def _description(first: Sequence[str], text: str) -> str:
    return "\n".join(f"  {line}" for line in first) + f"\n\n{textwrap.dedent(text).strip()}"


def add_group(verbs: Verbs, name: str, about: str, *, first: Sequence[str], text: str) -> Verbs:
    """Declare a verb that only has verbs below it; returns these. The words are those of add_verb()."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = verbs.add_parser(name, help=about, description=_description(first, text), formatter_class=raw)
    parser.usage = f"{parser.prog} VERB [options]"
    below: Any = parser.add_subparsers(prog=parser.prog, metavar="VERB", required=True)
    return below  # type: ignore[no-any-return]


def option(
    words: str,
    about: str | Callable[[], str],
    kind: Callable[[str], object] | None = None,
    *,
    default: Any = None,
    group: str = "",
    **more: Any,
) -> Any:
    """A field of a verb's options that is read from the command line.

    Args:
        words: as in "-o --out DIR": how it is written, and what --help calls its value.
        about: for --help; a function if something has to be looked up for it.
        kind: makes the value of a word.
        group: options of the same group exclude each other.
        more: for argparse's add_argument().
    """
    flags = [word for word in words.split() if word.startswith("-")]
    metavar = " ".join(word for word in words.split() if not word.startswith("-"))
    more["default"] = [] if more.get("action") == "append" else default
    told = more | ({"type": kind} if kind else {}) | ({"metavar": metavar} if metavar else {})
    return field(default=default, metadata={"flags": flags, "about": about, "group": group, "told": told})


def flag(words: str, about: str) -> Any:
    return option(words, about, default=False, action="store_true")


def bisect_flag() -> Any:
    """The field that lets main.start() return 125 for what git bisect has to skip."""
    return flag("--bisect", "exit 125 unless the verdict is PASS or FAIL")


SECTIONS = {
    "the kernel": "kdir series base head mbox with without change build vmlinux running arch config cpupri sanitize",
    "a patch": "patch commit staged range install-hook",
    "structures": "pack contracts struct variables",
    "what has to be there": "expect require",
    "what the guests do": "workload program files marked rounds objects quanta line clock selftests",
    "where it runs": "on cpus topology kernel-arg timeout",
    "a real machine": "runs measured placebo gates",
    "files of other tools": "unit columns budget detect",
    "results": "format out json html svg no-blame quiet verbose again junit lava",
}
"""The headings of --help of a verb with many options, and their options; others come first."""

_MANY = 10


def add_options(parser: argparse._ActionsContainer, kind: type[Any]) -> None:
    """Add the options that a dataclass declares by option(), and those of dataclasses in it.

    --help shows those of a verb with many options in sections.
    """
    declared = list(_declared(kind))
    in_sections = isinstance(parser, VerbParser) and len(declared) >= _MANY
    headings = {f"--{word}": title for title, words in SECTIONS.items() for word in words.split() if in_sections}
    titles = [next((headings[word] for word in each.metadata["flags"] if word in headings), "") for _, each in declared]
    made: dict[str, argparse._ActionsContainer] = {"": parser}
    made |= {title: parser.add_argument_group(title) for title in SECTIONS if title in titles}
    groups: dict[tuple[int, str], argparse._ActionsContainer] = {}
    for (owner, each), title in zip(declared, titles, strict=True):
        said, within = each.metadata, made[title]
        if said["group"]:
            key = (owner, said["group"])
            within = groups.setdefault(key, groups.get(key) or within.add_mutually_exclusive_group())
        about = said["about"]() if callable(said["about"]) else said["about"]
        told = said["told"] | {"help": about} | ({"dest": each.name} if said["flags"] else {})
        within.add_argument(*(said["flags"] or [each.name]), **told)


def _declared(kind: type[Any]) -> Iterator[tuple[int, Field[Any]]]:
    for each in fields(kind):
        if is_dataclass(each.default_factory):
            yield from _declared(each.default_factory)
        elif each.metadata:
            yield id(kind), each


def options_of(kind: type[Options], arguments: argparse.Namespace, **others: object) -> Options:
    """A verb's options: each field has the value of the argument of its name, or the one given here."""
    given, found = vars(arguments) | others, {}
    declared: Any = kind
    for each in fields(declared):
        if each.name not in given and is_dataclass(each.default_factory):
            found[each.name] = options_of(each.default_factory, arguments)
        else:
            found[each.name] = tuple(value) if isinstance(value := given[each.name], list) else value
    return kind(**found)


def a_path(text: str) -> Path:
    """An argparse type: a path."""
    if not text:
        raise argparse.ArgumentTypeError("the path is empty: is a shell variable unset?")
    return Path(text).expanduser()


def _checked(path: Path, is_right: Callable[[Path], bool], wrong: str) -> Path:
    if not is_right(path):
        raise argparse.ArgumentTypeError(wrong)
    return path


def existing_path(text: str) -> Path:
    """An argparse type: a file or directory that exists."""
    return _checked(a_path(text), Path.exists, f"{text}: no such file or directory")


def existing_file(text: str) -> Path:
    """An argparse type: a file that exists, and no pipe."""
    return _checked(existing_path(text), Path.is_file, f"{text} is no regular file")


def existing_directory(text: str) -> Path:
    """An argparse type: a directory that exists and is to be read."""
    return _checked(existing_path(text), Path.is_dir, f"{text} is no directory")


def new_path(text: str) -> Path:
    """An argparse type: a file or directory that can be created or written; `-` is standard output."""
    path = Path("/dev/stdout") if text == "-" else a_path(text)
    there = next(each for each in (path, *path.absolute().parents) if os.access(each, os.F_OK))
    if there != path and not there.is_dir():
        raise argparse.ArgumentTypeError(f"{there} is no directory")
    if not os.access(there, os.W_OK):
        raise argparse.ArgumentTypeError(f"{there} cannot be written; name another place")
    return path


def new_directory(text: str) -> Path:
    """An argparse type: a directory that can be created or written."""
    return _checked(new_path(text), lambda path: path.is_dir() or not path.exists(), f"{text} is no directory")


def new_file(text: str) -> Path:
    """An argparse type: a file that can be created or written."""
    return _checked(new_path(text), lambda path: not path.is_dir(), f"{text} is a directory; name a file")


def fragments(text: str) -> tuple[str, ...]:
    """An argparse type: fragments of configs/kernel/, or paths of other fragments."""
    for name in split_list(text):
        if name not in names.fragment_names() and not Path(name).is_file():
            raise argparse.ArgumentTypeError(unknown("fragment", name, names.fragment_names()))
    return split_list(text)


def from_one_to(most: int) -> Callable[[str], int]:
    """An argparse type: a number up to this one."""

    def read(text: str) -> int:
        if not text.isdecimal() or not 1 <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {most}")
        return int(text)

    return read


cpu_count = from_one_to(MOST_CPUS)
"""An argparse type: the number of CPUs of a guest."""

positive = from_one_to(1000)
"""An argparse type: how often something is done."""


def seconds(text: str) -> float:
    """An argparse type: a time limit."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


CHANGES = some_of("change", names.change_ids)
"""An argparse type: changes under test."""


@dataclass(frozen=True)
class TreeOptions:
    """Which kernel source: a user's tree, or else a series that Debian packages."""

    kdir: Path | None = option(
        "--kdir PATH",
        "your kernel tree (git, plain directory or tarball); it is only read, never written to",
        existing_path,
        group="tree",
    )
    series: str | None = option(
        "--series NAME",
        lambda: f"a kernel that Debian packages: {', '.join(names.series_names())} (default: {DEFAULT_SERIES})",
        one_of("series", names.series_names),
        group="tree",
    )

    @property
    def needs(self) -> tuple[str, ...]:
        """The jobs of doctor that getting this tree needs; a user's tree needs none."""
        return () if self.kdir is not None else ("fetch",)

    def words(self) -> list[str]:
        if self.kdir is not None:
            return ["--kdir", str(self.kdir)]
        return ["--series", self.series] if self.series else []


@dataclass(frozen=True)
class ChangeOptions:
    """The changes to apply to a tree, and those to leave out or revert."""

    with_: tuple[str, ...] = option(
        "--with ID,...",
        "apply these carried changes, too; Debian's kernels get all but the optional ones anyway",
        CHANGES,
        default=(),
    )
    without: tuple[str, ...] = option(
        "--without ID,...", "leave these changes out; revert them where they are upstream", CHANGES, default=()
    )
