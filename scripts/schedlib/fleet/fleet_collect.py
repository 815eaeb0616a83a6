# SPDX-License-Identifier: GPL-2.0
"""Brings runs home from the logs of jobs, boot by boot, and judges each console. LAVA's verdict is not used.

A boot is home, failed or lost. It is lost if the laboratory or the transfer failed, and then it leaves no runs. It
is failed if the kernel came up and did not do its work; then the runs that are missing are there as failed ones, so
that the gate sees them.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path

from msgspec.structs import replace

from schedlib.cache import lock, read_regular, write_atomic
from schedlib.console.judge import Judgement, judge
from schedlib.errors import SchedlineError
from schedlib.fleet import campaign
from schedlib.fleet.fleet_verb import FleetCollectOptions
from schedlib.fleet.lava_log import Console, LavaLog, disk_from, read_log
from schedlib.formats import document
from schedlib.gate.boot_plan import GatePlan, read_plan
from schedlib.guest.boot import LOG_LIMIT
from schedlib.paths import PLAN
from schedlib.process import must
from schedlib.progress import printable, say
from schedlib.runs.guest_runs import COLLECTION, Queue, brought, identity, queued
from schedlib.runs.plan import new_plan
from schedlib.runs.workload_suites import Suite
from schedlib.verdict import Verdict, worst

LOG = "logs.yaml"
"""The log in a directory of lava-run."""

_NOT_OF_THE_KERNEL = frozenset({"Infrastructure", "Canceled", "Bug", "Configuration"})
"""LAVA's types of errors that say nothing of the kernel."""

_BEGUN = re.compile(rf"# selftests: {COLLECTION}: (\S+)$")
_CONSOLE = "console.log"


def collect(wanted: FleetCollectOptions) -> Verdict:
    """Collect jobs, and tell what has come home of all of them so far."""
    directory = wanted.plan.absolute()
    planned, verdicts = campaign.all_jobs(directory), []
    with lock(directory / ".lock"):
        for machine, text in _logs(wanted):
            try:
                _collect(directory, planned, machine, text)
            except SchedlineError as error:
                say(f"{machine}: {error}")
                verdicts.append(Verdict.ERROR)
        verdicts.append(_tell(directory, planned))
    verdict = worst(verdicts)
    print(f"verdict: {verdict.value}")
    return verdict


def _logs(wanted: FleetCollectOptions) -> Iterator[tuple[str, str]]:
    for job in wanted.jobs:
        if job.isdecimal():
            machine, text = log_of_job(job, wanted.identity)
        else:
            machine, _, place = job.partition("=")
            path = Path(place)
            path = path / LOG if path.is_dir() else path
            text = read_regular(path, LOG_LIMIT).decode(errors="replace")
        if not re.fullmatch(r"\w[\w.-]*", machine):
            raise SchedlineError(f"{machine!r} is no name for a machine", "letters, digits, dots and dashes")
        yield machine, text


def log_of_job(number: str, identity: str) -> tuple[str, str]:
    def lavacli(*words: str) -> str:
        return must(["lavacli", "-i", identity, "jobs", *words, number], next_step="lavacli identities add --help")

    if not (machine := json.loads(lavacli("show", "--json")).get("device")):
        raise SchedlineError(f"job {number} has no device yet", f"lavacli -i {identity} jobs wait {number}")
    return machine, lavacli("logs", "--no-follow", "--raw")


@dataclass(frozen=True)
class _Job:
    plan: GatePlan
    job: campaign.FleetJob
    log: LavaLog
    suite: Suite
    todo: Queue


