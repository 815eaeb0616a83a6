/* SPDX-License-Identifier: GPL-2.0 */
/* Parses the expect parameter: the changes that must be in this kernel. */
#ifndef _KERNEL_SCHED_TESTS_SCHED_KUNIT_EXPECT_H
#define _KERNEL_SCHED_TESTS_SCHED_KUNIT_EXPECT_H

#include <linux/string.h>
#include <linux/types.h>

/* The next change in a comma-separated list, from @p on; NULL at its end. */
static inline const char *next_expected(const char *p, size_t *len)
{
	p += strspn(p, ",");
	*len = strcspn(p, ",");
	return *len ? p : NULL;
}

static inline bool is_expected(const char *list, const char *change)
{
	const char *p = list;
	size_t len;

	for (; (p = next_expected(p, &len)); p += len)
		if (len == strlen(change) && !strncmp(p, change, len))
			return true;
	return false;
}

#endif /* _KERNEL_SCHED_TESTS_SCHED_KUNIT_EXPECT_H */
