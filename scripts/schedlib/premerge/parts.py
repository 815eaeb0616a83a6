# SPDX-License-Identifier: GPL-2.0
"""The parts of the page: each compares base and head, and reports what the series changed."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from schedlib import doctor
from schedlib.c2c import samples as c2c_samples
from schedlib.c2c import traffic_diff
from schedlib.c2c.c2c_job import remembered
from schedlib.c2c.c2c_options import C2cOptions
from schedlib.c2c.plugin_guest import refuse_other_qemu
from schedlib.c2c.samples import MEASURED_FILE, read_measured
from schedlib.cache import digest_of, scratch
from schedlib.check import mutants
from schedlib.check.check_boots import CheckPlan, boot_and_judge
from schedlib.check.check_results import JudgedBoot, skips
from schedlib.check.mutants import Fate
from schedlib.contracts.contract_rules import our_rules, pack_rules
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.c2c_document import read_result
from schedlib.formats.gate_document import GateDocument
from schedlib.gate.gate_options import GateOptions
from schedlib.guest.command_line import accelerator
from schedlib.kernel.build import plan_kernel, prepare_kernel
from schedlib.kernel.targets import Target, choose
from schedlib.layout.columns import columns_for, pack_columns
from schedlib.layout.kernel_versions import TIGHTEST, CommitVersions
from schedlib.layout.patch_findings import Finding
from schedlib.layout.patch_job import Looks
from schedlib.layout.patch_text import touches_layout
from schedlib.layout.rule_judge import Layout
from schedlib.names import pack_names
from schedlib.paths import CONFIGS
from schedlib.premerge.premerge_verb import GATES, RUNS, TRAFFIC
from schedlib.premerge.record import Guests, read_guests, write_guests, write_layouts
from schedlib.premerge.series import PatchSeries, PremergePart, touched
from schedlib.tree.compose import compose
from schedlib.tree.kernel_tree import Tree, at
from schedlib.verdict import Verdict, worst

Test = tuple[str, Verdict | None, str]
"""Name, verdict and text."""


class Part(PremergePart, frozen=True):
    """The result of one part, with the tests for JUnit and the findings for b4 and SARIF."""

    lines: tuple[str, ...] = ()
    tests: tuple[Test, ...] = ()
    findings: tuple[Finding, ...] = ()


def layout(
    tree: Tree,
    series: PatchSeries,
    archs: Sequence[str],
    contracts: Sequence[Path],
    expected: frozenset[str],
    out: Path,
) -> Part:
    """The rules that the series breaks, those of packs too, and what it moves. `out`: where the offsets are kept."""
    if not touches_layout(series.diff, contracts):
        return Part("layout", Verdict.PASS, "no header, no Kconfig and no .c file with a contract is touched")
    rules, packs = our_rules(), pack_rules(pack_names(), contracts)
    base, head = (compose(at(tree, commit), expect=expected).commit for commit in (series.base, series.head))
    # Also the one that layout --patch looks at, so that both say the same.
    columns = (*columns_for(archs, ()), *columns_for(archs, (TIGHTEST,)))
    versions = CommitVersions(tree, (base, head), columns, pack_columns(archs, ()))
    looks = Looks(series.diff, versions)
    tests: list[Test] = []
    lacking: list[str] = []
    is_judged = False
    pairs = [*((each, rules) for each in versions.columns), *((each, packs) for each in versions.pack_columns)]
    for column, held in pairs:
        name, known = column.name, len(looks.found)
        look = looks.at(column, held)
        if look is None:
            lacking.append(name)
            tests.append((name, None, "skipped: this tree does not support the configuration"))
            continue
        is_judged = is_judged or held is rules
        found = looks.found[known:]
        said = list(map(str, found))
        for tag in rules.types() if held is rules else ():
            old, new = (kind.size if (kind := each.types.get(tag)) else None for each in (look.before, look.after))
            said += [f"struct {tag} {old} -> {new} bytes"] * (old != new)
        tests.append((name, _broken(found) or Verdict.PASS, "\n".join(said)))
    known = len(looks.found)
    looks.further(versions.pack_columns[0], rules, packs)
    blind, missed = looks.blind(), looks.not_looked_at(rules, packs)
    told, findings = [*looks.found[known:], *missed], (*looks.found, *missed)
    lines = [f"{name}: {line}" for name, _, said in tests for line in said.splitlines()]
    lines += [line for each in told for line in str(each).split("\n")]
    if missed or _broken(told):
        tests.append(("changed lines", _broken(told) or Verdict.INCONCLUSIVE, "\n".join(map(str, told))))
    verdict = _broken(findings) or (Verdict.INCONCLUSIVE if missed or not is_judged else Verdict.PASS)
    kept: dict[str, tuple[Layout, Layout] | None] = {
        each.after.name: (each.before, each.after) for each in looks.looks if each.rules.rules
    }
    write_layouts(out, kept | dict.fromkeys(lacking), verdict, [str(each).split("\n")[0] for each in missed])
    if not is_judged:
        return Part("layout", Verdict.INCONCLUSIVE, "no configuration could be compiled", tuple(lines), tuple(tests))
    compiled = sum(verdict is not None for _, verdict, _ in tests)
    errors = sum(len(each.rules) for each in findings if each.error)
    room = sum(bool(each.rule) and not each.error for each in findings)
    summary = f"{compiled} configurations: {errors} rules broken, {room} lines with less room"
    if blind:
        summary += f"; {len(blind)} of {len(looks.lines)} changed lines inside of structures were not compiled"
    return Part("layout", verdict, summary, tuple(lines), tuple(tests), findings)


def _broken(found: Sequence[Finding]) -> Verdict | None:
    return Verdict.FAIL if any(each.error for each in found) else None


def booted(cache: Path, tree: Tree, commit: str, target: Target, expected: frozenset[str], out: Path) -> Guests:
    """Build and boot a commit, or take a cached result: the base is the same for every version of a series."""
    planned = plan_kernel(at(tree, commit), target, expect=expected)
    depends = f"{planned.commit} {planned.configuration.digest()} {target} {sorted(expected)}"
    place = cache / "premerge" / digest_of(depends)
    if (guests := read_guests(place)) is None:
        plan = CheckPlan(target, target.classes, expected, left_out=planned.left_out)
        with scratch(cache) as empty:
            kernel = prepare_kernel(cache, planned, empty)
            boots = boot_and_judge(plan, kernel, place, accelerator(cache, target, kernel.image))
        guests = write_guests(place, plan, boots)
    shutil.copytree(place, out)
    return guests


def kunit(cache: Path, tree: Tree, series: PatchSeries, expected: frozenset[str], out: Path) -> Part:
    """Run the suites on base and head."""
    target, _ = choose(tree, None)
    base, head = (
        booted(cache, tree, commit, target, expected, out / side)
        for side, commit in (("base", series.base), ("head", series.head))
    )
    return suites(base, head)


def suites(base: Guests | None, head: Guests) -> Part:
    """Judge the suites. Tests that fail only on the head are the series' fault: without one FAIL is INCONCLUSIVE."""
    boots = {"base": base[1] if base else (), "head": head[1]}
    failed = {side: mutants.failed_names(found) for side, found in boots.items()}
    new, old = sorted(failed["head"] - failed["base"]), sorted(failed["head"] & failed["base"])
    verdict = worst(boot.verdict for boot in boots["head"])
    verdict = Verdict.INCONCLUSIVE if verdict is Verdict.FAIL and not new else verdict
    told = {"fails since the series": new, "fails on the base, too": old}
    told["fixed by the series"] = sorted(failed["base"] - failed["head"])
    lines = [f"{what}: {', '.join(names)}" for what, names in told.items() if names]
    lines += [
        f"{side} {boot.name}: {boot.verdict.name}, {_counts([boot])}"
        for side, found in boots.items()
        for boot in found
        if boot.verdict is not Verdict.PASS
    ]
    left_out = (base[0].left_out if base else {}) | head[0].left_out
    lines += [f"left out: {suite}: {why}" for suite, why in left_out.items()]
    for reason, names in skips(boots["head"]).items():
        of_suites = Counter(name.split(":")[0] for name in names)
        lines.append(f"skipped, {reason}: {', '.join(f'{count} of {suite}' for suite, count in of_suites.items())}")
    before = _counts(boots["base"]) if base else "not run"
    summary = f"{head[0].target}: {_counts(boots['head'])}; base: {before}; new failures: {len(new)}"
    tests: list[Test] = [(name, Verdict.FAIL, "passes on the base") for name in new]
    tests += [*((name, None, "fails on the base, too") for name in old), ("suites", verdict, summary)]
    return Part("kunit", verdict, summary, tuple(lines), tuple(tests))


