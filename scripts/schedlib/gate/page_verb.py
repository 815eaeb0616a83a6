# SPDX-License-Identifier: GPL-2.0
"""`schedline report`: what the gate says, and all that is behind it on one page for a browser."""

from __future__ import annotations

import argparse
import os
import shlex
from importlib.util import find_spec
from pathlib import Path

from schedlib.cache import cache_dir, write_atomic
from schedlib.environment import environment
from schedlib.errors import SchedlineError
from schedlib.gate.gate_verb import add_sides, load_libraries

_DESCRIPTION = """\
Prints what schedline gate prints. With --html it also writes one file that needs nothing beside it, no network and no
script: the verdict, the table, the boots of each metric drawn, the environment, the skips, the commands."""

_EXAMPLES = """\
examples:
  schedline report runs/base runs/candidate
  schedline report runs/base runs/candidate --placebo runs/placebo --html report.html
  schedline report runs/base runs/candidate --html report.html --picture lines.svg

exit codes: those of schedline gate
"""

_LARGEST = 5 << 20


def load_page_libraries() -> None:
    """Make matplotlib and jinja2 importable, for those who want the page.

    Raises:
        SchedlineError: no network, or a package whose hash differs.
    """
    os.environ.setdefault("MPLCONFIGDIR", str(cache_dir() / "matplotlib"))
    if find_spec("matplotlib") is None or find_spec("jinja2") is None:
        environment("requirements-report.txt")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `schedline report`."""
    parser = subparsers.add_parser(
        "report",
        help="what the gate says and what is behind it: text, and one HTML file",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_sides(parser)
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the page here")
    parser.add_argument(
        "--picture",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="an SVG for the page, as layout diff --svg draws it; may be repeated",
    )
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.picture and not arguments.html:
        raise SchedlineError("--picture is for the page, and no page is asked for", "add --html FILE")
    pictures = [(path.name, _picture(path)) for path in arguments.picture]
    load_libraries()
    from schedlib.gate import gate_report
    from schedlib.gate.comparison import compare

    found = compare(
        arguments.base, arguments.candidate, arguments.gates, confirm=arguments.confirm, placebo=arguments.placebo
    )
    print(gate_report.text(found))
    if arguments.html:
        load_page_libraries()
        from schedlib.gate.page import page

        write_atomic(arguments.html, page(found, commands(arguments), pictures))
        print(f"page: {arguments.html}")
    print(f"verdict: {found.verdict.name}")
    return found.verdict.exit_code


def _picture(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SchedlineError(f"the picture {path} cannot be read: {error.strerror}", f"ls -l {path}") from error
    if b"<svg" not in content[:1000] or len(content) > _LARGEST:
        raise SchedlineError(f"{path} is no SVG, or larger than 5 MB", "schedline layout diff A B --svg FILE")
    return content


def commands(arguments: argparse.Namespace) -> list[str]:
    """What makes this report again, fit for a shell."""
    words: list[object] = [arguments.base, arguments.candidate]
    for option, values in (
        ("--gates", [arguments.gates] if arguments.gates else []),
        ("--confirm", arguments.confirm or []),
        ("--placebo", [arguments.placebo] if arguments.placebo else []),
    ):
        words += [option, *values] if values else []
    page: list[object] = ["--html", arguments.html]
    for picture in arguments.picture:
        page += ["--picture", picture]
    return [
        shlex.join(["schedline", verb, *map(str, rest)]) for verb, rest in (("gate", words), ("report", words + page))
    ]
