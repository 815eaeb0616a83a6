# SPDX-License-Identifier: GPL-2.0
"""`schedline c2c import`: what perf has sampled on a real machine, by object and field."""

from __future__ import annotations

import argparse

from schedlib import options
from schedlib.c2c.c2c_options import LINES, C2cImportOptions
from schedlib.options import Verbs, add_verb
from schedlib.verdict import Verdict


def add_parser(verbs: Verbs) -> None:
    """Add `schedline c2c import`."""
    parser = add_verb(
        verbs,
        "import",
        "what perf c2c, perf mem and perf script have sampled, by object and field",
        first=[
            "schedline c2c import samples.txt --vmlinux build/vmlinux --map objects.json --out measured",
            "schedline c2c import report.txt --vmlinux build/vmlinux   perf c2c report --stdio",
        ],
        text="""
        Reads a text of perf: that of perf script with data addresses and data sources, perf c2c report --stdio,
        perf mem report --stdio, or perf report -s type,typeoff --stdio. Each sample is named by the field that lies at
        its address. Intel's load latency, AMD's IBS and Arm's SPE are read alike.

        Samples stay samples: each share has its interval. What has no field is in a row of its own, with its share and
        the reason. The vmlinux has to be that of the kernel that ran. The map says where allocated objects and per-CPU
        variables lay; docs/c2c.md describes it. Without one, only variables of vmlinux have names.""",
        examples=[
            "schedline c2c import types.txt --out measured                  perf report -s type,typeoff --stdio",
            "schedline c2c import samples.txt --vmlinux build/vmlinux --build-id 8d0f3a --json measured.json",
        ],
        operands="FILE",
        read=_read,
        job=_import,
    )
    add, place = parser.add_argument, options.existing_path
    add("files", type=place, nargs="+", metavar="FILE", help="texts that perf has printed, all of one kind")
    about = "the kernel that ran, with debug information; only types need none"
    add("--vmlinux", type=place, metavar="FILE", help=about)
    add("--map", type=place, metavar="FILE", help="where its objects lay (c2c-objects-1)")
    about = "of the kernel that ran, as perf buildid-list prints it; a map has it"
    add("--build-id", type=_build_id, metavar="HEX", help=about)
    add("--line", type=int, choices=LINES, default=LINES[0], help="bytes of a cache line (64)")
    add("--out", type=options.new_path, metavar="DIR", help="directory for the results")
    add("--json", type=options.new_path, metavar="FILE", help="write the result here too (c2c-measured-1)")


def _build_id(text: str) -> str:
    if len(text) < 6 or len(text) > 64 or set(text) - set("0123456789abcdef"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a build-id: 6 to 64 of the digits 0 to 9 and a to f")
    return text


def _read(arguments: argparse.Namespace) -> C2cImportOptions:
    files = tuple(arguments.files)
    return options.options_of(C2cImportOptions, arguments, files=files, build_id=arguments.build_id or "")


def _import(wanted: C2cImportOptions) -> Verdict:
    from schedlib.c2c.samples_job import import_samples

    return import_samples(wanted)
