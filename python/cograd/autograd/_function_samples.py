# SPDX-License-Identifier: BSD-3-Clause
"""What the batching rule of a Function or an op is told."""

from __future__ import annotations

from typing import NamedTuple


class VmapInfo(NamedTuple):
    """What a ``vmap`` staticmethod is told: the number of samples, and how to draw numbers."""

    batch_size: int
    randomness: str
