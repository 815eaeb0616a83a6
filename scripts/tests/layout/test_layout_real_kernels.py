# SPDX-License-Identifier: GPL-2.0
"""The rules on real kernels of every architecture, compiled in the user's cache and kept there."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from functools import cache as once
from pathlib import Path

import pytest

from schedlib.cache import cache_dir
from schedlib.check.mutants import MUTANTS, read_mutant
from schedlib.contracts.contract_rules import our_rules, pack_rules
from schedlib.errors import SchedlineError
from schedlib.git import git
from schedlib.kernel.kconfig import load
from schedlib.layout.columns import columns_for, ensure_tools
from schedlib.layout.compile import Column, all_read, arch_table, column_directory
from schedlib.layout.emit import emit
from schedlib.layout.layout_diff import compare
from schedlib.layout.pack_units import pack_layout, units_of
from schedlib.layout.rule_judge import Layout, RuleOutcome, judge_rule
from schedlib.layout.vmlinux import kernel_of, layout_of_built
from schedlib.paths import PROJECT
from schedlib.tree.compose import TESTS_DIRECTORY, compose, declarations_of
from schedlib.tree.kernel_tree import Tree, apply_diff, fetch_series, put_files

pytestmark = pytest.mark.guest

SCHEDLINE = str(PROJECT / "scripts/schedline")
GOLDEN = tomllib.loads((Path(__file__).parent / "golden.toml").read_text())
BOTH = "rd-lines,cpupri-lines"
EVERYWHERE = frozenset({"rq-order", "rd-lines", "cpupri-lines"})
FILE = f"{TESTS_DIRECTORY}/layout_asserts.c"


@pytest.fixture(scope="module", autouse=True)
def inline_512(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fragment for masks of 64 bytes inside the structures. The golden tables include such a kernel."""
    path = tmp_path_factory.mktemp("fragments") / "inline-512.config"
    path.write_text("CONFIG_NR_CPUS=512\nCONFIG_CPUMASK_OFFSTACK=n\n")
    return path


def column(name: str, inline: Path) -> Column:
    """A column by its name."""
    arch, _, config = name.partition("+")
    return Column(arch_table()[arch], config.replace("inline-512", str(inline)))


def composed(changes: str) -> tuple[Tree, str]:
    """7.3 with these carried changes only."""
    tree = fetch_series(cache_dir(), "7.3")
    return tree, compose(tree, without={"rd-lines", "cpupri-lines"} - set(changes.split(","))).commit


@once
def layout(name: str, changes: str, inline: Path) -> Layout:
    """The layout of a column with these carried changes only."""
    tree, commit = composed(changes)
    wanted = column(name, inline)
    ensure_tools([wanted])
    return pack_layout(cache_dir(), tree, commit, wanted, our_rules())


@pytest.mark.parametrize("name", arch_table())
def test_every_rule_holds_or_does_not_apply(name: str, inline_512: Path) -> None:
    rules = our_rules()
    results = [judge_rule(rules, rule.id, layout(name, BOTH, inline_512), EVERYWHERE) for rule in rules.rules]
    assert [result.rule for result in results if result.outcome is RuleOutcome.FAIL] == []
    assert sum(result.outcome is RuleOutcome.PASS for result in results) >= 16


def offsets(where: Layout, tag: str, *paths: str) -> list[int | None]:
    """Where members are; None if the kernel does not have one."""
    fields = [where.field(tag, path) for path in paths]
    return [field.offset if field else None for field in fields]


@pytest.mark.parametrize(
    ("name", "changes"),
    [(name, changes) for name in GOLDEN if name not in ("fields", "cpupri", "rq") for changes in GOLDEN[name]],
)
def test_root_domain_is_as_measured(name: str, changes: str, inline_512: Path) -> None:
    found = layout(name, changes, inline_512)
    size = found.types["root_domain"].size
    assert [size, *offsets(found, "root_domain", *GOLDEN["fields"])] == GOLDEN[name][changes]
    first, second = offsets(found, "root_domain", "overloaded", "overutilized")
    assert first is not None and second == first + 1


def test_packs_have_the_members_of_sysctl(inline_512: Path) -> None:
    """Distributions have CONFIG_SYSCTL. A patch to such a member took another configuration, and minutes."""
    tree, commit = composed(BOTH)
    wanted = column("x86_64+packs", inline_512)
    ensure_tools([wanted])
    found = pack_layout(cache_dir(), tree, commit, wanted, pack_rules(("net",)))
    assert None not in offsets(found, "netns_ipv4", "ipv4_hdr", "sysctl_local_reserved_ports")


@pytest.mark.parametrize("name", GOLDEN["cpupri"])
def test_cpupri_is_as_measured(name: str, inline_512: Path) -> None:
    sizes = [
        layout(name, changes, inline_512).types[tag].size
        for changes in ("", "cpupri-lines")
        for tag in ("cpupri_vec", "cpupri")
    ]
    assert sizes == GOLDEN["cpupri"][name]


