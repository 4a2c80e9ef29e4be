# SPDX-License-Identifier: BSD-3-Clause
"""Registers cograd's tensors with einops, which finds array types by subclasses of its base class.

This module is imported when the program has loaded both (``_base.finders.when_loaded``).
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import cograd

__all__ = ["tell_einops"]


class _Rules:
    """The backend methods that einops calls; the names are einops'."""

    framework_name = "cograd"

    def is_appropriate_type(self, tensor: Any) -> bool:
        return isinstance(tensor, cograd.Tensor)

    def from_numpy(self, x: Any) -> Any:
        return cograd.from_numpy(x)

    def to_numpy(self, x: Any) -> Any:
        return x.detach().numpy()

    def arange(self, start: int, stop: int) -> Any:
        return cograd.arange(start, stop)

    def shape(self, x: Any) -> tuple[int, ...]:
        return tuple(x.shape)

    def reshape(self, x: Any, shape: Sequence[int]) -> Any:
        return x.reshape(shape)

    def transpose(self, x: Any, axes: Sequence[int]) -> Any:
        return x.permute(axes)

    def reduce(self, x: Any, operation: str, axes: Sequence[int]) -> Any:
        axes = tuple(axes)
        if operation == "prod":
            for axis in sorted(axes, reverse=True):
                x = x.prod(axis)
            return x
        names = {"min": "amin", "max": "amax"}
        return getattr(x, names.get(operation, operation))(dim=axes) if axes else x

    def stack_on_zeroth_dimension(self, tensors: list[Any]) -> Any:
        return cograd.stack(tensors)

    def add_axis(self, x: Any, new_position: int) -> Any:
        return x.unsqueeze(new_position)

    def tile(self, x: Any, repeats: Sequence[int]) -> Any:
        return x.repeat(repeats)

    def add_axes(self, x: Any, n_axes: int, pos2len: dict[int, int]) -> Any:
        sizes = [-1] * n_axes
        for position, length in pos2len.items():
            x = x.unsqueeze(position)
            sizes[position] = length
        return x.expand(sizes)

    def concat(self, tensors: list[Any], axis: int) -> Any:
        return cograd.cat(tensors, axis)

    def is_float_type(self, x: Any) -> bool:
        return bool(x.is_floating_point() or x.is_complex())

    def einsum(self, pattern: str, *x: Any) -> Any:
        return cograd.einsum(pattern, *x)


_told: list[type] = []  # keeps the class alive: einops itself holds no reference


def tell_einops() -> None:
    """Creates the backend subclass that einops discovers."""
    base = getattr(import_module("einops._backends"), "AbstractBackend", None)
    if base is not None and not _told:
        _told.append(type("CogradBackend", (_Rules, base), {}))
