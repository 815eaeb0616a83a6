# SPDX-License-Identifier: GPL-2.0
"""Mutated run files: a directory of them ends with a verdict or a reason, and no PASS for a candidate that is slower.

The files are those of a real run of rt_wakeup, with another machine's fingerprint.
"""

from __future__ import annotations

import json
import math
import random
import shutil
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from functools import reduce
from pathlib import Path
from typing import Any

from campaigns import GATES, minute_of, run

from schedlib.errors import SchedlineError
from schedlib.formats.document import parse
from schedlib.formats.run_file import Run
from schedlib.gate.comparison import compare
from schedlib.gate.gate_options import GateOptions
from schedlib.verdict import Verdict

_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**63, -(2**63) - 1, 10**400, 1e308, -0.0, 5e-324, 0.5, float("nan"), float("inf")),
    *("", "x", "\x00", "a\nverdict: PASS", "\x1b[2J", "\ud800", "\u202e", "x" * 100_000, "DONE", "SKIP", "ERROR"),
    *("run-1", "1970-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", "2026-W45", "lower"),
    *([], {}, [[]], [0] * 1000, {"a": 1}, "timer.p99", "exact", "exceedance", "quantile", "rate"),
)


def _paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places in a document."""
    parts = value.items() if isinstance(value, dict) else enumerate(value[:8]) if isinstance(value, list) else ()
    return [here, *(path for name, each in parts for path in _paths(each, (*here, name)))]


def mutated_structure(document: Mapping[str, Any], lot: random.Random) -> bytes:
    """A document of which one to three places are changed."""
    found = deepcopy(dict(document))
    for _ in range(lot.choice((1, 1, 1, 2, 3))):
        *way, last = lot.choice(_paths(found)[1:] or [("x",)])
        part: Any = reduce(lambda whole, step: whole[step], way, found)
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


def _boot(document: Mapping[str, Any], name: str, place: int, value: float) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(document))
    like = run(name, f"{name}-{place}", minute_of(name, place), [])
    found |= {"started": like["started"], "uptime_s": 60.0}
    found["fingerprint"] |= {each: like["fingerprint"][each] for each in ("boot_id", "kernel", "build_id")}
    next(metric for metric in found["metrics"] if metric["name"] == "timer.p50")["value"] = value
    return found


def _mutated_run(document: Mapping[str, Any], lot: random.Random) -> bytes:
    """A mutated file; four of five are drawn until the reader accepts one, since a refused file ends the comparison."""
    wanted = lot.random() < 0.8
    while True:
        changed = mutated_structure(document, lot)
        if not wanted:
            return changed
        with suppress(ValueError):
            parse(changed, Run)
            return changed


def compare_some(place: Path, lot: random.Random, *, factor: float, mutants: int) -> Verdict | None:
    """Mutate some files of a campaign, and compare. None if the gate refuses it."""
    shutil.rmtree(place, ignore_errors=True)
    wakeup = json.loads((Path(__file__).parent / "recorded_runs/rt_wakeup.json").read_text())
    files: list[tuple[Path, dict[str, Any]]] = []
    for name, times in (("base", 1.0), ("candidate", factor)):
        (place / name).mkdir(parents=True)
        for boot in range(10):
            value = round(times * 10_000 * math.exp(0.03 * lot.gauss(0, 1)), 6)
            files.append((place / name / f"{boot:02}.json", _boot(wakeup, name, boot, value)))
            files[-1][0].write_text(json.dumps(files[-1][1]))
    for path, content in lot.sample(files, mutants):
        changed = _mutated_run(content, lot)
        target = path if lot.random() < 0.5 else path.with_name(f"more-{path.name}")
        target.write_bytes(changed)
    gates = place / "gates.toml"
    gates.write_text(GATES.replace("timer.p99", "timer.p50").replace("[10]", "[5, 10]"))
    try:
        return compare(GateOptions(place / "base", place / "candidate", str(gates))).status
    except SchedlineError as error:
        assert "\n  next: " in str(error)
        return None


def test_no_mutated_campaign_leads_astray(tmp_path: Path) -> None:
    told = Counter[Verdict | None]()
    for number in range(16):
        lot = random.Random(number)  # noqa: S311 - to repeat it
        found = compare_some(tmp_path, lot, factor=1.25, mutants=lot.choice((1, 1, 2, 3)))
        assert found is not Verdict.PASS, number
        told[found] += 1
    assert told[None] and told.total() > told[None]


def test_whole_campaigns_are_judged(tmp_path: Path) -> None:
    lot = random.Random(1)  # noqa: S311 - to repeat it
    assert compare_some(tmp_path, lot, factor=1.0, mutants=0) is Verdict.PASS
    assert compare_some(tmp_path, lot, factor=1.25, mutants=0) in (Verdict.FAIL, Verdict.INCONCLUSIVE)
