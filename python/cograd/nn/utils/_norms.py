# SPDX-License-Identifier: BSD-3-Clause
"""Helpers for norms of weights."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from cograd import _C, Tensor

from .. import functional as F


def power_iteration(
    matrix: Tensor, u: Tensor, v: Tensor, times: int, eps: float
) -> tuple[Tensor, Tensor]:
    """Improves the singular vectors of the largest singular value by ``times`` iterations."""
    for _ in range(times):
        u = F.normalize(matrix @ v, dim=0, eps=eps)
        v = F.normalize(matrix.mH @ u, dim=0, eps=eps)
    return u, v


def writing(*buffers: Tensor) -> AbstractContextManager[Any]:
    """Returns the scope for writing buffers that a transformed function has captured."""
    return _C._function_scope(buffers, False) if _C._within_function() else nullcontext()
