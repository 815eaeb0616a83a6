# SPDX-License-Identifier: GPL-2.0
"""Record the real output of a tool, for tests of its parser: record_tool.py NAME [--after S SIGNAL] -- COMMAND...

The command runs in a new directory. The files that it writes there are recorded, too.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

TOOLS = Path(__file__).parents[1] / "tools"


def record(name: str, argv: list[str], after: float | None, number: signal.Signals) -> None:
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o777)
        process = subprocess.Popen(
            argv,
            cwd=place,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "LC_ALL": "C"},
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=after)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, number)
            out, err = process.communicate()
        files = {path.name: path.read_text() for path in sorted(Path(place).iterdir()) if path.is_file()}
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    found = {"argv": argv, "exit_status": process.returncode, "stdout": out, "stderr": err, "files": files}
    TOOLS.mkdir(exist_ok=True)
    (TOOLS / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")


def main() -> None:
    words = sys.argv[1:]
    split = words.index("--")
    options, argv = words[:split], words[split + 1 :]
    after = float(options[2]) if len(options) > 1 else None
    record(options[0], argv, after, signal.Signals[options[3]] if after else signal.SIGKILL)


if __name__ == "__main__":
    main()
