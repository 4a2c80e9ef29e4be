# SPDX-License-Identifier: BSD-3-Clause
"""Norms of weights that several utilities use."""

from __future__ import annotations

from cograd import Tensor

from .. import functional as F


def norm_except_dim(v: Tensor, dim: int) -> Tensor:
    """2-norm over all dims but ``dim``, which are kept with size 1; of everything for -1."""
    if dim == -1:
        return v.norm()
    dims = [d for d in range(v.dim()) if d != dim % v.dim()]
    if not dims:
        return v.abs()
    return (v * v).sum(dims, keepdim=True).sqrt()


def power_iteration(
    matrix: Tensor, u: Tensor, v: Tensor, times: int, eps: float
) -> tuple[Tensor, Tensor]:
    """The singular vectors of the largest singular value, ``times`` steps better."""
    for _ in range(times):
        u = F.normalize(matrix @ v, dim=0, eps=eps)
        v = F.normalize(matrix.mH @ u, dim=0, eps=eps)
    return u, v
