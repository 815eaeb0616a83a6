# SPDX-License-Identifier: GPL-2.0
"""Every member of a structure, from the debug information (DWARF or BTF) of an object, a vmlinux or the running kernel.

pahole reads the debug information; this module parses its output.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path

from schedlib.contracts.contract_rules import our_rules
from schedlib.errors import SchedlineError
from schedlib.layout.tables import DAMAGE, Field, Type
from schedlib.process import clean_environment

_TIMEOUT = 120.0
_LONGEST = 4000
"""Lines of pahole's output with more characters than this are skipped. A member's line is much shorter. A number that
int() rejects because it has too many digits is longer."""


@dataclass(frozen=True)
class Member:
    """A direct member of a structure; those of an unnamed struct or union inside of it count as direct.

    Attributes:
        name: as in C.
        type: as pahole prints it: "struct cpupri", "atomic_t".
        offset: in bytes.
        size: in bytes; of all elements of an array.
        count: elements of an array, else 1.
        align: in bytes, if an attribute of the member or of its type demands it; else 1.
    """

    name: str
    type: str
    offset: int
    size: int
    count: int = 1
    align: int = 1

    @property
    def last(self) -> int:
        """Offset of the last byte; of the first one for an empty member."""
        return self.offset + max(self.size, 1) - 1


@dataclass(frozen=True)
class Unnamed:
    """An unnamed struct or union inside of a structure.

    Attributes:
        size: in bytes, with the padding behind its last member.
        align: in bytes, if an attribute demands it; else 1.
        names: its members.
    """

    offset: int
    size: int
    align: int
    names: tuple[str, ...]


@dataclass(frozen=True)
class Structure:
    """A structure with all its members, in order of their offset."""

    type: Type
    members: tuple[Member, ...]
    unnamed: tuple[Unnamed, ...] = ()

    def member(self, name: str) -> Member | None:
        """A member by name."""
        return next((member for member in self.members if member.name == name), None)


_MEMBER = re.compile(
    r"^\s+(?P<declared>\S[^;]*?)\s*(?::\s*\d+)?;\s*/\*\s*(?P<offset>\d+)(?::\s*\d+)?\s+(?P<size>\d+)\s*\*/"
)
_OPEN = re.compile(r"^\s+(?:struct|union|enum)(?: \w+)? \{")
_CLOSE = re.compile(r"^\s+\}\s*(?P<name>\w+)?(?P<rest>[^;]*);\s*(?:/\*\s*(?P<offset>\d+)\s+(?P<size>\d+)\s*\*/)?")
_ATTRIBUTE = re.compile(r"__attribute__\(\(__aligned__\((\d+)\)\)\)")


def _member(text: str, offset: int, size: int) -> Member | None:
    """A declaration as C has it: `struct list_head * tmp_alone_branch`, `u64 a[2][3]`, `void (*func)(int)`."""
    text = _ATTRIBUTE.sub("", text).strip()
    if match := re.search(r"\(\s*\*\s*(\w+)(?:\[\d+\])*\s*\)\s*\(", text):
        return Member(match.group(1), "function pointer", offset, size, _count(text.rpartition(")")[2]))
    match = re.fullmatch(r"(?P<type>.*?)\s*\b(?P<name>\w+)(?P<array>(?:\[\d*\])*)", text)
    if match is None or not match.group("type"):
        return None
    return Member(match.group("name"), match.group("type"), offset, size, _count(match.group("array")))


def _demanded(declared: str) -> int:
    """The alignment that attributes demand; 1 if there are none."""
    return max(map(int, _ATTRIBUTE.findall(declared)), default=1)


def _count(array: str) -> int:
    """Elements of an array, from its brackets."""
    return prod(map(int, re.findall(r"\[(\d+)\]", array)))


def _in_order(members: Iterable[Member]) -> tuple[Member, ...]:
    """By offset: the second member of a union begins before the end of the first."""
    return tuple(sorted(members, key=lambda member: member.offset))


@dataclass
class _Reader:
    """One structure of pahole's output, line by line."""

    name: str
    members: list[Member] = field(default_factory=list)
    unnamed: dict[str, Structure] = field(default_factory=dict)
    groups: list[Unnamed] = field(default_factory=list)
    inner: list[tuple[int, int]] = field(default_factory=list)
    size: int = 0
    align: int = 1

    def line(self, text: str) -> None:
        if match := re.match(r"\s*/\* size: (\d+),", text):
            self.size = int(match.group(1))
        elif _OPEN.match(text):
            self.inner.append((len(self.members), len(self.groups)))
        elif self.inner and (match := _CLOSE.match(_ATTRIBUTE.sub("", text))):
            self.aligned(text)
            self.closed(*self.inner.pop(), match, " ".join(each.group() for each in _ATTRIBUTE.finditer(text)))
        elif match := _MEMBER.match(text):
            self.add(match.group("declared"), match)

    def closed(self, start: int, group: int, match: re.Match[str], attributes: str) -> None:
        """A struct or union without a tag ends.

        Args:
            start: the number of its first member.
            group: the number of the first one without a name inside of it.
        """
        if not match.group("offset"):
            return
        name, offset, size = match.group("name"), int(match.group("offset")), int(match.group("size"))
        if name:
            # The members inside of a named member are not direct.
            inside = (replace(member, offset=member.offset - offset) for member in self.members[start:])
            tag = f"{self.name}.{name}"
            self.unnamed[tag] = Structure(Type(tag, size, None), _in_order(inside))
            del self.members[start:], self.groups[group:]
            self.add(f"struct {name}{match.group('rest')} {attributes}", match)
        else:
            names = tuple(member.name for member in self.members[start:])
            self.groups.append(Unnamed(offset, size, _demanded(attributes), names))

    def add(self, declared: str, match: re.Match[str]) -> None:
        member = _member(declared, int(match.group("offset")), int(match.group("size")))
        if member:
            self.members.append(replace(member, align=_demanded(declared)))
            self.aligned(declared)

    def aligned(self, text: str) -> None:
        self.align = max(self.align, *map(int, _ATTRIBUTE.findall(text)), 1)


