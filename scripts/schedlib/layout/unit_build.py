# SPDX-License-Identifier: GPL-2.0
"""Compiles single units as make would, with the command that make recorded, for a commit that need not be checked out.

make takes seconds to find that there is nothing to do, and compiles all that reads a header. It runs only when
something may have changed that it makes: Kconfig, a Makefile, or a header that is generated.

A structure depends on the types that it contains, and on those alone: what it only points to may change. So a file
with these declarations gives the same layout as the whole file, and compiles in milliseconds.
"""

from __future__ import annotations

import os
import re
import shlex
from bisect import bisect
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from hashlib import sha256
from itertools import accumulate, chain, takewhile
from os.path import normpath
from pathlib import Path
from typing import NamedTuple

import msgspec

from schedlib.cache import lock, scratch, write_atomic
from schedlib.git import blob, git, try_git
from schedlib.kernel.build import make_as_configured
from schedlib.kernel.kconfig import is_configured
from schedlib.layout.compile import RECORD, UNLINKED, Column, column_directory, compiler_of
from schedlib.process import run
from schedlib.progress import step
from schedlib.tree.kernel_tree import Tree, checked_out, last_checked_out

_BOUNDS = "kernel/bounds.c"
"""What it makes is the one generated header that types depend on."""

OPAQUE = "SCHEDLINE_OFFSET_"
"""Begins what offsets in generated headers are called: a type that depends on one is left to make."""

_MOST = 300
"""More files than this are checked out."""

_CODE = re.compile(r"\.(?:[chS]|rst|txt)$|^Documentation/|^MAINTAINERS$")
_GENERATES = re.compile(
    r"^(?:scripts|tools|usr|include/config|include/generated)/|^arch/[^/]+/(?:tools|boot|entry)/|/cpufeatures\.h$|"
    r"(?:^|/)(?:asm-offsets|rq-offsets|bounds)\.c$"
)

_LITERAL = r'"(?:[^"\\\n]|\\.)*"|' + r"'(?:[^'\\\n]|\\.)*'"
"""A string or a character."""

_NESTED = reduce(lambda inner, _: rf"\((?:[^()]|{inner})*\)", range(11), r"\([^()]*\)")
"""Parentheses, twelve deep."""

_ATTRIBUTE = re.compile(rf"\b__attribute__\s*{_NESTED}")

_TAGGED = re.compile(r"\b((?:struct|union|enum)\s+\w+)\s*\{")
_ENUM = re.compile(r"\benum\b[^{};()]*\{([^{}]*)\}")
_ENUMERATOR = re.compile(r"(?:^|,)\s*([A-Za-z_]\w*)")
_MENTIONED = re.compile(r"\b(?:struct|union|enum)\s+(\w+)(\s*\*)?|\b([A-Za-z_]\w*)")
_LOOKED_INTO = re.compile(r"\b(?:struct|union)\s+(\w+)\s*\*\s*\)")
"""`((struct x *)0)->member`: the size of a member, written as if behind a pointer."""

_ARRAY = re.compile(r"[^{(=]*\b(\w+)\s*\[[^]=]*\]\s*=")
"""An array that is filled in the same line: its size may be asked for."""

_NAMES = re.compile(r"\s*(?:__extension__\s+)?(?:typedef\b|(?:(?:static|extern|const)\s+)*(?:struct|union)\s*\{)")
"""Begins a typedef, or a variable whose type has no name."""

_MEASURES = re.compile(r"\b(?:sizeof|_*typeof\w*|_*[aA]lign[oO]f\w*|__builtin_\w+)\b")
_EDGE = re.compile(rf"\{{|\}}|;|{_LITERAL}")
"""As a branch of single characters, which `re` searches in half of the time that it needs for a set among strings."""
_MARKER = re.compile(r'^# \d+ "([^"\n]*)".*\n', re.M)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\\\n]|\\(?:.|\n))*", re.M)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*(?:define|(undef))[ \t]+(\w.*)\n", re.M)
_NO_TYPE = re.compile(r"^[ \t]*#[ \t]*(?:\d|include|error|warning).*\n", re.M)
_ABOVE = re.compile(r"(?:#.*\s+)+")
_PRAGMA = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+(?!once)(.*)", re.M)

