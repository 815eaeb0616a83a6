# SPDX-License-Identifier: GPL-2.0
"""Tools that reviewers ask for and Debian does not package: schbench, whose path is in an environment variable."""

from __future__ import annotations

import re

from schedlib.formats.run_file import Metric, Reading
from schedlib.runs.tools.tool import Output, Tool, Unreadable, metric, quantiles, sampled


def _schbench(output: Output) -> Reading:
    found = output.json_file().get("int", {})
    metrics: list[Metric] = []
    for name, key in (("wakeup", "wakeup_latency"), ("request", "request_latency")):
        # schbench reports every ten seconds; the last report covers the whole run.
        told = re.findall(rf"^{name.title()} Latencies .*\((\d+) total samples\)$", output.stderr, re.M)
        if not told:
            raise Unreadable(f"no number of {name} samples in its output")
        samples = float(told[-1])
        metrics.append(sampled(name, samples))
        shares = {"p50": "pct50.0", "p90": "pct90.0", "p99": "pct99.0", "p99_9": "pct99.9", "max": "max"}
        values = {short: float(found[f"{key}_{long}"]) for short, long in shares.items() if f"{key}_{long}" in found}
        metrics += quantiles(name, "us", values, samples)
    rate = re.search(r"^average rps: ([0-9.]+)$", output.stderr, re.M)
    if rate:
        metrics.append(metric("requests_per_s", "1/s", "higher", "rate", float(rate.group(1))))
    return Reading(tuple(metrics))


TOOLS = (
    Tool(
        "schbench",
        "",
        _schbench,
        variable="SCHBENCH",
        build="git clone https://git.kernel.org/pub/scm/linux/kernel/git/mason/schbench.git && make -C schbench",
    ),
)
