# SPDX-License-Identifier: BSD-3-Clause
"""Information for the batching rule of a Function or an op."""

from __future__ import annotations

from typing import NamedTuple


class VmapInfo(NamedTuple):
    """The argument of a ``vmap`` staticmethod: the batch size, and how random ops sample."""

    batch_size: int
    randomness: str
