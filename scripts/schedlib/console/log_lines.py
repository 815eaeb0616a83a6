# SPDX-License-Identifier: GPL-2.0
"""The kernel's messages in a console log: clean lines, the signs of boot, shutdown and trouble, and races.

Nothing here raises, whatever the bytes are, and the cost of a line does not depend on the lines around it.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

LONGEST_LINE = 16384
"""Bytes of a line that are read. No kernel message is longer, and a pattern must not search 50 MB. Beyond this limit
only a panic, a report or a failed expectation is read, because garbage without a newline can precede it."""


class LogLine(NamedTuple):
    """One message, without the prefixes that the transport added."""

    number: int
    end: int
    """Offset in the log at which this line ends, in bytes."""
    stamp: float | None
    """The kernel's own clock, in seconds, if the message shows it."""
    text: str
    cut: str = ""
    """Why the message may be incomplete: 'printk' interrupted it, or the log's 'end' came without a newline."""


_STAMP = r"\[ *(\d{1,9}\.\d{6})\](?:\[ *[TC]\d{1,9}\])? ?"
# In this order: the host's clock (LAVA, GitHub, ts, syslog, journalctl), syslog's host and program, a level, dmesg -x,
# then dmesg -T, dmesg -H or the kernel's clock and caller.
_PREFIX = re.compile(
    r"(?:(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?|"
    r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,9})?) (?:[\w.-]{1,64} kernel(?:\[\d+\])?: )?)?"
    rf"(?:<\d{{1,3}}>)?(?:[a-z]{{2,8}} {{0,3}}:[a-z]{{2,8}} {{0,3}}: )?"
    rf"(?:\[(?:[A-Z][a-z]{{2}} )?[A-Z][a-z]{{2}} ?[ \d]\d \d\d:\d\d(?::\d\d \d{{4}})?\] ?|"
    rf"\[ *\+\d{{1,9}}\.\d{{6}}\] ?|{_STAMP})?",
    re.ASCII,
)
_STAMP_INSIDE = re.compile(r"(?<=.)" + _STAMP, re.ASCII)
_ANSI = re.compile(rb"\x1b(?:\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])")
_UNSEEN = (b"\x1b", b"\0", b"\r", b"\f", b"\v")
_MAYBE_PREFIXED = frozenset("[<0123456789abcdefghijklmnopqrstuvwxyzADFJMNOS")

_VERSION = re.compile(r"K?TAP version \d{1,3} *$", re.ASCII)
_PARTS = re.compile(
    r"(?P<month>(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec|Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b)|"
    r"(?P<digits> *\d+)|(?P<level>(?:DEBUG|INFO|NOTICE|WARN|WARNING|ERROR)\b *)|(?P<other>.)",
    re.ASCII,
)
_OWN_LINE = re.compile(r" *(?:K?TAP version \d|(?:not )?ok \d|1\.\.\d)", re.ASCII)


class Framing(NamedTuple):
    """What a transport has put before each line.

    Attributes:
        example: the prefix of the first line of KTAP.
        unknown: the part of it that is learned from this log; other numbers, months and levels may stand in it.
        alien: a line of KTAP without that part; 0 if there is none. Such a log is not understood.
    """

    example: str
    unknown: re.Pattern[str] | None
    alien: int = 0


def framing(log: bytes) -> Framing | None:
    """The prefix of syslog, of journalctl, or of a transport that nobody has told us about."""
    dirty = any(byte in log for byte in _UNSEEN)
    learned: Framing | None = None
    for number, raw in enumerate(io.BytesIO(log), 1):
        text = _clean(raw[:LONGEST_LINE], dirty)
        if learned is None:
            version = _VERSION.search(text) if "TAP version " in text else None
            if version is None:
                continue
            known = _PREFIX.match(text)
            # The output of a program of run_kselftest.sh begins with `# `.
            own = re.sub(rf"(?:{_STAMP})?(?:# *)*$", "", text[known.end() if known else 0 : version.start()])
            if own.strip():
                learned = Framing(text[: known.end() if known else 0] + own, re.compile(_shape(own)))
            else:
                return Framing(text[: version.start()], None) if known and " kernel" in known[0] else None
        elif _OWN_LINE.match(text):
            return learned._replace(alien=number)
    return learned


