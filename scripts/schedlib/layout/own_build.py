# SPDX-License-Identifier: GPL-2.0
"""`schedline layout --patch` in a kernel tree that its owner has built: with the commands that kbuild left there.

Nothing is written into the tree or its build. A tree with a patch is a directory of links, with the files
that differ.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from os.path import normpath
from pathlib import Path
from typing import ClassVar

from schedlib.contracts.contract_rules import Rules
from schedlib.contracts.struct_source import without_comments
from schedlib.errors import DoesNotBuild, SchedlineError
from schedlib.git import git, try_git
from schedlib.kernel.kconfig import parse_config
from schedlib.layout.compile import Column
from schedlib.layout.kernel_text import KernelText, declared_in, text_of_directory
from schedlib.layout.layout_options import ColumnOptions, InitOptions, LayoutOptions
from schedlib.layout.pack_units import CompiledStructs, Unit, from_types, joined, read_unit, units_of
from schedlib.layout.patch_coverage import Followed, Texts, depending, follow, of_kernel
from schedlib.layout.patch_findings import Finding, as_it_was
from schedlib.layout.patch_text import chosen_index
from schedlib.layout.rule_judge import Layout
from schedlib.layout.unit_build import (
    MOST_NAMES,
    Said,
    UnitBuild,
    changed_types,
    command_of,
    lay_out,
    opaque_headers,
    reaches,
)
from schedlib.options import ChangeOptions
from schedlib.process import run, workers
from schedlib.tree.kernel_tree import applied_tree, file_row

_USUAL = ("kernel/fork.o", "kernel/sched/core.o", "init/main.o", "net/core/dev.o", "mm/memcontrol.o", "block/blk-mq.o")
"""Objects whose commands serve for public headers; if they are not built, any other of the kernel does."""

OURS = "--arch x86_64"
"""The option that asks for schedline's own configurations where a tree was built."""

_LEFT_OUT = ("-fplugin", "-gsplit-dwarf", "-gz", "-flto", "-fsanitize=kcfi", "-Werror")
"""Begins options that say nothing of layouts, and that put types or code elsewhere, or end at a warning."""

_MOST_OTHERS = 200
"""So many files of a commit may differ in the work tree, whose build is used."""

_Both = tuple[CompiledStructs, CompiledStructs]
"""What a unit shows without and with a patch."""

Sources = Mapping[str, tuple[bytes | None, bytes | None]]
"""Files without and with a patch; None if there is none."""


def chosen_build(options: LayoutOptions | InitOptions) -> OwnBuild | None:
    """The build that the options name, or the one in the tree; None if there is none, or a configuration is named."""
    tree, build = options.tree.kdir, options.build
    ours = (options.columns, options.changes) != (ColumnOptions(), ChangeOptions())
    if ours or tree is None or not tree.is_dir():
        return None
    found = OwnBuild(tree.resolve(), (build or tree).resolve())
    if record := found.any_record():
        source = found.source_of(record)
        if source != found.tree:
            raise SchedlineError(f"{found.build} was built from {source}, not from {tree}", f"add --kdir {source}")
        return found
    if build:
        raise SchedlineError(
            f"{build} holds no build of {tree}", f"make O={build} kernel/sched/core.o, or drop --build"
        )
    return None


