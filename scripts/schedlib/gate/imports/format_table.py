# SPDX-License-Identifier: GPL-2.0
"""The kinds of files that can be imported."""

from __future__ import annotations

from schedlib.gate.imports.bench_formats import BENCH_FORMATS, PERF_BENCH_SIMPLE, one_number
from schedlib.gate.imports.foreign import Foreign, ForeignFormat
from schedlib.gate.imports.ktstr_format import KTSTR_SIDECAR
from schedlib.gate.imports.result_roots import RESULT_ROOT_FORMATS
from schedlib.gate.imports.rt_formats import RT_FORMATS
from schedlib.gate.imports.rtla_formats import RTLA_FORMATS
from schedlib.gate.imports.table_formats import TABLE_FORMATS

# CSV is the last one: with --columns it takes whatever nobody else knows and has commas.
FOREIGN_FORMATS: tuple[ForeignFormat, ...] = (
    *RT_FORMATS,
    *RTLA_FORMATS,
    *BENCH_FORMATS,
    *RESULT_ROOT_FORMATS,
    KTSTR_SIDECAR,
    *TABLE_FORMATS,
)


def format_of(file: Foreign, simple: bool = False) -> ForeignFormat | None:
    """The format of a file, by its content; None if it is not known.

    Args:
        simple: a file that holds one number is of perf bench --format=simple.
    """
    found = next((each for each in FOREIGN_FORMATS if each.recognises(file)), None)
    return PERF_BENCH_SIMPLE if found is None and simple and one_number(file) else found


def known_formats() -> str:
    """All formats, for messages."""
    return ", ".join(each.name for each in FOREIGN_FORMATS)
