# SPDX-License-Identifier: GPL-2.0
"""`schedline run --in-guest`: what goes into the guest, what comes back, what the console says. The guests are fake."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from workload_runs import storm

from by_schema import validate
from conftest import read_words
from schedlib.errors import SchedlineError
from schedlib.gate.boots import read_side
from schedlib.guest import busybox_guest, home
from schedlib.guest.boot import Ending, GuestRun
from schedlib.guest.busybox_guest import TARGET, Guest
from schedlib.kernel.build import Kernel
from schedlib.kernel.machine import boot_id, fingerprint, running_build_id
from schedlib.kernel.targets import TARGETS
from schedlib.kernel.topology import flat
from schedlib.paths import PROJECT, SELFTESTS
from schedlib.runs import guest_runs, run_verb
from schedlib.runs.run_verb import GUESTS, RunOptions
from schedlib.runs.workload_suites import chosen, load_suite
from schedlib.tree.kernel_tree import Tree
from schedlib.verdict import Verdict

PATH = os.environ["PATH"]

GUEST_SAYS = fingerprint() | {"kernel": "7.3.4 of the guest", "build_id": "abc", "boot_id": "of the guest"}

SPLAT = "[    8.000000] WARNING: CPU: 0 PID: 1 at kernel/x.c:1 y+0x1/0x2\n"
PANIC = "[    8.000000] Kernel panic - not syncing: x\n"

CONSOLE = """\
[    0.000000] Linux version 7.3.4 (schedline@schedline)
[    2.000000] kunit: disabled
TAP version 13
1..2
{results}[    9.000000] reboot: Restarting system
"""


def sender(directory: Path) -> str:
    """The guest's function that sends files, adapted to this machine."""
    text = (SELFTESTS / "send_disk.sh").read_text()
    return text.replace("/tmp/sent", f"{directory}/sent").replace("/dev/vda", f"{directory}/disk")  # noqa: S108


def sent(directory: Path, slot: int, files: Mapping[str, bytes], *shell: str) -> int:
    """Send files as a guest does, with its shell or another one, and return the exit status."""
    place = directory / f"sent-{slot}"
    place.mkdir()
    for name, content in files.items():
        (place / name).write_bytes(content)
    script = f"{sender(directory)}\nsend {slot} {place}"
    # The file that stands in for the disk must keep its size.
    script = script.replace("conv=fsync", "conv=notrunc").replace("conv=sync,fsync", "conv=sync,notrunc")
    return subprocess.run([*(shell or ("busybox", "sh")), "-c", script], check=False).returncode


def left(sleeps: float = 5, status: str = "0") -> dict[str, bytes]:
    """The files that a run of our own workload leaves in the guest."""
    ending = f"2026-11-22T07:00:00Z 3.50 4.75 {status}\n".encode()
    run = json.dumps(storm(sleeps=sleeps, fingerprint=GUEST_SAYS | {"command_line": "sleep_storm"})).encode()
    return {"run.json": run, "ending": ending, "stdout": b"ok 1 slept\n", "stderr": b""}


class Played(Guest):
    """A fake guest: its console and the files that it sends are given."""

    console = ""
    ending = Ending.EXITED
    sends: Mapping[int, Mapping[str, bytes]] = {}

    def boot(self, archive: Path, disk: Path, log: Path, timeout: float) -> GuestRun:
        for slot, files in self.sends.items():
            assert sent(disk.parent, slot, files, "sh") == 0
        log.write_text(self.console)
        return GuestRun(("qemu",), log, self.ending, 1.0, ())


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Played:
    """A guest that ran the storm once, without a failure."""
    monkeypatch.setattr(guest_runs, "_archive", lambda *_: tmp_path / "archive")
    guest = Played(tmp_path, TARGETS["qemu-x86_64"], flat(8), Kernel(tmp_path, tmp_path, "gcc"), "tcg")
    object.__setattr__(guest, "sends", {0: left(), 1: left()})
    object.__setattr__(guest, "console", console("ok", "ok"))
    return guest


