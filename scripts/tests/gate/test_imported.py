# SPDX-License-Identifier: GPL-2.0
"""Files of other tools: each parser on recorded real outputs of several versions (recorded/), whole and damaged."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from campaigns import told

from schedlib.cache import read_regular
from schedlib.errors import SchedlineError
from schedlib.formats.run_file import NOT_RECORDED
from schedlib.gate import result_files
from schedlib.gate.gate_options import ReadingOptions
from schedlib.gate.result_files import Imported, imported, judged
from schedlib.gate.tool_formats import FOREIGN_FORMATS
from schedlib.paths import PROJECT

RECORDED = Path(__file__).parent / "recorded"

FORMATS = {
    "cyclictest": "cyclictest --json",
    "hackbench": "hackbench",
    "lkp": "LKP stats.json",
    "netperf": "netperf -k",
    "perf-bench": "perf bench",
    "perf-stat": "perf stat -j",
    "rtla-osnoise-hist": "rtla osnoise hist",
    "rtla-osnoise-top": "rtla osnoise top",
    "rtla-timerlat-hist": "rtla timerlat hist",
    "rtla-timerlat-top": "rtla timerlat top",
    "schbench": "schbench",
    "stress-ng": "stress-ng --yaml",
    "tbench": "tbench",
}
"""The folders of recorded/, and the formats whose recordings they hold."""

VALUES: dict[str, dict[str, float]] = {
    "cyclictest/2.40.json": {"latency.samples": 4000, "latency.p50": 37, "latency.p99": 139, "latency.mean": 41.875},
    "cyclictest/2.60.json": {"latency.p50": 38, "latency.p99": 81},
    "cyclictest/2.60-no-histogram.json": {"latency.mean": 48.088229665},
    "hackbench/2.40.txt": {"time_s": 0.306, "tasks": 80},
    "hackbench/2.60.txt": {"time_s": 0.373},
    "lkp/2019-04-28.json": {"mpstat.cpu.all.sys": 0.037, "perf_stat.i.cpu_cycles": 244317413266.0688},
    "lkp/2026-01-30.json": {"will_it_scale.per_process_ops": 224832, "time.elapsed_time": 93.88},
    "netperf/2.7.0-TCP_RR.txt": {"transactions_per_s": 6972.26, "latency.p99": 2262},
    "perf-bench/6.1.187-messaging.txt": {"time_s": 0.482},
    "perf-bench/6.12.117-pipe.txt": {"time_s": 0.070},
    "perf-stat/6.1.187.json": {"counted.task_clock": 124.8096, "counted.context_switches": 488},
    "perf-stat/6.12.117.json": {"counted.context_switches": 2046},
    "rtla-osnoise-hist/2021-10-27.txt": {
        "noise.samples": 543 + 529 + 458 + 618 + 569 + 573 + 609 + 616 + 600,
        "noise.p50": 0,
        "noise.p99": 20,
        "noises_per_s": 5115 / 60,
    },
    "rtla-osnoise-hist/5.17.txt": {"noise.p50": 0, "noise.p99": 10, "noises_per_s": 658773 / 60},
    "rtla-osnoise-top/6.12.117.txt": {"noise_percent": 100 * (1901099 + 2073791) / (1999688 + 2152920)},
    "rtla-timerlat-hist/6.1.192.txt": {"thread.samples": 904, "thread.p50": 6000, "thread.p99": 42000},
    "rtla-timerlat-hist/6.12.117.txt": {
        "thread.samples": 999,
        "thread.p50": 4000,
        "thread.p99": 32000,
        "user.samples": 999,
    },
    "rtla-timerlat-top/6.1.192.txt": {"samples": 998, "thread.mean": (492 * 7011 + 506 * 6617) / 998},
    "rtla-timerlat-top/6.12.117.txt": {"thread.mean": (490 * 6803 + 489 * 6716) / 979, "user.mean": 6825.508682},
    "schbench/2025-05-14.txt": {"wakeup.samples": 307, "wakeup.p99": 21600, "requests_per_s": 102.33},
    "schbench/2025-12-23.txt": {"wakeup.p50": 21, "request.p99": 99200, "requests_per_s": 75.67},
    "schbench/2025-09-28-mmtests-1.txt": {"wakeup.samples": 17623, "wakeup.p99": 11, "requests_per_s": 176.23},
    "schbench/2025-09-28-mmtests-64.txt": {"wakeup.p99": 9, "request.p99_9": 10288, "requests_per_s": 11228.16},
    "stress-ng/0.15.06-two.yaml": {"mutex.operations": 587403, "switch.operations_per_s": 2554.147302},
    "stress-ng/0.19.02-two.yaml": {"mutex.operations_per_s": 332881.460287, "switch.operations": 9185},
    "tbench/4.00.txt": {"mb_per_s": 655.67, "latency.max": 13.363},
}
"""Read from the recordings by hand."""

REFUSED = {"perf-stat/6.1.187-intervals.json", "perf-stat/6.12.117-intervals.json"}

NOT_JUDGED = {"lkp/2019-04-28.json"}
"""It has values of the monitors alone, and nobody says whether less of them is better."""

ALL = sorted(str(path.relative_to(RECORDED)) for path in RECORDED.glob("*/*"))
GOOD = [name for name in ALL if name not in REFUSED]


def name_of(recording: str) -> str:
    """The name of its file where the tool wrote it."""
    return "stats.json" if recording.startswith("lkp/") else Path(recording).name


def read(place: Path, name: str, content: str | bytes, unit: Any = "run", **more: Any) -> Imported:
    """The import of a directory with one file."""
    place.mkdir(exist_ok=True)
    (place / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return imported(place, ReadingOptions(unit, **more))


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        ('{"thread": {', "repeat these runs"),
        # A unit that cyclictest does not have.
        ((RECORDED / "cyclictest/2.40.json").read_text().replace('in_ns": 0', 'in_ns": 7'), "mend"),
        ("x", "see docs/gate.md"),
    ],
)
def test_only_what_was_cut_off_is_to_be_repeated(content: str, wanted: str, tmp_path: Path) -> None:
    """Of an unknown unit, too, the advice was to repeat the run."""
    with pytest.raises(SchedlineError) as error:
        read(tmp_path / "runs", "a.json", content)
    assert error.value.next_step.startswith(wanted)


def refused(place: Path, name: str, content: str | bytes, **more: Any) -> str:
    with pytest.raises(SchedlineError) as error:
        read(place, name, content, **more)
    assert "remove" not in str(error.value) and "delete" not in str(error.value)
    return str(error.value)


def judged_values(found: Imported) -> dict[tuple[str, str], tuple[float, str]]:
    """The values of the first run that are judged by default, with their units."""
    run = found.runs[0][1]
    rules = judged([found])
    return {(run.row, each.name): (each.value, each.unit) for each in run.metrics if (run.row, each.name) in rules}


@pytest.mark.parametrize("name", GOOD)
def test_recording_is_read(name: str, tmp_path: Path) -> None:
    found = read(tmp_path / "runs", name_of(name), (RECORDED / name).read_bytes())
    assert {kind.name for kind in found.formats} == {FORMATS[Path(name).parent.name]}
    assert bool(judged_values(found)) == (name not in NOT_JUDGED)
    assert not found.skipped
    run = found.runs[0][1]
    values = {metric.name: metric.value for metric in run.metrics}
    for metric, expected in VALUES.get(name, {}).items():
        assert values[metric] == pytest.approx(expected)
    assert run.fingerprint["machine"] == NOT_RECORDED


def test_each_format_has_recordings_of_two_versions() -> None:
    for folder in FORMATS:
        versions = {re.match(r"[0-9.]+(-\d+)*", path.name)[0] for path in (RECORDED / folder).iterdir()}  # type: ignore[index]
        assert len(versions) >= (1 if folder in ("netperf", "tbench") else 2), folder  # no other release prints so
    assert {each.name for each in FOREIGN_FORMATS} - {"CSV"} == set(FORMATS.values())
    assert {path.name for path in RECORDED.iterdir() if path.is_dir()} == set(FORMATS)


def test_recordings_of_others_have_a_source() -> None:
    sources = (RECORDED / "SOURCES.md").read_text()
    named = re.findall(r"^\| `([^`]+)` \|", sources, re.M)
    assert named and set(named) <= set(ALL)
    assert {name for name in ALL if name.split("/")[0] in ("lkp", "rtla-osnoise-hist")} <= set(named)


def test_what_the_files_tell_is_in_the_fingerprint(tmp_path: Path) -> None:
    run = read(tmp_path / "runs", "a.json", (RECORDED / "cyclictest/2.60.json").read_bytes()).runs[0][1]
    assert run.fingerprint["kernel"].startswith("6.18.44")
    assert run.fingerprint["command_line"].startswith("cyclictest -m -p 80")
    assert (run.fingerprint["tool_version"], run.fingerprint["unit"]) == ("2.60", "run")
    assert (run.fingerprint["order"], f"{run.started:%FT%TZ}") == ("start times in the files", "2026-11-23T14:53:07Z")
    assert run.fingerprint["build_id"] == NOT_RECORDED


def test_a_file_without_a_start_time_has_that_of_the_file(tmp_path: Path) -> None:
    place = tmp_path / "runs"
    read(place, "a.txt", (RECORDED / "hackbench/2.40.txt").read_bytes())
    os.utime(place / "a.txt", (1_000_000_000, 1_000_000_000))
    run = imported(place, ReadingOptions("boot")).runs[0][1]
    assert run.started.timestamp() == 1_000_000_000
    assert run.fingerprint["order"] == "times of the files"


@pytest.mark.parametrize("name", GOOD)
def test_a_file_that_is_cut_off_never_gives_another_value(name: str, tmp_path: Path) -> None:
    content = (RECORDED / name).read_bytes()
    whole = judged_values(read(tmp_path / "runs", name_of(name), content))
    unread = 0
    for end in range(0, len(content), 64):
        try:
            assert judged_values(read(tmp_path / "runs", name_of(name), content[:end])).items() <= whole.items(), end
        except SchedlineError:
            unread += 1
    assert unread


def renamed(value: Any) -> Iterator[Any]:
    """The same JSON with one key renamed, for each key."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        if isinstance(value, dict):
            yield {f"{name}_" if name == key else name: each for name, each in value.items()}
        for changed in renamed(part):
            copy = value.copy()
            copy[key] = changed
            yield copy


