# SPDX-License-Identifier: GPL-2.0
"""Kernel sources from Debian's archive, through an apt configuration of our own.

The machine's sources, lists and packages stay as they are; root is not needed. apt checks the archive's signature
against Debian's keyring. The package's sha256 is recorded.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Annotated

import msgspec

from schedlib.errors import SchedlineError
from schedlib.formats.data_file import read_toml
from schedlib.formats.strict import Strict, Word
from schedlib.paths import CONFIGS
from schedlib.process import must, run

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

_APT_CONF = """\
Dir::Etc "{work}/etc"; Dir::Etc::sourcelist "{work}/etc/sources.list"; Dir::Etc::sourceparts "/dev/null";
Dir::Etc::parts "/dev/null"; Dir::Etc::preferences "/dev/null"; Dir::Etc::preferencesparts "/dev/null";
Dir::Etc::trusted "/dev/null"; Dir::Etc::trustedparts "/dev/null";
Dir::State "{work}/state"; Dir::State::lists "{work}/lists"; Dir::State::status "{work}/state/status";
Dir::Cache "{work}/cache"; Dir::Cache::archives "{work}/cache/archives";
Dir::Cache::pkgcache ""; Dir::Cache::srcpkgcache "";
APT::Sandbox::User ""; APT::Architecture "{arch}"; APT::Architectures {{ "{arch}"; }};
APT::Get::AllowUnauthenticated "false"; Acquire::AllowInsecureRepositories "false"; Acquire::Languages "none";
Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false";
Acquire::Check-Valid-Until "true"; Acquire::Retries "3";
"""
_NETWORK = re.compile(r'^Acquire::https?::[\w.:-]*(?:Proxy|CaInfo|Verify-\w+|SslCert|SslKey)\S* ".+";\n', re.M | re.I)
"""The settings of the machine's apt that are used: its proxies and certificates."""


class Series(Strict, frozen=True):
    """A kernel series that Debian packages, as configs/series.toml states it."""

    name: Word
    package: Word
    suites: Annotated[tuple[Word, ...], msgspec.Meta(min_length=1)]
    tested: Word
    sha256: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]


def series_table() -> dict[str, Series]:
    """Every series that can be fetched, by name."""
    return read_toml(CONFIGS / "series.toml", dict[str, Series], keys="name")


def sha256_of(path: Path) -> str:
    """Hex digest of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def mirrors() -> dict[str, str]:
    """The 'archive' and 'security' mirror of the machine's apt; SchedlineError if it has none, or no apt."""
    listed = must(
        ["apt-get", "indextargets", "--format", "$(SITE) $(RELEASE) $(COMPONENT)", "Created-By: Packages"],
        next_step="without apt, give a kernel tree of your own: schedline check --kdir PATH",
    )
    found: dict[str, str] = {}
    for line in listed.splitlines():
        site, release, component = [*line.split(), "", "", ""][:3]
        if component != "main":
            continue
        if release.endswith("-security"):
            found.setdefault("security", site)
        elif re.fullmatch(r"[a-z]+(-updates)?", release) and "debian" in site:
            found.setdefault("archive", site)
    if "archive" not in found:
        raise SchedlineError(
            "this machine's apt sources name no Debian archive, so there is nowhere to fetch a kernel from",
            "add one (see sources.list(5)) or give a kernel tree: schedline check --kdir PATH",
        )
    return found | {"security": found.get("security", f"{found['archive'].removesuffix('/')}-security")}


def _configure(work: Path, series: Series, keyring: Path, arch: str) -> Path:
    for part in ("lists/partial", "cache/archives/partial", "etc", "state"):
        (work / part).mkdir(parents=True, exist_ok=True)
    (work / "state/status").touch()
    sites = mirrors()
    chosen = [(suite, sites["security" if suite.endswith("-security") else "archive"]) for suite in series.suites]
    sources = "".join(f"deb [signed-by={keyring}] {site} {suite} main\n" for suite, site in chosen)
    (work / "etc/sources.list").write_text(sources)
    settings = _NETWORK.findall(must(["apt-config", "dump", "Acquire"]))
    conf = work / "apt.conf"
    conf.write_text(_APT_CONF.format(work=work, arch=arch) + "".join(settings))
    return conf


def download(series: Series, work: Path, keyring: Path = KEYRING, arch: str = "amd64") -> tuple[Path, dict[str, str]]:
    """Fetch the newest package of a series for an architecture, in Debian's words, into `work`.

    The file, and its package, version, suite and sha256.

    Raises SchedlineError: no network, a signature that does not verify, a series that left the archive, or a package
    whose sha256 is not that of the version recorded in configs/series.toml.
    """
    if not keyring.is_file():
        observed = f"Debian's keyring {keyring} is not there, so the archive's signature cannot be checked"
        raise SchedlineError(observed, "apt-get install debian-archive-keyring")
    env = {"APT_CONFIG": str(_configure(work, series, keyring, arch))}
    update = run(["apt-get", "update", "--error-on=any"], env=env)
    if update.returncode:
        text = (update.stderr + update.stdout).decode(errors="replace")
        lines = [line for line in text.splitlines() if line.startswith(("E:", "W:", "Err:"))]
        if "NO_PUBKEY" in text or "not signed" in text or "BADSIG" in text:
            why = f"the archive's signature does not verify against {keyring}"
            advice = "apt-get install --reinstall debian-archive-keyring"
        elif "is not valid yet" in text or "expired" in text:
            why = "the mirror's Release file is out of date"
            advice = "check this machine's clock (date), or use a mirror that is kept up to date"
        else:
            why = "the Debian archive cannot be reached"
            advice = "check the network and the proxy of apt, or give a kernel tree: schedline check --kdir PATH"
        last = "\n    ".join(lines[-4:]) or text.strip()[-300:]
        raise SchedlineError(f"{why}:\n    {last}", advice)
    madison = must(["apt-cache", "madison", series.package], env=env)
    rows = [[cell.strip() for cell in line.split("|")] for line in madison.splitlines() if line.count("|") == 2]
    if not rows:
        other = next((name for name in series_table() if name != series.name), "")
        raise SchedlineError(
            f"{series.package} is no longer in {' or '.join(series.suites)}",
            f"use the other series: schedline check --series {other}, or a tree of your own: --kdir PATH",
        )
    # Newest first within a suite. A suite that is earlier in the list is preferred, even if its package is older.
    offers = [(row[1], row[2].split()[1].split("/")[0]) for row in rows]
    version, suite = next(offer for name in series.suites for offer in offers if offer[1] == name)
    for stale in work.glob(f"{series.package}_*.deb"):
        stale.unlink()
    must(
        ["apt-get", "download", f"{series.package}={version}"],
        cwd=work,
        env=env,
        next_step="run the command again; if it persists, check the network and the free space (df -h)",
    )
    path = next(work.glob(f"{series.package}_*.deb"))
    digest = sha256_of(path)
    if version == series.tested and digest != series.sha256:
        path.unlink()
        raise SchedlineError(
            f"{series.package} {version} has sha256 {digest}, recorded is {series.sha256}: not the package we tested",
            "find out why before using it; the record is configs/series.toml",
        )
    return path, {"package": series.package, "version": version, "suite": suite, "sha256": digest}
