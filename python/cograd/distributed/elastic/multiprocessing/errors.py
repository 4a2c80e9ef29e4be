# SPDX-License-Identifier: BSD-3-Clause
"""Decorates a rank's main function in programs written for torchrun."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["record"]

T = TypeVar("T")


def record(fn: Callable[..., T], error_handler: Any = None) -> Callable[..., T | None]:
    """Returns ``fn``; its errors reach the other ranks as those of any program do.

    ``sys.exit(0)`` within ``fn`` ends only ``fn``. ``error_handler`` is ignored: no file is
    written.
    """

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> T | None:
        try:
            return fn(*args, **kwargs)
        except SystemExit as error:
            if error.code == 0:
                return None
            raise

    return wrapper
