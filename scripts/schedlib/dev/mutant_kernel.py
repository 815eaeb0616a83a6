# SPDX-License-Identifier: GPL-2.0
"""One kernel with many mutants: each function is a switch over its copies, and a parameter chooses one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from schedlib.cache import lock
from schedlib.dev.c_mutants import CodeChange, Function, counted, function
from schedlib.errors import DoesNotBuild, SchedlineError
from schedlib.kernel.build import KernelPlan, build_directory, built, make_as_configured
from schedlib.process import must
from schedlib.tree.kernel_tree import checked_out

HEADER, CORE = "kernel/sched/sched.h", "kernel/sched/core.c"
PARAMETER = "sched_mutant"
COUNTING = -1
"""The parameter's value that counts how often each statement runs. 0 is the kernel as it is."""

_GUARD = "#define _KERNEL_SCHED_SCHED_H\n"
_DECLARED = """
extern int sched_mutant;
extern unsigned int sched_reached[];
"""
_SETUP = """
#include <linux/reboot.h>

int sched_mutant;
unsigned int sched_reached[{counters} + 1];

static int __init sched_mutant_setup(char *text)
{{
	return kstrtoint(text, 0, &sched_mutant);
}}
early_param("sched_mutant", sched_mutant_setup);

static int sched_reached_print(struct notifier_block *block, unsigned long action, void *data)
{{
	for (int i = 0; i < {counters} && sched_mutant == -1; i++)
		pr_info("reached: %d %u\\n", i, sched_reached[i]);
	return NOTIFY_DONE;
}}

static struct notifier_block sched_reached_block = {{ .notifier_call = sched_reached_print }};

static int __init sched_reached_setup(void)
{{
	return register_reboot_notifier(&sched_reached_block);
}}
late_initcall(sched_reached_setup);
"""
_ERRORS = ("uninitialized", "int-conversion", "incompatible-pointer-types", "return-type", "div-by-zero")
"""A mutant with one of these warnings has no meaning of its own."""


Statement = tuple[str, str, int]
"""File, function and line."""


def schema(
    sources: Mapping[str, str], mutants: Sequence[CodeChange], filters: Mapping[tuple[str, str], str]
) -> tuple[dict[str, bytes], tuple[Statement, ...]]:
    """The files of a kernel that has all mutants, and the statement behind each counter.

    Args:
        sources: the texts of HEADER, CORE and the files with functions.
        filters: file and function of each target, with the pattern of its lines or "".
    """
    texts = dict(sources)
    counters: list[Statement] = []
    for file in dict.fromkeys(file for file, _ in filters):
        data = sources[file].encode()
        names = [name for where, name in filters if where == file]
        found = sorted((function(sources[file], name, file) for name in names), key=lambda each: each.start)
        pieces, at = [], 0
        for each in found:
            body, lines = counted(each, len(counters), filters[file, each.name])
            counters += [(file, each.name, line) for line in lines]
            bodies = {m.number: m.body for m in mutants if (m.file, m.function) == (file, each.name)}
            pieces += [data[at : each.start], _switch(each, file, bodies, body).encode()]
            at = each.end
        texts[file] = b"".join([*pieces, data[at:]]).decode()
    if _GUARD not in texts[HEADER]:
        raise SchedlineError(f"{HEADER} has no line `{_GUARD.strip()}`", "report this tree's version")
    texts[HEADER] = texts[HEADER].replace(_GUARD, _GUARD + _DECLARED, 1)
    texts[CORE] += _SETUP.format(counters=len(counters))
    return {name: text.encode() for name, text in texts.items()}, tuple(counters)


def _switch(original: Function, file: str, bodies: Mapping[int, str], counting: str) -> str:
    """A function that calls one of its copies. Each copy has the line numbers of the original."""
    place = f'#line {original.line} "{file}"\n'
    call = f"({', '.join(original.parameters)})"
    pragmas = "".join(f'#pragma GCC diagnostic error "-W{name}"\n' for name in _ERRORS)
    text = f"#pragma GCC diagnostic push\n{pragmas}"
    text += place + original.copy("__orig", original.body) + place + original.copy("__count", counting)
    cases = f"\tcase {COUNTING}:\n\t\t{_call(original, '__count' + call)}\n"
    for number, body in bodies.items():
        text += place + original.copy(f"__m{number}", body)
        cases += f"\tcase {number}:\n\t\t{_call(original, f'__m{number}{call}')}\n"
    cases += f"\tdefault:\n\t\t{_call(original, '__orig' + call)}\n"
    after = original.line + original.head.count("\n") + original.body.count("\n") + 1
    switch = f"{original.head}{{\n\tswitch ({PARAMETER}) {{\n{cases}\t}}\n}}\n"
    return f'{text}#pragma GCC diagnostic pop\n{switch}#line {after - 1} "{file}"\n'


