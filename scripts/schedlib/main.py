# SPDX-License-Identifier: GPL-2.0
"""The command line: parses the arguments, prepares the libraries, does the job, and returns the exit code.

Until the arguments have been checked, only the standard library is imported.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import os
import shlex
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

from schedlib import TOOL
from schedlib.cache import cache_path, temporary_files
from schedlib.environment import activate
from schedlib.errors import SchedlineError
from schedlib.options import VerbParser, add_group
from schedlib.progress import UNSAFE, say
from schedlib.verdict import BISECT_SKIP, Verdict

GROUPS = {
    "a patch or a tree": ("layout.layout", "check.check", "premerge.premerge", "export.export", "layout.status"),
    "cache lines on emulated CPUs": ("c2c.c2c", "c2c.show"),
    "a real machine": ("runs.kernels", "runs.run", "gate.gate", "fleet.fleet"),
    "other": ("check.judge", "tree.fetch", "doctor", "cache"),
}
"""The verbs, by what they are for. `check.judge` is `schedline judge`, of schedlib/check/judge_verb.py."""

_ABOUT = """\
schedline: which cache lines does a kernel change make CPUs fight for?

  schedline layout --kdir ~/linux --patch my.patch   a patch, in seconds; nothing is booted
  schedline check --kdir ~/linux                     your tree with the KUnit tests: builds and boots
  schedline c2c --kdir ~/linux                       which fields CPUs take from each other: builds and boots
  schedline check                                    Debian's kernel: downloads 167 MB, builds and boots
