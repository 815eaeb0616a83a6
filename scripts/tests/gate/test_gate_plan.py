# SPDX-License-Identifier: GPL-2.0
"""The orders and the plan of a campaign's boots, and the service that makes them, on a machine that is played."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
import pytest
from campaigns import main, told

from by_schema import validate
from conftest import read_words
from schedlib.errors import SchedlineError
from schedlib.gate import boot_plan, gate_verb
from schedlib.gate.boot_plan import BLOCK_ORDERS, PresentBoot, blocks, read_progress, runs_of, status, step, version_in
from schedlib.gate.rules import load_gate
from schedlib.names import suite_of_gates
from schedlib.paths import CONFIGS
from schedlib.verdict import Verdict

TWO = ("base", "candidate")
THREE = ("base", "candidate", "placebo")


@pytest.mark.parametrize("labels", [TWO, THREE])
def test_an_order_is_balanced_block_by_block(labels: Sequence[str]) -> None:
    """So in no place one kernel is more than two boots ahead of another, which the gate would reject."""
    orders = set()
    for seed in range(50):
        for boots in (1, 2, 3, 4, 6, 20):
            *found, last = blocks(labels, boots, seed)
            assert all(Counter(block) == dict.fromkeys(labels, 4) for block in found)
            assert Counter(last) == dict.fromkeys(labels, boots - 4 * len(found))
        for a, b in combinations(labels, 2):
            orders |= {"".join("AB"[each == b] for each in block if each in (a, b)) for block in (*found, last)}
    assert orders == set(BLOCK_ORDERS)


def test_the_order_of_each_pair_is_drawn() -> None:
    found = blocks(TWO, 200, 1, 1)
    assert set(found) == {("base", "candidate"), ("candidate", "base")} and len(found) == 200
    assert 60 < sum(first == "base" for first, _ in found) < 140


def test_each_order_is_fair() -> None:
    """A drift meets both alike: their mean places differ by at most half a place; those of ABABABAB by one.

    Each place is the base's in half of the orders, so that nothing that happens there is always a change.
    """
    assert len(BLOCK_ORDERS) == len(set(BLOCK_ORDERS)) == 22
    for order in (*BLOCK_ORDERS, "ABABABAB"):
        places = [sum(place for place, kind in enumerate(order) if kind == which) / 4 for which in "AB"]
        assert (abs(places[0] - places[1]) <= 0.5) == (order in BLOCK_ORDERS)
        assert order.count("A") == order.count("B") == 4
        assert all(abs(order[:place].count("A") - order[:place].count("B")) <= 2 for place in range(9))
    assert "ABBABAAB" in BLOCK_ORDERS and "AAAABBBB" not in BLOCK_ORDERS
    assert [sum(order[place] == "A" for order in BLOCK_ORDERS) for place in range(8)] == [11] * 8


@dataclass
class Played:
    """A machine: what comes up after a command, and what the programs there return."""

    place: Path
    version: str = "own"
    number: int = 0
    ran: list[list[str]] = field(default_factory=list)
    booted: list[str] = field(default_factory=list)
    run_code: int = 0
    gate_code: int = 3
    reset: bool = False

    def schedline(self, words: Sequence[str]) -> int:
        self.ran.append(list(words))
        if words[0] == "gate":
            return self.gate_code
        runs = Path(words[words.index("--out") + 1]) / f"boot-{self.number}"
        runs.mkdir(parents=True, exist_ok=True)
        if self.reset:
            self.reset = False
            raise KeyboardInterrupt
        return self.run_code

    def boot(self, command: str) -> int:
        self.booted.append(command)
        return 0

    def up(self, version: str = "") -> None:
        """The next boot: of the kernel that was asked for, or of another one."""
        self.version = version or self.booted[-1].removeprefix("boot ")
        self.number += 1

    def step(self) -> Verdict:
        return step(self.place, PresentBoot(f"boot-{self.number}", self.version, self.schedline, self.boot))

    def go(self, boots: int, version: str = "") -> None:
        """A step and a boot, so many times."""
        for _ in range(boots):
            self.step()
            self.up(version)

    def killed(self) -> None:
        """A step that is killed while its runs are made."""
        self.reset = True
        with pytest.raises(KeyboardInterrupt):
            self.step()

    def states(self) -> list[str]:
        return [each.state for each in read_progress(self.place).attempts]


def words(place: Path, *more: str, kernels: str = "base=7.3-a,candidate=7.3-b", boots: str = "2") -> list[str]:
    out = ["--out", str(place), "--next-command", "boot {version}"]
    return ["gate", "plan", "--boots", boots, "--kernels", kernels, *out, *more]


@pytest.fixture(autouse=True)
def looks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gate that looks after one boot and after two, but for tests of the looks."""
    if "looks" not in request.node.name and "look_are" not in request.node.name:
        monkeypatch.setattr(
            boot_plan, "load_gate", lambda named: msgspec.structs.replace(load_gate(named), looks=(1, 2))
        )


