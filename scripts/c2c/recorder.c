// SPDX-License-Identifier: GPL-2.0
/* See recorder.h. */
#include "die.h"
#include "recorder.h"
#include "tape.h"

/*
 * A replay may have longer lines than the guest. So the trace has all accesses
 * to the longest lines on which an object has ever been.
 */
static struct c2c_model *model, *ever;
static struct tape tape;
static bool all;

void recorder_begin(struct c2c_model *of, const struct c2c_shape *shape, const char *trace,
		    bool everything)
{
	model = of;
	if (!trace)
		return;
	ever = c2c_new(shape, C2C_MAX_LINE);
	all = everything;
	tape.file = fopen(trace, "w");
	if (!tape.file)
		die("cannot be written: ", trace);
}

void recorder_watch(unsigned int watch, uint64_t address, uint64_t size, uint16_t epoch)
{
	struct tape_entry entry = {
		.what = TAPE_WATCH,
		.address = address,
		.size = size,
		.watch = watch,
		.epoch = epoch,
	};

	c2c_watch(model, address, size, epoch);
	if (!tape.file)
		return;
	c2c_watch(ever, address, size, epoch);
	tape_write(&tape, &entry);
}

void recorder_unwatch(uint64_t address, uint64_t size)
{
	struct tape_entry entry = { .what = TAPE_UNWATCH, .address = address, .size = size };

	c2c_unwatch(model, address, size);
	if (tape.file)
		tape_write(&tape, &entry);
}

void recorder_access(unsigned int cpu, enum c2c_kind kind, uint64_t address, unsigned int size,
		     uint64_t pc)
{
	struct tape_entry entry = {
		.what = TAPE_ACCESS,
		.cpu = cpu,
		.kind = kind,
		.pc = pc,
		.address = address,
		.size = size,
	};

	c2c_access(model, cpu, kind, address, size, pc);
	if (!tape.file)
		return;
	if (all || c2c_watched(ever, address) || c2c_watched(ever, address + size - 1))
		tape_write(&tape, &entry);
}

void recorder_end(void)
{
	if (tape.file && (!tape_end(&tape) || fclose(tape.file)))
		die("the trace cannot be written: is the disk full?", "");
	tape.file = NULL;
}
