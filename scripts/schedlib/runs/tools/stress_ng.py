# SPDX-License-Identifier: GPL-2.0
"""stress-ng prints everything to stderr. Its YAML has the operations, its text the latencies of the first instance."""

from __future__ import annotations

import re

from schedlib.formats.run_file import Reading
from schedlib.runs.tools.tool import Output, Tool, Unreadable, metric, number, quantiles

YAML_FILE = "out.yaml"


def _stress_ng(output: Output) -> Reading:
    # stress-ng exits with 0 even if it has skipped every stressor.
    refused = re.search(
        r"^stress-ng: \w+: +\[\d+\] (.*(?:skipping this stressor|No stress workers).*)$", output.stderr, re.M
    )
    if refused:
        return Reading(error=f"it ran nothing: {refused.group(1)}")
    if YAML_FILE not in output.files:
        raise Unreadable("it wrote no metrics")
    text = output.files[YAML_FILE]
    operations = number(r"^ +bogo-ops: (\d+)$", text, "bogo-ops")
    rate = number(r"^ +bogo-ops-per-second-real-time: ([0-9.]+)$", text, "bogo-ops-per-second-real-time")
    metrics = [
        metric("operations", "operations", "neither", "exact", operations, operations),
        metric("operations_per_s", "1/s", "higher", "rate", rate, operations),
    ]
    found = re.findall(r"cyclic: +([0-9.]+)%: +(\d+) ns", output.stderr)
    if found:
        taken = min(operations, number(r"ns delay, (\d+) samples", output.stderr, "number of samples"))
        wanted = {"50.00": "p50", "90.00": "p90", "99.00": "p99", "99.90": "p99_9"}
        values = {wanted[share]: float(value) for share, value in found if share in wanted}
        values["max"] = number(r"cyclic: +min: \d+ ns, max: (\d+) ns", output.stderr, "maximum")
        metrics += quantiles("latency", "ns", values, taken)
    failed = re.search(r"stress-ng: fail:", output.stderr) is not None
    return Reading(tuple(metrics), reported=int(failed))


TOOLS = (Tool("stress-ng", "stress-ng", _stress_ng, ("--version",)),)
