# SPDX-License-Identifier: BSD-3-Clause
"""Derivatives of sampled functions."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import cograd
from cograd import _C
from cograd._C import Tensor

__all__ = ["gradient"]


def _dims(input: Tensor, dim: int | Sequence[int] | None) -> list[int]:
    if dim is None:
        return list(builtins.range(input.dim()))
    given = [dim] if isinstance(dim, int) else list(dim)
    n = max(input.dim(), 1)
    for d in given:
        if not -n <= d < n:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {d})"
            )
    dims = [d % n for d in given]
    for d in dims:
        if dims.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    return dims


def _inside(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    return x.narrow(dim, start, length)


def _gradient_even(x: Tensor, dim: int, h: Any, order: int) -> Tensor:
    n = x.shape[dim]
    inner = (_inside(x, dim, 2, n - 2) - _inside(x, dim, 0, n - 2)) / (2 * h)
    first = [_inside(x, dim, k, 1) for k in builtins.range(order + 1)]
    last = [_inside(x, dim, n - 1 - k, 1) for k in builtins.range(order + 1)]
    if order == 1:
        low, high = (first[1] - first[0]) / h, (last[0] - last[1]) / h
    else:
        low = (4 * first[1] - 3 * first[0] - first[2]) / (2 * h)
        high = (3 * last[0] - 4 * last[1] + last[2]) / (2 * h)
    return cograd.cat((low, inner, high), dim)


def _gradient_uneven(x: Tensor, dim: int, points: Tensor, order: int) -> Tensor:
    n = x.shape[dim]
    if points.dim() != 1 or points.numel() != n:
        raise RuntimeError(
            f"torch.gradient expected spacing of {n} coordinates for dim {dim}, got shape "
            f"{tuple(points.shape)}"
        )
    steps = points.diff().reshape([-1 if d == dim else 1 for d in builtins.range(x.dim())])
    a, b = _inside(steps, dim, 0, n - 2), _inside(steps, dim, 1, n - 2)
    inner = (
        _inside(x, dim, 0, n - 2) * (-b / (a * (a + b)))
        + _inside(x, dim, 1, n - 2) * ((b - a) / (a * b))
        + _inside(x, dim, 2, n - 2) * (a / (b * (a + b)))
    )

    def end(at: int, sign: int) -> Tensor:
        values = [_inside(x, dim, at + sign * k, 1) for k in builtins.range(order + 1)]
        edge = at if sign > 0 else at - 1
        h = [_inside(steps, dim, edge + sign * k, 1) for k in builtins.range(order)]
        if order == 1:
            return sign * (values[1] - values[0]) / h[0]
        total = h[0] + h[1]
        slope = (
            values[0] * (-(2 * h[0] + h[1]) / (h[0] * total))
            + values[1] * (total / (h[0] * h[1]))
            - values[2] * (h[0] / (h[1] * total))
        )
        return sign * slope

    return cograd.cat((end(0, 1), inner, end(n - 1, -1)), dim)


def gradient(
    input: Tensor,
    *,
    spacing: Any = 1,
    dim: int | Sequence[int] | None = None,
    edge_order: int = 1,
) -> tuple[Tensor, ...]:
    """Computes derivatives of sampled values along each of ``dim`` by second-order differences.

    Args:
        input: values (any shape); integers except uint8 are computed in the default dtype.
        spacing: a scalar, the distance between neighbours; or a sequence of scalars or of 1-d
            tensors of coordinates, one for each dim.
        dim: the dims (None: all).
        edge_order: 1 or 2, the order of accuracy at the ends; each dim needs at least
            ``edge_order + 1`` elements.

    Returns a tuple of tensors like ``input``. Central differences on unequal steps: B. Fornberg,
    "Generation of finite difference formulas on arbitrarily spaced grids" (1988).
    """
    if input.dtype is _C.uint8:
        raise RuntimeError("torch.gradient does not support uint8 input.")
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    dims = _dims(input, dim)
    if isinstance(spacing, Tensor) and spacing.numel() == 1:
        spacing = spacing.item()
    single = isinstance(spacing, (int, float, complex))
    spaces = [spacing] * len(dims) if single else list(spacing)
    if len(spaces) != len(dims):
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim "
            f"arguments to have the same length, but got a spacing argument of length "
            f"{len(spaces)} and a dim argument of length {len(dims)}."
        )
    for d in dims:
        if input.shape[d] < edge_order + 1:
            raise RuntimeError(
                "torch.gradient expected each dimension size to be at least edge_order+1"
            )
    x = input
    if not (x.is_floating_point() or x.is_complex()):
        x = x.to(cograd.get_default_dtype())
    return tuple(
        _gradient_uneven(x, d, s, edge_order)
        if isinstance(s, Tensor)
        else _gradient_even(x, d, s, edge_order)
        for d, s in zip(dims, spaces, strict=True)
    )
