# SPDX-License-Identifier: GPL-2.0
"""Compares directories of runs, also of files that other tools wrote."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from schedlib.errors import SchedlineError
from schedlib.gate.comparison import Comparison, compare
from schedlib.gate.gate_options import BUDGET, DETECT, GateOptions
from schedlib.gate.imports.default_gates import gates_text
from schedlib.gate.imports.import_options import UNSAID_UNIT
from schedlib.gate.imports.imported import Imported, foreign_formats, imported
from schedlib.gate.imports.provenance import qualified


def compare_all(options: GateOptions) -> Comparison:
    """Compare two directories of runs of schedline, or with a unit, of files of other tools.

    Raises:
        SchedlineError: bad input, runs of different machines, or files of other tools without a unit.
    """
    if not options.reading.unit:
        try:
            return qualified(compare(options), options.trust)
        except SchedlineError as error:
            for directory in (options.base, options.candidate):
                if formats := foreign_formats(Path(str(directory))):
                    observed = f"{directory} holds files of other tools: {', '.join(formats)}"
                    raise SchedlineError(observed, f"add {UNSAID_UNIT}") from error
            raise
    read: dict[Path, Imported] = {}

    def runs(directory: Path | Imported) -> Imported:
        path = Path(str(directory))
        return read.setdefault(path, imported(path, options.reading))

    ready = replace(options, base=runs(options.base), candidate=runs(options.candidate))
    if options.placebo:
        ready = replace(ready, placebo=runs(options.placebo))
    with tempfile.TemporaryDirectory() as place:
        if not options.gates:
            gates = Path(place, "imported.toml")
            gates.write_text(gates_text(list(read.values()), options.budget or BUDGET, options.detect or DETECT))
            ready = replace(ready, gates=str(gates))
        found = compare(ready)
    notes = *found.notes, *(note for each in read.values() for note in each.notes)
    return qualified(replace(found, options=options, notes=notes), options.trust)
