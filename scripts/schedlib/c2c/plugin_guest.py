# SPDX-License-Identifier: GPL-2.0
"""Build the plugin and the guest's programs, boot a kernel under the plugin, and read the plugin's output."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from schedlib.c2c.c2c_options import (
    ALL,
    CLOCK,
    CLOCKS,
    SOURCES,
    TIMEOUT,
    WORKLOADS,
    OwnProgram,
)
from schedlib.c2c.observed import ObservedGuest, read_raw
from schedlib.cache import contents_of, digest_of
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import TrafficParameters
from schedlib.guest.boot import Ending, run_guest
from schedlib.guest.busybox_guest import busybox
from schedlib.guest.command_line import PATIENT, machine, what_boots
from schedlib.guest.selftests import pack
from schedlib.guest.shared_libraries import is_elf, libraries, linked, refuse_other_machine, runs_on
from schedlib.kernel.build import Kernel
from schedlib.kernel.targets import TARGETS, Target
from schedlib.kernel.topology import Topology, shape_of
from schedlib.options import ChangeOptions
from schedlib.process import must, run, version_of
from schedlib.progress import say

MARKER = "/bin/schedline-count"
COMMAND = "/schedline/command"

MOST = 128 << 20
"""Bytes that a guest's memory has room for, twice: packed and unpacked."""

_MOST_COMMAND = 32000
_SHELL = "/bin/busybox"

DEFAULT_TARGET = TARGETS["qemu-x86_64"]
_PACKAGES = {"x86_64": "qemu-system-x86", "arm64": "qemu-system-arm"}
TRIED = ("7.2", "10.0", "10.2", "11.1")
"""The versions of QEMU under which the program with known counts had the same counts."""

_VERSION = re.compile(r"version (\d+\.\d+)")
_PROGRAMS = re.compile(r"guest_\w+|replay|moves|blame|lines")
"""Files in SOURCES that are programs, or parts of one; the others make up the plugin."""

REPLAY = ("replay.c", "blame.c", "moves.c", "tape.c", "model.c", "records.c")
COUNT_LINES = ("lines.c", "tape.c", "records.c")
"""What the three programs that read tapes are made of."""

_STRICT = ("-O2", "-Wall", "-Wextra", "-Werror")
_TROUBLE = (
    (r"c2c: failed: .*", "the guest's program ended"),
    (r"c2c: (?!ready|done).*", "the plugin gave up"),
    (r"Kernel panic - not syncing: .*", "the guest's kernel panicked"),
    (r"BUG: .*|Oops: .*|WARNING: .*", "the guest's kernel complained"),
    (r"qemu-system-\w+: (?!warning).*", "QEMU does not start"),
)


def command(own: OwnProgram) -> bytes:
    """The content of the command file; see scripts/c2c/guest_runner.c."""
    start = [_SHELL, "sh"] if own.is_script else []
    words = ["marked" if own.marked else "whole", *start, _place(own), *own.arguments]
    return b"".join(word.encode(errors="surrogateescape") + b"\0" for word in words)


def check(own: OwnProgram, arch: str) -> None:
    """Check what can be known of a program before a kernel is built; see packed()."""
    packed(own, arch, Path("/"), Path("/"))
    if len(command(own)) > _MOST_COMMAND:
        raise SchedlineError(f"the arguments of {own.file.name} are too long", f"write a script: {_MOST_COMMAND} bytes")


def packed(own: OwnProgram, arch: str, marker: Path, shell: Path) -> dict[str, Path]:
    """The files of this machine that the guest needs, by their path in the guest; without /init and the command.

    `marker` marks where counting starts and stops; `shell` is a static busybox. SchedlineError if the program cannot
    be started there, a library is missing, or the files are too many.
    """
    found = {_place(own): own.file, MARKER: marker}
    programs: list[Path] = []
    for path in sorted(own.files.rglob("*")) if own.files else ():
        if path.is_file():
            found[f"/files/{path.relative_to(own.files or path)}"] = path
            # Libraries among the files need others, too. Objects, and programs of another machine, are only data.
            if is_elf(path) and runs_on(linked(path), arch):
                programs.append(path)
        elif path.is_symlink():
            raise SchedlineError(f"--files: {path} is a link to nothing", f"rm {path}")
    near = sorted({path.parent for path in programs})
    if own.is_script:
        found[_SHELL] = shell
    else:
        this = linked(own.file)
        refuse_other_machine(own.file, this, arch)
        if not this.is_program:
            raise SchedlineError(
                f"--program: {own.file} cannot be started: it is a library or an object", "link a program"
            )
        programs.append(own.file)
    found |= libraries(programs, arch, near)
    for name in found:
        # The kernel's own packer reads names up to the next space.
        if name.split() != [name]:
            raise SchedlineError(f"{name!r}: a name with a space cannot be packed for the guest", "rename it")
    size = sum(path.stat().st_size for path in found.values() if path.is_file())
    if size > MOST:
        observed = f"the program and its files have {size >> 20} MiB, and a guest has room for {MOST >> 20}"
        raise SchedlineError(observed, "leave files out of --files")
    return found


