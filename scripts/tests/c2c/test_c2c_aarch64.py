# SPDX-License-Identifier: GPL-2.0
"""The plugin's decoder for arm64: each instruction's text is given with its encoding, and the assembler confirms it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from decoded import Decoder, Traffic, assembled

from schedlib.c2c.c2c_options import SOURCES
from schedlib.kernel.targets import TARGETS

pytestmark = pytest.mark.tools

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
    "movz xzr, #0xc2c0",
    "movz xzr, #0xc2c4",
    "movz x0, #0xc2c1",
    "movz wzr, #0xc2c1",
    "movz xzr, #0xc2d1",
    "movz xzr, #0xc2c1, lsl #16",
    "movn xzr, #0xc2c1",
    "movk xzr, #0xc2c1",
    "nop",
)

COMPILER = TARGETS["qemu-arm64"].compiler
needs_assembler = pytest.mark.skipif(not shutil.which(f"{COMPILER}gcc"), reason=f"there is no {COMPILER}gcc")


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    return Decoder("aarch64", tmp_path_factory.mktemp("aarch64"))


def code_of(directory: Path, text: str) -> bytes:
    return assembled(directory, f".arch armv8.4-a\n{text}", COMPILER)


@pytest.mark.parametrize(
    ("text", "word", "want"),
    [
        (text, word, want)
        for words, want in (
            (ATOMIC, Traffic.ATOMIC),
            (STORE, Traffic.STORE),
            (STACK, Traffic.STACK),
            (PLAIN, Traffic.PLAIN),
        )
        for text, word in words.items()
    ],
)
def test_instructions(decoder: Decoder, text: str, word: int, want: Traffic) -> None:
    assert decoder.traffic(word.to_bytes(4, "little")) is want, text


@needs_assembler
def test_the_words_are_those_of_the_assembler(tmp_path: Path) -> None:
    for text, word in (ATOMIC | STORE | STACK | PLAIN).items():
        assert code_of(tmp_path, text) == word.to_bytes(4, "little"), text


@needs_assembler
def test_marks(decoder: Decoder, tmp_path: Path) -> None:
    for text, number in MARKS.items():
        assert decoder.mark(code_of(tmp_path, text)) == number
        assert decoder.mark(code_of(tmp_path, text)[:3]) == 0
    for text in NO_MARKS:
        assert decoder.mark(code_of(tmp_path, text)) == 0, text


@needs_assembler
def test_the_guests_programs_write_them(decoder: Decoder, tmp_path: Path) -> None:
    found = re.search(r'__asm__ volatile\("(movz [^"]+)" #number', (SOURCES / "guest.h").read_text())
    assert found
    for number in (1, 2, 3):
        assert decoder.mark(code_of(tmp_path, f"{found.group(1)}{number}")) == number


def test_what_is_no_instruction_is_plain(decoder: Decoder) -> None:
    for code in (b"", b"\x62\x00\x21", b"\x62\x00\x21\xf8\x00"):
        assert (decoder.traffic(code), decoder.mark(code)) == (Traffic.PLAIN, 0)
