# SPDX-License-Identifier: GPL-2.0
"""Operators that change a C function in one place each, and one kernel with all these mutants.

The operators work on the syntax tree of tree-sitter. In the kernel each function is a switch over its copies, and a
parameter chooses one.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tree_sitter_c
from tree_sitter import Language, Node, Parser

from schedlib.cache import lock
from schedlib.errors import DoesNotBuild, SchedlineError
from schedlib.kernel.build import KernelPlan, build_directory, built, make_as_configured
from schedlib.process import must
from schedlib.tree.kernel_tree import checked_out

_RELATIONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
_PAIRS = (("+", "-"), ("&", "|"), ("+=", "-="), ("&=", "|="), ("++", "--"))
_OTHERS = dict(_PAIRS) | {other: one for one, other in _PAIRS}
_UNARY = ("pointer_expression", "unary_expression", "pointer_declarator")
_DROPPED = ("expression_statement", "continue_statement", "break_statement", "goto_statement", "return_statement")
_COUNTED = (*_DROPPED, "if_statement", "for_statement", "while_statement", "do_statement", "switch_statement")


@dataclass(frozen=True)
class Function:
    """A function as a file defines it.

    `line` is of its first line in the file, `start` and `end` are bytes of the file; `statements` (line in the file,
    start, end) and `edits` (operator, start, end, text) have places in the body.
    """

    name: str
    line: int
    start: int
    end: int
    head: str
    body: str
    parameters: tuple[str, ...]
    statements: tuple[tuple[int, int, int], ...]
    edits: tuple[tuple[str, int, int, str], ...]

    def copy(self, suffix: str, body: str) -> str:
        """The function under another name, which the compiler changes without regard to its callers."""
        head = re.sub(rf"\b{self.name}(?=\s*\()", self.name + suffix, self.head, count=1)
        head = re.sub(r"^(?:(?:static|inline|__always_inline|__init)\s+)*", "", head)
        return f"static __attribute__((noipa)) {head}{body}\n"


@dataclass(frozen=True)
class CodeChange:
    """A function with one place changed.

    `old` and `new`: the changed lines without indentation; with the lines before them where the function has the same
    line twice. `body`: the changed one. `file` and `number`: of a mutant in a kernel.
    """

    function: str
    operator: str
    line: int
    old: str
    new: str
    body: str
    file: str = ""
    number: int = 0


def functions(source: str) -> dict[str, Function]:
    """The functions of a file by name; of one that #if defines twice, where it does more."""
    data = source.encode()
    root = Parser(Language(tree_sitter_c.language())).parse(data).root_node
    nodes = (node for node in _below(root) if node.type == "function_definition")
    made = [each for node in nodes if (each := _function(data, node))]
    return {each.name: each for each in sorted(made, key=lambda each: len(each.edits))}


def function(source: str, name: str, file: str) -> Function:
    found = functions(source).get(name)
    if found is None:
        raise SchedlineError(f"{file} defines no function {name}", "correct configs/generated-mutants.toml")
    return found


def changes(function: Function, lines: str = "") -> tuple[CodeChange, ...]:
    """Every change that the operators make of a function; `lines`: only of lines that match this pattern."""
    made: dict[str, CodeChange] = {}
    source = function.body.encode()
    first = function.line + function.head.count("\n")
    plain = _tokens(function.body)
    for operator, start, end, text in function.edits:
        body = (source[:start] + text.encode() + source[end:]).decode()
        key = _tokens(body)
        old, new = _lines(source, start, end, text)
        if key == plain or key in made or (lines and not re.search(lines, old)):
            continue
        line = first + source[:start].count(b"\n")
        made[key] = CodeChange(function.name, operator, line, old, new, body)
    return tuple(made.values())


def counted(function: Function, first: int, lines: str = "") -> tuple[str, tuple[int, ...]]:
    """The body with `sched_reached[first]++` and so on before each statement, and the line of each counter."""
    source = function.body.encode()
    rows = function.body.splitlines()
    top = function.line + function.head.count("\n")
    chosen = [row for row in function.statements if not lines or re.search(lines, rows[row[0] - top])]
    inserts = []
    for number, (_, start, end) in enumerate(chosen, first):
        # An end at a place comes before a start at the same place; an outer start before an inner one.
        inserts.append((start, 1, -end, f"{{ sched_reached[{number}]++; "))
        inserts.append((end, 0, -start, " }"))
    for at, _, _, text in sorted(inserts, reverse=True):
        source = source[:at] + text.encode() + source[at:]
    return source.decode(), tuple(line for line, _, _ in chosen)


