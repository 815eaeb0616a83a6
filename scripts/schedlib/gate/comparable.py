# SPDX-License-Identifier: GPL-2.0
"""What may be compared: the same machine and settings, boots that take turns, and no losses on one side.

Boots without values are not missing at random: what crashes or hangs leaves no file. So a candidate that lost more
boots than the base never passes, whatever its other boots say.

A function that tells why something is not comparable returns an empty text if it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate, combinations, pairwise
from math import comb, isfinite
from pathlib import Path
from statistics import median, median_high
from typing import TYPE_CHECKING, NamedTuple

from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.run_file import AGAIN, NOT_RECORDED, read_run, refuse_copies
from schedlib.gate.boots import FOREIGN, LIMITS, STEAL, THROTTLED, UNRECORDED, Key, Side
from schedlib.gate.gate_options import CUT, PLAN_FILE, PROGRESS_FILE
from schedlib.gate.rules import Gate
from schedlib.paths import PLAN
from schedlib.progress import counted, listed
from schedlib.runs.plan import RunPlan
from schedlib.verdict import Verdict

if TYPE_CHECKING:
    from schedlib.gate.boot_plan import BootedKernel, GatePlan, GateProgress

_LEAD = 2
"""How many boots one kernel may be ahead of the other. ABBA and random pairs stay within it."""

_OVERLAP = 10.0
"""Seconds that two boots of one machine may overlap: a clock that is set during a boot moves by less."""

_MORE_BOOTS = 0.2
_FACTOR = 2.0
_FEWER_SAMPLES = 2
"""No median boot has more samples than so many times the other kernel's, of quantiles and exceedances."""
_ALWAYS_FEWER = 1.25
"""The same if each boot of one kernel has fewer than each of the other."""
_SAMPLES_FACTOR = 5
"""No run has more samples than so many times another of its kernel."""

_TWICE = "Is a run there twice, or do the others lack one?"
SAY_WHY = "What crashes or hangs leaves none; if there is another reason, say it: --incomplete REASON"
_MOST_TOLD = 3
"""So many lost attempts of a kernel are told one by one."""

UNSEEN = "boots that crashed before their first run are not seen"
LOSSES_ALPHA = 0.01
"""How often losses of two kernels that are alike may fail."""


class OfOneSide(SchedlineError):
    """Runs of one kernel cannot be judged. side: which."""

    def __init__(self, side: str, observed: str, next_step: str = AGAIN) -> None:
        super().__init__(observed, next_step)
        self.side = side


class LacksMetric(OfOneSide):
    """One kernel has fewer runs of a metric than it should have: others can be judged."""


def refuse_incomparable(sides: Sequence[Side], gate: Gate) -> None:
    """Reject sides that differ in more than they may, that have no order if they need one, and copies."""
    refuse_differences(sides, gate.may_differ)
    if gate.interleaved:
        _refuse_overlaps(sides)
    refuse_copies(side.contents for side in sides)


def refuse_differences(sides: Sequence[Side], may_differ: Collection[str]) -> None:
    """Reject fingerprints that differ: within a side in anything, between sides in anything but `may_differ`."""
    for name in sorted({name for side in sides for name in side.fingerprint}):
        found = [side.fingerprint.get(name, frozenset()) for side in sides]
        for side, values in zip(sides, found, strict=True):
            if len(values) > 1:
                raise SchedlineError(
                    f"{side.name} mixes runs whose {name} differs: {_shown(values)}",
                    "keep the runs of one machine, kernel and setting in a directory",
                )
        plain, _, tool = name.partition(" of ")
        given = [values for values in found if values or not tool]
        if plain not in may_differ and len(set(given)) > 1:
            pairs = zip(sides, found, strict=True)
            told = (f"{_shown(values or {UNRECORDED})} in {side.name}" for side, values in pairs)
            raise SchedlineError(
                f"{name} differs: {', '.join(told)}; the difference would look like an effect of the kernel",
                f'measure both alike; if you compare this on purpose: may_differ = [..., "{plain}"] in the gates file',
            )
    for one, other in combinations(sides, 2):
        if both := sorted({boot.id for boot in one.boots} & {boot.id for boot in other.boots}):
            raise SchedlineError(
                f"boot {both[0]} is in {one.name} and in {other.name}; a boot belongs to one kernel and one batch",
                "move its runs to where they belong",
            )


