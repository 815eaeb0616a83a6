# SPDX-License-Identifier: GPL-2.0
"""Hold our short versions of other tools' rules against the real tools: the same campaigns, judged by both.

    python -m schedlib.dev.gate_proof.real_tools benchstat=PROGRAM google/benchmark=DIR Otava=DIR lkp=DIR mmtests=DIR

With campaigns=N before a tool, that tool judges N campaigns of each case. benchstat is the program of
golang.org/x/perf. The others' directories are that of google/benchmark's gbench, that of the Python package otava, and
the sources of lkp-tests and of mmtests. lkp needs ruby, mmtests perl and R. For ktstr, give a program that reads the
lines of `MetricPair.line` and prints 1 for worse, else 0. Only developers need any of them.
"""

from __future__ import annotations

import csv
import importlib
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from schedlib.dev.gate_proof.noise_models import MODELS, log_normal
from schedlib.dev.gate_proof.rivals import RIVALS
from schedlib.dev.gate_proof.simulation import LIMITS, RIVALS_BOOTS, GateCase, as_measured
from schedlib.errors import SchedlineError
from schedlib.gate.statistics import Values
from schedlib.process import must

CAMPAIGNS = 250
"""Of each case; each has four metrics, so there are four times as many comparisons."""

SEED = 20261123
_HERE = Path(__file__).parent

CASES = {
    "log-normal 5 %": GateCase(MODELS["log-normal 5 %"]),
    "log-normal 5 %, +10 %": GateCase(MODELS["log-normal 5 %"], 0.10),
    "heavy tail, +10 %": GateCase(MODELS["heavy tail"], 0.10),
    "log-normal 5 %, +25 %": GateCase(MODELS["log-normal 5 %"], 0.25),
    "two groups": GateCase(MODELS["two groups"]),
    "log-normal 0.2 %, +0.5 %": GateCase(log_normal(0.002), 0.005),
    "20 us on a 1 us clock, +10 %": GateCase(log_normal(0.03), 0.10, clock=0.05),
}


@dataclass(frozen=True)
class MetricPair:
    """The boots of one metric of one campaign; values above 0."""

    base: Values
    candidate: Values
    higher: bool

    @property
    def line(self) -> str:
        """`lower` or `higher`, which is better; the base's values, a bar, the candidate's."""
        sides = (" ".join(f"{value!r}" for value in side.tolist()) for side in (self.base, self.candidate))
        return f"{'higher' if self.higher else 'lower'} {' | '.join(sides)}"


Judge = Callable[[str, Sequence[MetricPair]], list[bool]]


def _benchstat(program: str, pairs: Sequence[MetricPair]) -> list[bool]:
    """All pairs in one run: each is a benchmark. A change without a sign is none."""
    with tempfile.TemporaryDirectory(prefix="schedline-") as name:
        files = [Path(name) / side for side in ("base", "candidate")]
        for file, sides in zip(files, ([each.base for each in pairs], [each.candidate for each in pairs]), strict=True):
            file.write_text(
                "".join(
                    f"BenchmarkPair{number} 1 {value!r} x/op\n"
                    for number, side in enumerate(sides)
                    for value in side.tolist()
                )
            )
        said = must([program, "-format", "csv", *map(str, files)])
    signs = {row[0]: row[5][0] for row in csv.reader(said.splitlines()) if len(row) > 5 and row[0].startswith("Pair")}
    return [signs[f"Pair{number}"] == ("-" if pair.higher else "+") for number, pair in enumerate(pairs)]


def _google(directory: str, pairs: Sequence[MetricPair]) -> list[bool]:
    sys.path.insert(0, directory)
    report = importlib.import_module("gbench.report")
    found = []
    for pair in pairs:
        both = pair.base.tolist(), pair.candidate.tolist()
        _, _, p = report.calc_utest(both, both)
        difference = np.median(pair.candidate) - np.median(pair.base)
        found.append(bool(p < 0.05 and (difference < 0 if pair.higher else difference > 0)))
    return found


def _otava(directory: str, pairs: Sequence[MetricPair]) -> list[bool]:
    """Worse if there is any change point for the worse in the base's boots and then the candidate's."""
    sys.path.insert(0, directory)
    analysis = importlib.import_module("otava.analysis")
    found = []
    for pair in pairs:
        points, _ = analysis.compute_change_points([*pair.base.tolist(), *pair.candidate.tolist()])
        changes = [point.stats.forward_rel_change() for point in points]
        found.append(any(change < 0 if pair.higher else change > 0 for change in changes))
    return found


def _by_lines(argv: list[str], pairs: Sequence[MetricPair]) -> list[bool]:
    lines = "".join(f"{pair.line}\n" for pair in pairs)
    said = must(argv, stdin=lines.encode()).split()
    if len(said) != len(pairs):
        raise SchedlineError(f"{argv[0]} judged {len(said)} of {len(pairs)} pairs", "run it by hand")
    return [word == "1" for word in said]


JUDGES: dict[str, Judge] = {
    "benchstat": _benchstat,
    "google/benchmark": _google,
    "Otava": _otava,
    "lkp": lambda directory, pairs: _by_lines(["ruby", str(_HERE / "lkp_judge.rb"), directory], pairs),
    "mmtests": lambda directory, pairs: _by_lines(["perl", str(_HERE / "mmtests_judge.pl"), directory], pairs),
}


def _program(program: str, pairs: Sequence[MetricPair]) -> list[bool]:
    return _by_lines([program], pairs)


def compare(name: str, where: str, case: GateCase, boots: int, campaigns: int) -> tuple[int, int, int, int]:
    """Comparisons, how many are judged alike, and how many the real tool and ours call worse."""
    base, candidate, _ = case.boots(np.random.default_rng(SEED), campaigns)
    base, candidate = (as_measured(side[..., :boots]) for side in (base, candidate))
    ours = RIVALS[name](base, candidate, LIMITS.higher)
    places = list(np.ndindex(*ours.shape))
    pairs = [MetricPair(base[at], candidate[at], bool(LIMITS.higher[at[1]])) for at in places]
    real = np.array(JUDGES.get(name, _program)(where, pairs)).reshape(ours.shape)
    return ours.size, int((real == ours).sum()), int(real.sum()), int(ours.sum())


def main(words: Sequence[str]) -> None:
    """Print how often our rules and the real tools agree.

    Raises:
        SchedlineError: a word names no tool, or a tool fails.
    """
    campaigns = CAMPAIGNS
    for word in words:
        name, _, where = word.partition("=")
        if name == "campaigns":
            campaigns = int(where)
            continue
        if name not in RIVALS or not where:
            raise SchedlineError(f"{word} is not TOOL=PATH", f"tools: {', '.join(RIVALS)}")
        for case_name, case in CASES.items():
            for boots in RIVALS_BOOTS:
                count, alike, real, ours = compare(name, where, case, boots, campaigns)
                said = f"alike {alike} of {count}; worse: real {real}, ours {ours}"
                print(f"{name:18}{case_name:32}{boots:3} boots: {said}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
