// SPDX-License-Identifier: GPL-2.0
/* The unit of fair.c with the tests of what is static there. */
#include "wrap_arch.h"
#include "../fair.c"
#include "sched_kunit_compat.h"
#ifdef SCHED_KUNIT_HAS_CLUSTER_SCAN
#include "sched_cluster_kunit.c"
#else
#include "sched_cluster_absent.c"
#endif