def _refuse_overlaps(sides: Sequence[Side]) -> None:
    boots = sorted((boot for side in sides for boot in side.boots), key=lambda boot: boot.begun)
    for boot, after in pairwise(boots):
        if isfinite(after.begun) and (boot.ended - after.begun > _OVERLAP or boot.started == after.started):
            raise SchedlineError(
                f"the boots {boot.id} and {after.id} were at the same time, which one machine cannot do: its clock was "
                "not set, or these are several machines. The order of the boots is unknown",
                'set the clock before the first run, or compare without an order: order = "any" in the gates file',
            )


def _shown(values: Iterable[str]) -> str:
    return " / ".join(repr(each) for each in sorted(values)[:3])


def _order(base: Side, candidate: Side) -> str:
    kinds = [(boot.started, "A") for boot in base.boots] + [(boot.started, "B") for boot in candidate.boots]
    return "".join(kind for _, kind in sorted(kinds))


def order_problem(base: Side, candidate: Side, boots: int) -> str:
    """Why a drift of the machine could look like a difference of the kernels in the first boots."""
    leads = accumulate(1 if kind == "A" else -1 for kind in _order(base.first(boots), candidate.first(boots)))
    furthest = max(map(abs, leads), default=0)
    lacking = base.lost + candidate.lost + abs(len(base.boots) - len(candidate.boots))
    why = "without the boots that are lacking, " if furthest <= _LEAD + lacking else ""
    ahead = f"{why}one kernel was booted {furthest} times more than the other at some point"
    return f"{ahead}, so a drift could look like a change" if furthest > _LEAD else ""


def in_pairs(campaign: Campaign | None, base: Side, candidate: Side) -> bool:
    """Whether the boots are pairs of a plan, and none has lost its place."""
    boots = min(len(base.boots), len(candidate.boots))
    order = _order(base.first(boots), candidate.first(boots))
    alternate = all(one != other for one, other in zip(order[::2], order[1::2], strict=True))
    return bool(campaign and alternate and campaign.plan.pairs)


def order_weakness(base: Side, candidate: Side) -> str:
    """What an order of boots that repeats itself cannot tell from a change."""
    order = _order(base, candidate)
    for period, which in ((2, "second"), (4, "fourth")):
        if len(order) > 2 * period and all(one == other for one, other in zip(order, order[period:], strict=False)):
            return (
                f"the boots go {order[:4]} all the time: what happens at every {which} boot would look like a change. "
                "`schedline gate plan` draws an order by lot"
            )
    return ""


def unequal_samples(base: Side, candidate: Side, key: Key) -> str:
    """Why the boots' values of a metric are not alike: their numbers of samples differ too much, by the factors above.

    A quantile of a few samples is another quantity than one of many: it spreads more, and a high one is lower. A kernel
    that stalls takes fewer samples in the same time, and those that are lacking are the slow ones. For a rate a slower
    kernel does less in a time, or takes longer for a number; a run that was cut did less, and in less time.
    """
    found = [[(boot.figures[key], boot.id) for boot in side.boots] for side in (base, candidate)]
    counts = [[figure.samples for figure, _ in side] for side in found]
    one, other = middles = [median(side) for side in counts]
    apart = max(map(min, counts)) > min(map(max, counts))
    kind, unlike = base.about[key].kind, False
    if kind in ("quantile", "exceedance"):
        unlike = max(middles) > (_ALWAYS_FEWER if apart else _FEWER_SAMPLES) * min(middles)
    elif kind == "rate" and max(middles) > _FEWER_SAMPLES * min(middles):
        rates = [median(sum(figure.values) for figure, _ in side) for side in found]
        times = [count / rate for count, rate in zip(middles, rates, strict=True) if rate]
        unlike = len(times) == 2 and max(times) > _FEWER_SAMPLES * min(times)
    if unlike:
        return (
            f"the median boot of the base has {one:g} samples and that of the candidate {other:g}: what the others "
            "would have been is unknown"
        )
    for side in found:
        fewest, few = min((figure.fewest, boot) for figure, boot in side)
        most, many = max((figure.most, boot) for figure, boot in side)
        if most > _SAMPLES_FACTOR * fewest:
            return (
                f"a run of boot {few} has {fewest} samples and one of boot {many} has {most}: such values cannot be "
                "compared. Was a run cut short? Repeat these boots"
            )
    return ""


