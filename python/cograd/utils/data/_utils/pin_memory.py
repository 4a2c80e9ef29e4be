# SPDX-License-Identifier: BSD-3-Clause
"""Moves the tensors of a batch to pinned memory."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

from cograd import Tensor

__all__ = ["pin_memory"]


def pin_memory(data: Any, device: Any = None) -> Any:
    """Returns ``data`` with its tensors in pinned memory.

    Looks into mappings and sequences, and calls the method ``pin_memory`` of other objects that
    have one.
    """
    if isinstance(data, Tensor):
        return data.pin_memory() if data.device.type == "cpu" else data
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, Mapping):
        pinned = {key: pin_memory(value) for key, value in data.items()}
        if isinstance(data, MutableMapping):  # of a class that may hold more than its items
            result = copy.copy(data)
            result.update(pinned)
            return result
        return pinned
    if isinstance(data, tuple):
        items = [pin_memory(item) for item in data]
        return type(data)(*items) if hasattr(data, "_fields") else tuple(items)
    if isinstance(data, Sequence):
        items = [pin_memory(item) for item in data]
        if isinstance(data, MutableSequence):
            same = copy.copy(data)
            for i, item in enumerate(items):
                same[i] = item
            return same
        return items
    return data
