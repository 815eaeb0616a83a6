# SPDX-License-Identifier: GPL-2.0
"""A kernel's source as text: whether a directory is a kernel source, and which of the changes it has.

This needs neither a repository nor any library beyond the standard one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from schedlib.errors import SchedlineError
from schedlib.names import plain_toml
from schedlib.options import TreeOptions

HOOK = re.compile(r'\n#ifdef CONFIG_SCHED_\w+_KUNIT_TEST\n(?:#include "tests/\w+\.[ch]"\n)+#endif\n')
"""What the tests add at the end of a file of the kernel, also in an earlier form."""

_STUB = (
    ("#include <linux/sched/isolation.h>\n", "#include <kunit/static_stub.h>\n#include <linux/sched/isolation.h>\n"),
    (
        "#define llc_mask(cpu) arch_llc_mask(cpu)\n",
        """\
static const struct cpumask *llc_mask(int cpu)
{
	KUNIT_STATIC_STUB_REDIRECT(llc_mask, cpu);
	return arch_llc_mask(cpu);
}
""",
    ),
)
"""The only other edit, in topology.c: a test says which CPUs share an LLC while the kernel builds domains."""


def with_stub(text: str) -> str:
    """A file of the kernel with the edit; unchanged if it is not topology.c, or has no ids of LLCs."""
    if not all(old in text for old, _ in _STUB):
        return text
    for old, new in _STUB:
        text = text.replace(old, new, 1)
    return text


def without_hooks(text: str) -> str:
    """A file of the kernel as it was before the tests came."""
    text = HOOK.sub("", text)
    for old, new in _STUB:
        text = text.replace(new, old)
    return text


class Presence(Enum):
    """Whether a change is present, according to its signs."""

    PRESENT = "present"
    PARTIAL = "partial"
    ABSENT = "absent"
    NA = "n/a"


def presence(signs: Sequence[bool]) -> Presence:
    """Whether a change is present, from those of its signs that could be checked."""
    if not any(signs):
        return Presence.ABSENT if signs else Presence.NA
    return Presence.PRESENT if all(signs) else Presence.PARTIAL


@dataclass(frozen=True)
class SourceSigns:
    """The signs of a change in a source: patterns in the body of the struct or function that begins with `start`."""

    file: str
    start: str
    patterns: tuple[str, ...]

    def found_in(self, text: str) -> tuple[str, ...]:
        """For each pattern the text that matches it, or an empty string."""
        start = re.search(self.start, text, re.M)
        body = text[start.end() : text.find("\n}", start.end())] if start else ""
        found = (re.search(pattern, body) for pattern in self.patterns)
        return tuple(" ".join(match.group(0).split()) if match else "" for match in found)

    def place(self) -> str:
        """The struct or function, for people: `struct rq`, `select_idle_cpu()`."""
        words = readable(self.start)
        return f"{words.split()[-1]})" if words.endswith("(") else words.rstrip(" {")


def source_signs() -> dict[str, SourceSigns]:
    """The signs of every change, by its id (configs/changes.toml)."""
    with plain_toml("changes.toml") as rows:
        return {name: SourceSigns(row["file"], row["start"], tuple(row["patterns"])) for name, row in rows.items()}


def readable(pattern: str) -> str:
    r"""A text that a sign's pattern matches, for people: `id + nr_cpu_ids` for `\bid \+ nr_cpu_ids\b`."""
    text = re.sub(r"\\b|\^", "", pattern).replace(r"\s*", "").replace(r"\s+", " ")
    return re.sub(r"\\(.)", r"\1", text)


def require_kernel(path: Path, exists: Callable[[str], bool]) -> None:
    """SchedlineError if a source, of which `exists` knows the files, is no kernel's or too old for KUnit."""
    if not exists("Kbuild") or not exists("kernel/sched/sched.h"):
        observed = f"{path} is no kernel tree (no Kbuild, no kernel/sched/sched.h)"
        raise SchedlineError(observed, "give the top directory of a kernel source tree: --kdir PATH")
    if not exists("lib/kunit/test.c") or not exists("kernel/sched/build_policy.c"):
        observed = f"{path} is too old: it has no lib/kunit/test.c or no kernel/sched/build_policy.c"
        raise SchedlineError(observed, "use a kernel of 5.18 or later; 6.1, 6.12 and 7.3 are tested")


def require_tree(chosen: TreeOptions) -> None:
    """Reject a directory, see require_kernel(), before anything is looked up, locked or fetched."""
    if (kdir := chosen.kdir) is not None and kdir.is_dir():
        require_kernel(kdir, lambda name: (kdir / name).exists())


@dataclass(frozen=True)
class Found:
    """A change, and the evidence; each piece says what was seen."""

    change: str
    presence: Presence
    evidence: tuple[str, ...]

    def __str__(self) -> str:
        return "\n    ".join((f"{self.change}: {self.presence.value}", *self.evidence))


def of_source(read: Callable[[str], str | None]) -> Iterator[Found]:
    """Each change by its signs in the source. `read` returns the text of a file; None if there is no such file."""
    for change, signs in source_signs().items():
        text = read(signs.file)
        seen = signs.found_in(text or "")
        lacking = (pattern for pattern, found in zip(signs.patterns, seen, strict=True) if not found)
        evidence = [f"{signs.file} has `{found}`" for found in seen if found]
        evidence += [f"{signs.file} has no `{readable(pattern)}` in `{signs.place()}`" for pattern in lacking]
        if text is None:
            evidence = [f"there is no {signs.file}"]
        yield Found(change, presence([bool(each) for each in seen]), tuple(evidence))


def of_directory(path: Path) -> tuple[Found, ...]:
    """Each change by the files of a kernel tree as they are, git or not.

    Raises:
        SchedlineError: it is no kernel tree, or too old.
    """

    def read(name: str) -> str | None:
        file = path / name
        return file.read_text(errors="replace") if file.is_file() else None

    require_kernel(path, lambda name: (path / name).exists())
    return tuple(of_source(read))