MOST_NAMES = 300
"""What means something else is not followed further than to so many names."""


def only_code(files: Iterable[str]) -> bool:
    """Whether a change of some files leaves the configuration, all commands and most generated headers as they are."""
    return all(_CODE.search(file) and not _GENERATES.search(file) for file in files)


@lru_cache(maxsize=16)
def differing(tree: Tree, one: str, other: str) -> Mapping[str, str]:
    """The files in which two commits differ, and the git object that the other has; empty for a file that it lacks."""
    if one == other:
        return {}
    words = git(tree.src, "diff-tree", "-r", "-z", "--no-renames", "--no-abbrev", one, other).split("\0")
    rows = zip(words[::2], words[1::2], strict=False)
    return {name: content if (content := row.split()[3]).strip("0") else "" for row, name in rows}


def lay_out(src: Path, changed: Mapping[str, bytes | None], place: Path) -> Path:
    """A directory that shows a source tree with some files changed; None is one that is gone."""
    if not changed:
        return src
    # A link of less than 60 bytes needs no block of its own on ext4: it is made in a tenth of the time.
    (tree := place.with_name("tree")).symlink_to(src)
    _link(f"../{tree.name}", place)
    for name, data in changed.items():
        above = place
        for part in Path(name).parts[:-1]:
            above /= part
            if above.is_symlink():
                real = above.readlink()
                above.unlink()
                _link(f"../{real}", above)
            above.mkdir(exist_ok=True)
        file = place / name
        file.unlink(missing_ok=True)
        if data is not None:
            file.write_bytes(data)
    for above in {(place / name).parent for name in changed if name.endswith(".h") and "include/" not in name}:
        _open_below(above)
    return place


def _link(real: str, place: Path) -> None:
    """Make a directory of links to the entries of another one, named as from within."""
    place.mkdir(parents=True)
    for entry in os.scandir(place / real):
        if entry.name != ".git":
            (place / entry.name).symlink_to(f"{real}/{entry.name}")


def _open_below(directory: Path) -> None:
    """Replace links to directories: from there `#include "../x.h"` would lead to the source without changes."""
    for entry in list(os.scandir(directory)):
        path = directory / entry.name
        if entry.is_symlink() and entry.is_dir() and not (directory / (real := path.readlink())).is_symlink():
            path.unlink()
            _link(f"../{real}", path)
        if path.is_dir() and not path.is_symlink():
            _open_below(path)


@dataclass(frozen=True)
class Bounds:
    """The files that the generated header is made from, and a digest of what is made of them."""

    read: frozenset[str] = frozenset()
    digest: str = ""


