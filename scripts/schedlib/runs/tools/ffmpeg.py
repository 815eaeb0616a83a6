# SPDX-License-Identifier: GPL-2.0
"""FFmpeg as the mails ran it: pinned_groups.py starts the instances and counts their frames."""

from __future__ import annotations

import sys
from pathlib import Path

from schedlib.formats.run_file import Reading
from schedlib.runs.tools.tool import Output, Tool, last_line, metric

_DRIVER = Path(__file__).with_name("pinned_groups.py")


def _ffmpeg(output: Output) -> Reading:
    if output.exit_status == 4:
        return Reading(cannot=last_line(output))
    found = output.json_file()
    frames, spent = found["frames"], found["user_s"] + found["system_s"]
    wrong = [status for status in found["statuses"] if status not in (0, 255)]
    if wrong:
        return Reading(error=f"{len(wrong)} of {len(frames)} instances failed: {last_line(output)}")
    done = sum(frames)
    return Reading(
        (
            metric("groups.frames", "frames", "neither", "exact", done, done),
            metric("groups.frames_per_s", "frames/s", "higher", "rate", done / found["seconds"], done),
            metric(
                "groups.evenness", "%", "higher", "rate", 100 * min(frames) * len(frames) / max(1, done), len(frames)
            ),
            metric("groups.kernel_of_cpu_time", "%", "lower", "rate", 100 * found["system_s"] / spent),
        )
    )


TOOLS = (
    Tool(
        "ffmpeg",
        "ffmpeg",
        _ffmpeg,
        ("-version",),
        good=frozenset({0, 1, 4}),
        driver=(sys.executable, "-I", "-S", str(_DRIVER)),
    ),
)