"""

_CODES = """\
exit codes: 0 PASS; 1 FAIL; 2 ERROR (usage, environment, a tree that does not build); 3 INCONCLUSIVE
"""


_STDOUT = frozenset({Path("/dev/stdout"), Path("/dev/fd/1"), Path("/proc/self/fd/1")})


def _module(name: str) -> Any:
    return importlib.import_module(f"schedlib.{name}_verb")


def parser(words: Sequence[str] = ()) -> VerbParser:
    """The parser of the whole command; for words that name a verb, of this verb alone."""
    top = VerbParser(
        prog="schedline", usage="schedline VERB [options]", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    top.add_argument("--version", action="version", version=TOOL, help=argparse.SUPPRESS)
    verbs: Any = top.add_subparsers(prog=top.prog, metavar="VERB", required=True, help=argparse.SUPPRESS)
    known = {name.rpartition(".")[2]: name for names in GROUPS.values() for name in names}
    if words and words[0] in known:
        _module(known[words[0]]).add_parser(verbs)
        return top
    lines = [_ABOUT]
    for title, names in GROUPS.items():
        lines.append(f"{title}:")
        for name in names:
            _module(name).add_parser(verbs)
            told = verbs._choices_actions[-1]
            lines.append(f"  {told.dest:<9} {told.help}")
        lines.append("")
    about = "what only developers of schedline run"
    inner = add_group(
        verbs,
        "dev",
        about,
        first=["schedline dev quick   after each edit", "schedline dev test    before a commit"],
        text="CONTRIBUTING.md says which of these a change needs.",
    )
    _module("dev.dev").add_parser(inner)
    lines.append(f"  {'dev':<9} {', '.join(inner.choices)}")
    lines.append("\nschedline VERB --help tells more, with examples.\n")
    top.description = "\n".join(lines)
    top.epilog = _CODES
    return top


def verbs_of(parent: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser, str]]:
    """The verbs below a parser: name, parser, and what --help says of it."""
    below = [parent.below] if isinstance(parent, VerbParser) else []
    for action in (*parent._actions, *below):
        if isinstance(action, argparse._SubParsersAction):
            about = {each.dest: each.help or "" for each in action._choices_actions}
            yield from ((name, verb, about.get(name, "")) for name, verb in action.choices.items())


def main(words: Sequence[str]) -> int:
    """Check the arguments, prepare the libraries and do the job; the exit code. SchedlineError if it cannot be done."""
    if not words:
        parser().print_help()
        return Verdict.ERROR.exit_code
    arguments = parser(words).parse_args(words)
    options: Any = arguments.read(arguments)
    for extra in arguments.libraries(options):
        activate(extra, download=arguments.download)
    # The last of these has pytest, which keeps its own directories; the others need no cache.
    kept = nullcontext() if words[0] in ("judge", "doctor", "cache", "dev") else temporary_files()
    # If a document goes to standard output, the text for people goes to standard error.
    taken = not _STDOUT.isdisjoint(each for each in vars(arguments).values() if isinstance(each, Path))
    with kept, redirect_stdout(sys.stderr) if taken else nullcontext():
        verdict: Verdict = arguments.job(options)
    return verdict.exit_code


class _Patient(io.TextIOWrapper):
    """A standard stream that discards output once it cannot be written any more.

    No control character that a document or a guest has brought reaches the terminal.

    A reader that has gone (`| head -1`) is no failure: the verdict still counts. Any other error is kept in `failed`.
    """

    failed: OSError | None = None

    def write(self, text: str) -> int:
        try:
            return super().write(text.translate(UNSAFE))
        except OSError as error:
            self._leave(error)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self._leave(error)

    def _leave(self, error: OSError) -> None:
        if not isinstance(error, BrokenPipeError):
            self.failed = error
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self.fileno())
        os.close(null)


@contextmanager
def _patient_streams() -> Iterator[list[_Patient]]:
    """Standard output and error that raise nothing. Both are flushed at the end."""
    stdout, stderr = sys.stdout, sys.stderr
    patient = [
        _Patient(each.buffer, each.encoding, each.errors, line_buffering=each.line_buffering)
        for each in (stdout, stderr)
        if isinstance(each, io.TextIOWrapper)
    ]
    if len(patient) == 2:
        sys.stdout, sys.stderr = patient
    try:
        yield patient
    finally:
        sys.stdout, sys.stderr = stdout, stderr
        for each in patient:
            each.flush()
            each.detach()


def _fill_standard_streams() -> bool:
    """Give this process the standard streams that it was started without; whether one that is written was missing."""
    missing = [each for each in (sys.stdout, sys.stderr) if each is None]
    while (last := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(last)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 - open for as long as the process is
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
    return bool(missing)


def start(words: Sequence[str] | None = None) -> int:
    """Run a command line, this process's own if None; its exit code. 1 is a computed FAIL, and nothing else.

    With --bisect, every verdict except PASS and FAIL returns 125, which tells git to skip the commit.
    """
    words = sys.argv[1:] if words is None else words
    signal.signal(signal.SIGTERM, _end)
    unheard = _fill_standard_streams()
    with _patient_streams() as streams:
        code = _guarded(words)
        for each in streams:
            each.flush()
        if unheard or any(each.failed for each in streams):
            why = next((each.failed.strerror for each in streams if each.failed), "it is closed")
            say(f"schedline: standard output or error cannot be written: {why}\n  next: give the command another one")
            code = Verdict.ERROR.exit_code
    judged = (Verdict.PASS.exit_code, Verdict.FAIL.exit_code)
    return BISECT_SKIP if "--bisect" in words and code not in judged else code


def _end(*_: object) -> None:
    """SystemExit runs the cleanup code, which ends guests and builds. A second signal does not interrupt it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(Verdict.ERROR.exit_code)


def _guarded(words: Sequence[str]) -> int:
    try:
        return main(words)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    except SchedlineError as error:
        say(f"schedline: {error}")
    except KeyboardInterrupt:
        say("schedline: interrupted; run the same command again to go on")
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        wanted = "make room: df -h" if full else "see that this file can be read or written; schedline doctor"
        say(f"schedline: {where}{error.strerror or error}\n  next: {wanted}")
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        say(
            f"schedline: a bug in schedline, so there is no verdict: {type(error).__name__} at {where}: {error}\n"
            f"  next: report it with {_keep_traceback(words)}, which has the command and the traceback"
        )
    return Verdict.ERROR.exit_code


def _keep_traceback(words: Sequence[str]) -> Path:
    text = f"command: {shlex.join(['schedline', *words])}\n\n{traceback.format_exc()}"
    for place in (cache_path() / "crashes", Path(tempfile.gettempdir())):
        try:
            place.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=place, prefix="schedline-", suffix=".txt", delete=False) as file:
                file.write(text)
            return Path(file.name)
        except OSError:
            continue
    return Path(os.devnull)
