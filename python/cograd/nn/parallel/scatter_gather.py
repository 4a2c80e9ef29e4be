# SPDX-License-Identifier: BSD-3-Clause
"""scatter and gather over devices, which all are the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cograd
from cograd import _C, Tensor

__all__ = ["gather", "scatter", "scatter_kwargs"]


def _like(value: Any, parts: Sequence[Any]) -> Any:
    """A list, tuple or named tuple of ``parts``, as ``value`` is one."""
    return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)


def _scattered(value: Any, count: int, dim: int) -> list[Any]:
    if isinstance(value, Tensor):
        return list(value.chunk(count, dim))
    if isinstance(value, (list, tuple)) and value:
        rows = zip(*(_scattered(item, count, dim) for item in value))
        return [_like(value, row) for row in rows]
    if isinstance(value, dict) and value:
        rows = zip(*(_scattered(item, count, dim) for item in value.values()))
        return [type(value)(zip(value, row)) for row in rows]
    return [value] * count


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """Parts of ``inputs`` for the devices: tensors are divided, containers item by item.

    Anything else is given to each. RuntimeError for a device that is not the CPU.
    """
    for device in target_gpus:
        _C._check_device(cograd.device(device) if isinstance(device, int) else device)
    return _scattered(inputs, len(target_gpus), dim) if target_gpus else []


def scatter_kwargs(
    inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, target_gpus: Sequence[Any], dim: int = 0
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """Positional and named arguments for each device; the shorter list is filled up."""
    args = list(scatter(inputs, target_gpus, dim)) if inputs else []
    named = list(scatter(kwargs, target_gpus, dim)) if kwargs else []
    args += [()] * (len(named) - len(args))
    named += [{} for _ in range(len(args) - len(named))]
    return tuple(args), tuple(named)


def gather(outputs: Sequence[Any], target_device: Any, dim: int = 0) -> Any:
    """The parts together again; RuntimeError for a device that is not the CPU."""
    _C._check_device(target_device)
    first = outputs[0]
    if isinstance(first, Tensor):
        if all(t.dim() == 0 for t in outputs):
            return cograd.stack(list(outputs))
        return cograd.cat(list(outputs), dim)
    if first is None:
        return None
    if isinstance(first, dict):
        return type(first)(
            (key, gather([o[key] for o in outputs], target_device, dim)) for key in first
        )
    return _like(first, [gather(items, target_device, dim) for items in zip(*outputs)])
