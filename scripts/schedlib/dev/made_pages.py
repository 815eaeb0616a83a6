# SPDX-License-Identifier: GPL-2.0
"""`schedline dev docs`: the parts and pictures of README and docs/ that are made of code, configs and recorded runs.

A made part stands between `<!-- made: NAME -->` and `<!-- end -->`, in a line or over several. NAME is a key of PARTS,
perhaps with words behind it. `made()` gives every file as it has to be; the command writes them, and a test compares.
"""

from __future__ import annotations

import io
import re
import tomllib
from base64 import b64decode
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import chdir, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import wrap
from typing import Any

from schedlib import main as command
from schedlib.c2c import c2c_page, traffic_diff
from schedlib.c2c.c2c_options import WORKLOADS
from schedlib.c2c.traffic_report import lines_of, totals
from schedlib.cache import write_atomic
from schedlib.check.mutants import Mutant, read_mutants
from schedlib.console.expected import load_expected
from schedlib.contracts.contract_rules import our_rules, pack_rules
from schedlib.dev.dev_verb import DocsOptions
from schedlib.dev.mutants_page import GeneratedMutantsDocument, score_table
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import MappedField, TrafficResult, read_result
from schedlib.formats.contract_file import ClauseKind
from schedlib.formats.document import read
from schedlib.formats.svg import Cell, DrawnLine, DrawnObject, Key, by_line, picture, shade
from schedlib.formats.tables import markdown, table
from schedlib.gate.decision import MISSED
from schedlib.gate.rules import load_gate
from schedlib.gate.statistics import bad_share
from schedlib.gate.tool_formats import FOREIGN_FORMATS
from schedlib.names import pack_names
from schedlib.paths import CONFIGS, KUNIT, PROJECT
from schedlib.runs.workload_suites import load_suite, suite_names
from schedlib.tree.selftest_programs import program_sources
from schedlib.verdict import BISECT_SKIP, MEANINGS, Verdict

RECORDED = PROJECT / "docs/recorded"
MUTANTS_RECORDED = PROJECT / "scripts/tests/dev/generated-mutants"
_PUBLISHED = PROJECT / "scripts/proof/published/rd-lines.toml"

_PART = re.compile(r"(<!-- made: (?P<name>[^>]+?) -->)(?P<old>.*?)(?P<end><!-- end -->)", re.S)


def docs(wanted: DocsOptions) -> Verdict:
    files = made(PROJECT)
    differing = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    for path in differing:
        print(f"{'differs' if wanted.check else 'written'}: {path.relative_to(PROJECT)}")
        if not wanted.check:
            write_atomic(path, files[path])
    return Verdict.FAIL if differing and wanted.check else Verdict.PASS


def made(root: Path) -> Mapping[Path, str]:
    pages = [root / name for name in ("README.md", "CONTRIBUTING.md", "patches/README.md")]
    pages += sorted((root / "docs").rglob("*.md"))
    pictures = {root / "docs" / name: draw() for name, draw in _PICTURES.items()}
    page = _gate_page()
    drawn = b64decode(page.split("base64,")[1].partition('"')[0]).decode()
    pictures |= {root / "docs/recorded/gate.html": page, root / "docs/gate.svg": drawn}
    return {path: filled(path.read_text()) for path in pages} | pictures


def _gate_page() -> str:
    words = (PROJECT / "docs/gate.md").read_text().partition("made: transcript schedline ")[2].partition(" -->")[0]
    with TemporaryDirectory() as into:
        html = f"{into}/gate.html"
        _said([*words.split(), "--html", html])
        page = Path(html).read_text().replace(html, "gate.html")
    return re.sub(r"compared \d{4}-.*?(?=</p>)", "compared for this sample", page)


def filled(page: str) -> str:
    if len(re.findall(r"<!-- made: ", page)) != len(_PART.findall(page)):
        raise SchedlineError("a made part of a page has no end", "write <!-- end --> behind it")

    def part(found: re.Match[str]) -> str:
        name, *words = found["name"].split()
        text = PARTS[name](*words)
        around = "\n" if found["old"].startswith("\n") else ""
        return f"{found[1]}{around}{text}{around}{found['end']}"

    return _PART.sub(part, page)


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    return "\n".join(markdown(heads, rows))