def _counts(boots: Sequence[JudgedBoot]) -> str:
    """The tests of each guest; one that is missing failed."""
    outcomes = [test.outcome.name for boot in boots for test in boot.tests]
    passed, skipped = map(outcomes.count, ("PASS", "SKIP"))
    return f"{passed} passed, {len(outcomes) - passed - skipped} failed, {skipped} skipped"


def emulated(cache: Path, tree: Tree, series: PatchSeries, measured: Path | None, out: Path) -> Part:
    """The cache-line traffic of base and head on emulated CPUs, by field: counted, or taken from the cache.

    `measured`: samples of the base on a real machine, for a table beside its counts.
    """
    if measured is None and not any(file.startswith(("kernel/sched/", "include/")) for file in series.files):
        return Part("c2c", Verdict.PASS, "neither the scheduler nor a header is touched")
    try:
        doctor.require(["build", "qemu-x86_64"])
        refuse_other_qemu()
    except SchedlineError as error:
        return Part("c2c", None, " ".join(error.observed.split()))
    for side, commit in (("base", series.base), ("head", series.head)):
        counted = remembered(cache, at(tree, commit), C2cOptions(), out / TRAFFIC / side)
        document.write(out / TRAFFIC / f"{side}.json", counted)
    if measured:
        document.write(out / TRAFFIC / MEASURED_FILE, read_measured(measured))
    return compared(out)


