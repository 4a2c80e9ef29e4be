# SPDX-License-Identifier: BSD-3-Clause
"""torch.backends.opt_einsum: cograd does not use opt_einsum to order einsum's products."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["enabled", "flags", "get_opt_einsum", "is_available", "set_flags", "strategy"]

enabled = False
strategy: str | None = None


def is_available() -> bool:
    """Returns False; ``opt_einsum`` itself accepts cograd's tensors."""
    return False


def get_opt_einsum() -> None:
    """Returns None: the package is not used."""
    return None


def set_flags(
    _enabled: bool | None = None, _strategy: str | None = None
) -> tuple[bool, str | None]:
    """Stores the flags and returns the former values."""
    global enabled, strategy
    before = (enabled, strategy)
    if _enabled is not None:
        enabled = _enabled
    if _strategy is not None:
        strategy = _strategy
    return before


@contextmanager
def flags(enabled: bool | None = None, strategy: str | None = None) -> Iterator[None]:
    """Stores the flags for the duration of a with block."""
    before = set_flags(enabled, strategy)
    try:
        yield
    finally:
        set_flags(*before)
