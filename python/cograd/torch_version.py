# SPDX-License-Identifier: BSD-3-Clause
"""Version strings that compare by version number."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["TorchVersion"]


def _key(version: Any) -> tuple[Any, ...]:
    """Returns (release without trailing zeros, 0 if final else -1) of "2.13.0a1+cpu" or (2, 13)."""
    if isinstance(version, (tuple, list)):
        version = ".".join(map(str, version))
    match = re.match(r"v?(\d+(?:\.\d+)*)(.*)", str(version))
    if match is None:
        raise ValueError(f"expected a version, got {version!r}")
    release = [int(part) for part in match[1].split(".")]
    while len(release) > 1 and release[-1] == 0:
        release.pop()
    rest = match[2].partition("+")[0]
    stage = -1 if re.match(r"[.\-_]?(a|b|c|rc|alpha|beta|pre|dev)", rest) else 0
    return (tuple(release), stage)


class TorchVersion(str):
    """A str that compares with versions, strings or tuples, by their numbers."""

    def __lt__(self, other: Any) -> bool:
        return _key(self) < _key(other)

    def __le__(self, other: Any) -> bool:
        return _key(self) <= _key(other)

    def __gt__(self, other: Any) -> bool:
        return _key(self) > _key(other)

    def __ge__(self, other: Any) -> bool:
        return _key(self) >= _key(other)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str) and str.__eq__(self, other):
            return True
        try:
            return _key(self) == _key(other)
        except ValueError:
            return False

    __hash__ = str.__hash__
