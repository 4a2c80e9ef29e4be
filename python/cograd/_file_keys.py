# SPDX-License-Identifier: BSD-3-Clause
"""Validates the keys of dicts and sets read from untrusted files, and limits the time to fill them.

Hashes of numbers and tuples are the same in every process, so a file can hold keys whose hashes
collide; each is then compared with all before it. The limit is on the time, not on the number of
keys.
"""

from __future__ import annotations

import time
from collections.abc import MutableMapping, Sequence
from typing import Any

import cograd
from cograd import _C
from cograd._memory_format import layout, memory_format

__all__ = ["Filler"]

_NAMED = (_C.dtype, _C.device, layout, memory_format)
_PLAIN = {str, float, bool, bytes, complex, type(None), *_NAMED}
_NESTED = (tuple, frozenset, cograd.Size)
_DEPTH = 4
_ITEMS = 4096
_BITS = 4096  # bits of an int key, whose hash is recomputed every time
_TOGETHER = 16  # number of keys between two clock readings
_SECONDS = 1.0
_SECONDS_A_BYTE = 5e-6  # over fifteen times what keys without collisions take


def _check_plain(key: Any) -> None:
    if type(key) is int:
        if key.bit_length() > _BITS:
            raise ValueError(f"a key or an item of a set is an int of over {_BITS} bits")
    elif type(key) not in _PLAIN:
        raise ValueError(f"a key or an item of a set is a {type(key).__name__}")


def _check_nested(key: Any) -> None:
    """Raises ValueError for keys whose hash could take unbounded time or run code."""
    level, seen = [key], 0
    for depth in range(_DEPTH + 1):
        inner: list[Any] = []
        for item in level:
            if type(item) in _NESTED and depth < _DEPTH:
                seen += len(item)  # each time: a small file can reference one tuple often
                if seen > _ITEMS:
                    raise ValueError(f"a key or an item of a set has more than {_ITEMS} items")
                inner += item
            else:
                _check_plain(item)
        level = inner


class Filler:
    """Fills the dicts and sets of one file, or pickle in it, of ``size`` bytes.

    Raises:
        ValueError: a key has a type that is not allowed, or the keys so far took too long.
    """

    def __init__(self, size: float) -> None:
        self._left = _SECONDS + _SECONDS_A_BYTE * size  # CPU time of this thread
        self._nested: dict[int, Any] = {}  # checked keys, by identity

    def _check(self, key: Any) -> Any:
        if type(key) not in _NESTED:
            _check_plain(key)
        elif id(key) not in self._nested:
            _check_nested(key)
            self._nested[id(key)] = key
        return key

    def _spend(self, start: float) -> None:
        self._left -= time.thread_time() - start
        if self._left < 0:
            raise ValueError("the keys of its dicts and sets take too long: their hashes collide")

    def put(
        self, target: MutableMapping[Any, Any], keys: Sequence[Any], values: Sequence[Any]
    ) -> None:
        """Sets the values of the keys."""
        for at in range(0, len(keys), _TOGETHER):
            part, rest = keys[at : at + _TOGETHER], values[at : at + _TOGETHER]
            if all(type(key) is str for key in part):  # string hashes are salted
                for key, value in zip(part, rest):
                    target[key] = value
                continue
            start = time.thread_time()
            for key, value in zip(part, rest):
                target[self._check(key)] = value
            self._spend(start)

    def add(self, target: set[Any], items: Sequence[Any]) -> None:
        """Adds the items."""
        for at in range(0, len(items), _TOGETHER):
            start = time.thread_time()
            for item in items[at : at + _TOGETHER]:
                target.add(self._check(item))
            self._spend(start)
