# SPDX-License-Identifier: GPL-2.0
"""`schedline check`: one tree, its guests, one verdict."""

from __future__ import annotations

import argparse
import re
import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path

from schedlib import names
from schedlib.kernel.targets import SANITIZED, SANITIZERS, TARGETS
from schedlib.names import one_of, some_of
from schedlib.options import (
    CHANGES,
    MOST_CPUS,
    ChangeOptions,
    TreeOptions,
    Verbs,
    add_verb,
    bisect_flag,
    cpu_count,
    flag,
    fragments,
    new_path,
    option,
    seconds,
)
from schedlib.paths import TYPED
from schedlib.tree.source import require_tree

_WORD = re.compile(r"[\w.,=:*?\[\]/-]+")


def _cpus(text: str) -> tuple[int, ...]:
    return tuple(cpu_count(word) for word in text.split(","))


def _word(text: str) -> str:
    if not _WORD.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} holds characters that a kernel command line cannot carry")
    return text


@dataclass(frozen=True)
class CheckOptions:
    """The options of a check. Without `expect` the changes of `base` are expected."""

    tree: TreeOptions = field(default_factory=TreeOptions)
    changes: ChangeOptions = field(default_factory=ChangeOptions)
    on: str | None = option(
        "--on TARGET", f"{' or '.join(TARGETS)} (default: uml where it has SMP)", one_of("target", lambda: TARGETS)
    )
    cpus: tuple[int, ...] = option(
        "--cpus N,...", "CPUs of the guests (default: 8 and 64)", _cpus, default=(), group="shape"
    )
    topology: str | None = option(
        "--topology NAME",
        "boot one guest in QEMU with the shape in configs/topologies/NAME.toml",
        one_of("topology", names.topology_names),
        group="shape",
    )
    config: tuple[str, ...] = option(
        "--config FRAGMENT,...", "fragments of configs/kernel/, or paths, added in this order", fragments, default=()
    )
    cpupri: tuple[str, ...] = option(
        "--cpupri NAME,...",
        lambda: f"build and boot cpupri-split once for each variant: {', '.join(names.cpupri_variants())}, or all",
        some_of("variant of cpupri-split", names.cpupri_variants, everything="all"),
        default=(),
    )
    sanitize: str | None = option(
        "--sanitize",
        f"build with this and boot {SANITIZED} with 8 CPUs; a report fails, except for the intended races in "
        "configs/known-races.toml",
        choices=sorted(SANITIZERS),
    )
    expect: tuple[str, ...] | None = option("--expect ID,...", "changes that must be present", CHANGES)
    base: str | None = option(
        "--base REV", "expect the changes that this revision of your tree has (default: @{upstream})"
    )
    require: tuple[str, ...] = option(
        "--require TEST,...", "a skip of these tests or suites is an error", names.split_list, default=()
    )
    selftests: bool = flag("--selftests", "run the programs of selftests/ in the guests instead of KUnit")
    only: str | None = option(
        "--only SUITE[.CASE]",
        "run only these (globs allowed): sched_layout.rd_lines for the printed sched_layout:rd_lines:rd-lines.R3; "
        "of the selftests: sched_latency.PROGRAM",
        _word,
    )
    kernel_args: tuple[str, ...] = option(
        "--kernel-arg ARG",
        "a parameter for the guest kernel, such as sched_cpupri_kunit.seed=7",
        _word,
        default=(),
        action="append",
    )
    timeout: float | None = option("--timeout SECONDS", "end a guest after this time", seconds)
    verbose: bool = flag("--verbose", "list each skipped test")
    json: Path | None = option("--json FILE", "write the results here too (--cpupri: FILE-NAME)", new_path)
    out: Path | None = option("--out DIR", "directory for logs and results", new_path)
    again: bool = flag("--again", "build and boot even if nothing has changed since an earlier verdict")
    bisect: bool = bisect_flag()

    def variant(self, name: str, out: Path) -> CheckOptions:
        """The check of one variant of cpupri-split: its change and fragment, and files of its own for the results."""
        return replace(
            self,
            changes=replace(self.changes, with_=(*self.changes.with_, "cpupri-split")),
            config=(*self.config, f"cpupri-{name}"),
            cpupri=(),
            json=self.json and self.json.with_stem(f"{self.json.stem}-{name}"),
            out=out / name,
        )

    def command(self, on: str) -> str:
        """The command that repeats this check on a target, without the option that chooses one test.

        It is empty if no single test can be chosen.
        """
        if self.selftests:
            return ""
        given: tuple[tuple[str, str | None], ...] = (
            ("--base", self.base),
            ("--with", ",".join(self.changes.with_)),
            ("--without", ",".join(self.changes.without)),
            ("--config", ",".join(self.config)),
            ("--expect", ",".join(self.expect or ())),
            ("--sanitize", self.sanitize),
            *(("--kernel-arg", argument) for argument in self.kernel_args),
            ("--on", on),
        )
        words = [word for name, value in given if value for word in (name, value)]
        return shlex.join([TYPED, "check", *self.tree.words(), *words])


def add_parser(verbs: Verbs) -> None:
    """Add `schedline check`."""
    add_verb(
        verbs,
        "check",
        "the main job: fetch, patch, build, boot, judge; one verdict",
        first=[
            "schedline check                  Debian's 7.3 with the changes, UML with 8 and 64 CPUs",
            "schedline check --kdir ~/linux   your tree as it is, uncommitted changes included",
        ],
        text="""
        Copies a kernel source, adds the KUnit tests and the changes, builds it, and boots it with several CPUs. The
        whole console log is judged against the list of tests that it must contain. Your tree is only read.

        A change that your tree lacks is skipped, unless --expect or --base says that it must be present.""",
        examples=[
            "schedline check --series 6.12                   6.12 in QEMU (its UML has one CPU)",
            "schedline check --series 6.1                    Debian 12's kernel with the cluster scan added",
            "schedline check --kdir ~/linux --base v7.3      the changes of v7.3 must be present",
            "schedline check --kdir ~/linux --with rd-lines  your tree with a carried change",
            "schedline check --without rd-lines              see the rules fail without the change",
            "schedline check --only sched_layout.rd_lines --cpus 8",
            "schedline check --on qemu-x86_64 --config numa",
            "schedline check --cpupri all                    cpupri's masks split in each way",
            "schedline check --sanitize kcsan                data races; also kasan, lockdep, ubsan",
            "schedline check --on qemu-arm64 --topology kunpeng920",
            "schedline check --on qemu-arm64 --topology jacobsville --selftests",
            "git bisect run schedline check --kdir . --expect rq-order --bisect",
        ],
        options=CheckOptions,
        read=_checked,
        job="check.check_job.check",
    )


def _checked(options: CheckOptions) -> CheckOptions:
    """The options with the names that tests have now."""
    from schedlib.console.expected import current_name, expected_tests

    require_tree(options.tree)
    selftests, only = options.selftests, options.only
    require = tuple(current_name(name, selftests=selftests) for name in options.require)
    if only:
        only = current_name(only, ".", selftests=selftests)
        expected_tests(MOST_CPUS, only, selftests=selftests)
    return replace(options, require=require, only=only)