@pytest.mark.parametrize("name", GOLDEN["rq"])
def test_rq_is_as_measured(name: str, inline_512: Path) -> None:
    found = layout(name, BOTH, inline_512)
    rq = found.structures["rq"]
    idle, csd = rq.member("idle"), rq.member("nohz_csd")
    assert idle and csd
    others = offsets(found, "rq", "nr_switches", "__lock", "nohz_tick_stopped")
    assert [found.line - idle.last - 1, *others, csd.last + 1] == GOLDEN["rq"][name]


def judged_by_debug_information(
    name: str, inline: Path, place: Path, *, btf: bool
) -> tuple[dict[str, RuleOutcome], Layout]:
    """Outcome by rule, from an object's DWARF or BTF and the configuration beside it, together with its layout."""
    tree = fetch_series(cache_dir(), "7.3")
    wanted = column(name, inline)
    vmlinux = place / "vmlinux"
    [unit] = units_of(our_rules().files)
    sources = {f"{unit.stem}.c": unit.text(tree.src)}
    [data] = all_read(cache_dir(), tree, compose(tree).commit, wanted, [f"{unit.stem}.o"], Path.read_bytes, sources)
    vmlinux.write_bytes(data)
    (place / ".config").write_bytes((column_directory(cache_dir(), tree, wanted) / ".config").read_bytes())
    if btf:
        subprocess.run(["pahole", "-J", f"--btf_encode_detached={place / 'btf'}", str(vmlinux)], check=True)
    rules = our_rules()
    found = layout_of_built(place / "btf" if btf else vmlinux, rules, kernel_of(vmlinux))
    return {rule.id: judge_rule(rules, rule.id, found, EVERYWHERE).outcome for rule in rules.rules}, found


@pytest.mark.parametrize(("name", "btf"), [*((name, False) for name in arch_table()), ("x86_64", True)])
def test_debug_information_gives_the_same_verdicts(name: str, btf: bool, inline_512: Path, tmp_path: Path) -> None:
    rules = our_rules()
    compiled_here = layout(name, BOTH, inline_512)
    expected = {rule.id: judge_rule(rules, rule.id, compiled_here, EVERYWHERE).outcome for rule in rules.rules}
    found, where = judged_by_debug_information(name, inline_512, tmp_path, btf=btf)
    assert where.line == compiled_here.line
    assert where.assumed == ""
    if btf:  # BTF does not record the alignment of a type
        assert found["rq-order.Q8"] is RuleOutcome.NA
        expected["rq-order.Q8"] = RuleOutcome.NA
    assert found == expected


def test_without_the_changes_their_rules_fail(inline_512: Path) -> None:
    rules = our_rules()
    bare = layout("x86_64", "", inline_512)
    for rule in rules.rules:
        if rule.change in ("rd-lines", "cpupri-lines") and rule.id != "cpupri-lines.C5":
            assert judge_rule(rules, rule.id, bare).outcome is RuleOutcome.NA
            assert judge_rule(rules, rule.id, bare, EVERYWHERE).outcome is RuleOutcome.FAIL


def test_what_rq_order_brought(inline_512: Path) -> None:
    tree = fetch_series(cache_dir(), "6.12")
    commit = compose(tree, without=EVERYWHERE).commit
    old = pack_layout(cache_dir(), tree, commit, column("x86_64+numa", inline_512), our_rules())
    rules = our_rules()
    difference = compare(rules, old, layout("x86_64+numa", "", inline_512))
    touched = {metric.name: (metric.before, metric.value) for metric in difference.metrics if "touched" in metric.name}
    before = {"load-balance": 5, "idle": 4, "clock": 2}
    assert touched == {f"{name} lines touched": (lines, 1) for name, lines in before.items()}
    judged = (judge_rule(rules, f"rq-order.Q{number}", old, EVERYWHERE).outcome for number in range(1, 7))
    assert set(judged) == {RuleOutcome.FAIL}


def asserted() -> tuple[Tree, str]:
    """7.3 with the changes, and the assertions on top."""
    tree, commit = composed(BOTH)
    text = emit(our_rules(), EVERYWHERE, declarations_of(tree, commit))
    return tree, put_files(tree, commit, {FILE: text.encode()}, "assertions\n")


@pytest.mark.parametrize("name", [*arch_table(), "x86_64+numa+proxy", "x86_64+lockdep", "x86_64+inline-512"])
def test_assertions_compile(name: str, inline_512: Path) -> None:
    tree, commit = asserted()
    wanted = column(name, inline_512)
    ensure_tools([wanted])
    assert all_read(cache_dir(), tree, commit, wanted, [FILE.replace(".c", ".o")], Path.read_bytes)