@pytest.mark.parametrize("name", [name for name in GOOD if name.startswith("cyclictest/")])
def test_a_renamed_field_never_gives_another_value(name: str, tmp_path: Path) -> None:
    content = json.loads((RECORDED / name).read_text())
    whole = judged_values(read(tmp_path / "runs", "x.json", json.dumps(content)))
    # One of each shape: the buckets of a histogram are alike.
    texts = {re.sub(r"[0-9.]+", "0", text): text for text in map(json.dumps, renamed(content))}
    unread = 0
    for text in texts.values():
        try:
            assert set(judged_values(read(tmp_path / "runs", "x.json", text)).values()) <= set(whole.values())
        except SchedlineError:
            unread += 1
    assert unread > 3


def test_cyclictest_without_a_histogram_is_judged_by_its_mean(tmp_path: Path) -> None:
    found = read(tmp_path / "runs", "a.json", (RECORDED / "cyclictest/2.40-no-histogram.json").read_bytes())
    assert list(judged_values(found)) == [("cyclictest", "latency.mean")]
    run = found.runs[0][1]
    assert run.why_absent("latency.p99") == "it ran without a histogram (-h)"
    assert run.value("latency.overflow") is None


def test_several_outputs_in_a_file_are_several_runs(tmp_path: Path) -> None:
    """As mmtests' hackbench appends them, an iteration after the other."""
    text = "".join((RECORDED / f"perf-bench/{name}-messaging.txt").read_text() for name in ("6.1.187", "6.12.117"))
    for unit, boots in (("run", 2), ("boot", 1)):
        found = read(tmp_path / unit, "hackbench-2", text, unit)
        assert len(found.runs) == 2
        assert len({run.fingerprint["boot_id"] for _, run in found.runs}) == boots