@pytest.fixture
def played(tmp_path: Path) -> Played:
    """A machine with a plan of two boots of each kernel."""
    place = tmp_path / "campaign"
    assert main(words(place, "--seed", "1")) == 0
    return Played(place)


def plan_of(place: Path) -> Any:
    return json.loads((place / "plan.json").read_text())


def test_a_plan_is_written_before_the_first_boot(played: Played) -> None:
    found = plan_of(played.place)
    validate(found, "gate-plan-1")
    assert found["kernels"][1] == {"label": "candidate", "version": "7.3-b", "command": "boot 7.3-b"}
    assert (found["suite"], found["looks"], found["gates"]) == ("gate", [2], "default")
    assert found["blocks"] == [list(block) for block in blocks(TWO, 2, 1)]
    assert "a plan is never changed" in told(*words(played.place))[1]
    assert plan_of(played.place) == found
    code, said = told("gate", "plan", played.place, "--status")
    assert code == 3 and "0 of 4 boots are done" in said


def test_the_way_through_a_plan(played: Played) -> None:
    wanted = [label for block in plan_of(played.place)["blocks"] for label in block]
    for label in wanted:
        played.go(1)
        assert played.version == ("7.3-a" if label == "base" else "7.3-b")
    assert played.step() is Verdict.PASS
    progress = read_progress(played.place)
    assert [(each.kernel, each.state) for each in progress.attempts] == [(label, "done") for label in wanted]
    assert len(played.booted) == 4
    runs = [each for each in played.ran if each[0] == "run"]
    assert [each[each.index("--out") + 1] for each in runs] == [str(runs_of(played.place, label)) for label in wanted]
    assert played.ran[-1][:3] == ["gate", str(runs_of(played.place, "base")), str(runs_of(played.place, "candidate"))]
    assert progress.ended == "all boots are done"
    validate(json.loads((played.place / "progress.json").read_text()), "gate-progress-1")
    # After that each boot of the machine is its user's.
    played.up("own")
    assert played.step() is Verdict.PASS and len(played.booted) == 4 and len(played.ran) == 5
    assert status(played.place) is Verdict.PASS


@pytest.mark.parametrize(("code", "ends"), [(0, True), (1, True), (3, False), (2, False)])
def test_a_verdict_at_a_look_ends_the_campaign(code: int, ends: bool, tmp_path: Path) -> None:
    assert main(words(tmp_path / "campaign", "--seed", "1", boots="1..2")) == 0
    played = Played(tmp_path / "campaign", gate_code=code)
    played.go(3)
    # In the third boot; the look was at the end of the second.
    assert [each.boots for each in read_progress(played.place).looks] == [1]
    assert bool(read_progress(played.place).ended) is ends
    assert len(played.booted) == (2 if ends else 3)


def test_a_placebo_is_given_to_the_gate(tmp_path: Path) -> None:
    kernels = "base=a,candidate=b,placebo=c"
    assert main(words(tmp_path / "campaign", kernels=kernels, boots="1")) == 0
    played = Played(tmp_path / "campaign")
    played.go(3)
    played.step()
    look = played.ran[-1]
    assert look[look.index("--placebo") + 1] == str(runs_of(played.place, "placebo"))


