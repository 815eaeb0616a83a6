# SPDX-License-Identifier: GPL-2.0
"""Topologies are data, QEMU gets the words for them, and one that it cannot have is refused before a build."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from schedlib.errors import SchedlineError
from schedlib.kernel import topology
from schedlib.kernel.targets import TARGETS, command_line, refuse_impossible
from schedlib.kernel.topology import flat, load_topology, qemu_words
from schedlib.paths import CONFIGS

NAMES = sorted(path.stem for path in (CONFIGS / "topologies").iterdir())
GOOD = "sockets = 1\nnodes = 2\nclusters = 2\ncores = 4\nthreads = 1\n"


@pytest.mark.parametrize(("name", "cpus"), [("kunpeng920", 64), ("jacobsville", 24), ("smt2", 64), ("smt4", 64)])
def test_machines_have_the_cpus_that_they_are_known_for(name: str, cpus: int) -> None:
    assert load_topology(name).cpus == cpus


@pytest.mark.parametrize("name", NAMES)
def test_every_topology_can_be_read_and_named_beside_a_cpu_count(name: str) -> None:
    assert load_topology(name).cpus > 1
    assert name.isalnum()
    assert not name.isdigit()


def test_nodes_split_cpus_and_memory() -> None:
    words = " ".join(qemu_words(load_topology("kunpeng920"), "arm64", 512))
    assert "-smp 64,sockets=1,clusters=16,cores=4,threads=1" in words
    assert "-object memory-backend-ram,id=node1,size=256M -numa node,nodeid=1,cpus=32-63,memdev=node1" in words


def test_clusters_of_x86_are_modules_that_share_the_l2_cache() -> None:
    words = " ".join(qemu_words(load_topology("jacobsville"), "x86_64", 512))
    assert "-smp 24,sockets=1,modules=6,cores=4,threads=1" in words
    assert "cache=l2,smp-cache.0.topology=module" in words
    assert "-cpu max,vendor=GenuineIntel,level=0x1e" in words
    assert "-numa" not in words


def test_x86_without_clusters_needs_no_new_qemu() -> None:
    assert qemu_words(load_topology("smt2"), "x86_64", 512) == ["-smp", "64,sockets=1,cores=32,threads=2"]


def test_guest_gets_the_shape_in_place_of_a_cpu_count() -> None:
    words = command_line(TARGETS["qemu-arm64"], Path("image"), 64, (), "tcg", load_topology("smt4"))
    assert [words[place + 1] for place, word in enumerate(words) if word == "-smp"] == [
        "64,sockets=1,clusters=1,cores=16,threads=4"
    ]


def test_kernel_splits_the_llc() -> None:
    llcs = load_topology("llcs")
    assert (llcs.cpus, llcs.arguments) == (16, ("split_llc=4",))
    with pytest.raises(SchedlineError, match="only a kernel for x86"):
        refuse_impossible(TARGETS["qemu-arm64"], llcs)


def test_nodes_without_memory() -> None:
    words = " ".join(qemu_words(load_topology("memoryless"), "x86_64", 512))
    assert words.count("memory-backend-ram") == 2
    assert "size=256M -numa node,nodeid=1,cpus=4-7,memdev=node1 -numa node,nodeid=2,cpus=8-11 -numa" in words


def test_unknown_topology_names_the_known_ones() -> None:
    with pytest.raises(SchedlineError, match=r"(?s)no 'kunpeng'.*jacobsville, kunpeng920"):
        load_topology("kunpeng")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace("cores = 4\n", ""), "has to hold a count for each of sockets, nodes"),
        (GOOD + "dies = 1\n", "has to hold"),
        (GOOD.replace("4", "0"), "has to hold"),
        (GOOD.replace("4", "true"), "has to hold"),
        (GOOD.replace("4", "64"), "128 CPUs in 2 nodes: at most 64"),
        (GOOD.replace("nodes = 2", "nodes = 3"), "as many in each node"),
        ("cores", "Expected"),
    ],
)
def test_file_that_describes_no_machine(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "topologies").mkdir()
    (tmp_path / "topologies" / "mine.toml").write_text(text)
    monkeypatch.setattr(topology, "CONFIGS", tmp_path)
    with pytest.raises(SchedlineError, match=message):
        load_topology("mine")


def fake_qemu(directory: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put an emulator of our own into PATH."""
    program = directory / "qemu-system-x86_64"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")


def test_emulator_is_asked_with_the_words_of_the_guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_qemu(tmp_path, monkeypatch, f'echo "$@" > {tmp_path}/words; read word; test "$word" = quit')
    refuse_impossible(TARGETS["qemu-x86_64"], load_topology("jacobsville"))
    words = (tmp_path / "words").read_text()
    assert "modules=6" in words
    assert " -S " in words


def test_emulator_that_cannot_is_told_with_the_next_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_qemu(tmp_path, monkeypatch, "echo \"Parameter 'smp.modules' is unexpected\" >&2; exit 1")
    with pytest.raises(SchedlineError, match=r"(?s)smp\.modules.*--on qemu-arm64"):
        refuse_impossible(TARGETS["qemu-x86_64"], load_topology("jacobsville"))


def test_user_mode_linux_has_no_topology() -> None:
    with pytest.raises(SchedlineError, match="use --on qemu-arm64"):
        refuse_impossible(TARGETS["uml"], load_topology("smt2"))


def test_a_shape_without_a_name() -> None:
    assert (flat(8).cpus, flat(8).arguments) == (8, ())
    assert qemu_words(flat(8), "x86_64", 512) == ["-smp", "8,sockets=1,cores=8,threads=1"]
