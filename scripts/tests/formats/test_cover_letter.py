# SPDX-License-Identifier: GPL-2.0
"""Lines of a mail: what a reader copies from one must still be what it was."""

from __future__ import annotations

from schedlib.formats.cover_letter import WIDTH, wrapped

PATH = "/results/" + "a-long-name/" * 9 + "candidate"


def test_lines_fit_a_mail_and_no_path_is_cut() -> None:
    lines = wrapped(f"{PATH}: skipped 1 file: " + "not a format that is known, " * 5)
    assert lines[0] == f"{PATH}:"
    assert lines[1].startswith("    skipped 1 file:")
    assert all(len(line) <= WIDTH for line in lines[1:])