@dataclass(frozen=True)
class UnitBuild:
    """A build directory whose generated headers fit a commit, and that commit's source.

    Attributes:
        src: the source; not always the work tree.
        own: the files of src that the work tree does not have like this.
        place: for temporary files.
        command: compiles a unit.
    """

    build: Path
    src: Path
    own: frozenset[str]
    place: Path
    command: tuple[str, ...]
    bounds: Bounds = Bounds()

    def written(self, name: str, text: str) -> Path:
        """A temporary file with some text."""
        source = self.place / f"{name.replace('/', '_')}.c"
        source.write_text(text)
        return source

    def types_of(self, source: Path, names: Collection[str]) -> tuple[str, frozenset[str], frozenset[str]] | None:
        """What decides on types of a file, see type_slice(), the files read for it, and those of them that declare it.

        Returns:
            None if it is left to make.
        """
        target = source.with_suffix(".i")
        read, said = self.call(source, target, "-Wundef", "-E")
        if read is None or OPAQUE in said or (found := type_slice(target.read_text(errors="replace"), names)) is None:
            return None
        text, files = found
        declaring = frozenset(map(self._named, files))
        if OPAQUE in text or not declaring <= read:
            return None
        inside = frozenset(path for path in read if not path.startswith("/"))
        return text, inside, declaring & inside

    def call(self, source: Path, target: Path, *words: str) -> tuple[frozenset[str] | None, str]:
        """The files that the compiler read, and what it said; None if it failed, or read one of another source."""
        listed = target.with_suffix(".d")
        done = run([*self.command, *words, "-MD", "-MF", listed, "-MT", "x", "-o", target, source], cwd=self.build)
        said = done.stderr.decode(errors="replace")
        if done.returncode:
            return None, said
        # A space in a name is behind a backslash.
        found = re.findall(r"(?:\\ |\S)+", listed.read_text(errors="replace"))
        named = {word: self._named(word) for word in (each.replace("\\ ", " ") for each in found)}
        # A `..` behind a link leads to the work tree, which may have another text.
        if any(at in self.own and not (self.src / at).samefile(self.build / word) for word, at in named.items()):
            return None, said
        return frozenset(named.values()), said

    def _named(self, word: str) -> str:
        """A file as the compiler names it, from the top of the source; an absolute path if it is not there."""
        return normpath(self.build / word).removeprefix(f"{self.src}/")

    def whole(self, source: str) -> tuple[str, frozenset[str]]:
        """What is made of a file before it is compiled, with macros, and the files read; empty if that fails."""
        target = self.place / "whole.i"
        read, _ = self.call(self.src / source, target, "-E", "-dD", "-w")
        return ("", frozenset()) if read is None else (target.read_text(errors="replace"), read)

    def said(self, source: str) -> Said | None:
        """The same as it is compared; None if that fails."""
        text, _ = self.whole(source)
        return said(text) if text else None

    @property
    def options(self) -> tuple[str, ...]:
        """What types are compiled with: no warnings, no macros, no directories, no files."""
        omitted = ("-W", "-D", "-I", "-include", "-fmacro-prefix-map=", "-fdebug-prefix-map=")
        pairs = zip(("", *self.command), self.command, strict=False)
        its = (word for before, word in pairs if before not in ("-I", "-include"))
        return tuple(word for word in its if not word.startswith(omitted))

    def compiled(self, source: Path) -> Path | None:
        """The object of a preprocessed file; None if it does not compile."""
        target = source.with_suffix(".o")
        # Strings where they are used need no relocations, which take most of the time to read an object.
        compiler = " ".join(takewhile(lambda word: word[0] != "-", self.command))
        inline = [] if "clang" in compiler else ["-fno-merge-debug-strings"]
        # A width may call a function where it is no constant. Without a declaration that is an error for some.
        lenient = ("-w", "-Wno-implicit-function-declaration")
        done = run([*self.options, *inline, *lenient, "-x", "cpp-output", "-c", "-o", target, source], cwd=self.build)
        return None if done.returncode else target

    def bounds_of(self) -> Bounds | None:
        """What this source makes of the generated header; None if that cannot be told."""
        file, target = self.src / _BOUNDS, self.place / "bounds.s"
        if not file.is_file():
            return Bounds()
        read, _ = self.call(file, target, "-w", "-S")
        # make turns these lines into the header.
        rows = re.findall(r'\.ascii "->.*', target.read_text(errors="replace")) if read else []
        return Bounds(read, sha256("\n".join(rows).encode()).hexdigest()) if read and rows else None


@contextmanager
def unit_build(cache: Path, tree: Tree, commit: str, column: Column) -> Iterator[UnitBuild | None]:
    """A build directory for single units of a commit; None if only make can compile them. It is locked meanwhile.

    Raises:
        Dropped: this architecture cannot have the configuration.
        SchedlineError: no compiler, or nothing builds.
    """
    build = column_directory(cache, tree, column)
    with (
        lock(build.with_name(f"{build.name}.lock")),
        scratch(cache) as place,
        step(f"compiling types for {column.name}"),
    ):
        if recorded := _recorded(build, tree, commit, column):
            there = last_checked_out(tree)
            changed = differing(tree, there, commit) if there else {}
            if not there or len(changed) > _MOST:
                there, changed = commit, {}
            with checked_out(tree, there):
                texts = {name: blob(tree.src, content) if content else None for name, content in changed.items()}
                made = _opened(build, tree, lay_out(tree.src, texts, place / "src"), frozenset(changed), place)
                bounds = made and made.bounds_of()
                if made and bounds and bounds.digest == recorded.digest:
                    yield replace(made, bounds=bounds)
                    return
        with checked_out(tree, commit):
            yield _prepared(build, tree, commit, column, place)