def _collect(directory: Path, planned: Sequence[campaign.FleetJobs], machine: str, text: str) -> None:
    log = read_log(text)
    if not log.key:
        said = f" LAVA says: {log.trouble[1]}" if log.trouble[1] else ""
        raise SchedlineError(
            f"the log does not name a job of schedline: no kernel was started.{said}", "submit the job again"
        )
    known = {f"{jobs.campaign}/{job.name}": (jobs, job) for jobs in planned for job in jobs.jobs}
    if log.key not in known:
        raise SchedlineError(
            f"the log is of the job {log.key}, which this campaign does not have", "name its directory"
        )
    jobs, job = known[log.key]
    plan = read_plan(directory)
    suite, _ = campaign.fleet_suite(plan, jobs.cpus, jobs.emulated)
    if suite.digest() != jobs.digest:
        raise SchedlineError(
            f"the rows of the suite {plan.suite} have changed since the jobs were written", "use that schedline"
        )
    here = _Job(plan, job, log, suite, queued(suite, plan.runs, plan.seed))
    record = campaign.collected_file(directory, job.name, machine, log.begun)
    others = {
        boot.boot_id: f"{other.job} on {other.machine}"
        for other in _collected(directory)
        for boot in other.boots
        if boot.state != "lost" and campaign.collected_file(directory, other.job, other.machine, other.begun) != record
    }
    boots: list[campaign.CollectedBoot] = []
    with tempfile.TemporaryDirectory(dir=directory, prefix=".collect-") as scratch:
        read = [_Boot(here, place, Path(scratch, str(place))) for place in range(len(job.order))]
        for boot in read:
            same = next((each.machine for each in read if each.label == boot.label and each.machine), {})
            boots.append(boot.kept(directory / "fleet" / machine, same, others))
            others.setdefault(boots[-1].boot_id or str(boot.place), f"boot {boot.place + 1} of this job")
    found = campaign.CollectedJob(
        schema="fleet-collected-2",
        campaign=jobs.campaign,
        job=job.name,
        machine=machine,
        begun=log.begun,
        boots=tuple(boots),
    )
    document.write(record, found)


class _Boot:
    """One boot of a job. Its console is read at once; kept() writes its runs.

    Attributes:
        machine: its fingerprint; empty if none came home.
        why: for each run why it did not come home; empty for one that did.
    """

    def __init__(self, here: _Job, place: int, scratch: Path) -> None:
        self.here, self.place, self.scratch = here, place, scratch
        self.label = here.job.order[place]
        self.console: Console = here.log.boots[place] if place < len(here.log.boots) else []
        self.lines = [line for _, line in self.console]
        self.log = "".join(f"{line}\n" for line in self.lines).encode(errors="replace")
        self.machine: dict[str, str] = {}
        self.why: tuple[str, ...] = ()
        self.judgement: Judgement | None = None
        scratch.mkdir()
        if self.console:
            self.judgement = judge(self.log, [f"{COLLECTION}:{name}" for name in here.todo])
            self.why = disk_from(self.lines, scratch / "disk", len(here.todo))
            found = identity(scratch / "disk")
            # It becomes the name of a directory.
            self.machine = found if re.fullmatch(r"[0-9a-f-]{36}", found.get("boot_id", "")) else {}

    def kept(self, place: Path, same: dict[str, str], others: dict[str, str]) -> campaign.CollectedBoot:
        """Write the runs, and tell what became of the boot.

        Args:
            place: the directory of the machine.
            same: the fingerprint of another boot of this kernel in the job, if there is one.
            others: boots that are known already, and where from.
        """
        state, why = self._state()
        boot_id = self.machine.get("boot_id", "")
        if other := others.get(boot_id) if boot_id else "":
            state, why = "lost", f"its boot {boot_id} is in {other}, too: it counts once"
        if state == "failed" and not boot_id and same:
            boot_id = f"{self.here.job.name}-{self.place + 1}"
        if state != "lost" and boot_id:
            self._write({**same, **self.machine, "boot_id": boot_id}, place / self.label / boot_id)
        console = Verdict.INCONCLUSIVE
        if state != "lost" and self.judgement:
            console = self.judgement.verdict
            if state == "home" and console is not Verdict.PASS:
                problems = [each for each in self.judgement.problems if each.verdict is console]
                why = f"{problems[0].kind}: {problems[0].text}" if problems else console.value
        return campaign.CollectedBoot(self.place, self.label, state, boot_id, console, printable(why)[:300])

    def _state(self) -> tuple[campaign.BootState, str]:
        """What became of the boot, and whose fault it is that runs are missing."""
        log, judgement = self.here.log, self.judgement
        if not judgement:
            said = f": {log.trouble[1] or log.trouble[0]}" if any(log.trouble) else ""
            if self.place < len(log.boots):
                return "lost", f"nothing was on the console: a lost board, or a boot that timed out{said}"
            return "lost", f"LAVA did not come to this boot{said or ('' if log.ended else ': the log ends before')}"
        lacking = [f"{name}: {why}" for name, why in zip(self.here.todo, self.why, strict=True) if why]
        if not lacking:
            version, wanted = self.machine.get("kernel", "").split(" ")[0], self.here.plan.kernel(self.label).version
            if version != wanted:
                return "lost", f"{version or 'an unknown kernel'} came up, and {wanted} was to boot"
            return "home", ""
        for problem in judgement.problems:
            if problem.kind in ("panic", "splat", "restart"):
                return "failed", f"{problem.kind}: {problem.text}"
        if judgement.verdict is Verdict.PASS:
            return "lost", f"a transfer failed: {lacking[0]}"
        if not any("Linux version " in line for line in self.lines):
            return "lost", f"the boot timed out: no kernel is on the console. LAVA says: {log.trouble[1] or 'nothing'}"
        last = self.place == len(log.boots) - 1
        if last and not log.ended:
            return "lost", f"the log ends in this boot: the job was killed, or it still runs; {lacking[0]}"
        if last and log.trouble[0] in _NOT_OF_THE_KERNEL:
            return "lost", f"LAVA says {log.trouble[0]}: {log.trouble[1]}"
        return "failed", lacking[0]

    def _write(self, machine: dict[str, str], target: Path) -> None:
        """Write the directory of this boot, in the place of one that was collected before."""
        here, place = self.here, self.scratch / "boot"
        plan = new_plan(here.suite, here.plan.runs, here.plan.seed, machine)
        started = {found[1]: at for at, line in self.console if (found := _BEGUN.search(line))}
        slots = {name: slot for slot, name in enumerate(here.todo)}
        document.write(place / PLAN, plan)
        write_atomic(place / _CONSOLE, self.log)
        for planned in plan.order:
            slot = slots[planned.name]
            # A board may have no clock. LAVA's dispatcher has one, the same for all boots of a machine.
            at = started.get(planned.name, self.console[0][0]).astimezone(UTC).replace(microsecond=0)
            run, log = brought(here.todo[planned.name], slot, self.scratch / "disk", machine, self.why[slot])
            plan.keep(place, planned, replace(run, started=at), log)
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        place.replace(target)


