# SPDX-License-Identifier: GPL-2.0
"""A headless Chromium, controlled over two pipes (the DevTools protocol: one JSON message, ended by a zero byte)."""

from __future__ import annotations

import json
import os
import select
import shlex
import signal
import subprocess
from base64 import b64decode
from pathlib import Path
from time import monotonic
from typing import Any, Self

_ANSWER = 60.0
"""Seconds that one command may take on a machine with other work."""


_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --no-first-run "
    "--disable-background-networking --remote-debugging-pipe"
)
"""No sandbox: tests run as root, and the page is our own."""


class Browser:
    """One Chromium with one page and its own profile."""

    def __init__(self, program: str, profile: Path) -> None:
        read_commands, self._commands = os.pipe()
        self._answers, write_answers = os.pipe()
        # Chromium reads from 3 and writes to 4.
        command = (
            f"exec {shlex.quote(program)} {_FLAGS} --user-data-dir={shlex.quote(str(profile))} about:blank "
            f"3<&{read_commands} 4>&{write_answers}"
        )
        self._process = subprocess.Popen(
            ["bash", "-c", command],
            pass_fds=(read_commands, write_answers),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(read_commands)
        os.close(write_answers)
        self._number = 0
        self._waiting = b""
        self.events: list[dict[str, Any]] = []
        target = self.tell("Target.createTarget", url="about:blank")["targetId"]
        self._session = str(self.tell("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.tell(f"{domain}.enable")
        self.tell("Page.setLifecycleEventsEnabled", enabled=True)

    _session = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.write(self._commands, b'{"id": 0, "method": "Browser.close"}\0')
        os.close(self._commands)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        os.close(self._answers)

    def tell(self, method: str, **parameters: object) -> dict[str, Any]:
        """Send one command and return its answer. Events that arrive meanwhile go to `events`."""
        self._number += 1
        words: dict[str, object] = {"id": self._number, "method": method, "params": parameters}
        os.write(
            self._commands, json.dumps(words | ({"sessionId": self._session} if self._session else {})).encode() + b"\0"
        )
        while True:
            message = self._message()
            if message.get("id") == self._number:
                assert "error" not in message, message["error"]
                result: dict[str, Any] = message["result"]
                return result
            self.events.append(message)

    def _message(self) -> dict[str, Any]:
        end = monotonic() + _ANSWER
        while b"\0" not in self._waiting:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, end - monotonic()))
            assert ready, "the browser does not answer"
            more = os.read(self._answers, 1 << 20)
            assert more, "the browser ended"
            self._waiting += more
        one, _, self._waiting = self._waiting.partition(b"\0")
        message: dict[str, Any] = json.loads(one)
        return message

    def open(self, page: Path, width: int, *, dark: bool = False, media: str = "screen") -> None:
        """Show a page at a width in CSS pixels."""
        self.tell("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.tell("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.events.clear()
        loader = self.tell("Page.navigate", url=page.as_uri())["loaderId"]
        while not any(self._is_loaded(event, loader) for event in self.events):
            self.events.append(self._message())

    @staticmethod
    def _is_loaded(event: dict[str, Any], loader: str) -> bool:
        told = event.get("params", {})
        return event.get("method") == "Page.lifecycleEvent" and told["loaderId"] == loader and told["name"] == "load"

    def ask(self, expression: str) -> Any:
        """The value of an expression in the page. The page's own policy does not apply to it."""
        answer = self.tell("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def picture(self) -> bytes:
        return b64decode(self.tell("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"])