class _Record(msgspec.Struct, frozen=True):
    commit: str
    compiler: str
    bounds: Bounds


def _recorded(build: Path, tree: Tree, commit: str, column: Column) -> Bounds | None:
    """The bounds that make left here, if nothing else that it makes differs for a commit."""
    try:
        record = msgspec.json.decode((build / RECORD).read_bytes(), type=_Record)
    except (OSError, msgspec.MsgspecError):
        return None
    known = not try_git(tree.src, "cat-file", "-e", f"{record.commit}^{{commit}}").returncode
    fits = known and record.compiler == compiler_of(column.arch) and is_configured(build, column.configuration())
    return record.bounds if fits and only_code(differing(tree, record.commit, commit)) else None


def _opened(build: Path, tree: Tree, src: Path, own: frozenset[str], place: Path) -> UnitBuild | None:
    record = build / "kernel/.schedline_flags.o.cmd"
    command = command_of(record.read_text(errors="replace")) if record.is_file() else None
    # A plugin may look at more than the types: it shuffles structures.
    if command is None or any(word.startswith("-fplugin") for word in command):
        return None
    moved = [word.replace(f"{tree.src}/", f"{src}/") for word in command]
    return UnitBuild(build, src, own, place, (moved[0], opaque_headers(build, place), *moved[1:]))


def opaque_headers(build: Path, place: Path) -> str:
    """The option that lets a unit see generated offsets by name only: a type that depends on one shows it."""
    for file in (build / "include/generated").glob("*offsets.h"):
        text = re.sub(r"^#define (\w+) .*", rf"#define \1 {OPAQUE}\1", file.read_text(errors="replace"), flags=re.M)
        write_atomic(place / "opaque/generated" / file.name, text)
    return f"-I{place / 'opaque'}"


def _prepared(build: Path, tree: Tree, commit: str, column: Column, place: Path) -> UnitBuild | None:
    (build / RECORD).unlink(missing_ok=True)
    # A unit that is compiled for its command only.
    write_atomic(build / "kernel/schedline_flags.c", "#include <linux/types.h>\n")
    variables, goals = [f"CROSS_COMPILE={column.arch.compiler}"], [*UNLINKED, "kernel/schedline_flags.o"]
    make_as_configured(tree, build, column.arch.make, column.configuration(), variables, goals)
    made = _opened(build, tree, tree.src, frozenset(), place)
    if made is None or (bounds := made.bounds_of()) is None:
        return None
    write_atomic(build / RECORD, msgspec.json.encode(_Record(commit, compiler_of(column.arch), bounds)))
    return replace(made, bounds=bounds)


def command_of(record: str) -> tuple[str, ...] | None:
    """The command in a file `.unit.o.cmd` that make left, without its files; None if it cannot be read."""
    try:
        first = record.split("\n", 1)[0]
        words = shlex.split(first.partition(" := ")[2].replace("$(pound)", "#").replace("$$", "$"))
    except ValueError:
        return None
    end = next((at for at, word in enumerate(words) if word.startswith(";") or word == "&&"), len(words))
    found = [
        word
        for before, word in zip(("", *words), words[:end], strict=False)
        if before != "-o" and word not in ("-c", "-o") and not word.startswith("-Wp,-M") and not word.endswith(".c")
    ]
    # To a shell `VAR=1 gcc` is a command.
    return (*(["env"] if found and "=" in found[0] else []), *found) or None


class Said(NamedTuple):
    """What a source says, or the output of `gcc -E -dD`.

    Attributes:
        macros: a line for each.
        chunks: the declarations of types, each before what directives above say of it.
    """

    macros: list[str]
    chunks: list[str]


