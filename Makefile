# SPDX-License-Identifier: GPL-2.0
# One verb per job; each is one line that calls scripts/schedline. Options are variables in capitals:
#   make check SERIES=6.12 CONFIG=lockdep JSON=out.json

.DEFAULT_GOAL := help
.PHONY: help check layout status c2c test doctor fetch apply export mutants litmus premerge evidence kernels gate report bench bench-gate test-tree kselftest run

quote = '$(subst ','\'',$(1))'
option = $(if $($(1)),--$(2) $(call quote,$($(1))))
tree = $(call option,SERIES,series) $(call option,KDIR,kdir)
changes = $(call option,WITH,with) $(call option,WITHOUT,without)
booted = $(call option,ON,on) $(call option,CPUS,cpus) $(call option,TOPOLOGY,topology) $(call option,CONFIG,config) \
	$(call option,CPUPRI,cpupri)
guest = $(booted) $(call option,SANITIZE,sanitize)
column = $(call option,ARCH,arch) $(call option,CONFIG,config)
judged = $(call option,EXPECT,expect) $(call option,BASE,base) $(call option,REQUIRE,require) $(call option,ONLY,only)
programs = $(if $(SELFTESTS),--selftests)
output = $(call option,JSON,json) $(call option,OUT,out)

help: ## these verbs
	@sed -n 's/^\([a-z-]*\):.*## /make \1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 18

check: ## the main job: fetch, patch, build, boot, judge; one verdict
	@scripts/schedline check $(tree) $(changes) $(guest) $(programs) $(judged) $(output)

layout: ## the layout rules without booting (ARCH=all, CONFIG=all, VMLINUX=file, PATCH=file)
	@scripts/schedline layout $(tree) $(changes) $(column) $(call option,VMLINUX,vmlinux) $(call option,PATCH,patch) \
		$(call option,EXPECT,expect) $(call option,BASE,base) $(call option,REQUIRE,require) $(call option,JSON,json)

status: ## which of the changes a tree or a kernel has (KDIR=, VMLINUX=)
	@scripts/schedline status $(tree) $(call option,VMLINUX,vmlinux) $(call option,JSON,json)

c2c: ## cache-line traffic on emulated CPUs (WORKLOAD=balance, CPUS=32, OBJECTS=rq; BASE=dir CANDIDATE=dir compares two)
	@scripts/schedline c2c $(if $(BASE)$(CANDIDATE),diff $(call quote,$(BASE)) $(call quote,$(CANDIDATE)) \
		$(call option,GATES,gates) $(call option,JSON,json),$(tree) $(changes) $(call option,WORKLOAD,workload) \
		$(booted) $(call option,OBJECTS,objects) $(call option,LINE,line) $(call option,SVG,svg) $(output))

run: ## workloads and tools on this machine (SUITE=quick, RUNS=5, OUT=dir, ONLY=row), or in a guest (IN_GUEST=1)
	@scripts/schedline run $(if $(IN_GUEST),--in-guest $(tree) $(changes) $(booted)) $(call option,SUITE,suite) $(call option,RUNS,runs) $(call option,ONLY,only) $(call option,SEED,seed) \
		$(output)

test: ## this project's own tests (LONG=1: those, too, that build a kernel for themselves alone)
	@scripts/schedline test $(if $(LONG),--long)

doctor: ## what this machine lacks, why, and the command that installs it
	@scripts/schedline doctor

fetch: ## a kernel source from Debian into the cache (SERIES=7.3, 6.12 or 6.1)
	@scripts/schedline fetch $(call option,SERIES,series)

apply: ## which changes a tree has, and how the carried ones apply to it
	@scripts/schedline apply $(tree) $(changes)

export: ## a git am-able series of tests and changes for a tree (KDIR=, OUT=)
	@scripts/schedline export $(tree) $(changes) $(call option,OUT,out)

mutants: ## prove that each test can fail (FROM=dir for diffs of your own)
	@scripts/schedline mutants $(tree) $(call option,ON,on) $(call option,FROM,from) $(call option,ONLY,only) $(call option,JSON,json)

litmus: ## what the kernel's memory model says of cpupri's barriers; needs herd7
	@scripts/schedline litmus $(tree) $(call option,ONLY,only) $(call option,JSON,json)

premerge: ## a series against its base: layout, suites, mutants, runs; one page (KDIR= BASE=rev HEAD=rev, or MBOX=file)
	@scripts/schedline premerge $(call option,KDIR,kdir) $(call option,BASE,base) $(call option,HEAD,head) \
		$(call option,MBOX,mbox) $(call option,ARCH,arch) $(call option,SKIP,skip) \
		$(if $(RUNS),--runs $(foreach dir,$(RUNS),$(call quote,$(dir)))) \
		$(call option,PLACEBO,placebo) $(call option,GATES,gates) $(output)

evidence: ## what a premerge found, as a text for a mail (DIR=its --out; FILE=text to hold it against)
	@scripts/schedline evidence $(if $(FILE),verify $(call quote,$(FILE))) $(call quote,$(DIR)) $(call option,OUT,out)

kernels: ## base, candidate and placebo, built alike (CONFIG=file CHANGE=id, or KDIR= BASE=rev HEAD=rev; PLACEBO=1)
	@scripts/schedline kernels $(tree) $(call option,CONFIG,config) $(call option,BASE,base) $(call option,HEAD,head) \
		$(call option,CHANGE,change) $(call option,WITH,with) $(if $(filter-out 1,$(PLACEBO)),$(call \
		option,PLACEBO,placebo),$(if $(PLACEBO),--placebo)) $(call option,PACKAGE,package) $(call option,OUT,out)

gate: ## base against candidate, from run files (BASE=dir CANDIDATE=dir GATES=name PLACEBO=dir)
	@scripts/schedline gate $(call quote,$(BASE)) $(call quote,$(CANDIDATE)) $(call option,GATES,gates) \
		$(call option,PLACEBO,placebo) $(if $(CONFIRM),--confirm $(foreach dir,$(CONFIRM),$(call quote,$(dir)))) \
		$(if $(EXPECT_IMPROVEMENT),--expect-improvement) $(call option,JSON,json)

report: ## what the gate says, and one page for a browser (BASE=dir CANDIDATE=dir PLACEBO=dir HTML=file PICTURE=file)
	@scripts/schedline report $(call quote,$(BASE)) $(call quote,$(CANDIDATE)) $(call option,GATES,gates) \
		$(call option,PLACEBO,placebo) $(if $(CONFIRM),--confirm $(foreach dir,$(CONFIRM),$(call quote,$(dir)))) \
		$(call option,HTML,html) $(call option,PICTURE,picture)

bench: ## build and run times as ratios, measured in one run
	@scripts/schedline bench $(call option,ONLY,only) $(call option,JSON,json)

bench-gate: ## what the gate does on 10,000 made-up campaigns of each kind; minutes
	@scripts/schedline bench --only gate $(call option,JSON,json)

test-tree: ## the exported series in a plain kernel tree, without schedline
	@scripts/schedline test-tree $(tree) $(call option,SKIP,skip)

kselftest: ## the workloads in a plain kernel tree: run, installed, packed
	@scripts/schedline kselftest $(tree) $(call option,JSON,json)
