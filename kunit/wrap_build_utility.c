// SPDX-License-Identifier: GPL-2.0
/* The compilation unit of topology.c, with tests of its static functions. */
#include "wrap_arch.h"
#include "../build_utility.c"
#include "sched_kunit_compat.h"
#ifdef SCHED_KUNIT_HAS_CLUSTER_SCAN
#include "sched_topology_kunit.c"
#endif