def test_a_boot_that_was_killed_in_the_middle_is_repeated(played: Played) -> None:
    played.go(1)
    first, cut = played.version, played.number
    played.killed()
    played.up("own")
    played.step()
    # The gate must not see half a boot.
    assert (played.place / f"cut/boot-{cut}").is_dir()
    assert not list((played.place / "runs").glob(f"*/boot-{cut}"))
    played.up()
    assert played.version == first
    played.step()
    assert played.states()[:3] == ["cut", "done", "asked"]
    assert [each.place for each in read_progress(played.place).attempts][:3] == [0, 0, 1]


def test_a_service_that_was_killed_goes_on_in_the_same_boot(played: Played) -> None:
    played.go(1)
    played.killed()
    # The second time it is killed after the kernel was asked for, and before the reboot: it is asked for again.
    for _ in range(2):
        played.step()
        assert played.states() == ["done", "asked"]
    assert played.booted[-1] == played.booted[-2]


def test_a_boot_that_never_came_back_is_repeated(played: Played) -> None:
    played.go(1, "own")
    played.go(1)
    last = read_progress(played.place).attempts
    assert (last[0].state, last[0].why, last[0].boot_id) == ("lost", "own came up", "")
    played.step()
    assert played.states() == ["lost", "done", "asked"]


@pytest.mark.parametrize(
    ("version", "code", "state", "why"),
    [
        ("own", 0, "lost", "was lost 3 times in a row; the last time: own came up"),
        ("", 2, "cut", "was lost 3 times in a row; the last time: schedline run --suite gate ended with 2"),
    ],
)
def test_three_losses_of_a_kernel_in_a_row_end_it(
    version: str, code: int, state: str, why: str, played: Played
) -> None:
    """Runs that failed are no boot, either."""
    played.run_code = code
    played.go(4, version)
    assert (len(played.booted), played.states()) == (3, [state] * 3)
    assert why in read_progress(played.place).ended
    assert status(played.place) is Verdict.INCONCLUSIVE


def test_a_command_that_boots_nothing_is_told(played: Played) -> None:
    def broken(_: str) -> int:
        return 7

    with pytest.raises(SchedlineError, match=r"the command that boots \w+ ended with 7"):
        step(played.place, PresentBoot("first", "own", played.schedline, broken))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--kernels", "base=a"], "1 kernels"),
        (["--kernels", "base=a,candidate=a"], "two kernels have the same label or version"),
        (["--kernels", "base=a,base=b"], "two kernels have the same label"),
        (["--kernels", "base"], "is no kernel"),
        (["--boots", "9..6"], "is no number of boots"),
        (["--boots", "0"], "is no number of boots"),
        (["--next-command", "boot {kernel}"], "has braces with 'kernel'"),
        (["--gates", "nope"], "there is no gates file"),
        (["--only", "rt-wake-up"], "there is no row"),
        (["--losses", "0"], "is no number from 1"),
        (["--kernels", "base=a:/no/such/image,candidate=b"], "there is no file /no/such/image"),
    ],
)
def test_a_wrong_plan_is_refused(more: list[str], message: str, tmp_path: Path) -> None:
    code, said = told(*words(tmp_path / "campaign", *more))
    assert code is None and message in said
    assert not (tmp_path / "campaign").exists()


def test_looks_are_between_the_least_and_the_most(tmp_path: Path) -> None:
    looks = load_gate("default").looks
    for boots, wanted in (("1..30", looks), (f"{looks[1]}..{looks[2] + 1}", looks[1:3]), (f"{looks[0]}", looks[:1])):
        assert main(words(tmp_path / boots, boots=boots)) == 0
        assert tuple(plan_of(tmp_path / boots)["looks"]) == wanted
    # Without --boots there are as many as the gates file may want.
    argv = words(tmp_path / "all")
    del argv[argv.index("--boots") : argv.index("--boots") + 2]
    assert main(argv) == 0
    assert sum(map(len, plan_of(tmp_path / "all")["blocks"])) == 2 * looks[-1]


def test_too_few_boots_for_a_look_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words(tmp_path / "campaign", boots="2")) == 0
    assert (
        "a PASS takes 20 boots of each kernel, and these are 2: it will be FAIL or INCONCLUSIVE"
        in capsys.readouterr().err
    )
    assert plan_of(tmp_path / "campaign")["looks"] == []