def disturbed(base: Side, candidate: Side, tool: str) -> str:
    """Why the runs of a tool were disturbed more on one side than on the other.

    The rule was fixed beforehand. A boot is disturbed if one of its runs is above an entry of LIMITS. The sides differ
    if the shares of disturbed boots differ by more than a fifth, or if the median boot is above the limit on one side
    and its amount is more than twice that of the other side.
    """
    found = [[boot.disturbance[tool] for boot in side.boots if tool in boot.disturbance] for side in (base, candidate)]
    if any(found) and not all(found):
        return f"what happened beside {tool} is recorded in one of {base.name} and {candidate.name} alone"
    for kind, limit in LIMITS.items() if all(found) else ():
        amounts = [[each[kind] for each in side] for side in found]
        above = [(sum(each > limit for each in side), len(side)) for side in amounts]
        shares = [count / boots for count, boots in above]
        if abs(shares[0] - shares[1]) > _MORE_BOOTS:
            told = [f"{count} of {boots} boots" for count, boots in above]
            return f"{kind} in {told[0]} of {base.name} and {told[1]} of {candidate.name}"
        middle = [median(side) for side in amounts]
        if max(middle) > limit and max(middle) > _FACTOR * min(middle):
            unit = {STEAL: " % of the CPU time", THROTTLED: " times", FOREIGN: " % of a CPU"}[kind]
            of_base = f"{middle[0]:.3g}{unit} in the median boot of {base.name}"
            return f"{kind}: {of_base}, {middle[1]:.3g}{unit} of {candidate.name}"
    return ""


class Campaign(NamedTuple):
    """The campaign to which runs belong.

    Attributes:
        kernels: by the directories in which `gate plan` has their runs.
    """

    place: Path
    plan: GatePlan
    progress: GateProgress
    kernels: Mapping[Path, BootedKernel]

    @property
    def boots(self) -> set[str]:
        """Those that the progress knows."""
        return {each.boot_id for each in self.progress.attempts}


def campaign_of(directories: Iterable[Path]) -> Campaign | None:
    """The campaign to which runs belong, if it has a plan.

    Raises SchedlineError: the plan or its progress is not there, so nobody knows which boots were lost.
    """
    # `gate plan` has them in runs/; somebody may have moved them beside the plan.
    for place in dict.fromkeys(above for each in directories for above in list(each.resolve().parents)[1::-1]):
        there = [(place / name).is_file() for name in (PLAN_FILE, PROGRESS_FILE)]
        if all(there):
            # Most directories have no plan.
            from schedlib.gate.boot_plan import read_plan, read_progress, runs_of

            plan = read_plan(place)
            kernels = {runs_of(place, each.label).resolve(): each for each in plan.kernels}
            return Campaign(place, plan, read_progress(place), kernels)
        if any(there) or any((place / CUT).glob(f"*/{PLAN}")):
            lacking = (PLAN_FILE, PROGRESS_FILE)[there[0]]
            said = f"{place} is a campaign without {lacking}: nothing tells which boots were lost"
            raise SchedlineError(said, "bring it; or move runs that are of no plan elsewhere")
    return None


