# SPDX-License-Identifier: GPL-2.0
"""Documents that lie, by kind. Each is refused at once with a sentence, and never with an error of Python."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import campaigns
import pytest
import toy_results

from schedlib.c2c.observed import TraceHead, keep_trace, traced
from schedlib.cache import LARGEST_TEXT, read_text
from schedlib.console.expected import load_expected
from schedlib.errors import SchedlineError, in_words
from schedlib.fleet.lava_log import records
from schedlib.formats import document
from schedlib.formats.contract_file import Contract
from schedlib.formats.data_file import read_toml
from schedlib.formats.run_file import Run
from schedlib.gate.gate_options import ReadingOptions
from schedlib.gate.result_files import imported
from schedlib.gate.rules import load_gate
from schedlib.guest import home
from schedlib.main import start
from schedlib.paths import PROJECT

AT = '{"dt": "2026-11-25T10:00:00", "lvl": "target", "msg": '
OSC, CSI, C1, BIDI = "\x1b]0;x\x07", "\x1b[31m", "\x9b31m", "\u202e"


@pytest.fixture(autouse=True)
def _soon() -> object:
    """None of these takes long, whatever the square of its size is."""
    began = time.process_time()
    yield
    assert time.process_time() - began < 5


def run(**more: object) -> bytes:
    return json.dumps(campaigns.run("base", "b1", 0, [campaigns.metric(1000.5)]) | more).encode()


MANY = [campaigns.metric(1.5, name=f"m{number}") for number in range(100_000)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (run(metrics=[*MANY, MANY[-1]]), "the metric m99999 appears twice"),
        (run()[:-1] + b"".join(b', "x%d": 1' % number for number in range(100_000)) + b', "x99999": 2}', "x0"),
        (run().replace(b'"b1"', b'"b\xff"'), "it is not UTF-8 text"),
        (b"[" * 1_000_000, "Expected object"),
        (run(reason="[[").replace(b'"[["', b"[" * 1_000_000), "Expected str"),
        (run(uptime_s="9").replace(b'"9"', b"9" * 10_000), "out of range"),
    ],
)
def test_a_run(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(document.Refused) as refused:
        document.read(tmp_path / "run.json", Run, "next")
    assert said in refused.value.why and not re.search("Error|codec|Python", refused.value.why)


def test_a_key_that_is_there_twice_among_many() -> None:
    with pytest.raises(ValueError, match="k99999 appears twice"):
        document.keys_once([*((f"k{number}", 1) for number in range(100_000)), ("k99999", 2)])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (".".join(["a"] * 50_000) + " = 1", "nested too deeply"),
        ("[" + " . ".join(['"a"'] * 50_000) + "]", "nested too deeply"),
        ("x = " + "[" * 50_000, "nested too deeply"),
        ("x = " + "9" * 6000, "too large"),
        ("x = [\n" + "1,\n" * 50_000 + "]\n", "known are"),
        ('x = """' + '"\\"' * 50_000, "TOML"),
        ("a" * 900_000, "TOML"),
        ('"\\u001b]0;x\\u0007" = 1', "known are"),
    ],
)
def test_a_data_file(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text(text)
    for read in (lambda path: read_toml(path, Contract), lambda path: load_gate(str(path))):
        with pytest.raises(SchedlineError) as refused:
            read(tmp_path / "x.toml")
        assert said in str(refused.value) and "Python" not in str(refused.value)


@pytest.mark.parametrize(
    "line",
    [
        AT + '"' + '\\"' * 300_000,
        AT + "it's, " + "[" * 100_000 + "'",
        "'" + "a'b" * 200_000,
        "[" * 100_000,
        "- " * 100_000 + "a",
        AT + "{a: " * 100_000,
        AT + "? " * 100_000,
        AT.replace("2026-11-25T10:00:00", "0001-01-01T00:00:00+23:59") + '"x"}',
    ],
)
def test_a_record_of_lava(line: str) -> None:
    assert list(records(line)) == []


def test_a_text_with_many_brackets_is_no_depth() -> None:
    ((_, _, said),) = records(AT + json.dumps("[{- " * 2000) + "}")
    assert said == "[{- " * 2000


def archive(*members: tuple[str, bytes], mode: str = "w", headers: dict[str, str] | None = None) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as made:  # type: ignore[call-overload]
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size, member.pax_headers = len(content), headers or {}
            if name == "link":
                member.type, member.linkname, member.size = tarfile.SYMTYPE, "/etc/passwd", 0
            made.addfile(member, io.BytesIO(content))
    return stream.getvalue()


HOLE = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "a", "GNU.sparse.realsize": str(1 << 37)}