def _collected(directory: Path) -> list[campaign.CollectedJob]:
    again = "remove it, and collect the job again"
    return [
        document.read(path, campaign.CollectedJob, again) for path in sorted((directory / "collected").glob("*.json"))
    ]


def _tell(directory: Path, planned: Sequence[campaign.FleetJobs]) -> Verdict:
    wanted = {(job.name, at): label for jobs in planned for job in jobs.jobs for at, label in enumerate(job.order)}
    home: set[tuple[str, int]] = set()
    counts: Counter[tuple[str, str]] = Counter()
    verdicts = [Verdict.PASS]
    for found in _collected(directory):
        for boot in found.boots:
            counts[boot.kernel, boot.state] += 1
            how: str = boot.state
            if boot.state == "home":
                home.add((found.job, boot.place))
                verdicts.append(boot.console)
                how = f"console {boot.console.value}"
            elif boot.state == "failed":
                verdicts.append(Verdict.FAIL)
            if boot.why:
                print(f"{found.job} on {found.machine}, boot {boot.place + 1}, {boot.kernel}: {how}: {boot.why}")
    for label in dict.fromkeys(wanted.values()):
        print(f"{label}: {', '.join(f'{counts[label, state]} {state}' for state in ('home', 'failed', 'lost'))}")
    print(f"{len(home)} of {len(wanted)} boots are home")
    if missing := list(dict.fromkeys(name for name, _ in sorted(wanted.keys() - home))):
        verdicts.append(Verdict.INCONCLUSIVE)
        more = f" and {len(missing) - 8} more" if len(missing) > 8 else ""
        print(f"submit again, or collect: {', '.join(missing[:8])}{more}")
    if home:
        print(f"next: schedline gate --fleet {shlex.quote(str(directory / 'fleet'))}")
    return worst(verdicts)
