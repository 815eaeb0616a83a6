# SPDX-License-Identifier: GPL-2.0
"""README, CONTRIBUTING and docs/: their links, the files that they name and the commands that they show are valid.

Each check takes the directory of a project and returns what is wrong. So it also runs on a small project with one
flaw.
"""

from __future__ import annotations

import argparse
import functools
import io
import os
import re
import shlex
import subprocess
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import write_files
from schedlib.errors import SchedlineError
from schedlib.main import parser, verbs_of
from schedlib.paths import PROJECT

MOST_WORDS = 700
"""Of README."""

MOST_WORDS_OF_DOCS = 25_000
"""Of README, CONTRIBUTING and all pages of docs/ together."""

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_NAMED = re.compile(r"(?<![\w/~.$-])((?:configs|docs|kunit|patches|scripts|selftests)/[\w./*<>-]*)")


@dataclass(frozen=True)
class Page:
    """A page; `name` is its path from the top of the project."""

    name: str
    text: str

    @property
    def prose(self) -> str:
        """The text without fenced blocks."""
        return _FENCE.sub("", self.text)

    @property
    def anchors(self) -> set[str]:
        """The anchors of its headings, as forges make them."""
        found: dict[str, int] = {}
        anchors = set()
        for title in re.findall(r"^#+ +(.+?) *$", self.prose, re.M):
            slug = re.sub(r"[^\w\- ]", "", _LINK.sub("", title).lower()).replace(" ", "-")
            anchors.add(f"{slug}-{found[slug]}" if slug in found else slug)
            found[slug] = found.get(slug, 0) + 1
        return anchors


def pages(root: Path) -> dict[str, Page]:
    files = [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]
    return {name: Page(name, path.read_text()) for path in files for name in [str(path.relative_to(root))]}


# Links.


def _target(page: Page, link: str) -> tuple[str, str]:
    path, _, anchor = link.partition("#")
    return os.path.normpath(Path(page.name).parent / path) if path else page.name, anchor


def _links(page: Page) -> Iterator[str]:
    return (link for link in _LINK.findall(page.prose) if not re.match(r"\w+:", link))


def broken_links(root: Path) -> list[str]:
    known, wrong = pages(root), []
    for page in known.values():
        for link in _links(page):
            name, anchor = _target(page, link)
            if not (root / name).exists():
                wrong.append(f"{page.name}: there is no {name}")
            elif anchor and anchor not in (known.get(name) or Page(name, (root / name).read_text())).anchors:
                wrong.append(f"{page.name}: {name} has no heading #{anchor}")
    return wrong


def lost_pages(root: Path) -> list[str]:
    known, waiting, seen = pages(root), ["README.md"], set()
    while waiting:
        name = waiting.pop()
        if name in known and name not in seen:
            seen.add(name)
            waiting += [_target(known[name], link)[0] for link in _links(known[name])]
    return [f"{name}: no page leads to it" for name in sorted(known.keys() - seen)]


# Commands.


def _lines(page: Page) -> Iterator[str]:
    """The commands on a page: `sh` blocks, lines after a $ in `console` blocks, and code spans.

    A span that is only the name of a verb, such as `schedline gate`, is not a command.
    """
    for language, block in _FENCE.findall(page.text):
        text = block.replace("\\\n", " ")
        if language == "sh":
            yield from (line for line in text.splitlines() if line.strip() and not line.startswith("#"))
        elif language == "console":
            yield from re.findall(r"^\$ (.+)$", text, re.M)
    for span in re.findall(r"`([^`]+)`", page.prose):
        if re.match(r"(schedline|make|git) \S", span) and tuple(span.split()[1:]) not in verbs_below(_parser()):
            yield " ".join(span.split())


def _simple(line: str) -> Iterator[list[str]]:
    """The simple commands of a shell line, without redirections and variable settings."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    waiting = list(lexer)
    for number, word in enumerate([*waiting, ";"]):
        if set(word) <= set(";|&()"):
            if words:
                yield words
            words = []
        elif not (set(word) <= set("<>") or (number and set(waiting[number - 1]) <= set("<>"))) and (
            words or not re.match(r"\w+=|(sudo|then|if)$", word)
        ):
            words.append(word)


@functools.cache
def _recipe(words: tuple[str, ...]) -> tuple[str, ...]:
    """The commands that our Makefile would run; begins with `make:` if it rejects the words."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    argv = ["make", "-n", "--no-print-directory", "-C", str(PROJECT), *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        return (f"make: {done.stderr.strip()}",)
    return tuple(done.stdout.replace("\\\n", " ").splitlines())