def _shape(prefix: str) -> str:
    """A pattern for a prefix: its numbers, months, days and levels may differ in other lines."""
    kinds = {"month": "[A-Z][a-z]{2}", "digits": r" *\d+", "level": "[A-Z]{4,7} *"}
    return "".join(kinds.get(str(part.lastgroup), re.escape(part[0])) for part in _PARTS.finditer(prefix))


def lines(log: bytes, learned: Framing | None = None) -> Iterator[LogLine]:
    """Every message of a log. Its number is the line number in the file, even if a line holds two messages.

    `learned`: a prefix that is taken off, too; see framing().
    """
    unknown = learned.unknown if learned else None
    dirty = any(byte in log for byte in _UNSEEN)
    end = 0
    for number, raw in enumerate(io.BytesIO(log), 1):
        end += len(raw)
        beyond = _beyond(raw) if len(raw) > LONGEST_LINE else b""
        cut = "" if raw.endswith(b"\n") else "end"
        text = _clean(raw[:LONGEST_LINE], dirty)
        if text[:1] in ("-", "{", " ", "\t") and (record := _RECORD.match(text)):
            text = _said(text[record.end() :])
        stamp = None
        if unknown and (prefix := _PREFIX.match(text)) and (taken := unknown.match(text, prefix.end())):
            stamp = float(prefix[1]) if prefix[1] else None
            text = text[taken.end() :]
        if text[:1] in _MAYBE_PREFIXED and (prefix := _PREFIX.match(text)):
            stamp = float(prefix[1]) if prefix[1] else stamp
            text = text[prefix.end() :]
        if text.startswith("\t"):  # some producers indent KTAP by tabs
            text = text.replace("\t", "    ", len(text) - len(text.lstrip("\t")))
        if (dirty and "\r" in text) or (text.find("[", 1) > 0 and _STAMP_INSIDE.search(text)):
            yield from _pieces(LogLine(number, end, stamp, text, cut))
        else:
            yield LogLine(number, end, stamp, text, cut)
        if beyond and not text.lstrip(" ").startswith("#"):
            yield LogLine(number, end, stamp, _clean(beyond, dirty), "printk")


def _beyond(raw: bytes) -> bytes:
    """The first panic, report or failed expectation in the rest of a line that is too long, with the text after it."""
    loud = any(raw.find(word, LONGEST_LINE) >= 0 for word in _LOUD_WORDS)
    found = _LOUD.search(raw, LONGEST_LINE) if loud else None
    return raw[found.start() : found.start() + LONGEST_LINE] if found else b""


def _clean(raw: bytes, dirty: bool) -> str:
    """The text of a line, without its line end and without what a terminal does not show."""
    if dirty:
        raw = _ANSI.sub(b"", raw).translate(None, b"\0\f\v")
    return raw.decode(errors="replace").rstrip("\r\n")


def _pieces(line: LogLine) -> Iterator[LogLine]:
    """Split a line with several messages: at a CR a terminal starts the line again, at a time stamp printk cut in."""
    for text in line.text.split("\r"):
        start, stamp = 0, line.stamp
        # Do not split a `#` line at time stamps: it may quote dmesg.
        for inside in () if text.lstrip(" ").startswith("#") else _STAMP_INSIDE.finditer(text):
            yield line._replace(text=text[start : inside.start()], stamp=stamp, cut="printk")
            start, stamp = inside.end(), float(inside[1])
        yield line._replace(text=text[start:], stamp=stamp)


_LAVA_DONE = "Job finished correctly"
"""The last message of LAVA's dispatcher: the job ran to its end, and no line of the target is lost."""
_RECORD = re.compile(r'- (?=\{"dt": )|(?=\{"\w+" ?: ?.*"(?:MESSAGE|stream)")|[ \t]+(?="(?:msg|MESSAGE)" ?: ")')


