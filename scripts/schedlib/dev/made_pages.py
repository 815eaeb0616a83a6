# SPDX-License-Identifier: GPL-2.0
"""`schedline dev docs`: the parts of README and docs/ that are made of code, configs and recorded runs.

A made part stands between `<!-- made: NAME -->` and `<!-- end -->`, in a line or over several. NAME is a key of PARTS,
perhaps with words behind it. `made()` gives every file as it has to be; the command writes them, and a test compares.
"""

from __future__ import annotations

import io
import re
import tomllib
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import chdir, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from schedlib import main as command
from schedlib.c2c import traffic_diff
from schedlib.c2c.c2c_options import WORKLOADS
from schedlib.c2c.traffic_report import lines_of
from schedlib.cache import write_atomic
from schedlib.check.mutants import Mutant, read_mutants
from schedlib.contracts.contract_rules import our_rules, pack_rules
from schedlib.dev.dev_verb import DocsOptions
from schedlib.dev.made_pictures import PICTURES, RECORDED, recorded_show
from schedlib.dev.mutants_page import GeneratedMutantsDocument, score_table
from schedlib.errors import SchedlineError
from schedlib.formats.contract_file import ClauseKind
from schedlib.formats.document import read
from schedlib.gate.decision import MISSED
from schedlib.gate.rules import load_gate
from schedlib.gate.statistics import bad_share
from schedlib.gate.tool_formats import FOREIGN_FORMATS
from schedlib.names import pack_names
from schedlib.paths import CONFIGS, INSTALLED, KUNIT, PROJECT
from schedlib.runs.workload_suites import load_suite, suite_names
from schedlib.verdict import BISECT_SKIP, MEANINGS, Verdict

MUTANTS_RECORDED = PROJECT / "scripts/tests/dev/generated-mutants"

_PART = re.compile(r"(<!-- made: (?P<name>[^>]+?) -->)(?P<old>.*?)(?P<end><!-- end -->)", re.S)


def docs(wanted: DocsOptions) -> Verdict:
    """Write the made parts and the pictures where they differ, or only name the files."""
    if INSTALLED:
        raise SchedlineError("pip has installed schedline without its pages", "run it in a clone")
    files = made(PROJECT)
    differing = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    for path in differing:
        print(f"{'differs' if wanted.check else 'written'}: {path.relative_to(PROJECT)}")
        if not wanted.check:
            write_atomic(path, files[path])
    return Verdict.FAIL if differing and wanted.check else Verdict.PASS


def made(root: Path) -> Mapping[Path, str]:
    """Each page and each picture below a directory, as it has to be."""
    pages = [root / name for name in ("README.md", "CONTRIBUTING.md", "patches/README.md")]
    pages += sorted((root / "docs").rglob("*.md"))
    pictures = {root / "docs" / name: draw() for name, draw in PICTURES.items()}
    page = gate_page()
    drawn = b64decode(page.split("base64,")[2].partition('"')[0]).decode()  # behind the interval: boot by boot
    pictures |= {root / "docs/recorded/gate.html": page, root / "docs/gate.svg": drawn}
    return {path: filled(path.read_text()) for path in pages} | pictures


def gate_page() -> str:
    """The page of the recorded campaign."""
    words = (PROJECT / "docs/gate.md").read_text().partition("made: transcript schedline ")[2].partition(" -->")[0]
    with TemporaryDirectory() as into:
        html = f"{into}/gate.html"
        _said([*words.split(), "--html", html])
        page = Path(html).read_text().replace(html, "gate.html")
    return re.sub(r"compared \d{4}-.*?(?=</p>)", "compared for this sample", page)


def filled(page: str) -> str:
    """A page with its parts made.

    Raises:
        SchedlineError: a part is unknown, or its mark has no end.
    """
    if len(re.findall(r"<!-- made: ", page)) != len(_PART.findall(page)):
        raise SchedlineError("a made part of a page has no end", "write <!-- end --> behind it")

    def part(found: re.Match[str]) -> str:
        name, *words = found["name"].split()
        if name not in PARTS:
            raise SchedlineError(f"no part of a page is called {name}", f"choose one of {', '.join(PARTS)}")
        text = PARTS[name](words)
        around = "\n" if found["old"].startswith("\n") else ""
        return f"{found[1]}{around}{text}{around}{found['end']}"

    return _PART.sub(part, page)


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)])


