# SPDX-License-Identifier: GPL-2.0
"""All wrapped tools by name."""

from __future__ import annotations

from schedlib.runs.tools import ffmpeg, network, perf, rt_tests, stress_ng, unpackaged
from schedlib.runs.tools.tool import Tool

TOOLS: dict[str, Tool] = {
    tool.name: tool for module in (rt_tests, stress_ng, perf, network, ffmpeg, unpackaged) for tool in module.TOOLS
}
