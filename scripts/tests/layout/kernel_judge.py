# SPDX-License-Identifier: GPL-2.0
"""kunit/sched_layout_kunit.c as a program for user space, which judges toy structures by the BTF that pahole makes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import toys

from conftest import write_files
from schedlib.contracts.c_tables import TABLE
from schedlib.contracts.contract_rules import Rules
from schedlib.paths import KUNIT

_KUNIT_H = """\
#pragma once
#include <toy.h>
typedef __SIZE_TYPE__ size_t;
#define U32_MAX 0xffffffffU
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define DIV_ROUND_UP(n, d) (((n) + (d) - 1) / (d))
#define IS_ALIGNED(x, a) ((x) % (a) == 0)
#define strcmp __builtin_strcmp
#define strncmp __builtin_strncmp
#define strlen __builtin_strlen
#define strchr __builtin_strchr
#define strspn __builtin_strspn
#define strcspn __builtin_strcspn
#define memset __builtin_memset
#define scnprintf __builtin_snprintf
#define strscpy(to, from, size) __builtin_snprintf(to, size, "%s", from)
#define printf __builtin_printf
#define GFP_KERNEL 0

struct kunit { const void *param_value; };
struct kunit_case { void (*run)(struct kunit *test); };
struct kunit_suite { const char *name; struct kunit_case *test_cases; };

static void *resume[5];
static char skipped[600], failed[600];

#define kunit_kzalloc(test, size, flags) __builtin_calloc(1, size)
#define kunit_err(test, ...) ((void)(test))
#define kunit_info(test, ...) ((void)(test))
#define kunit_skip(test, ...) (scnprintf(skipped, sizeof(skipped), __VA_ARGS__), __builtin_longjmp(resume, 1))
#define KUNIT_FAIL(test, ...) ((void)(*failed || scnprintf(failed, sizeof(failed), __VA_ARGS__)))
#define KUNIT_ASSERT_NOT_NULL(test, pointer) ((void)(pointer))
#define KUNIT_EXPECT_TRUE_MSG(test, condition, ...) ((void)(condition))
#define KUNIT_ARRAY_PARAM_DESC(name, array, member) struct kunit
#define KUNIT_CASE(name) { name }
#define KUNIT_CASE_PARAM(name, generator) { name }
#define kunit_test_suite(suite) struct kunit
#define module_param(name, type, mode) struct kunit
#define MODULE_PARM_DESC(name, text) struct kunit
#define MODULE_DESCRIPTION(text) struct kunit
#define MODULE_LICENSE(text) struct kunit

#define guard(name) guard_##name
static inline void guard_cpus_read_lock(void) {}
#define for_each_possible_cpu(cpu) for ((cpu) = 0; (cpu) < 1; (cpu)++)
#define for_each_online_cpu(cpu) for_each_possible_cpu(cpu)
"""

_BTF_H = """\
#pragma once
#include <kunit/test.h>

/* As include/uapi/linux/btf.h has them. */
struct btf_header { u16 magic; u8 version, flags; u32 hdr_len, type_off, type_len, str_off, str_len; };
struct btf_type { u32 name_off, info; union { u32 size, type; }; };
struct btf_member { u32 name_off, type, offset; };
struct btf_array { u32 type, index_type, nelems; };
struct btf { int there; };
enum { INT = 1, PTR, ARRAY, STRUCT, UNION, ENUM, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT,
       FUNC, FUNC_PROTO, VAR, DATASEC, FLOAT, DECL_TAG, TYPE_TAG, ENUM64 };

__asm__(".section .rodata\\n.balign 8\\nbtf_start:\\n.incbin \\"" BTF_FILE "\\"\\n.previous");
extern const char btf_start[];
#define HEAD ((const struct btf_header *)btf_start)

static inline u32 kind_of(const struct btf_type *t) { return t->info >> 24 & 0x1f; }
static inline u32 vlen_of(const struct btf_type *t) { return t->info & 0xffff; }

static inline const struct btf_type *after(const struct btf_type *t)
{
	static const u8 fixed[] = { [INT] = 4, [ARRAY] = 12, [VAR] = 4, [DECL_TAG] = 4, [ENUM64] = 0 };
	static const u8 each[] = { [STRUCT] = 12, [UNION] = 12, [ENUM] = 8, [FUNC_PROTO] = 8, [DATASEC] = 12,
				[ENUM64] = 12 };

	return (const void *)(t + 1) + fixed[kind_of(t)] + vlen_of(t) * each[kind_of(t)];
}

static inline const struct btf_type *btf_type_by_id(const struct btf *btf, u32 id)
{
	const struct btf_type *t = (const void *)btf_start + HEAD->hdr_len + HEAD->type_off;

	while (--id)
		t = after(t);
	return t;
}

static inline u32 btf_nr_types(const struct btf *btf)
{
	const struct btf_type *t = btf_type_by_id(btf, 1);
	u32 nr = 1;

	for (; (const char *)t < btf_start + HEAD->hdr_len + HEAD->type_off + HEAD->type_len; t = after(t))
		nr++;
	return nr;
}

static inline const char *btf_name_by_offset(const struct btf *btf, u32 offset)
{
	return btf_start + HEAD->hdr_len + HEAD->str_off + offset;
}

static inline bool __btf_type_is_struct(const struct btf_type *t) { return kind_of(t) == STRUCT; }
static inline bool btf_type_is_struct(const struct btf_type *t) { return kind_of(t) == STRUCT || kind_of(t) == UNION; }
static inline u32 __btf_member_bitfield_size(const struct btf_type *t, const struct btf_member *m)
{
	return t->info >> 31 ? m->offset >> 24 : 0;
}
static inline u32 __btf_member_bit_offset(const struct btf_type *t, const struct btf_member *m)
{
	return t->info >> 31 ? m->offset & 0xffffff : m->offset;
}

