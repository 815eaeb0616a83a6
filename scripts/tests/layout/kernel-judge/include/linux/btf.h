#pragma once
#include <kunit/test.h>

/* As include/uapi/linux/btf.h has them. */
struct btf_header { u16 magic; u8 version, flags; u32 hdr_len, type_off, type_len, str_off, str_len; };
struct btf_type { u32 name_off, info; union { u32 size, type; }; };
struct btf_member { u32 name_off, type, offset; };
struct btf_array { u32 type, index_type, nelems; };
struct btf { int there; };
enum { INT = 1, PTR, ARRAY, STRUCT, UNION, ENUM, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT,
       FUNC, FUNC_PROTO, VAR, DATASEC, FLOAT, DECL_TAG, TYPE_TAG, ENUM64 };

__asm__(".section .rodata\n.balign 8\nbtf_start:\n.incbin \"" BTF_FILE "\"\n.previous");
extern const char btf_start[];
#define HEAD ((const struct btf_header *)btf_start)

static inline u32 kind_of(const struct btf_type *t) { return t->info >> 24 & 0x1f; }
static inline u32 vlen_of(const struct btf_type *t) { return t->info & 0xffff; }

static inline const struct btf_type *after(const struct btf_type *t)
{
	static const u8 fixed[] = { [INT] = 4, [ARRAY] = 12, [VAR] = 4, [DECL_TAG] = 4, [ENUM64] = 0 };
	static const u8 each[] = { [STRUCT] = 12, [UNION] = 12, [ENUM] = 8, [FUNC_PROTO] = 8, [DATASEC] = 12,
				[ENUM64] = 12 };

	return (const void *)(t + 1) + fixed[kind_of(t)] + vlen_of(t) * each[kind_of(t)];
}

static inline const struct btf_type *btf_type_by_id(const struct btf *btf, u32 id)
{
	const struct btf_type *t = (const void *)btf_start + HEAD->hdr_len + HEAD->type_off;

	while (--id)
		t = after(t);
	return t;
}

static inline u32 btf_nr_types(const struct btf *btf)
{
	const struct btf_type *t = btf_type_by_id(btf, 1);
	u32 nr = 1;

	for (; (const char *)t < btf_start + HEAD->hdr_len + HEAD->type_off + HEAD->type_len; t = after(t))
		nr++;
	return nr;
}

static inline const char *btf_name_by_offset(const struct btf *btf, u32 offset)
{
	return btf_start + HEAD->hdr_len + HEAD->str_off + offset;
}

static inline bool __btf_type_is_struct(const struct btf_type *t) { return kind_of(t) == STRUCT; }
static inline bool btf_type_is_struct(const struct btf_type *t) { return kind_of(t) == STRUCT || kind_of(t) == UNION; }
static inline u32 __btf_member_bitfield_size(const struct btf_type *t, const struct btf_member *m)
{
	return t->info >> 31 ? m->offset >> 24 : 0;
}
static inline u32 __btf_member_bit_offset(const struct btf_type *t, const struct btf_member *m)
{
	return t->info >> 31 ? m->offset & 0xffffff : m->offset;
}

static inline const struct btf_type *btf_type_skip_modifiers(const struct btf *btf, u32 id, u32 *res_id)
{
	const struct btf_type *t = btf_type_by_id(btf, id);

	while ((kind_of(t) >= TYPEDEF && kind_of(t) <= RESTRICT) || kind_of(t) == TYPE_TAG)
		t = btf_type_by_id(btf, t->type);
	return t;
}

static inline const struct btf_type *btf_resolve_size(const struct btf *btf, const struct btf_type *t, u32 *size)
{
	u32 times = 1;

	for (;;) {
		if (kind_of(t) == ARRAY) {
			times *= ((const struct btf_array *)(t + 1))->nelems;
			t = btf_type_by_id(btf, ((const struct btf_array *)(t + 1))->type);
		} else if ((kind_of(t) >= TYPEDEF && kind_of(t) <= RESTRICT) || kind_of(t) == TYPE_TAG) {
			t = btf_type_by_id(btf, t->type);
		} else {
			*size = times * (kind_of(t) == PTR ? sizeof(void *) : t->size);
			return t;
		}
	}
}

#define for_each_member(i, t, m) \
	for ((i) = 0, (m) = (const struct btf_member *)((t) + 1); (i) < vlen_of(t); (i)++, (m)++)
#define IS_ERR_OR_NULL(pointer) (!(pointer))
static struct btf the_btf;
#ifdef NO_BTF
#define bpf_get_btf_vmlinux() ((void)the_btf, (struct btf *)NULL)
#else
#define bpf_get_btf_vmlinux() (&the_btf)
#endif
