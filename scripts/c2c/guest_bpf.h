/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a program needs to give the kernel a table of BPF programs (struct_ops)
 * without a library: bpf(2), and the types of the running kernel. For the format
 * of the types see Documentation/bpf/btf.rst of the kernel.
 */
#ifndef C2C_GUEST_BPF_H
#define C2C_GUEST_BPF_H

#include <linux/bpf.h>
#include <linux/btf.h>
#include <sys/syscall.h>

#include "guest.h"

#define KERNEL_TYPES "/sys/kernel/btf/vmlinux"

/* Also in newer headers than those of Debian 12. */
#define KIND_ENUM64 19

static struct {
	const char *start, *end, *names;
} kernel_types;

struct kernel_type {
	__u32 id;
	const struct btf_type *at;
};

static char bpf_log[16384];		/* why the kernel refuses a program */

static inline int bpf(int command, union bpf_attr *attributes, const char *what)
{
	int result = syscall(SYS_bpf, command, attributes, sizeof(*attributes));

	if (result < 0) {
		printf("%s\n", bpf_log);
		fail(what);
	}
	return result;
}

/* A read of this file returns a page at most. */
static inline void read_kernel_types(void)
{
	int file = open(KERNEL_TYPES, O_RDONLY);
	const struct btf_header *head;
	struct stat status;
	ssize_t size, done = 0;
	char *text;

	if (file < 0 || fstat(file, &status))
		fail(KERNEL_TYPES);
	text = malloc(status.st_size);
	if (!text)
		fail("malloc");
	while ((size = read(file, text + done, status.st_size - done)) > 0)
		done += size;
	if (size < 0 || done != status.st_size)
		fail("read " KERNEL_TYPES);
	close(file);
	head = (const struct btf_header *)text;
	kernel_types.start = text + head->hdr_len + head->type_off;
	kernel_types.end = kernel_types.start + head->type_len;
	kernel_types.names = text + head->hdr_len + head->str_off;
}

static inline const char *name_at(__u32 offset)
{
	return kernel_types.names + offset;
}

/* Bytes of a type, with what follows its head. */
static inline size_t size_of_type(const struct btf_type *type)
{
	size_t number = BTF_INFO_VLEN(type->info), more = 0;

	switch (BTF_INFO_KIND(type->info)) {
	case BTF_KIND_INT:
	case BTF_KIND_VAR:
	case BTF_KIND_DECL_TAG:
		more = sizeof(__u32);
		break;
	case BTF_KIND_ARRAY:
		more = sizeof(struct btf_array);
		break;
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
		more = number * sizeof(struct btf_member);
		break;
	case BTF_KIND_ENUM:
		more = number * sizeof(struct btf_enum);
		break;
	case BTF_KIND_FUNC_PROTO:
		more = number * sizeof(struct btf_param);
		break;
	case BTF_KIND_DATASEC:
	case KIND_ENUM64:
		more = number * 3 * sizeof(__u32);
		break;
	}
	return sizeof(*type) + more;
}

static inline struct kernel_type find_type(unsigned int kind, const char *name)
{
	const char *at = kernel_types.start;
	__u32 id = 1;

	for (; at < kernel_types.end; id++) {
		const struct btf_type *type = (const struct btf_type *)at;

		if (BTF_INFO_KIND(type->info) == kind && !strcmp(name_at(type->name_off), name))
			return (struct kernel_type){ id, type };
		at += size_of_type(type);
	}
	errno = ENOENT;
	fail(name);
	return (struct kernel_type){ 0 };
}

/* The number of a member of a structure, and its offset in bytes. */
static inline int find_member(struct kernel_type structure, const char *name, size_t *offset)
{
	const struct btf_member *members = (const struct btf_member *)(structure.at + 1);
	int i, number = BTF_INFO_VLEN(structure.at->info);

	for (i = 0; i < number; i++) {
		if (strcmp(name_at(members[i].name_off), name))
			continue;
		*offset = BTF_MEMBER_BIT_OFFSET(members[i].offset) / 8;
		return i;
	}
	errno = ENOENT;
	fail(name);
	return -1;
}

/*
 * Types of our own: one integer. The kernel wants some for each map whose value
 * is one of its structures, and does not look at them.
 */
static inline int load_own_types(void)
{
	static const struct {
		struct btf_header head;
		struct btf_type type;
		__u32 number;
		char names[5];
	} own = {
		.head = { BTF_MAGIC, BTF_VERSION, 0, sizeof(own.head), 0, 16, 16, 5 },
		.type = { .name_off = 1, .info = BTF_KIND_INT << 24, .size = 4 },
		.number = 32,
		.names = "\0int",
	};
	union bpf_attr attributes = {
		.btf = (__u64)(uintptr_t)&own,
		.btf_size = sizeof(own.head) + 16 + sizeof(own.names),
	};

	return bpf(BPF_BTF_LOAD, &attributes, "types for the map");
}

#endif