def _said(text: str) -> str:
    """The message in a record of LAVA's logs.yaml, journalctl -o json or Docker, or in its line of a record of many.

    Of the messages of LAVA's dispatcher only the last one is kept.
    """
    try:
        record = json.loads(text if text.startswith("{") else f"{{{text.rstrip(', ')}}}")
    except (ValueError, RecursionError):
        return text
    said = next((record[key] for key in ("MESSAGE", "msg", "log") if key in record), None)
    if not isinstance(said, str) or ("dt" in record and record.get("lvl") != "target" and said != _LAVA_DONE):
        return ""
    # JSON can hold half a surrogate pair.
    return said.encode(errors="replace").decode().rstrip("\r\n").replace("\n", " ")


class LogEvent(NamedTuple):
    """A message about the state of the kernel or of the run."""

    kind: str
    line: int
    text: str


# The headline of a report: the kernel's formats at the start of a message, after an optional `subsystem: `. After
# `WARNING: ` only those of __warn() (7.x, then 6.x) and lockdep count; other text is a remark (mitigations, firmware).
_HEADLINES = (
    r"(?P<panic>Kernel panic - not syncing|Rebooting in \d+ seconds\.\.)",
    r"(?:[Kk]ernel )?BUG(?:: | at | [\w:-]+ \(.*\): )",
    r"\[ (?:BUG|INFO): ",
    r"WARNING: (?:\S+:\d+ )?at ",
    r"WARNING: CPU: \d+ PID: \d+ at ",
    r"WARNING: (?:possible |inconsistent lock|suspicious RCU|chain_key |Nested lock |bad (?:unlock|contention))",
    r"WARNING: (?:held lock freed|lock held when|.*(?:lock order detected|still has locks held))",
    r"INFO: (?:possible |inconsistent lock|suspicious RCU|trying to register non-static key)",
    r"INFO: (?:task \S.* blocked|.*detected (?:\w+ )?stall)",
    r"(?:.{0,20}: )?soft lockup - CPU#\d+ stuck for|unregister_netdevice: waiting for|EXT4-fs error \(device ",
    r"Watchdog detected hard LOCKUP|.*kthread starved for",
    r"(?:UBSAN|KASAN|KCSAN|KMSAN|KFENCE): ",
    r"general protection fault|double fault|divide error|invalid opcode|stack segment: |int3: |PANIC: ",
    r"Unable to handle kernel |Internal error: |Bad mode in |Kernel mode fault at ",
    r"bad: scheduling from the idle thread|list_(?:add|del) corruption|DEBUG_LOCKS_WARN_ON",
    r"\d+ new suspected memory leaks|Out of memory: Killed process",
    r"(?:\[Hardware Error\]: )?(?:CPU[ #]?\d+: )?Machine [Cc]heck",
    # What the kernel prints of itself at level crit or worse, or on its way out of a mistake: see kernel-messages.toml.
    r"Fixing recursive fault|note: \S.* exited with (?:preempt_count|irqs disabled)|huh, entered .* exited with",
    r"initcall \S+ returned with |irq \d+: nobody cared|Disabling IRQ #\d|(?:\d+\.\d+ )?No irq handler for",
    r"Uhhuh\. NMI|Dazed",
    r"Thread overran stack|Insufficient stack space|refcount_t: |panicked at |ODEBUG: |CFI failure at|CFI: mismatch",
    r"Kernel memory \S+ attempt detected|kernel tried to execute|unable to execute userspace code|Bad pagetable",
    r".*: Corrupted page table at|Unhandled .{1,40} exception on CPU|SError Interrupt on|Unable to stop the cpu",
    r"CPU \d+ Unable to handle kernel|MSR access error: ",
    r"CPU[ #]*\d+:? (?:Possible|failed to |is stuck in kernel|died during |cpu didn't die|will not boot|"
    r"Unknown IPI|may not)",
    r"Fatal kernel bug|(?:Re-sending )?CSD lock|.*non-responsive CSD lock|NMI: (?:PCI|IOCK) ",
    r"CPUs not responding|recursive probe hit|sched_clock on CPU \d+ went backward",
    r"Failed to broadcast timer tick|Page cache invalidation failure|tree is corrupted|kobject .* seriously wrong",
    r"capable\(\) called with invalid cap|Detected conflict for capability|leaking kmmio|(?:Read|Write)-error on swap",
    r"detected buffer overflow in |Unsupported exception in #VC|Unknown result in \S+\(\):",
    r"unrecognized swap entry|Decompression error from|Adding module .* to sysfs failed|initrd overwritten",
    r".{0,200}\[#\d{1,4}\]:?(?: [A-Z_]{2,20}(?:=\S{1,20})?)* *$",
)
_HEADLINE = re.compile(r"(?:[\w.-]{1,40}: ){0,2}(?:" + "|".join(_HEADLINES) + ")")
# A program that faults has a report of its own, which no test of the kernel has to avoid.
_USER_FAULT = re.compile(
    r"(?:traps: )?\S{1,40}\[\d+\]:? (?:segfault|unhandled signal|unhandled exception|bad frame in|bus error|"
    r"general protection fault|trap (?:invalid|divide|int3)|illegal instruction)|User process fault: |"
    r"(?:traps: )?\S{1,40}\[\d+\]: (?:undefined instruction|syscall \d)|"
    r"\S{1,40} invoked oom-killer: "  # of a memory cgroup, as a test may want; else a headline follows
)
# Kernel reports in a line whose beginning is not understood.
_INSIDE = re.compile(
    r"[\]:|>)] *(?:Kernel panic - not syncing|BUG: (?:K[A-Z]+: |kernel NULL|unable to handle|scheduling while|"
    r"sleeping function|soft lockup|spinlock|workqueue lockup)|INFO: task \S+ .{0,40}blocked |"
    r"INFO: rcu\w* .*detected|WARNING: (?:CPU: \d+ PID: \d+ at|\S+:\d+ at \S+\+0x|possible circular)|"
    r"-----\[ cut here|Oops: |UBSAN: |Unable to handle kernel |general protection fault)"
)
# The other lines of a report. After a headline they belong to its report; alone they show that a headline was lost.
_TRAIL = re.compile(
    r"-{4,}\[ cut here \]|-+\[ end (?P<panic>Kernel panic|trace)|Call [Tt]race:|stack backtrace:|Modules linked in:|"
    r"RIP: 00|CPU: \d+ (?:UID: \d+ )?PID: \d+ Comm: |Hardware name: |Code: [0-9a-f]{2} |<TASK>$|"
    r"(?:Internal error: )?Oops(?:: | - )|page dumped because: |\"echo 0 > /proc/sys/kernel/hung_task_timeout_secs\""
)
# Headlines that are recognised anywhere in a line: on a console without time stamps a message may follow a program's
# output on the same line.
_GLUED = re.compile(
    r"Kernel panic - not syncing|---\[ end trace|-----\[ cut here|"
    r"BUG: (?:K[A-Z]+: |kernel NULL|unable to handle|scheduling while|sleeping function|soft lockup|spinlock|failure )|"
    r"WARNING: (?:CPU: \d+ PID: \d+ at|\S+:\d+ at \S+\+0x|possible circular)"
)
# Every line that the patterns above can match has one of these words. For most lines this search is enough.
_WORDS = re.compile(
    r"BUG|WARNING|INFO|panic|PANIC|SAN: |KFENCE|race|cut here|linked in|CPU: |RIP: |Oops|rror: |fault|divide e|opcode|"
    r"segment: |int3|Unable|Bad mode|bad: |corruption|LOCKUP|LOCKS|leaks|starved|TASK|Code: |Hardware|Rebooting|"
    r"segfault|unhandled|bad frame|bus error|illegal inst|undefined inst|process fault|exited with|turned with|nobody|"
    r"abling IRQ|irq handler|Uhhuh|Dazed|overran|stack space|refcount_t|panicked|ODEBUG|CFI|attempt det|tried to ex|"
    r"to execute|pagetable|ge table|exception on|SError|stop the c|achine [Cc]heck|access err|CPU[ #]?\d+:? [cfidwUmP]|"
    r"kernel bug|CSD|backward|probe hit|broadcast|invalidation|corrupted|seriously|invalid cap|conflict for|kmmio|swap|"
    r"Decompression|sysfs failed|overwritten|overflow in |exception in #VC|Unknown result|"
    r"soft lockup|unregister_netdevice|fs error|hung_task_timeout|"
    r"invoked oom|Out of mem|LAVA_SIG|exit|EXIT_CODE|terminating|Finished|##|NMI: |not respond|\[#\d|dumped bec|"
    r"run_tests\] Error|dropped \*|overrun|Missed|lost |ob failed|exceeded|uild |"
    r"cancel|not run|took longer|RESULT_|Error: "
)
_RUNNER_ERROR = re.compile(
    r"make(?:\[\d+\])?: \*\*\* .*run_tests\] Error \d|<LAVA_SIGNAL_TESTCASE .*RESULT=fail|"
    r"##\[error\]|##teamcity\[buildProblem |Finished: (?:FAILURE|UNSTABLE|ABORTED)$|"
    r"Script done .*COMMAND_EXIT_CODE=\"[1-9]"
)
_EXIT = re.compile(
    r".*\bexit(?:ed)?(?: with)?(?: ?code| status)?[ :='\"]{1,4}[1-9]\d{0,2}\b['\".]*$|"
    r"\S*qemu-\S+: terminating on signal|(?:Infrastructure|LAVA|Job|Test)Error: |"
    r"(?i:.*\b(?:job failed|job .{0,80}exceeded|build (?:timed out|was aborted|step .{1,80} failure)|"
    r"operation was cancel|deadline exceeded|could not run to|took longer than|result_(?:timed_out|aborted|failure)\b))"
)
_LOST = re.compile(
    r"\*\* \d+ printk messages dropped|"
    r".*(?:/dev/kmsg buffer overrun|Missed \d+ kernel messages|lost \d+ messages)"
)
_ENDS = "Restarting system|System halted|Power down|Power off not available: System halted instead|machine restart"
_LIFE = re.compile(
    r"(?P<banner>Linux version \d)|(?P<start>Kernel command line: |Booting Linux on physical CPU )|"
    rf"(?P<shutdown>reboot: (?:{_ENDS})(?: *$| with command ))|(?P<job>(?:lava-run: )?{_LAVA_DONE}$)|"
    r"(?P<runner>\[\d\d:\d\d:\d\d\] Elapsed time: [\d.]+s )|"
    r"(?P<disabled>kunit: disabled *$)|(?P<kunit>kunit executor: |kunit: (?:disabled|test interrupted))"
)
_FAILED = r"\b(?:EXPECTATION|ASSERTION) FAILED at "
EXPECTATION = re.compile(rf"(?:# ([^:]{{1,200}}): )?{_FAILED}")
"""KUnit's message of a failed check, anywhere in a line: other messages may precede it. The group is the case."""
_LOUD = re.compile(f"{_FAILED}|{_GLUED.pattern}".encode())
_LOUD_WORDS = (b"FAILED at ", b"Kernel panic", b"---[ ", b"BUG: ", b"WARNING: ")


