# SPDX-License-Identifier: GPL-2.0
"""The plugin's decoder for x86, tested with instructions from the assembler."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from decoded import Decoder, Traffic, assembled

from schedlib.c2c.c2c_options import SOURCES

pytestmark = pytest.mark.tools

ATOMIC = (
    "lock incq (%rax)",
    "lock cmpxchg %ecx, 8(%rdi)",
    "lock btsq %rax, (%rcx)",
    "lock cmpxchg16b (%rsi)",
    "lock xaddw %ax, (%rbx)",
    "xchg %eax, (%rdi)",
    "xchg %rax, (%r9)",
    "xchgb %cl, (%rdi)",
    "lock addl $1, %gs:8(%r8)",
    "xchg %eax, %gs:0x10",
)
PLAIN = (
    "incq (%rax)",
    "cmpxchg %ecx, 8(%rdi)",
    "mov (%rdi), %eax",
    "xchg %eax, %ecx",
    "xchg %r8, %r9",
    "nop",
    "rep stosq",
    "addl $1, %gs:8(%r8)",
    "mov %gs:0x10, %rax",
    "jmp *(%rax)",
    "mov (%rsp), %rax",
    "add %rax, (%rcx)",
    "jmp .+100",
)
STACK = ("push %rax", "push %r12", "pop %rbx", "pop %r15", "call .+100", "ret", "leave", "pushf", "popf")


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    return Decoder("x86", tmp_path_factory.mktemp("x86"))


@pytest.mark.parametrize(
    ("text", "want"),
    [
        *((text, Traffic.ATOMIC) for text in ATOMIC),
        *((text, Traffic.STACK) for text in STACK),
        *((text, Traffic.PLAIN) for text in PLAIN),
    ],
)
def test_instructions(decoder: Decoder, tmp_path: Path, text: str, want: Traffic) -> None:
    assert decoder.traffic(assembled(tmp_path, text)) is want


def test_marks_are_those_of_the_guests_programs(decoder: Decoder) -> None:
    bytes_ = re.search(r'"\.byte ([0-9a-fx, ]+), " #number ", ([0-9a-fx, ]+)"', (SOURCES / "guest.h").read_text())
    assert bytes_
    head, tail = (bytes(int(word, 16) for word in part.split(", ")) for part in bytes_.groups())
    for number, mark in ((1, 1), (2, 2), (3, 3), (4, 0), (0, 0)):
        code = head + bytes([number]) + tail
        assert len(code) == 8
        assert decoder.mark(code) == mark
    assert decoder.mark(b"\x0f\x1f\x84\x00\x01\x00\x00\x00") == 0
