# SPDX-License-Identifier: BSD-3-Clause
"""Samples images at positions between their pixels, composed of gathers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import cograd
from cograd import _C, Tensor

__all__ = ["affine_grid_generator", "grid_sampler", "grid_sampler_2d", "grid_sampler_3d"]

_BILINEAR, _NEAREST, _BICUBIC = range(3)
_ZEROS, _BORDER, _REFLECTION = range(3)
_KEYS = -0.75  # the parameter of the cubic convolution


def _unnormalized(v: Tensor, size: int, align: bool) -> Tensor:
    """Converts a coordinate in [-1, 1] to a fractional index."""
    return (v + 1) / 2 * (size - 1) if align else ((v + 1) * size - 1) / 2


def _reflected(v: Tensor, low: float, span: float) -> Tensor:
    """Folds ``v`` into [low, low + span] by mirroring it at both ends."""
    if span == 0:
        return cograd.zeros_like(v)
    distance = (v - low).abs()
    turns = (distance / span).floor()
    rest = distance.fmod(span)
    return cograd.where(turns % 2 == 0, rest + low, span - rest + low)


def _inside(v: Tensor, size: int, padding: int, align: bool) -> Tensor:
    if padding == _ZEROS:
        return v
    if padding == _REFLECTION:
        v = _reflected(v, 0.0, size - 1.0) if align else _reflected(v, -0.5, float(size))
    # The gradient is zero on the border itself, as it is outside.
    limited = cograd.where(v <= 0, 0.0, cograd.where(v >= size - 1, size - 1.0, v))
    return cograd.where(v.isnan(), 0.0, limited)


def _near(d: Tensor) -> Tensor:
    return ((_KEYS + 2) * d - (_KEYS + 3)) * d * d + 1


def _far(d: Tensor) -> Tensor:
    return ((_KEYS * d - 5 * _KEYS) * d + 8 * _KEYS) * d - 4 * _KEYS


def _taps(
    v: Tensor, size: int, mode: int, padding: int, align: bool
) -> list[tuple[Tensor, Tensor | None]]:
    """Returns the elements that are read along one dim, and their weights."""
    if mode == _BICUBIC:
        low = v.floor().detach()
        part = v - low
        weights = (_far(part + 1), _near(part), _near(1 - part), _far(2 - part))
        return [
            (_inside(low + (k - 1), size, padding, align), weight)
            for k, weight in enumerate(weights)
        ]
    at = _inside(v, size, padding, align)
    if mode == _NEAREST:
        return [(at.round().detach(), None)]
    low = at.floor().detach()
    part = at - low
    return [(low, 1 - part), (low + 1, part)]


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Runs ``nn.functional.grid_sample`` with integer codes for the modes."""
    if _C._autocast_enabled():
        input, grid = _C._autocast_wide(input, grid)
    n = input.dim() - 2
    if n not in (2, 3) or grid.dim() != n + 2:
        raise RuntimeError(
            "grid_sampler(): expected 4D input and grid with same number of dimensions, but got "
            f"input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    if input.shape[0] != grid.shape[0]:
        raise RuntimeError(
            "grid_sampler(): expected grid and input to have same batch size, but got input with "
            f"sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    if grid.shape[-1] != n:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {n} in last dimension, but got grid with "
            f"sizes {list(grid.shape)}"
        )
    if input.dtype != grid.dtype:
        raise RuntimeError(
            "grid_sampler(): expected input and grid to have same dtype, but input has "
            f"{input.dtype} and grid has {grid.dtype}"
        )
    if not input.is_floating_point():
        raise NotImplementedError(f'"grid_sampler" not implemented for {input.dtype}')
    if 0 in input.shape[2:]:
        raise RuntimeError(
            "grid_sampler(): expected input to have non-empty spatial dimensions, but input has "
            f"sizes {list(input.shape)}"
        )
    if interpolation_mode == _BICUBIC and n == 3:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    batch, channels = input.shape[:2]
    flat = input.reshape(batch, channels, math.prod(input.shape[2:]))
    dims = [
        _taps(
            _unnormalized(grid[..., n - 1 - d], input.shape[d + 2], align_corners),
            input.shape[d + 2],
            interpolation_mode,
            padding_mode,
            align_corners,
        )
        for d in range(n)
    ]
    result = None
    for corner in itertools.product(*dims):
        part = _corner(input, flat, corner)
        result = part if result is None else result + part
    assert result is not None
    if interpolation_mode == _NEAREST and grid.requires_grad:
        # The result is a step function of the grid: the grid's gradient is zero, not None.
        result = result + cograd.where(cograd.ones_like(grid, dtype=cograd.bool), 0.0, grid).sum()
    return _C._ops._unsafe_view(result, batch, channels, *grid.shape[1:-1])


def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Runs ``grid_sampler`` on images."""
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def grid_sampler_3d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Runs ``grid_sampler`` on volumes."""
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def _corner(input: Tensor, flat: Tensor, corner: Sequence[tuple[Tensor, Tensor | None]]) -> Tensor:
    """Returns the weighted elements at one corner, zero where the corner is outside."""
    batch, channels = input.shape[:2]
    index = weight = valid = None
    for d, (at, w) in enumerate(corner):
        size = input.shape[d + 2]
        within = (at >= 0) & (at <= size - 1)
        whole = cograd.where(within, at, 0.0).long()
        index = whole if index is None else index * size + whole
        valid = within if valid is None else valid & within
        if w is not None:
            weight = w if weight is None else weight * w
    assert index is not None
    assert valid is not None
    count = math.prod(index.shape[1:])
    places = index.reshape(batch, 1, count).expand(batch, channels, count)
    factor = valid.to(input.dtype) if weight is None else cograd.where(valid, weight, weight * 0.0)
    return flat.gather(2, places) * factor.reshape(batch, 1, count)


def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """Returns where the affine maps ``theta`` (N, n, n + 1) move a regular grid: (N, *, n)."""
    n = len(size) - 2
    axes = []
    for length in reversed(tuple(size)[2:]):
        axis = cograd.linspace(-1, 1, length, dtype=theta.dtype, device=theta.device)
        if length == 1:
            axis = cograd.zeros(1, dtype=theta.dtype, device=theta.device)
        elif not align_corners:
            axis = axis * ((length - 1) / length)
        axes.append(axis)
    shape = tuple(size)[2:]
    columns = [
        axis.reshape([-1 if d == n - 1 - i else 1 for d in range(n)]).expand(shape).reshape(-1)
        for i, axis in enumerate(axes)
    ]
    columns.append(cograd.ones_like(columns[0]))
    base = cograd.stack(columns, 1)
    return _C._ops._unsafe_view(base @ theta.transpose(1, 2), size[0], *shape, n)