@dataclass(frozen=True)
class OwnBuild:
    """A kernel tree, and the directory where make was called for it, or which O= named."""

    tree: Path
    build: Path

    @cached_property
    def config(self) -> Mapping[str, str]:
        """Its Kconfig values."""
        file = self.build / ".config"
        return parse_config(file.read_text(errors="replace")) if file.is_file() else {}

    def knows(self, option: str) -> bool:
        """Whether some Kconfig file of the tree has an option."""
        pattern = rf"^[[:space:]]*(menu)?config {option.removeprefix('CONFIG_')}$"
        return not try_git(self.tree, "grep", "--no-index", "-qE", pattern, "--", "*Kconfig*").returncode

    def record_of(self, unit: str) -> Path | None:
        """What kbuild left about an object, such as kernel/fork.o; None if it is not built."""
        record = (self.build / unit).with_name(f".{Path(unit).name}.cmd")
        return record if record.is_file() else None

    def beside(self, file: str) -> list[Path]:
        """The same of all objects in the directory of a file."""
        return sorted((self.build / file).parent.glob(".*.o.cmd"))

    def any_record(self) -> Path | None:
        """The same of some object of the kernel; None if there is none. `make defconfig` builds host programs alone."""
        usual = next(filter(None, map(self.record_of, _USUAL)), None)
        others = (each for depth in ("*", "*/*") for each in self.build.glob(f"{depth}/.*.o.cmd"))
        return usual or next((each for each in others if "-D__KERNEL__" in self._text(each)), None)

    def record_for(self, file: str) -> Path | None:
        """The same of an object that was made from a file of the tree; None if none is built."""
        if file.endswith(".c") and (record := self.record_of(f"{file[:-2]}.o")):
            return record
        if file.startswith("include/"):
            return self.any_record()
        records: Iterable[Path] = filter(None, map(self.record_of, _USUAL))
        # No object lies beside the headers of an architecture.
        if not re.match(r"arch/\w+/include/", file):
            here = (self.build / file).parent
            # An object below the directory above, as kernel/sched/core.o reads kernel/workqueue_internal.h.
            above = here.parent if "/include/" in file else here
            records = chain(self.beside(file), records, sorted(above.glob("*/.*.o.cmd")))
        return next((each for each in records if file in self.read_by(each)), None)

    def readers_of(self, file: str) -> dict[str, Path]:
        """What kbuild left of some objects that were made from a file, by their .c files; all of _USUAL that were."""

        def reading(records: Iterable[Path]) -> Iterator[tuple[str, Path]]:
            found = ((self._source(each)[1], each) for each in records)
            return ((source, each) for source, each in found if file in {*self.read_by(each), source})

        usual = dict(reading(filter(None, (self.record_for(file), *map(self.record_of, _USUAL)))))
        return usual or dict(islice(reading(self._naming(file)), 1))

    def _naming(self, file: str) -> Iterator[Path]:
        """The same of each object that may have been made from a file, those that boot a kernel last."""
        done = run(["grep", "-rlF", "--include=.*.o.cmd", file, "."], cwd=self.build)
        found = sorted(map(os.fsdecode, done.stdout.splitlines()), key=lambda name: (name.startswith("./arch/"), name))
        yield from (each for name in found if "-D__KERNEL__" in self._text(each := self.build / name))

    @cached_property
    def _texts(self) -> dict[Path, str]:
        return {}

    def _text(self, record: Path) -> str:
        if record not in self._texts:
            self._texts[record] = record.read_text(errors="replace")
        return self._texts[record]

    def read_by(self, record: Path) -> frozenset[str]:
        """The files of the tree that an object was made from."""
        text, top = self._text(record), self._source(record)[0]
        return frozenset(normpath(word.removeprefix(top)) for word in re.findall(r"^[ \t]+([^\s$]+)", text, re.M))

    def _source(self, record: Path) -> tuple[str, str]:
        """How an object's command spells the tree: "", or "../", or an absolute path with a slash; and its .c file."""
        source = re.search(r"^source_(\S+)\.[os] := (\S+)", self._text(record), re.M)
        top = source[2].partition(source[1])[0] if source else ""
        return top, source[2].removeprefix(top) if source else ""

    def source_of(self, record: Path) -> Path:
        """The tree that an object was made from."""
        return (self.build / self._source(record)[0]).resolve()

    def unit_build(self, record: Path, src: Path, place: Path, own: Collection[str]) -> UnitBuild:
        """Compiles units with an object's command, for another source."""
        command, top = command_of(self._text(record)), self._source(record)[0]
        if command is None:
            raise SchedlineError(f"{record} holds no command that can be read", "make the object again")
        command = tuple(word for word in command if not word.startswith(_LEFT_OUT))
        moved = [_moved(word, before, top, src) for before, word in zip(("", *command), command, strict=False)]
        # In front of the other options, but behind the compiler, which may be `ccache gcc`.
        at = next((number for number, word in enumerate(moved) if word.startswith("-")), len(moved))
        words = (*moved[:at], opaque_headers(self.build, place), *moved[at:], "-g")
        return UnitBuild(src if self.tree == self.build else self.build, src, frozenset(own), place, words)