def changed_types(old: str, new: str, others: Iterable[str] = ()) -> list[str]:
    """What means something else in a source, and what depends on that: see changed_names()."""
    now = said(new)
    return changed_names(now if old == new else said(old), now, others)


def changed_names(old: Said, new: Said, others: Iterable[str] = ()) -> list[str]:
    """What means something else, and what depends on that.

    These are "struct rq", "enum names" and words: macros, enumerators, typedefs. What only points to a structure does
    not depend on it.

    Args:
        others: what means something else, too.
    """
    macros, now = new
    lines, code, begins = "\n".join(macros), "".join(now), [0, *accumulate(map(len, now))]
    sides = (set(old.chunks).difference(now), set(now).difference(old.chunks))
    one, other = ({row for chunk in side for row in _meanings(" ".join(chunk.split()))} for side in sides)
    left = [
        *others,
        *(line.split("(")[0].split()[0] for line in {*old.macros} ^ {*macros}),
        *(name for name, _ in one ^ other),
    ]
    found: dict[str, None] = {}
    for name in left:
        if name in found or len(found) == MOST_NAMES:
            continue
        found[name] = None
        for at in mentions(lines, name):
            left += re.findall(r"\w+", lines[lines.rfind("\n", 0, at) + 1 : at])[:1]
        for place in {bisect(begins, at) - 1 for at in mentions(code, name)}:
            left += [each for each, _ in _meanings(now[place])]
    return list(found)


def said(text: str) -> Said:
    """Read a source, or the output of `gcc -E -dD`."""
    text = text.replace("\\\n", " ")
    code = _NO_TYPE.sub("", _DEFINE.sub("", text))
    marks = [(0, ""), *((each.start(), each[1]) for each in _PRAGMA.finditer(code))]
    chunks = (
        (at + len(part), part)
        for at, part in _declarations(code, raw="#if" in code)
        if "{" in part or "typedef" in part
    )
    macros = [" ".join(row[::-1]) for row in _DEFINE.findall(text)]
    rows = ((part, above[0] if (above := _ABOVE.match(part)) else "", end) for end, part in chunks)
    its = [f"{part[len(above) :]} {above} {marks[bisect(marks, (end,)) - 1][1]}\n" for part, above, end in rows]
    return Said(macros, its)


def _meanings(chunk: str) -> list[tuple[str, str]]:
    """What a declaration defines, and the text that decides on it."""
    bare = _ATTRIBUTE.sub(" ", chunk) if "__attribute__" in chunk else chunk
    tags, words, enumerators = _defined(bare)
    ends = ((name, re.search(rf"\b{name}\b[^,}}]*", chunk)) for name in enumerators)
    return [*((name, chunk) for name in (*tags, *words)), *((name, chunk[: end.end()]) for name, end in ends if end)]


def mentions(text: str, name: str) -> Iterator[int]:
    """Where a text has a word, or a structure and no pointer to it."""
    word, at = re.compile(rf"\b{name}\b" + (r"(?!(?:\s|const\b|__\w+)*\*)" if " " in name else "")), text.find(name)
    while at >= 0:
        if word.match(text, at):
            yield at
        at = text.find(name, at + len(name))


def _defined(bare: str) -> tuple[list[str], list[str], list[str]]:
    """The tags that a declaration defines, such as "struct rq", other names of types and variables, and enumerators."""
    enums = _ENUM.findall(bare) if "enum" in bare else []
    words = _typedef_names(bare) if _NAMES.match(bare) else []
    return _TAGGED.findall(bare), words, [name for body in enums for name in _ENUMERATOR.findall(body)]