static inline const struct btf_type *btf_type_skip_modifiers(const struct btf *btf, u32 id, u32 *res_id)
{
	const struct btf_type *t = btf_type_by_id(btf, id);

	while ((kind_of(t) >= TYPEDEF && kind_of(t) <= RESTRICT) || kind_of(t) == TYPE_TAG)
		t = btf_type_by_id(btf, t->type);
	return t;
}

static inline const struct btf_type *btf_resolve_size(const struct btf *btf, const struct btf_type *t, u32 *size)
{
	u32 times = 1;

	for (;;) {
		if (kind_of(t) == ARRAY) {
			times *= ((const struct btf_array *)(t + 1))->nelems;
			t = btf_type_by_id(btf, ((const struct btf_array *)(t + 1))->type);
		} else if ((kind_of(t) >= TYPEDEF && kind_of(t) <= RESTRICT) || kind_of(t) == TYPE_TAG) {
			t = btf_type_by_id(btf, t->type);
		} else {
			*size = times * (kind_of(t) == PTR ? sizeof(void *) : t->size);
			return t;
		}
	}
}

#define for_each_member(i, t, m) \\
	for ((i) = 0, (m) = (const struct btf_member *)((t) + 1); (i) < vlen_of(t); (i)++, (m)++)
#define IS_ERR_OR_NULL(pointer) (!(pointer))
static struct btf the_btf;
#ifdef NO_BTF
#define bpf_get_btf_vmlinux() ((void)the_btf, (struct btf *)NULL)
#else
#define bpf_get_btf_vmlinux() (&the_btf)
#endif
"""

_MAIN_C = """\
#include <kunit/test.h>
#include "../sched.h"
static struct rq the_rq;
#define cpu_rq(cpu) (&the_rq)
#ifdef CONFIG_SMP
static struct root_domain def_root_domain;
#endif
#include "sched_layout_kunit.c"

static void judge_all(const char *change, const struct layout_rule *rules, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		struct kunit test = { rules + i };

		failed[0] = skipped[0] = 0;
		if (!__builtin_setjmp(resume))
			check_rule(&test, change);
		printf("%s\\t%s\\t%s\\n", rules[i].id, *failed ? "fail" : *skipped ? "n/a" : "pass",
			*failed ? failed : skipped);
	}
}

#define JUDGE(change, rules) judge_all(change, rules, ARRAY_SIZE(rules))

int main(int argc, char **argv)
{
#ifndef SCHED_KUNIT_EXPORTED
	expect = argc > 1 ? argv[1] : "";
#endif
	JUDGE("rq-order", rq_order_rules);
#ifndef ONE_CHANGE
	JUDGE("rd-lines", rd_lines_rules);
	JUDGE("cpupri-lines", cpupri_lines_rules);
	JUDGE("cpupri-split", cpupri_split_rules);
	JUDGE("rq-readers", rq_readers_rules);
#endif
	return 0;
}
"""

ONE_CHANGE = (
    "ONE_CHANGE",
    "SCHED_KUNIT_EXPORTED",
    *(f"SCHED_KUNIT_NO_{name}" for name in ("RD_LINES", "CPUPRI_LINES", "CPUPRI_SPLIT", "RQ_READERS")),
)
"""Names for a table that has rules of rq-order alone, in the exported form."""


def program(
    directory: Path, rules: Rules, table: str, *names: str, line: int = 64, sched_h: str = toys.SCHED_H
) -> Path:
    """The kernel's test for one toy kernel, and types.o beside it.

    Args:
        table: what is made from the rules.
        names: of options and defects; see toys.defines(). NO_BTF: the kernel was built with BTF, and has none.
    """
    toys.needs("pahole")
    stubs = {f"include/linux/{name}.h": "" for name in ("bpf", "cleanup", "cpu", "moduleparam", "string")}
    stubs |= {"include/kunit/test.h": _KUNIT_H, "include/linux/btf.h": _BTF_H}
    code = {f"tests/{name}": (KUNIT / name).read_text() for name in ("sched_layout_kunit.c", "sched_kunit_expect.h")}
    code |= {f"tests/{TABLE}": table, "tests/types.c": toys.types_unit(rules)}
    toy = {"sched.h": sched_h, "cpudeadline.h": "", "tests/main.c": _MAIN_C}
    write_files(directory, stubs | code | toy)
    if not any(name.endswith("CONFIG_DEBUG_INFO_BTF") for name in names):
        names = (*names, "CONFIG_DEBUG_INFO_BTF")
    flags = [f"-I{directory / 'include'}", "-w", "-g", *toys.defines(*names, line=line)]
    types, btf = directory / "types.o", directory / "types.btf"
    done = toys.gcc(directory / "tests/types.c", types, *flags)
    assert done.returncode == 0, done.stderr.decode()
    subprocess.run(["pahole", f"--btf_encode_detached={btf}", str(types)], check=True, capture_output=True)
    done = toys.gcc(directory / "tests/main.c", directory / "main.o", f'-DBTF_FILE="{btf}"', *flags)
    assert done.returncode == 0, done.stderr.decode()
    linked = ["gcc", "-no-pie", "-o", str(directory / "judge"), str(directory / "main.o")]
    subprocess.run(linked, check=True, capture_output=True)
    return directory / "judge"


def judged(judge: Path, expected: tuple[str, ...] = ()) -> dict[str, tuple[str, str]]:
    """Outcome of each rule, and the text of its first failure or its skip."""
    argv = [str(judge), ",".join(expected)]
    rows = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=300).stdout.splitlines()
    return {rule: (outcome, text) for rule, outcome, text in (row.split("\t") for row in rows)}