def test_a_gates_file_of_ones_own_needs_a_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(CONFIGS / "gates/default.toml", "mine.toml")
    assert (suite_of_gates("default"), suite_of_gates("other")) == ("gate", None)
    assert (
        "no suite measures the gates file mine.toml" in told(*words(tmp_path / "campaign", "--gates", "mine.toml"))[1]
    )
    assert main(words(tmp_path / "campaign", "--gates", "mine.toml", "--suite", "quick")) == 0
    # The service has another working directory.
    assert plan_of(tmp_path / "campaign")["gates"] == str(tmp_path / "mine.toml")


def test_a_directory_whose_name_a_shell_or_systemd_would_read(tmp_path: Path) -> None:
    """Its unit began nothing, and the command of --status was another one."""
    place = tmp_path / "a \"b\" 'c' $d %e \\"
    assert main(words(place)) == 0
    _, said = told("gate", "plan", place, "--status")
    runs = [str(runs_of(place, label)) for label in TWO]
    assert shlex.split(said[said.index("schedline gate ") :]) == ["schedline", "gate", *runs, "--gates", "default"]
    unit = (place / boot_plan.SERVICE).read_text()
    assert f'ExecStart=/bin/sh "{tmp_path}/a \\"b\\" \'c\' $$d %%e \\\\/{boot_plan.SCRIPT}"\n' in unit
    assert "a line end or another control character" in told(*words(tmp_path / "a\nb"))[1]


def test_plan_is_an_operand_only_in_the_first_place(tmp_path: Path) -> None:
    (tmp_path / "plan").mkdir()
    found = read_words(gate_verb, "gate", str(tmp_path / "plan"), str(tmp_path))
    assert found.base == tmp_path / "plan"


def test_an_image_says_its_version(tmp_path: Path) -> None:
    image = bytearray(0x800)
    image[0x202:0x206] = b"HdrS"
    image[0x20E:0x210] = (0x300).to_bytes(2, "little")
    image[0x500:0x520] = b"7.3.4-new (me@here) #1 SMP".ljust(0x20, b"\0")
    assert version_in(bytes(image)) == "7.3.4-new"
    image[0x202] = 0
    (tmp_path / "bzImage").write_bytes(image)
    argv = words(tmp_path / "campaign", kernels=f"base={tmp_path}/bzImage,candidate=b")
    assert "does not say its version" in told(*argv)[1]


@pytest.mark.parametrize("boot", ["kexec", "bootctl"])
def test_commands_that_boot_a_kernel_once(boot: str, tmp_path: Path) -> None:
    for name in ("old image", "new"):
        (tmp_path / name).touch()
    kernels = f"base=7.3-a:{tmp_path}/old image,candidate=7.3-b:{tmp_path}/new:{tmp_path}/new"
    argv = ["gate", "plan", "--boots", "1", "--kernels", kernels, "--boot", boot, "--out", str(tmp_path / "campaign")]
    assert main(argv) == 0
    commands = [each["command"] for each in plan_of(tmp_path / "campaign")["kernels"]]
    wanted = {
        "kexec": f"kexec -l '{tmp_path}/old image' --reuse-cmdline && if",
        "bootctl": "bootctl set-oneshot '*7.3-a.conf' && if",
    }
    assert commands[0].startswith(wanted[boot])
    assert (f"--initrd={tmp_path}/new" in commands[1]) is (boot == "kexec")
    for command in commands:
        assert subprocess.run(["sh", "-n", "-c", command], check=False).returncode == 0


def test_the_script_and_the_unit_call_the_step(played: Played) -> None:
    script = (played.place / boot_plan.SCRIPT).read_text()
    assert f"gate plan {played.place} --step" in script
    assert subprocess.run(["sh", "-n", played.place / boot_plan.SCRIPT], check=False).returncode == 0
    unit = (played.place / boot_plan.SERVICE).read_text()
    assert re.search(rf'^ExecStart=/bin/sh "{re.escape(str(played.place))}/{boot_plan.SCRIPT}"$', unit, re.M)
    if shutil.which("systemd-analyze"):
        argv = ["systemd-analyze", "verify", str(played.place / boot_plan.SERVICE)]
        done = subprocess.run(argv, check=False, capture_output=True, text=True)
        assert boot_plan.SERVICE not in done.stderr