def type_slice(preprocessed: str, names: Collection[str]) -> tuple[str, frozenset[str]] | None:
    """The declarations that decide on the layout of some types, and the files that the compiler names for them.

    Args:
        preprocessed: the output of `gcc -E`.
        names: of structures and types. One that is not declared there is left out.

    Returns:
        None if that cannot be told.
    """
    if re.search(r"^#\s*pragma\s+(?:pack|scalar_storage_order|GCC\s+(?:target|optimize))\b", preprocessed, re.M):
        return None
    first, *marked = _MARKER.split(preprocessed)
    pieces = [re.sub(r"^#.*\n", "", piece, flags=re.M) for piece in (first, *marked[1::2])]
    files, begins = ["", *marked[::2]], [0, *accumulate(map(len, pieces))]
    chunks = [(at, part) for at, part in _declarations("".join(pieces)) if "{" in part or "typedef" in part]
    by_tag, by_word, by_array = (defaultdict[str, list[int]](list) for _ in range(3))
    for at, (_, chunk) in enumerate(chunks):
        bare = _ATTRIBUTE.sub(" ", chunk) if "__attribute__" in chunk else chunk
        tags, *words = _defined(bare)
        for tag in tags:
            by_tag[tag.split()[-1]].append(at)
        for word in chain(*words):
            by_word[word].append(at)
        if array := _ARRAY.match(bare):
            by_array[array[1]].append(at)
    wanted: set[int] = set()
    left = [at for name in names for found in (by_tag, by_word) for at in found.get(name, ())]
    while left:
        if (at := left.pop()) in wanted:
            continue
        wanted.add(at)
        chunk = chunks[at][1]
        measures = _MEASURES.search(chunk)
        for tag, pointer, word in _MENTIONED.findall(chunk):
            if tag and not pointer:
                left += by_tag.get(tag, ())
            elif word:
                left += by_word.get(word, ())
            if word and measures:
                left += by_array.get(word, ())
        if measures:
            left += [each for tag in _LOOKED_INTO.findall(chunk) for each in by_tag.get(tag, ())]
    ordered = [chunks[at] for at in sorted(wanted)]
    # A header may be included inside of a declaration.
    places = (range(bisect(begins, at) - 1, bisect(begins, at + len(chunk) - 1)) for at, chunk in ordered)
    named = frozenset(files[place] for its in places for place in its)
    # Blank lines are where comments were.
    return "".join(re.sub(r"\s*\n\s*", "\n", f"{chunk}\n") for _, chunk in ordered), named


def reaches(old: str, new: str, is_declaring: bool) -> bool:
    """Whether a change of a file, which may declare what some types depend on, may change them. No means no."""
    return is_declaring or _DIRECTIVE.findall(old) != _DIRECTIVE.findall(new)


def _declarations(text: str, *, raw: bool = False) -> Iterator[tuple[int, str]]:
    """Declarations, but for functions, in order: where each begins, and its text.

    `raw`: both branches of an #if are there, which may open a brace twice; one at the begin of a line closes all.
    """
    depth, start, brace = 0, 0, -1
    for match in _EDGE.finditer(text):
        at, sign = match.start(), match[0]
        if sign == "{":
            brace = at if brace < 0 else brace
            depth += 1
        elif sign == "}":
            depth = 0 if raw and text[at - 1 : at] == "\n" else depth - 1
            # A function ends with its body.
            if not depth and _ATTRIBUTE.sub(" ", text[start:brace]).rstrip().endswith(")"):
                start, brace = at + 1, -1
        elif sign == ";" and not depth:
            part = text[start : at + 1]
            yield start + len(part) - len(part.lstrip()), part.strip()
            start, brace = at + 1, -1


def _typedef_names(bare: str) -> list[str]:
    bare = _without(r"\{[^{}]*\}", bare).partition(";")[0]
    if pointer := re.search(r"\(\s*\*+\s*(?:const\s+)?(\w+)\s*(?:\[[^]]*\]\s*)?\)", bare):
        return [pointer[1]]
    bare = _without(r"\([^()]*\)|\[[^][]*\]", bare)
    return [words[-1] for part in bare.split(",") if (words := re.findall(r"[A-Za-z_]\w*", part))]


def _without(pattern: str, text: str) -> str:
    """A text without what matches, from the inside to the outside."""
    while (less := re.sub(pattern, " ", text)) != text:
        text = less
    return text