def _of_us(line: str) -> Iterator[list[str]]:
    """The words of each schedline command in a shell line, or ["make: ..."] if make rejects it."""
    for words in _simple(line):
        if words[:3] == ["git", "bisect", "run"] and words[3:]:
            words = words[3:]
        program = words[0].rpartition("/")[2]
        if program == "schedline":
            yield words[1:]
        elif words[0] == "make" and "-C" not in words:  # with -C it is a kernel's make
            for step in _recipe(tuple(words[1:])):
                if step.startswith("make: "):
                    yield [step]
                elif "scripts/schedline" in step:
                    yield from _of_us(step)
        else:
            for word in words[1:]:
                if re.match(r"(git .*\| )?schedline ", word):
                    yield from _of_us(word)


def commands(root: Path) -> Iterator[tuple[Page, str, list[str]]]:
    for page in pages(root).values():
        for line in _lines(page):
            for words in _of_us(line):
                yield page, line, words


_parser = functools.cache(parser)


def _refused(words: Sequence[str]) -> str:
    """Why the command line is rejected; empty if it is accepted."""
    said = io.StringIO()
    try:
        with redirect_stderr(said), redirect_stdout(said):
            arguments = _parser().parse_args(words)
            arguments.read(arguments)
    except SystemExit as ended:
        return said.getvalue().partition("\n  next: ")[0] if ended.code else ""
    except SchedlineError as error:
        # A page creates this directory with one command and reads it with the next. In the scene it already exists.
        return "" if "premerge-out has premerge.json" in error.observed else str(error)
    return ""


def wrong_commands(root: Path) -> list[str]:
    """Commands that do not parse. The files that they read are those of the scene."""
    found = (
        (page, line, words[0] if words[:1] and words[0].startswith("make: ") else _refused(words))
        for page, line, words in commands(root)
    )
    return [f"{page.name}: {line}: {reason}" for page, line, reason in found if reason]


def verbs_below(
    top: argparse.ArgumentParser, before: tuple[str, ...] = ()
) -> dict[tuple[str, ...], argparse.ArgumentParser]:
    found = {before: top} if before else {}
    for name, verb, _ in verbs_of(top):
        found |= verbs_below(verb, (*before, name))
    return found


def unnamed_verbs(root: Path) -> list[str]:
    shown = {tuple(words[:length]) for _, _, words in commands(root) for length in range(1, len(words) + 1)}
    return [f"no page shows schedline {' '.join(verb)}" for verb in verbs_below(_parser()) if verb not in shown]


# Form and content.


def too_long(root: Path) -> list[str]:
    """A README that is too long for a first page, and pages that nobody reads to their end; words as `wc -w` counts."""
    words = {name: len(page.text.split()) for name, page in pages(root).items()}
    counts = (
        ("README.md has", words["README.md"], MOST_WORDS),
        ("all pages have", sum(words.values()), MOST_WORDS_OF_DOCS),
    )
    return [f"{what} {count} words, more than {most}" for what, count, most in counts if count > most]


def missing_files(root: Path) -> list[str]:
    """Project files that a page names but that do not exist; <word> stands for anything."""
    named = ((page.name, name) for page in pages(root).values() for name in _NAMED.findall(page.text))
    patterns = ((page, name, re.sub(r"<[\w-]*>", "*", name).rstrip(".-/")) for page, name in named)
    return [f"{page}: there is no {name}" for page, name, pattern in patterns if not any(root.glob(pattern))]


def unheld_claims(root: Path) -> list[str]:
    """Paragraphs and tables of README that name no test which holds them, and tests that do not exist.

    A comment `<!-- held by: tests/FILE.py::TEST ... -->` names the tests of all that stands between it and the heading
    or the comment before it.
    """
    text = (root / "README.md").read_text()
    wrong = []
    for named in re.findall(r"<!-- held by: (.+?) -->", text):
        for each in named.split():
            file, _, test = each.partition("::")
            path = root / "scripts" / file
            if not path.is_file() or not re.search(rf"^def {re.escape(test)}\(", path.read_text(), re.M):
                wrong.append(f"README.md: there is no {each}")
    for section in re.split(r"^#+ .*$", _FENCE.sub("", text), flags=re.M):
        claims = re.sub(r"<!-- (?!held by: ).*?-->", "", section.rpartition("<!-- held by: ")[2].partition("-->")[2])
        rest = section if "<!-- held by: " not in section else claims
        if rest.strip():
            wrong.append(f"README.md: no test holds: {' '.join(rest.split())[:60]}")
    return wrong


CHECKS: tuple[Callable[[Path], list[str]], ...] = (
    broken_links,
    lost_pages,
    wrong_commands,
    unnamed_verbs,
    too_long,
    missing_files,
    unheld_claims,
)

PATCH = "--- a/kernel/sched/sched.h\n+++ b/kernel/sched/sched.h\n@@ -1 +1 @@\n-x\n+y\n"

_KERNEL = ("Kbuild", "kernel/sched/sched.h", "lib/kunit/test.c", "kernel/sched/build_policy.c")