def _place(own: OwnProgram) -> str:
    """Where the guest has the program."""
    return f"/program/{own.file.name}"


@dataclass(frozen=True)
class Measurement:
    """What to measure: a guest boots for each of `quanta`, the blocks of code after which a CPU's turn ends.

    The `config` of `parameters` comes on top of the fragments that c2c needs. `program`: of the user, instead of a
    workload. `user_space`: also count its accesses.
    """

    parameters: TrafficParameters
    quanta: tuple[int, ...]
    timeout: float = TIMEOUT
    changes: ChangeOptions = field(default_factory=ChangeOptions)
    program: OwnProgram | None = None
    user_space: bool = False

    @property
    def topology(self) -> Topology:
        return shape_of(self.parameters.topology, self.parameters.cpus)

    @property
    def target(self) -> Target:
        return TARGETS[self.parameters.on]

    @property
    def everything(self) -> bool:
        return ALL in self.parameters.objects


def sharing(topology: Topology) -> dict[str, Any]:
    """The parameters of a guest that its shape decides."""
    return {
        "cpus": topology.cpus,
        "topology": topology.name,
        "per_cluster": topology.cpus // (topology.sockets * topology.clusters) if topology.clusters > 1 else 1,
        "per_llc": topology.cpus // (topology.sockets * topology.llcs),
        "per_node": topology.cpus // topology.nodes,
    }


def _mode(target: Target, shift: int) -> tuple[str, ...]:
    """QEMU's arguments for the QEMU of this machine; without one, for 7.2. Nothing in a guest is left to chance."""
    clock = ("-icount", f"shift={shift},sleep=off", "-rtc", "base=2000-01-01,clock=vm")
    words = ("-accel", "tcg,thread=single", *clock, "-seed", "1")
    if target.arch != "x86_64":
        return words
    # With -icount, a kernel that finds an HPET takes the APIC timer for broken, and all CPUs then wait for one tick.
    emulator = target.emulator[0]
    found = _VERSION.search(version_of(emulator) if shutil.which(emulator) else "")
    return (*words, "-machine", "hpet=off") if found and float(found[1]) > 8 else (*words, "-no-hpet")


def _kernel_words(target: Target) -> tuple[str, ...]:
    # Without a clock that it trusts, the kernel has no high-resolution timers. arm64 has one in its architecture.
    clock = ("tsc=reliable",) if target.arch == "x86_64" else ()
    return (f"console={target.console}", "quiet", "panic=-1", "nokaslr", "mitigations=off", *clock, PATIENT)


def mode(target: Target, shift: int = CLOCKS.index(CLOCK)) -> str:
    """The part of a guest's configuration that is the same for all settings but the clock."""
    return " ".join([*_mode(target, shift), *_kernel_words(target)])


def refuse_other_qemu(target: Target = DEFAULT_TARGET) -> str:
    """QEMU's version; SchedlineError if the plugin does not support it, or it was built without plugins."""
    emulator, package = target.emulator[0], _PACKAGES[target.arch]
    said = version_of(emulator)
    found = _VERSION.search(said)
    number = found[1] if found else ""
    if number != "7.2" and float(number or 0) < 10:
        raise SchedlineError(
            f"c2c needs QEMU 7.2, or 10.0 or later, because its plugin uses symbols outside the plugin API; this is "
            f"{said or 'none'}",
            f"use the {package} of Debian 12 or later, or put another QEMU first into PATH",
        )
    if number not in TRIED:
        say(f"QEMU {number} is not among those whose counts have been compared: {', '.join(TRIED)}")
    # A QEMU that was built without plugins does not list the option in its help.
    if b"-plugin" not in run([emulator, "-help"]).stdout:
        raise SchedlineError(
            f"this {emulator} was built without plugins", f"use Debian's {package}, or configure --enable-plugins"
        )
    return said


def _compiled(cache: Path, name: str, sources: Sequence[str], *flags: str, compiler: str = "") -> Path:
    """A program or library from scripts/c2c/, cached by a digest of the sources, compiler and flags."""
    binary = cache / "c2c" / f"{name}-{digest_of(compiler, *flags, *contents_of(sorted(SOURCES.glob('*.[ch]'))))}"
    if not binary.exists():
        binary.parent.mkdir(parents=True, exist_ok=True)
        half = binary.with_name(f".{binary.name}")
        files = [str(SOURCES / source) for source in sources]
        must([f"{compiler}gcc", *_STRICT, *flags, "-o", str(half), *files], next_step="schedline doctor")
        half.replace(binary)
    return binary


