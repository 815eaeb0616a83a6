# SPDX-License-Identifier: GPL-2.0
"""Jobs of LAVA: with checksums and with time limits that follow from the work."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from conftest import read_words
from schedlib.errors import SchedlineError
from schedlib.fleet import fleet_jobs, fleet_verb
from schedlib.fleet.campaign import FleetJob
from schedlib.fleet.fleet_jobs import FleetDevice, definition, read_device, yaml_text
from schedlib.main import main
from schedlib.paths import CONFIGS

DEVICES = sorted((CONFIGS / "fleet").glob("*.toml"))
FILE = {"url": "https://files.example.org/x", "sha256sum": "0" * 64}


def made(device: FleetDevice, boots: int = 4, seconds: float = 600) -> dict[str, Any]:
    job = FleetJob(f"{device.name}.0001.1", ("base",) * boots)
    files = {"base": dict.fromkeys(("kernel", "modules", "dtb"), FILE)}
    return definition(device, "0123456789ab", job, FILE, files, seconds=seconds, tags=["board-1"])


@pytest.mark.parametrize("path", DEVICES, ids=lambda path: path.stem)
def test_each_boot_has_its_actions_and_the_key(path: Path) -> None:
    device = read_device(path)
    job = made(device)
    assert [next(iter(action)) for action in job["actions"]] == ["deploy", "boot", "test"] * 4
    assert job["tags"] == [*device.tags, "board-1"]
    key = f"schedline.job=0123456789ab/{device.name}.0001.1"
    if device.method == "qemu":
        words = job["actions"][0]["deploy"]["images"]["kernel"]["image_arg"]
        # A busy machine does not change the clock of its guests.
        assert key in words and (" tsc=reliable " in words) == ("x86_64" in device.name)
    else:
        assert job["context"]["extra_kernel_args"].endswith(key)
    text = yaml_text(job)
    assert text.count(FILE["sha256sum"]) == text.count(FILE["url"])


def test_time_limits_follow_from_the_work() -> None:
    device = read_device(CONFIGS / "fleet/x86-server.toml")

    def limits(**more: Any) -> tuple[int, int]:
        job = made(device, **more)
        return job["timeouts"]["job"]["minutes"], job["actions"][2]["test"]["timeout"]["minutes"]

    assert limits() == (4 * (10 + 10 + 10 + 1), 10)
    assert limits(boots=8)[0] == 2 * limits()[0]
    assert limits(seconds=3600) == (4 * (10 + 10 + 60 + 1), 60)


def test_yaml_is_that_of_the_values() -> None:
    job = made(read_device(CONFIGS / "fleet/rpi-4.toml"))
    text = yaml_text(job, ["one", "two"])
    assert text.startswith("# one\n# two\njob_name: schedline ") and "&" not in text
    assert yaml.safe_load(text) == job


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('method = "u-boot"', 'method = "ipxe"', "kernel_type without U-Boot"),
        ('kernel_type = "image"\n', "", "kernel_type without U-Boot"),
        ('"panic=10"', '"panic=10 x"', "has the kernel parameter 'panic=10 x'"),
        ('"panic=10"', "'a=\"b'", "has the kernel parameter"),
        ('arch = "arm64"', 'arch = "vax"', "vax"),
        ("cpus = 4", "cpus = 0", "cpus"),
        ('"console=ttyS0", ', "", "has no console"),
    ],
)
def test_a_wrong_device_is_told(old: str, new: str, said: str, tmp_path: Path) -> None:
    text = (CONFIGS / f"fleet/{'qemu-x86_64' if 'console' in old else 'rpi-4'}.toml").read_text()
    assert old in text
    (tmp_path / "mine.toml").write_text(text.replace(old, new))
    with pytest.raises(SchedlineError, match=f"mine.toml:.*{said}"):
        read_device(tmp_path / "mine.toml")


@pytest.mark.tools
def test_the_ramdisk_is_an_archive(tmp_path: Path) -> None:
    (tmp_path / "program").write_bytes(b"#!/bin/sh\n")
    files: dict[str, Path | bytes] = {"/bin/a/program": tmp_path / "program", "/init": b"abc", "/x": b""}
    data = fleet_jobs.ramdisk(files)
    assert data == fleet_jobs.ramdisk(dict(reversed(list(files.items()))))
    said = subprocess.run(["busybox", "cpio", "-itv"], input=data, check=True, capture_output=True).stdout.decode()
    rows = {line.split()[-1].lstrip("/"): line.split()[0] for line in said.splitlines()}
    assert rows == {
        **dict.fromkeys(("bin", "bin/a", "dev", "proc", "sys"), "drwxr-xr-x"),
        **dict.fromkeys(("bin/a/program", "init", "x"), "-rwxr-xr-x"),
        "dev/console": "crw-------",
    }
    place = tmp_path / "unpacked"
    place.mkdir()
    subprocess.run(["busybox", "cpio", "-id", "init"], input=data, check=True, capture_output=True, cwd=place)
    assert (place / "init").read_bytes() == b"abc"


# The command.


def image(version: str) -> bytes:
    """As much of an arm64 image as tells its version."""
    return b"MZ" + bytes(100) + f"Linux version {version} (gcc)\n".encode()


def package(version: str, modules: bool = True) -> bytes:
    """A package as make tar-pkg makes it."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, data in (
            (f"./boot/vmlinuz-{version}", gzip.compress(image(version))),
            (f"./lib/modules/{version}/x.ko", b"module"),
        )[: 1 + modules]:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return stream.getvalue()


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A plan, and two kernels. The programs are not compiled."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(fleet_jobs, "_ramdisk", lambda *_: b"ramdisk")
    kernels = "base=7.3-a,candidate=7.3-b"
    words = ["gate", "plan", "--boot", "lava", "--kernels", kernels, "--boots", "12", "--seed", "5"]
    assert main([*words, "--out", "campaign"]) == 0
    for name, version in (("a", "7.3-a"), ("b", "7.3-b")):
        Path(name).write_bytes(image(version))
        Path(f"{name}.tar.gz").write_bytes(package(version))
    return tmp_path / "campaign"


