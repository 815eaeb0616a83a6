# SPDX-License-Identifier: GPL-2.0
"""A contract held against a profile: whether each group is read and written as its class says."""

from __future__ import annotations

from collections.abc import Iterator

from schedlib.contracts.measured import CheckedGroup, Profile, check_contract, percent, ungrouped, verdict_of
from schedlib.formats.contract_file import Contract, read_contract
from schedlib.layout.layout_options import ContractCheckOptions
from schedlib.layout.struct_job import profile_of
from schedlib.verdict import Verdict


def check_against_profile(options: ContractCheckOptions) -> Verdict:
    """Print what of a contract does not fit a profile.

    Raises:
        SchedlineError: the contract is wrong, or the profile is no result of `schedline c2c`.
    """
    contract = read_contract(options.contract)
    profile = profile_of(options.profile, contract.struct)
    checked = check_contract(contract, profile)
    for text in _told(contract, profile, checked):
        print(text)
    verdict = verdict_of(checked)
    print(f"verdict: {verdict.name}")
    return verdict


def _told(contract: Contract, profile: Profile, checked: tuple[CheckedGroup, ...]) -> Iterator[str]:
    yield f"struct {contract.struct}, {profile.about}"
    if not profile.is_watched:
        yield f"the profile watches {', '.join(profile.watches)}, so it says nothing of struct {contract.struct}"
        yield "  next: count with another --objects; schedline c2c --help lists them"
        return
    if not checked:
        yield "the contract has no groups, so it declares no class that could be compared"
        yield f"  next: schedline layout contract init {contract.struct} --profile FILE writes groups with classes"
        return
    yield from _table(checked)
    for each in checked:
        if each.text:
            yield f"{each.verdict.name} {each.group.name}: {each.text}"
    for each in checked:
        yield from (f"{each.group.name}: {note}" for note in each.notes)
    if names := ungrouped(contract, profile):
        yield f"in no group, and not cold: {', '.join(names)}"


def _table(checked: tuple[CheckedGroup, ...]) -> Iterator[str]:
    rows = [("group", "declared", "measured", "accesses", "writes")]
    for each in checked:
        measured = " ".join(dict.fromkeys(found.value if found else "too little to tell" for found in each.measured))
        use = each.use
        accesses, writes = f"{use.accesses:,}", percent(use.writes, use.accesses)
        rows.append((each.group.name, each.group.class_.value, measured, accesses, writes))
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
