# SPDX-License-Identifier: GPL-2.0
# One target for each verb. Every variable on the command line becomes an option of the same name:
#   make check SERIES=6.12 CONFIG=lockdep SELFTESTS=1   is   scripts/schedline check --series 6.12 --config lockdep --selftests
# Environment variables are ignored. An option that the verb does not have is an error.

.DEFAULT_GOAL := help
verbs := check layout status c2c show run gate fleet premerge export kernels judge fetch doctor cache
dev := test quick mutants bench litmus test-tree docs schemas kselftest
.PHONY: help $(verbs) $(dev)

quote = '$(subst ','\'',$(1))'
given := $(strip $(foreach name,$(.VARIABLES),$(if $(findstring command line,$(origin $(name))),$(name))))
flags := AGAIN APPLY BISECT CHECK GENERATED GOLDEN IN_GUEST INSTALL INSTALL_HOOK LIST LONG LOOKS MARKED NO_BLAME QUIET REMOVE RUNNING SELFTESTS STAGED TRUST VARIABLES VERBOSE
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

help:
	@echo 'make VERB NAME=value is schedline VERB --name value:'
	$(schedline) --help

check:
	$(call ready,check$(addprefix -,$(filter x86_64 arm64,$(patsubst qemu-%,%,$(ON)))))
	$(schedline) check $(options)

test:
	$(call ready,test)
	$(schedline) dev test $(options)

# Of these some words are written without the name of an option.
c2c:
	$(schedline) c2c $(if $(filter BASE CANDIDATE,$(given)),diff $(call operands,BASE CANDIDATE)) \
		$(call options,BASE CANDIDATE)
gate:
	$(schedline) gate $(if $(filter FLEET,$(given)),,$(call operands,BASE CANDIDATE)) $(call options,BASE CANDIDATE)
fleet:
	$(schedline) fleet $(if $(filter JOBS,$(given)),jobs $(call operands,JOBS)) \
		$(if $(filter COLLECT,$(given)),collect $(call operands,COLLECT)) $(call options,JOBS COLLECT)
premerge:
	$(schedline) premerge $(call options,RUNS) $(call list,RUNS)
show:
	$(schedline) show $(call operands,NAME) $(call options,NAME)
judge:
	$(schedline) judge $(call operands,FILE) $(call options,FILE)
schemas:
	$(schedline) dev schemas $(call operands,NAME) $(call options,NAME)

$(filter-out check c2c gate fleet premerge show judge,$(verbs)):
	$(schedline) $@ $(options)

$(filter-out test schemas,$(dev)):
	$(schedline) dev $@ $(options)
