# SPDX-License-Identifier: BSD-3-Clause
"""Keeps a module's buffers while it runs for a recording."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import cograd

__all__ = ["kept_buffers"]


@contextmanager
def kept_buffers(module: Any) -> Iterator[Callable[[], None]]:
    """Restores the buffers of a module, or of none; yields what restores them now."""
    buffers = list(module.buffers()) if isinstance(module, cograd.nn.Module) else []
    saved = [(buffer, buffer.detach().clone()) for buffer in buffers]

    def restore() -> None:
        with cograd.no_grad():
            for buffer, old in saved:
                if not cograd.equal(buffer, old):
                    buffer.copy_(old)

    try:
        yield restore
    finally:
        restore()
