# SPDX-License-Identifier: GPL-2.0
"""`schedline c2c record`: what it refuses, what it asks perf and drgn for, and a map that the real drgn has made."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import toy_kernel
from toy_results import measurement

from one_verb import main_of
from schedlib.c2c import c2c_verb, plugin_guest, samples_job
from schedlib.c2c.c2c_job import built, plan, source
from schedlib.c2c.c2c_options import SOURCES, TAGS
from schedlib.c2c.kernel_map import kernel_map
from schedlib.c2c.memory_map import ObjectMap, memory_map, plan_lines
from schedlib.c2c.objects import watches
from schedlib.c2c.observed import read_raw
from schedlib.c2c.samples import read_measured
from schedlib.c2c.samples_job import objects_of_kernel, possible_cpus
from schedlib.cache import cache_dir, scratch
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.process import dying_with_us
from schedlib.tree.kernel_tree import Tree

PERF = Path(__file__).parent / "perf"
main = main_of(c2c_verb)


def test_possible_cpus(tmp_path: Path) -> None:
    place = tmp_path / "sys/devices/system/cpu/possible"
    with pytest.raises(SchedlineError, match="cannot be read"):
        possible_cpus(tmp_path)
    place.parent.mkdir(parents=True)
    for text, number in (("0-511\n", 512), ("0\n", 1), ("0,2-3\n", 4)):
        place.write_text(text)
        assert possible_cpus(tmp_path) == number


_FAKE_PERF = """\
# Writes what it was asked for to $SCHEDLINE_TEST_CALLS, and recorded samples.
echo "perf $*" >>"$SCHEDLINE_TEST_CALLS"
case "$1" in
c2c) shift 4; echo PERFILE2 >"$1"; exit ${SCHEDLINE_TEST_FAKE_STATUS:-0} ;;
script) cat "$SCHEDLINE_TEST_SAMPLES" ;;
esac
"""

_FAKE_DRGN = """\
echo "drgn $1 $2 $3" >>"$SCHEDLINE_TEST_CALLS"
cat >"$SCHEDLINE_TEST_CALLS.asked"
cat "$SCHEDLINE_TEST_ANSWER"
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake: Callable[[str, str], Path]) -> Path:
    """A machine whose perf and drgn only answer what they are told to, with a toy kernel."""
    fake("perf", _FAKE_PERF)
    fake("drgn", _FAKE_DRGN)
    vmlinux = toy_kernel.build(tmp_path)
    (tmp_path / "answer").write_text(
        '{"slide": 4096, "release": "7.3.0", "offsets": [0, 8], "areas": [], "pages": [], "arrays": [],'
        ' "instances": [["root_domain+0", 0, 18446612682070097920]]}'
    )
    for name in ("calls", "answer"):
        monkeypatch.setenv(f"SCHEDLINE_TEST_{name.upper()}", str(tmp_path / name))
    monkeypatch.setenv("SCHEDLINE_TEST_SAMPLES", str(PERF / "samples.txt"))
    monkeypatch.setenv("SCHEDLINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(samples_job, "_MEMORY", Path(os.devnull))
    running = kernel_map(vmlinux, tmp_path / "cache/c2c", TAGS).build_id
    monkeypatch.setattr(samples_job, "running_build_id", lambda: running)
    return vmlinux


@pytest.mark.tools
def test_a_recording(machine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    words = ["c2c", "record", "--vmlinux", str(machine), "--out", str(out)]
    words += ["--", "hackbench", "-l", "9"]
    assert main(words) == 0
    calls = (tmp_path / "calls").read_text()
    assert f"perf c2c record -a -o {out}/.perf.data -- hackbench -l 9\n" in calls
    assert "perf script --header" in calls and "drgn -q -k --main-symbols" in calls
    assert document.read(out / "objects.json", ObjectMap, "").slide == 4096
    assert read_measured(out).fields, "root_domain has a field"
    assert {each.name for each in out.iterdir()} >= {"perf.data", "samples.txt", "objects.json", "measured.json"}
    assert not [each for each in out.iterdir() if each.name.startswith(".")]
    assert '"pages": []' in (tmp_path / "calls.asked").read_text(), "the toy kernel has no slabs"
    capsys.readouterr()
    with pytest.raises(SchedlineError, match="has a recording already"):
        main(words)


@pytest.mark.tools
@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (lambda patch, place: patch.setenv("SCHEDLINE_TEST_FAKE_STATUS", "1"), "failed \\(1\\)"),
        (lambda patch, place: (place / "answer").write_text("{}"), "answered something else"),
        (lambda patch, place: patch.setattr(os, "geteuid", lambda: 1000), "only root"),
        (lambda patch, place: patch.setattr(samples_job, "_MEMORY", place / "nothing"), "CONFIG_PROC_KCORE"),
        (
            lambda patch, place: patch.setattr(samples_job, "running_build_id", lambda: "0" * 40),
            "than the one that runs",
        ),
    ],
)
def test_a_machine_that_cannot(
    broken: Callable[[pytest.MonkeyPatch, Path], object],
    said: str,
    machine: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken(monkeypatch, tmp_path)
    out = tmp_path / "out"
    with pytest.raises(SchedlineError, match=said):
        main(["c2c", "record", "--vmlinux", str(machine), "--out", str(out)])
    assert not (out / "measured.json").exists() and not (out / ".perf.data").exists()


def test_a_program_that_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SchedlineError, match="perf is not installed"):
        main(["c2c", "record", "--vmlinux", sys.executable, "--out", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def object_map() -> ModuleType:
    """The program, as a module."""
    spec = importlib.util.spec_from_file_location("object_map", SOURCES / "object_map.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("users", "name"), [(1, "pid"), (-1, "pid"), (2, "pid-merged")])
def test_a_cache_that_others_were_merged_into_tells_no_type(users: int, name: str, object_map: ModuleType) -> None:
    """Kernels merge caches of one size: an epitem in a slab named pid would get the fields of a pid."""
    cache = SimpleNamespace(
        name=SimpleNamespace(string_=lambda: b"pid"), refcount=SimpleNamespace(value_=lambda: users)
    )
    assert object_map._name(cache) == name


@pytest.mark.parametrize(("first", "lain"), [(0x200, [(0x1400, 0), (0x2400, 1)]), (0x100, [])])
def test_memory_of_each_cpu_behind_the_first_of_a_list(
    first: int, lain: list[tuple[int, int]], object_map: ModuleType
) -> None:
    """The head of an empty list, at 0x100, points to itself."""
    prog = SimpleNamespace(read_u64={0x100: first, 0x208: 0x400}.__getitem__)
    watch = {"key": "x", "per_cpu": True, "allocated": True, "address": 0x100, "hops": [8, 0]}
    found = object_map._instances(prog, {"watches": [watch], "cpus": 2}, [0x1000, 0x2000], lambda address: address)
    assert [(address, cpu) for (_, address), cpu in found.items()] == lain


OBJECTS = ("rq", "root_domain", "nohz", "sched_domain")


@pytest.mark.guest
@pytest.mark.long
def test_drgn_finds_what_the_plugin_has_found(series: Tree, tmp_path: Path) -> None:
    """A guest that stops when it has counted; the plugin and drgn, over QEMU's monitor, have read its memory."""
    cache, fragment, monitor = cache_dir(), Path(__file__).parent / "drgn.config", tmp_path / "qmp"
    asked = measurement(4, 300.0, objects=("all", *OBJECTS), rounds=5, config=(str(fragment),))
    with scratch(cache) as place:
        made = built(cache, source(series, asked), place / "kernel")
        known = kernel_map(made.vmlinux, cache / "c2c", TAGS)
        memory = memory_map(made.vmlinux, cache / "c2c", known)
        looked_at = watches(known, OBJECTS, 4)
        (place / "plan").write_text(plan(known, looked_at) + plan_lines(memory))
        archive = plugin_guest.archive_of(made.kernel, plugin_guest.files_for(cache, asked, asked.target), place)
        library, image = plugin_guest.plugin(cache), made.kernel.image
        words = plugin_guest.argv(asked, 100, image, archive, library, place / "plan", place / "raw")
        words += ["-device", "vmcoreinfo", "-qmp", f"unix:{monitor},server=on,wait=off", "-no-shutdown"]
        with (tmp_path / "console").open("wb") as console:
            guest = subprocess.Popen(dying_with_us(words), stdin=subprocess.DEVNULL, stdout=console, stderr=console)
        try:
            until = time.monotonic() + asked.timeout
            while "reboot: " not in (tmp_path / "console").read_text(errors="replace"):
                assert guest.poll() is None and time.monotonic() < until, (tmp_path / "console").read_text()
                time.sleep(0.2)
            raw = read_raw(place / "raw")
            drgn = [str(Path(sys.executable).with_name("drgn")), "-q", "--qemu", str(monitor)]
            found = objects_of_kernel(drgn, made.vmlinux, known, memory, OBJECTS, 4, tuple(raw.pages))
        finally:
            guest.kill()
            guest.wait()
    assert (found.slide, found.offsets, found.areas) == (0, raw.offsets, raw.areas)
    assert {each.structure: (each.first, each.number) for each in found.arrays} == raw.arrays
    assert set(found.instances) == {each for each in raw.instances if each.epoch == 1}
    pages = {each.address: each for each in found.pages}
    kinds = set()
    for address, page in raw.pages.items():
        # That a page is a stack, only the instructions say.
        if page.kind == "stack":
            continue
        kinds.add(page.kind)
        mapped = pages[address]
        assert (mapped.kind, mapped.cache) == (page.kind, page.cache)
        assert (mapped.size, mapped.object_size) == (page.size, page.object_size)
        assert page.kind != "slab" or (mapped.first - page.first) % page.size == 0
    assert kinds >= {"slab", "table", "large", "other"}