def console(*results: str, more: str = "") -> str:
    names = ("identity", "storm-quick-1")
    lines = [
        f"# selftests: guest: {name}\n{result} {number} selftests: guest: {name}\n"
        for number, (name, result) in enumerate(zip(names, results, strict=False), 1)
    ]
    return CONSOLE.format(results="".join(lines) + more)


def run(guest: Guest, out: Path) -> tuple[Verdict, dict[str, Any]]:
    """The verdict, and the run of the storm if it exists."""
    out.mkdir(exist_ok=True)
    suite = guest_runs.for_guest(chosen(load_suite("quick"), ["storm-quick"]), 8)
    tree = Tree("7.3", out, "", "", "", False)
    verdict = guest_runs._measured(RunOptions(seed=1), suite, guest, tree, out)
    files = list(out.glob("*/storm-quick-1.json"))
    return verdict, json.loads(max(files, key=lambda file: file.stat().st_mtime).read_text()) if files else {}


def test_what_came_home_is_a_run_of_the_guest(played: Played, tmp_path: Path) -> None:
    verdict, found = run(played, tmp_path / "out")
    assert verdict is Verdict.PASS
    validate(found, "run-1")
    assert found["fingerprint"]["boot_id"] == "of the guest"
    assert (found["process"]["exit_status"], found["process"]["seconds"]) == (0, 1.25)
    assert not list((tmp_path / "out").glob(".now-*"))
    # The gate reads the runs and no other file.
    assert [boot.id for boot in read_side(tmp_path / "out", "guest").boots] == ["of the guest"]


@pytest.mark.parametrize(
    ("change", "verdict", "reason"),
    [
        ({"sends": {0: left(), 1: left(sleeps=0)}}, Verdict.FAIL, ""),
        ({"sends": {0: left(), 1: left(status="1")}}, Verdict.FAIL, ""),
        ({"sends": {0: left(), 1: left(status="139")}}, Verdict.ERROR, "killed by SIGSEGV"),
        ({"sends": {0: left()}}, Verdict.ERROR, "the guest returned no data"),
        ({"console": console("ok", "not ok")}, Verdict.FAIL, ""),
        ({"console": console("ok")}, Verdict.FAIL, ""),
        ({"console": console("ok", "ok", more=PANIC)}, Verdict.FAIL, ""),
        ({"console": console("ok", "ok", more=SPLAT)}, Verdict.FAIL, ""),
        ({"ending": Ending.TIMED_OUT}, Verdict.FAIL, ""),
        ({"console": "", "sends": {}}, Verdict.ERROR, None),
    ],
)
def test_whatever_is_wrong_is_no_pass(
    change: dict[str, Any], verdict: Verdict, reason: str | None, played: Played, tmp_path: Path
) -> None:
    for name, value in change.items():
        object.__setattr__(played, name, value)
    found, document_ = run(played, tmp_path / "out")
    assert found is verdict
    assert document_.get("reason") == reason


def test_boots_of_a_guest_are_boots(played: Played, tmp_path: Path) -> None:
    """The second one was refused: the directory had to be empty."""
    assert run(played, tmp_path / "out")[0] is Verdict.PASS
    other = {name: content.replace(b"of the guest", b"of another") for name, content in left().items()}
    assert b"7.3.4 of another" in other["run.json"]
    object.__setattr__(played, "sends", {0: other, 1: other})
    # Figures of two kernels are not mixed.
    with pytest.raises(SchedlineError, match=r"another kernel: 7\.3\.4 of the guest, here it is 7\.3\.4 of another"):
        run(played, tmp_path / "out")
    other["run.json"] = other["run.json"].replace(b"7.3.4 of another", b"7.3.4 of the guest")
    assert run(played, tmp_path / "out")[0] is Verdict.PASS
    assert {boot.id for boot in read_side(tmp_path / "out", "guest").boots} == {"of the guest", "of another"}
    assert {path.parent.name for path in (tmp_path / "out").glob("*/console.log")} == {"of the guest", "of another"}


def test_words_of_a_guest_need_one(tmp_path: Path) -> None:
    for words in (["--without", "rd-lines"], ["--kdir", str(tmp_path)], ["--cpus", "8"], ["--config", "numa"]):
        with pytest.raises(SchedlineError, match=f"{words[0]} is for a guest"):
            read_words(run_verb, "run", "--suite", "quick", *words)
        assert read_words(run_verb, "run", "--in-guest", *words).guest


