# SPDX-License-Identifier: GPL-2.0
"""Which members a function touches, read from C: by any pointer, inside of members, and through what it calls."""

from __future__ import annotations

import pytest

from schedlib.layout.reads import code_of, functions_of, touched, without_comments

HEADER = """\
struct cfs_rq {
	struct rq *rq;
};

static inline int cpu_of(struct rq *rq)
{
	return rq->cpu;
}
"""

FAIR = """\
/* rq->in_a_comment */
static unsigned long cpu_load(struct rq *rq)
{
	return deeper(rq);
}

static unsigned long deeper(struct rq *some)
{
	return some->cfs.avg.load_avg + deepest(some);
}

static unsigned long deepest(struct rq *rq)
{
	return rq->very_deep + too_deep(rq);
}

static unsigned long too_deep(struct rq *rq)
{
	return rq->not_followed;
}

static inline void look(struct lb_env *env, struct task_struct *p, struct rq *first,
			struct rq *second, struct sg *sgs)
{
	int i;

	for_each_cpu(i, env->cpus) {
		struct rq *rq = cpu_rq(i), *busiest;

		%s
	}
}
"""


def found(body: str, depth: int = 2) -> dict[str, str]:
    code = code_of({"kernel/sched/fair.c": FAIR % body, "kernel/sched/sched.h": HEADER})
    paths = touched(code, "look", "rq", depth)
    assert paths is not None
    return paths


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ("sgs->n += rq->nr_running;", {"nr_running"}),
        ("sgs->n += rq -> nr_running;", {"nr_running"}),
        ("busiest->push = 1;", {"push"}),
        ("first->push = second->pull;", {"push", "pull"}),
        ("x = cpu_rq(env->dst_cpu)->nr_switches;", {"nr_switches"}),
        ("x = cpu_rq(f(g(i)))->nr_switches;", {"nr_switches"}),
        ("x = p->cfs_rq->rq->clock;", {"clock"}),
        ("x = rq->cfs.avg.load_avg;", {"cfs.avg.load_avg"}),
        ("x = rq->queue[i].head.next;", {"queue[0].head.next"}),
        ("x = rq->plain[i];", {"plain"}),
        ("atomic_read(&rq->nr_iowait);", {"nr_iowait"}),
        ("x = cpu_of(rq);", {"cpu"}),
        ("p->on_rq = sgs->nr_running;", set()),
        ("env->rq_of->nr_running = 1;", set()),
        ("x = cpu_group(i)->weight;", set()),
        ('/* rq->a */ printk("rq->b"); // rq->c', set()),
    ],
)
def test_what_is_touched(body: str, paths: set[str]) -> None:
    assert set(found(body)) == paths


def test_calls_are_followed_and_named() -> None:
    assert found("cpu_load(rq);") == {"cfs.avg.load_avg": "cpu_load"}
    assert found("deeper(rq);") == {"cfs.avg.load_avg": "deeper", "very_deep": "deeper"}
    assert found("rq->own = deeper(rq);", depth=0) == {"own": ""}


def test_a_function_that_returns_something_else_is_no_pointer_to_it() -> None:
    """container_of() and the like return whatever they are asked for."""
    body = "struct task_struct *t = cpu_rq(i); x = cpu_rq(i)->weight;"
    assert found(body) == {}


def test_a_function_that_is_not_there() -> None:
    code = code_of({"kernel/sched/fair.c": FAIR % ""})
    assert touched(code, "lok", "rq") is None
    assert touched(code, "look", "rq") == {}


def test_functions_and_comments() -> None:
    text = "int a;\nstatic int one(void)\n{\n\tif (x) {\n\t}\n}\n\nstruct s {\n\tint x;\n};\n"
    text += "void\ntwo(int (*f)(int))\n{\n}\n"
    assert set(functions_of(text)) == {"one", "two"}
    assert without_comments('a /* b\nc */ d "e\\"f" // g\nh') == 'a \n d "" \nh'