def _toml(path: Path) -> Any:
    return tomllib.loads(path.read_text())


_EXPORTED = (
    "patches/7.3/fix-*.patch",
    "kunit/commit-messages/sched_*.txt",
    "kunit/commit-messages/documentation.txt",
)
"""What is a patch each in a series for a plain 7.3, beside the library and the programs of selftests/."""


def _count(what: str) -> str:
    counts: Mapping[str, Callable[[], object]] = {
        "structures": lambda: len(list((CONFIGS / "contracts").glob("*/*.toml"))),
        "rules": lambda: len(our_rules().rules) + len(pack_rules(pack_names()).rules),
        "packs": lambda: len(pack_names()),
        "tests": lambda: len(load_expected(KUNIT / "tests.txt", None)),
        "patches": lambda: sum(len(list(PROJECT.glob(each))) for each in _EXPORTED) + 1 + len(program_sources()),
        "series": lambda: ", ".join(_toml(CONFIGS / "series.toml")),
    }
    return str(counts[what]())


def _rules() -> str:
    """The rules of the scheduler with their reasons. Those that close a line are marked."""
    rules = our_rules()
    closing = {clause.rule for clause in rules.clauses if clause.kind is ClauseKind.ALONE}
    rows = ((f"`{rule.id}`{', closed' if rule.id in closing else ''}", rule.reason) for rule in rules.rules)
    return _table(("rule", "why"), rows)


def _packs() -> str:
    files = {pack: sorted((CONFIGS / "contracts" / pack).glob("*.toml")) for pack in pack_names()}
    rows = ((f"`{pack}`", ", ".join(f"`{path.stem}`" for path in its)) for pack, its in files.items())
    return _table(("pack", "structures"), rows)


def _held() -> str:
    """The mutants by hand of each change, and the rules and cases that have to fail on them."""
    found: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in read_mutants(CONFIGS / "mutants"):
        found[mutant.name.partition("/")[0]].append(mutant)
    rows = []
    for what, its in found.items():
        names = sorted({name for mutant in its for name in mutant.killed_by})
        rows.append((f"`{what}`", len(its), ", ".join(f"`{name}`" for name in names)))
    return _table(("what", "mutants", "rules and tests of which one has to fail on each"), rows)


def _metrics() -> str:
    rows = []
    for rule in load_gate("default").rules:
        unit = "in a million" if rule.absolute else "%"
        limits = (f"{rule.budget:g} {unit}", f"{rule.detect:g} {unit}")
        rows.append((f"`{rule.name}`", f"`{rule.tool}`", *limits, rule.because))
    return _table(("metric", "workload", "budget", "detect", "because"), rows)


def _traffic_budgets() -> str:
    of = {"*": "each object", "*.*": "each field"}
    counts = {"false_shared": "false sharing"}
    rows = (
        (counts.get(row["count"], row["count"]), of[row["of"]], f"{row['budget']:g} % + {row['floor']}")
        for row in _toml(CONFIGS / "gates/c2c.toml")["metric"]
    )
    return _table(("count", "of", "may rise by"), rows)


def _formats() -> str:
    rows = (
        (f"`{each.name}`", f"`{each.make}`", " or ".join(", ".join(f"`{name}`" for name in row) for row in each.judged))
        for each in FOREIGN_FORMATS
    )
    return _table(("format", "how to make a file", "judged"), rows)


def _looks() -> str:
    *first, last = map(str, load_gate("default").looks)
    return f"{', '.join(first)} and {last}"


def _default_gate() -> str:
    gate = load_gate("default")
    boots = ", ".join(map(str, gate.looks))
    return f"`m = {gate.family}`, `K = {len(gate.looks)}`, `n = {boots}`, `alpha = {gate.alpha}`; `MISSED` is {MISSED}"


def _campaign() -> str:
    """How long the boots of a plan take, without the time to boot."""
    seconds = sum(row.seconds for row in load_suite("gate").rows.values())
    looks = load_gate("default").looks
    first, last = looks[0], looks[-1]

    def hours(boots: int) -> str:
        return f"{boots * 5 * seconds / 3600:.1f} hours"

    return (
        f"A run of the suite `gate` takes {seconds:g} s, so five runs take {5 * seconds / 60:g} minutes in each boot. "
        f"All {2 * last} boots,\nwhich a PASS takes, need {hours(2 * last)} and the time to boot; {2 * first}, up to "
        f"the first look, {hours(2 * first)}; {3 * last} boots with a placebo {hours(3 * last)}."
    )


