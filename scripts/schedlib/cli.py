# SPDX-License-Identifier: GPL-2.0
"""The command line: one parser, one module per verb."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from schedlib import (
    bench,
    check,
    doctor,
    export,
    judge_command,
    kselftest,
    litmus,
    mutants,
    test_command,
    test_tree,
    tree_commands,
)
from schedlib.c2c import command as c2c
from schedlib.errors import SchedlineError
from schedlib.gate import command as gate
from schedlib.gate import report_command
from schedlib.kernels import command as kernels
from schedlib.layout import command as layout
from schedlib.layout import status
from schedlib.premerge import command as premerge
from schedlib.premerge import evidence_command as evidence
from schedlib.progress import say
from schedlib.verdict import BISECT_SKIP, Verdict
from schedlib.workloads import command as workloads

_DESCRIPTION = """\
Tests that hold the Linux scheduler's cache lines, and its wake-up path, where five patches put them.

exit codes: 0 PASS, 1 FAIL (a test failed; panic, splat, hang, missing test), 2 ERROR (usage, environment, a tree that
does not build, a patch that does not apply, no boot), 3 INCONCLUSIVE (nothing could be judged)"""

_EXAMPLES = """\
examples:
  schedline check                          Debian's 7.3 with the changes, in User-Mode Linux
  schedline check --series 6.12            the same for 6.12, in QEMU
  schedline check --kdir ~/linux           your tree as it is, uncommitted changes included
  schedline judge console.log              judge a saved console log
  schedline c2c --without rd-lines         which fields the CPUs take from each other
  schedline gate runs/base runs/candidate  two kernels' runs of the workloads: worse or not?
"""


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command."""
    top = argparse.ArgumentParser(
        prog="schedline",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = top.add_subparsers(metavar="VERB", required=True)
    modules = (
        check,
        layout,
        status,
        c2c,
        judge_command,
        gate,
        report_command,
        kernels,
        premerge,
        evidence,
        tree_commands,
        export,
        mutants,
        litmus,
        workloads,
        bench,
        doctor,
        test_command,
        test_tree,
        kselftest,
    )
    for module in modules:
        module.add_parser(verbs)
    return top


def main(words: Sequence[str]) -> int:
    """Run a command line; its exit code.

    With --bisect, ERROR and INCONCLUSIVE become 125, which `git bisect run` takes as "skip this commit".
    """
    arguments = parser().parse_args(words)
    bisect = getattr(arguments, "bisect", False)
    try:
        code = int(arguments.run(arguments))
    except SchedlineError as error:
        if not bisect:
            raise
        say(f"schedline: {error}")
        code = Verdict.ERROR.exit_code
    return BISECT_SKIP if bisect and code > Verdict.FAIL.exit_code else code