def test_outputs_of_several_tools_are_runs_of_each(tmp_path: Path) -> None:
    """As `perf bench sched all` prints them into one file; or each tool has written files of its own."""
    both = [(RECORDED / f"perf-bench/{name}.txt").read_text() for name in ("6.1.187-messaging", "6.12.117-pipe")]
    read(tmp_path / "runs", "1", "".join(both))
    read(tmp_path / "runs", "2", both[0].replace("0.482", "0.483"))
    found = read(tmp_path / "runs", "3", both[1].replace("0.070", "0.071"))
    boots: dict[str, list[str]] = {run.row: [] for _, run in found.runs}
    for _, run in found.runs:
        boots[run.row].append(run.fingerprint["boot_id"])
    assert len(boots) == 2
    first, second = boots.values()
    assert first == second and len(set(first)) == 2


def test_only_stats_of_lkp_are_runs(tmp_path: Path) -> None:
    """avg.json and stddev.json, one level higher, have the same form; the values of matrix.json are lists."""
    content = (RECORDED / "lkp/2026-01-30.json").read_text()
    read(tmp_path / "runs", "stats.json", content)
    (tmp_path / "runs/0").mkdir()
    (tmp_path / "runs/stats.json").rename(tmp_path / "runs/0/stats.json")
    for name in ("avg.json", "stddev.json"):
        (tmp_path / "runs" / name).write_text(content)
    (tmp_path / "runs/0/matrix.json").write_text(re.sub(r": ([0-9.]+)", r": [\1]", content))
    found = imported(tmp_path / "runs", ReadingOptions("run"))
    assert [name for name, _ in found.runs] == [str(tmp_path / "runs/0/stats.json")]
    assert {name for name, _ in found.skipped} == {"avg.json", "stddev.json", "0/matrix.json"}
    assert judged([found]) == {("lkp", "will_it_scale.per_process_ops"): "higher"}
    # A mode that will-it-scale did not run has 0.
    content = changed("lkp/2026-01-30.json", **{"will-it-scale.per_thread_ops": 0})
    assert judged([read(tmp_path / "mode", "stats.json", content)]) == judged([found])


