# SPDX-License-Identifier: GPL-2.0
"""Reading a kernel: its configuration, wherever stored, and its line size. What it does not tell stays unknown."""

from __future__ import annotations

import gzip
import platform
import subprocess
import tracemalloc
from pathlib import Path

import pytest
import toys

from schedlib.errors import SchedlineError
from schedlib.kernel.kconfig import parse_config
from schedlib.layout.rule_judge import Layout, RuleOutcome, judge_rule
from schedlib.layout.vmlinux import KnownKernel, kernel_of, layout_of_built

pytestmark = pytest.mark.tools

CONFIG = "CONFIG_SMP=y\n# CONFIG_SCHED_PROXY_EXEC is not set\nCONFIG_X86_L1_CACHE_SHIFT=6\n"


def test_config() -> None:
    text = f'# comment\n{CONFIG}CONFIG_CC="gcc = 13"\n CONFIG_INDENTED=y\nOTHER=y\nCONFIG_EMPTY=\n'
    known = {"CONFIG_SMP": "y", "CONFIG_X86_L1_CACHE_SHIFT": "6", "CONFIG_CC": '"gcc = 13"', "CONFIG_EMPTY": ""}
    assert parse_config(text) == known and parse_config("") == {}


def embedding(path: Path, content: bytes, start: bytes = b"IKCFG_ST", end: bytes = b"IKCFG_ED") -> Path:
    """The toy kernel's object with bytes between the marks of CONFIG_IKCONFIG."""
    toys.needs("objcopy")
    blob = path.with_suffix(".blob")
    blob.write_bytes(start + content + end)
    add = ["objcopy", "--add-section", f".rodata.config={blob}", str(toys.types_object()), str(path)]
    subprocess.run(add, check=True)
    return path


def test_embedded_config_wins_over_the_one_beside(tmp_path: Path) -> None:
    beside, embedded, plain = (tmp_path / name for name in (".config", "vmlinux", "other"))
    plain.write_bytes(toys.types_object().read_bytes())
    found = kernel_of(embedding(embedded, gzip.compress(CONFIG.encode())))
    assert (found.name, found.machine, found.config) == (str(embedded), "x86_64", parse_config(CONFIG))
    assert kernel_of(plain).config == {}
    beside.write_text("CONFIG_BESIDE=y\n")
    assert kernel_of(embedded).config == parse_config(CONFIG)
    assert kernel_of(plain).config == {"CONFIG_BESIDE": "y"}
    beside.unlink()
    beside.mkdir()
    assert kernel_of(plain).config == {}


@pytest.mark.parametrize(
    "content",
    [b"", b"garbage" * 50, b"\x1f\x8b\x08" + b"\xff" * 100, b"\x1f\x8b", gzip.compress(CONFIG.encode(), mtime=0)[5:]],
    ids=["empty", "garbage", "bad deflate", "cut", "headless"],
)
def test_hostile_embedded_config_is_none(tmp_path: Path, content: bytes) -> None:
    assert kernel_of(embedding(tmp_path / "vmlinux", content)).config == {}


