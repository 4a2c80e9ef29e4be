# SPDX-License-Identifier: BSD-3-Clause
"""Helpers for layers and state dicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["consume_prefix_in_state_dict_if_present"]


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """Returns a function that makes tuples: of an iterable, or of a number repeated ``n`` times."""

    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else (x,) * n

    parse.__name__ = name
    return parse


# Layers outside of cograd import these from here.
_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: Any, n: int) -> tuple[Any, ...]:
    """Repeats each element of ``t`` ``n`` times, the last one first: a padding for ``F.pad``."""
    return tuple(x for x in reversed(t) for _ in range(n))


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Removes ``prefix``, such as "module.", from the keys that begin with it, in place.

    A state_dict of DistributedDataParallel then fits the module that it wraps.
    """
    for key in list(state_dict):
        value = state_dict.pop(key)  # pop and set every key, so that the order stays
        state_dict[key.removeprefix(prefix)] = value
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is None:
        return
    for key in list(metadata):
        if key == prefix.removesuffix("."):
            metadata[""] = metadata.pop(key)
        elif key.startswith(prefix):
            metadata[key[len(prefix) :]] = metadata.pop(key)
