# SPDX-License-Identifier: GPL-2.0
"""The plugin without QEMU: what it says about pages, the calls of QEMU it uses, how it classifies instructions."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path

import pytest

from schedlib.c2c.c2c_options import SOURCES
from schedlib.kernel.targets import TARGETS

pytestmark = pytest.mark.tools

PLAN = "memory {} =ffff888000000000 =ffffc90000000000 64 8 48 52 245 242 248 8 80 32 36"
VARIABLE, FIXED = "ffffffff81000bb8", "=ffffea0000000000"
KINDS = """\
areas ffffea0000000000 ffff888000000000 ffffc90000000000
page ffff888000000000 slab kmalloc-64 ffff888000000000 64 64
again ffff888000001000
page ffff888000001000 table
page ffff888000002000 table
again ffff888000003000
page ffff888000003000 slab things ffff888000003000 128 128
page ffff888000004000 stack
page ffff888000005000 slab things ffff888000005000 128 128
page ffff888000006000 slab things ffff888000005000 128 128
"""


@pytest.mark.parametrize("place", [VARIABLE, FIXED])
def test_pages_are_described(tmp_path: Path, place: str) -> None:
    program, here = tmp_path / "guest", Path(__file__).with_name("fake_memory.c")
    words = ["gcc", "-Wall", "-Wextra", "-Werror", f"-I{SOURCES}", "-o", str(program), str(here)]
    subprocess.run([*words, str(SOURCES / "memory.c")], check=True)
    plan = PLAN.format(place)
    assert subprocess.run([program, plan], check=True, capture_output=True, text=True).stdout == KINDS


def told_by_stubs(place: Path, *has: str) -> list[str]:
    """What the plugin's calls do in a QEMU that has some symbols."""
    stubs = Path(__file__).with_name("qemu_stubs.c")
    words = ["gcc", "-O1", "-rdynamic", f"-I{SOURCES}", *(f"-D{name}" for name in has), "-o", str(place / "stubs")]
    subprocess.run([*words, str(stubs), str(SOURCES / "internals.c")], check=True)
    return subprocess.run([place / "stubs"], check=True, capture_output=True, text=True).stdout.splitlines()


@pytest.mark.parametrize(
    ("has", "told"),
    [
        # QEMU 7.2. What CPU 0 does not map is read through CPU 1.
        (("CPU", "DEBUG"), ["version 1, complete", "code 0", "dddddddd", "dddddddd", "ended 1"]),
        # QEMU 10 reads with the official call, and through another CPU only what this CPU does not map.
        (("CPU", "DEBUG", "NEW"), ["version 4, complete", "code 0", "oooooooo", "dddddddd", "ended 1"]),
        # A QEMU that exports nothing but the API and what ends a turn.
        (("CPU", "NEW"), ["version 4, complete", "code 0", "oooooooo", "nothing", "ended 1"]),
        # QEMU 11.1
        (("CPU", "DEBUG", "NEW", "DATA"), ["version 7, complete", "code 0", "oooooooo", "dddddddd", "ended 1"]),
        (("CPU",), ["version 1, cpu_memory_rw_debug"]),
        (("NEW",), ["version 4, qemu_get_cpu"]),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, tuple) else "",
)
def test_the_calls_that_a_qemu_has(tmp_path: Path, has: tuple[str, ...], told: list[str]) -> None:
    assert told_by_stubs(tmp_path, *has) == told


class Traffic(IntEnum):
    """`enum traffic` of scripts/c2c/arch.h."""

    PLAIN = 0
    ATOMIC = 1
    STORE = 2
    STACK = 3


X86_ATOMIC = (
    "lock incq (%rax); lock cmpxchg %ecx, 8(%rdi); lock btsq %rax, (%rcx); lock cmpxchg16b (%rsi); "
    "lock xaddw %ax, (%rbx); xchg %eax, (%rdi); xchg %rax, (%r9); xchgb %cl, (%rdi); "
    "lock addl $1, %gs:8(%r8); xchg %eax, %gs:0x10"
)
X86_PLAIN = (
    "incq (%rax); cmpxchg %ecx, 8(%rdi); mov (%rdi), %eax; xchg %eax, %ecx; xchg %r8, %r9; nop; rep stosq; "
    "addl $1, %gs:8(%r8); mov %gs:0x10, %rax; jmp *(%rax); mov (%rsp), %rax; add %rax, (%rcx); jmp .+100"
)
X86_STACK = "push %rax; push %r12; pop %rbx; pop %r15; call .+100; ret; leave; pushf; popf"