def refuse_other_plan(campaign: Campaign | None, directories: Sequence[Path], sides: Sequence[Side]) -> None:
    """Reject runs that are not those of the plan and the progress beside them, and kernels the wrong way round."""
    if not campaign:
        return
    kernels, order, attempts = campaign.plan.kernels, campaign.plan.order, campaign.progress.attempts
    where, unknown = f"{PROGRESS_FILE} of {campaign.place}", {path.name for path in (campaign.place / CUT).glob("*")}
    for side in sides:
        # A side that is of another campaign as a whole is no mistake.
        ids = {boot.id for boot in side.boots}
        unknown |= ids if ids & campaign.boots else set()
    if unknown := unknown - campaign.boots:
        raise SchedlineError(f"{where} does not know the boot {min(unknown)}", "bring the whole one")
    if wrong := [each.kernel for each in attempts if [each.kernel] != [*order[each.place : each.place + 1]]]:
        raise SchedlineError(f"{where} has {wrong[0]} at another place than {PLAN_FILE}", "bring both as written")
    begun = {boot.id: boot.started for side in sides for boot in side.boots}
    for one, after in pairwise(each.boot_id for each in attempts if each.boot_id in begun):
        if begun[one] >= begun[after]:
            said = f"{where} has boot {one} before {after}, and their runs say the opposite"
            raise SchedlineError(said, "find out which clock was set")
    labels = [campaign.kernels.get(each.resolve()) for each in directories]
    if labels[:2] == [*kernels[1::-1]]:
        raise SchedlineError(f"the plan has {kernels[0].label} as the base", "name the base first")
    for kernel, side in zip(labels, sides, strict=False):
        ran = side.fingerprint.get("kernel", frozenset())
        if kernel and any(each.split()[:1] != [kernel.version] for each in ran - {NOT_RECORDED}):
            raise SchedlineError(
                f"the plan has {kernel.version} as {kernel.label}, and there are runs of {min(ran)}",
                "bring the plan of these runs",
            )


def losses(found: Sequence[Attempts], sides: Sequence[Side]) -> tuple[str, Verdict]:
    """How many attempts of base and candidate ended how, and what the lost ones say."""
    ended = [[why for why in each.ends if why is not None] for each in found]
    base, candidate = (list(filter(None, side)) for side in ended)
    told = []
    for side, attempts, known, lost in zip(sides, found, ended, (base, candidate), strict=False):
        more = [f"and {len(lost) - _MOST_TOLD} more"] if len(lost) > _MOST_TOLD else []
        ends = f" ({'; '.join([*lost[:_MOST_TOLD], *more])})" if lost else ""
        open_ones = ", and one has not ended" if len(known) < len(attempts.ends) else ""
        told.append(f"{side.name} lost {len(lost)} of {len(known)} attempts{ends}{open_ones}")
    chance = more_by_chance(len(ended[0]), len(base), len(ended[1]), len(candidate))
    verdict, why = Verdict.PASS, ""
    if candidate and not sides[1].boots:
        verdict, why = Verdict.FAIL, ". No boot of the candidate gave a run"
    elif chance <= LOSSES_ALPHA:
        verdict, why = Verdict.FAIL, f". Equal kernels seldom differ so much: p = {chance:.2g} (Fisher)"
    elif len(candidate) * len(ended[0]) > len(base) * len(ended[1]):
        why = f"; that may be chance ({chance:.2g}), or a kernel that crashes: see why it was lost, and begin again"
        verdict = Verdict.INCONCLUSIVE
    unseen = "" if all(each.planned for each in found) else f". No plan: {UNSEEN}"
    return f"{'; '.join(told)}{why}{unseen}", verdict


def never_up(campaign: Campaign | None, directory: Path, name: str) -> Side | None:
    """A kernel that was tried and left no run; None if it left some, also elsewhere, or if nothing tells that.

    Raises SchedlineError: it is the base, and there is nothing to compare with.
    """
    side = Side(name)
    attempts = attempts_of(campaign, directory, side)
    lost = list(filter(None, attempts.ends))
    if not lost or attempts.removed or any(directory.rglob("*.json")):
        return None
    if name == "candidate":
        return side
    raise SchedlineError(
        f"{name}: all of {len(lost)} attempts were lost ({lost[0]})", "find out why, and boot it again"
    )


class Attempts(NamedTuple):
    """The attempts to boot a kernel: those of a plan, the boots that are there, and those that left a directory.

    Attributes:
        ends: of each attempt why it was lost. Empty if it was not lost, None if it may still come.
        planned: whether a plan tells of them.
        removed: what lacks of boots that have runs, or had them by the progress: who removed those may have chosen.
    """

    ends: Sequence[str | None]
    planned: bool
    removed: Sequence[str]

    @property
    def lost(self) -> int:
        return sum(map(bool, self.ends))

    def why_incomplete(self, side: Side) -> str:
        """What somebody removed; empty if nothing."""
        return f"{side.name}: {'; '.join(self.removed[:_MOST_TOLD])}. {SAY_WHY}" if self.removed else ""


