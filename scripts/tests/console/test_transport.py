# SPDX-License-Identifier: GPL-2.0
"""What a transport puts before the lines is taken off, and what is not understood is no pass."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from schedlib.console.judge import judge
from schedlib.guest.boot import Ending
from schedlib.verdict import Verdict

LOGS = sorted((Path(__file__).parents[1] / "logs").glob("*.log"))

PREFIXES: dict[str, Callable[[int], str]] = {
    "journalctl": lambda n: f"Mar  4 09:{n // 60 % 60:02}:{n % 60:02} box kernel: ",
    "syslog": lambda n: f"2026-03-04T09:{n // 60 % 60:02}:{n % 60:02}.{n:06}+00:00 box kernel: ",
    "github": lambda n: f"2026-03-04T09:{n // 60 % 60:02}:{n % 60:02}.{n:07}Z ",
    "serial logger": lambda n: f"[ttyS0 {n // 60 % 60:02}:{n % 60:02}] DUT-3> ",
    "numbered": lambda n: f"{n:6}| ",
    "nested": lambda n: f"2026-03-04T09:00:00Z runner[{n}]: (board 7) ",
    "python logging": lambda n: f"{'INFO' if n % 3 else 'DEBUG'} console Tue Mar  4 09:00:{n % 60:02}: ",
    # For these the reader was not written.
    "journal of unix times": lambda n: f"1772615400.{n:06} box kernel: ",
    "journal with units": lambda n: f"Wed 2026-03-04 09:{n // 60 % 60:02}:{n % 60:02} UTC box kernel[0]: ",
    "logcat": lambda n: f"03-04 09:{n // 60 % 60:02}:{n % 60:02}.{n % 1000:03}     0     0 I         : ",
    "grabserial": lambda n: f"[{n / 100:.6f} 0.010000] ",
    "minicom": lambda n: f"[2026-11-27 07:{n // 60 % 60:02}:{n % 60:02}.123] ",
    "tio": lambda n: f"[07:{n // 60 % 60:02}:{n % 60:02}.123] ",
    "netconsole": lambda n: f"6,{n + 400},{n + 1000000},-;",
    "kernelci": lambda n: f"07:{n // 60 % 60:02}:{n % 60:02}.123456  ",
    "gitlab": lambda n: f"2026-11-27T07:{n // 60 % 60:02}:{n % 60:02}.123456Z 01O ",
    "dmesg -x": lambda _: "kern  :info  : ",
    "tmt": lambda _: "        out: ",
    "pytest": lambda _: "INFO     console:runner.py:88 ",
    "labgrid": lambda n: f"  SerialDriver: [{n / 10:10.3f}] ",
    "avocado": lambda n: f"[stdlog] 2026-11-27 07:{n // 60 % 60:02}:{n % 60:02},123 avocado.vm DEBUG| ",
    "containerd": lambda n: f"2026-03-04T09:{n // 60 % 60:02}:{n % 60:02}.{n:09}Z stdout F ",
    "zuul": lambda n: f"2026-03-04 09:{n // 60 % 60:02}:{n % 60:02}.{n:06} | debian-trixie | ",
    "annotate-output": lambda n: f"09:{n // 60 % 60:02}:{n % 60:02} O: ",
    "multilog": lambda n: f"@4000000067c6d4{n % 100:02}1a2b3c{n % 100:02} ",
}


def framed(log: bytes, prefix: Callable[[int], str]) -> bytes:
    """The log behind a transport."""
    return b"\n".join(prefix(n).encode() + line if line else line for n, line in enumerate(log.split(b"\n")))


@pytest.mark.parametrize("name", PREFIXES)
def test_a_log_behind_any_prefix_is_judged_as_without(name: str) -> None:
    differ = []
    for path in LOGS:
        log = path.read_bytes().replace(b"\r\n", b"\n")
        if b"TAP version" not in log or b"\r" in log or log.startswith(b"- {"):
            continue
        plain, behind = judge(log), judge(framed(log, PREFIXES[name]))
        if plain.verdict is not behind.verdict:
            differ.append((path.name, plain.verdict.name, behind.verdict.name, behind.problems[:2]))
    assert not differ


def test_the_prefix_is_named() -> None:
    found = judge(framed(b"TAP version 13\n1..1\nok 1 a\n", PREFIXES["numbered"]), ending=Ending.EXITED)
    told = [(problem.kind, problem.text) for problem in found.problems]
    assert (found.verdict, told) == (Verdict.PASS, [("framing", "taken off each line: '     0| '")])


def test_a_log_with_two_framings_is_no_pass() -> None:
    log = b"a> TAP version 13\na> 1..2\na> ok 1 one\nok 2 two\n"
    assert judge(log, ending=Ending.EXITED).verdict is not Verdict.PASS


@pytest.mark.parametrize(
    "line",
    [
        "09:12 box4 k| INFO: task sleeper:4711 blocked for more than 122 seconds.",
        "<<board>> BUG: KASAN: slab-use-after-free in foo+0x12/0x40",
        "{mon} WARNING: CPU: 3 PID: 12 at kernel/sched/core.c:12 foo+0x1/0x2 | WARNING: CPU: 3 PID: 12 at x.c:1",
        "host4: Kernel panic - not syncing: softlockup: hung tasks",
    ],
)
def test_a_report_behind_something_unknown_is_no_pass(line: str) -> None:
    log = f"TAP version 13\n1..2\nok 1 one\n{line}\nok 2 two\n".encode()
    assert judge(log, ending=Ending.EXITED).verdict in (Verdict.INCONCLUSIVE, Verdict.FAIL)


FAULTS = {
    "riscv": """\
