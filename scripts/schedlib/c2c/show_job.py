# SPDX-License-Identifier: GPL-2.0
"""Two kernels that differ in a layout, counted; the maps of both side by side, as text, picture and page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest

from msgspec import structs

from schedlib.c2c import c2c_page, traffic_diff, traffic_report
from schedlib.c2c.c2c_job import asked_for, remembered, require_guest
from schedlib.c2c.c2c_options import QUANTA, C2cOptions, ShowOptions
from schedlib.c2c.traffic_report import line_name, line_title, most_missed, named, totals, with_what_lies_beside
from schedlib.cache import cache_dir, results_directory, write_atomic
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.c2c_document import C2C_FILE, Counts, TrafficResult, TrafficRow
from schedlib.formats.data_file import read_toml
from schedlib.formats.strict import Strict, Word
from schedlib.formats.tables import table
from schedlib.options import ChangeOptions
from schedlib.paths import CONFIGS
from schedlib.progress import say
from schedlib.tree.compose import Composition, compose
from schedlib.tree.kernel_tree import Tree, apply_diff, open_tree
from schedlib.verdict import Verdict

_TEXT, _PICTURE, _PAGE = "show.txt", "show.svg", "show.html"
_LEAST = 0.04
"""Lines, and fields on them, with a smaller share of the misses are not in the text."""


class Shown(Strict, frozen=True):
    """What is counted of a layout change, or of an incident that `fix` has mended; `only` this object is drawn."""

    objects: tuple[Word, ...]
    workload: Word
    without: tuple[Word, ...] = ()
    config: tuple[Word, ...] = ()
    only: str = ""
    fix: str = ""


def shown_table() -> dict[str, Shown]:
    return read_toml(CONFIGS / "shown.toml", dict[str, Shown])


def show(options: ShowOptions) -> Verdict:
    name, cache = options.name, cache_dir()
    wanted = shown_table()[name]
    # A picture is drawn of one, and there is no verdict.
    asked = C2cOptions(workload=wanted.workload, objects=wanted.objects, config=wanted.config, quanta=QUANTA[1:2])
    require_guest(asked_for(asked).target, ("build", *options.tree.needs))
    tree, out = open_tree(cache, options.tree), results_directory(cache, options.out)
    sides: dict[str, tuple[C2cOptions, Composition | None]] = {
        "without": (replace(asked, changes=ChangeOptions(without=(*wanted.without, name))), None),
        "with": (replace(asked, changes=ChangeOptions(with_=(name,), without=wanted.without)), None),
    }
    if wanted.fix:
        sides = {"before": (asked, _undone(tree, name)), "after": (asked, None)}
    found = {}
    for side, (each, composition) in sides.items():
        result = remembered(cache, tree, each, out / side, composition)
        document.write(out / side / C2C_FILE, result)
        found[f"{side} the fix" if wanted.fix else f"{side} {name}"] = _only(result, wanted.only)
    text = (f"{name}: {wanted.fix}\n" if wanted.fix else "") + "".join(f"{line}\n" for line in side_by_side(found))
    maps, moved = c2c_page.both(found), traffic_diff.sections(*found.values())
    write_atomic(out / _TEXT, text)
    write_atomic(out / _PICTURE, maps)
    write_atomic(out / _PAGE, c2c_page.page(_only(result, wanted.only), maps, moved))
    print(text, end="")
    base, candidate = (out / side for side in sides)
    say(f"results: {out}/{_TEXT}, {_PICTURE}, {_PAGE}; schedline c2c diff {base} {candidate}")
    return Verdict.PASS


def _undone(tree: Tree, name: str) -> Composition:
    """The tree without the fix of an incident; SchedlineError if it does not have it."""
    composed, diff = compose(tree), CONFIGS / f"shown/{name}.diff"
    commit = apply_diff(tree, composed.commit, diff.read_bytes(), f"Undo the fix of {name}\n")
    if commit is None:
        raise SchedlineError(f"this tree lacks the fix of {name} in the form of 7.3: {diff}", "leave out --kdir")
    return replace(composed, commit=commit)


def _only(result: TrafficResult, owner: str) -> TrafficResult:
    """What a result has of one object; all of it for an empty name."""
    if not owner:
        return result
    quanta = (
        structs.replace(each, rows=tuple(row for row in each.rows if row.owner == owner)) for each in result.quanta
    )
    watched = tuple(each for each in result.watched if each.owner == owner)
    return structs.replace(result, quanta=tuple(quanta), watched=watched)


def side_by_side(found: dict[str, TrafficResult]) -> Iterator[str]:
    """Two maps as text, with the fields on their lines; then what became of each object."""
    first = next(iter(found.values()))
    yield next(traffic_report.head(first))
    yield f"guests of quantum {first.middle.quantum}; what has less than {_LEAST:.0%} of the misses is left out"
    yield "HITM: another CPU had modified the line; false: by a write to bytes that this CPU does not use"
    yield ""
    columns = [[name, *_map(result)] for name, result in found.items()]
    yield from table(list(zip_longest(*columns, fillvalue="")), "<   <")
    yield from traffic_report.lines_of(traffic_diff.sections(*found.values())[0])


def _map(result: TrafficResult) -> Iterator[str]:
    rows = with_what_lies_beside(result.middle.rows)
    lines, fields = totals(rows, line_name), totals(rows, lambda row: (line_name(row), _field(row)))
    least = _LEAST * sum(counts.misses for counts in lines.values())
    for line in sorted(lines):
        if lines[line].misses > least:
            yield f"{line_title(line)}: {_counts(lines[line])}"
            # Memory behind a pointer may be one field, which the line has named.
            some = {path: counts for (on, path), counts in fields.items() if on == line and path != line[1]}
            here = {path: counts for path, counts in some.items() if counts.misses > least}
            yield from (f"  {path}: {_counts(here[path])}" for path in most_missed(here))


def _field(row: TrafficRow) -> str:
    return f"beside it, {row.path}" if row.neighbour else named("", row.path)[1:]


def _counts(counts: Counts) -> str:
    others = {"HITM": counts.hitm, "false": counts.false_shared}
    return ", ".join([f"{counts.misses} misses", *(f"{number} {name}" for name, number in others.items() if number)])
