// SPDX-License-Identifier: GPL-2.0
/*
 * A guest's memory, for scripts/c2c/memory.c: what pages are used for when counting begins and ends. A page
 * descriptor has 64 bytes: compound_info or slab_cache at 8, page_type at 48, _refcount at 52.
 */
#include <stdlib.h>
#include <string.h>
#include "internals.h"
#include "memory.h"

#define PAGES 0xffffea0000000000ull
#define DIRECT 0xffff888000000000ull
#define KEPT 0xffffffff81000000ull
#define TABLE 0xf2
#define SLAB 0xf5

static char pages[4096], kept[4096], plain[4096];
static uint64_t base = DIRECT;

bool internals_read(unsigned int cpu, uint64_t address, void *to, size_t size)
{
	struct { uint64_t at; char *bytes; } all[] = { { PAGES, pages }, { KEPT, kept }, { DIRECT, plain } };
	size_t i;

	(void)cpu;
	for (i = 0; i < 3; i++)
		if (address >= all[i].at && address + size <= all[i].at + 4096)
			return memcpy(to, all[i].bytes + (address - all[i].at), size);
	return false;
}

void *c2c_allocate(size_t number, size_t size) { return calloc(number, size); }
void *c2c_grow(void *old, size_t number, size_t size) { return realloc(old, number * size); }

void c2c_each_shared(struct c2c_model *model, void (*call)(uint64_t address))
{
	static const unsigned int lines[] = { 0x80, 0xc0, 0x1000, 0x2000, 0x3000, 0x4000, 0x5000, 0x6040, 0 };
	unsigned int i;

	(void)model;
	for (i = 0; lines[i]; i++)
		call(DIRECT + lines[i]);
	call(KEPT);
}

static void put(char *place, uint64_t value, size_t size) { memcpy(place, &value, size); }

static void page(unsigned int number, unsigned int type, uint64_t info, unsigned int users)
{
	put(pages + 64 * number + 8, info, 8);
	put(pages + 64 * number + 48, type ? type << 24 : ~0u, 4);
	put(pages + 64 * number + 52, users, 4);
}

static uint64_t cache(unsigned int at, const char *name, unsigned int size)
{
	put(kept + at + 80, KEPT + at + 96, 8);
	put(kept + at + 32, size, 4);
	put(kept + at + 36, size, 4);
	strcpy(kept + at + 96, name);
	return KEPT + at;
}

int main(int argc, char **argv)
{
	uint64_t one = cache(0, "kmalloc-64", 64), other = cache(256, "things", 128);

	/* What follows is at the variables that the plan names. */
	put(kept + 3000, PAGES, 8);
	put(kept + 3008, base, 8);
	if (argc != 2 || !memory_plan(argv[1]))
		return 1;
	page(0, SLAB, one, 1);
	page(1, 0, 0, 1);		/* used for something, then a page table */
	page(2, 0, 0, 0);		/* free, then a page table */
	page(3, SLAB, one, 1);		/* a slab, then another one's */
	page(4, 0, 0, 1);
	page(5, SLAB, other, 1);	/* a slab of two pages, all the time */
	page(6, 0, (PAGES + 5 * 64) | 1, 0);
	memory_begin(0);
	page(1, TABLE, 0, 1);
	page(2, TABLE, 0, 1);
	page(3, SLAB, other, 1);
	memory_is_stack(DIRECT + 0x4008);
	memory_write(NULL, 0, stdout);
	return 0;
}