[   12.100900] fault[812]: unhandled signal 7 code 0x1 at 0x0000003f8c1f2aa1 in fault[5d000+3000]
[   12.101340] CPU: 1 UID: 0 PID: 812 Comm: fault Not tainted 6.12.0 #3 NONE
[   12.101511] epc : 0000003f8c05e2b4 ra : 0000003f8c05e2a8 sp : 0000003fe3b2c9f0
""",
    "x86": """\
[   12.101001] fault[812]: segfault at 0 ip 0000000000401136 sp 00007ffc4 error 6 in fault[401000+1000] likely on CPU 1
[   12.101340] Code: 48 8b 05 2e 0a 00 00 c3 <c7> 00 01 00 00 00
""",
    "traps": """\
[   12.101001] traps: fault[812] trap invalid opcode ip:401136 sp:7ffc4 error:0 in fault[1136,401000+1000]
""",
    "arm64": """\
[   12.101001] fault[812]: unhandled exception: DABT (lower EL), ESR 0x0000000092000046, in fault[400000+1000]
[   12.101340] CPU: 0 UID: 0 PID: 812 Comm: fault Not tainted 6.12.0 #3 PREEMPT
[   12.101350] Hardware name: linux,dummy-virt (DT)
[   12.101511] pstate: 60001000 (nZCv daif -PAN -UAO)
""",
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_fault_of_a_program_is_not_the_kernels(name: str) -> None:
    log = f"TAP version 13\n1..2\nok 1 one\n{FAULTS[name]}ok 2 two\n".encode()
    assert judge(log, ending=Ending.EXITED).verdict is Verdict.PASS
    # The same lines without the headline, and a report of the kernel behind it.
    rest = FAULTS[name].split("\n", 1)[1]
    if "CPU: " in rest or "Code: " in rest:
        lost = f"TAP version 13\n1..2\nok 1 one\n{rest}ok 2 two\n".encode()
        assert judge(lost, ending=Ending.EXITED).verdict is Verdict.FAIL
    oops = "[   13.000000] BUG: kernel NULL pointer dereference, address: 0000000000000008\n"
    both = f"TAP version 13\n1..2\nok 1 one\n{FAULTS[name]}{oops}ok 2 two\n".encode()
    assert judge(both, ending=Ending.EXITED).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    "said",
    [
        "Aborted (core dumped)",
        "Segmentation fault",
        "./run.sh: line 12:  4711 Killed                  ./helper",
        "==4711==ERROR: AddressSanitizer: heap-use-after-free on address 0x602",
        "helper: helper.c:31: main: Assertion `found' failed.",
        "*** stack smashing detected ***: terminated",
        "free(): invalid pointer",
        "# ./run.sh: line 3: 99 Bus error               (core dumped) ./x",
    ],
)
def test_a_program_that_died_before_its_ok_fails(said: str) -> None:
    log = f"TAP version 13\n1..2\nok 1 one\n{said}\nok 2 two\n"
    found = judge(log.encode(), ending=Ending.EXITED)
    assert [(test.name, test.outcome.name) for test in found.tests] == [("one", "PASS"), ("two", "FAIL")]
    # A result that says so already, and one that died at its end.
    assert judge(log.replace("ok 2 two", "ok 2 two # SKIP no memory").encode()).verdict is Verdict.PASS
    assert judge(f"TAP version 13\n1..1\nok 1 one\n{said}\n".encode()).verdict is Verdict.FAIL


@pytest.mark.parametrize("said", ["the kernel is expected to be Killed", "# Segmentation fault handlers: 3", "aborted"])
def test_words_about_death_are_no_death(said: str) -> None:
    assert judge(f"TAP version 13\n1..1\n{said}\nok 1 one\n".encode()).verdict is Verdict.PASS


def test_a_program_alone_may_use_a_name_again_and_print_its_plan_at_the_end() -> None:
    found = judge(b"TAP version 13\nok 1 map\nnot ok 2 map\nok 3 map # SKIP no memory\n1..3\n", ending=Ending.EXITED)
    outcomes = {test.name: test.outcome.name for test in found.tests}
    assert outcomes == {"map": "PASS", "map (result 2)": "FAIL", "map (result 3)": "SKIP"}
    assert judge(b"TAP version 13\nok 1 map\n1..2\n", ending=Ending.EXITED).verdict is Verdict.FAIL
    assert judge(b"TAP version 13\nok 1 map\n", ending=Ending.EXITED).verdict is Verdict.FAIL
