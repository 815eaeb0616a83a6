# SPDX-License-Identifier: GPL-2.0
"""`schedline c2c record`: sample the data accesses of this machine, and keep where its objects lie."""

from __future__ import annotations

import argparse

from schedlib import options
from schedlib.c2c.c2c_options import DEFAULT, KINDS, C2cRecordOptions
from schedlib.names import some_of
from schedlib.options import Verbs, add_verb
from schedlib.verdict import Verdict

_SECONDS = 10.0


def add_parser(verbs: Verbs) -> None:
    """Add `schedline c2c record`."""
    parser = add_verb(
        verbs,
        "record",
        "sample this machine with perf, and keep where its objects lie; needs root, perf and drgn",
        first=[
            "schedline c2c record --vmlinux build/vmlinux --out measured   for ten seconds",
            "schedline c2c record --vmlinux build/vmlinux --out measured -- hackbench -l 1000   until it ends",
        ],
        text="""
        Runs perf c2c record with what this CPU has: Intel's load latency, AMD's IBS or Arm's SPE. Then drgn reads from
        the running kernel where the objects and the slabs of the sampled pages lie, because perf knows variables alone.
        Then it does what schedline c2c import does.

        Nothing is installed, loaded or set. Objects that were freed before drgn looked have no name, or that of what
        took their place; so sample a load that goes on.""",
        examples=[
            "schedline c2c record --vmlinux build/vmlinux --out measured --seconds 30",
            "schedline c2c record --vmlinux build/vmlinux --out measured --objects rq,root_domain,nohz",
            "schedline c2c record --vmlinux build/vmlinux --out measured --without-map   only variables have names",
        ],
        operands="",
        read=lambda arguments: options.options_of(C2cRecordOptions, arguments, command=arguments.arguments),
        job=_record,
    )
    options.words_behind_dashes(parser, "arguments")
    add = parser.add_argument
    about = "the kernel that runs, with debug information"
    add("--vmlinux", type=options.existing_path, required=True, metavar="FILE", help=about)
    add("--out", type=options.new_directory, required=True, metavar="DIR", help="a directory without a recording")
    about = f"objects for the map: {', '.join(KINDS)} (default: {','.join(DEFAULT)})"
    add("--objects", type=some_of("object", lambda: [*KINDS]), default=DEFAULT, metavar="NAME,...", help=about)
    about = f"how long to sample (default: {_SECONDS:.0f}); with a command after --, until it ends"
    add("--seconds", type=options.seconds, default=_SECONDS, metavar="N", help=about)
    about = "least latency of a sampled load in cycles, on Intel and POWER (default: perf's)"
    add("--ldlat", type=_cycles, default=0, metavar="CYCLES", help=about)
    add("--without-map", action="store_true", help="do without drgn: allocated objects have no names")


def _cycles(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 1 << 16:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of cycles from 1 to 65535")
    return int(text)


def _record(wanted: C2cRecordOptions) -> Verdict:
    from schedlib.c2c.record_job import record

    return record(wanted)
