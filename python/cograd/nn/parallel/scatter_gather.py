# SPDX-License-Identifier: BSD-3-Clause
"""scatter and gather over devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cograd
from cograd import _C, Tensor

__all__ = ["gather", "scatter", "scatter_kwargs"]


def _like(value: Any, parts: Sequence[Any]) -> Any:
    """Builds a list, tuple or named tuple of ``parts``, of the type of ``value``."""
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
    """Divides ``inputs`` among the devices: splits tensors, and containers item by item.

    Each device gets any other value as it is. An int is the number of a GPU. Raises RuntimeError
    if a device does not exist.
    """
    devices = [cograd.device(d) if isinstance(d, int) else d for d in target_gpus]
    for device in devices:
        _C._check_device(device)
    parts = _scattered(inputs, len(devices), dim) if devices else []
    return [_moved(part, device) for part, device in zip(parts, devices)]


def _moved(value: Any, device: Any) -> Any:
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, (list, tuple)) and value:
        return _like(value, [_moved(item, device) for item in value])
    if isinstance(value, dict) and value:
        return type(value)((key, _moved(item, device)) for key, item in value.items())
    return value


def scatter_kwargs(
    inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, target_gpus: Sequence[Any], dim: int = 0
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """Divides positional and named arguments among the devices; pads the shorter list."""
    args = list(scatter(inputs, target_gpus, dim)) if inputs else []
    named = list(scatter(kwargs, target_gpus, dim)) if kwargs else []
    args += [()] * (len(named) - len(args))
    named += [{} for _ in range(len(args) - len(named))]
    return tuple(args), tuple(named)


def gather(outputs: Sequence[Any], target_device: Any, dim: int = 0) -> Any:
    """Joins the devices' parts: concatenates tensors, joins containers item by item.

    Raises:
        RuntimeError: the device does not exist.
        ValueError: dicts have different keys, or sequences different lengths.
        TypeError: the parts have different types, or a type that cannot be joined.
    """
    _C._check_device(target_device)
    if not outputs:
        raise IndexError("gather(): outputs is empty, expected a part for each device")
    return _gathered([_moved(part, target_device) for part in outputs], dim)


def _gathered(parts: list[Any], dim: int) -> Any:
    first = parts[0]
    if first is None:
        return None
    kind = next((k for k in (Tensor, dict, Sequence) if isinstance(first, k)), None)
    if kind is None or isinstance(first, (str, bytes)):
        raise TypeError(
            "gather(): outputs must hold tensors, None, or dicts and sequences of those, got "
            + type(first).__name__
        )
    for part in parts:
        if not isinstance(part, kind):
            kinds = f"{type(first).__name__} and {type(part).__name__}"
            raise TypeError(f"gather(): outputs must hold parts of one kind, got {kinds}")
    if kind is Tensor:
        return cograd.cat(parts, dim) if any(t.dim() for t in parts) else cograd.stack(parts)
    if kind is dict:
        _check_alike("dicts of the same keys", [set(part) for part in parts])
        return type(first)((key, _gathered([part[key] for part in parts], dim)) for key in first)
    _check_alike("sequences of one length", [len(part) for part in parts])
    return _like(first, [_gathered(list(items), dim) for items in zip(*parts, strict=True)])


def _check_alike(wanted: str, found: list[Any]) -> None:
    for other in found:
        if other != found[0]:
            raise ValueError(f"gather(): outputs must hold {wanted}, got {found[0]} and {other}")
