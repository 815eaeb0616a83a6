// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of five kinds, which two CPUs use in turns: a variable, a per-CPU
 * variable, an object of a slab, one on a stack, and one of kmalloc(). Every access
 * is known; see guest_known_memory.c of schedline.
 *
 * A write of "0" or "1" to /proc/known-memory enters a CPU, which stays. A write
 * of "2" lets both make their rounds, and returns when they have.
 */
#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/err.h>
#include <linux/init.h>
#include <linux/kstrtox.h>
#include <linux/percpu.h>
#include <linux/printk.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/slab.h>

#define ROUNDS 30

struct known_memory {
	unsigned long left, right;
	atomic_long_t atomic ____cacheline_aligned;
	unsigned long settings ____cacheline_aligned;
	unsigned long written;
} ____cacheline_aligned;

static struct known_memory known_global;
static DEFINE_PER_CPU_ALIGNED(struct known_memory, known_per_cpu);
static struct known_memory *places[5] ____cacheline_aligned;
static unsigned int turn ____cacheline_aligned;
static bool go;

static void let_others_run(void)
{
	cond_resched();
	cpu_relax();
}

static void take_turn(unsigned int side, unsigned long round)
{
	unsigned int i;

	/* Pairs with the release below, by the other CPU. */
	while (smp_load_acquire(&turn) != 2 * round + side)
		let_others_run();
	for (i = 0; i < ARRAY_SIZE(places); i++) {
		struct known_memory *known = places[i];

		WRITE_ONCE(*(side ? &known->right : &known->left), round);
		atomic_long_inc(&known->atomic);
		if (side)
			WRITE_ONCE(known->written, round);
		else
			(void)READ_ONCE(known->settings);
	}
	/* Pairs with the acquires of `turn`. */
	smp_store_release(&turn, 2 * round + side + 1);
}

static void enter(unsigned int side)
{
	char stack[sizeof(struct known_memory) + SMP_CACHE_BYTES];
	unsigned long round;

	if (!side) {
		places[3] = (struct known_memory *)PTR_ALIGN(&stack[0], SMP_CACHE_BYTES);
		pr_err("known-memory: %px %px %px %px %px\n", places[0], places[1], places[2],
		       places[3], places[4]);
	}
	/* Pairs with the release in known_write(). */
	while (!smp_load_acquire(&go))
		let_others_run();
	for (round = 0; round < ROUNDS; round++)
		take_turn(side, round);
	/* Nobody else may use this stack before the guest ends. */
	for (;;)
		let_others_run();
}

static ssize_t known_write(struct file *file, const char __user *from, size_t size, loff_t *at)
{
	unsigned int what;
	int error = kstrtouint_from_user(from, size, 10, &what);

	if (error)
		return error;
	if (what < 2)
		enter(what);
	/* Pairs with the acquire in enter(). */
	smp_store_release(&go, true);
	/* Pairs with the release in take_turn(). */
	while (smp_load_acquire(&turn) != 2 * ROUNDS)
		let_others_run();
	return size;
}

static const struct proc_ops known_ops = {
	.proc_write = known_write,
};

static int __init known_init(void)
{
	struct kmem_cache *cache = KMEM_CACHE(known_memory, SLAB_NO_MERGE | SLAB_PANIC);

	places[0] = &known_global;
	places[1] = per_cpu_ptr(&known_per_cpu, 0);
	places[2] = kmem_cache_zalloc(cache, GFP_KERNEL);
	places[4] = kzalloc(sizeof(*places[4]), GFP_KERNEL);
	if (!places[2] || !places[4] || !proc_create("known-memory", 0200, NULL, &known_ops))
		return -ENOMEM;
	return 0;
}
late_initcall(known_init);
