# SPDX-License-Identifier: GPL-2.0
"""A kernel without a change and with it, counted; the maps of both side by side, as text, picture and page."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from schedlib import doctor
from schedlib.c2c import c2c_page, traffic_diff, traffic_report
from schedlib.c2c.c2c_job import remembered
from schedlib.c2c.c2c_options import C2cOptions, ShowOptions
from schedlib.c2c.traffic_report import line_name, most_missed, named, totals
from schedlib.cache import cache_dir, results_directory, write_atomic
from schedlib.formats import document
from schedlib.formats.c2c_document import C2C_FILE, Counts, TrafficResult
from schedlib.options import ChangeOptions
from schedlib.progress import say
from schedlib.tree.changes import change_table
from schedlib.tree.kernel_tree import open_tree
from schedlib.verdict import Verdict

_TEXT, _PICTURE, _PAGE = "show.txt", "show.svg", "show.html"
_LEAST = 0.01
"""Lines, and fields on them, with a smaller share of the misses are not in the text."""


def show(options: ShowOptions) -> Verdict:
    """Count both kernels and draw them; SchedlineError if one does not build or run."""
    wanted, cache = change_table()[options.name].show, cache_dir()
    if wanted is None:
        raise ValueError(f"{options.name} has nothing to show")
    doctor.require(["build", *options.tree.needs])
    tree, out = open_tree(cache, options.tree), results_directory(cache, options.out)
    found = {}
    changes = {
        "without": ChangeOptions(without=(*wanted.without, options.name)),
        "with": ChangeOptions(with_=(options.name,), without=wanted.without),
    }
    for side, each in changes.items():
        asked = C2cOptions(changes=each, workload=wanted.workload, objects=wanted.objects)
        found[f"{side} {options.name}"] = result = remembered(cache, tree, asked, out / side)
        document.write(out / side / C2C_FILE, result)
    text = "".join(f"{line}\n" for line in side_by_side(found))
    write_atomic(out / _TEXT, text)
    maps, moved = c2c_page.both(found), traffic_diff.sections(*found.values())
    write_atomic(out / _PICTURE, maps)
    write_atomic(out / _PAGE, c2c_page.page(result, maps, moved))
    print(text, end="")
    say(f"results: {out}/{_TEXT}, {_PICTURE}, {_PAGE}; schedline c2c diff {out}/without {out}/with")
    return Verdict.PASS


def side_by_side(found: dict[str, TrafficResult]) -> Iterator[str]:
    """Two maps as text: the lines with the most misses, and the fields on them; then what became of each object."""
    first = next(iter(found.values()))
    yield next(traffic_report.head(first))
    yield f"one cell is a line or a field, in the guest of quantum {first.middle.quantum}"
    yield ""
    columns = [[name, *_map(result)] for name, result in found.items()]
    width = max(map(len, columns[0])) + 3
    for left, right in zip_longest(*columns, fillvalue=""):
        yield f"{left:{width}}{right}".rstrip()
    yield from traffic_report.lines_of(traffic_diff.sections(*found.values())[0])


def _map(result: TrafficResult) -> Iterator[str]:
    rows = [row for row in result.middle.rows if not row.neighbour]
    lines, fields = totals(rows, line_name), totals(rows, lambda row: (line_name(row), named("", row.path)[1:]))
    least = _LEAST * sum(counts.misses for counts in lines.values())
    for line in sorted(lines):
        if lines[line].misses > least:
            owner, prefix, number = line
            yield f"{owner}{f' {prefix}' if prefix else ''} line {number}: {_counts(lines[line])}"
            here = {path: counts for (on, path), counts in fields.items() if on == line and counts.misses > least}
            yield from (f"  {path}: {_counts(here[path])}" for path in most_missed(here))


def _counts(counts: Counts) -> str:
    others = {"HITM": counts.hitm, "false": counts.false_shared}
    return ", ".join([f"{counts.misses} misses", *(f"{number} {name}" for name, number in others.items() if number)])
