# SPDX-License-Identifier: GPL-2.0
"""`schedline layout --variables`: who lies on the cache lines of the kernel's hot variables, by a vmlinux' symbols.

A linker puts what it likes behind a variable that ends in the middle of a line. configs/contracts/variables.toml says
how variables are accessed, and into which section their source puts them.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
from elftools.elf.elffile import ELFFile

from schedlib import doctor
from schedlib.cache import cache_dir
from schedlib.errors import SchedlineError
from schedlib.formats.contract_file import AccessClass, Line, RuleId, SourceFile
from schedlib.formats.data_file import read_toml
from schedlib.formats.strict import Strict, Word
from schedlib.layout.debug_info import DAMAGE, symbols_in
from schedlib.layout.layout_options import LayoutOptions
from schedlib.layout.own_build import OwnBuild
from schedlib.layout.patch_findings import Finding
from schedlib.layout.patch_text import added_lines
from schedlib.layout.vmlinux import kernel_of, line_of
from schedlib.options import DEFAULT_SERIES
from schedlib.paths import CONFIGS
from schedlib.progress import counted
from schedlib.verdict import Verdict

VARIABLES = CONFIGS / "contracts" / "variables.toml"

_OBJECT, _RESERVED = 1, 0xFF00
"""STT_OBJECT, and the first number that stands for no section: SHN_LORESERVE."""


class VariableContract(Strict, frozen=True):
    """How a variable is accessed.

    Attributes:
        id: the rule that is broken if one that does not fit is on its line, or if it left its section.
        file: that defines it.
        section: where its source puts it, such as .data..read_mostly; empty if nothing is said.
    """

    name: Word
    id: RuleId
    file: SourceFile
    class_: AccessClass = msgspec.field(name="class")
    why: Line = msgspec.field()
    source: Line = msgspec.field()
    section: str = ""


class VariableContracts(Strict, frozen=True):
    variable: tuple[VariableContract, ...]


@dataclass(frozen=True)
class Variable:
    """A variable of an ELF file. static_key: code does not read it, but is patched when it changes."""

    name: str
    section: str
    address: int
    size: int
    static_key: bool

    def lines(self, line: int) -> range:
        """The lines that it lies on."""
        return range(self.address // line, (self.address + self.size - 1) // line + 1)


@dataclass(frozen=True)
class JudgedVariable:
    """A contract on one kernel: who else is on the variable's lines, with its class if a contract says it.

    Attributes:
        place: None: the kernel does not have the variable.
        unknown: why it can be judged in part only; empty if it is judged.
    """

    contract: VariableContract
    place: Variable | None
    beside: tuple[tuple[Variable, AccessClass | None], ...] = ()
    broken: tuple[str, ...] = ()
    unknown: str = ""

    @property
    def verdict(self) -> Verdict:
        """Of the rule. One that is judged in part is not judged."""
        if self.broken:
            return Verdict.FAIL
        return Verdict.INCONCLUSIVE if self.unknown else Verdict.PASS


def redefined_variables(patch: bytes) -> Iterator[Finding]:
    """Variables of contracts whose definition a patch changes: no compiler knows where a linker will put them."""
    contracts = read_toml(VARIABLES, VariableContracts).variable
    for file, number, line in added_lines(patch):
        for each in contracts:
            # A definition begins at the first column, and so does its end behind the members of a structure.
            if file == each.file and re.match(rf"(?!\s|#|/|\*).*\b{each.name}\b[^(]*(=|;|\)|$)", line):
                text = f"{each.id}: where {each.name} lies is only known when it is linked: build, then --variables"
                yield Finding(file, number, False, each.id, text)


def variables_of(path: Path) -> list[Variable]:
    """The variables of an ELF file; those with several names once for each; SchedlineError if it has none."""
    try:
        with path.open("rb") as file:
            elf = ELFFile(file)
            symbols = symbols_in(elf)
            keys = _static_keys(elf, {name: address for name, _, _, address, _ in symbols})
            names = [each.name for each in elf.iter_sections()]
            found = [
                Variable(name, names[section], address, size, address in keys)
                for name, kind, section, address, size in symbols
                if kind == _OBJECT and size and 0 < section < _RESERVED
            ]
    except OSError as error:
        raise SchedlineError(f"{path}: {error.strerror}", "check the path, and whether you may read it") from error
    except (*DAMAGE, struct.error):
        found = []
    if not found:
        raise SchedlineError(f"{path} has no variables that can be read", "give a vmlinux as the build left it")
    return found


def _static_keys(elf: ELFFile, symbols: Mapping[str, int]) -> frozenset[int]:
    """The addresses that the jump table names."""
    start, stop = (symbols.get(f"__{end}___jump_table", 0) for end in ("start", "stop"))
    inside = (each for each in elf.iter_sections() if 0 <= start - each["sh_addr"] < each["sh_size"])
    section = next(inside, None) if start else None
    if section is None:
        return frozenset()
    entry = struct.Struct(("<" if elf.little_endian else ">") + ("IIQ" if elf.elfclass == 64 else "III"))
    data = section.data()[start - section["sh_addr"] : stop - section["sh_addr"]]
    rows = enumerate(entry.iter_unpack(data[: len(data) // entry.size * entry.size]))
    # The third word is the distance of the key from that word. Its last two bits mean something else.
    return frozenset((start + number * entry.size + 8 + (row[2] & ~3)) % (1 << elf.elfclass) for number, row in rows)


def judge_variables(
    contracts: Sequence[VariableContract], vmlinux: Path, build: Path, line: int
) -> list[JudgedVariable]:
    """Hold contracts against a kernel with lines of so many bytes. Objects in its build tell the source's section."""
    found, own = variables_of(vmlinux), OwnBuild(build, build)
    classes = {each.name: each.class_ for each in contracts}
    judged = []
    for contract in contracts:
        its = [_judged(contract, classes, each, found, own, line) for each in found if each.name == contract.name]
        judged += its or [JudgedVariable(contract, None, unknown="this kernel does not have it")]
    return judged


