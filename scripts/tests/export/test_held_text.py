# SPDX-License-Identifier: GPL-2.0
"""A series says nothing of itself that it does not hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from schedlib.cache import cache_dir
from schedlib.errors import SchedlineError
from schedlib.export.export_job import MESSAGES, PROCESS, export, holds, told
from schedlib.paths import KUNIT
from schedlib.tree.changes import change_table
from schedlib.tree.kernel_tree import cached_series
from schedlib.tree.selftest_programs import TEXT_OF_LIBRARY, message, program_sources
from schedlib.tree.suites import suite_table

FIXES = frozenset({"fix-cluster-key", "fix-share-id"})
UPSTREAM = {
    "7.3": frozenset({"rq-order", "cluster-scan"}),
    "7.2": frozenset({"rq-order", "cluster-scan"}),
    "6.12": frozenset({"cluster-scan"}),
}
LINES = frozenset({"rd-lines", "cpupri-lines"})

TEXTS = sorted(
    [
        *MESSAGES.iterdir(),
        TEXT_OF_LIBRARY,
        *KUNIT.glob("Documentation/*/*.rst"),
        KUNIT / "cover-letter.txt",
        KUNIT / "sender.txt",
        KUNIT / "Kconfig",
    ]
)

CLAIMS = {
    r"\bstruct root_domain\b": "rd-lines",
    r"\bstruct cpupri_vec\b": "cpupri-lines",
    r"\bclocks share one\b|\bwithout the lock\b": "rq-order",
    r"\bleaf\b": "cpupri-split",
    r"\bdrops a reference\b|bugs were found": "sched_topology:cluster_key_survives_other_partitions",
    r"\bmodel\b|\bprints the seed\b": "sched_cpupri:answers_match_a_simple_model",
    r"\bthe sd_share_id of the first cluster\b": "sched_topology:no_cluster_is_not_the_first_cluster",
}
"""What a text claims, and what the series must hold then."""


def held_by(changes: frozenset[str]) -> frozenset[str]:
    """What the series for a tree with these changes holds."""
    return holds(changes, [suite.name for suite in suite_table().values() if suite.fits(changes)])


SERIES = {
    "7.3": held_by(UPSTREAM["7.3"]),
    "7.3 with layouts": held_by(UPSTREAM["7.3"] | LINES),
    "7.3 with fixes": held_by(UPSTREAM["7.3"] | FIXES),
    "6.12": held_by(UPSTREAM["6.12"]),
    "6.12 with layouts": held_by(UPSTREAM["6.12"] | LINES),
    "all": held_by(frozenset(change_table())),
}


def claims(text: str, held: frozenset[str]) -> list[str]:
    """The claims of a text that the series does not hold."""
    flat = " ".join(text.split())
    wrong = [f"{claim}: {name}" for claim, name in CLAIMS.items() if re.search(claim, flat) and name not in held]
    return wrong + [name for name in suite_table() if re.search(rf"\b{name}\b", flat) and name not in held]


@pytest.mark.parametrize("series", SERIES)
def test_texts_claim_only_what_the_series_holds(series: str) -> None:
    held = SERIES[series]
    for file in (KUNIT / "cover-letter.txt", KUNIT / "sender.txt", KUNIT / "Documentation/scheduler/sched-kunit.rst"):
        text = told(file, held)
        assert claims(text, held) == [], file
        assert "[needs" not in text and "\n\n\n" not in text and not text.endswith("\n\n")
    for suite in held.intersection(suite_table()):
        assert claims(told(MESSAGES / f"{suite}.txt", held), held) == [], suite


def test_what_the_series_holds_is_said() -> None:
    cover = {series: told(KUNIT / "cover-letter.txt", held) for series, held in SERIES.items()}
    assert "struct rq:" in cover["7.3"] and "struct root_domain" not in cover["7.3"]
    assert "struct root_domain:" in cover["7.3 with layouts"]
    assert "bugs were found" in cover["7.3 with fixes"] and "bugs were found" not in cover["7.3 with layouts"]
    assert "cacheline groups" not in cover["6.12"] and "struct rq:" not in cover["6.12 with layouts"]


def test_programs_claim_only_what_any_series_holds() -> None:
    for program in program_sources():
        assert claims(message(program), frozenset()) == [], program


@pytest.mark.parametrize("file", TEXTS, ids=lambda file: file.name)
def test_text_names_only_what_a_series_can_hold(file: Path) -> None:
    text = told(file, holds(None, None).union(PROCESS))
    assert all(len(line) <= (75 if file.suffix == ".txt" else 80) for line in text.splitlines())


def test_unknown_name_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_text("Subject\n\n[needs: sched_layuot]\nnever\n")
    with pytest.raises(SchedlineError, match="text:3: no series has sched_layuot"):
        told(file, ())


def test_lines_end_at_a_tag_or_an_empty_line(tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_text("a\n[needs: rd-lines sched_layout]\nb\nc\n[needs: rq-order]\nd\n\ne\n\n[needs: rd-lines]\nf\n\ng\n")
    assert told(file, ()) == "a\n\ne\n\ng\n"
    assert told(file, {"rd-lines"}) == "a\n\ne\n\nf\n\ng\n"
    assert told(file, {"rd-lines", "sched_layout"}) == "a\nb\nc\n\ne\n\nf\n\ng\n"
    assert told(file, {"rq-order"}) == "a\nd\n\ne\n\ng\n"


@pytest.mark.tools
@pytest.mark.parametrize("series", ["7.3", "7.2"])
@pytest.mark.parametrize("with_", [(), tuple(sorted(LINES))], ids=["plain", "layouts"])
def test_each_test_that_a_series_is_said_to_hold_is_in_it(
    series: str, with_: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = cached_series(cache_dir(), series)
    if tree is None:
        pytest.skip(f"needs the tree of {series} in the cache: schedline fetch --series {series}")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "2")
    for number, (key, value) in enumerate((("user.name", "Tester"), ("user.email", "tester@localhost"))):
        monkeypatch.setenv(f"GIT_CONFIG_KEY_{number}", key)
        monkeypatch.setenv(f"GIT_CONFIG_VALUE_{number}", value)
    done = export(tree, tmp_path / "series", with_, ())
    assert done.changes == UPSTREAM[series] | FIXES | set(with_)
    held = held_by(done.changes)
    diffs = "".join(patch.read_text() for patch in done.patches)
    cases = {name.split(":")[1] for name in held if name.count(":") == 1}
    layouts = {name.replace("-", "_") for name in done.changes}
    missing = {case for case in cases if not re.search(rf"^\+.*\b{case}\b", diffs, re.M)} - layouts
    assert missing == set()
    cover = (tmp_path / "series/0000-cover-letter.txt").read_text()
    assert claims(cover, held) == [] and "bugs were found" in cover
    for patch in done.patches:
        message = patch.read_text().split("\n---\n")[0]
        if "tests" in patch.name or "KUnit" in patch.name:
            assert claims(message, held) == [], patch.name
        assert "[needs" not in message and " 2000 " not in re.findall(r"^Date: .*", message, re.M)[0]
        assert "the sender" not in message.lower()
    assert "Assisted-by: LLM" in (tmp_path / "series/SENDER").read_text()
