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
