# SPDX-License-Identifier: GPL-2.0
"""`schedline gate import`: write what was read from files of other tools."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from schedlib.cache import write_atomic
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.run_file import NOT_RECORDED
from schedlib.gate.gate_options import BUDGET, DETECT
from schedlib.gate.imports.default_gates import gates_text
from schedlib.gate.imports.import_options import ImportOptions
from schedlib.gate.imports.imported import ENTRIES, Imported, imported
from schedlib.progress import printable


def import_runs(options: ImportOptions) -> str:
    """Write each run as a file of schedline, and a gates file for them; a text that says what was done.

    Raises:
        SchedlineError: there is nothing to import, or the directory for the runs has files already.
    """
    out = options.out
    if out.exists() and any(out.iterdir()):
        raise SchedlineError(f"{out} is not empty, and runs of two imports must not mix", "name a new directory: --out")
    found = imported(options.directory, options.reading)
    for number, (name, run) in enumerate(found.runs):
        document.write(out / f"{number:04}-{Path(name).stem}.json", run)
    try:
        gates = out / "gates.toml"
        write_atomic(gates, gates_text([found], BUDGET, DETECT))
        said = f"gates file: {gates}"
    except SchedlineError as error:
        said = f"no gates file: {error.observed}"
    return "\n".join([*_summary(found), f"runs: {out}", said])


def _summary(found: Imported) -> list[str]:
    """What was imported, what was skipped, and what no file tells."""
    kinds = Counter(kind.name for kind in found.formats)
    lines = [f"{count} runs of {name}" for name, count in kinds.items()]
    lines += [printable(note) for note in found.notes]
    fingerprint = [run.fingerprint for _, run in found.runs]
    untold = [entry for entry in ENTRIES if any(each[entry] == NOT_RECORDED for each in fingerprint)]
    if untold:
        lines.append(f"not recorded: {', '.join(untold)}")
    orders = sorted({each["order"] for each in fingerprint})
    return [*lines, f"order: {', '.join(orders)}"]
