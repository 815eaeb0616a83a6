# SPDX-License-Identifier: GPL-2.0
"""Break every change on purpose, one mutant after the other: a test has to fail for each."""

from __future__ import annotations

import fnmatch
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from schedlib import doctor
from schedlib.c2c import traffic_diff
from schedlib.c2c.c2c_job import remembered
from schedlib.c2c.c2c_options import C2cOptions
from schedlib.cache import cache_dir, results_directory
from schedlib.check.mutants import GOOD, MUTANTS, Fate, Mutant, applied, read_mutants, try_mutant
from schedlib.dev.dev_verb import ATTACK, ATTACK_PACKS, EMULATED, MutantsOptions
from schedlib.errors import SchedlineError
from schedlib.paths import CONFIGS, PROJECT
from schedlib.tree.kernel_tree import Tree, open_tree
from schedlib.verdict import Verdict, worst

_QUANTA = (100,)


def mutants(options: MutantsOptions) -> Verdict:
    if options.generated:
        from schedlib.dev.generated_mutants import try_generated

        return try_generated(options)
    if options.on in (ATTACK, ATTACK_PACKS):
        return _attack(options)
    is_everything = not (options.on or options.only or options.from_)
    attacked = [_attack(options)] if is_everything else []
    chosen = [
        mutant
        for mutant in read_mutants(options.from_ or MUTANTS)
        if (options.only is None or fnmatch.fnmatchcase(mutant.name, options.only))
        and (options.on != EMULATED or mutant.traffic)
    ]
    if not chosen:
        raise SchedlineError(f"--only: no mutant matches {options.only!r}", "ls configs/mutants/*")
    fates: list[Fate] = []
    cache = cache_dir()
    doctor.require(["build", *options.tree.needs])
    tree = open_tree(cache, options.tree)
    out = results_directory(cache, None)
    for number, mutant in enumerate(chosen, 1):
        if mutant.series and tree.name not in mutant.series:
            print(f"{number}/{len(chosen)} not for this tree: {mutant.name} (--series {mutant.series[0]})")
            continue
        if options.on == EMULATED:
            started = time.monotonic()
            fate, failed = _try_traffic(cache, tree, mutant, out / mutant.name.replace("/", "-"))
            seconds = time.monotonic() - started
        else:
            fate, failed, seconds = try_mutant(cache, tree, mutant, options.on, out)
        print(f"{number}/{len(chosen)} {fate.value}: {mutant.name} ({seconds:.0f} s)", flush=True)
        if fate is not Fate.KILLED:
            wanted = f", wanted {', '.join(mutant.killed_by)}" if mutant.killed_by else ""
            said = f"failed: {', '.join(sorted(failed)) or 'nothing'}{wanted}"
            print(f"    {mutant.breaks or 'no Breaks: header'}\n    {said}")
        fates.append(fate)
    counts = [f"{count} {fate.value}" for fate, count in Counter(fates).items()]
    print(f"mutants: {', '.join(counts) or 'none for this tree'}")
    found = (Verdict.PASS if set(fates) <= set(GOOD) else Verdict.FAIL) if fates else Verdict.INCONCLUSIVE
    return worst([*attacked, found])


def _try_traffic(cache: Path, tree: Tree, mutant: Mutant, logs: Path) -> tuple[Fate, frozenset[str]]:
    """What becomes of a mutant on emulated CPUs, and the objects and fields whose traffic exceeds the budgets."""
    composition, commit = applied(tree, mutant)
    if commit is None:
        return Fate.DOES_NOT_APPLY, frozenset()
    both = composition, replace(composition, commit=commit)
    base, candidate = (remembered(cache, tree, C2cOptions(quanta=_QUANTA), logs, each) for each in both)
    judged = traffic_diff.judge(base, candidate, traffic_diff.load_metrics(CONFIGS / "gates/c2c.toml"))
    failed = frozenset(each.name for each in judged.metrics if each.verdict is Verdict.FAIL)
    caught = any(name.startswith(mutant.traffic) for name in failed)
    return Fate.KILLED if caught else Fate.KILLED_BY_OTHERS if failed else Fate.SURVIVED, failed


def _attack(options: MutantsOptions) -> Verdict:
    words = [*options.tree.words(), *(["--packs"] if options.on == ATTACK_PACKS else [])]
    done = subprocess.run([sys.executable, PROJECT / "scripts/proof", "attacks", *words], check=False)
    return next((verdict for verdict in Verdict if verdict.exit_code == done.returncode), Verdict.ERROR)
