# SPDX-License-Identifier: GPL-2.0
"""What a decoder says of an instruction."""

from __future__ import annotations

from enum import IntEnum


class Traffic(IntEnum):
    """`enum traffic` of scripts/c2c/arch.h."""

    PLAIN = 0
    ATOMIC = 1
    STORE = 2
    STACK = 3