def _toml(path: Path) -> Any:
    return tomllib.loads(path.read_text())


_COUNTS: Mapping[str, Callable[[], int | str]] = {
    "structures": lambda: len(list((CONFIGS / "contracts").glob("*/*.toml"))),
    "rules": lambda: len(our_rules().rules) + len(pack_rules(pack_names()).rules),
    "packs": lambda: len(pack_names()),
    "tests": lambda: sum(
        bool(line) and not line.startswith("#") for line in (KUNIT / "tests.txt").read_text().splitlines()
    ),
    "series": lambda: ", ".join(_toml(CONFIGS / "series.toml")),
}
"""What pages count or list in a sentence."""


def _rules(_: Sequence[str]) -> str:
    """The rules of the scheduler with their reasons. Those that close a line are marked."""
    rules = our_rules()
    closing = {clause.rule for clause in rules.clauses if clause.kind is ClauseKind.ALONE}
    rows = ((f"`{rule.id}`{', closed' if rule.id in closing else ''}", rule.reason) for rule in rules.rules)
    return _table(("rule", "why"), rows)


def _packs(_: Sequence[str]) -> str:
    files = {pack: sorted((CONFIGS / "contracts" / pack).glob("*.toml")) for pack in pack_names()}
    rows = ((f"`{pack}`", ", ".join(f"`{path.stem}`" for path in its)) for pack, its in files.items())
    return _table(("pack", "structures"), rows)


def _held(_: Sequence[str]) -> str:
    """The mutants by hand of each change, and the rules and cases that have to fail on them."""
    found: dict[str, list[Mutant]] = {}
    for mutant in read_mutants(CONFIGS / "mutants"):
        found.setdefault(mutant.name.partition("/")[0], []).append(mutant)
    rows = []
    for what, its in found.items():
        names = sorted({name for mutant in its for name in mutant.killed_by})
        rows.append((f"`{what}`", str(len(its)), ", ".join(f"`{name}`" for name in names)))
    return _table(("what", "mutants", "rules and tests of which one has to fail on each"), rows)


def _metrics(_: Sequence[str]) -> str:
    """The metrics of the default gates."""
    rows = []
    for rule in load_gate("default").rules:
        unit = "in a million" if rule.absolute else "%"
        limits = (f"{rule.budget:g} {unit}", f"{rule.detect:g} {unit}")
        rows.append((f"`{rule.name}`", f"`{rule.tool}`", *limits, rule.because))
    return _table(("metric", "workload", "budget", "detect", "because"), rows)


def _traffic_budgets(_: Sequence[str]) -> str:
    """The budgets of `c2c diff`."""
    of = {"*": "each object", "*.*": "each field"}
    counts = {"false_shared": "false sharing"}
    rows = (
        (counts.get(row["count"], row["count"]), of[row["of"]], f"{row['budget']:g} % + {row['floor']}")
        for row in _toml(CONFIGS / "gates/c2c.toml")["metric"]
    )
    return _table(("count", "of", "may rise by"), rows)


def _formats(_: Sequence[str]) -> str:
    """The files of other tools that the gate reads."""
    rows = (
        (f"`{each.name}`", f"`{each.make}`", " or ".join(", ".join(f"`{name}`" for name in row) for row in each.judged))
        for each in FOREIGN_FORMATS
    )
    return _table(("format", "how to make a file", "judged"), rows)


def _bad_share(words: Sequence[str]) -> str:
    """The share of bad boots that so many boots do not exclude, of which so many are bad."""
    return f"{100 * bad_share(*map(int, words)):.0f} %"


def _looks(_: Sequence[str]) -> str:
    *first, last = map(str, load_gate("default").looks)
    return f"{', '.join(first)} and {last}"


def _default_gate(_: Sequence[str]) -> str:
    """The numbers of the default gates, by the symbols of the mathematics."""
    gate = load_gate("default")
    boots = ", ".join(map(str, gate.looks))
    return f"`m = {gate.family}`, `K = {len(gate.looks)}`, `n = {boots}`, `alpha = {gate.alpha}`; `MISSED` is {MISSED}"


