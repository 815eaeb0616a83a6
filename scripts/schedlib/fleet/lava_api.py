# SPDX-License-Identifier: GPL-2.0
"""Jobs from LAVA's REST API, version 0.2: the device that a job ran on, and its log."""

from __future__ import annotations

import ipaddress
import json
import os
import stat
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO

from schedlib.cache import read_regular
from schedlib.errors import SchedlineError
from schedlib.fleet.fleet_options import TOKEN
from schedlib.guest.boot import LOG_LIMIT

_SECONDS = 60.0
"""Time limit for an answer."""

_LONGEST_TOKEN = 1000


def token_of(file: Path | None, environment: Mapping[str, str] = os.environ) -> str:
    """The token: from a file that only its owner can read, else from the environment; empty if there is none.

    Raises:
        SchedlineError: others can read the file, or it has no token.
    """
    if file is None:
        token = environment.get(TOKEN, "")
        source = TOKEN
    else:
        status = file.stat()
        if stat.S_IMODE(status.st_mode) & 0o177 or status.st_uid != os.geteuid():
            raise SchedlineError(
                f"{file} can be read by others, or is not yours: a token is a secret", f"chmod 600 {file}"
            )
        token, source = read_regular(file, _LONGEST_TOKEN).decode(errors="replace").strip(), str(file)
        if not token:
            raise SchedlineError(f"{file} has no token", "LAVA shows yours under API, authentication tokens")
    if token and not (token.isascii() and token.isprintable() and " " not in token):
        raise SchedlineError(f"what {source} has is no token", "LAVA shows yours under API, authentication tokens")
    return token


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The token must not go to another server."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


class LavaServer:
    """A server of LAVA."""

    def __init__(self, address: str, token: str) -> None:
        """Raise SchedlineError for an address that is none, or to which a token would go in the clear."""
        parts = urllib.parse.urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
            raise SchedlineError(
                f"--server: {address!r} is no address of a server", "--server https://lava.example.org"
            )
        if token and parts.scheme == "http" and not _is_here(parts.hostname):
            raise SchedlineError(f"{address}: the token would go over the network in the clear", "use https://")
        self._base = address.rstrip("/")
        self._token = token
        self._opener = urllib.request.build_opener(_NoRedirect())

    def job(self, number: str) -> tuple[str, str]:
        """The device on which a job ran, and its log.

        Raises:
            SchedlineError: the server does not answer, or has no such job.
        """
        try:
            found = json.loads(self._get(f"jobs/{number}/"))
            machine = found["actual_device"]
        except (ValueError, KeyError, TypeError) as error:
            raise SchedlineError(f"{self._base}: job {number} is not told as LAVA 0.2 does", "is this LAVA?") from error
        if not isinstance(machine, str) or not machine:
            raise SchedlineError(f"job {number} has no device yet", f"lavacli jobs wait {number}")
        return machine, self._get(f"jobs/{number}/logs/").decode(errors="replace")

    def _get(self, path: str) -> bytes:
        url = f"{self._base}/api/v0.2/{path}"
        headers = {"Authorization": f"Token {self._token}"} if self._token else {}
        request = urllib.request.Request(url, headers=headers)  # noqa: S310 - __init__ checks the scheme
        try:
            with self._opener.open(request, timeout=_SECONDS) as answer:
                content: bytes = answer.read(LOG_LIMIT + 1)
        except urllib.error.HTTPError as error:
            with suppress(OSError):
                error.close()
            how = "check the token" if error.code in (401, 403) else "check the address and the id"
            raise SchedlineError(f"{url}: the server answers {error.code}", how) from None
        except (OSError, HTTPException) as error:
            raise SchedlineError(f"{url}: {getattr(error, 'reason', error)}", "check the address") from None
        if len(content) > LOG_LIMIT:
            raise SchedlineError(f"{url} has more than {LOG_LIMIT} bytes", "no job of schedline prints so much")
        return content


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False
