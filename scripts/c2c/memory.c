// SPDX-License-Identifier: GPL-2.0
/* See memory.h. */
#include <inttypes.h>
#include <string.h>

#include "die.h"
#include "internals.h"
#include "memory.h"

#define PAGE_SHIFT 12
#define PAGE_SIZE (1ull << PAGE_SHIFT)
#define TYPE_SHIFT 24
#define FIXED_MAPPINGS 0xffffffffff000000ull
#define LONGEST 64		/* name of a cache or an array */
#define MOST_ARRAYS 8

static struct {
	uint64_t pages, direct, vmalloc;	/* addresses of variables, then values */
	unsigned int structure, head, type;	/* of struct page */
	unsigned int slab, table, large;	/* types of pages */
	unsigned int cache, name, size, object;
} plan;

static struct {
	char name[LONGEST + 1];
	uint64_t pointer, last;
} arrays[MOST_ARRAYS];
static unsigned int number_of_arrays;

/* Bits of pages that are stacks; a page that shares its bit is mistaken for one. */
#define STACK_BITS (1u << 24)
static uint64_t *stacks;

static uint64_t last_page;
static unsigned int reader;
static FILE *out;

bool memory_plan(const char *text)
{
	if (number_of_arrays < MOST_ARRAYS &&
	    sscanf(text, "array %64s %" SCNx64 " %" SCNx64, arrays[number_of_arrays].name,
		   &arrays[number_of_arrays].pointer, &arrays[number_of_arrays].last) == 3) {
		number_of_arrays++;
		return true;
	}
	if (sscanf(text, "memory %" SCNx64 " %" SCNx64 " %" SCNx64 " %u %u %u %u %u %u %u %u %u %u",
		   &plan.pages, &plan.direct, &plan.vmalloc, &plan.structure, &plan.head,
		   &plan.type, &plan.slab, &plan.table, &plan.large, &plan.cache, &plan.name,
		   &plan.size, &plan.object) != 13)
		return false;
	stacks = c2c_allocate(STACK_BITS / 64, sizeof(*stacks));
	return true;
}

bool memory_is_kernel(uint64_t address)
{
	return address >> 63 && address < FIXED_MAPPINGS;
}

void memory_is_stack(uint64_t address)
{
	uint32_t bit = (address >> PAGE_SHIFT) & (STACK_BITS - 1);

	if (stacks)
		stacks[bit / 64] |= 1ull << (bit % 64);
}

static bool is_stack(uint64_t address)
{
	uint32_t bit = (address >> PAGE_SHIFT) & (STACK_BITS - 1);

	return stacks[bit / 64] >> (bit % 64) & 1;
}

static uint64_t word_at(uint64_t address, size_t size)
{
	uint64_t value = 0;

	if (!internals_read(reader, address, &value, size))
		die("the guest maps nothing where a field of a page should be", "");
	return value;
}

/* The page that says what all pages of its kind and size are. */
static uint64_t head_of(uint64_t page)
{
	uint64_t info = word_at(page + plan.head, sizeof(info));

	if (!(info & 1))
		return page;
	/* A pointer, or a mask for the address of the page. */
	return info >= plan.pages && info - plan.pages < 1ull << 44 ? info - 1 : page & info;
}

static void write_slab(uint64_t head, uint64_t address)
{
	uint64_t cache = word_at(head + plan.cache, sizeof(cache));
	uint64_t first = plan.direct + (head - plan.pages) / plan.structure * PAGE_SIZE;
	char name[LONGEST + 1] = "";
	size_t i;

	internals_read(reader, word_at(cache + plan.name, sizeof(cache)), name, LONGEST);
	for (i = 0; name[i]; i++)
		if (name[i] <= ' ' || name[i] > '~')
			name[i] = '_';
	fprintf(out, "page %" PRIx64 " slab %s %" PRIx64 " %u %u\n", address, i ? name : "?", first,
		(unsigned int)word_at(cache + plan.size, 4),
		(unsigned int)word_at(cache + plan.object, 4));
}

static void write_page(uint64_t address)
{
	uint64_t head = plan.pages + (address - plan.direct) / PAGE_SIZE * plan.structure;
	unsigned int type;

	head = head_of(head);
	type = word_at(head + plan.type, 4) >> TYPE_SHIFT;
	if (type == plan.slab)
		write_slab(head, address);
	else
		fprintf(out, "page %" PRIx64 " %s\n", address,
			type == plan.table ? "table" :
			type == plan.large ? "large" :
			is_stack(address)  ? "stack" :
					     "other");
}

/* The lines come sorted by address. */
static void write_line(uint64_t address)
{
	uint64_t page = address & ~(PAGE_SIZE - 1);

	if (page == last_page)
		return;
	last_page = page;
	if (page >= plan.direct && page < plan.pages && page - plan.direct < 1ull << 45)
		write_page(page);
	else if (is_stack(page))
		fprintf(out, "page %" PRIx64 " stack\n", page);
}

static void write_arrays(void)
{
	unsigned int i;

	for (i = 0; i < number_of_arrays; i++) {
		uint64_t first = word_at(word_at(arrays[i].pointer, sizeof(first)), sizeof(first));

		fprintf(out, "array %s %" PRIx64 " %" PRIu64 "\n", arrays[i].name, first,
			word_at(arrays[i].last, 4) + 1);
	}
}

void memory_write(struct c2c_model *model, unsigned int cpu, FILE *file)
{
	if (!plan.structure)
		return;
	out = file;
	reader = cpu;
	plan.pages = word_at(plan.pages, sizeof(plan.pages));
	plan.direct = word_at(plan.direct, sizeof(plan.direct));
	plan.vmalloc = word_at(plan.vmalloc, sizeof(plan.vmalloc));
	fprintf(out, "areas %" PRIx64 " %" PRIx64 " %" PRIx64 "\n", plan.pages, plan.direct,
		plan.vmalloc);
	write_arrays();
	c2c_each_shared(model, write_line);
}