def _call(original: Function, rest: str) -> str:
    return f"return {original.name}{rest};" if original.returns else f"{original.name}{rest}; return;"


_WITHIN = re.compile(r"(?:In function|inlined from) .(\w+?)(?:__m(\d+))?(?:\.\w+)*.[:, ]")
_ERROR = re.compile(r"^\S+:\d+(?::\d+)?: (?:fatal )?error: (.*)$")


def refused(log: str) -> tuple[dict[int, str], list[str]]:
    """The mutants that a compiler refuses, with its first error; and the errors that belong to none."""
    found: dict[int, str] = {}
    others: list[str] = []
    within: int | None = None
    for line in log.splitlines():
        if "At top level" in line:
            within = None
        # The last function of a line or of a chain of inlined ones is the outermost.
        for match in _WITHIN.finditer(line):
            within = int(match[2]) if match[2] else None
        if error := _ERROR.match(line):
            if within is None:
                others.append(line)
            else:
                found.setdefault(within, error[1])
    return found, others


def compiled(cache: Path, plan: KernelPlan, commit: str) -> dict[int, str]:
    """Compile the scheduler of a commit; the mutants that the compiler refuses."""
    directory = build_directory(cache, plan.tree, plan.target, plan.configuration)
    words = [f"CROSS_COMPILE={plan.target.compiler}"]
    with lock(directory.with_name(f"{directory.name}.lock")), checked_out(plan.tree, commit):
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "stamp.json").unlink(missing_ok=True)
        try:
            make_as_configured(
                plan.tree, directory, plan.target.arch, plan.configuration, words, ["-k", "kernel/sched/"]
            )
        except DoesNotBuild as error:
            found, others = refused((directory / "build.log").read_text(errors="replace"))
            if not found or others:
                raise SchedlineError(f"{(others or [str(error)])[0]}", f"see {directory / 'build.log'}") from error
            return found
    return {}


def kernel_with(cache: Path, plan: KernelPlan, commit: str, place: Path) -> frozenset[int]:
    """Build a commit, and copy it to a place; the mutants whose object code is that of the original."""
    with built(cache, plan.tree, commit, plan.target, plan.configuration) as kernel:
        kernel.kept(place)
        argv = [f"{plan.target.compiler}objdump", "-dr", "--no-show-raw-insn"]
        objects = sorted((kernel.build / "kernel/sched").glob("*.o"))
        return frozenset[int]().union(*(same_code(must([*argv, each])) for each in objects))


_COPY = re.compile(r"^[0-9a-f]+ <(\w+?)(__m\d+|__orig)((?:\.\w+)*)>:\n", re.M)


def same_code(disassembly: str) -> frozenset[int]:
    """The mutants whose copy of a function is the same code as the original's."""
    codes: dict[str, dict[str, str]] = {}
    for block in disassembly.split("\n\n"):
        if head := _COPY.search(block):
            name, copy, part = head.groups()
            # A part that the compiler moved elsewhere (.cold) belongs to the function.
            mine = codes.setdefault(name, {})
            mine[copy] = mine.get(copy, "") + part + _plain(block[head.end() :], name, int(head[0].split()[0], 16))
    return frozenset(
        int(copy[3:])
        for copies in codes.values()
        for copy, code in copies.items()
        if copy != "__orig" and code == copies.get("__orig")
    )


_JUMP = re.compile(r"(j\w+|call|bl?(?:\.\w+)?|(?:cb|tb)n?z\s[^<]*,)\s+([0-9a-f]+) <(\w+)")


def _plain(code: str, name: str, start: int) -> str:
    """Code without what depends on where it lies."""
    rows = []
    for line in code.splitlines():
        row = re.sub(r"^\s*[0-9a-f]+:\s*", "", line)
        if jump := _JUMP.match(row):
            target = jump[3]
            row = f"{jump[1]} +{int(jump[2], 16) - start}" if target.startswith(f"{name}__") else f"{jump[1]} {target}"
        row = re.sub(rf"{name}(__m\d+|__orig)[\w.]*", "SELF", row)
        row = re.sub(r"(\.(?:text|rodata|init|export)[\w.]*)[+-]0x[0-9a-f]+", r"\1", row)
        rows.append(re.sub(r"\s*# [0-9a-f]+ <.*", "", row))
    return "\n".join(rows)