def sign(line: LogLine) -> LogEvent | None:
    """What a line says about the kernel.

    Its kind is banner, start, shutdown, job (LAVA's end), runner, runner-error, exit (of some program), disabled,
    kunit, panic, splat, trail, user (a program faulted), lost (messages are missing) or framed (a report of the kernel
    behind something that is not understood).
    """
    text = line.text
    if text[:1] in ("B", "J", "L", "K", "r", "k", "l", "[") and (found := _LIFE.match(text)):
        return LogEvent(str(found.lastgroup), line.number, text)
    if not _WORDS.search(text) or (text.lstrip(" ").startswith("#") and not text.startswith(("##[error]", "##team"))):
        return None
    text = text.strip()
    if _USER_FAULT.match(text):
        return LogEvent("user", line.number, text)
    if found := _TRAIL.match(text):
        return LogEvent("panic" if found["panic"] == "Kernel panic" else "trail", line.number, text)
    if found := _HEADLINE.match(text):
        return LogEvent("panic" if found["panic"] else "splat", line.number, text)
    found = _GLUED.search(text.partition(" # ")[0])
    # In the name of a test such words stand behind a blank or a quote; a message is glued to the name itself.
    if found and not (_OWN_LINE.match(text) and not text[found.start() - 1].isalnum()):
        return LogEvent("panic" if found[0].startswith("Kernel panic") else "splat", line.number, text)
    for kind, pattern in (("runner-error", _RUNNER_ERROR), ("lost", _LOST), ("exit", _EXIT)):
        if pattern.match(text):
            return LogEvent(kind, line.number, text)
    if _INSIDE.search(text) and not _OWN_LINE.match(text):  # a result may quote a report as its reason
        return LogEvent("framed", line.number, text)
    return None


