# SPDX-License-Identifier: GPL-2.0
"""Real commits that moved a field for its cache line, undone on 7.3: what the contracts of the packs say.

Each file of replayed/ is written anew from what its commit describes. `Said` names the rule that has to break, or says
`none`: then no contract notices it, and docs/results/catches.md tells why. The commit itself is the file
backwards. It must never break a rule.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from layout_command import said

from schedlib import doctor
from schedlib.layout.patch_text import require_diff
from schedlib.names import pack_names, rule_ids
from schedlib.paths import PROJECT
from schedlib.verdict import Verdict

FILES = sorted((Path(__file__).parent / "replayed").glob("*.diff"))
PAGE = PROJECT / "docs/results/catches.md"


def head(path: Path) -> dict[str, str]:
    """What a file says of itself."""
    return dict(re.findall(r"^(\w+): (.+)$", path.read_text().partition("\n\n")[0], re.M))


def backwards(diff: str) -> str:
    """A diff that takes another one back."""
    swapped = re.sub(r"^--- a/(.*)\n\+\+\+ b/(.*)$", r"--- a/\2\n+++ b/\1", diff, flags=re.M)
    swapped = re.sub(r"^@@ -(\S+) \+(\S+) @@", r"@@ -\2 +\1 @@", swapped, flags=re.M)
    signs = {"+": "-", "-": "+"}
    lines = [
        signs.get(line[:1], line[:1]) + line[1:] if not line.startswith(("--- ", "+++ ")) else line
        for line in swapped.split("\n")
    ]
    return "\n".join(lines)


def test_there_are_ten() -> None:
    assert len(FILES) >= 10
    assert sum(head(path)["Said"] != "none" for path in FILES) >= 10


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_what_a_file_says_of_itself(path: Path) -> None:
    said = head(path)
    assert set(said) == {"Commit", "Undoes", "Said"}
    require_diff(path.read_bytes())
    assert said["Said"] == "none" or said["Said"] in rule_ids(*pack_names())
    [row] = [line for line in PAGE.read_text().splitlines() if f"`{path.stem}`" in line]
    assert said["Commit"] in row and (f"`{said['Said']}`" in row or said["Said"] == "none")


def test_backwards() -> None:
    diff = "--- a/x.h\n+++ b/x.h\n@@ -1,2 +1,3 @@ struct x {\n a\n+b\n-c\n+d\n"
    back = "--- a/x.h\n+++ b/x.h\n@@ -1,3 +1,2 @@ struct x {\n a\n-b\n+c\n-d\n"
    assert backwards(diff) == back and backwards(back) == diff


@pytest.fixture
def compilers() -> None:
    if doctor.missing(["build", "layout", "objtool", "fetch"]):
        pytest.skip("what compiling a kernel needs is not installed")


def broken_by(patch: Path) -> set[str]:
    """The rules that a patch breaks."""
    verdict, text = said("layout", "--patch", str(patch))
    found = {rule for rules in re.findall(r"ERROR: ([\w, .-]+):", text) for rule in rules.split(", ")}
    assert verdict is (Verdict.FAIL if found else Verdict.PASS), text
    return found


def diff_of(path: Path) -> str:
    return path.read_text().partition("\n\n")[2]


@pytest.mark.guest
def test_what_the_contracts_say_of_all_at_once(compilers: None, tmp_path: Path) -> None:
    # tcp-usec-ts changes the lines of tcp-scaling-ratio.
    together = [path for path in FILES if path.stem != "tcp-usec-ts"]
    (tmp_path / "all.diff").write_text("".join(map(diff_of, together)))
    assert broken_by(tmp_path / "all.diff") >= {head(path)["Said"] for path in together} - {"none"}


@pytest.mark.guest
@pytest.mark.long
@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_what_the_contracts_say(path: Path, compilers: None, tmp_path: Path) -> None:
    expected, broken = head(path)["Said"], broken_by(path)
    assert expected in broken if expected != "none" else not broken
    (tmp_path / "good.diff").write_text(backwards(diff_of(path)))
    assert not broken_by(tmp_path / "good.diff")
