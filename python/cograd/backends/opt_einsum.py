# SPDX-License-Identifier: BSD-3-Clause
# Written by make stubs from the rows of python/surface/switches.toml: change those.
"""torch.backends.opt_einsum: cograd does not use opt_einsum to order einsum's products."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cograd._as_torch.stored import store as _store

__all__ = [
    "enabled",
    "flags",
    "get_opt_einsum",
    "is_available",
    "set_flags",
    "strategy",
]

enabled = False
strategy: str | None = None


def is_available() -> bool:
    """Returns False; ``opt_einsum`` itself accepts cograd's tensors."""
    return False


def get_opt_einsum() -> None:
    """Returns None: the package is not used."""


def set_flags(
    _enabled: bool | None = None, _strategy: str | None = None
) -> tuple[bool, str | None]:
    """Stores the given switches and returns the former values of all."""
    before: tuple[bool, str | None] = _store(globals(), enabled=_enabled, strategy=_strategy)
    return before


_SWITCHES = ("enabled", "strategy")


@contextmanager
def flags(enabled: bool | None = None, strategy: str | None = None) -> Iterator[None]:
    """Stores the switches for the duration of a with block."""
    before = {name: globals()[name] for name in _SWITCHES}
    set_flags(enabled, strategy)
    try:
        yield
    finally:
        globals().update(before)