_USER_LINES = 40
"""Registers and code further from the fault of a program than this do not belong to it."""
_REPORT_LINES = 150
"""A stack trace further from its headline than this belongs to another report."""
_LEAD_LINES = 20
"""Registers or `cut here` may come before the headline, but not further before it than this."""


def reports(signs: Iterable[LogEvent]) -> tuple[LogEvent, ...]:
    """One sign for each panic and each splat: its headline, if it has one."""
    found: list[LogEvent] = []
    last = user = -_REPORT_LINES
    headless = False
    for each in signs:
        if each.kind == "user":
            user = each.line
        if each.kind == "trail" and 0 <= each.line - user < _USER_LINES and last < user:
            continue
        near = each.line - last < _REPORT_LINES
        if each.kind == "trail":
            if not near:
                found.append(each._replace(kind="splat"))
                headless = True
            last = each.line
        elif each.kind in ("panic", "splat"):
            if headless and each.line - found[-1].line <= _LEAD_LINES:
                found[-1] = each
            elif not (near and each.kind == found[-1].kind == "panic"):
                found.append(each)
            headless = False
            last = each.line
    return tuple(found)


@dataclass
class RaceReport:
    """One report.

    Attributes:
        line, text: of its headline.
        own: numbers of the lines that are its headline and trailer.
        accesses: each side of the race: `read`, `write (marked)`, ..., and its functions, innermost first.
        reordered: KCSAN delayed an access and saw the race at a later place: a barrier may be missing.
        complete: the log has its last line.
    """

    line: int
    text: str
    own: set[int]
    accesses: list[tuple[str, list[str]]] = field(default_factory=list)
    reordered: bool = False
    complete: bool = False


