# SPDX-License-Identifier: BSD-3-Clause
"""Knows which names torch has that cograd lacks, by a Bloom filter of tools/gen_torch_names.py.

A key is always found; about one in 70 other strings is found, too.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

__all__ = ["Names", "guess", "torch_names"]

_HASHES = 7

_ERROR = re.compile(r"\w*(Error|Exception|Warning)")
_TYPEVAR = re.compile(r"_?[A-Z]\d?(_co|_contra)?")


class Names:
    """A set of strings; ``in`` is never wrong about its elements, and rarely about others."""

    def __init__(self, table: bytes) -> None:
        self.table = table

    def __contains__(self, key: str) -> bool:
        return all(self.table[n >> 3] >> (n & 7) & 1 for n in _places(key, 8 * len(self.table)))

    @classmethod
    def of(cls, keys: Iterable[str], size: int) -> Names:
        """Returns a filter of ``size`` bytes that contains ``keys``."""
        table = bytearray(size)
        for key in keys:
            for n in _places(key, 8 * size):
                table[n >> 3] |= 1 << (n & 7)
        return cls(bytes(table))


def _places(key: str, bits: int) -> Iterator[int]:
    """Yields the bits of ``key``, by double hashing."""
    digest = hashlib.blake2b(key.encode(), digest_size=16, usedforsecurity=False).digest()
    first = int.from_bytes(digest[:8], "little")
    step = int.from_bytes(digest[8:], "little") | 1
    return ((first + n * step) % bits for n in range(_HASHES))


@functools.cache
def torch_names() -> Names:
    """Returns the filter of torch's names."""
    return Names((Path(__file__).parent / "names.bin").read_bytes())


def guess(name: str) -> str:
    """Returns the kind that a name's spelling suggests; the filter has the exceptions."""
    bare = name.lstrip("_")
    if _TYPEVAR.fullmatch(name):
        return "typevar"
    if bare.isupper() and len(bare) > 1:
        return "other"
    if _ERROR.fullmatch(bare):
        return "error"
    return "class" if bare[:1].isupper() else "function"
