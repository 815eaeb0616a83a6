# SPDX-License-Identifier: GPL-2.0
"""The contracts of a directory of the kernel as plain rules, for who reviews a patch, and for programs that do."""

from __future__ import annotations

from collections.abc import Iterator

from schedlib.contracts.contract_rules import CONTRACTS, Rules
from schedlib.contracts.packs import all_rules
from schedlib.errors import SchedlineError
from schedlib.formats.contract_file import AccessClass
from schedlib.names import pack_names

_MEANING = {
    AccessClass.READ_MOSTLY: "written seldom, read by all CPUs",
    AccessClass.OWNER: "written often by the CPU that owns the object, hardly read by others",
    AccessClass.PUBLISHED: "written by the owner, read often by others",
    AccessClass.SHARED: "written by many CPUs",
    AccessClass.LOCK: "a contended lock and what its holder writes",
    AccessClass.COLD: "hardly touched while it matters",
}

_ASK = """\
Ask of each new member of these structures:
1. Which CPUs write it, and how often? Which read it, and from where?
2. Which line does it land on, with and without the options of its #ifdef? (schedline layout --kdir . --commit REV)
3. Does it belong to the group that it lies beside? A member that other CPUs write must not join what all CPUs read.
4. Does the structure become longer? By how many lines, for how many objects?
"""


def rules_text(directory: str) -> str:
    """The rules of the structures that a directory or file of the kernel declares.

    Raises:
        SchedlineError: there is no contract of a structure from there.
    """
    rules = all_rules((CONTRACTS.name, *pack_names()))
    prefix = directory.strip("/")
    tags = sorted(tag for tag, file in rules.files.items() if f"{file}/".startswith(f"{prefix}/"))
    if not tags:
        known = sorted({file.rpartition("/")[0] for file in rules.files.values()})
        raise SchedlineError(f"no structure of {directory} has a contract", f"some of these: {', '.join(known)}")
    parts = [f"# {prefix}: who owns which cache line\n", _ASK]
    parts += ["\n".join(_structure(rules, tag)) + "\n" for tag in tags]
    return "\n".join(parts)


def _structure(rules: Rules, tag: str) -> Iterator[str]:
    yield f"## struct {tag} ({rules.files[tag]})"
    for owner, group in rules.groups:
        if owner == tag:
            functions = (("read by", group.readers), ("written by", group.writers))
            told = "; ".join(f"{what} {', '.join(names)}" for what, names in functions if names)
            yield f"- {', '.join(group.members)}: {_MEANING[group.class_]}{'; ' if told else ''}{told}"
    mine = {clause.rule for clause in rules.clauses if clause.type == tag}
    yield from (f"- {rule.id}: {rule.reason}" for rule in rules.rules if rule.id in mine)
