# SPDX-License-Identifier: GPL-2.0
"""What a guest is started with: the recorded commands, with which the counts of docs were made; programs of users."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from toy_results import measurement, parameters_of

from schedlib.c2c import plugin_guest
from schedlib.c2c.c2c_options import TRACED, OwnProgram
from schedlib.c2c.plugin_guest import MARKER
from schedlib.errors import SchedlineError
from schedlib.guest.busybox_guest import why_not_for
from schedlib.guest.shared_libraries import PLACE, linked
from schedlib.kernel.targets import TARGETS
from schedlib.kernel.topology import flat, load_topology
from schedlib.main import main

RECORDED = json.loads(Path(__file__).with_name("qemu_commands.json").read_text())


@pytest.mark.parametrize("row", RECORDED["guests"], ids=lambda row: f"{row['on']}-{row['shape']}-{row['quantum']}")
def test_a_guest_is_started_with_the_recorded_words(row: dict[str, Any]) -> None:
    shape = flat(row["shape"]) if isinstance(row["shape"], int) else load_topology(row["shape"])
    asked = measurement(shape, on=row["on"], line=row["line"], rounds=row["rounds"])
    asked = replace(asked, user_space=row["programs"])
    library = row["plugin"] and Path(row["plugin"])
    image, archive, plan, out = (
        Path(name) for name in ("/build/image", "/out/initramfs.cpio", "/out/plan", "/out/raw")
    )
    words = plugin_guest.argv(asked, row["quantum"], image, archive, library, plan, out)
    assert words == shlex.split(row["argv"])


@pytest.mark.parametrize("name", RECORDED["modes"])
def test_what_is_the_same_for_all_settings_is_in_the_fingerprint_as_recorded(name: str) -> None:
    assert plugin_guest.mode(TARGETS[name]) == RECORDED["modes"][name]


def argv(**others: Any) -> str:
    """A guest's command on two CPUs."""
    there = Path("/there")
    return " ".join(plugin_guest.argv(measurement(2, **others), 97, there, there, None, there, there))


def test_a_later_qemu_is_started_without_the_words_that_it_no_longer_has(fake: Callable[[str, str], Path]) -> None:
    for version, there, gone in (("7.2.22", "-no-hpet", "hpet=off"), ("10.0.2", "hpet=off", "-no-hpet")):
        fake("qemu-system-x86_64", f'echo "QEMU emulator version {version}"')
        assert there in argv()
        assert gone not in argv()
        # What the fingerprint of a result says is what was done.
        assert there in plugin_guest.mode(TARGETS["qemu-x86_64"])


@pytest.mark.parametrize(
    ("topology", "shared"),
    [("clusters", (4, 16, 16)), ("kunpeng920", (4, 64, 32)), ("llcs", (1, 2, 8)), ("smt2", (1, 64, 64))],
)
def test_how_many_cpus_share_what(topology: str, shared: tuple[int, int, int]) -> None:
    found = parameters_of(load_topology(topology))
    assert (found.per_cluster, found.per_llc, found.per_node) == shared


UNTRIED, REFUSED = "is not among those", "c2c needs QEMU 7.2, or 10.0 or later"


@pytest.mark.parametrize("on", TRACED)
@pytest.mark.parametrize(
    ("version", "help_", "said"),
    [
        *((version, "-plugin", "") for version in ("7.2.22", "10.2.1", "11.1.3")),
        *(("12.0.0", "-plugin", UNTRIED), ("9.2.0", "-plugin", REFUSED), ("", "", REFUSED)),
        ("7.2.22", "-smp", "built without plugins"),
    ],
)
def test_which_emulators_will_do(
    fake: Callable[[str, str], Path], capsys: pytest.CaptureFixture[str], on: str, version: str, help_: str, said: str
) -> None:
    told = version and f"QEMU emulator version {version}"
    fake(TARGETS[on].emulator[0], f'case $1 in --version) echo "{told}";; *) echo "{help_}";; esac')
    if said in ("", UNTRIED):
        assert version in plugin_guest.refuse_other_qemu(TARGETS[on])
        assert (UNTRIED in capsys.readouterr().err) == bool(said)
    else:
        with pytest.raises(SchedlineError, match=said):
            plugin_guest.refuse_other_qemu(TARGETS[on])


