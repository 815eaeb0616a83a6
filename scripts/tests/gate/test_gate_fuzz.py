# SPDX-License-Identifier: GPL-2.0
"""Mutated run files: nothing but a reason or a run comes of them, and no PASS for a candidate that is slower.

The files are real ones of three workloads (recorded_runs/, with another machine's fingerprint), and what the parsers
make of the recorded output of other tools. For each mutated file:

- the reader refuses it with a reason in one line, or accepts it, and nothing else happens;
- what it accepts is also valid by the JSON schema, has finite figures only, and has no key twice.

For each directory with mutated files, `compare()` ends with a verdict or a SchedlineError, and never with a PASS if the
candidate is a quarter slower in every other file.
"""

from __future__ import annotations

import json
import math
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from by_schema import validator
from schedlib.errors import SchedlineError
from schedlib.formats.document import Refused, parse
from schedlib.formats.run_file import Head, Run, read_run, run_of
from schedlib.gate.boots import read_side
from schedlib.gate.comparison import compare
from schedlib.gate.gate_options import GateOptions
from schedlib.runs.measure import read_output
from schedlib.runs.tools import TOOLS, Output
from schedlib.verdict import Verdict

HERE = Path(__file__).parent

START = datetime(2026, 11, 1, tzinfo=UTC)

_RECORDED_TOOLS = ("cyclictest-good", "hackbench-good", "schbench-good", "stress-ng-good", "pi_stress-good")

_TOKENS = (
    *(b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1", b"-0.0", b"1e308", b"9223372036854775808", b"0.1e-400"),
    *(b"true", b"null", b'""', b"[]", b"{}", b"[" * 2000, b'{"a":' * 2000, b"1" * 5000),
    *(b"\\u0000", b"\\ud800", b"\\u001b[2J", b"\x1b", b"\n", b"\r", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\xc2\x9b"),
    *(b'"schema": "run-2",', b'"status": "SKIP",', b'"value": 0,', b"\xe2\x80\xae", b",", b'"', b"\\"),
)

_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**63, -(2**63) - 1, 10**400, 1e308, -0.0, 5e-324, 0.5, float("nan"), float("inf")),
    *("", "x", "\x00", "a\nverdict: PASS", "\x1b[2J", "\ud800", "\u202e", "x" * 100_000, "DONE", "SKIP", "ERROR"),
    *("run-1", "1970-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", "2026-W45", "lower"),
    *([], {}, [[]], [0] * 1000, {"a": 1}, "timer.p99", "exact", "exceedance", "quantile", "rate"),
)

_GATES = """\
[gate]
looks = [5, 10]
[[metric]]
tool = "rt_wakeup"
name = "timer.p50"
direction = "lower"
method = "rank"
budget = 3
detect = 25
"""


def originals() -> list[dict[str, Any]]:
    """The files that are mutated."""
    found = [json.loads(path.read_text()) for path in sorted((HERE / "recorded_runs").glob("*.json"))]
    head = Head("tool", "2026-11-01T00:00:00+00:00", 60.0, found[0]["fingerprint"])
    for name in _RECORDED_TOOLS:
        said = json.loads((HERE.parent / f"tools/{name}.json").read_text())
        tool = name.partition("-good")[0]
        output = Output(said["argv"], said["exit_status"], said["stdout"], said["stderr"], said["files"])
        run = msgspec.structs.replace(run_of(head, read_output(TOOLS[tool], output)), tool=tool)
        found.append(json.loads(msgspec.json.encode(run)))
    return found