@pytest.mark.parametrize(
    ("data", "whole"),
    [
        (b"hello" * 200, False),
        (b"", False),
        (archive(("a", b"x" * 2000))[:700], False),
        (gzip.compress(archive(("a", b"x"))), False),
        (archive(("a", b"0" * (64 << 20)), mode="w:gz"), False),
        (b"\x1f\x8b\x08" + b"x" * 600, False),
        (archive(("a", b"x"), headers={"size": "99999999999999"}), False),
        (archive(("a", b"1\n0\n512\n".ljust(512, b"\0") + b"x" * 512), headers=HOLE), True),
        (archive(("..", b"x"), (".", b"x"), ("./", b"x"), ("../up", b"x"), ("/abs", b"x")), True),
        (archive(("deep/inside", b"x"), ("link", b"")), True),
    ],
    # gzip writes the time into what it packs: as an id this would differ between the processes that run the tests.
    ids=["text", "nothing", "cut off", "packed", "bomb", "damaged", "size", "hole", "outside", "inside"],
)
def test_an_archive_that_a_guest_sent(data: bytes, whole: bool, tmp_path: Path) -> None:
    disk, place = home.empty_disk(tmp_path / "disk", 1), tmp_path / "place"
    place.mkdir()
    home.put(disk, 0, data)
    assert (home.bring_home(disk, 0, place) == "") == whole
    assert list(place.iterdir()) == [] and {path.name for path in tmp_path.iterdir()} == {"disk", "place"}


@pytest.mark.parametrize("row", ["a:b classes=" + "9" * 5000, "a:b" + " " * 50_000 + "x", f"a:b{CSI}", "x" * 2000])
def test_a_list_of_tests(row: str, tmp_path: Path) -> None:
    (tmp_path / "tests.txt").write_text(row + "\n")
    with pytest.raises(SchedlineError, match=r"tests\.txt:1"):
        load_expected(tmp_path / "tests.txt", None)


def test_a_list_of_tests_may_have_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "tests.txt").write_text("\ufeffa:b\n")
    assert load_expected(tmp_path / "tests.txt", None) == ("a:b",)


@pytest.mark.parametrize("value", ["1_0", "\u0663", "nan", "inf", "0x10"])
def test_a_number_of_a_csv_file(value: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(f"a,1,us\nb,{value},us\n")
    with pytest.raises(SchedlineError, match="is no number"):
        imported(tmp_path, ReadingOptions(unit="run", columns=("metric", "value", "unit")))


def test_a_pipe_is_read_and_a_device_without_end_is_not(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"log")
    os.close(writer)
    assert read_text(f"/dev/fd/{reader}") == b"log"
    os.close(reader)
    with pytest.raises(OSError, match=f"more than {LARGEST_TEXT}"):
        read_text("/dev/zero")


def _in_head(change: Callable[[dict[str, object]], None], plain: bytes) -> bytes:
    head, _, tapes = plain.partition(b"\n")
    said = json.loads(head)
    change(said)
    return json.dumps(said).encode() + b"\n" + tapes


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda head: head["fingerprint"].pop("build_id"), "lacks build_id"),
        (lambda head: head["watches"][0].update(key="x"), "no watch has the key"),
        (lambda head: head["guests"].append(head["guests"][0]), "appears twice"),
        (lambda head: head["guests"][0].update(length=1 << 40), "far larger"),
        (lambda head: head["guests"][0].update(quantum=True), "Expected"),
    ],
)
def test_a_trace(change: Callable[[dict[str, object]], None], said: str, tmp_path: Path) -> None:
    path = tmp_path / "toy.trace"
    found = toy_results.observed(tmp_path)
    keep_trace(path, found)
    path.write_bytes(gzip.compress(_in_head(change, gzip.decompress(path.read_bytes()))))
    with pytest.raises(document.Refused, match=said):
        traced(path, tmp_path)


def test_a_trace_that_is_damaged_or_a_pipe(tmp_path: Path) -> None:
    path = tmp_path / "toy.trace"
    path.write_bytes(gzip.compress(b"x" * 100)[:10] + b"\xff" * 40)
    with pytest.raises(document.Refused) as refused:
        traced(path, tmp_path)
    assert refused.value.why == "it is damaged"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(document.Refused, match=f"{TraceHead.kind()}: it is no regular file"):
        traced(path, tmp_path)


@pytest.mark.parametrize("error", [TypeError("'NoneType' object"), AttributeError("x"), ValueError("invalid literal")])
def test_no_words_of_python(error: Exception) -> None:
    assert in_words(error) == "a part of it is not as expected"


def test_no_escape_sequence_reaches_the_terminal(tmp_path: Path) -> None:
    name = tmp_path / f"{OSC}{CSI}{C1}{BIDI}"
    name.mkdir()
    done = subprocess.run(
        [sys.executable, PROJECT / "scripts/schedline", "gate", name, name], capture_output=True, check=False
    )
    assert done.returncode == 2 and not set("\x07\x1b\x9b\u202e") & set((done.stdout + done.stderr).decode())


def test_what_is_printed_without_thought_is_safe_too(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    def job(words: object) -> int:
        print(f"a{OSC}{C1}{BIDI}\tb\n", end="")
        print(CSI, file=sys.stderr)
        return 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("schedlib.main.main", job)
        assert start([]) == 0
    out, err = capfdbinary.readouterr()
    assert out.decode() == "a\ufffd]0;x\ufffd\ufffd31m\ufffd\tb\n" and err.decode() == "\ufffd[31m\n"