def _judged(
    contract: VariableContract,
    classes: Mapping[str, AccessClass],
    place: Variable,
    found: Sequence[Variable],
    own: OwnBuild,
    line: int,
) -> JudgedVariable:
    its = set(place.lines(line))
    near = [
        each
        for each in found
        if each.section == place.section and each.address != place.address and its.intersection(each.lines(line))
    ]
    beside = tuple((each, classes.get(each.name)) for each in sorted(near, key=lambda each: each.address))
    broken = [
        f"{each.name}, which is {class_.value}, is on its line"
        for each, class_ in beside
        if class_ and not (place.static_key or each.static_key) and not _may_share(contract.class_, class_)
    ]
    unknown, wanted = "", contract.section
    if wanted and (section := _section(own, contract)) != wanted:
        others = own.beside(contract.file)
        if not section:
            unknown = f"{own.build} has no object of {contract.file}, which tells whether it is in {wanted}"
        elif any(_has_section(_object_of(each), wanted) for each in others):
            broken.append(f"it is in {section}, and belongs into {wanted}")
        else:
            unknown = f"no object beside that of {contract.file} has {wanted}: not every architecture has this section"
    return JudgedVariable(contract, place, beside, tuple(broken), unknown)


def _may_share(one: AccessClass, other: AccessClass) -> bool:
    """Whether two variables may share a line: what is read by all CPUs suffers from what is written."""
    quiet = {AccessClass.READ_MOSTLY, AccessClass.COLD}
    return AccessClass.READ_MOSTLY not in (one, other) or {one, other} <= quiet


def _section(own: OwnBuild, contract: VariableContract) -> str:
    """The section that a variable has in its object: a linker joins many. Empty if it cannot be told."""
    record = own.record_for(contract.file)
    its: list[Variable] = []
    with suppress(SchedlineError):
        its = variables_of(_object_of(record)) if record else []
    return next((each.section for each in its if each.name == contract.name), "")


def _object_of(record: Path) -> Path:
    """The object of what kbuild left about it: fork.o of .fork.o.cmd."""
    return record.with_name(record.name[1:].removesuffix(".cmd"))


def _has_section(path: Path, name: str) -> bool:
    with suppress(*DAMAGE), path.open("rb") as file:
        return ELFFile(file).get_section_by_name(name) is not None
    return False


def show_variables(options: LayoutOptions) -> Verdict:
    """Print the contracted variables of one or more kernels with their neighbours, and which rules break."""
    doctor.require(["layout"])
    contracts = read_toml(VARIABLES, VariableContracts).variable
    every: list[JudgedVariable] = []
    for vmlinux in _kernels(options):
        kernel = kernel_of(vmlinux)
        line, assumed = line_of(kernel)
        judged = judge_variables(contracts, vmlinux, vmlinux.parent, line)
        print(f"{vmlinux}: lines of {line} bytes{f' ({assumed})' if assumed else ''}")
        print(*(f"  {text}" for each in judged for text in _told(each, line)), sep="\n")
        every += judged
    verdicts = [each.verdict for each in every]
    verdict = next((each for each in (Verdict.FAIL, Verdict.PASS) if each in verdicts), Verdict.INCONCLUSIVE)
    strangers = sum(class_ is None and not near.static_key for each in every for near, class_ in each.beside)
    without = f"{counted(strangers, 'neighbour')} without a contract: how these are accessed is not known"
    print(f"{counted(len(verdicts) - verdicts.count(Verdict.INCONCLUSIVE), 'rule')} judged; {without}")
    print(f"verdict: {verdict.name}")
    return verdict


def _kernels(options: LayoutOptions) -> list[Path]:
    """Each vmlinux that the options name; without a tree those that schedline has built of a series."""
    if options.vmlinux:
        return [options.vmlinux]
    if place := options.build or options.tree.kdir:
        if not (place / "vmlinux").is_file():
            raise SchedlineError(f"{place} has no vmlinux", "make vmlinux there, or name one: --vmlinux FILE")
        return [place / "vmlinux"]
    series = options.tree.series or DEFAULT_SERIES
    if found := sorted((cache_dir() / "builds").glob(f"{series}-*/vmlinux")):
        return found
    raise SchedlineError(f"no kernel of {series} was built here", f"schedline check --series {series}, or --build DIR")


def _told(judged: JudgedVariable, line: int) -> Iterator[str]:
    contract, place = judged.contract, judged.place
    word = {Verdict.PASS: "pass", Verdict.FAIL: "FAIL"}.get(judged.verdict, "n/a")
    if place is None:
        yield f"{word} {contract.id}, {contract.name}: {judged.unknown}"
        return
    first, last = (each * line for each in (place.lines(line)[0], place.lines(line)[-1] + 1))
    where = f"{place.section}, {place.size} bytes, lines from {first:x} to {last:x}"
    yield f"{word} {contract.id}, {contract.name}, {contract.class_.value}: {where}"
    words = {
        each.name: "a static key" if each.static_key else class_.value if class_ else ""
        for each, class_ in judged.beside
    }
    if words:
        yield f"    beside it: {', '.join(f'{name} ({said})' if said else name for name, said in words.items())}"
    for text in (*judged.broken, *filter(None, [judged.unknown])):
        yield f"    {text}"
    if judged.broken:
        yield f"    why: {contract.why} ({contract.source})"