JOBS = ("fleet", "jobs", "campaign", "--device", "rpi-4", "--kernels", "base=a,candidate=b")


def orders(directory: Path, device: str = "rpi-4") -> dict[str, list[str]]:
    found = json.loads((directory / f"devices/{device}.json").read_text())
    return {job["name"]: job["order"] for job in found["jobs"]}


def test_a_plan_for_lava_has_no_service(planned: Path) -> None:
    assert [path.name for path in planned.iterdir()] == ["plan.json"]
    (kernel, _) = json.loads((planned / "plan.json").read_text())["kernels"]
    assert "schedline fleet jobs" in kernel["command"]
    assert subprocess.run(["/bin/sh", "-c", kernel["command"]], check=False, capture_output=True).returncode != 0


def test_each_machine_gets_each_block_in_an_order_of_its_own(planned: Path) -> None:
    assert main([*JOBS, "--tags", "one,two"]) == 0
    found = orders(planned)
    assert list(found) == [f"rpi-4.{tag}.{block}" for tag in ("one", "two") for block in (1, 2, 3)]
    plan = json.loads((planned / "plan.json").read_text())
    assert [found[f"rpi-4.one.{block}"] for block in (1, 2, 3)] == plan["blocks"]
    assert found["rpi-4.one.1"] != found["rpi-4.two.1"] or found["rpi-4.one.2"] != found["rpi-4.two.2"]
    assert all(sorted(order) == ["base"] * 4 + ["candidate"] * 4 for order in found.values())
    assert "two" in yaml.safe_load((planned / "jobs/rpi-4.two.1.yaml").read_text())["tags"]