def parse(text: str, *, aligned: bool) -> dict[str, Structure]:
    """The structures in pahole's output, by tag.

    Args:
        aligned: False if alignment is not recorded (BTF): pahole then guesses it from the holes.
    """
    found: dict[str, Structure] = {}
    reader: _Reader | None = None
    for line in text.splitlines():
        if len(line) > _LONGEST:
            continue
        if match := re.fullmatch(r"struct (\w+) \{", line):
            reader = _Reader(match.group(1))
        elif reader is None:
            continue
        elif line.startswith("}"):
            reader.aligned(line)
            members = reader.members if aligned else [replace(member, align=1) for member in reader.members]
            kind = Type(reader.name, reader.size, reader.align if aligned else None)
            groups = reader.groups if aligned else [replace(group, align=1) for group in reader.groups]
            found.setdefault(reader.name, Structure(kind, _in_order(members), tuple(groups)))
            found |= reader.unnamed
            reader = None
        else:
            reader.line(line)
    return found


def read_members(path: Path, structures: Sequence[str] = ()) -> dict[str, Structure]:
    """The structures of a file, or of the running kernel (/sys/kernel/btf/vmlinux), by tag.

    Args:
        structures: their tags; empty for those that have a contract.

    Raises:
        SchedlineError: the file cannot be read, holds no debug information or none of the structures.
    """
    pahole = shutil.which("pahole")
    if pahole is None:
        raise SchedlineError("the program pahole is not installed", "apt-get install --no-install-recommends pahole")
    try:
        with path.open("rb") as file:
            head = file.read(4)
    except OSError as error:
        raise SchedlineError(f"{path}: {error.strerror}", "check the path, and whether you may read it") from error
    btf = head[:2] in (b"\x9f\xeb", b"\xeb\x9f")
    if head != b"\x7fELF" and not btf:
        raise SchedlineError(
            f"{path} is neither an ELF file nor BTF", "give a vmlinux (not a bzImage), or /sys/kernel/btf/vmlinux"
        )
    wanted = structures or our_rules().types()
    printed, errors, status = _printed(pahole, path, wanted, ["-F", "btf"] if btf else [])
    found = parse(printed.decode(errors="replace"), aligned=not btf and _has_dwarf(path))
    if not found:
        said = errors.decode(errors="replace").strip().splitlines()[-1:]
        died = f"pahole died of signal {-status}" if status < 0 else "pahole finds none"
        raise SchedlineError(
            f"{path} has no debug information for struct {wanted[0]} ({died}{': ' + said[0] if said else ''})",
            "build it with CONFIG_DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT=y or CONFIG_DEBUG_INFO_BTF=y",
        )
    return found