def plugin(cache: Path) -> Path:
    sources = sorted(path.name for path in SOURCES.glob("*.c") if not _PROGRAMS.fullmatch(path.stem))
    return _compiled(cache, "plugin", sources, "-shared", "-fPIC", "-fvisibility=hidden")


def program(cache: Path, workload: str, target: Target = DEFAULT_TARGET) -> Path:
    """A workload's program, linked statically and at fixed addresses; SchedlineError if it does not compile."""
    known = WORKLOADS.get(workload)
    source = known.source if known else f"guest_{workload.replace('-', '_')}.c"
    flags = ("-static", "-no-pie", "-pthread", *(known.flags if known else ()))
    return _compiled(cache, f"guest-{workload}", [source], *flags, compiler=target.compiler)


def replayer(cache: Path) -> Path:
    """The program that plays a tape; SchedlineError if it does not compile."""
    return _compiled(cache, "replay", REPLAY)


def line_counter(cache: Path) -> Path:
    """The program that counts what single lines cost; SchedlineError if it does not compile."""
    return _compiled(cache, "lines", COUNT_LINES)


def argv(
    asked: Measurement,
    quantum: int,
    kernel: Path,
    archive: Path,
    library: Path | None,
    plan: Path,
    out: Path,
    tape: Path | None = None,
) -> list[str]:
    """QEMU's command; without the plugin (library None) it boots the same guest. The accesses go to `tape`."""
    chosen, target, topology = asked.parameters, asked.target, asked.topology
    words = [*machine(target, topology), *_mode(target, chosen.shift)]
    if library:
        options = {"plan": plan, "out": out, "line": chosen.line, "quantum": quantum}
        options |= {"cluster": chosen.per_cluster, "llc": chosen.per_llc, "node": chosen.per_node}
        options |= {"trace": tape} if tape else {}
        options |= {"user": "on"} if asked.user_space else {}
        options |= {"everything": "on"} if asked.everything else {}
        shown = [f"{name}={value}" for name, value in options.items()]
        words += ["-plugin", ",".join(word.replace(",", ",,") for word in (str(library), *shown))]
    kernel_words = [*_kernel_words(target), *topology.arguments, "--", str(chosen.rounds)]
    return [*words, *what_boots(kernel, archive, kernel_words)]


def files_for(cache: Path, asked: Measurement, target: Target) -> dict[str, Path]:
    """The files of a guest, without the command that starts a program of the user: /init, and what that needs."""
    own = asked.program
    if own is None:
        return {"/init": program(cache, asked.parameters.workload, target)}
    shell = busybox(cache, target.arch) if own.is_script else Path()
    init = {"/init": program(cache, "runner", target)}
    return init | packed(own, target.arch, program(cache, "count", target), shell)


def archive_of(kernel: Kernel, files: Mapping[str, Path], place: Path, own: OwnProgram | None = None) -> Path:
    """An initramfs with these files, and the command that starts a program of the user."""
    archive, directories, there = place / "initramfs.cpio", ["/proc", "/dev"], dict(files)
    if own:
        words, links = place / "command", place / "links"
        links.mkdir()
        words.write_bytes(command(own))
        directories, there = ["/dev", "/files"], {}
        # Links, because the names of files may have spaces.
        for number, (name, path) in enumerate(sorted({**files, COMMAND: words}.items())):
            there[name] = links / str(number)
            there[name].symlink_to(path.resolve())
    pack(kernel, there, directories, archive)
    return archive


def measured(words: Sequence[str], log: Path, out: Path, asked: Measurement) -> ObservedGuest:
    """Run a guest under the plugin, which writes to `out`."""
    done = run_guest(words, log, asked.timeout)
    text = done.log.read_text(errors="replace")
    for pattern, what in _TROUBLE:
        if found := re.search(rf"^(?:\[[ .\d]+\] )?({pattern})", text, re.M):
            raise SchedlineError(f"{what}: {found.group(1).strip()}", f"see {done.log}")
    ended = re.search(r"^c2c: done, (\d+) operations", text, re.M)
    if done.ending is not Ending.EXITED or not ended:
        how = "hung" if done.ending is Ending.TIMED_OUT else "ended early"
        observed = f"the guest {how}, {done.seconds:.0f} s after its start: its program did not finish"
        raise SchedlineError(observed, f"see {done.log}; --timeout gives it more time")
    own = asked.program
    if own and own.marked and not out.exists():
        raise SchedlineError(
            f"{own.file.name} ended without `schedline-count start` and, after it, `schedline-count stop`: "
            "nothing was counted",
            "let it run both, or leave out --marked: then the whole program is counted",
        )
    return replace(read_raw(out), operations=int(ended.group(1)))
