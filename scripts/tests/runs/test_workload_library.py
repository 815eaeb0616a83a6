# SPDX-License-Identifier: GPL-2.0
"""What the workloads share: lists of CPUs, and histograms, checked against Python."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
from workload_runs import compile_program

from schedlib.tree.kernel_tree import Tree

pytestmark = pytest.mark.guest


@pytest.fixture(scope="module")
def program(series: Tree, tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("library") / "library"
    compile_program(series, Path(__file__).with_name("given_library.c"), built)
    return built


def run(program: Path, *words: str, numbers: str = "") -> tuple[int, str]:
    done = subprocess.run([program, *words], check=False, capture_output=True, text=True, input=numbers)
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0", "1 0"),
        ("0-3,8", "5 0-3,8"),
        ("8,0-2,3", "5 0-3,8"),
        ("1023,1024,8191", "3 1023-1024,8191"),
        ("63-64,127-128", "4 63-64,127-128"),
        ("0-8191", "8192 0-8191"),
    ],
)
def test_lists_of_cpus(text: str, said: str, program: Path) -> None:
    assert run(program, text) == (0, said + "\n")


@pytest.mark.parametrize("text", ["", "x", "1-", "-1", "3-2", "8192", "1,,2", "1;2", "1-2-3", "0x1", "1 2"])
def test_what_is_no_list(text: str, program: Path) -> None:
    assert run(program, text)[0] == 1


@pytest.mark.parametrize("seed", range(5))
def test_quantiles_are_near_the_true_ones(seed: int, program: Path) -> None:
    drawn = random.Random(seed)  # noqa: S311
    numbers = sorted(int(drawn.lognormvariate(8 + seed, 1 + seed / 3)) for _ in range(2000))
    code, said = run(program, numbers=" ".join(map(str, numbers)))
    assert code == 0
    n, most, *quantiles = map(float, said.split())
    assert (n, most) == (2000, numbers[-1])
    for percent, quantile in enumerate(quantiles):
        true = numbers[max(0, -(-percent * 2000 // 100) - 1)]
        if true < 2**40:
            assert quantile == pytest.approx(true, rel=1 / 64, abs=1)


def test_what_is_too_long_is_never_less_than_the_truth(program: Path) -> None:
    code, said = run(program, numbers=f"5 {2**40 - 1} {2**40} {2**44}")
    assert code == 0
    n, most, *quantiles = map(float, said.split())
    assert (n, most) == (4, 2**44)
    assert quantiles[100] == quantiles[75] == 2**44