def _campaign(_: Sequence[str]) -> str:
    """How long the boots of a plan take, without the time to boot."""
    seconds = sum(row.seconds for row in load_suite("gate").rows)
    looks = load_gate("default").looks
    first, last = looks[0], looks[-1]

    def hours(boots: int) -> str:
        return f"{boots * 5 * seconds / 3600:.1f} hours"

    return (
        f"A run of the suite `gate` takes {seconds:g} s, so five runs take {5 * seconds / 60:g} minutes in each boot. "
        f"{2 * first} boots,\nup to the first look, take {hours(2 * first)} and the time to boot; all {2 * last} boots "
        f"{hours(2 * last)}; {3 * last} boots with a placebo {hours(3 * last)}."
    )


def _suites(_: Sequence[str]) -> str:
    """The suites of `schedline run`, and whether they measure what the default gates judge."""
    tools, rows = {rule.tool for rule in load_gate("default").rules}, []
    for suite in map(load_suite, suite_names()):
        programs = [row.program for row in suite.rows]
        # Of several rows that run one program, the one that is named after it is compared.
        compared = {each for each in programs if programs.count(each) == 1}
        compared |= {row.name.replace("-", "_") for row in suite.rows}
        rows.append((f"`{suite.name}`", suite.about, "yes" if tools <= compared else "no"))
    return _table(("suite", "what it is", "default gates"), rows)


def _exit_codes(_: Sequence[str]) -> str:
    rows = [(each.exit_code, each.name, MEANINGS[each]) for each in Verdict]
    bisect = (BISECT_SKIP, "", "with `--bisect`: everything but PASS and FAIL, for `git bisect run`")
    return _table(("code", "verdict", "meaning"), [*rows, bisect])


def _verbs(_: Sequence[str]) -> str:
    """The verbs, with those below them."""
    rows = []
    for name, verb, about in command.verbs_of(command.parser()):
        below = ", ".join(f"`{inner}`" for inner, _, _ in command.verbs_of(verb))
        rows.append((f"`{name}`{': ' if below else ''}{below}", about))
    return _table(("verb", "what it does"), rows)


def _workloads(_: Sequence[str]) -> str:
    rows = ((f"`{each.name}`", each.about, each.rounds) for each in WORKLOADS.values())
    return _table(("`--workload`", "what it does", "rounds"), rows)


def _mutants(_: Sequence[str]) -> str:
    recorded = sorted(MUTANTS_RECORDED.glob("*.json"))
    return "\n".join(score_table([read(path, GeneratedMutantsDocument, "") for path in recorded]))


def _transcript(words: Sequence[str]) -> str:
    """A command of ours and what it prints, run at the top of this project."""
    return f"```console\n$ {' '.join(words)}\n{_said(words[1:]).rstrip()}\n```"


def _said(words: Sequence[str]) -> str:
    said = io.StringIO()
    with chdir(PROJECT), redirect_stdout(said):
        command.main(words)
    return said.getvalue()


def _patch(_: Sequence[str]) -> str:
    """The recorded patch."""
    return f"```diff\n{(RECORDED / 'first-line.patch').read_text().rstrip()}\n```"


def _show(_: Sequence[str]) -> str:
    """What `schedline show rd-lines` says of the structure, from the recorded run."""
    objects = traffic_diff.sections(*recorded_show().values())[0]
    said = "\n".join([*lines_of(objects)][1:])
    return f"```text\n{said}\n```"


PARTS: Mapping[str, Callable[[Sequence[str]], str]] = {
    "bad-share": _bad_share,
    "campaign": _campaign,
    "default-gate": _default_gate,
    "looks": _looks,
    "count": lambda words: str(_COUNTS[words[0]]()),
    "exit-codes": _exit_codes,
    "formats": _formats,
    "held": _held,
    "metrics": _metrics,
    "mutants": _mutants,
    "packs": _packs,
    "patch": _patch,
    "rules": _rules,
    "show": _show,
    "suites": _suites,
    "traffic-budgets": _traffic_budgets,
    "transcript": _transcript,
    "verbs": _verbs,
    "workloads": _workloads,
}
"""What a page may ask for; each takes the words behind its name."""
