# SPDX-License-Identifier: GPL-2.0
"""configs/contracts/<subsystem>/<struct>.toml: who reads and writes the members of a structure, and what is kept.

docs/contracts.md explains the format to its users.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import Enum
from itertools import combinations
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from schedlib.formats.data_file import KeyPath, nearest, read_toml, refuse
from schedlib.formats.strict import Strict, Word

_CONDITIONS = (
    r"has [\w.\[\]]+",
    r"64bit",
    r"line (==|<=|>=) [0-9]+",
    r"mask == [0-9]+",
    r"locks (plain|debugged)",
    r"!?CONFIG_[A-Z0-9_]+",
)
_EXAMPLES = ["64bit", "line >= 64", "mask == 8", "locks plain", "!CONFIG_SMP", "has rto_mask"]
Condition = Annotated[str, msgspec.Meta(pattern=f"^({'|'.join(_CONDITIONS)})$(?!\n)", examples=_EXAMPLES)]
"""What must be true of a kernel. `mask` is the size of a cpumask_var_t in bytes; `has` names a member."""

Conditions = tuple[Condition, ...]
Words = Annotated[tuple[Word, ...], msgspec.Meta(min_length=1)]

Tag = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_]\w*$(?!\n)")]
_NAME = r"[A-Za-z_]\w*(\[0\])?(\.[A-Za-z_]\w*(\[0\])?)*"
_MEMBERS = ["rto_mask", "visit_cookie|visit_gen", "cpupri.pri_to_cpu[0].mask"]
MemberName = Annotated[str, msgspec.Meta(pattern=rf"^{_NAME}(\|{_NAME})*$(?!\n)", examples=_MEMBERS)]
"""A member, or its names in several kernels; `a[0].b` is b in every element of a."""
_IDS = ["rd-lines.R2", "cpupri.S1"]
RuleId = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9-]*\.[A-Z][0-9]+$(?!\n)", examples=_IDS)]
Line = Annotated[str, msgspec.Meta(pattern=r"^[^\x00-\x1f\x7f]+$(?!\n)")]
Bytes = Annotated[int, msgspec.Meta(ge=1, le=1 << 24)]
_FILES = ["include/linux/netdevice.h", "fs/eventpoll.c"]
SourceFile = Annotated[str, msgspec.Meta(pattern=r"^(\w[\w.-]*/)+\w[\w.-]*\.[ch]$(?!\n)", examples=_FILES)]
"""A file of the kernel, from the top of its tree."""

LARGEST_LINE = 256
"""Bytes in the longest cache line of an architecture of the kernel (s390)."""


class ClauseKind(Enum):
    """What a promise keeps. `of` and `others` are members."""

    ALIGNED = "starts a line"
    """Each of `of` starts on a line boundary."""
    ON_LINE = "on one line"
    """Every byte of `of` lies on one line: `line`, or else any."""
    STARTS_ON = "starts on line"
    """The first byte of each lies on one line: `line`, or else any."""
    APART = "apart"
    """No line has bytes of `of` and of `others`."""
    ALONE = "closed"
    """The lines of `of` have no member but these and `others`."""
    UNBROKEN = "unbroken"
    """No other member lies between those of `of`."""
    FOLLOWS = "behind"
    """Each of `of` lies behind each of `others`."""
    SAME_OFFSET = "same offset"
    """All of `of` have one offset."""
    OWN_OFFSET = "own offset"
    """None of `others` has the offset of one of `of`."""
    HEADROOM = "headroom"
    """At least `bytes` bytes are left on the line of the last of `of`."""
    TYPE_ALIGNED = "aligned"
    """The type is aligned to a line."""
    TYPE_PADDED = "whole lines"
    """The type's size is a multiple of a line's."""
    TYPE_SMALL = "smaller than a line"
    """The type's size is smaller than a line's."""
    TYPE_MOST = "at most"
    """The type, without the members in `without`, has at most `bytes` bytes."""
    TYPE_GAPS = "gaps"
    """At most `bytes` bytes of the type belong to no member."""


class AccessClass(Enum):
    """How the members of a group are accessed."""

    READ_MOSTLY = "read-mostly"
    OWNER = "owner"
    PUBLISHED = "published"
    SHARED = "shared"
    LOCK = "lock"
    COLD = "cold"


ANY_LINE, LAST_LINE = -1, -2
"""Instead of a line's number: any, but one for all; the last of the type."""


