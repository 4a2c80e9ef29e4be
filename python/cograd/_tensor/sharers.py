# SPDX-License-Identifier: BSD-3-Clause
"""Who else looks at a tensor's memory: what has to move along when it moves."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from typing import Any

from cograd import _C
from cograd._C import Tensor

__all__ = ["tensors_over"]


def _roots() -> Iterator[Any]:
    """All that the collector tracks, and the local variables of running functions."""
    yield from gc.get_objects()
    for frame in list(sys._current_frames().values()):
        at: Any = frame
        while at is not None:
            yield from list(at.f_locals.values())
            at = at.f_back


def _untracked(value: Any) -> bool:
    """Whether the collector does not know a container, since nothing in it could form a cycle."""
    return isinstance(value, (dict, tuple)) and not gc.is_tracked(value)


def tensors_over(tensor: Tensor) -> list[Tensor]:
    """The tensors over the memory of ``tensor`` that Python objects refer to.

    It looks at every object, which takes up to a second in a large program, and may miss some:
    the caller has to count.
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