def test_guests_have_a_disk() -> None:
    assert set(GUESTS) == {target.name for target in TARGETS.values() if target.emulator}
    assert GUESTS[0] == TARGET


@pytest.mark.tools
def test_what_is_sent_comes_home_whole(tmp_path: Path) -> None:
    disk = home.empty_disk(tmp_path / "disk", 3)
    files = {"stdout": bytes(range(256)) * 99, "out.json": b"{}\n", "empty": b""}
    assert sent(tmp_path, 0, {"other": b"1"}) == sent(tmp_path, 2, files) == 0
    place = tmp_path / "home"
    place.mkdir()
    assert home.bring_home(disk, 2, place) == ""
    assert {path.name: path.read_bytes() for path in place.iterdir()} == files
    assert home.bring_home(disk, 1, place) == "the guest returned no data"


@pytest.mark.tools
def test_half_of_it_is_not_trusted(tmp_path: Path) -> None:
    disk = home.empty_disk(tmp_path / "disk", 1)
    assert sent(tmp_path, 0, {"run.json": b"x" * 9000}) == 0
    whole = disk.read_bytes()
    place = tmp_path / "home"
    place.mkdir()
    for cut in (whole[:5000], whole[:600] + bytes(len(whole) - 600), whole.replace(b"xxx", b"xyx", 1)):
        disk.write_bytes(cut)
        assert home.bring_home(disk, 0, place) == "the data that the guest returned are damaged"
    disk.write_bytes(bytes(512) + whole[512:])
    assert home.bring_home(disk, 0, place) == "the guest returned no data"
    assert not list(place.iterdir())


@pytest.mark.tools
def test_what_is_too_big_is_not_sent(tmp_path: Path) -> None:
    disk = home.empty_disk(tmp_path / "disk", 2)
    assert sent(tmp_path, 0, {"perf.data": bytes(home.SLOT)}) != 0
    assert disk.read_bytes() == bytes(2 * home.SLOT)
    blocks = re.search(r"^SLOT=(\d+)", (SELFTESTS / "send_disk.sh").read_text(), re.M)
    assert blocks and int(blocks.group(1)) * 512 == home.SLOT


