# SPDX-License-Identifier: BSD-3-Clause
"""Norms of weights that several utilities use."""

from __future__ import annotations

from cograd import Tensor

from .. import functional as F


def power_iteration(
    matrix: Tensor, u: Tensor, v: Tensor, times: int, eps: float
) -> tuple[Tensor, Tensor]:
    """The singular vectors of the largest singular value, ``times`` steps better."""
    for _ in range(times):
        u = F.normalize(matrix @ v, dim=0, eps=eps)
        v = F.normalize(matrix.mH @ u, dim=0, eps=eps)
    return u, v
