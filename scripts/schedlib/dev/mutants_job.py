# SPDX-License-Identifier: GPL-2.0
"""Break every change on purpose, one mutant after the other: a test has to fail for each."""

from __future__ import annotations

import fnmatch
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from schedlib import doctor
from schedlib.c2c import traffic_diff
from schedlib.c2c.counting import remembered
from schedlib.cache import cache_dir, results_directory
from schedlib.check.mutants import GOOD, MUTANTS, Fate, Mutant, applied, read_mutants, try_mutant
from schedlib.dev.dev_options import ATTACK, ATTACK_PACKS, EMULATED, MutantsOptions
from schedlib.errors import SchedlineError
from schedlib.formats.document import write_plain
from schedlib.formats.mutants_document import MutantsDocument
from schedlib.layout.attack import Attacked
from schedlib.layout.attack_job import COLUMNS, attack_column, table, verdict_on
from schedlib.layout.attack_packs import attack_packs, pack_attack_table, verdict_on_packs
from schedlib.layout.columns import pack_columns
from schedlib.layout.compile import Column, arch_table
from schedlib.paths import CONFIGS
from schedlib.tree.compose import compose
from schedlib.tree.kernel_tree import Tree, open_tree
from schedlib.verdict import Verdict, worst

_QUANTA = (100,)


def try_mutants(options: MutantsOptions) -> Verdict:
    """Try each mutant; FAIL if one survives.

    Raises:
        SchedlineError: no mutant matches, a tool is missing, or the unchanged kernel does not build.
    """
    if options.on == ATTACK:
        return _attack(options)
    if options.on == ATTACK_PACKS:
        return _attack_packs(options)
    is_everything = not (options.on or options.only or options.from_)
    attacked = [_attack(replace(options, json=None))] if is_everything else []
    chosen = [
        mutant
        for mutant in read_mutants(options.from_ or MUTANTS)
        if (options.only is None or fnmatch.fnmatchcase(mutant.name, options.only))
        and (options.on != EMULATED or mutant.traffic)
    ]
    if not chosen:
        raise SchedlineError(f"--only: no mutant matches {options.only!r}", "ls configs/mutants/*")
    rows: list[dict[str, object]] = []
    cache = cache_dir()
    doctor.require(["build", *options.tree.needs])
    tree = open_tree(cache, options.tree)
    out = results_directory(cache, None)
    for number, mutant in enumerate(chosen, 1):
        if mutant.series and tree.name not in mutant.series:
            print(f"{number}/{len(chosen)} not for this tree: {mutant.name} (--series {mutant.series[0]})")
            continue
        if options.on == EMULATED:
            fate, failed, seconds = _try_traffic(cache, tree, mutant, out / mutant.name.replace("/", "-"))
        else:
            fate, failed, seconds = try_mutant(cache, tree, mutant, options.on, out)
        print(f"{number}/{len(chosen)} {fate.value}: {mutant.name} ({seconds:.0f} s)", flush=True)
        if fate is not Fate.KILLED:
            wanted = f", wanted {', '.join(mutant.killed_by)}" if mutant.killed_by else ""
            said = f"failed: {', '.join(sorted(failed)) or 'nothing'}{wanted}"
            print(f"    {mutant.breaks or 'no Breaks: header'}\n    {said}")
        row = {"name": mutant.name, "breaks": mutant.breaks, "fate": fate.value}
        rows.append({**row, "failed": sorted(failed), "seconds": round(seconds, 1)})
    if options.json:
        write_plain(options.json, MutantsDocument, {"schema": "mutants-1", "tree": tree.origin, "mutants": rows})
    counts = Counter(str(row["fate"]) for row in rows)
    bad = sum(count for fate, count in counts.items() if Fate(fate) not in GOOD)
    print(f"mutants: {', '.join(f'{count} {fate}' for fate, count in counts.items()) or 'none for this tree'}")
    found = (Verdict.FAIL if bad else Verdict.PASS) if rows else Verdict.INCONCLUSIVE
    return worst([*attacked, found])


def _try_traffic(cache: Path, tree: Tree, mutant: Mutant, logs: Path) -> tuple[Fate, frozenset[str], float]:
    """Count the traffic on emulated CPUs without and with a mutant: a name in its Traffic header has to rise.

    Returns its fate, the objects and fields whose traffic exceeds the budgets, and the time in seconds.
    """
    started = time.monotonic()
    composition, commit = applied(tree, mutant)
    if commit is None:
        return Fate.DOES_NOT_APPLY, frozenset(), 0.0
    both = composition, replace(composition, commit=commit)
    base, candidate = (remembered(cache, tree, _QUANTA, logs, each) for each in both)
    judged = traffic_diff.judge(base, candidate, traffic_diff.load_metrics(CONFIGS / "gates/c2c.toml"))
    failed = frozenset(each.name for each in judged if each.verdict is Verdict.FAIL)
    caught = any(name.startswith(mutant.traffic) for name in failed)
    fate = Fate.KILLED if caught else Fate.KILLED_BY_OTHERS if failed else Fate.SURVIVED
    return fate, failed, time.monotonic() - started


def _attack(options: MutantsOptions) -> Verdict:
    """Attack the contracted structures on several architectures, and print the table (docs/results/catches.md)."""
    doctor.require(["layout", *options.tree.needs])
    cache = cache_dir()
    tree = open_tree(cache, options.tree)
    results: dict[str, tuple[Attacked, ...]] = {}
    for arch, config, change in COLUMNS:
        column = Column(arch_table()[arch], config)
        commit = compose(tree, with_=[change] if change else []).commit
        results[column.name] = attack_column(cache, tree, commit, column, change)
    for line in table(results):
        print(line)
    if options.json:
        rows = [
            {
                "name": f"{name}: {row.struct}: {row.text}",
                "breaks": row.kind.value,
                "fate": (Fate.SURVIVED if row.is_miss else Fate.KILLED if row.complaints else Fate.EQUIVALENT).value,
                "failed": list(row.complaints),
                "seconds": 0.0,
            }
            for name, found in results.items()
            for row in found
        ]
        write_plain(options.json, MutantsDocument, {"schema": "mutants-1", "tree": tree.origin, "mutants": rows})
    verdict = verdict_on(results)
    print(f"verdict: {verdict.name}")
    return verdict


def _attack_packs(options: MutantsOptions) -> Verdict:
    """Attack the structures of packs on x86-64, and print the table (docs/results/catches.md)."""
    doctor.require(["layout", *options.tree.needs])
    tree = open_tree(cache_dir(), options.tree)
    [column] = pack_columns(["x86_64"], [])
    found = attack_packs(cache_dir(), tree, compose(tree).commit, column)
    for line in pack_attack_table(found):
        print(line)
    if options.json:
        rows = [
            {
                "name": f"{column.name}: {row.struct}",
                "breaks": f"new member on a closed line: {row.closed[0]} of {row.closed[1]} noticed",
                "fate": (Fate.SURVIVED if row.closed[0] < row.closed[1] else Fate.KILLED).value,
                "failed": [],
                "seconds": 0.0,
            }
            for row in found
        ]
        write_plain(options.json, MutantsDocument, {"schema": "mutants-1", "tree": tree.origin, "mutants": rows})
    verdict = verdict_on_packs(found)
    print(f"verdict: {verdict.name}")
    return verdict
