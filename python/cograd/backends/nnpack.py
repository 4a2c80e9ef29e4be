# SPDX-License-Identifier: BSD-3-Clause
# Written by make stubs from the rows of python/surface/switches.toml: change those.
"""The flag of NNPACK, which cograd does not use: stored without effect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cograd._as_torch.stored import store as _store

__all__ = [
    "enabled",
    "flags",
    "is_available",
    "set_flags",
]

enabled = False


def is_available() -> bool:
    """Returns False."""
    return False


def set_flags(_enabled: bool) -> tuple[bool]:
    """Stores the given switches and returns the former values of all."""
    before: tuple[bool] = _store(globals(), enabled=_enabled)
    return before


_SWITCHES = ("enabled",)


@contextmanager
def flags(enabled: bool = False) -> Iterator[None]:
    """Stores the switches for the duration of a with block."""
    before = {name: globals()[name] for name in _SWITCHES}
    set_flags(enabled)
    try:
        yield
    finally:
        globals().update(before)