def _suites() -> str:
    """The suites of `schedline run`, and whether they measure what the default gates judge."""
    tools, rows = {rule.tool for rule in load_gate("default").rules}, []
    for suite in map(load_suite, suite_names()):
        programs = [row.program for row in suite.rows.values()]
        # Of several rows that run one program, the one that is named after it is compared.
        compared = {each for each in programs if programs.count(each) == 1}
        compared |= {name.replace("-", "_") for name in suite.rows}
        rows.append((f"`{suite.name}`", suite.about, "yes" if tools <= compared else "no"))
    return _table(("suite", "what it is", "default gates"), rows)


def _exit_codes() -> str:
    rows = [(each.exit_code, each.name, MEANINGS[each]) for each in Verdict]
    bisect = (BISECT_SKIP, "", "with `--bisect`: everything but PASS and FAIL, for `git bisect run`")
    return _table(("code", "verdict", "meaning"), [*rows, bisect])


def _verbs() -> str:
    rows = []
    for name, verb, about in command.verbs_of(command.parser()):
        below = ", ".join(f"`{inner}`" for inner, _, _ in command.verbs_of(verb))
        rows.append((f"`{name}`{': ' if below else ''}{below}", about))
    return _table(("verb", "what it does"), rows)


def _workloads() -> str:
    rows = ((f"`{each.name}`", each.about, each.rounds) for each in WORKLOADS.values())
    return _table(("`--workload`", "what it does", "rounds"), rows)


def _mutants() -> str:
    runs, ours = (
        {path.stem: read(path, GeneratedMutantsDocument, "") for path in sorted(place.glob("*.json"))}
        for place in (MUTANTS_RECORDED, MUTANTS_RECORDED / "ours")
    )
    return "\n".join(score_table([*runs.values()], ours))


def _said(words: Sequence[str]) -> str:
    said = io.StringIO()
    with chdir(PROJECT), redirect_stdout(said):
        command.main(words)
    return said.getvalue()


def _show() -> str:
    """What `schedline show rd-lines` says of the structure, from the recorded run."""
    objects = traffic_diff.sections(*_recorded_show().values())[0]
    return _text([*lines_of(objects)][1:])


PARTS: Mapping[str, Callable[..., str]] = {
    # What so many boots do not exclude, of which so many are bad.
    "bad-share": lambda *counts: f"{100 * bad_share(*map(int, counts)):.0f} %",
    "campaign": _campaign,
    "cfs-split": lambda name: _cfs_split(name),  # below
    "default-gate": _default_gate,
    "looks": _looks,
    "count": _count,
    "exit-codes": _exit_codes,
    "formats": _formats,
    "held": _held,
    "metrics": _metrics,
    "mutants": _mutants,
    "packs": _packs,
    "patch": lambda: f"```diff\n{(RECORDED / 'first-line.patch').read_text().rstrip()}\n```",
    "rules": _rules,
    "show": _show,
    "suites": _suites,
    "traffic-budgets": _traffic_budgets,
    "transcript": lambda *words: f"```console\n$ {' '.join(words)}\n{_said(words[1:]).rstrip()}\n```",
    "verbs": _verbs,
    "workloads": _workloads,
}
"""What a page may ask for; each takes the words behind its name."""

_LINE, _FIRST = 64, 4
_GROUP = "#c6dbef"


def recorded_lines(file: str) -> Iterator[tuple[str, dict[int, tuple[int, str]]]]:
    """The lines of a recorded `layout --struct`: what stands above; size and name by offset, of a union the last."""
    about, cells = "", dict[int, tuple[int, str]]()
    for row in [*(RECORDED / file).read_text().splitlines(), "--- "]:
        if found := re.match(r" +(\d+) +(\d+)  (\S+)", row):
            if found[3] != "(hole)":
                cells[int(found[1])] = int(found[2]), found[3]
        elif cells:
            yield about, cells
            cells = {}
        if row.startswith("struct "):
            about = row


def _object(heading: str, cells: Iterable[Cell]) -> DrawnObject:
    """An object with its lines."""
    lines = by_line(cells, _LINE).items()
    return DrawnObject(heading, _LINE, tuple(DrawnLine(each, f"{each * _LINE:#x}", its) for each, its in sorted(lines)))