def _moved(word: str, before: str, top: str, src: Path) -> str:
    """A word of a command, with another directory for the tree. Without `top` its paths are relative anyway."""
    option = next((each for each in ("-I", "-include", "-fmacro-prefix-map=") if word.startswith(each)), "")
    if top and (option or before == "-include") and word.removeprefix(option).startswith(top):
        return f"{option}{src}/{word.removeprefix(option).removeprefix(top)}"
    if top and option and f"{word.removeprefix(option)}/" == top:
        return f"{option}{src}"
    return word


@dataclass(frozen=True)
class Versions:
    """A tree without and with a patch.

    Attributes:
        sources: the files that the patch changes, and those that neither side has as the work tree has them.
        places: for each side a directory for temporary files, and the source.
        pool: where Python reads what compilers wrote: a thread waits for the others.
    """

    own: OwnBuild
    sources: Sources
    places: tuple[tuple[Path, Path], tuple[Path, Path]]
    pool: Executor

    @cached_property
    def changed(self) -> Sources:
        """The files that the patch changes."""
        return {name: both for name, both in self.sources.items() if both[0] != both[1]}

    @cached_property
    def read(self) -> set[str]:
        """The files that units were compiled from."""
        return set()

    columns: ClassVar[Sequence[Column | None]] = (None,)
    pack_columns: ClassVar[Sequence[Column | None]] = (None,)

    @property
    def text(self) -> KernelText:
        """The files of the tree as they lie there."""
        return text_of_directory(self.own.tree)

    @cached_property
    def texts(self) -> Texts:
        """The headers and sources that differ."""
        return {
            name: tuple((data or b"").decode(errors="replace") for data in both)  # type: ignore[misc]
            for name, both in self.changed.items()
            if of_kernel(name)
        }

    @cached_property
    def _renamed(self) -> Mapping[str, str]:
        """Headers that the patch gives another name, which declare what they declared."""
        gone = [name for name, both in self.texts.items() if self.changed[name][1] is None and both[0]]
        new = [name for name in self.texts if self.changed[name][0] is None]
        tags = {name: {*declared_in("".join(self.texts[name]))} for name in (*gone, *new)}
        return {one: other for one in gone for other in new if tags[one] & tags[other]}

    @property
    def is_there(self) -> bool:
        """Whether the tree has the patch already."""
        return all(both[1] == _content(self.own.tree / file) for file, both in self.changed.items())

    @property
    def archs(self) -> frozenset[str]:
        """The directories of arch/ that the build reads."""
        record = self.own.any_record()
        read = self.own.read_by(record) if record else ()
        return frozenset(file.split("/")[1] for file in read if file.startswith("arch/"))

    @cached_property
    def followed(self) -> Followed:
        """What means something else with the patch."""
        return follow(self.texts, self.text.read, self)

    @cached_property
    def _records(self) -> dict[str, Path]:
        """What kbuild left about objects, by their .c files."""
        return {}

    def readers_of(self, file: str) -> Iterable[str]:
        """Some .c files that objects were made from, and a header."""
        found = self.own.readers_of(file)
        self._records.update(found)
        return found

    def read_by(self, source: str) -> Collection[str]:
        """The files that one of these reads."""
        return self.own.read_by(self._records[source])

    def said(self, source: str) -> tuple[Said | None, Said | None]:
        """What one says, with all that it includes, without and with the patch; None if that fails."""
        builds = (self.opened(self._records[source], side) for side in (0, 1))
        one, other = (self.pool.submit(UnitBuild.said, build, source) for build in builds)
        return one.result(), other.result()

    def as_it_was(self) -> Iterator[Finding]:
        """What the build has as it was before the patch."""
        yield from as_it_was(self.changed, self.own.config)
        yield from self._generated()

    def layouts(
        self, column: Column | None, rules: Rules, why: dict[str, str], *, every: bool = False
    ) -> tuple[Layout, Layout] | None:
        """The structures of rules that the patch may change, without and with it; None if there are none.

        Args:
            why: gets the structures that could not be compiled, and the reason.
            every: the others, too.
        """
        del column  # its owner has one
        files = {
            tag: file for tag, file in rules.files.items() if file in self.sources or (self.own.tree / file).is_file()
        }
        made, others = list[Future[_Both | None]](), list[Unit]()
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for unit in units_of(files, rules):
                record = self.own.record_for(unit.files[0])
                if record is None and self._is_new(unit.files[0]):
                    record = next(iter(self.own.beside(unit.files[0])), None)
                if record and (every or self._may_change(unit, record)):
                    made.append(pool.submit(self._compiled, unit, record, rules, why))
                elif record is None:
                    others.append(unit)
            # While these are compiled.
            for unit in others:
                if tags := self._followed_in(unit):
                    why |= dict.fromkeys(tags, f"no object of {self.own.build} is made from {unit.files[0]}: make it")
                    # What a contract is about may compile by the command of another object.
                    if rules.clauses and (record := self.own.any_record()):
                        made.append(pool.submit(self._compiled, unit, record, rules, why))
            seen = [both for each in made if (both := each.result())]
        if not seen:
            return None
        # A new file shows nothing of the tree before, not even this.
        line = max(each.line for pair in seen for each in pair)
        before, after = zip(*seen, strict=True)
        return joined(str(self.own.build), before, line), joined(str(self.own.build), after, line)

    def opened(self, record: Path, side: int) -> UnitBuild:
        """Compiles units with an object's command, without (0) or with (1) the patch."""
        src, above = self.places[side]
        return self.own.unit_build(record, src, Path(tempfile.mkdtemp(dir=above)), self.sources)

    def _followed_in(self, unit: Unit) -> set[str]:
        """The structures of a unit that may change with what means something else."""
        file, names = unit.files[0], self.followed.names
        text = self.text.read(file) or ""
        both = self.texts.get(file, (text, text))
        if len(names) >= MOST_NAMES:
            return set(unit.tags)
        if file not in self.texts and not any(name.split()[-1] in text for name in names):
            return set()
        old, new = map(without_comments, both)
        changed = changed_types(old, new, names)
        return {tag for _, tag in depending(file, both[1], changed) if tag in unit.tags}

    def _compiled(self, unit: Unit, record: Path, rules: Rules, why: dict[str, str]) -> _Both | None:
        """A unit without and with the patch; None if it does not compile, and there is a reason already."""
        known = [tag for tag in unit.tags if tag in why]
        try:
            seen = self._both(unit, record, bool(rules.clauses))
        except DoesNotBuild:
            if known:
                return None
            raise
        for tag in known:
            del why[tag]
        return seen

    def _both(self, unit: Unit, record: Path, has_contract: bool) -> _Both:
        after = replace(unit, files=tuple(self._renamed.get(file, file) for file in unit.files))
        # What a new file declares, or a new structure of this one, nothing has read before.
        is_new = any(both[0] is None for both in self.changed.values()) or not self.texts.keys().isdisjoint(after.files)
        # Without a contract it is looked at because it changes.
        if is_new or not has_contract:
            with ThreadPoolExecutor(2) as pool:
                one, other = pool.map(lambda row: self._seen(row[1], record, row[0], None), enumerate((unit, after)))
            self.read.update(one.read)
            return one, other
        before = self._seen(unit, record, 0, None)
        self.read.update(before.read)
        changed = before.read & self.texts.keys()
        if any(reaches(*self.texts[name], name in before.declaring) for name in changed):
            return before, self._seen(after, record, 1, before)
        return before, before

    def _seen(self, unit: Unit, record: Path, side: int, old: CompiledStructs | None) -> CompiledStructs:
        if all(self.sources.get(file, (b"", b""))[side] is None for file in unit.files):
            return CompiledStructs({})
        build = self.opened(record, side)
        src, place = build.src, build.place
        if found := self.pool.submit(from_types, build, unit, old).result():
            return found
        # The types alone do not tell: a pragma, or the type of a variable. Without the generated offsets by name.
        source = build.written("unit", unit.text(src))
        named = tuple(word for word in build.command if word != opaque_headers(self.own.build, place))
        read, said = replace(build, command=named).call(source, source.with_suffix(".o"), "-w", "-c")
        if read is not None:
            return CompiledStructs(*read_unit(source.with_suffix(".o"), unit), read, read)
        said = said.replace(f"{src}/", "").replace(f"{place}/", "")
        errors = (line for line in said.splitlines() if re.search(": (?:fatal )?error: ", line))
        which = "with" if side else "without"
        raise DoesNotBuild(
            f"{unit.files[0]} does not compile {which} the patch by the command of {record.name}: "
            f"{next(errors, said) or 'it reads a header of the work tree through a link'}",
            f"see whether your tree builds, or add {OURS} for schedline's own configurations",
        )

    def _is_new(self, file: str) -> bool:
        return file in self.sources and self.sources[file][0] is None

    def _may_change(self, unit: Unit, record: Path) -> bool:
        """Whether a unit reads a file that the patch changes, or might read one that it adds."""
        if not self.changed.keys().isdisjoint(unit.files):
            return True
        headers = [name for name in self.changed if name.endswith(".h")]
        if unit.files[0].startswith("include/") or not headers:
            return any("include/" in name for name in headers)
        read, made = self.own.read_by(record), record.stat().st_mtime_ns
        if any(name in read or self._is_new(name) for name in headers) or not read.isdisjoint(self.sources):
            return True
        # What the object would be made from now may differ from what it was made from.
        files = (self.own.tree / name for name in read)
        return any(each.stat().st_mtime_ns > made for each in files if each.is_file())

    def _generated(self) -> Iterator[Finding]:
        """The generated header that types depend on, if the patch may change it."""
        record = self.own.record_of("kernel/bounds.s")
        if record is None or self.changed.keys().isdisjoint(self.own.read_by(record)):
            return
        found = []
        for side in (0, 1):
            made = self.opened(record, side).bounds_of()
            found.append(made.digest if made else "")
        if found[0] != found[1] or not found[0]:
            text = "the patch may change include/generated/bounds.h, and your build has it as it was: "
            yield Finding(
                "kernel/bounds.c", 1, False, "", f"{text}build the patched tree, then use --commit; or {OURS}"
            )