ATOMIC = {
    "ldadd x1, x2, [x3]": 0xF8210062,
    "ldaddal w1, w2, [x3]": 0xB8E10062,
    "ldclrb w1, w2, [x3]": 0x38211062,
    "ldeorh w1, w2, [x3]": 0x78212062,
    "ldsetl x1, x2, [x3]": 0xF8613062,
    "ldsmaxa x1, x2, [x3]": 0xF8A14062,
    "ldumin w1, w2, [x3]": 0xB8217062,
    "stadd x1, [x3]": 0xF821007F,
    "stset w1, [x3]": 0xB821307F,
    "swp x1, x2, [x3]": 0xF8218062,
    "swpalb w1, w2, [x3]": 0x38E18062,
    "cas x1, x2, [x3]": 0xC8A17C62,
    "casal w1, w2, [x3]": 0x88E1FC62,
    "casb w1, w2, [x3]": 0x08A17C62,
    "caslh w1, w2, [x3]": 0x48A1FC62,
    "casp x0, x1, x2, x3, [x4]": 0x48207C82,
    "caspal w0, w1, w2, w3, [x4]": 0x0860FC82,
}
STORE = {
    "stxr w0, x1, [x2]": 0xC8007C41,
    "stlxr w0, w1, [x2]": 0x8800FC41,
    "stxrb w0, w1, [x2]": 0x08007C41,
    "stlxrh w0, w1, [x2]": 0x4800FC41,
    "stxp w0, x1, x2, [x3]": 0xC8200861,
    "stlxp w0, w1, w2, [x3]": 0x88208861,
}
STACK = {
    "stp x29, x30, [sp, #-32]!": 0xA9BE7BFD,
    "ldp x29, x30, [sp], #32": 0xA8C27BFD,
    "ldr x0, [sp, #16]": 0xF9400BE0,
    "str w0, [sp, #8]": 0xB9000BE0,
    "ldrb w0, [sp, x1]": 0x38616BE0,
    "stur x0, [sp, #-8]": 0xF81F83E0,
    "ldr q0, [sp]": 0x3DC003E0,
}
PLAIN = {
    "ldxr x1, [x2]": 0xC85F7C41,
    "ldaxr w1, [x2]": 0x885FFC41,
    "ldxp x0, x1, [x2]": 0xC87F0440,
    "ldaxrb w1, [x2]": 0x085FFC41,
    "ldar x1, [x2]": 0xC8DFFC41,
    "stlr x1, [x2]": 0xC89FFC41,
    "ldapr x1, [x2]": 0xF8BFC041,
    "ldlar x1, [x2]": 0xC8DF7C41,
    "stllr x1, [x2]": 0xC89F7C41,
    "ldr x0, [x1, x2]": 0xF8626820,
    "ldr x0, [x1], #8": 0xF8408420,
    "str x0, [x1, #-8]!": 0xF81F8C20,
    "ldp x0, x1, [x2]": 0xA9400440,
    "stnp x0, x1, [x2]": 0xA8000440,
    "ldr q0, [x1, x2]": 0x3CE26820,
    "ld1 {v0.16b}, [x1]": 0x4C407020,
    "prfm pstl1strm, [x1]": 0xF9800031,
    "add x0, sp, #16": 0x910043E0,
    "mov sp, x0": 0x9100001F,
    "nop": 0xD503201F,
    "movz xzr, #1": 0xD280003F,
    "svc #0": 0xD4000001,
    "ret": 0xD65F03C0,
    "ldr x1, .+124": 0x580003E1,
    "ldr q1, .+124": 0x9C0003E1,
}
MARKS = {"movz xzr, #0xc2c1": 1, "movz xzr, #0xc2c2": 2, "movz xzr, #0xc2c3": 3}
NO_MARKS = (
    "movz xzr, #0xc2c0; movz xzr, #0xc2c4; movz x0, #0xc2c1; movz wzr, #0xc2c1; movz xzr, #0xc2d1; "
    "movz xzr, #0xc2c1, lsl #16; movn xzr, #0xc2c1; movk xzr, #0xc2c1; nop"
)

COMPILER = TARGETS["qemu-arm64"].compiler
needs_assembler = pytest.mark.skipif(not shutil.which(f"{COMPILER}gcc"), reason=f"there is no {COMPILER}gcc")