def _first_line() -> str:
    """The first line of struct rq without and with the recorded patch; what the patch adds is red."""
    (_, before), (_, after) = recorded_lines("first-line.txt")
    known = {name for _, name in before.values()}
    objects = []
    for about, cells in (("without the patch", before), ("with the patch", after)):
        drawn = []
        for start, (size, name) in cells.items():
            color = _GROUP if name in known else shade(1)
            drawn.append(Cell(start, size, name, f"{name}: offset {start}, {size} bytes", color))
        objects.append(_object(f"struct rq, first line, {about}", drawn))
    key = ((_GROUP, "read by load balancers of all CPUs"), (shade(1), "new with the patch"))
    return picture(objects, Key(key, 330))


def _recorded_show() -> dict[str, TrafficResult]:
    return {f"{side} rd-lines": read_result(RECORDED / "c2c" / side) for side in ("without", "with")}


def _contended() -> str:
    """The lines of struct root_domain that CPUs fetch from each other: on 480 CPUs by perf c2c, and emulated."""
    result = _recorded_show()["without rd-lines"]
    # The CPU of the mail reports a line that another one hands over unmodified as HITM, too.
    taken = totals((row for row in result.middle.rows if row.kind != "store" and not row.prefix), lambda row: row.path)
    published = _published_hitm()
    first = sorted(published, key=lambda name: -published[name])[:_FIRST]
    sides = {
        "perf c2c on 480 CPUs, from the mail of rd-lines, scaled to 100 %": _shares(
            {name: published[name] for name in first}
        ),
        f"schedline c2c on {result.parameters.cpus} emulated CPUs": _shares(
            {name: taken[name].misses - taken[name].cold for name in first}
        ),
    }
    most = max(max(side.values()) for side in sides.values())
    [fields] = (each.fields for each in result.watched if not each.prefix)
    objects = [
        DrawnObject(f"struct root_domain without rd-lines: {about}", _LINE, tuple(_lines(fields, shares, most)))
        for about, shares in sides.items()
    ]
    key = tuple((shade(part / 4), f"{most * part / 4:.0f} %") for part in range(5))
    about = "of the HITM of these four fields: accesses to a line that another CPU had modified"
    return picture(objects, Key(key, 80, about), 120)


def _published_hitm() -> Mapping[str, float]:
    """The samples of each field that were HITM in a published output. Of an array it shows the first element."""
    found: dict[str, float] = defaultdict(float)
    for line in _toml(_PUBLISHED)["line"]:
        for row in line["row"]:
            amount = (line["remote"] * row["remote"] + line["local"] * row["local"]) / 100
            found[row["field"].partition(".")[2].replace("[]", "[0]")] += amount
    return found


def _shares(amounts: Mapping[str, float]) -> dict[str, float]:
    return {name: 100 * amount / sum(amounts.values()) for name, amount in amounts.items()}


def _lines(fields: Sequence[MappedField], shares: Mapping[str, float], most: float) -> Iterator[DrawnLine]:
    """The lines on which one of the fields lies. Other fields of a member are drawn as the member."""
    ranges: dict[str, tuple[int, int]] = {}
    for field in fields:
        name = field.path if field.path in shares else re.split(r"[.\[]", field.path)[0]
        ranges[name] = ranges.get(name, (field.offset, 0))[0], field.offset + field.size
    every = (
        Cell(first, end - first, name, f"{name}: {shares.get(name, 0.0):.1f} %", shade(shares.get(name, 0.0) / most))
        for name, (first, end) in ranges.items()
    )
    for number, cells in by_line(every, _LINE).items():
        here = [shares[cell.name] for cell in cells if cell.name in shares]
        if any(here):
            yield DrawnLine(number, f"{number * _LINE:#x}", cells, f"{sum(here):.0f} % of the HITM")