def _printed(pahole: str, path: Path, tags: Sequence[str], options: Sequence[str]) -> tuple[bytes, bytes, int]:
    """What pahole prints of some structures, its errors, and its exit status.

    It ends at the first structure that a file lacks. It also ends at one that only a source file has which comes before
    that of the structure before. So it is asked again, for that one first, and then for the others.
    """
    printed, rest = b"", list(tags)
    while True:
        argv = [pahole, *options, "-C", ",".join(rest), str(path)]
        try:
            done = subprocess.run(
                argv,
                env=clean_environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise SchedlineError(
                f"pahole did not finish with {path} in {_TIMEOUT:.0f} s", "is the file whole?"
            ) from error
        printed += done.stdout
        lacking = re.search(rb"type '(\w+)' not found", done.stderr)
        if lacking is None:
            return printed, done.stderr, done.returncode
        name = lacking[1].decode()
        known = set(re.findall(r"^struct (\w+) \{", done.stdout.decode(errors="replace"), re.M))
        others = [tag for tag in rest if tag not in known and tag != name]
        left = others if rest[0] == name else [name, *others]
        if not left or len(left) == len(rest):
            return printed, done.stderr, done.returncode
        rest = left


def _has_dwarf(path: Path) -> bool:
    from elftools.elf.elffile import ELFFile

    try:
        with path.open("rb") as file:
            return ELFFile(file).get_section_by_name(".debug_info") is not None
    except DAMAGE:
        return False


def read_paths(path: Path, structures: Sequence[str], paths: Iterable[tuple[str, str]]) -> dict[str, Structure]:
    """The structures of a file, with those that their members' paths go through.

    Args:
        paths: tags and paths, such as ("tk_data", "timekeeper.tkr_mono").

    Raises:
        SchedlineError: see read_members().
    """
    found = read_members(path, structures)
    deep = [(tag, name) for tag, name in paths if "." in name]
    asked = set(structures)
    while wanted := {through for tag, name in deep for through in _through(found, tag, name)} - asked - found.keys():
        asked |= wanted
        with suppress(SchedlineError):
            found |= read_members(path, sorted(wanted))
    return found


def _through(structures: Mapping[str, Structure], tag: str, path: str) -> Iterator[str]:
    """The types of the members on a path, as far as their structures are known."""
    for name in path.split(".")[:-1]:
        structure = structures.get(tag)
        member = structure.member(name.removesuffix("[0]")) if structure else None
        if member is None or not member.type.startswith("struct"):
            return
        tag = _inside(tag, member)
        yield tag


def _inside(tag: str, member: Member) -> str:
    """The tag of a member's structure. An unnamed one goes by the path of the member."""
    return member.type.partition(" ")[2] or f"{tag}.{member.name}"


def resolve(structures: Mapping[str, Structure], tag: str, path: str) -> Field | None:
    """Find a member by its path, such as `cpupri.pri_to_cpu[0].mask`; None if it does not exist.

    `a[0].b` stands for b in every element of a, as in struct sched_layout_field, which cannot describe an array of
    arrays.
    """
    root, base, count, stride = tag, 0, 1, 0
    names = path.split(".")
    for name in names[:-1]:
        structure = structures.get(tag)
        member = structure.member(name.removesuffix("[0]")) if structure else None
        if member is None or not member.type.startswith("struct"):
            return None
        base += member.offset
        if name.endswith("[0]"):
            if stride:
                return None
            count, stride = member.count, member.size // max(member.count, 1)
        tag = _inside(tag, member)
    structure = structures.get(tag)
    last = structure.member(names[-1]) if structure else None
    if last is None:
        return None
    return Field(root, path, base + last.offset, last.size, count, stride)