def tells_all(campaign: Campaign | None, sides: Sequence[Side]) -> bool:
    """Whether the progress of a campaign knows each of these boots."""
    return campaign is not None and campaign.boots.issuperset(boot.id for side in sides[:2] for boot in side.boots)


def attempts_of(campaign: Campaign | None, directory: Path, side: Side) -> Attempts:
    planned: list[tuple[str, str | None]] = []
    removed = []
    # Those with runs, and those that `schedline run` began.
    begun = dict.fromkeys((boot.id for boot in side.boots), "")
    if campaign:
        attempts, kernel = campaign.progress.attempts, campaign.kernels.get(directory.resolve())
        # Somebody may have given another name to the directory of the runs, or removed some of them.
        labels = {kernel.label} if kernel else set()
        labels |= {one.kernel for one in attempts if one.boot_id in begun}
        for one in (each for each in attempts if each.kernel in labels):
            # Only the last one may still come.
            why = None if one is attempts[-1] else f"boot {one.place + 1}: it never ended"
            why = f"boot {one.place + 1}: {one.state}, {one.why}" if one.failed else why
            if one.state == "done":
                why = "" if one.boot_id in begun else f"{one.boot_id} was done, and has no runs here"
                removed += [why] if why else []
            planned.append((one.boot_id, why))
    for place in sorted(each for each in directory.glob("[!.]*") if each.is_dir()):
        if not (place / PLAN).is_file():
            # Files of other tools have other names.
            if "unit" not in side.fingerprint and not any(place.rglob("*.json")):
                begun.setdefault(place.name, f"{place.name} has no run")
            continue
        order = document.read(place / PLAN, RunPlan, "do that boot again, or move its directory elsewhere").order
        there = [file for run in order if (file := place / run.file).exists()]
        # Somebody may have given the directory another name.
        boot = read_run(there[0]).fingerprint["boot_id"] if there else place.name
        lacking = len(order) - len(there)
        runs = f"lacks {lacking} of {len(order)} runs" if there else "has no run"
        begun[boot] = f"{place.name} {runs}" if lacking else ""
        # One that still runs has some.
        if there and lacking and (boot, None) not in planned:
            removed.append(begun[boot])
    known = {boot for boot, _ in planned}
    others = [why for boot, why in begun.items() if boot not in known]
    return Attempts([*(why for _, why in planned), *others], bool(planned), removed)


def more_by_chance(base: int, base_lost: int, candidate: int, candidate_lost: int) -> float:
    """Fisher's exact test: how often that many of all losses or more are the candidate's if both kernels are alike.

    Args:
        base, candidate: attempts.
        base_lost, candidate_lost: those that were lost.
    """
    lost = base_lost + candidate_lost
    ways = sum(comb(candidate, k) * comb(base, lost - k) for k in range(candidate_lost, min(lost, candidate) + 1))
    return ways / comb(base + candidate, lost)


def no_results(side: Side) -> str:
    """How many runs of a side failed, and the first of them."""
    if not side.failed:
        return ""
    return f"{counted(len(side.failed), 'run')} of {side.name} gave no result; the first: {side.failed[0]}"


def refuse_fewer_runs(sides: Sequence[Side], tool: str) -> None:
    """Reject boots of a side that have fewer runs of a tool than most have, of either side, or more."""
    found = [(side, [(boot.runs.get(tool, 0), boot.id) for boot in side.boots]) for side in sides]
    runs = max((median_high(count for count, _ in boots) for _, boots in found if boots), default=1) or 1
    fewer = "no run" if runs == 1 else f"fewer than {runs} runs"
    for sign, what, why in ((-1, fewer, SAY_WHY), (1, f"more than {counted(runs, 'run')}", _TWICE)):
        for side, boots in found:
            odd = [boot for count, boot in boots if sign * count > sign * runs]
            if odd and any(tool in boot.runs for boot in side.boots):
                said = f"{side.name}: {what} of {tool} in {len(odd)} of {len(side.boots)} boots ({listed(odd, 3)})"
                raise LacksMetric(side.name, f"{said}. {why}")