def _paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places in a document."""
    out: list[tuple[Any, ...]] = [here]
    if isinstance(value, dict):
        for name, each in value.items():
            out += _paths(each, (*here, name))
    elif isinstance(value, list):
        for place, each in enumerate(value[:8]):
            out += _paths(each, (*here, place))
    return out


def mutated_structure(document: Mapping[str, Any], lot: random.Random) -> bytes:
    """A document of which one to three places are changed."""
    found = json.loads(json.dumps(document))
    for _ in range(lot.choice((1, 1, 1, 2, 3))):
        *way, last = lot.choice(_paths(found)[1:] or [("x",)])
        part = found
        for step in way:
            part = part[step]
        kind = lot.randrange(7)
        value = part.get(last) if isinstance(part, dict) else part[last]
        if kind == 0:
            del part[last]
        elif kind == 1 and isinstance(part, dict):
            part[lot.choice(("more", "value", "n", "a\nb", last + "\x1b"))] = value
        elif kind == 2 and isinstance(part, list):
            part.append(deepcopy(value))
        elif kind == 3 and isinstance(value, int | float) and not isinstance(value, bool):
            part[last] = value * lot.choice((-1, 0, 10, 10**30) if isinstance(value, int) else (-1, 1e-3, 1e30))
        elif kind == 4 and isinstance(value, str):
            part[last] = value + lot.choice(("\n", "\x00", "x", " ", "\x9b"))
        else:
            part[last] = deepcopy(lot.choice(_VALUES))
    return json.dumps(found, ensure_ascii=lot.random() < 0.5).encode(errors="surrogatepass")


def mutated_bytes(content: bytes, other: bytes, lot: random.Random) -> bytes:
    """A content of which one to four pieces are changed."""
    found = bytearray(content)
    for _ in range(lot.choice((1, 1, 1, 2, 4))):
        at, end = sorted((lot.randrange(len(found) + 1), lot.randrange(len(found) + 1)))
        end = min(end, at + lot.choice((1, 1, 8, 64, 10_000)))
        kind = lot.randrange(7)
        if kind == 0:
            found[at:end] = b""
        elif kind == 1:
            found[at:at] = lot.choice(_TOKENS)
        elif kind == 2:
            found[at:end] = lot.choice(_TOKENS)
        elif kind == 3:
            found[at:at] = found[at:end]
        elif kind == 4:
            found[at:end] = lot.randbytes(end - at)[:64]
        elif kind == 5:
            found[at:end] = other[at:end]
        elif at < len(found):
            found[at] = found[at] ^ 1 << lot.randrange(8)
    return bytes(found)


def mutant(number: int, seed: int, documents: list[dict[str, Any]], contents: list[bytes]) -> bytes:
    """The mutated file of this number; the same for the same seed."""
    lot = random.Random(f"{seed} {number}")  # noqa: S311 - to repeat it
    which = lot.randrange(len(documents))
    if lot.random() < 0.5:
        return mutated_structure(documents[which], lot)
    return mutated_bytes(contents[which], lot.choice(contents), lot)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs), "a key is there twice"
    return dict(pairs)


def _no_constant(text: str) -> Any:
    raise AssertionError(f"{text} is no JSON")


def check_accepted(content: bytes, run: Run) -> None:
    """What the reader accepts has to be valid by other means, too."""
    plain = json.loads(content.decode(), object_pairs_hook=_once, parse_constant=_no_constant)
    validator("run-1").validate(plain)
    assert all(math.isfinite(metric.value) for metric in run.metrics)
    assert all(metric.n for metric in run.metrics if metric.kind == "quantile")
    said = [run.reason, run.tool, *run.fingerprint.values(), *(each.unit for each in run.metrics)]
    assert not any(ord(char) < 32 and char != "\t" for text in said for char in text)


def read_one(content: bytes, directory: Path, tally: Counter[str]) -> None:
    """Give a file to the readers."""
    path = directory / "x.json"
    path.write_bytes(content)
    try:
        run = read_run(path)
    except Refused as refused:
        assert refused.why and all(char.isprintable() for char in refused.why)
        tally["refused"] += 1
        return
    check_accepted(content, run)
    tally["accepted"] += 1
    with suppress(SchedlineError):
        read_side(directory, "base")


def _boot(document: Mapping[str, Any], name: str, place: int, value: float) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(document))
    slot = 2 * place + ((place % 2) ^ (name == "candidate"))
    found["started"] = (START + timedelta(minutes=10 * slot)).strftime("%Y-%m-%dT%H:%M:%SZ")
    found["uptime_s"] = 60.0
    more = {"boot_id": f"{name}-{place}", "kernel": f"7.3.4-{name} #1 SMP", "build_id": f"{name}00"}
    found["fingerprint"] |= more
    for metric in found["metrics"]:
        if metric["name"] == "timer.p50":
            metric["value"] = value
    return found


def _mutated_run(document: Mapping[str, Any], lot: random.Random) -> bytes:
    """A mutated file; four of five are drawn until the reader accepts one, since a refused file ends the comparison."""
    plain, wanted = json.dumps(document).encode(), lot.random() < 0.8
    while True:
        changed = mutated_structure(document, lot) if lot.random() < 0.7 else mutated_bytes(plain, plain, lot)
        if not wanted:
            return changed
        with suppress(ValueError):
            parse(changed, Run)
            return changed


def compare_some(
    place: Path, documents: list[dict[str, Any]], lot: random.Random, *, factor: float, mutants: int
) -> Verdict | None:
    """Mutate some files of a campaign, and compare. None if the gate refuses it."""
    shutil.rmtree(place, ignore_errors=True)
    (place / "gates.toml").parent.mkdir(parents=True, exist_ok=True)
    (place / "gates.toml").write_text(_GATES)
    wakeup = next(each for each in documents if each["tool"] == "rt_wakeup")
    files: list[tuple[Path, dict[str, Any]]] = []
    for name, times in (("base", 1.0), ("candidate", factor)):
        (place / name).mkdir()
        for boot in range(10):
            value = round(times * 10_000 * math.exp(0.03 * lot.gauss(0, 1)), 6)
            files.append((place / name / f"{boot:02}.json", _boot(wakeup, name, boot, value)))
    for path, content in files:
        path.write_text(json.dumps(content))
    for path, content in lot.sample(files, mutants):
        changed = _mutated_run(content, lot)
        target = path if lot.random() < 0.5 else path.with_name(f"more-{path.name}")
        target.write_bytes(changed)
    try:
        return compare(GateOptions(place / "base", place / "candidate", str(place / "gates.toml"))).status
    except SchedlineError as error:
        assert "\n  next: " in str(error)
        return None


def fuzz(inputs: int, campaigns: int, seed: int) -> Counter[str]:
    """Read this many mutated files, and compare this many directories; what became of them.

    Raises:
        AssertionError: a property does not hold. Any other exception is a defect, too.
    """
    documents, tally = originals(), Counter[str]()
    contents = [json.dumps(each).encode() for each in documents]
    shared = Path("/dev/shm")  # noqa: S108 - only faster
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as name:
        directory = Path(name) / "one"
        directory.mkdir()
        for number in range(inputs):
            content = mutant(number, seed, documents, contents)
            try:
                read_one(content, directory, tally)
            except BaseException as error:
                error.add_note(f"seed {seed}, input {number}: {content[:3000]!r}")
                raise
        for number in range(campaigns):
            lot = random.Random(f"{seed} campaign {number}")  # noqa: S311 - to repeat it
            slow, mutants = number % 2 == 0, lot.choice((1, 1, 2, 3))
            try:
                found = compare_some(Path(name) / "two", documents, lot, factor=1.25 if slow else 1.0, mutants=mutants)
                assert not (slow and found is Verdict.PASS), "a PASS for a slow candidate"
            except BaseException as error:
                error.add_note(f"seed {seed}, campaign {number}")
                raise
            tally[f"{'slow' if slow else 'equal'} campaign: {found.name if found else 'refused'}"] += 1
    return tally


def test_no_mutated_file_leads_astray() -> None:
    tally = fuzz(600, 12, 1)
    assert tally["accepted"] > 30 and tally["refused"] > 300
    assert any(what.startswith("slow campaign: ") and not what.endswith("refused") for what in tally)


def test_whole_campaigns_are_judged(tmp_path: Path) -> None:
    lot = random.Random(1)  # noqa: S311 - to repeat it
    assert compare_some(tmp_path, originals(), lot, factor=1.0, mutants=0) is Verdict.PASS
    assert compare_some(tmp_path, originals(), lot, factor=1.25, mutants=0) in (Verdict.FAIL, Verdict.INCONCLUSIVE)
