/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Says what the guest's memory is used for when counting ends: the slab that a
 * page belongs to, page tables, stacks. The host names everything else.
 *
 * The plan has a line
 *
 *	memory PAGES DIRECT VMALLOC STRUCT HEAD TYPE SLAB TABLE LARGE CACHE NAME SIZE
 *		OBJECT
 *
 * with the addresses of the variables vmemmap_base, page_offset_base and
 * vmalloc_base in hexadecimal, and in decimal: the size of struct page, the offsets in it of
 * compound_info and page_type, the types of pages of slabs, page tables and
 * large kmallocs, the offset in struct slab of slab_cache, and those in struct
 * kmem_cache of name, size and object_size. It may have lines
 *
 *	array NAME POINTER LAST
 *
 * for an array that is found through a pointer to its pointer, at POINTER; LAST is
 * the address of a 32-bit variable with the number of its last element.
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

/* An instruction that only accesses the stack has accessed this address. */
void memory_is_stack(uint64_t address);

/*
 * For each page with a line that several CPUs have used, write
 *
 *	page ADDRESS slab CACHE FIRST SIZE OBJECT	all of the slab begins at FIRST
 *	page ADDRESS table|large|stack|other
 *
 * and before them a line "areas PAGES DIRECT VMALLOC" with the values of the
 * variables, and for each array a line "array NAME FIRST NUMBER". All is read
 * through the page tables of `cpu`.
 */
void memory_write(struct c2c_model *model, unsigned int cpu, FILE *file);

#endif