EMPTY_HISTOGRAM = "# RTLA osnoise histogram\n# Time unit is microseconds (us)\n# Duration:   0 00:00:05\nIndex\n"


@pytest.mark.parametrize("zero", ["", " 0"])
def test_no_noise_at_all(zero: str, tmp_path: Path) -> None:
    """As rtla prints it without and with the change of Message-ID 20240627205022.857212058@goodmis.org."""
    rows = "".join(f"{name}:{zero}\n" for name in ("over", "count", "min", "avg", "max"))
    found = read(tmp_path / "runs", "a.txt", EMPTY_HISTOGRAM + rows)
    assert judged_values(found) == {("rtla-osnoise", "noises_per_s"): (0, "1/s")}
    odd = rows.replace("count:", "count: 7").replace("7 0", "7")
    assert "has not a value for each column" in refused(tmp_path / "runs", "a.txt", EMPTY_HISTOGRAM + odd)


def changed(name: str, **more: Any) -> str:
    return json.dumps(json.loads((RECORDED / name).read_text()) | more)


def counter(event: str = "cycles", value: str = "1") -> str:
    """A counter as perf stat -j writes it."""
    row = {"counter-value": value, "unit": "", "event": event, "event-runtime": 1, "pcnt-running": 100.0}
    return json.dumps(row) + "\n"


CYCLICTEST, OSNOISE = "cyclictest/2.40.json", "rtla-osnoise-hist/2021-10-27.txt"
CSV = "tool,name,value,unit,better\nmine,wake.p99,12.5,us,lower\nmine,rate,7,1/s,higher\nmine,size,3,,neither\n"
COLUMNS = ("tool", "metric", "value", "unit", "direction")
EDITED = [
    (CYCLICTEST, '"cycles":', '"cycles_per_ms":', "it has no 'cycles'"),
    ("hackbench/2.60.txt", "Time: ", "Time (ms): ", "no time"),
    ("lkp/2026-01-30.json", "93.88", "true", "no file of a known format"),
    ("lkp/2026-01-30.json", "93.88", "[93.88]", "no file of a known format"),
    ("lkp/2026-01-30.json", "93.88", '"93.88"', "no file of a known format"),
    ("perf-bench/6.12.117-pipe.txt", "[sec]", "[msec]", "no total time"),
    ("perf-stat/6.1.187-intervals.json", "", "", "intervals are no runs"),
    ("perf-stat/6.12.117-intervals.json", "", "", "intervals are no runs"),
    ("perf-stat/6.12.117.json", '"counter-value" :', '"counter-rate" :', "no whole JSON document"),
    ("rtla-osnoise-hist/5.17.txt", "# Time unit is", "# Unit is", "no time unit"),
    (OSNOISE, "00:01:00", "00:00:00", "ran for less than a second"),
    (OSNOISE, "# Duration:", "# Time:", "no duration"),
    (OSNOISE, "430", "431", "the buckets of CPU-000 do not add up"),
    (OSNOISE, "CPU-008", "", "has not a value for each column"),
    ("rtla-osnoise-top/6.12.117.txt", "time is in us", "time is in ns", "no time in us"),
    ("rtla-timerlat-hist/6.12.117.txt", "# Time unit is", "# Unit is", "no time unit"),
    ("rtla-timerlat-top/6.12.117.txt", "IRQ Timer Latency (us)", "IRQ Timer Latency [us]", "no file of a known format"),
    ("schbench/2025-12-23.txt", "average rps:", "average krps:", "no average rps"),
    ("stress-ng/0.19.02.yaml", "bogo-ops-per-second-real-time:", "bogo-ops-per-hour:", "bogo-ops-per-second"),
]
"""Recordings with a part that is changed, to another unit for example, and why they are refused."""

