# SPDX-License-Identifier: GPL-2.0
"""The difference between a structure in two kernels, in pieces that each can be applied alone."""

from __future__ import annotations

from schedlib.dev.quiet_pieces import applied, body_of, pieces, undone

OLD = """\
/* struct toy { */
struct toy {
	int a;		/* first { */
#ifdef CONFIG_B
	int b;
#endif
	struct {
		long c;   // }
	} inner;
	char d;
} __aligned(8);
"""


def rows(text: str) -> tuple[str, ...]:
    body = body_of(text, "toy")
    assert body
    return body.rows


def both(new: str) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """What each piece removes and adds; each has to be applied and undone without the others."""
    old = rows(OLD)
    changed = rows(new)
    found = pieces(old, changed)
    for piece in found:
        alone = applied(old, changed, piece)
        assert alone != old and (len(found) > 1) == (alone != changed)
        assert undone(old, changed, piece) != changed
        assert "".join(alone).count("{") == "".join(alone).count("}")
        assert sum(row.startswith("#if") for row in alone) == sum(row.startswith("#endif") for row in alone)
    return [(piece.removed(old), piece.added(changed)) for piece in found]


def test_a_body_has_no_comments_and_no_blanks() -> None:
    body = body_of(OLD.replace("int a;", "int  a;\n"), "toy")
    assert body and body.rows[0] == "int a;" and body.rows[-1] == "char d;" and body.rows[5] == "long c;"
    assert body.declaration(["int x;"]) == "struct toy {\nint x;\n} __aligned(8);"
    assert body_of(OLD, "other") is None
    typedef = body_of("typedef struct toy {\n\tint a;\n} toy_t;\n", "toy")
    assert typedef and typedef.declaration(typedef.rows) == "typedef struct toy {\nint a;\n} toy_t;"


def test_changes_at_two_places_are_two_pieces() -> None:
    assert both(OLD.replace("int a;", "long a;").replace("char d;", "char d;\n\tchar e;")) == [
        (("int a;",), ("long a;",)),
        ((), ("char e;",)),
    ]
    assert both(OLD.replace("first", "second")) == []


def test_a_move_is_one_piece() -> None:
    moved = OLD.replace("\tint a;", "").replace("char d;", "char d;\n\tint a;")
    assert both(moved) == [(("int a;",), ("int a;",))]
    # The same rows that are no member do not make a move.
    guarded = "#ifdef CONFIG_B\n\tint b;\n#endif\n"
    twice = OLD.replace(guarded, "").replace("\tchar d;\n", f"\tchar d;\n{guarded.replace('int b', 'int e')}")
    assert len(both(twice)) == 2


def test_what_does_not_balance_alone_is_joined() -> None:
    guarded = OLD.replace("\tint a;", "#ifdef CONFIG_A\n\tint a;").replace(
        "#ifdef CONFIG_B\n", "#endif\n#ifdef CONFIG_B\n"
    )
    [(removed, added)] = both(guarded)
    assert not removed and added == ("#ifdef CONFIG_A", "#endif")
    wrapped = OLD.replace("\tint a;", "\tunion {\n\tint a;").replace("char d;", "};\n\tchar d;")
    assert [len(each[1]) for each in both(wrapped)] == [2]
