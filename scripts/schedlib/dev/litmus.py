# SPDX-License-Identifier: GPL-2.0
"""Litmus tests with each barrier left out once, for the kernel's own tools/memory-model/scripts/checkalllitmus.sh.

A file of kunit/litmus/ contains a test and all its variants. A line that ends in `// -NAME` is left out of the variant
NAME. A line `// +NAME TEXT` adds TEXT to it. `(* *)` may be used instead of `//`. A NAME is either a mutant,
kunit/litmus/mutants/NAME.diff, configs/mutants/NAME.diff or configs/mutants/cpupri/NAME.diff, or it begins with `fix-`.
A `fix-` variant is the remedy for a test whose result is Sometimes; the mutants of such a test are tried on top of the
remedy.

Each variant becomes a file with its own `Result:`, which the kernel's script compares with herd7's answer. A mutant has
to make the outcome possible, unless the test lists it as `Unseen: NAME: REASON`.
"""

from __future__ import annotations

import fnmatch
import re
import shutil
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from subprocess import CompletedProcess

from schedlib import doctor
from schedlib.cache import cache_dir
from schedlib.dev.dev_verb import LitmusOptions
from schedlib.errors import SchedlineError
from schedlib.git import git
from schedlib.paths import KUNIT
from schedlib.process import run
from schedlib.tree.kernel_tree import Tree, open_tree
from schedlib.verdict import Verdict

LITMUS = KUNIT / "litmus"
MODEL = "tools/memory-model"

_RESULT = re.compile(r"^( \* Result: )(Never|Sometimes)$", re.M)
_UNSEEN = re.compile(r"^ \* Unseen: (\S+): .+$", re.M)
_ADDED = re.compile(r"^\s*(?://|\(\*)\s*\+(\S+)\s+(.*?)\s*(?:\*\))?$")
_LEFT_OUT = re.compile(r"\s*(?://|\(\*)((?:\s+-[\w/-]+)+)\s*(?:\*\))?\s*$")


def marks(text: str) -> list[str]:
    """The names of a test's variants, in the order in which they appear."""
    found: list[str] = []
    for line in text.splitlines():
        if added := _ADDED.match(line):
            found.append(added[1])
        elif left_out := _LEFT_OUT.search(line):
            found += [word[1:] for word in left_out[1].split()]
    return list(dict.fromkeys(found))


def with_marks(text: str, chosen: Collection[str]) -> str:
    """A test with some of its variants applied, and without marks."""
    kept = []
    for line in text.splitlines():
        if added := _ADDED.match(line):
            kept += [added[2]] if added[1] in chosen else []
        elif left_out := _LEFT_OUT.search(line):
            kept += [] if {word[1:] for word in left_out[1].split()} & set(chosen) else [line[: left_out.start()]]
        else:
            kept.append(line)
    return "".join(f"{line}\n" for line in kept)


def variants(path: Path) -> dict[str, str]:
    """The texts of a test and of each of its variants, by name; SchedlineError if its text contradicts itself."""
    text, name = path.read_text(), path.stem
    result, unseen, names = _RESULT.search(text), set(_UNSEEN.findall(text)), marks(text)
    if result is None:
        raise SchedlineError(f"{path} does not say what to expect", "add a line ` * Result: Never` to its comment")
    if not text.partition("\n")[0].endswith(f" {name}"):
        raise SchedlineError(f"{path} has another name inside", f"let its first line end in {name}")
    if unknown := sorted(unseen - set(names)):
        raise SchedlineError(f"{path}: no line is marked for {', '.join(unknown)}", "correct the line ` * Unseen:`")
    remedies = tuple(each for each in names if each.startswith("fix-"))
    made: dict[str, tuple[tuple[str, ...], str]] = {name: ((), result[2])}
    for each in names:
        if each in remedies:
            made[f"{name}+{each}"] = (each,), "Never"
        else:
            chosen = (*(remedies if result[2] == "Sometimes" else ()), each)
            made[f"{name}+{each.replace('/', '.')}"] = chosen, "Never" if each in unseen else "Sometimes"
    return {
        variant: _RESULT.sub(rf"\g<1>{expected}", with_marks(text, chosen)).replace(name, variant, 1)
        for variant, (chosen, expected) in made.items()
    }


def litmus(wanted: LitmusOptions) -> Verdict:
    doctor.require(wanted.tree.needs)
    tree = open_tree(cache_dir(), wanted.tree)
    verdict, said = check(tree, wanted.only)
    print(f"{said}tree: {tree.origin}\nverdict: {verdict.name}")
    return verdict


def check(tree: Tree, only: str = "*") -> tuple[Verdict, str]:
    """Check tests, by a glob, against the memory model of a tree, with their variants. Returns verdict and output."""
    files = {
        name: text
        for path in sorted(LITMUS.glob("*.litmus"))
        if fnmatch.fnmatchcase(path.stem, only)
        for name, text in variants(path).items()
    }
    if not files:
        raise SchedlineError(f"--only: no litmus test matches {only!r}", f"ls {LITMUS}")
    if lacking := [name for name in ("herd7", "/usr/bin/time") if not shutil.which(name)]:
        raise SchedlineError(
            f"{lacking[0]} is not installed, and the kernel's scripts need it to run litmus tests",
            "install the packages herdtools7 (7.58 or later, in Debian after 13) and time",
        )
    failed, said = False, ""
    # herd7 has its own models for assembly of an architecture. An empty option would select the scripts' default.
    for is_c, options in ((True, "-conf linux-kernel.cfg"), (False, " ")):
        if part := {name: text for name, text in files.items() if text.startswith("C ") is is_c}:
            done = _checked(tree, part, options)
            failed, said = failed or bool(done.returncode), said + (done.stdout + done.stderr).decode(errors="replace")
    return Verdict.FAIL if failed else Verdict.PASS, said


def _checked(tree: Tree, files: Mapping[str, str], options: str) -> CompletedProcess[bytes]:
    listed = git(tree.src, "ls-tree", "-r", "--name-only", tree.base, f"{MODEL}/").split()
    if f"{MODEL}/scripts/checkalllitmus.sh" not in listed:
        raise SchedlineError(f"{tree.origin} has no {MODEL}", "give a whole kernel tree: --kdir PATH")
    with tempfile.TemporaryDirectory(prefix="schedline-litmus-") as name:
        place = Path(name)
        for path in listed:
            file = place / Path(path).relative_to(MODEL)
            if file.suffix in (".cfg", ".cat", ".bell", ".def", ".sh"):
                file.parent.mkdir(exist_ok=True)
                file.write_text(tree.read(path) or "")
                file.chmod(0o755)
        (place / "litmus-tests").mkdir()
        for test, text in files.items():
            (place / "litmus-tests" / f"{test}.litmus").write_text(text)
        return run(["bash", "scripts/checkalllitmus.sh"], cwd=place, env={"LKMM_HERD_OPTIONS": options})