BAD_CSV = [
    ("12.5", "twelve", "line 2: the value 'twelve' is no number"),
    ("12.5", "nan", "is no number"),
    ("12.5", "-1", "is negative"),
    ("us,lower", "us", "line 2 has 4 columns"),
    ("lower", "smaller", "direction is 'smaller'"),
    ("rate", "wake.p99", "wake.p99 appears twice; if it has several runs"),
    (",neither\n", ",neither", "its last line has no end"),
    ("wake.p99", '"wake', "looks like CSV"),
]

BAD: list[tuple[str, bytes | str, str]] = [
    ("a.json", b"", "no file of a known format"),
    ("a.txt", "Dear reader,\n", "no file of a known format"),
    ("a.json", "[" * 200_000, "no whole JSON document"),
    ("a.json", '{"results": [], "results": []}', "no whole JSON document"),
    ("a.json", '{"results": [' + "9" * 5000 + "]}", "no whole JSON document"),  # huge whole
    ("a.json", counter(value="-5"), "is negative"),
    ("a.json", counter(value="<not counted>"), "perf could count nothing there"),
    ("a.json", changed(CYCLICTEST, thread=None), "looks like cyclictest --json"),
    ("a.json", changed(CYCLICTEST, thread={"0": {"cycles": 1}}), "it has no 'histogram'"),
    ("a.json", changed(CYCLICTEST, thread={"0": 7}), "a part of it is not as expected"),
    ("a.json", changed(CYCLICTEST, return_code=1), "reports that it failed: 1"),
    ("a.json", counter("x:y") + counter("x-y"), "the metric counted.x_y appears twice"),  # one name for two
    ("a\x1b[31m.json", b"{", "no whole JSON document"),
    ("a.json", '{"schema": "run-1"}', "which knows its boot"),
    *((name_of(name), (RECORDED / name).read_text().replace(old, new), said) for name, old, new, said in EDITED),
    *(("a.csv", CSV.replace(old, new), said) for old, new, said in BAD_CSV),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD, ids=[message for _, _, message in BAD])
def test_bad_file(name: str, content: str | bytes, message: str, tmp_path: Path) -> None:
    said = refused(tmp_path / "runs", name, content, columns=COLUMNS if name == "a.csv" else ())
    assert message in said
    assert said.count("\n") == 1 and "\x1b" not in said and "Error" not in said


def test_what_is_edited_is_in_the_recordings() -> None:
    assert all(old in (RECORDED / name).read_text() for name, old, _, _ in EDITED)
    assert all(old in CSV for old, _, _ in BAD_CSV)


def test_what_cannot_be_read_to_the_end(tmp_path: Path) -> None:
    place = tmp_path / "runs"
    read(place, "a.txt", (RECORDED / "hackbench/2.40.txt").read_bytes())
    os.mkfifo(place / "pipe.txt")
    (place / "zero").symlink_to("/dev/zero")
    (place / ".hidden").write_text("x")
    (place / "README").write_text("My results\n")
    (place / "a.err").write_text("")
    found = imported(place, ReadingOptions("run"))
    assert {name for name, _ in found.skipped} == {"README", "a.err", "pipe.txt", "zero"}
    assert "skipped 1 file: not a format that is known (cyclictest --json, hackbench," in "\n".join(found.notes)
    with (place / "large.txt").open("wb") as file:
        file.truncate(65 << 20)
    with pytest.raises(SchedlineError, match=r"large\.txt: it has 68157440 bytes"):
        imported(place, ReadingOptions("run"))


def test_files_beside_each_other(tmp_path: Path) -> None:
    """Names say nothing. One directory is one kernel on one machine: cyclictest tells it for hackbench."""
    hackbench, cyclictest = ((RECORDED / name).read_bytes() for name in ("hackbench/2.40.txt", "cyclictest/2.40.json"))
    place = tmp_path / "runs"
    read(place, "lie.json", hackbench)
    found = read(place, "lie.txt", cyclictest)
    assert {run.tool for _, run in found.runs} == {"hackbench", "cyclictest"}
    assert len({run.fingerprint["kernel"] for _, run in found.runs}) == 1
    assert "z.json: it is a copy of lie.txt" in refused(place, "z.json", cyclictest)
    (place / "z.json").unlink()
    # Short texts may be equal by chance; those of one moment are not.
    (place / "again.txt").write_bytes(hackbench)
    os.utime(place / "again.txt", (2, 2))
    assert len(imported(place, ReadingOptions("run")).runs) == 3
    assert "empty.txt: it is empty" in refused(place, "empty.txt", "")