def compared(out: Path) -> Part:
    """Judge the traffic in the directory of a premerge by configs/gates/c2c.toml. Samples are only shown."""
    base, head = (read_result(out / TRAFFIC / f"{side}.json") for side in ("base", "head"))
    traffic_diff.refuse_unlike(base, head)
    judged = traffic_diff.judge(base, head, traffic_diff.load_metrics(CONFIGS / "gates/c2c.toml"))
    bad = [each for each in judged.metrics if each.verdict is not Verdict.PASS]
    said = tuple(f"{each.verdict.name}: {traffic_diff.sentence(each)}" for each in bad)
    if (out / TRAFFIC / MEASURED_FILE).exists():
        samples = read_measured(out / TRAFFIC / MEASURED_FILE)
        said += tuple(c2c_samples.brief(c2c_samples.compare(samples, base)))
    cpus, workload = base.parameters.cpus, base.parameters.workload
    summary = f"{workload} on {cpus} emulated CPUs: {len(judged.metrics)} counts, {len(bad)} over the budget"
    tests = tuple((f"{each.name} {each.count}", each.verdict, traffic_diff.sentence(each)) for each in judged.metrics)
    return Part("c2c", judged.status, summary, said, tests)


def mutated(cache: Path, tree: Tree, series: PatchSeries, expected: frozenset[str], out: Path) -> Part:
    """Try the mutants of the files that the series touches: can the tests still fail there?"""
    chosen = [
        mutant
        for mutant in mutants.read_mutants(mutants.MUTANTS)
        if not series.files.isdisjoint(touched(mutant.diff)) and mutant.on is None and not mutant.without
    ]
    head = at(tree, series.head)
    rows = [(mutant, mutants.try_mutant(cache, head, mutant, None, out, expected)[0]) for mutant in chosen]
    fitting = [row for row in rows if row[1] is not Fate.DOES_NOT_APPLY]
    if not fitting:
        return Part("mutants", None, f"none of {len(rows)} mutants of the touched files applies to this tree")
    bad = [mutant for mutant, fate in fitting if fate not in mutants.GOOD]
    others = len(rows) - len(fitting)
    summary = f"{len(fitting) - len(bad)} of {len(fitting)} killed; {others} do not apply to this tree"
    lines = tuple(f"survives: {mutant.name}: {mutant.breaks}" for mutant in bad)
    tests = tuple(
        (mutant.name, Verdict.INCONCLUSIVE if mutant in bad else Verdict.PASS, mutant.breaks) for mutant, _ in fitting
    )
    return Part("mutants", Verdict.INCONCLUSIVE if bad else Verdict.PASS, summary, lines, tests)


def runs(out: Path, gates: str = "") -> tuple[Part, GateDocument]:
    """Judge the runs of a real machine that are in the directory of a premerge, by the gates file beside them.

    gates: what the user calls it.
    """
    # numpy is installed only if there are runs.
    from schedlib.gate import gate_report
    from schedlib.gate.comparison import compare

    base, candidate, placebo = (out / RUNS / side for side in ("base", "candidate", "placebo"))
    gates = gates or (str(out / GATES) if (out / GATES).is_file() else "default")
    found = compare(GateOptions(base, candidate, gates, placebo=placebo if placebo.is_dir() else None))
    verdict, said = found.status, gate_report.text(found)
    return Part("runs", verdict, f"gate: {verdict.name}", tuple(said.splitlines()), (("gate", verdict, said),)), found