def test_artefacts_have_the_checksums_of_the_jobs(planned: Path) -> None:
    words = [*JOBS[:-1], "base=a.tar.gz,candidate=b", "--url", "https://files.example.org/c/"]
    assert main(words) == 0
    text = (planned / "jobs/rpi-4.0001.1.yaml").read_text()
    place = planned / "artefacts/rpi-4"
    names = ["base-kernel", "base-modules.tar.gz", "candidate-kernel", "ramdisk.cpio.gz"]
    assert sorted(path.name for path in place.iterdir()) == names
    for path in place.iterdir():
        assert f"url: https://files.example.org/c/rpi-4/{path.name}\n" in text
        assert hashlib.sha256(path.read_bytes()).hexdigest() in text
    assert (place / "base-kernel").read_bytes() == image("7.3-a")
    with tarfile.open(place / "base-modules.tar.gz") as archive:
        assert archive.getnames() == ["lib/modules/7.3-a/x.ko"]


def test_qemu_gets_neither_modules_nor_a_compressed_ramdisk(planned: Path) -> None:
    """A kernel for guests may have no decompressor."""
    words = ["base=a.tar.gz,candidate=b.tar.gz", "--device", "qemu-arm64"]
    assert main([*JOBS[:3], "--kernels", *words]) == 0
    place = planned / "artefacts/qemu-arm64"
    assert sorted(path.name for path in place.iterdir()) == ["base-kernel", "candidate-kernel", "ramdisk.cpio"]
    assert f"url: {place.as_uri()}/ramdisk.cpio" in (planned / "jobs/qemu-arm64.0001.1.yaml").read_text()


@pytest.mark.parametrize(
    ("kernels", "said"),
    [
        ("base=b,candidate=a", "b is 7.3-b, and the plan's base is 7.3-a"),
        ("base=a", "the plan has the kernels base, candidate"),
        ("base=a,placebo=b", "the plan has the kernels base, candidate"),
        ("base=empty.tar,candidate=b", r"no boot/vmlinuz"),
    ],
)
def test_other_kernels_than_planned_are_refused(kernels: str, said: str, planned: Path) -> None:
    with tarfile.open("empty.tar", "w"):
        pass
    with pytest.raises(SchedlineError, match=said):
        main([*JOBS[:-1], kernels])
    assert not (planned / "jobs").exists()


def test_jobs_are_never_changed(planned: Path) -> None:
    assert main(list(JOBS)) == 0
    before = (planned / "devices/rpi-4.json").read_bytes()
    with pytest.raises(SchedlineError, match="jobs are never changed"):
        main([*JOBS, "--machines", "3"])
    assert (planned / "devices/rpi-4.json").read_bytes() == before
    assert main([*JOBS[:4], "qemu-arm64", *JOBS[5:]]) == 0


def test_a_suite_of_tools_alone_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a").write_bytes(image("7.3-a"))
    words = ["--kernels", "base=7.3-a,candidate=7.3-b", "--suite", "quick", "--only", "hackbench-quick"]
    assert main(["gate", "plan", "--boot", "lava", *words, "--out", "campaign"]) == 0
    with pytest.raises(SchedlineError, match="no row of the suite quick can run"):
        main([*JOBS[:-1], "base=a,candidate=a"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--device is missing"),
        (["--device", "rpi-4"], "--kernels is missing"),
        (["--device", "rpi-5", "--kernels", "base=a"], "Did you mean rpi-4?"),
        (["--device", "rpi-4", "--kernels", "base=nothing"], "with a file that exists"),
        (["--device", "rpi-4", "--kernels", "base=a", "--tags", "a b"], "is no tag"),
        (["--device", "rpi-4", "--kernels", "base=a", "--tags", "x", "--machines", "2"], "leave out --machines"),
        (["--device", "rpi-4", "--kernels", "base=a", "--machines", "0"], "no number from 1"),
        (["--device", "rpi-4", "--kernels", "base=a", "--url", "files"], "is no address"),
        (["--device", "rpi-4", "--kernels", "base=a", "--url", 'https://x/"y'], "is no address"),
    ],
)
def test_usage_of_jobs(words: list[str], said: str, planned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises((SchedlineError, SystemExit)) as error:
        read_words(fleet_verb, "fleet", "jobs", "campaign", *words)
    assert said in str(error.value) + capsys.readouterr().err