@pytest.mark.parametrize(
    ("ending", "exit_status", "timed_out", "seconds"),
    [
        ("1.0 3.5 0", 0, False, 2.5),
        ("1.0 3.5 255", 255, False, 2.5),
        ("1.0 3.5 139", -11, False, 2.5),
        ("1.0 3.5 137", -9, False, 2.5),
        ("1.0 99.5 137", None, True, 98.5),
        ("1.0 1.0", None, False, 0),
    ],
)
def test_how_a_run_ended(ending: str, exit_status: int | None, timed_out: bool, seconds: float, tmp_path: Path) -> None:
    (tmp_path / "ending").write_text(f"2026-11-22T07:00:00Z {ending}\n")
    if exit_status is None and not timed_out:
        (tmp_path / "problem").write_text("its server does not listen\n")
    started, uptime, found = guest_runs._finished(tmp_path, 99)
    assert (started, uptime) == ("2026-11-22T07:00:00Z", 1.0)
    assert (found.exit_status, found.timed_out, found.seconds) == (exit_status, timed_out, seconds)
    assert bool(found.problem) is (tmp_path / "problem").exists()


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with a hackbench that is a copy of a real program."""
    directory = tmp_path / "bin"
    directory.mkdir()
    (directory / "ldd").symlink_to("/usr/bin/ldd")
    (directory / "hackbench").write_bytes(Path("/bin/true").read_bytes())
    (directory / "hackbench").chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:/no-such-directory")
    return directory


def test_tools_are_taken_along_with_what_they_load(tools: Path, tmp_path: Path) -> None:
    suite = guest_runs.for_guest(chosen(load_suite("quick"), ["hackbench-quick", "cyclictest-quick"]), 6)
    todo = guest_runs.queued(suite, 1, 1, guest_runs.rows_left_out(suite, "x86_64"))
    # cyclictest is not installed, so the guest does not get its run.
    assert [*todo] == ["identity", "hackbench-quick-1"]
    assert guest_runs.why_not_in_guest(suite.rows["cyclictest-quick"], "x86_64") == (
        "cyclictest is not installed: package rt-tests",
        True,
    )
    place = tmp_path / "files"
    place.mkdir()
    files = guest_runs.guest_files(todo, place)
    assert files["/runs/001/command"].read_text() == f"#!/bin/sh\nexec {tools}/hackbench -s 100 -l 200 -g 3\n"
    assert files["/runs/001/about"].read_text() == "hackbench-quick-1 96\n"
    assert files[f"{tools}/hackbench"] == tools / "hackbench"
    assert any("ld-linux" in name for name in files) and any(name.endswith("libc.so.6") for name in files)
    assert all(path.exists() for path in files.values())


def test_what_cannot_run_in_the_guest_is_a_skip_with_the_reason(tools: Path) -> None:
    row = load_suite("quick").rows["hackbench-quick"]
    assert guest_runs.why_not_in_guest(row, "x86_64") == ("", False)
    why, missing = guest_runs.why_not_in_guest(row, "arm64")
    assert "not for arm64" in why and not missing
    (tools / "hackbench").write_text("#!/bin/sh\n")
    assert "is a script, and the guest has only busybox" in guest_runs.why_not_in_guest(row, "x86_64")[0]


@pytest.mark.tools
def test_a_shell_that_the_guest_cannot_run_is_not_taken(
    tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = tmp_path / "apt/busybox-x86_64/busybox"
    fetched.parent.mkdir(parents=True)
    fetched.write_text("kept")
    monkeypatch.setattr(busybox_guest, "download", lambda *_, **__: pytest.fail("it is there"))
    assert busybox_guest.busybox(tmp_path, "x86_64") == fetched
    # This busybox is linked to libraries that the guest lacks.
    (tools / "busybox").write_bytes(Path("/bin/true").read_bytes())
    (tools / "busybox").chmod(0o755)
    assert busybox_guest.busybox(tmp_path, "x86_64") == fetched
    monkeypatch.setenv("PATH", PATH)
    assert busybox_guest.busybox(tmp_path, "x86_64") != fetched


def test_servers_are_started_by_their_ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = next(row for row in load_suite("quick").rows.values() if row.tool == "tbench")
    files = guest_runs.guest_files({"identity": guest_runs.IDENTITY, "tbench-quick-1": server}, tmp_path)
    assert files["/runs/001/about"].read_text().split()[2:] == ["1B5B"]
    assert files["/runs/001/server"].read_text() == "#!/bin/sh\nexec tbench_srv\n"


def test_a_guest_has_the_cpus_that_its_runs_are_told_of() -> None:
    suite = guest_runs.for_guest(load_suite("quick"), 8)
    words = {name: row.to_argv() for name, row in suite.rows.items()}
    assert words["hackbench-quick"][-1] == "4"
    assert suite.digest() != guest_runs.for_guest(load_suite("quick"), 6).digest()


@pytest.mark.guest
def test_workloads_of_a_real_guest_come_home(tmp_path: Path) -> None:
    """The kernel is the one that the other arm64 tests boot, too."""
    rows = {"storm-quick": "sleeps", "rt-wakeup-quick": "timer.samples"}
    argv = [str(PROJECT / "scripts/schedline"), "run", "--in-guest", "--on", "qemu-arm64", "--only", ",".join(rows)]
    argv += ["--out", str(tmp_path / "out")]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    for row, work in rows.items():
        found = json.loads(next((tmp_path / "out").glob(f"*/{row}-1.json")).read_text())
        validate(found, "run-1")
        assert found["status"] == "DONE"
        assert found["fingerprint"]["boot_id"] not in ("", boot_id())
        assert found["fingerprint"]["build_id"] not in ("", running_build_id())
        assert "CPUs 0-7," in found["fingerprint"]["machine"]
        assert next(metric["value"] for metric in found["metrics"] if metric["name"] == work)
    assert len(read_side(tmp_path / "out", "guest").boots) == 1