def test_one_run_of_each_decides_nothing(tmp_path: Path) -> None:
    for side, name in (("base", "2.40.txt"), ("candidate", "2.60.txt")):
        read(tmp_path / side, name, (RECORDED / "hackbench" / name).read_bytes())
    code, said = told("gate", tmp_path / "base", tmp_path / "candidate", "--unit", "run", "--trust")
    assert code == 3 and "too few" in said


def test_csv(tmp_path: Path) -> None:
    found = read(tmp_path / "runs", "a.csv", CSV, columns=COLUMNS)
    assert judged_values(found) == {("mine", "wake.p99"): (12.5, "us"), ("mine", "rate"): (7, "1/s")}


def test_csv_with_runs_and_boots(tmp_path: Path) -> None:
    text = "".join(f"{boot},{run},time,{boot + run}.5\n" for boot in (1, 2, 3) for run in (1, 2))
    found = read(tmp_path / "runs", "a.csv", text, "boot", columns=("boot", "run", "metric", "value"))
    assert len(found.runs) == 6
    assert len({run.fingerprint["boot_id"] for _, run in found.runs}) == 3
    said = refused(tmp_path / "runs", "a.csv", text, columns=("boot", "run", "metric", "value"))
    assert "--unit run says that all files are of one boot" in said


def test_the_documentation_lists_the_formats() -> None:
    section = (PROJECT / "docs/gate.md").read_text().partition("## Runs that you already have")[2].partition("\n## ")[0]
    rows = [
        [word.strip().strip("`") for word in line.split("|")[1:-1]]
        for line in section.splitlines()
        if line[:3] == "| `" and line.count("|") == 4
    ]
    judged_names = [" or ".join(", ".join(each) for each in kind.judged) for kind in FOREIGN_FORMATS]
    told = [[row[0], row[1], row[2].replace("`", "")] for row in rows]
    assert told == [[each.name, each.make, names] for each, names in zip(FOREIGN_FORMATS, judged_names, strict=True)]


# ---- variants of outputs that are not recorded: made by hand from the sources and documents of the tools ----


def values_in(place: Path, text: str) -> dict[str, float]:
    """The metrics of one file."""
    found = read(place, "file.txt", text)
    return {f"{run.tool}:{metric.name}": metric.value for _, run in found.runs for metric in run.metrics}


def cyclictest(**more: object) -> str:
    thread = {"histogram": {"2000": 90, "3500": 10}, "cycles": 100, "min": 1500, "max": 3500, "avg": 2150.0}
    thread |= {"cpu": 0, "node": 0}
    plain = {"cmdline": "cyclictest -q --json=f", "rt_test_version": "2.40", "num_threads": 1, "thread": {"0": thread}}
    return json.dumps(plain | more)


@pytest.mark.parametrize(
    ("more", "p50"),
    [
        ({"resolution_in_ns": 1}, 2.0),
        ({"resolution_in_ns": 1, "cmdline": "cyclictest -qN -h 5000 --json=f"}, 2.0),
        ({"resolution_in_ns": 0}, 2000.0),
        ({}, 2000.0),
        ({"cmdline": "cyclictest --nsecs -q"}, 2.0),
    ],
)
def test_cyclictest_says_its_unit(more: dict[str, object], p50: float, tmp_path: Path) -> None:
    """With -N its numbers are nanoseconds: they were read as microseconds."""
    found = values_in(tmp_path, cyclictest(**more))
    assert found["cyclictest:latency.p50"] == p50
    assert found["cyclictest:latency.max"] == 1.75 * p50
    assert found["cyclictest:latency.mean"] == pytest.approx(1.075 * p50)
    with pytest.raises(SchedlineError, match="in an unknown unit: resolution_in_ns is"):
        values_in(tmp_path, cyclictest(**more | {"resolution_in_ns": 1000}))