_EMPTY = """
.git/HEAD .lava-token a.tar.gz a/Image a/vmlinux after/c2c.json again/base/1.json again/candidate/1.json b.tar.gz
b/Image b/vmlinux balance.trace base.trace base/c2c.json before/c2c.json board.toml build/vmlinux
campaign/fleet/one/base/1.json campaign/plan.json campaign/runs/base/1.json campaign/runs/candidate/1.json
candidate/c2c.json configs/gates/default.toml console.log designs.toml docs/recorded/campaign/base/boots.csv
docs/recorded/campaign/candidate/boots.csv fleet/one/base/1.json gate.json gates/7.4.json linux-base/Makefile
linux/.git/HEAD linux/Makefile measured/c2c.json measured/measured.json mine/timer_base.toml moved.toml
my-files/data objects.json output/logs.yaml predicted/c2c.json premerge-out/premerge.json report.txt
results/base/1.json results/candidate/1.json results/rt/1.json rpi-4.dtb rt.trace runs/6.12/1.json runs/7.3/1.json
runs/base/1.json runs/candidate/1.json runs/placebo/1.json samples.txt server suggested.patch types.txt wakeup.trace
fork.trace switch.trace throttle.trace
with/c2c.json without/c2c.json
"""
_PATCHES = ("my-diffs/a.diff", "my.patch", "pad.patch", "0001-sched.patch", "series.mbox")

SCENE = {
    **{f"{tree}{name}": "" for tree in ("", "linux/", "linux-base/") for name in _KERNEL},
    **dict.fromkeys(_EMPTY.split(), ""),
    **dict.fromkeys(_PATCHES, PATCH),
    "lines.svg": "<svg xmlns='http://www.w3.org/2000/svg'/>",
    "kunit/tests.txt": "suite:case\n",
    "my.config": "CONFIG_SMP=y\n",
    "my.sh": "echo\n",
}
"""The files that the pages' commands read."""


class _Stdin:
    """A standard input that returns the patch on every read."""

    @property
    def buffer(self) -> io.BytesIO:
        return io.BytesIO(PATCH.encode())


@pytest.fixture(autouse=True)
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home directory, also the current directory, with the files for the commands; and a patch on standard input."""
    home = tmp_path / "home"
    write_files(home, SCENE)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home)
    monkeypatch.setattr("sys.stdin", _Stdin())


def examples() -> list[str]:
    texts = [_parser().format_help(), *(verb.format_help() for verb in verbs_below(_parser()).values())]
    lines = re.findall(r"^ +(?:.* \| )?(?:git bisect run )?(schedline .*)$", "\n".join(texts), re.M)
    found = {re.split(r"\s{2,}| # ", line)[0] for line in lines}
    # A line with words in capitals is only a pattern. A run that continues needs the plan of an earlier one.
    return sorted(line for line in found if not re.search(r"\b(?:VERB|FILE|DIR)\b|^schedline run --out", line))


def test_every_example_of_help_can_be_run_so() -> None:
    found = {line: _refused(shlex.split(line)[1:]) for line in examples()}
    assert len(found) > 60
    assert {line: said for line, said in found.items() if said} == {}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_pages(check: Callable[[Path], list[str]]) -> None:
    assert not check(PROJECT)


def test_readme_has_the_figures_of_the_mails() -> None:
    text = " ".join((PROJECT / "README.md").read_text().split())
    mails = tomllib.loads((PROJECT / "configs/changes.toml").read_text())
    for change, said in (
        ("rd-lines", "`rd-lines` moves these fields apart: in its mail, FFmpeg got 5 % more frames per second"),
        ("cpupri-lines", "and 11 % more with the patch `cpupri-lines`"),
    ):
        gain = mails[change]["gain"]
        (percent,) = re.findall(r"reach (\d+ %) more frames per second", gain)
        assert "480 CPUs" in gain and "FFmpeg" in gain and percent in said and said in text


def test_the_sample_of_thresholds_has_the_words_of_the_programs() -> None:
    page = pages(PROJECT)["docs/thresholds.md"].text
    (sample,) = (block for block in re.findall(r"```text\n(.*?)```", page, re.S) if block.startswith("ok "))
    program = (PROJECT / "selftests/sched_latency/sched_latency.c").read_text()
    for said in (" on any machine", " sessions", "sessions differ too much: only +"):
        assert said in program and said in sample, said


def test_readme_says_where_it_was_measured() -> None:
    assert "measured on 2 CPUs and in emulation" in " ".join((PROJECT / "README.md").read_text().split())
    for name, page in pages(PROJECT).items():
        if name.startswith("docs/results/"):
            machines = re.findall(r"(?:machine|it) with (\d+) CPUs", page.text)
            assert set(machines) <= {"2"}, name


SMALL = {
    "README.md": "# Small\n\n```sh\nmake check\n```\n\n[a page](docs/page.md) [rules](docs/contracts.md#the-rules)\n\n"
    "<!-- held by: tests/test_a.py::test_a -->\n",
    "CONTRIBUTING.md": "# Contributing\n\n```sh\nmake quick K=judge\n```\n",
    "docs/page.md": "# Page\n\n```sh\nschedline check --kdir ~/linux   # it's yours\n```\n\n"
    "[figures](results/figures.md) [more](../CONTRIBUTING.md) `configs/<kind>/a.toml`\n",
    "docs/contracts.md": "# Rules\n\n```sh\nschedline layout explain Q3\n```\n\n"
    "## The rules\n\n| `rq-order.Q3` | x |\n",
    "docs/results/figures.md": "# Figures\n\n```sh\nschedline c2c\n```\n",
    "configs/some/a.toml": "",
    "scripts/tests/test_a.py": "def test_a() -> None: ...\n",
}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A project without flaws, except that it does not show every verb."""
    write_files(tmp_path / "small", SMALL)
    return tmp_path / "small"


