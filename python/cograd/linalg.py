# SPDX-License-Identifier: BSD-3-Clause
"""torch.linalg, as far as the core has it: norms and products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cograd import _C
from cograd._C import Tensor

__all__ = ["cross", "matmul", "multi_dot", "norm", "vecdot", "vector_norm"]

_vector_norm = _C._ops.linalg_vector_norm
_matmul = _C._ops.matmul
_cross = _C._ops.linalg_cross


def vector_norm(
    x: Tensor,
    ord: float = 2,
    dim: int | tuple[int, ...] | None = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """(sum abs(x)^ord)^(1/ord) over ``dim`` (None: all elements); ``ord`` may be 0, inf or -inf.

    Raises:
        RuntimeError: integer input, or an empty dim for an ``ord`` without identity.
    """
    result = _vector_norm(x, ord, dim, keepdim, dtype=dtype)
    return result if out is None else out.copy_(result)


def norm(
    A: Tensor,
    ord: float | str | None = None,
    dim: int | tuple[int, ...] | None = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """The vector norm over one dim or (``ord`` None) all; for two dims only the Frobenius norm.

    Raises:
        NotImplementedError: another matrix norm.
    """
    two = A.dim() == 2 if dim is None else not isinstance(dim, int) and len(dim) == 2
    if ord is None or ord == "fro":
        return vector_norm(A, 2, dim, keepdim, dtype=dtype, out=out)
    if isinstance(ord, str) or two:
        raise NotImplementedError(f"linalg.norm(): the matrix norm {ord!r} is not supported")
    return vector_norm(A, ord, dim, keepdim, dtype=dtype, out=out)


def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``input @ other``."""
    result = _matmul(input, other)
    return result if out is None else out.copy_(result)


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """Sum of x * y along ``dim``; the shapes broadcast."""
    result = (x * y).sum(dim)
    return result if out is None else out.copy_(result)


def cross(input: Tensor, other: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """Cross product of vectors of length 3 along ``dim``; the shapes broadcast.

    Raises:
        RuntimeError: a ``dim`` whose size is not 3.
    """
    result: Tensor = _cross(input, other, dim=dim, out=out)
    return result


def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Product of at least two matrices (the first and last may be vectors), cheapest order.

    Raises:
        RuntimeError: fewer than two tensors, or shapes that do not chain.
    """
    if len(tensors) < 2:
        raise RuntimeError("multi_dot(): expected at least 2 tensors but got fewer")
    chain = list(tensors)
    drop_rows, drop_cols = chain[0].dim() == 1, chain[-1].dim() == 1
    if drop_rows:
        chain[0] = chain[0].unsqueeze(0)
    if drop_cols:
        chain[-1] = chain[-1].unsqueeze(1)
    for i, t in enumerate(chain):
        if t.dim() != 2:
            raise RuntimeError(f"multi_dot(): tensor {i} must be 2D but got {t.dim()}D")
    result = _product(chain, _cheapest([t.shape[0] for t in chain] + [chain[-1].shape[1]]))
    if drop_rows:
        result = result.squeeze(0)
    if drop_cols:
        result = result.squeeze(-1)
    return result if out is None else out.copy_(result)


def _cheapest(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Where to split matrices i..j, of shapes (sizes[k], sizes[k + 1]), for the fewest products."""
    n = len(sizes) - 1
    cost = {(i, i): 0 for i in range(n)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            options = [
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            ]
            cost[i, j], split[i, j] = min(options)
    return split


def _product(chain: Sequence[Tensor], split: dict[tuple[int, int], int]) -> Tensor:
    def part(i: int, j: int) -> Tensor:
        if i == j:
            return chain[i]
        k = split[i, j]
        return part(i, k) @ part(k + 1, j)

    return part(0, len(chain) - 1)