@contextmanager
def patched(own: OwnBuild, patch: bytes, revisions: tuple[str, str] | None) -> Iterator[Versions]:
    """A tree without and with a patch. If it has the patch already, this is the tree, and the tree before it.

    `revisions`: of a git tree, if the patch is the difference of two.
    """
    if own.config.get("CONFIG_RANDSTRUCT") == "y":
        raise SchedlineError(f"{own.build} shuffles structures: CONFIG_RANDSTRUCT", f"add {OURS}, or build without it")
    with workers() as pool, tempfile.TemporaryDirectory(prefix="schedline-") as name:
        scratch = Path(name)
        (scratch / "git").mkdir()
        sources = _sources(own.tree, patch, revisions, scratch / "git")
        sides = []
        for side, which in enumerate(("old", "new")):
            (place := scratch / which).mkdir()
            changed = {file: both[side] for file, both in sources.items() if both[side] != _content(own.tree / file)}
            sides.append((lay_out(own.tree, changed, place / "src"), place))
        yield Versions(own, sources, (sides[0], sides[1]), pool)


def _content(file: Path) -> bytes | None:
    if file.is_symlink():
        return os.fsencode(file.readlink())
    return file.read_bytes() if file.is_file() else None


def _sources(tree: Path, patch: bytes, revisions: tuple[str, str] | None, scratch: Path) -> Sources:
    """The files of a patch without and with it: as the tree has them, as git has them, or as `git am -3` would."""
    if not patch:
        return {}
    there = {file: _content(tree / file) for file in _names(patch)}
    of_git: Sources = {}
    if revisions:
        of_git = {file: (_blob(tree, revisions[0], file), _blob(tree, revisions[1], file)) for file in there}
        others = _others(tree, revisions[1], there)
        if len(others) <= _MOST_OTHERS:
            return of_git | {file: (data := _blob(tree, revisions[1], file), data) for file in others}
    base = _repository(tree, there, scratch)
    after, said = applied_tree(scratch, base, patch)
    if after:
        return {file: (there[file], _blob(scratch, after, file)) for file in there}
    before, _ = applied_tree(scratch, base, patch, "--reverse")
    if before:
        return {file: (_blob(scratch, before, file), there[file]) for file in there}
    if of_git:
        return of_git
    # By the blobs that the patch names, which a git tree may have. While it lends its objects, git changes their times.
    objects = try_git(tree, "rev-parse", "--path-format=absolute", "--git-path", "objects")
    if not objects.returncode:
        (scratch / ".git/objects/info/alternates").write_bytes(objects.stdout)
    merged, _ = applied_tree(scratch, base, patch, "--3way")
    if merged and merged != base:
        return {file: (there[file], _blob(scratch, merged, file)) for file in there}
    # A tree that has the patch, and has gone on since, stays as it is.
    before, _ = applied_tree(scratch, base, patch, "--3way", "--reverse") if merged else (None, "")
    if before:
        return {file: (_blob(scratch, before, file), there[file]) for file in there}
    errors = [line.removeprefix("error: ") for line in said.splitlines() if line.startswith("error: ")]
    why = "".join(f"\n    {line}" for line in errors or ["git apply finds nothing in it"])
    raise SchedlineError(f"the patch does not apply to {tree}:{why}", "rebase it, or check out what it was made for")


