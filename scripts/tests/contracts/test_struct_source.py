# SPDX-License-Identifier: GPL-2.0
"""Structures and members are found in C source with the conditions under which the compiler sees them."""

from __future__ import annotations

import pytest

from schedlib.contracts.struct_source import Declared, Source, read_source

TEXT = """\
#ifndef _SCHED_H
#define _SCHED_H
/* struct rq { int in_a_comment; }; */
struct rq;
#ifdef CONFIG_SMP
struct root_domain {
	atomic_t		refcount, rto_count;	// both
	struct rcu_head		rcu;
#if defined(CONFIG_A) && \\
	defined(CONFIG_B)
	int			both;
#elif defined(CONFIG_C)
	int			third;
#else
	int			neither;
#endif
	struct cpupri		cpupri ____cacheline_aligned;
};
#endif /* CONFIG_SMP */

struct rq {
	unsigned int		nr_running;	/* int nr_gone; */
#ifdef CONFIG_PROXY
	struct task_struct __rcu	*donor;
	struct task_struct __rcu	*curr;
#else
	union {
		struct task_struct __rcu *donor;
		struct task_struct __rcu *curr;
	};
#endif
	unsigned long		bits[NR][2];
	unsigned int		flag : 1, other_flag:2;
	int			(*callback)(struct rq *rq, int nr);
	struct {
		int		inner;
	} named;
	struct cpupri_vec	vec[CPUPRI_NR_PRIORITIES];
	const struct sched_class *next_class;
	char			open[];
} ____cacheline_aligned;
#endif
"""
VEC = "struct cpupri_vec {\n\tatomic_t count;\n\tcpumask_var_t mask ____cacheline_aligned_in_smp;\n};\n"
TWICE = "#ifdef A\nstruct rq {\n\tint a, b;\n};\n#else\nstruct rq {\n\tint a;\n};\n#endif\n"
SOURCE = read_source({"kernel/sched/sched.h": TEXT, "kernel/sched/cpupri.h": VEC}.get)


def test_structures() -> None:
    assert {tag: found.guards for tag, found in SOURCE.structs.items()} == {
        "root_domain": ("defined(CONFIG_SMP)",),
        "rq": (),
        "cpupri_vec": (),
    }


def test_members_of_a_structure_in_order() -> None:
    names = "nr_running donor curr bits flag other_flag callback named vec next_class open"
    assert [name for tag, name in SOURCE.members if tag == "rq"] == names.split()


NOT_A_AND_B = "!(defined(CONFIG_A) && defined(CONFIG_B))"


@pytest.mark.parametrize(
    ("tag", "path", "guards"),
    [
        ("rq", "nr_running", ()),
        ("rq", "donor", ()),
        ("rq", "vec[0].mask", ()),
        ("root_domain", "rto_count", ("defined(CONFIG_SMP)",)),
        ("root_domain", "both", ("defined(CONFIG_SMP)", "(defined(CONFIG_A) && defined(CONFIG_B))")),
        ("root_domain", "third", ("defined(CONFIG_SMP)", NOT_A_AND_B, "defined(CONFIG_C)")),
        ("root_domain", "neither", ("defined(CONFIG_SMP)", NOT_A_AND_B, "!defined(CONFIG_C)")),
    ],
)
def test_guards(tag: str, path: str, guards: tuple[str, ...]) -> None:
    found = SOURCE.find(tag, path)
    assert found is not None
    assert tuple(" ".join(guard.split()) for guard in found.guards) == guards


@pytest.mark.parametrize(
    ("tag", "path"), [("rq", "nr_gone"), ("rq", "inner"), ("cfs_rq", "x"), ("rq", "vec[0].nothing")]
)
def test_what_is_not_there(tag: str, path: str) -> None:
    assert SOURCE.find(tag, path) is None


def test_types() -> None:
    assert SOURCE.members["rq", "vec"] == Declared((), "cpupri_vec")
    assert SOURCE.members["rq", "next_class"].type == ""
    assert SOURCE.members["root_domain", "cpupri"].type == "cpupri"
    without = [name for (_, name), found in SOURCE.members.items() if not found.has_offset]
    assert without == ["flag", "other_flag", "open"]


def of_rq(text: str) -> Source:
    return read_source({"kernel/sched/sched.h": text}.get)


@pytest.mark.parametrize(
    ("text", "name", "guards", "has_offset"),
    [
        (
            "struct rq {\n#ifdef A\n\tint a;\n#endif\n#ifdef B\n\tlong a;\n#endif\n};\n",
            "a",
            ("((defined(A)) || (defined(B)))",),
            True,
        ),
        (TWICE, "a", (), True),
        (TWICE, "b", ("defined(A)",), True),
        # A bit field in one configuration has no offset.
        ("struct rq {\n#ifdef A\n\tint a : 1;\n#else\n\tint a;\n#endif\n};\n", "a", (), False),
    ],
)
def test_what_is_declared_twice(text: str, name: str, guards: tuple[str, ...], has_offset: bool) -> None:
    assert of_rq(text).structs["rq"].guards == ()
    assert of_rq(text).find("rq", name) == Declared(guards, has_offset=has_offset)


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("DECLARE_BITMAP(bm, 64);", []),
        ("CACHELINE_PADDING(_pad_);", []),
        ("int a __guarded_by(&lock);", ["a"]),
        ("int *b __counted_by(n);", ["b"]),
        ("int c __private;", ["c"]),
        ("int a; // see foo/*.c\n\tint b; /* and so on */", ["a", "b"]),
        ("atomic_t a,\n\t\tb;", ["a", "b"]),
        ("raw_spinlock_t __lock;", ["__lock"]),
        ("struct task_struct __rcu *donor;", ["donor"]),
    ],
)
def test_what_kernels_write(body: str, names: list[str]) -> None:
    text = f"struct rq {{\n\t{body}\n}};\n"
    assert [name for _, name in of_rq(text).members] == names


def test_a_tree_without_the_files() -> None:
    assert read_source(lambda _: None).structs == {}