def test_perf_bench_sched_all(tmp_path: Path) -> None:
    text = "# Running sched/messaging benchmark...\n# 9 groups\n\n     Total time: 0.250 [sec]\n\n"
    text += "# Running sched/pipe benchmark...\n\n     Total time: 3.500 [sec]\n\n       3.5 usecs/op\n"
    text += "# Running sched/seccomp-notify benchmark...\n# Executed 9 calls\n\n     Total time: 1.100 [sec]\n"
    times = {"messaging": 0.25, "pipe": 3.5, "seccomp-notify": 1.1}
    assert values_in(tmp_path, text) == {f"perf-bench-{name}:time_s": time for name, time in times.items()}


PERF_STAT = [
    {"counter-value": "77.000000", "unit": "", "event": "cpu_core/cycles/", "event-runtime": 5, "pcnt-running": 100.0},
    {"counter-value": "12.500000", "unit": "msec", "event": "task-clock"},
    {"event-runtime": 5, "pcnt-running": 100.0, "metricgroup": "TopdownL1"},
    {"metric-value": "21.4", "metric-unit": "%  tma_retiring"},
]


def test_perf_stat_with_metric_groups(tmp_path: Path) -> None:
    text = "".join(f"{json.dumps(row)}\n" for row in PERF_STAT)
    found = values_in(tmp_path, text)
    assert found["perf-stat:counted.cpu_core_cycles"] == 77
    assert found["perf-stat:counted.task_clock"] == 12.5
    assert not any("tma" in name for name in found)
    with pytest.raises(SchedlineError, match="neither a counter nor a metric"):
        values_in(tmp_path, text + '{"event": "x"}\n')
    with pytest.raises(SchedlineError, match="cut off"):
        values_in(tmp_path, text.rstrip("\n"))


SCHBENCH = """\
Wakeup Latencies percentiles (usec) runtime 30 (s) (5000 total samples)
\t  50.0th: 9          (2500 samples)
\t  90.0th: 20         (2000 samples)
\t* 99.0th: 41         (450 samples)
\t  99.9th: 88         (45 samples)
\t  min=1, max=300
"""


def test_schbench_without_requests(tmp_path: Path) -> None:
    """With -p it has none, and is no file that was cut off."""
    found = values_in(tmp_path, SCHBENCH + "avg worker transfer: 100.5 ops/sec 1.2MB/s\n")
    assert (found["schbench:wakeup.p99"], "schbench:requests_per_s" in found) == (41, False)
    notes = imported(tmp_path, ReadingOptions(unit="run")).notes
    assert "schbench has no requests_per_s: schbench -p has no requests" in notes
    with pytest.raises(SchedlineError, match=r"no number of request samples|no average rps"):
        values_in(tmp_path, SCHBENCH)


@pytest.mark.parametrize("unit", [[], ["--unit", "run"]])
@pytest.mark.parametrize(
    ("tool", "file", "next_step"),
    [
        ("fio", "fio.json", "to-csv.sh"),
        ("hyperfine", "hyperfine.json", "to-csv.sh"),
        ("Google Benchmark", "google-benchmark.json", "to-csv.sh"),
        ("ktstr", "ktstr.json", "to-csv.sh"),
        ("sysbench", "sysbench-1.1.0-cpu.txt", "to-csv.sh"),
        ("cyclictest for readers", "cyclictest-2.40.txt", "--json=FILE"),
        ("cyclictest for readers", "cyclictest-2.40-histogram.txt", "--json=FILE"),
        ("perf stat without -j", "perf-stat-6.1.187.txt", "with -j"),
        ("perf stat without -j", "perf-stat-6.1.187.csv", "with -j"),
        ("stress-ng for readers", "stress-ng-0.15.06.txt", "--yaml FILE"),
        ("perf bench, and not of sched", "perf-bench-6.1.187-futex-hash.txt", "CSV file"),
        ("schbench --json", "schbench.json", "2> FILE"),
        ("another program of rt-tests", "oslat-2.40.json", "CSV file"),
        ("another program of rt-tests", "signaltest-2.40.json", "CSV file"),
    ],
)
def test_an_output_that_is_not_read_is_named(
    tool: str, file: str, next_step: str, unit: list[str], tmp_path: Path
) -> None:
    for side in ("base", "candidate"):
        (tmp_path / side).mkdir()
        shutil.copy(RECORDED.parent / "recorded_csv" / file, tmp_path / side)
    code, said = told("gate", tmp_path / "base", tmp_path / "candidate", *unit)
    observed, _, to_do = said.partition("\n  next: ")
    assert code is None and f"base/{file} is an output of {tool}, which is not read" in observed and next_step in to_do
    if not unit and file.endswith(".json"):
        cut = tmp_path / "base" / file
        cut.write_bytes(cut.read_bytes()[:-30])
        assert told("gate", tmp_path / "base", tmp_path / "candidate") == (None, said)


