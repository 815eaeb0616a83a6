// SPDX-License-Identifier: GPL-2.0
/* The unit of fair.c with the tests of what is static there. */
#include "wrap_arch.h"
#include "../fair.c"
#include "sched_cluster_kunit.c"