@pytest.mark.parametrize(
    ("mutant", "name", "rule"),
    [
        ("rd-lines/rto_count-last", "x86_64", "rd-lines.R3"),
        ("rd-lines/aligned-to-64", "ppc64le", "rd-lines.R3"),
        ("rq-order/first-line-overflows-with-numa", "x86_64+numa+proxy", "rq-order.Q1"),
        ("cpupri-lines/unaligned", "s390x", "cpupri-lines.C1"),
    ],
)
def test_assertions_do_not_compile_when_a_rule_is_broken(mutant: str, name: str, rule: str, inline_512: Path) -> None:
    tree, commit = asserted()
    broken = apply_diff(tree, commit, read_mutant(MUTANTS / f"{mutant}.diff", mutant).diff, "mutant\n")
    assert broken
    with pytest.raises(SchedlineError, match=f'static assertion failed: "{rule}"'):
        all_read(cache_dir(), tree, broken, column(name, inline_512), [FILE.replace(".c", ".o")], Path.read_bytes)


def test_an_architecture_without_the_configuration_is_told(tmp_path: Path) -> None:
    words = ["layout", "--arch", "arm,x86_64", "--config", "numa", "--json", str(tmp_path / "x.json")]
    done = subprocess.run([SCHEDLINE, *words], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "no column arm+numa: " in done.stdout
    assert "asks for CONFIG_NUMA=y" in done.stdout
    columns = json.loads((tmp_path / "x.json").read_text())["columns"]
    assert [(row["name"], bool(row["absent"])) for row in columns] == [("arm+numa", True), ("x86_64+numa", False)]


def test_a_patch_is_judged_on_standard_input(inline_512: Path) -> None:
    good = b"""\
--- a/kernel/sched/sched.h
+++ b/kernel/sched/sched.h
@@ -1,2 +1,3 @@
 /* SPDX-License-Identifier: GPL-2.0 */
+/* harmless */
 /*
"""
    bad = read_mutant(MUTANTS / "rq-order/first-line-overflows-with-numa.diff", "bad").diff
    for patch, status in ((good, 0), (bad, 1)):
        done = subprocess.run([SCHEDLINE, "layout", "--patch", "-"], check=False, capture_output=True, input=patch)
        assert (done.returncode, b"next: " in done.stderr) == (status, False), done.stderr
        assert (b"ERROR: rq-order.Q1, rq-order.Q2: " in done.stdout) is bool(status)
    assert done.stdout.startswith(b"kernel/sched/sched.h:118")


BROKEN = sorted((Path(__file__).parent / "group-state").glob("*.diff"))


@pytest.mark.parametrize("path", BROKEN, ids=[path.stem for path in BROKEN])
def test_a_group_on_a_cpu_begins_with_its_cfs_rq_on_lines_of_its_own(path: Path) -> None:
    words = [SCHEDLINE, "layout", "--series", "7.3", "--patch", str(path), "--verbose"]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert (done.returncode, path.stem in done.stdout) == (1, True), done.stdout + done.stderr


def test_all_configurations_can_be_read() -> None:
    for each in columns_for(["all"], ["all"]):
        assert load([*each.arch.base, *(part for part in each.config.split("+") if part)]).values


def test_the_verb_prints_the_assertions() -> None:
    text = subprocess.run([SCHEDLINE, "layout", "emit"], check=True, capture_output=True, text=True).stdout
    tree, commit = asserted()
    assert git(tree.src, "cat-file", "blob", f"{commit}:{FILE}").strip() == text.strip()


def test_the_patch_of_readme_gets_the_answer_of_readme(tmp_path: Path) -> None:
    readme = (PROJECT / "README.md").read_text()
    diff = re.findall(r"```diff\n(.*?)```", readme, re.S)[0]
    (tmp_path / "my.patch").write_text(diff)
    subprocess.run(["git", "apply", "--numstat", tmp_path / "my.patch"], check=True)
    words = [SCHEDLINE, "layout", "--series", "7.3", "--patch", str(tmp_path / "my.patch"), "--verbose"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    said = " ".join(done.stdout.split())
    wanted = re.findall(r"ERROR: (.*?)\n```", readme, re.S)[0]
    parts = [re.escape(" ".join(part.split())) for part in wanted.split("...")]
    assert done.returncode == 1
    assert re.search(".*".join(parts), said), said


def test_the_recorded_lines_are_those_of_the_kernel() -> None:
    recorded = PROJECT / "docs/recorded"
    words = ["--series", "7.3", "--struct", "rq", "--patch", str(recorded / "first-line.patch")]
    said = subprocess.run([SCHEDLINE, "layout", *words], check=True, capture_output=True, text=True)
    for part in re.split(r"^(?=struct )", (recorded / "first-line.txt").read_text(), flags=re.M):
        assert part in said.stdout
