# SPDX-License-Identifier: GPL-2.0
"""Documents: what is written can be read, however large it is."""

from __future__ import annotations

from pathlib import Path

import pytest
import toy_results

from schedlib.formats import document
from schedlib.formats.c2c_document import C2C_FILE, TrafficResult, read_result


def test_counts_of_the_whole_kernel_can_be_read(tmp_path: Path) -> None:
    result = toy_results.result(())
    path = tmp_path / C2C_FILE
    document.write(path, result)
    with path.open("ab") as file:
        file.write(b" " * document.LARGEST)
    assert read_result(tmp_path) == result


def test_nothing_is_written_that_could_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = toy_results.result(())
    path = tmp_path / C2C_FILE
    document.write(path, result)
    size = path.stat().st_size
    monkeypatch.setattr(TrafficResult, "largest", size)
    document.write(path, result)
    monkeypatch.setattr(TrafficResult, "largest", size - 1)
    with pytest.raises(document.Refused, match=f"it has {size} bytes, more than {size - 1}"):
        read_result(path)
    path.unlink()
    with pytest.raises(document.Refused, match=f"it would have {size} bytes, more than {size - 1}"):
        document.write(path, result)
    assert not path.exists()
