/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The part of QEMU's plugin API that is used here. No package contains the
 * header, so it is declared here, from the documentation
 * (docs/devel/tcg-plugins.rst) and the symbols that the program exports.
 *
 * Version 1 is that of QEMU 7.2 of Debian 12. Version 4 came with QEMU 9.2. It
 * has a call to read the guest's memory, and returns the bytes of an instruction
 * in another way; see internals.h. Version 7, of QEMU 11.1, gives callbacks data
 * of the plugin in place of its id. No version lets a plugin end the turn of a
 * CPU early, which needs a call outside of the API.
 */
#ifndef C2C_QEMU_API_H
#define C2C_QEMU_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QEMU_API_VERSION 1
#define QEMU_API_READS 4
#define QEMU_API_DATA 7

/* The version that the plugin is for; QEMU reads it. */
extern int qemu_plugin_version;

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;

typedef struct {
	const char *target_name;
	struct {
		int min;
		int cur;
	} version;
	bool system_emulation;
	union {
		struct {
			int smp_vcpus;
			int max_vcpus;
		} system;
	};
} qemu_info_t;

enum qemu_plugin_cb_flags {
	QEMU_PLUGIN_CB_NO_REGS,
	QEMU_PLUGIN_CB_R_REGS,
	QEMU_PLUGIN_CB_RW_REGS,
};

enum qemu_plugin_mem_rw {
	QEMU_PLUGIN_MEM_R = 1,
	QEMU_PLUGIN_MEM_W,
	QEMU_PLUGIN_MEM_RW,
};

struct qemu_plugin_tb;
struct qemu_plugin_insn;

/* With the plugin's id, and since QEMU_API_DATA with `data`. */
typedef void (*qemu_plugin_reset_cb_t)(uint64_t id_or_data);

/* With the plugin's id and the block, and since QEMU_API_DATA with the block and `data`. */
typedef void (*qemu_plugin_vcpu_tb_trans_cb_t)(uint64_t id_or_tb, void *tb_or_data);

typedef void (*qemu_plugin_vcpu_udata_cb_t)(unsigned int cpu, void *userdata);
typedef void (*qemu_plugin_vcpu_mem_cb_t)(unsigned int cpu, qemu_plugin_meminfo_t info,
					  uint64_t address, void *userdata);

/* Drop all callbacks and all translated code, then call `callback`. */
void qemu_plugin_reset(qemu_plugin_id_t id, qemu_plugin_reset_cb_t callback, void *data);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
					   qemu_plugin_vcpu_tb_trans_cb_t callback, void *data);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb,
					  qemu_plugin_vcpu_udata_cb_t callback,
					  enum qemu_plugin_cb_flags flags, void *userdata);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
					    qemu_plugin_vcpu_udata_cb_t callback,
					    enum qemu_plugin_cb_flags flags, void *userdata);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn,
				      qemu_plugin_vcpu_mem_cb_t callback,
				      enum qemu_plugin_cb_flags flags,
				      enum qemu_plugin_mem_rw which, void *userdata);

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
unsigned int qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);

/* Only from within a callback for an access; the result is valid until it returns. */
struct qemu_plugin_hwaddr;
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info, uint64_t address);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *physical);

#endif