class RuleRow(Strict, frozen=True):
    """A rule: its public id, which never changes, and what goes wrong when it is broken.

    Attributes:
        change: the change that made it, where the id does not begin with it.
        source: commit, Message-ID or address; empty for that of the change.
    """

    id: RuleId
    why: Line
    change: str = ""
    source: str = ""


class Promise(Strict, frozen=True):
    """Something to be kept about members.

    Attributes:
        id: the rule that it belongs to.
        of: the members; empty for all of the group.
        others: see ClauseKind.
        line: see ClauseKind.
        bytes: see ClauseKind.
        forced: whether an attribute or the order in the source brings it about in every configuration.
    """

    id: RuleId
    keep: Literal[
        "starts a line",
        "on one line",
        "starts on line",
        "apart",
        "closed",
        "unbroken",
        "behind",
        "same offset",
        "own offset",
        "headroom",
    ]
    of: tuple[MemberName, ...] = ()
    others: tuple[MemberName, ...] = ()
    line: Annotated[int, msgspec.Meta(ge=0, le=1 << 20)] | Literal["last"] | None = None
    bytes: Bytes | None = None
    when: Conditions = ()
    forced: bool = False


class TypePromise(Strict, frozen=True):
    """Something to be kept about the whole type.

    Attributes:
        without: members that do not count, each with the padding behind it if it begins a line.
    """

    id: RuleId
    keep: Literal["aligned", "whole lines", "smaller than a line", "at most", "gaps"]
    bytes: Bytes | None = None
    without: tuple[MemberName, ...] = ()
    when: Conditions = ()
    forced: bool = False


class ChangeSign(Strict, frozen=True):
    """Something that is true if a change is in a kernel. One sign is enough."""

    change: Word
    keep: Literal["behind", "apart", "own offset", "aligned"]
    of: tuple[MemberName, ...] = ()
    others: tuple[MemberName, ...] = ()
    when: Conditions = ()


