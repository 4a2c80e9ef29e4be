# SPDX-License-Identifier: BSD-3-Clause
"""Registers cograd's tensors with einops, which finds array types by subclasses of its base class.

Nothing is imported for this: if einops is already loaded, the rules are registered at once,
otherwise when the program imports it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import cograd

__all__ = ["watch"]


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


def _tell_einops() -> None:
    """Creates the backend subclass that einops discovers."""
    base = getattr(sys.modules.get("einops._backends"), "AbstractBackend", None)
    if base is not None and not _told:
        _told.append(type("CogradBackend", (_Rules, base), {}))


class _Waiting:
    """A module finder that comes first until einops is imported, and then removes itself."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "einops":
            return None
        from importlib.util import find_spec

        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is None or spec.loader is None:
            sys.meta_path.insert(0, self)
            return spec
        run = spec.loader.exec_module

        def run_and_tell(module: Any) -> None:
            run(module)
            import_module("einops._backends")
            _tell_einops()

        spec.loader.exec_module = run_and_tell  # type: ignore[method-assign]
        return spec


def watch() -> None:
    """Registers with einops now, or when it is imported."""
    if "einops" in sys.modules:
        _tell_einops()
    else:
        sys.meta_path.insert(0, _Waiting())
