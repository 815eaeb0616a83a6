# SPDX-License-Identifier: GPL-2.0
"""Mutated run files: a small part of what fuzz_runs.py does, and proof that it can find something."""

from __future__ import annotations

import random
from pathlib import Path

import fuzz_runs
import pytest
from fuzz_runs import Tally, check_accepted, compare_some, fuzz, originals

from schedlib.formats.document import parse
from schedlib.formats.run_file import Run
from schedlib.verdict import Verdict


def test_no_mutated_file_leads_astray() -> None:
    tally = Tally()
    fuzz(600, 12, 1, tally)
    assert tally.count["accepted"] > 30 and tally.count["refused"] > 300
    assert any(what.startswith("slow campaign: ") and not what.endswith("refused") for what in tally.count)


def test_whole_campaigns_are_judged(tmp_path: Path) -> None:
    lot = random.Random(1)  # noqa: S311 - to repeat it
    assert compare_some(tmp_path, originals(), lot, factor=1.0, mutants=0) is Verdict.PASS
    assert compare_some(tmp_path, originals(), lot, factor=1.25, mutants=0) in (Verdict.FAIL, Verdict.INCONCLUSIVE)


def test_a_pass_for_a_slow_candidate_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_runs, "compare_some", lambda *_, **__: Verdict.PASS)
    with pytest.raises(AssertionError, match="a PASS for a slow candidate"):
        fuzz(0, 1, 1, Tally())


def test_what_another_reader_refuses_is_found() -> None:
    plain = b'{"schema": "run-1", "schema": "run-1", "value": NaN}'
    run = parse((fuzz_runs.HERE / "recorded_runs/rt_wakeup.json").read_bytes(), Run)
    with pytest.raises(AssertionError, match="a key is there twice"):
        check_accepted(plain.replace(b"NaN", b"1"), run)
    with pytest.raises(AssertionError, match="is no JSON"):
        check_accepted(plain, run)


def test_a_crash_of_the_reader_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(path: Path) -> Run:
        raise KeyError(path)

    monkeypatch.setattr(fuzz_runs, "read_run", crash)
    with pytest.raises(KeyError):
        fuzz(1, 0, 1, Tally())
