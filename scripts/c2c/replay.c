// SPDX-License-Identifier: GPL-2.0
/*
 * Feeds the model with a trace from standard input and writes its records, so
 * that the model can be tested against known answers without QEMU:
 *
 *	machine CPUS LINE PER_CLUSTER PER_LLC PER_NODE	the first line
 *	watch ADDRESS SIZE EPOCH		hexadecimal, decimal
 *	unwatch ADDRESS SIZE
 *	CPU load|store|rmw ADDRESS SIZE [PC]	one access
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

static int fail(const char *what)
{
	fprintf(stderr, "replay: %s\n", what);
	return 1;
}

static int kind_of(const char *word)
{
	if (!strcmp(word, "load"))
		return C2C_LOAD;
	if (!strcmp(word, "store"))
		return C2C_STORE;
	return strcmp(word, "rmw") ? -1 : C2C_RMW;
}

int main(void)
{
	unsigned int line, cpu, size, epoch;
	struct c2c_shape shape;
	struct c2c_model *model;
	uint64_t address, pc;
	char text[256], word[8];
	long number;
	int kind;

	if (!fgets(text, sizeof(text), stdin) ||
	    sscanf(text, "machine %u %u %u %u %u", &shape.cpus, &line, &shape.per_cluster,
		   &shape.per_llc, &shape.per_node) != 5)
		return fail("the first line names no machine");
	model = c2c_new(&shape, line);
	if (!model)
		return fail("no such machine");
	while (fgets(text, sizeof(text), stdin)) {
		pc = 0;
		if (sscanf(text, "watch %" SCNx64 " %u %u", &address, &size, &epoch) == 3) {
			c2c_watch(model, address, size, epoch);
		} else if (sscanf(text, "unwatch %" SCNx64 " %u", &address, &size) == 2) {
			c2c_unwatch(model, address, size);
		} else {
			number = sscanf(text, "%u %7s %" SCNx64 " %u %" SCNx64, &cpu, word,
					&address, &size, &pc);
			if (number < 4)
				return fail(text);
			kind = kind_of(word);
			if (kind < 0)
				return fail(text);
			c2c_access(model, cpu, kind, address, size, pc);
		}
	}
	number = c2c_write(model, stdout);
	printf("end %ld\n", number);
	return number < 0;
}
