# SPDX-License-Identifier: GPL-2.0
"""What the kernel's sources can print as a report of trouble is known to the reader of logs."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from schedlib.cache import cache_dir
from schedlib.console.log_lines import LogLine, sign
from schedlib.tree.kernel_tree import Tree, cached_series

KNOWN = tomllib.loads((Path(__file__).parent / "kernel-messages.toml").read_text())
SPARED = re.compile("|".join(each for patterns in KNOWN["spared"].values() for each in patterns))
OLDER = re.compile("|".join(KNOWN["older-remarks"]))
REMARKS = {pattern: re.compile(pattern) for patterns in KNOWN["remarks"].values() for pattern in patterns}

STRINGS = r'((?:"(?:[^"\\]|\\.)*"\s*|KERN_\w+\s*)+)'
CALL = re.compile(r"\b(pr_(?:emerg|alert|crit)\w*|printk\w*|die\w*|__die)\s*\(\s*((?:[^\"();]|\([^()]*\))*?)" + STRINGS)
LOUD = re.compile("KERN_(EMERG|ALERT|CRIT)")
VALUES = ((r"%[-#0-9.*l]*h*[xXL]+", "2a"), (r"%[-0-9.*]*[lhzLj]*[diu]", "7"), (r"%\*?p\w*|%[-0-9.*]*s|%c", "x"))


def messages(tree: Path) -> Iterator[tuple[str, str]]:
    """File and first line of each message at level crit or worse, with values put in."""
    for directory in KNOWN["directories"]:
        for path in sorted((tree / directory).rglob("*.c")):
            name = str(path.relative_to(tree))
            if SPARED.fullmatch(name):
                continue
            for call, before, strings in CALL.findall(path.read_text(errors="replace")):
                if call.startswith("printk") and not LOUD.search(before + strings):
                    continue
                text = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', strings)).replace(r"\t", "  ").split(r"\n")[0]
                for pattern, value in VALUES:
                    text = re.sub(pattern, value, text)
                yield name, f"{text}: 0000 [#1] SMP" if "die" in call else text.replace(r"\"", '"')


def known(text: str) -> bool:
    found = sign(LogLine(1, 0, None, text))
    return found is not None or any(each.fullmatch(text) for each in (OLDER, *REMARKS.values()))


@pytest.mark.parametrize("name", ["7.3", "6.12", "6.1"])
def test_messages_of_the_sources_are_known(name: str, series: Tree) -> None:
    tree = cached_series(cache_dir(), name)
    if tree is None:
        pytest.skip(f"`schedline fetch --series {name}` has not run here")
    found = dict.fromkeys(messages(tree.src))
    assert len(found) > 200
    assert [each for each in found if not known(each[1])] == []


@pytest.mark.parametrize("text", KNOWN["older"])
def test_messages_of_older_sources_are_known(text: str) -> None:
    assert sign(LogLine(1, 0, None, text)) is not None


def test_each_remark_is_still_printed(series: Tree) -> None:
    texts = [text for _, text in messages(series.src)]
    gone = [pattern for pattern, each in REMARKS.items() if not any(each.fullmatch(text) for text in texts)]
    assert gone == []


@pytest.mark.parametrize("text", ["Something new went wrong on CPU 3", "sched: rq is lost"])
def test_a_new_message_would_be_missed(text: str) -> None:
    assert not known(text)
