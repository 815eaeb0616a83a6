# SPDX-License-Identifier: GPL-2.0
"""Operators that change a C function in one place each, on the syntax tree that tree-sitter makes of it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import tree_sitter_c
from tree_sitter import Language, Node, Parser

from schedlib.errors import SchedlineError

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

    @property
    def returns(self) -> bool:
        return not re.match(r"(?:static |inline |__always_inline )*void\s+\w+\s*\(", self.head)

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
    data = source.encode()
    root = Parser(Language(tree_sitter_c.language())).parse(data).root_node
    found = {}
    for node in _below(root):
        if node.type == "function_definition" and (made := _function(data, node)):
            found[made.name] = made
    return found


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
    if kind in _DROPPED and _is_whole(node) and (kind != "return_statement" or not _ends(node, body)):
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
        arguments = node.named_children
        for one, other in itertools.pairwise(arguments):
            between = node.text[one.end_byte - start : other.start_byte - start].decode() if node.text else ", "
            yield "swap-arguments", one.start_byte, other.end_byte, _text(other) + between + _text(one)


def _ends(node: Node, body: Node) -> bool:
    return bool(node.parent == body and node.end_byte == body.named_children[-1].end_byte)


def _tokens(text: str) -> str:
    """A text without comments and spaces that do not matter."""
    bare = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"\s*([^\w\s])\s*", r"\1", bare)).strip()


def _lines(source: bytes, start: int, end: int, text: str) -> tuple[str, str]:
    """The lines of a change before and after it, made unique by the lines before them."""
    first, last = source.rfind(b"\n", 0, start) + 1, source.find(b"\n", end)
    last = len(source) if last < 0 else last
    rows: Sequence[str] = [row.strip() for row in source.decode().splitlines()]
    shown = source[first:last].decode()
    before = source[:first].decode().splitlines()
    context = ""
    while before and sum(_at(rows, (context + shown).split("\n"))) > 1:
        context = before.pop() + "\n" + context
    new = source[first:start].decode() + text + source[end:last].decode()
    return _flat(context + shown), _flat(context + new)


def _at(rows: Sequence[str], wanted: Sequence[str]) -> Iterator[bool]:
    bare = [row.strip() for row in wanted]
    return (list(rows[at : at + len(bare)]) == bare for at in range(len(rows)))


def _flat(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