def test_half_an_embedded_config_is_none(tmp_path: Path) -> None:
    content = gzip.compress("".join(f"CONFIG_{number}=y\n" for number in range(2000)).encode())
    for length, known in ((len(content), 2000), (len(content) - 9, 0), (len(content) // 2, 0)):
        (tmp_path / "vmlinux").write_bytes(toys.types_object().read_bytes() + b"IKCFG_ST" + content[:length])
        assert len(kernel_of(tmp_path / "vmlinux").config) == known


def test_bomb_is_bounded(tmp_path: Path) -> None:
    bomb = gzip.compress(b"CONFIG_A=y\n" + bytes(64 << 20), 1)
    assert len(bomb) < 1 << 20
    path = embedding(tmp_path / "vmlinux", bomb)
    tracemalloc.start()
    try:
        assert kernel_of(path).config == {}
        assert tracemalloc.get_traced_memory()[1] < 24 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("data", [b"\x7fELF", b"\x7fELF" + bytes(60), b"\x7fELF\x02\x01\x01"])
def test_damaged_file(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "vmlinux").write_bytes(data)
    with pytest.raises(SchedlineError, match="damaged ELF"):
        kernel_of(tmp_path / "vmlinux")


def test_file_that_is_no_elf(tmp_path: Path) -> None:
    (tmp_path / "btf").write_bytes(b"\x9f\xeb\x01\x00")
    assert kernel_of(tmp_path / "btf").machine == kernel_of(None).machine == platform.machine()
    assert kernel_of(None).name.startswith("running ")
    for path, message in ((tmp_path / "missing", "No such file"), (tmp_path, "directory")):
        with pytest.raises(SchedlineError, match=message):
            kernel_of(path)


@pytest.mark.parametrize(
    ("compiler", "machine"), [(toys.GCC, "x86_64"), (toys.ARM64, "aarch64"), (toys.S390X, "s390x")]
)
def test_machine(compiler: str, machine: str) -> None:
    toys.needs(compiler)
    assert kernel_of(toys.types_object(compiler=compiler)).machine == machine


def layout_with(machine: str, config: str = "", *names: str) -> Layout:
    """The toy kernel, read as a kernel that was built elsewhere."""
    kernel = KnownKernel("theirs", machine, parse_config(config))
    return layout_of_built(toys.types_object(*names), toys.real_rules(), kernel)


UNTOLD = "its configuration does not tell"


@pytest.mark.parametrize(
    ("machine", "config", "line", "assumed"),
    [
        ("aarch64", "", 64, ""),
        ("s390x", "", 256, ""),
        ("ppc64le", CONFIG, 128, ""),
        ("x86_64", CONFIG, 64, ""),
        ("x86_64", "CONFIG_X86_L1_CACHE_SHIFT=7\n", 128, ""),
        ("i686", "CONFIG_X86_L1_CACHE_SHIFT=5\n", 32, ""),
        ("armv7l", "CONFIG_ARM_L1_CACHE_SHIFT=6\n", 64, ""),
        ("x86_64", "", 64, "no configuration was found"),
        ("x86_64", "CONFIG_SMP=y\n", 64, UNTOLD),
        ("arm", CONFIG, 64, UNTOLD),
        ("x86_64", "CONFIG_X86_L1_CACHE_SHIFT=63\n", 64, UNTOLD),
        ("x86_64", "CONFIG_X86_L1_CACHE_SHIFT=\u00b2\n", 64, UNTOLD),
        ("x86_64", f"CONFIG_X86_L1_CACHE_SHIFT={'7' * 5000}\n", 64, UNTOLD),
        ("vax", CONFIG, 64, UNTOLD),
    ],
)
def test_line_size(machine: str, config: str, line: int, assumed: str) -> None:
    found = layout_with(machine, config)
    assert (found.line, bool(found.assumed)) == (line, bool(assumed)) and assumed in found.assumed


def test_conditions_with_and_without_a_configuration() -> None:
    told, untold = layout_with("x86_64", CONFIG), layout_with("x86_64")
    assert told.unknown == frozenset() and told.holds == toys.toy().holds
    assert {"CONFIG_SMP", "!CONFIG_SCHED_PROXY_EXEC", "locks plain", "mask == 8"} <= told.holds
    assert told.holds.isdisjoint({"!CONFIG_SMP", "CONFIG_SCHED_PROXY_EXEC", "locks debugged"})
    either = {"CONFIG_SMP", "!CONFIG_SMP", "CONFIG_SCHED_PROXY_EXEC", "!CONFIG_SCHED_PROXY_EXEC"}
    assert untold.unknown == either | {"CONFIG_SCHED_RTO_COUNT_SPLIT"}
    assert untold.holds == told.holds - untold.unknown


def test_conditions_are_measured() -> None:
    proxy = "CONFIG_SCHED_PROXY_EXEC=y\n"
    debugged = layout_with("x86_64", proxy, "CONFIG_DEBUG_SPINLOCK")
    assert {"locks debugged", "CONFIG_SCHED_PROXY_EXEC", "!CONFIG_SMP"} <= debugged.holds
    assert debugged.holds.isdisjoint({"locks plain", "!CONFIG_SCHED_PROXY_EXEC", "CONFIG_SMP"})
    assert "mask == 8" in layout_with("x86_64", proxy, "-CONFIG_SMP").unknown


def test_somebody_elses_kernel_is_judged_like_ones_own() -> None:
    rules = toys.real_rules()
    theirs = layout_with("x86_64", CONFIG)
    for rule in rules.rules:
        assert judge_rule(rules, rule.id, theirs).outcome is judge_rule(rules, rule.id, toys.toy()).outcome
    assert judge_rule(rules, "rd-lines.R2", layout_with("s390x", CONFIG)).outcome is RuleOutcome.FAIL