def _below(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from _below(child)


def _text(node: Node) -> str:
    return (node.text or b"").decode()


def _function(data: bytes, node: Node) -> Function | None:
    body, declarator = node.child_by_field_name("body"), node.child_by_field_name("declarator")
    while declarator and declarator.type != "function_declarator":
        declarator = declarator.child_by_field_name("declarator")
    named = declarator.child_by_field_name("declarator") if declarator else None
    if not body or not declarator or not named or body.type != "compound_statement":
        return None
    parameters = declarator.child_by_field_name("parameters")
    names = tuple(
        _text(next(each for each in _below(row) if each.type == "identifier"))
        for row in (parameters.named_children if parameters else [])
        if row.type == "parameter_declaration" and any(each.type == "identifier" for each in _below(row))
    )
    at = body.start_byte
    statements = tuple(
        (each.start_point[0] + 1, each.start_byte - at, each.end_byte - at)
        for each in _below(body)
        if each.type in _COUNTED and _is_whole(each)
    )
    edits = tuple(
        (operator, start - at, end - at, text)
        for each in _below(body)
        for operator, start, end, text in _edits(each, body)
    )
    head = data[node.start_byte : at].decode()
    line = node.start_point[0] + 1
    return Function(_text(named), line, node.start_byte, node.end_byte, head, _text(body), names, statements, edits)


def _is_whole(node: Node) -> bool:
    """Whether a statement can be replaced: not `for_each_cpu(...)`, which the parser takes for one without `;`."""
    inner = any(child.is_missing or child.type == "ERROR" for child in node.children)
    return not inner and not (node.parent is not None and node.parent.type == "labeled_statement")


def _edits(node: Node, body: Node) -> Iterator[tuple[str, int, int, str]]:
    start, end, kind = node.start_byte, node.end_byte, node.type
    children = node.children
    is_last_return = kind == "return_statement" and node == body.named_children[-1]
    if kind in _DROPPED and _is_whole(node) and not is_last_return:
        is_barrier = re.match(r"(smp_\w*mb|barrier|smp_\w+_atomic)\w*\(", _text(node))
        yield "drop-barrier" if is_barrier else "drop-statement", start, end, ";"
    if kind == "return_statement" and len(children) > 2:
        value = children[1]
        for text in ("0", "-1", f"!({_text(value)})"):
            yield "return-value", value.start_byte, value.end_byte, text
    if condition := node.child_by_field_name("condition"):
        # A test that tells these two apart from the original notices the negated condition, too.
        negated = {
            "if_statement": ("(1)", "(0)"),
            "while_statement": (f"(!{_text(condition)})",),
            "do_statement": (f"(!{_text(condition)})",),
            "conditional_expression": (f"!({_text(condition)})",),
        }
        for text in negated.get(kind, ()):
            yield "negate", condition.start_byte, condition.end_byte, text
    if kind == "binary_expression" and len(children) == 3:
        left, operator, right = children
        sign = _text(operator)
        if sign in ("&&", "||"):
            yield "drop-junct", start, end, _text(left)
            yield "drop-junct", start, end, _text(right)
            yield "other-operator", operator.start_byte, operator.end_byte, "||" if sign == "&&" else "&&"
        if sign in _RELATIONS:
            yield "relation", operator.start_byte, operator.end_byte, _RELATIONS[sign]
    if not children and _text(node) in _OTHERS and node.parent and node.parent.type not in _UNARY:
        yield "other-operator", start, end, _OTHERS[_text(node)]
    if kind == "unary_expression" and _text(children[0]) == "!":
        yield "negate", start, end, _text(children[1])
    if kind == "number_literal":
        for by in ("+", "-"):
            yield "constant", start, end, f"({_text(node)} {by} 1)"
    if kind == "argument_list":
        for one, other in itertools.pairwise(node.named_children):
            between = node.text[one.end_byte - start : other.start_byte - start].decode() if node.text else ", "
            yield "swap-arguments", one.start_byte, other.end_byte, _text(other) + between + _text(one)


def _tokens(text: str) -> str:
    """A text without comments and spaces that do not matter."""
    bare = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"\s*([^\w\s])\s*", r"\1", bare)).strip()


def _lines(source: bytes, start: int, end: int, text: str) -> tuple[str, str]:
    """The lines of a change before and after it, made unique by the lines before them."""
    first, last = source.rfind(b"\n", 0, start) + 1, source.find(b"\n", end)
    last = len(source) if last < 0 else last
    rows = [row.strip() for row in source.decode().splitlines()]
    shown = source[first:last].decode()
    before = source[:first].decode().splitlines()
    context = ""
    while before:
        wanted = [row.strip() for row in (context + shown).split("\n")]
        if sum(rows[at : at + len(wanted)] == wanted for at in range(len(rows))) < 2:
            break
        context = before.pop() + "\n" + context
    new = source[first:start].decode() + text + source[end:last].decode()
    return _flat(context + shown), _flat(context + new)


def _flat(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


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
    is_void = re.match(r"(?:static |inline |__always_inline )*void\s+\w+\s*\(", original.head)
    return f"{original.name}{rest}; return;" if is_void else f"return {original.name}{rest};"


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