class Decoder:
    """scripts/c2c/<name>.c, compiled for this machine."""

    def __init__(self, name: str, directory: Path) -> None:
        path = directory / f"{name}.so"
        flags = ["-O1", "-shared", "-fPIC", "-fsanitize=undefined", "-fno-sanitize-recover=all"]
        warnings = ["-Wall", "-Wextra", "-Werror"]
        subprocess.run(["gcc", *flags, *warnings, "-o", str(path), str(SOURCES / f"{name}.c")], check=True)
        library = ctypes.CDLL(str(path))
        self._traffic, self._mark = library[f"{name}_traffic"], library[f"{name}_mark"]

    def traffic(self, code: bytes) -> Traffic:
        """The kind of access that the plugin counts for the instruction."""
        return Traffic(self._traffic(code, ctypes.c_size_t(len(code))))

    def mark(self, code: bytes) -> int:
        """The marker that the instruction encodes; 0 for none."""
        return int(self._mark(code, ctypes.c_size_t(len(code))))


@pytest.fixture(scope="module")
def decoders(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Decoder]:
    place = tmp_path_factory.mktemp("decoders")
    return {name: Decoder(name, place) for name in ("x86", "aarch64")}


def assembled(directory: Path, text: str, compiler: str = "") -> bytes:
    """The bytes of one instruction, by the compiler with this prefix."""
    (directory / "one.s").write_text(f"{text}\n")
    subprocess.run([f"{compiler}gcc", "-c", "-o", "one.o", "one.s"], check=True, cwd=directory)
    copy = [f"{compiler}objcopy", "-O", "binary", "-j", ".text", "one.o", "one.bin"]
    subprocess.run(copy, check=True, cwd=directory)
    return (directory / "one.bin").read_bytes()


def arm64(directory: Path, text: str) -> bytes:
    return assembled(directory, f".arch armv8.4-a\n{text}", COMPILER)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        *((text, Traffic.ATOMIC) for text in X86_ATOMIC.split("; ")),
        *((text, Traffic.STACK) for text in X86_STACK.split("; ")),
        *((text, Traffic.PLAIN) for text in X86_PLAIN.split("; ")),
    ],
)
def test_instructions_of_x86(decoders: Mapping[str, Decoder], tmp_path: Path, text: str, want: Traffic) -> None:
    assert decoders["x86"].traffic(assembled(tmp_path, text)) is want


def test_marks_of_x86_are_those_of_the_guests_programs(decoders: Mapping[str, Decoder]) -> None:
    bytes_ = re.search(r'"\.byte ([0-9a-fx, ]+), " #number ", ([0-9a-fx, ]+)"', (SOURCES / "guest.h").read_text())
    assert bytes_
    head, tail = (bytes(int(word, 16) for word in part.split(", ")) for part in bytes_.groups())
    for number, mark in ((1, 1), (2, 2), (3, 3), (4, 0), (0, 0)):
        code = head + bytes([number]) + tail
        assert (len(code), decoders["x86"].mark(code)) == (8, mark)
    assert decoders["x86"].mark(b"\x0f\x1f\x84\x00\x01\x00\x00\x00") == 0


def test_instructions_of_arm64(decoders: Mapping[str, Decoder]) -> None:
    kinds = (ATOMIC, Traffic.ATOMIC), (STORE, Traffic.STORE), (STACK, Traffic.STACK), (PLAIN, Traffic.PLAIN)
    for words, want in kinds:
        got = {text: decoders["aarch64"].traffic(word.to_bytes(4, "little")) for text, word in words.items()}
        assert got == dict.fromkeys(words, want)
    for code in (b"", b"\x62\x00\x21", b"\x62\x00\x21\xf8\x00"):
        assert (decoders["aarch64"].traffic(code), decoders["aarch64"].mark(code)) == (Traffic.PLAIN, 0)


@needs_assembler
def test_the_words_of_arm64_are_those_of_the_assembler(tmp_path: Path) -> None:
    for text, word in (ATOMIC | STORE | STACK | PLAIN).items():
        assert arm64(tmp_path, text) == word.to_bytes(4, "little"), text


@needs_assembler
def test_marks_of_arm64(decoders: Mapping[str, Decoder], tmp_path: Path) -> None:
    mark = decoders["aarch64"].mark
    for text, number in MARKS.items():
        assert (mark(arm64(tmp_path, text)), mark(arm64(tmp_path, text)[:3])) == (number, 0)
    assert {text: mark(arm64(tmp_path, text)) for text in NO_MARKS.split("; ")} == dict.fromkeys(
        NO_MARKS.split("; "), 0
    )
    found = re.search(r'__asm__ volatile\("(movz [^"]+)" #number', (SOURCES / "guest.h").read_text())
    assert found
    assert [mark(arm64(tmp_path, f"{found.group(1)}{number}")) for number in (1, 2, 3)] == [1, 2, 3]
