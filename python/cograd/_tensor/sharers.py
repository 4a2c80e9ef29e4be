# SPDX-License-Identifier: BSD-3-Clause
"""Finds the tensors that share a storage."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from typing import Any

from cograd import _C
from cograd._C import Tensor

__all__ = ["tensors_over"]


def _roots() -> Iterator[Any]:
    """Yields all objects that the collector tracks, and local variables of running functions."""
    yield from gc.get_objects()
    for frame in list(sys._current_frames().values()):
        at: Any = frame
        while at is not None:
            yield from list(at.f_locals.values())
            at = at.f_back


def _untracked(value: Any) -> bool:
    """True if the collector does not track a container, because it cannot be part of a cycle."""
    return isinstance(value, (dict, tuple)) and not gc.is_tracked(value)


def tensors_over(tensor: Tensor) -> list[Tensor]:
    """Returns the tensors over the memory of ``tensor`` that Python objects refer to.

    Visits every object, which takes up to a second in a large program. Can miss tensors, so the
    caller has to compare with the reference count.
    """
    found: dict[int, Tensor] = {}
    for root in _roots():
        waiting = [root]
        while waiting:
            value = waiting.pop()
            if issubclass(type(value), Tensor):
                if _C._same_storage(value, tensor):
                    found[id(value)] = value
            elif value is root or _untracked(value):
                waiting += [
                    part
                    for part in gc.get_referents(value)
                    if issubclass(type(part), Tensor) or _untracked(part)
                ]
    return list(found.values())