Explain = Callable[[Sequence[RaceReport]], Sequence[tuple[RaceReport, str]]]
"""A function that returns the reports of intended races, each with the reason why the race is intended."""

_RACE = re.compile(r"BUG: KCSAN: ")
_RACE_ACCESS = re.compile(
    r"(?:race at unknown origin, with )?((?:assert no |read|write)[\w ()-]*?) to 0x\S+ of \d+ bytes by "
)
_RACE_FRAME = re.compile(r" ([\w.]{1,128})\+0x[0-9a-f]+/0x[0-9a-f]+")
_RACE_TRAILER = "Reported by Kernel Concurrency Sanitizer on:"


class RaceReader:
    """Collects the reports of a log, line by line. Other messages between the lines of a report are not part of it."""

    def __init__(self) -> None:
        self.reports: list[RaceReport] = []
        self.open: RaceReport | None = None
        """The report that is being read. If there is none, only the first line of a report matters."""
        self._trailer = False

    def feed(self, line: LogLine) -> None:
        text = line.text
        if _RACE.match(text):
            self.open = RaceReport(line.number, text.strip(), {line.number})
            self._trailer = False
            self.reports.append(self.open)
            return
        if (report := self.open) is None:
            return
        if text.startswith("=========="):
            report.complete = self._trailer
            self.open = None
        elif text.startswith(_RACE_TRAILER):
            self._trailer = True
        elif self._trailer and text.startswith(("CPU: ", "Hardware name: ")):
            report.own.add(line.number)
        elif found := _RACE_ACCESS.match(text):
            report.accesses.append((found[1], []))
        elif report.accesses and (found := _RACE_FRAME.match(text)):
            report.accesses[-1][1].append(found[1])
        elif "+-> reordered to: " in text:
            report.reordered = True
