# SPDX-License-Identifier: GPL-2.0
"""The layout of a kernel that somebody else built: a vmlinux with debug information, or the running kernel's BTF."""

from __future__ import annotations

import gzip
import mmap
import platform
import re
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from elftools.elf.elffile import ELFFile

from schedlib.contracts.contract_rules import Facts, Rules, is_met
from schedlib.errors import SchedlineError
from schedlib.kernel.kconfig import parse_config
from schedlib.layout.debug_info import DAMAGE
from schedlib.layout.members import Structure, read_members
from schedlib.layout.rule_judge import Layout

RUNNING_BTF = Path("/sys/kernel/btf/vmlinux")

_MACHINES = {
    "EM_X86_64": "x86_64",
    "EM_386": "i386",
    "EM_AARCH64": "aarch64",
    "EM_ARM": "arm",
    "EM_PPC64": "ppc64",
    "EM_S390": "s390x",
    "EM_RISCV": "riscv64",
}

_FIXED_LINES = {"aarch64": 64, "ppc64": 128, "ppc64le": 128, "s390x": 256, "riscv64": 64}
"""L1_CACHE_BYTES where arch/*/include/asm/cache.h leaves no choice."""

_SHIFTS = dict.fromkeys(("x86_64", "i386", "i686"), "CONFIG_X86_L1_CACHE_SHIFT")
_SHIFTS |= dict.fromkeys(("arm", "armv7l"), "CONFIG_ARM_L1_CACHE_SHIFT")
_USUAL_SHIFT = 6


@dataclass(frozen=True)
class KnownKernel:
    """What is known about a kernel apart from its types: its machine as `uname -m` says it, and its Kconfig values."""

    name: str
    machine: str
    config: Mapping[str, str]


def kernel_of(path: Path | None) -> KnownKernel:
    """What is known about a vmlinux, or the running kernel for None.

    The configuration is embedded (CONFIG_IKCONFIG) or in a .config beside it; that of the running kernel in /boot, too.
    """
    if path is None:
        return _running_kernel()
    machine, embedded = platform.machine(), ""
    try:
        with path.open("rb") as file:
            if file.read(4) == b"\x7fELF":
                named = str(ELFFile(file).header["e_machine"])
                machine, embedded = _MACHINES.get(named, named), _embedded_config(file)
    except OSError as error:
        raise SchedlineError(f"{path}: {error.strerror}", "check the path, and whether you may read it") from error
    except DAMAGE as error:
        following = "give a vmlinux, as the build left it"
        raise SchedlineError(f"{path} is a damaged ELF file: {error}", following) from error
    if not embedded:
        with suppress(OSError):
            embedded = (path.parent / ".config").read_text(errors="replace")
    return KnownKernel(str(path), machine, parse_config(embedded))


def _running_kernel() -> KnownKernel:
    release, config = platform.release(), ""
    try:
        config = gzip.decompress(Path("/proc/config.gz").read_bytes()).decode(errors="replace")
    except (OSError, EOFError, zlib.error):
        for path in (f"/boot/config-{release}", f"/lib/modules/{release}/config"):
            with suppress(OSError):
                config = Path(path).read_text(errors="replace")
                break
    return KnownKernel(f"running {release}", platform.machine(), parse_config(config))


def _embedded_config(file: BinaryIO) -> str:
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        start = data.find(b"IKCFG_ST")
        if start < 0:
            return ""
        inflater = zlib.decompressobj(wbits=31)
        try:
            text = inflater.decompress(data[start + 8 : start + (1 << 20)], 1 << 22)
        except zlib.error:
            return ""
    # In a truncated configuration every option of the missing part would look like n.
    return text.decode(errors="replace") if inflater.eof else ""


def layout_of_built(path: Path | None, rules: Rules, kernel: KnownKernel | None = None) -> Layout:
    """The layout in a file with DWARF or BTF, or of the running kernel for None; SchedlineError without either."""
    kernel = kernel or kernel_of(path)
    # The last three tell the sizes of masks, locks and pointers.
    tags = tuple(dict.fromkeys((*rules.types(), *rules.files, "rq", "root_domain", "cpupri")))
    paths = ((tag, name) for tag, names, _ in rules.members for name in names)
    structures = read_members(path or RUNNING_BTF, tags, paths)
    line, assumed = line_of(kernel)
    holds, unknown = _conditions(kernel, rules, structures, line)
    return Layout(kernel.name, line, assumed, holds, unknown, structures)


def line_of(kernel: KnownKernel) -> tuple[int, str]:
    """Bytes in a cache line, and why that is assumed."""
    fixed = _FIXED_LINES.get(kernel.machine)
    if fixed:
        return fixed, ""
    shift = kernel.config.get(_SHIFTS.get(kernel.machine, ""), "")
    if re.fullmatch("[4-8]", shift):
        return 1 << int(shift), ""
    why = "no configuration was found" if not kernel.config else "its configuration does not tell"
    return 1 << _USUAL_SHIFT, f"lines of {1 << _USUAL_SHIFT} bytes are assumed for {kernel.machine}: {why}"


def _conditions(
    kernel: KnownKernel, rules: Rules, structures: Mapping[str, Structure], line: int
) -> tuple[frozenset[str], frozenset[str]]:
    """The conditions that are true, and those about which nothing is known."""

    def size(tag: str, name: str) -> int | None:
        member = structures[tag].member(name) if tag in structures else None
        return member.size if member else None

    options = [each.removeprefix("!") for each in rules.conditions() if each.removeprefix("!").startswith("CONFIG_")]
    config = {option: kernel.config.get(option) == "y" if kernel.config else None for option in options}
    # The only options that show in the structures.
    for option, member in {"SPLIT": "leaves", "ARRAYS": "rt_counts", "SBM": "sbm"}.items():
        config[f"CONFIG_SCHED_CPUPRI_{option}"] = size("cpupri", member) is not None
    facts = Facts(line, size("rq", "idle"), size("root_domain", "rto_mask"), size("rq", "__lock"), config)
    met = {condition: is_met(condition, facts) for condition in rules.conditions()}
    return (
        frozenset(condition for condition, value in met.items() if value),
        frozenset(condition for condition, value in met.items() if value is None),
    )