def test_the_first_own_run_ends_the_search_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def counted(path: Path, most: int) -> bytes:
        seen.append(path.name)
        return read_regular(path, most)

    monkeypatch.setattr(result_files, "read_regular", counted)
    shutil.copy(RECORDED / "hackbench/2.40.txt", tmp_path / "a.txt")
    for name in ("b.json", "c.json"):
        (tmp_path / name).write_text('{"schema": "run-1"}\n')
    assert result_files.foreign_formats(tmp_path) == ()
    assert seen == ["a.txt", "b.json"]


@pytest.mark.parametrize(
    ("events", "judged_metrics"),
    [
        (("cpu_core/cycles/", "cpu_atom/cycles/u"), {"counted.cpu_core_cycles", "counted.cpu_atom_cycles_u"}),
        (("cycles:u", "task-clock:u"), {"counted.cycles_u"}),
        (("cpu_core/stalled-cycles/", "task-clock:u"), {"counted.task_clock_u"}),
    ],
)
def test_costs_of_a_hybrid_cpu_and_of_a_user_are_judged(
    events: tuple[str, ...], judged_metrics: set[str], tmp_path: Path
) -> None:
    rows = [
        f'{{"counter-value" : "{value}", "unit" : "", "event" : "{event}", "pcnt-running" : 99.80}}\n'
        for event, value in [*((each, "12.5") for each in events), ("cpu_atom/instructions/", "<not counted>")]
    ]
    found = judged_values(read(tmp_path / "runs", "stat.json", "".join(rows)))
    assert {name for _, name in found} == judged_metrics


def test_an_output_without_a_parser_beside_others_is_told(tmp_path: Path) -> None:
    shutil.copy(RECORDED.parent / "recorded_csv/sysbench-1.1.0-cpu.txt", tmp_path)
    shutil.copy(RECORDED / "hackbench/2.40-threads.txt", tmp_path)
    found = imported(tmp_path, ReadingOptions(unit="run"))
    assert len(found.runs) == 1
    assert found.skipped == (("sysbench-1.1.0-cpu.txt", "an output of sysbench, which is not read"),)


@pytest.mark.tools
@pytest.mark.parametrize(
    ("tool", "file", "values"),
    [
        ("fio", "fio.json", {"lat.read.iops": 4080.41958}),
        ("hyperfine", "hyperfine.json", {"sleep_0.02": 0.025975538}),
        (
            "google-benchmark",
            "google-benchmark.json",
            {
                "sum_of_range.real_time": 566478.397535,
                "sort_list_8.real_time": 1723.677822,
                "sort_list_64.real_time": 3901.014057,
            },
        ),
        ("ktstr", "ktstr.json", {"iteration_rate": 1500, "p99_wake_latency_us": 60}),
        ("sysbench", "sysbench-1.0.20-5-threads.txt", {"events_per_s": 624 / 2.0133, "latency.p95": 20.37}),
        ("sysbench", "sysbench-1.0.20-7-threads.txt", {"events_per_s": 768 / 2.0214, "latency.p95": 19.65}),
        ("sysbench", "sysbench-1.1.0-cpu.txt", {"events_per_s": 21246 / 30.0112, "latency.p95": 11.24}),
        ("perf-bench", "perf-bench-simple-6.1.187-messaging.txt", {"time_s": 0.445}),
        ("perf-bench", "perf-bench-simple-6.12.117-pipe.txt", {"time_s": 0.249}),
    ],
)
def test_the_documented_command_makes_csv(tool: str, file: str, values: dict[str, float], tmp_path: Path) -> None:
    """Real outputs of tools without a parser here; that of ktstr is made by hand from its source."""
    lines = (PROJECT / "configs/to-csv.sh").read_text()
    (command,) = re.findall(rf"^(.+) {tool}\.(?:json|txt) > {tool}\.csv$", lines, re.M)
    recording = RECORDED.parent / "recorded_csv" / file
    done = subprocess.run(["sh", "-c", f"{command} {recording}"], capture_output=True, check=True)
    found = read(tmp_path / "runs", "a.csv", done.stdout, columns=("metric", "value", "unit", "direction"))
    made = {name: value for (_, name), (value, _) in judged_values(found).items()}
    assert made == pytest.approx(values)
