# SPDX-License-Identifier: GPL-2.0
"""`schedline c2c compare`: samples of a real machine, emulated counts and published figures beside each other."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from schedlib.formats.c2c_measured_document import Metric, Share
from schedlib.formats.document import Document
from schedlib.formats.strict import Amount, Count, Strict, Word


class ComparedField(Strict, frozen=True, kw_only=True):
    """A field on all sides. Ranks begin with 1; equal values share the mean of their ranks.

    Attributes:
        measured: its share of the samples.
        low, high: the interval of 95 % of that share.
        emulated: its share of the counts, median of the quanta.
        least, most: the range over the quanta.
        published: its share of the published samples, if there are some.
        agrees: whether the interval and the range have a number in common.
        reasons: for a field that does not agree, known reasons for a difference of its kind. They are not proven.
    """

    name: Word
    samples: Count
    measured_rank: Amount
    measured: Share
    low: Share
    high: Share
    emulated_rank: Amount
    emulated: Share
    least: Share
    most: Share
    published_rank: Amount | UnsetType = UNSET
    published: Share | UnsetType = UNSET
    agrees: bool
    reasons: tuple[Word, ...]


Coefficient = Annotated[float, Meta(ge=-1.0, le=1.0)]


class RankCorrelation(Strict, frozen=True):
    """Spearman's coefficient and its interval of 95 %, after Bonett and Wright (2000)."""

    value: Coefficient
    low: Coefficient
    high: Coefficient


class CompareDocument(Document, frozen=True, kw_only=True):
    """schedline c2c compare: samples of a real machine, emulated counts and published figures beside each other.

    Attributes:
        metric: what the measured shares are made of.
        count: what the emulated shares are made of.
        compared: the objects that all shares are of.
        outside: the share of the samples that belongs to other objects or to no field.
        same_kernel: whether the build-ids of both sides are equal.
        correlation: of the ranks of measured and emulated; missing for fewer than four fields.
        published: name of the file of published figures.
        fields: those that do not agree first, the greatest difference first.
    """

    schema: Literal["c2c-compare-1"]
    tool: Word
    metric: Metric
    count: Literal["hitm of loads and rmw", "misses"]
    compared: tuple[Word, ...]
    outside: Share
    same_kernel: bool
    correlation: RankCorrelation | UnsetType = UNSET
    published: str | UnsetType = UNSET
    fields: tuple[ComparedField, ...]