class MemberGroup(Strict, frozen=True):
    """Members that are accessed in the same way.

    Attributes:
        apart: the rule that is broken when a group of a class that does not fit shares a line with this one.
        readers: functions.
        writers: functions.
    """

    name: Word
    class_: AccessClass = msgspec.field(name="class")
    members: Annotated[tuple[MemberName, ...], msgspec.Meta(min_length=1)] = msgspec.field()
    apart: str = ""
    readers: tuple[Word, ...] = ()
    writers: tuple[Word, ...] = ()
    promise: tuple[Promise, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return each_name(self.members)


class Exemption(Strict, frozen=True):
    """Groups that may share a line although their classes do not fit: `group` with each of `with`.

    Attributes:
        apart_when: the conditions under which they still may not.
        open: whether it costs something: a finding that is reported.
    """

    group: Word
    with_: Words = msgspec.field(name="with")
    why: Line = msgspec.field()
    apart_when: Conditions = ()
    open: bool = False


class Contract(Strict, frozen=True):
    """The contract of one structure.

    Attributes:
        file: a contract of a pack names what has to be compiled to see the structure: a header, or the .c file that has
            it. Its rules belong to no change: each names its source.
        header: in sched/, what declares the structure, if kernel/sched/sched.h only includes that.
    """

    struct: Tag
    file: SourceFile | Literal[""] = ""
    header: SourceFile | Literal[""] = ""
    rule: tuple[RuleRow, ...] = ()
    sign: tuple[ChangeSign, ...] = ()
    group: tuple[MemberGroup, ...] = ()
    exception: tuple[Exemption, ...] = ()
    promise: tuple[Promise, ...] = ()
    type: tuple[TypePromise, ...] = ()

    def groups(self) -> dict[str, MemberGroup]:
        return {group.name: group for group in self.group}


def read_contract(path: Path) -> Contract:
    """Read a contract.

    Raises:
        SchedlineError: something in it is unknown, missing or contradicts itself. The text names file, line and key.
    """
    contract = read_toml(path, Contract)
    for place, observed, next_step in _problems(contract):
        refuse(path, place, observed, next_step)
    return contract


_Problems = Iterator[tuple[KeyPath, str, str]]
"""Each with its place, what was observed, and the next step. The first one is told."""


def _problems(contract: Contract) -> _Problems:
    if contract.file and contract.header:
        yield ("header",), "is in a contract with `file`", "leave it out"
    if contract.file and contract.sign:
        yield ("sign", 0), "is in a contract with `file`, and tells of a change", "leave it out"
    for at, row in enumerate(contract.rule if contract.file else ()):
        if row.change:
            yield ("rule", at, "change"), "is in a contract with `file`", "leave it out"
        if not row.source:
            yield ("rule", at), f"{row.id!r} names no source", 'add source = "...": a commit, or a file'
    yield from _of_groups(contract)
    yield from _of_exceptions(contract)
    for at, group in enumerate(contract.group):
        for number, promise in enumerate(group.promise):
            yield from _of_promise(("group", at, "promise", number), promise, group.members)
    for number, promise in enumerate(contract.promise):
        yield from _of_promise(("promise", number), promise, ())
    for number, whole in enumerate(contract.type):
        yield from _of_conditions(("type", number, "when"), whole.when)
        yield from _of_elements(("type", number), whole.keep, whole.without)
        if (whole.bytes is None) is (whole.keep in ("at most", "gaps")):
            hint = "`at most` and `gaps` need bytes = ..., the others have none"
            yield ("type", number), f"keeps {whole.keep!r}", hint
    for number, sign in enumerate(contract.sign):
        yield from _of_elements(("sign", number), sign.keep, (*sign.of, *sign.others))
        if (sign.keep == "aligned") is bool(sign.of) or bool(sign.of) is not bool(sign.others):
            hint = "`aligned` has no members, the rest needs of and others"
            yield ("sign", number), f"keeps {sign.keep!r}", hint


def _of_groups(contract: Contract) -> _Problems:
    owner: dict[str, str] = {}
    for at, group in enumerate(contract.group):
        if group.name in [each.name for each in contract.group[:at]]:
            yield ("group", at, "name"), f"{group.name!r} is there twice", "give each group a name of its own"
        for member in group.names:
            if member in owner:
                both = f"{member!r} is in the groups {owner[member]} and {group.name}"
                yield ("group", at, "members"), both, "a member has one owner: leave it in one group"
            owner[member] = group.name


def _of_exceptions(contract: Contract) -> _Problems:
    groups = contract.groups()
    seen: set[frozenset[str]] = set()
    for at, row in enumerate(contract.exception):
        place = ("exception", at, "with")
        for key, name in (("group", row.group), *(("with", name) for name in row.with_)):
            if name not in groups:
                yield ("exception", at, key), f"names the group {name!r}", nearest(name, groups)
        if row.group in row.with_ or len(set(row.with_)) < len(row.with_):
            yield place, "names a group twice", "leave one out"
        for name in row.with_:
            if (pair := frozenset({row.group, name})) in seen:
                yield place, f"has {name!r} with {row.group!r} again", "keep one of them"
            seen.add(pair)
            one, other = groups[row.group].class_, groups[name].class_
            if may_share(one, other):
                both = f"names {name!r}: {one.value} and {other.value} may share a line anyway"
                yield place, both, "leave it out"


def _of_conditions(place: KeyPath, when: Conditions) -> _Problems:
    """Conditions of which no kernel meets all."""
    for one, other in combinations(when, 2):
        is_one_kind = one.split()[0] == other.split()[0]
        if f"!{one}" == other or f"!{other}" == one or ("==" in one and "==" in other and is_one_kind):
            yield place, f"wants {one!r} and {other!r}, which no kernel meets", "leave one out"
    least, most = _lines(when)
    if least > most:
        yield place, f"wants lines of at least {least} and at most {most} bytes", "leave one out"
    if {"locks plain", "locks debugged"} <= set(when):
        yield place, "wants locks that are plain and debugged", "leave one out"


def _lines(when: Conditions) -> tuple[int, int]:
    """The least and the most bytes that a line has where the conditions are met."""
    rows = [(each.split()[1], int(each.split()[2])) for each in when if each.startswith("line ")]
    least = max((size for relation, size in rows if relation != "<="), default=1)
    return least, min((size for relation, size in rows if relation != ">="), default=LARGEST_LINE)


NEEDS_SEVERAL = frozenset({ClauseKind.UNBROKEN, ClauseKind.SAME_OFFSET})
"""The kinds that need two members or more: of one they are true in any case."""

_NEEDS_OTHERS = frozenset({"apart", "behind", "own offset"})
_OF_ELEMENTS = frozenset({"starts a line", "apart"})
_TAKES_LINE = frozenset({"on one line", "starts on line"})


def _of_promise(place: KeyPath, promise: Promise, members: tuple[str, ...]) -> _Problems:
    for name in promise.of:
        if members and name not in members:
            yield (*place, "of"), f"names {name!r}, which is not in its group", nearest(name, members)
    if not (promise.of or members):
        yield place, "names no members", 'add of = ["..."]'
    yield from _of_conditions((*place, "when"), promise.when)
    keep = promise.keep
    its = promise.of or members
    if ClauseKind(keep) in NEEDS_SEVERAL and len(its) < 2:
        yield place, f"keeps {keep!r} of one member", "name two members or more"
    yield from _of_elements(place, keep, (*its, *promise.others))
    if keep in _NEEDS_OTHERS and not promise.others:
        yield place, f"keeps {keep!r} and names no others", 'add others = ["..."]'
    if promise.others and keep not in _NEEDS_OTHERS | {"closed"}:
        yield (*place, "others"), f"means nothing for {keep!r}", "leave it out"
    if promise.line is not None and keep not in _TAKES_LINE:
        yield (*place, "line"), f"means nothing for {keep!r}", "leave it out"
    if (promise.bytes is None) is (keep == "headroom"):
        yield place, f"keeps {keep!r}", "`headroom` needs bytes = ..., the others have none"
    _, most = _lines(promise.when)
    if promise.bytes is not None and promise.bytes >= most:
        yield (*place, "bytes"), f"is {promise.bytes}", f"no line there has more than {most} bytes"
    named = Counter(each_name((*its, *promise.others)))
    if twice := sorted(name for name, times in named.items() if times > 1):
        key = "others" if twice[0] in each_name(promise.others) else "of"
        yield (*place, key), f"has {twice[0]!r}, which is named already", "name it once"


def _of_elements(place: KeyPath, keep: str, names: tuple[str, ...]) -> _Problems:
    """Members inside of others where they are not judged: all elements are, or all members, for some kinds."""
    if inner := [name for name in names if "[0]" in name and keep not in _OF_ELEMENTS]:
        first = f"keeps {keep!r} of {inner[0]!r}, and only the first element would be judged"
        yield place, first, "keep 'starts a line' or 'apart', or write it into the contract of the element"
    if inner := [name for name in names if "." in name and keep in ("closed", "unbroken")]:
        within = f"keeps {keep!r} of {inner[0]!r}, which lies inside of another member"
        yield place, within, "write it into the contract of that member's structure"


def each_name(members: tuple[str, ...]) -> tuple[str, ...]:
    """Members, those with two spellings (`visit_cookie|visit_gen`) as two."""
    return tuple(name for spelled in members for name in spelled.split("|"))


def may_share(one: AccessClass, other: AccessClass) -> bool:
    """Whether two groups of these classes may share a line. Any class may share one with cold members."""
    return AccessClass.COLD in (one, other) or one is other in (AccessClass.READ_MOSTLY, AccessClass.OWNER)
