# SPDX-License-Identifier: GPL-2.0
"""What drgn is asked of a kernel that runs. The whole is tried with a guest: see test_c2c_record.py."""

from __future__ import annotations

import importlib.util
from types import ModuleType, SimpleNamespace

import pytest

from schedlib.c2c.c2c_options import SOURCES


@pytest.fixture(scope="module")
def object_map() -> ModuleType:
    """The program, as a module."""
    spec = importlib.util.spec_from_file_location("object_map", SOURCES / "object_map.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("users", "name"), [(1, "pid"), (-1, "pid"), (2, "pid-merged")])
def test_a_cache_that_others_were_merged_into_tells_no_type(users: int, name: str, object_map: ModuleType) -> None:
    """Kernels merge caches of one size: an epitem in a slab named pid would get the fields of a pid."""
    cache = SimpleNamespace(
        name=SimpleNamespace(string_=lambda: b"pid"), refcount=SimpleNamespace(value_=lambda: users)
    )
    assert object_map._name(cache) == name
