# SPDX-License-Identifier: BSD-3-Clause
"""Norms under torch's older names."""

from __future__ import annotations

import builtins
from typing import Any

from cograd import _C
from cograd._C import Tensor

__all__ = ["frobenius_norm", "norm_except_dim", "nuclear_norm"]


def frobenius_norm(input: Tensor, dim: Any, keepdim: bool = False, *, out: Any = None) -> Tensor:
    """Returns the Euclidean norm over ``dim``."""
    over = [dim] if isinstance(dim, int) else list(dim)
    return _C._ops.norm(input, "fro", over or None, keepdim, out=out)


def nuclear_norm(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Any = None
) -> Tensor:
    """Returns the sum of the singular values of the matrices in the two dims ``dim``."""
    return _C._ops.norm(input, "nuc", dim, keepdim, out=out)


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """Returns the ``pow``-norm over all dims except ``dim``, kept with size 1; -1: over all dims.

    Raises:
        IndexError: ``dim`` is out of range.
    """
    if dim == -1:
        return v.norm(pow)
    v.size(dim)  # raises IndexError for a dim out of range
    over = [d for d in builtins.range(v.dim()) if d != dim % v.dim()]
    return v.norm(pow, over, True) if over else v.abs()