_SPLIT_COLUMNS: Mapping[str, Sequence[tuple[str, str, int, int, int, str]]] = {
    "split": (
        ("today", "split", 8, 64, 100, "today"),
        ("predicted", "split", 8, 64, 100, "predicted"),
        ("counted", "split", 8, 64, 100, "counted"),
        ("97", "split", 8, 64, 97, "counted"),
        ("103", "split", 8, 64, 103, "counted"),
    ),
    "cpus": (
        ("16 CPUs", "split", 16, 64, 100, "today"),
        ("counted", "split", 16, 64, 100, "counted"),
        ("32 CPUs", "split", 32, 64, 100, "today"),
        ("counted", "split", 32, 64, 100, "counted"),
    ),
    "lines": (
        ("128 bytes", "split", 8, 128, 100, "counted"),
        ("aligned", "aligned", 8, 128, 100, "predicted"),
        ("256 bytes", "split", 8, 256, 100, "counted"),
    ),
    "order": (
        ("predicted", "order", 8, 64, 100, "predicted"),
        ("counted", "order", 8, 64, 100, "counted"),
        ("16 CPUs", "order", 16, 64, 100, "counted"),
        ("32", "order", 32, 64, 100, "counted"),
        ("64", "order", 64, 64, 100, "counted"),
        ("256 bytes", "order", 8, 256, 100, "counted"),
    ),
}
"""The columns of each table: heading; a change, CPUs, bytes of a line, quantum; misses today, or by how much they
change.
"""


def _cfs_split(name: str) -> str:
    """A table of the recorded split or order of cfs_rq and sched_entity: predicted from traces, and counted."""
    recorded = _toml(RECORDED / "cfs-split.toml")
    if name == "moves":
        return _split_moves(recorded["layout"]["today"])
    columns, rows = _SPLIT_COLUMNS[name], defaultdict[tuple[str, str], dict[tuple[object, ...], str]](dict)
    for change in ("split", "order", "aligned"):
        for workload, structure, *place, today, counted, predicted in recorded[change]:
            row = rows[workload, structure]
            row[change, *place, "today"] = str(today)
            for what, misses in (("counted", counted), ("predicted", predicted)):
                row[change, *place, what] = f"{round(100 * misses / today - 100):+d}" if misses else ""
    shown, before = [("workload", "structure", *(heading for heading, *_ in columns))], ""
    for (workload, structure), row in rows.items():
        cells = [row.get(tuple(key), "") for _, *key in columns]
        if any(cells):
            shown.append(("" if workload == before else workload, structure, *cells))
            before = workload
    return _text(table(shown, "<  <  >"))


def _split_moves(fields: Sequence[tuple[int, int, str, int, int]]) -> str:
    """The members of a group's parts that no group uses, with their bytes."""
    lines = []
    for part, name in {"cfs_rq": "cfs_rq", "se": "sched_entity"}.items():
        unused = {path.removeprefix(f"{part}."): size for _, size, path, used, _ in fields if not used}
        unused = {path: size for path, size in unused.items() if "." not in path}
        heading = f"{name + ',':14}{sum(unused.values()):3} bytes: "
        lines += wrap(", ".join(unused), 72, initial_indent=heading, subsequent_indent=" " * len(heading))
    return _text(lines)


def _text(lines: Iterable[str]) -> str:
    return "\n".join(["```text", *lines, "```"])


def _split_map() -> str:
    """struct cfs_tg_state today and split: the fields that CPUs fetch, and those that no group uses."""
    sides = _toml(RECORDED / "cfs-split.toml")["layout"]
    most = max(misses for fields in sides.values() for *_, misses in fields)
    objects = []
    for about, fields in sides.items():
        cells = []
        for offset, size, name, accesses, misses in fields:
            said = f"{name}: offset {offset}, {size} bytes, {accesses} accesses, {misses} misses"
            color = shade(misses / most) if accesses else _GROUP
            cells.append(Cell(offset, size, name.split(".", 1)[1], said, color))
        objects.append(_object(f"struct cfs_tg_state, a group on a CPU: {about}", cells))
    key = ((_GROUP, "no group uses it"), *((shade(part), f"{most * part:.0f} misses") for part in (0, 0.25, 1)))
    return picture(objects, Key(key, 200, below=("throttle, switch and fork together, 8 CPUs, quantum 100",)))


_PICTURES: Mapping[str, Callable[[], str]] = {
    "cfs-split.svg": _split_map,
    "first-line.svg": _first_line,
    "contended.svg": _contended,
    "rd-lines.svg": lambda: c2c_page.both(_recorded_show()),
}
"""By their names in docs/."""