def _names(patch: bytes) -> list[str]:
    """The files that a patch may be about. Git ignores some of these lines, and takes no file outside of the tree."""
    found = re.findall(rb"^(?:--- a/|\+\+\+ b/|(?:rename|copy) (?:from|to) )([^\t\n]+)", patch, re.M)
    found += re.findall(rb"^diff --git a/(\S+) b/\1$", patch, re.M)
    quoted = re.findall(rb'^(?:---|\+\+\+) "[ab]/(.*)"', patch, re.M)
    found += [re.sub(rb"\\([0-7]{3})", lambda octal: bytes([int(octal[1], 8)]), each) for each in quoted]
    paths = {Path(os.fsdecode(each)) for each in found}
    return sorted(str(each) for each in paths if not each.is_absolute() and ".." not in each.parts)


def _others(tree: Path, revision: str, there: Collection[str]) -> set[str]:
    """The files that the work tree has otherwise than a revision, "" being the index, but for some."""
    said = git(tree, "diff", "--name-only", "-z", "--no-renames", *filter(None, [revision]), "--", env=chosen_index())
    return {*filter(None, said.split("\0"))} - {*there}


def _repository(tree: Path, files: Mapping[str, bytes | None], place: Path) -> str:
    """Make a repository that has some files of a tree; returns the tree object."""
    git(place, "init", "-q")
    modes = {name: "120000" if (tree / name).is_symlink() else "100644" for name in files}
    rows = [file_row(place, name, data, modes[name]) for name, data in files.items() if data is not None]
    git(place, "update-index", "-z", "--index-info", stdin="".join(f"{row}\0" for row in rows).encode())
    return git(place, "write-tree")


def _blob(tree: Path, revision: str, file: str) -> bytes | None:
    done = try_git(tree, "cat-file", "blob", f"{revision}:{file}", env={} if revision else chosen_index())
    return None if done.returncode else done.stdout