PYTHON = Path(sys.executable).resolve()
ARCH = "x86_64" if not why_not_for(PYTHON, "x86_64") else "arm64"
MARK, SHELL = Path("/build/count"), Path("/build/busybox")


@pytest.fixture
def script(tmp_path: Path) -> OwnProgram:
    (tmp_path / "my.sh").write_text("echo hello\n")
    return OwnProgram(tmp_path / "my.sh")


def test_a_program_goes_with_its_libraries() -> None:
    files = plugin_guest.packed(OwnProgram(PYTHON, arguments=("-c", "1")), ARCH, MARK, SHELL)
    assert files[f"/program/{PYTHON.name}"] == PYTHON
    assert files[MARKER] == MARK
    assert {f"{PLACE}/{name}" for name in linked(PYTHON).needed} <= set(files)
    # The kernel starts the program with the loader that it names.
    assert linked(PYTHON).interpreter in files
    assert "/bin/busybox" not in files


def test_a_script_goes_with_a_shell_and_files(script: OwnProgram, tmp_path: Path) -> None:
    files = tmp_path / "files"
    (files / "deep").mkdir(parents=True)
    (files / "deep/data").write_text("x")
    (files / "tool").symlink_to(PYTHON)
    found = plugin_guest.packed(replace(script, files=files), ARCH, MARK, SHELL)
    assert found["/bin/busybox"] == SHELL
    assert found["/program/my.sh"] == script.file
    assert found["/files/deep/data"] == files / "deep/data"
    # A program among the files has its libraries, too.
    assert linked(PYTHON).interpreter in found
    assert linked(PYTHON).interpreter not in plugin_guest.packed(script, ARCH, MARK, SHELL)


def test_the_command_keeps_every_byte_of_its_words(script: OwnProgram) -> None:
    words = ("two words", "", "a\nb", "-- $x", "\udcff")
    assert plugin_guest.command(replace(script, arguments=words)) == (
        b"whole\0/bin/busybox\0sh\0/program/my.sh\0two words\0\0a\nb\0-- $x\0\xff\0"
    )
    assert plugin_guest.command(OwnProgram(PYTHON, marked=True)).startswith(b"marked\0/program/")


def test_what_cannot_be_run_is_refused(script: OwnProgram, tmp_path: Path) -> None:
    other = {"x86_64": "arm64", "arm64": "x86_64"}[ARCH]
    library = plugin_guest.packed(OwnProgram(PYTHON), ARCH, MARK, SHELL)[f"{PLACE}/libm.so.6"]
    for own, arch, said in (
        (OwnProgram(PYTHON), other, f"the guest is {other}"),
        (OwnProgram(library), ARCH, "it is a library"),
        (replace(script, arguments=("x" * 40000,)), ARCH, "too long"),
    ):
        with pytest.raises(SchedlineError, match=said):
            plugin_guest.check(own, arch)
    plugin_guest.check(script, ARCH)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda files: (files / "with space").write_text("x"), "a name with a space"),
        (lambda files: (files / "dangling").symlink_to("nowhere"), "a link to nothing"),
        (lambda files: (files / "large").write_bytes(bytes(100)), "a guest has room for"),
    ],
)
def test_files_that_cannot_be_packed_are_refused(
    make: Callable[[Path], object], said: str, script: OwnProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin_guest, "MOST", 100)
    own = replace(script, files=tmp_path / "files")
    (tmp_path / "files").mkdir()
    plugin_guest.check(own, ARCH)
    make(tmp_path / "files")
    with pytest.raises(SchedlineError, match=said):
        plugin_guest.check(own, ARCH)


BAD = (
    f"--cpus 1|--quanta 97,97|--line 32|--rounds -1|--workload none|--on uml|--topology nothing|--program .|"
    f"--files {__file__}|--cpus 8 --topology smt2|--program {__file__} --workload rt"
)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        *((words, "") for words in BAD.split("|")),
        ("--marked", "--marked: there is no program"),
        ("--files .", "--files: there is no program"),
        ("-- -x", "words behind --: there is no program"),
        (f"--program {__file__} --rounds 3", "--rounds is for a --workload"),
    ],
)
def test_bad_options_are_errors(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SchedlineError if said else SystemExit, match=said or "2"):
        main(["c2c", "--series", "7.3", *words.split()])
    assert said or words.split()[0] in capsys.readouterr().err
