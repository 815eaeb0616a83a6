# SPDX-License-Identifier: GPL-2.0
# One target for each verb. Every variable on the command line becomes an option of the same name:
#   make check SERIES=6.12 CONFIG=lockdep SELFTESTS=1   is   scripts/schedline check --series 6.12 --config lockdep --selftests
# Environment variables are ignored. An option that the verb does not have is an error.

.DEFAULT_GOAL := help
.PHONY: help check layout status c2c show run gate fleet premerge export kernels judge fetch doctor cache \
	test quick mutants bench litmus test-tree docs schemas kselftest

quote = '$(subst ','\'',$(1))'
given := $(strip $(foreach name,$(.VARIABLES),$(if $(findstring command line,$(origin $(name))),$(name))))
flags := AGAIN APPLY CHECK GENERATED IN_GUEST INSTALL INSTALL_HOOK LIST LONG LOOKS MARKED NO_BLAME QUIET REMOVE RUNNING SELFTESTS STAGED TRUST VARIABLES VERBOSE
name = --$(shell printf %s $(call quote,$(1)) | tr A-Z_ a-z-)
# PLACEBO=1 selects the carried placebo, PLACEBO=FILE another one.
bare = $(or $(filter $(1),$(flags)),$(filter PLACEBO=1,$(1)=$($(1))))
option = $(call name,$(1))$(if $(call bare,$(1)),, $(call quote,$($(1))))
operand = $(if $(filter $(1),$(given)),$($(1)))
operands = $(foreach each,$(1),$(call quote,$(call operand,$(each))))
list = $(if $(filter $(1),$(given)),$(call name,$(1)) $(foreach each,$($(1)),$(call quote,$(each))))
options = $(foreach each,$(filter-out $(1),$(given)),$(call option,$(each)))
schedline := @scripts/schedline
# On a Debian machine root installs missing packages. Elsewhere the verb says what to install.
ready = @if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then scripts/schedline doctor --install $(1) >/dev/null; fi

help: ## these verbs
	@sed -n 's/^\([a-z0-9-]*\):.*## /make \1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 18

check: ## the main job: fetch, patch, build, boot, judge; one verdict
	$(call ready,check$(addprefix -,$(filter x86_64 arm64,$(patsubst qemu-%,%,$(ON)))))
	$(schedline) check $(options)

layout: ## the layout rules without booting (ARCH=all CONFIG=all, VMLINUX=file, PATCH=file)
	$(schedline) layout $(options)

status: ## which of the changes a tree or a kernel has (KDIR=, VMLINUX=); how the others apply (APPLY=1)
	$(schedline) status $(options)

c2c: ## cache-line traffic on emulated CPUs (WORKLOAD=balance CPUS=32; BASE=dir CANDIDATE=dir)
	$(schedline) c2c $(if $(filter BASE CANDIDATE,$(given)),diff $(call operands,BASE CANDIDATE)) \
		$(call options,BASE CANDIDATE)

show: ## a layout change in one picture, without it and with it (NAME=rd-lines)
	$(schedline) show $(call operands,NAME) $(call options,NAME)

run: ## workloads and tools on this machine (SUITE=quick RUNS=5 OUT=dir), or in a guest (IN_GUEST=1)
	$(schedline) run $(options)

gate: ## base against candidate, from run files (BASE=dir CANDIDATE=dir GATES=name PLACEBO=dir HTML=file; FLEET=dir)
	$(schedline) gate $(if $(filter FLEET,$(given)),,$(call operands,BASE CANDIDATE)) $(call options,BASE CANDIDATE)

fleet: ## many machines through LAVA: jobs of a plan (JOBS=dir DEVICE=name KERNELS=...), runs home (COLLECT=dir)
	$(schedline) fleet $(if $(filter JOBS,$(given)),jobs $(call operands,JOBS)) \
		$(if $(filter COLLECT,$(given)),collect $(call operands,COLLECT)) $(call options,JOBS COLLECT)

premerge: ## a series against its base: one page (KDIR= BASE=rev HEAD=rev, or MBOX=file; RUNS="base candidate")
	$(schedline) premerge $(call options,RUNS) $(call list,RUNS)

export: ## a git am-able series of tests and changes for a tree (KDIR= OUT=)
	$(schedline) export $(options)

kernels: ## base, candidate and placebo, built alike (CONFIG=file CHANGE=id, or KDIR= BASE=rev HEAD=rev)
	$(schedline) kernels $(options)

judge: ## the verdict on a saved console log (FILE=log)
	$(schedline) judge $(call operands,FILE) $(call options,FILE)

fetch: ## a kernel source from Debian into the cache (SERIES=7.3, 7.2, 6.12 or 6.1)
	$(schedline) fetch $(options)

doctor: ## which jobs this machine is ready for, and what the others lack (INSTALL=1 installs it)
	$(schedline) doctor $(options)

cache: ## what is kept on this machine (PRUNE=30 removes what was not used for 30 days, REMOVE=1 all)
	$(schedline) cache $(options)

test: ## this project's own tests (LONG=1: also the tests that build a kernel only for themselves; K=word)
	$(call ready,test)
	$(schedline) dev test $(options)

quick: ## the tests that need only Python and git, in parallel (K=word; SEED=number repeats an order)
	$(schedline) dev quick $(options)

mutants: ## prove that each test can fail (FROM=dir for diffs of your own)
	$(schedline) dev mutants $(options)

bench: ## build and run times as ratios, measured in one run (ONLY=kind)
	$(schedline) dev bench $(options)

litmus: ## what the kernel's memory model says of cpupri's barriers; needs herd7
	$(schedline) dev litmus $(options)

test-tree: ## the exported series in a plain kernel tree, without schedline
	$(schedline) dev test-tree $(options)

docs: ## the parts of the pages that are made of code, configs and recorded runs (CHECK=1 names what differs)
	$(schedline) dev docs $(options)

schemas: ## the JSON schema of a document that others read or write (NAME=gate)
	$(schedline) dev schemas $(call operands,NAME) $(call options,NAME)

kselftest: ## the workloads in a plain kernel tree: run, installed, packed
	$(schedline) dev kselftest $(options)
