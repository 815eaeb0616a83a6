# SPDX-License-Identifier: GPL-2.0
"""Makes budget_table.h by an exact rank test: from how many pairs on a workload reports that a metric is over budget.

A baseline of m runs is compared with a batch of n runs. The statistic is the number of the m * n pairs in which the new
run is beyond the recorded one (Mann and Whitney's U). If it reaches the table's entry, a second batch is run against
the same baseline. A regression is reported if both batches reach the entry. The entry is the smallest one with which
runs that do not differ give a false alarm in at most 1 % of all cases, for the whole family of metrics (Bonferroni). A
budget above 0 makes false alarms rarer.

    PYTHONPATH=scripts python3 -m schedlib.dev.budget_table > selftests/sched_latency/budget_table.h
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from math import comb

FALSE_ALARMS = Fraction(1, 100)
FAMILY = 16
BATCH = 5
FEWEST, MOST = 5, 20
FEWEST_SLICES, MOST_SLICES = 7, 125


def _orders(recorded: int, batch: int, spare: int) -> dict[int, int]:
    """Count the orders of the runs by the number of pairs that the worse of two batches loses, up to `spare`.

    The orders are built from the highest run down. Between two recorded runs lie some runs of each batch. Each of those
    loses a pair for every recorded run above it.
    """
    # (runs of the first batch, of the second, pairs lost by the first, by the second) -> number of orders
    states: dict[tuple[int, int, int, int], int] = {(0, 0, 0, 0): 1}
    for above in range(recorded + 1):
        found: defaultdict[tuple[int, int, int, int], int] = defaultdict(int)
        for (one, two, lost_one, lost_two), orders in states.items():
            for more_one in range(batch - one + 1):
                if lost_one + more_one * above > spare:
                    break
                for more_two in range(batch - two + 1):
                    if lost_two + more_two * above > spare:
                        break
                    key = (one + more_one, two + more_two, lost_one + more_one * above, lost_two + more_two * above)
                    found[key] += orders * comb(more_one + more_two, more_one)
        states = dict(found)
    lost: defaultdict[int, int] = defaultdict(int)
    for (one, two, lost_one, lost_two), orders in states.items():
        if one == two == batch:
            lost[max(lost_one, lost_two)] += orders
    return lost


def _every(recorded: int, batch: int) -> int:
    return comb(recorded + 2 * batch, batch) * comb(recorded + batch, batch)


def both_at_least(recorded: int, batch: int, least: int) -> Fraction:
    """The probability that each of two batches has at least this number of pairs above the baseline.

    All orders of the runs are equally probable, because the runs do not differ.
    """
    return Fraction(sum(_orders(recorded, batch, recorded * batch - least).values()), _every(recorded, batch))


def least_pairs(recorded: int, batch: int = BATCH, family: int = FAMILY) -> int:
    """The entry of the table for a baseline of this number of runs.

    Raises:
        ValueError: there are too few runs to prove anything.
    """
    allowed = FALSE_ALARMS / family
    pairs, every = recorded * batch, _every(recorded, batch)
    spare, orders = 1, _orders(recorded, batch, 1)
    # Orders that lose few pairs are counted quickly, so start with these.
    while Fraction(sum(orders.values()), every) <= allowed:
        spare *= 2
        orders = _orders(recorded, batch, spare)
    while spare >= 0 and Fraction(sum(orders.values()), every) > allowed:
        orders.pop(spare, None)
        spare -= 1
    if spare < 0:
        raise ValueError(f"{recorded} recorded runs against two batches of {batch} prove nothing")
    return pairs - spare


def least_slices(slices: int) -> int:
    """In how many slices one value has to be above another, so that equal values do that in at most 1 % of cases."""
    tail, least = 0, slices + 1
    while FALSE_ALARMS * 2**slices >= tail + comb(slices, least - 1):
        least -= 1
        tail += comb(slices, least)
    return least


def _rows(values: list[int]) -> str:
    rows = (values[start : start + 12] for start in range(0, len(values), 12))
    return "".join("\t" + " ".join(f"{value}," for value in row) + "\n" for row in rows)


def header() -> str:
    """The text of the header file."""
    ranks = [least_pairs(recorded) for recorded in range(FEWEST, MOST + 1)]
    slices = [least_slices(count) for count in range(FEWEST_SLICES, MOST_SLICES + 1)]
    return (
        "/* SPDX-License-Identifier: GPL-2.0 */\n"
        "/* Made by schedline's budget_table.py, which says how; a test compares the two. */\n"
        "#ifndef BUDGET_TABLE_H\n#define BUDGET_TABLE_H\n\n"
        "/* Metrics that one budget file may hold, for 1 % of false alarms in all of them. */\n"
        f"#define FAMILY\t\t{FAMILY}\n"
        "/* Runs that are held against the baseline, and again to confirm. */\n"
        f"#define BATCH\t\t{BATCH}\n"
        "/* Runs of a baseline. */\n"
        f"#define FEWEST_RECORDED\t{FEWEST}\n#define MOST_RECORDED\t{MOST}\n\n"
        "/* Pairs of a run and a recorded run, by the number of these. */\n"
        f"static const int ranks_table[] __maybe_unused = {{\n{_rows(ranks)}}};\n\n"
        "/* Slices of a run, of which one in a hundred runs has so many by chance. */\n"
        f"#define FEWEST_SLICES\t{FEWEST_SLICES}\n#define MOST_SLICES\t{MOST_SLICES}\n\n"
        f"static const int slices_table[] __maybe_unused = {{\n{_rows(slices)}}};\n\n"
        "#endif\n"
    )


if __name__ == "__main__":
    print(header(), end="")
