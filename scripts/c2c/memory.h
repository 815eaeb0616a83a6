/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Says what the guest's memory is used for when counting ends: the slab that a
 * page belongs to, page tables, stacks. The host names everything else.
 *
 * The plan has a line
 *
 *	memory PAGES DIRECT VMALLOC STRUCT HEAD TYPE USERS SLAB TABLE LARGE CACHE NAME
 *		SIZE OBJECT
 *
 * PAGES, DIRECT and VMALLOC say where struct page of the first page, the direct map
 * and vmalloc begin: the address of a variable in hexadecimal, or `=` and the place
 * itself. Then follow in decimal: the size of struct page, the offsets in it of
 * compound_info, page_type and _refcount, the types of pages of slabs, page tables
 * and large kmallocs, the offset in struct slab of slab_cache, and those in struct
 * kmem_cache of name, size and object_size. It may have lines
 *
 *	array NAME POINTER LAST
 *
 * for arrays that are found through a pointer to their pointer, at POINTER; LAST is
 * the address of a 32-bit variable with the number of the last element. If LAST is 0,
 * the pointer at POINTER leads to a single object.
 */
#ifndef C2C_MEMORY_H
#define C2C_MEMORY_H

#include "model.h"

/* Read a line of the plan. Returns false if it is another line. */
bool memory_plan(const char *text);

/*
 * Whether an address is of the kernel's memory. The fixed mappings of x86-64 at
 * the top are not: devices such as the local APIC, which no cache holds.
 */
bool memory_is_kernel(uint64_t address);

/* Whether an address is in the area of vmalloc, which may map devices, too. */
bool memory_is_mapped(uint64_t address);

/* Counting begins: keep what each page is used for now. */
void memory_begin(unsigned int cpu);

/* An instruction that only accesses the stack has accessed this address. */
void memory_is_stack(uint64_t address);

/*
 * For each page with a line that several CPUs have used, write
 *
 *	page ADDRESS slab CACHE FIRST SIZE OBJECT	all of the slab begins at FIRST
 *	page ADDRESS table|large|stack|other
 *	again ADDRESS		something else used the page when counting began
 *
 * Before all of them stand a line "areas PAGES DIRECT VMALLOC" with the places, and
 * for each array a line "array NAME FIRST NUMBER". All is read through the page
 * tables of `cpu`.
 */
void memory_write(struct c2c_model *model, unsigned int cpu, FILE *file);

#endif
