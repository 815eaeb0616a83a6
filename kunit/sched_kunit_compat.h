/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Replacements for what the tests use and older kernels lack. Each is preceded
 * by the commit that introduced the original. sched_kunit_lacks.h says what
 * this kernel lacks. It is made from configs/features.toml of schedline. A
 * kernel that lacks nothing gets neither file.
 */
#ifndef _KERNEL_SCHED_TESTS_SCHED_KUNIT_COMPAT_H
#define _KERNEL_SCHED_TESTS_SCHED_KUNIT_COMPAT_H

#include <kunit/resource.h>
#include <kunit/test.h>
#include <linux/cleanup.h>
#include <linux/cpu.h>

#include "sched_kunit_lacks.h"

/* 54de44274703 ("sched/topology: Rename SD_SHARE_PKG_RESOURCES to SD_SHARE_LLC") */
#ifdef SCHED_KUNIT_LACKS_SD_SHARE_LLC
#define SD_SHARE_LLC	SD_SHARE_PKG_RESOURCES
#endif

/* In 7.2, and not in 6.12: this name. */
#ifndef rcu_dereference_sched_domain
#define rcu_dereference_sched_domain(p)	rcu_dereference_check_sched_domain(p)
#endif

/* 6fb454606153 ("sched: Simplify tg_set_cfs_bandwidth()") */
#ifdef SCHED_KUNIT_LACKS_CPUS_GUARD
DEFINE_LOCK_GUARD_0(cpus_read_lock, cpus_read_lock(), cpus_read_unlock())
#endif

/* In 7.3, and not in 6.1: it can be called without CONFIG_HOTPLUG_CPU. */
#ifdef SCHED_KUNIT_LACKS_REMOVE_CPU
#define remove_cpu(cpu)	((void)(cpu), -EPERM)
#endif

/* b9dce8a1ed3e ("kunit: Add kunit_add_action() to defer a call until test exit") */
#ifdef SCHED_KUNIT_LACKS_ADD_ACTION
/* The action is called again at the end of the test. */
static inline void kunit_release_action(struct kunit *test, void (*fn)(void *ctx), void *ctx)
{
	fn(ctx);
}

#define kunit_add_action			kunit_add_action_or_reset

struct sched_kunit_action {
	void	(*fn)(void *ctx);
	void	*ctx;
};

static inline int sched_kunit_keep_action(struct kunit_resource *res, void *action)
{
	res->data = action;
	return 0;
}

static inline void sched_kunit_run_action(struct kunit_resource *res)
{
	struct sched_kunit_action *action = res->data;

	action->fn(action->ctx);
	kfree(action);
}

static inline int kunit_add_action_or_reset(struct kunit *test, void (*fn)(void *ctx), void *ctx)
{
	struct sched_kunit_action *action = kmalloc(sizeof(*action), GFP_KERNEL);

	if (!action) {
		fn(ctx);
		return -ENOMEM;
	}
	*action = (struct sched_kunit_action){ fn, ctx };
	if (!kunit_alloc_resource(test, sched_kunit_keep_action, sched_kunit_run_action,
				  GFP_KERNEL, action)) {
		sched_kunit_run_action(&(struct kunit_resource){ .data = action });
		return -ENOMEM;
	}
	return 0;
}
#endif

/* 56778b49c9a2 ("kunit: Add a macro to wrap a deferred action function") */
#ifndef KUNIT_DEFINE_ACTION_WRAPPER
#define KUNIT_DEFINE_ACTION_WRAPPER(wrapper, orig, arg_type)			\
	static void wrapper(void *in)						\
	{									\
		orig((arg_type)in);						\
	}
#endif

/* 292010ee5094 ("kunit: add parameter generation macro using description from array") */
#ifdef SCHED_KUNIT_LACKS_PARAM_DESC
/* The description of the current parameter: KUnit prints it after the test. */
static char sched_kunit_no_desc[KUNIT_PARAM_DESC_SIZE];
static char *sched_kunit_desc __maybe_unused = sched_kunit_no_desc;

#define KUNIT_ARRAY_PARAM_DESC(name, array, member)				\
	static void name##_desc(typeof(&(array)[0]) row, char *desc)		\
	{									\
		strscpy(desc, row->member, KUNIT_PARAM_DESC_SIZE);		\
		sched_kunit_desc = desc;					\
	}									\
	KUNIT_ARRAY_PARAM(name, array, name##_desc)

/*
 * b08f75b9bb01 ("kunit: Fix reporting of the skipped parameterized tests"):
 * before it, a skipped parameter is shown as passed. Put the skip in the
 * description.
 */
#ifdef SCHED_KUNIT_LACKS_PARAM_SKIP
#undef kunit_skip
#define kunit_skip(test, fmt, ...)						\
	do {									\
		if ((test)->param_value)					\
			scnprintf(sched_kunit_desc + strlen(sched_kunit_desc),	\
				  KUNIT_PARAM_DESC_SIZE - strlen(sched_kunit_desc), \
				  " # SKIP " fmt, ##__VA_ARGS__);		\
		kunit_mark_skipped(test, fmt, ##__VA_ARGS__);			\
		kunit_try_catch_throw(&(test)->try_catch);			\
	} while (0)
#endif
#endif

#endif /* _KERNEL_SCHED_TESTS_SCHED_KUNIT_COMPAT_H */