@pytest.mark.parametrize(
    "check", [each for each in CHECKS if each is not unnamed_verbs], ids=lambda each: each.__name__
)
def test_small_project(check: Callable[[Path], list[str]], small: Path) -> None:
    assert not check(small)


def test_verbs_that_no_page_shows(small: Path) -> None:
    lacking = unnamed_verbs(small)
    assert "no page shows schedline gate" in lacking and "no page shows schedline dev mutants" in lacking
    assert "no page shows schedline layout emit" in lacking
    assert not {"no page shows schedline check", "no page shows schedline dev quick"} & set(lacking)


FLAWS: tuple[tuple[Callable[[Path], list[str]], str, str, str], ...] = (
    (broken_links, "docs/page.md", "[x](nothing.md)", "there is no docs/nothing.md"),
    (broken_links, "docs/page.md", "[x](contracts.md#no-rules)", "has no heading #no-rules"),
    (broken_links, "docs/page.md", "[x](#nothing)", "has no heading #nothing"),
    (lost_pages, "docs/lost.md", "# Lost", "docs/lost.md: no page leads to it"),
    (wrong_commands, "docs/page.md", "```sh\nschedline check --kdri x\n```", "Did you mean --kdir?"),
    (wrong_commands, "docs/page.md", "```sh\nmake check SERIE=6.12\n```", "--serie"),
    (wrong_commands, "docs/page.md", "```sh\nmake chek\n```", "make: "),
    (
        wrong_commands,
        "docs/page.md",
        "```sh\nschedline gate runs/base nowhere\n```",
        "nowhere: no such file or directory",
    ),
    (wrong_commands, "docs/page.md", "```sh\ngit show | \\\n  schedline layout --patc -\n```", "no option '--patc'"),
    (wrong_commands, "docs/page.md", "```sh\ngit config x 'schedline layout --patc -'\n```", "no option '--patc'"),
    (wrong_commands, "docs/page.md", "```sh\nschedline gate\n```", "no directory of runs was named"),
    (wrong_commands, "docs/page.md", "Use `schedline report`.", "'report'"),
    (wrong_commands, "docs/page.md", "```sh\ngit bisect run schedline check --bisekt\n```", "--bisekt"),
    (wrong_commands, "docs/page.md", "```console\nsome output\n$ schedline chek\n```", "'chek'"),
    (wrong_commands, "docs/page.md", "Use `schedline fetch --series\n5.4`.", "there is no series '5.4'"),
    (wrong_commands, "docs/page.md", "Use `schedline premerge --kdir .`.", "premerge needs"),
    (too_long, "README.md", "word " * 700, "more than 700"),
    (too_long, "docs/page.md", "word " * 25_000, "more than 25000"),
    (missing_files, "docs/page.md", "See configs/some/b.toml.", "there is no configs/some/b.toml"),
    (missing_files, "docs/page.md", "See `configs/other/<name>.toml`.", "there is no configs/other/<name>.toml"),
    (unheld_claims, "README.md", "It is fast.", "no test holds: It is fast."),
    (unheld_claims, "README.md", "It is fast. <!-- held by: tests/test_x.py::test_x -->", "there is no tests/test_x"),
)


@pytest.mark.parametrize(("check", "name", "flaw", "said"), FLAWS, ids=[f"{row[0].__name__}-{row[3]}" for row in FLAWS])
def test_flaw_is_found(check: Callable[[Path], list[str]], name: str, flaw: str, said: str, small: Path) -> None:
    path = small / name
    before = path.read_text() if path.exists() else ""
    path.write_text(f"{before}\n{flaw}\n")
    (wrong,) = check(small)
    assert said in wrong
