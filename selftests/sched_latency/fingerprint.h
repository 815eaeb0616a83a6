/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The machine, the kernel and the programs with which a run was measured. The
 * machine also has a short name of its own, because a baseline is valid for
 * other kernels on the same machine.
 */
#ifndef FINGERPRINT_H
#define FINGERPRINT_H

#include <linux/elf.h>
#include <linux/types.h>
#include <sys/utsname.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#define LIBC_VERSION	gnu_get_libc_version()
#else
#define LIBC_VERSION	"not glibc"
#endif

#include "topology.h"

#define BUILD_ID_TYPE	3

/* FNV-1a: for short names only, not for security. */
static inline __u64 hash_of(__u64 hash, const void *data, size_t size)
{
	const unsigned char *byte = data;

	while (size--)
		hash = (hash ^ *byte++) * 0x100000001b3ULL;
	return hash;
}

#define HASH_START	0xcbf29ce484222325ULL

static inline void cpu_model(char *text, size_t size)
{
	FILE *file = fopen("/proc/cpuinfo", "r");
	char line[512], implementer[32] = "", part[32] = "";

	text[0] = '\0';
	while (file && fgets(line, sizeof(line), file)) {
		char *value = strchr(line, ':');

		if (!value || !value[1])
			continue;
		value += 2;
		value[strcspn(value, "\n")] = '\0';
		if (!strncmp(line, "model name", 10) || !strncmp(line, "cpu\t", 4)) {
			snprintf(text, size, "%s", value);
			break;
		}
		if (!strncmp(line, "CPU implementer", 15))
			snprintf(implementer, sizeof(implementer), "%s", value);
		if (!strncmp(line, "CPU part", 8))
			snprintf(part, sizeof(part), "%s", value);
	}
	if (file)
		fclose(file);
	if (!text[0] && part[0])
		snprintf(text, size, "implementer %s part %s", implementer, part);
}

static inline int count_shared(const struct cpus *cpus, enum sharing what)
{
	struct cpus seen = {}, shared;
	int nr = 0;

	for (int cpu = cpus_next(cpus, -1); cpu >= 0; cpu = cpus_next(cpus, cpu)) {
		if (cpus_has(&seen, cpu))
			continue;
		if (!cpus_sharing(cpu, what, &shared))
			return 0;
		cpus_or(&seen, &shared);
		nr++;
	}
	return nr;
}

/*
 * The CPUs that may be used are part of the machine: a container with half of
 * them is another machine.
 */
static inline void machine_text(char *text, size_t size)
{
	struct utsname name;
	struct cpus cpus;
	char model[256];

	uname(&name);
	cpu_model(model, sizeof(model));
	cpus_allowed(&cpus);
	snprintf(text, size, "%s %s, CPUs %.256s, %d LLCs, %d nodes", name.machine, model,
		 cpus_list(&cpus), count_shared(&cpus, LLC), count_shared(&cpus, NODE));
}

static inline const char *machine_name(void)
{
	static char name[17];
	char text[1024];

	machine_text(text, sizeof(text));
	snprintf(name, sizeof(name), "%016llx",
		 (unsigned long long)hash_of(HASH_START, text, strlen(text)));
	return name;
}

/* The build ID, from the notes of the kernel. */
static inline void kernel_build_id(char *text, size_t size)
{
	FILE *file = fopen("/sys/kernel/notes", "r");
	char owner[64], id[64];
	struct elf64_note note;

	text[0] = '\0';
	while (file && fread(&note, sizeof(note), 1, file)) {
		size_t owner_size = (note.n_namesz + 3) & ~3, id_size = (note.n_descsz + 3) & ~3;

		if (owner_size > sizeof(owner) || id_size > sizeof(id)) {
			if (fseek(file, owner_size + id_size, SEEK_CUR))
				break;
			continue;
		}
		if (fread(owner, 1, owner_size, file) != owner_size ||
		    fread(id, 1, id_size, file) != id_size)
			break;
		if (note.n_type != BUILD_ID_TYPE || strncmp(owner, "GNU", 4))
			continue;
		for (size_t i = 0; i < note.n_descsz && 2 * i + 2 < size; i++)
			sprintf(text + 2 * i, "%02x", (unsigned char)id[i]);
		break;
	}
	if (file)
		fclose(file);
}

/* A hash of the kernel's compressed configuration, to tell two apart. */
static inline void configuration_name(char *text, size_t size)
{
	FILE *file = fopen("/proc/config.gz", "r");
	__u64 hash = HASH_START;
	char part[4096];
	size_t len;

	text[0] = '\0';
	if (!file)
		return;
	while ((len = fread(part, 1, sizeof(part), file)))
		hash = hash_of(hash, part, len);
	fclose(file);
	snprintf(text, size, "config.gz fnv1a %016llx", (unsigned long long)hash);
}

/* As a JSON string: a text may contain any characters. */
static inline void write_string(FILE *file, const char *text)
{
	fputc('"', file);
	for (; *text; text++) {
		unsigned char c = *text;

		if (c == '"' || c == '\\')
			fprintf(file, "\\%c", c);
		else if (c < ' ' || c > '~')
			fprintf(file, "\\u%04x", c);
		else
			fputc(c, file);
	}
	fputc('"', file);
}

static inline void write_field(FILE *file, const char *name, const char *text, const char *end)
{
	fprintf(file, "  \"%s\": ", name);
	write_string(file, text);
	fprintf(file, "%s\n", end);
}

static inline void write_fingerprint(FILE *file, const char *command)
{
	char text[4096], kernel[1024];
	struct utsname name;

	uname(&name);
	fprintf(file, "\"fingerprint\": {\n");
	write_field(file, "machine_name", machine_name(), ",");
	machine_text(text, sizeof(text));
	write_field(file, "machine", text, ",");
	snprintf(kernel, sizeof(kernel), "%s %s", name.release, name.version);
	write_field(file, "kernel", kernel, ",");
	kernel_build_id(text, sizeof(text));
	write_field(file, "build_id", text, ",");
	configuration_name(text, sizeof(text));
	write_field(file, "configuration", text, ",");
	if (!read_line(text, sizeof(text), "/proc/cmdline"))
		text[0] = '\0';
	write_field(file, "kernel_command_line", text, ",");
	if (!read_line(text, sizeof(text), "/proc/sys/kernel/random/boot_id"))
		text[0] = '\0';
	write_field(file, "boot_id", text, ",");
	if (!read_line(text, sizeof(text),
		       "/sys/devices/system/clocksource/clocksource0/current_clocksource"))
		text[0] = '\0';
	write_field(file, "clocksource", text, ",");
	if (!read_line(text, sizeof(text),
		       "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"))
		text[0] = '\0';
	write_field(file, "governor", text, ",");
	write_field(file, "command_line", command, ",");
	write_field(file, "compiler", __VERSION__, ",");
	write_field(file, "libc", LIBC_VERSION, "");
	fprintf(file, "},\n");
}

#endif
