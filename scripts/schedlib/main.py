# SPDX-License-Identifier: GPL-2.0
"""The command line: one parser, one module per verb."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from schedlib import doctor
from schedlib.c2c import c2c_verb as c2c
from schedlib.check import check_verb
from schedlib.console import judge_verb
from schedlib.dev import bench, kselftest, litmus, mutants, own_tests, plain_tree
from schedlib.errors import SchedlineError
from schedlib.gate import gate_verb as gate
from schedlib.gate import page_verb
from schedlib.kernel import kernels_verb as kernels
from schedlib.layout import layout_verb as layout
from schedlib.layout import status_verb
from schedlib.premerge import evidence_verb as evidence
from schedlib.premerge import premerge_verb as premerge
from schedlib.progress import say
from schedlib.runs import run_verb as workloads
from schedlib.tree import export, fetch_verb
from schedlib.verdict import BISECT_SKIP, Verdict

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
        check_verb,
        layout,
        status_verb,
        c2c,
        judge_verb,
        gate,
        page_verb,
        kernels,
        premerge,
        evidence,
        fetch_verb,
        export,
        mutants,
        litmus,
        workloads,
        bench,
        doctor,
        own_tests,
        plain_tree,
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
