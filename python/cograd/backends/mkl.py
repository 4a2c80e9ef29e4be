# SPDX-License-Identifier: BSD-3-Clause
"""Intel's MKL for matrix products, from the package ``mkl`` (extra ``cograd[mkl]``)."""

from __future__ import annotations

import sys
from types import ModuleType

from cograd.backends import _library

__all__ = ["VERBOSE_OFF", "VERBOSE_ON", "enabled", "is_available", "verbose", "version"]

VERBOSE_OFF = 0
VERBOSE_ON = 1

enabled: bool


def is_available() -> bool:
    """Returns whether MKL is installed and can be loaded."""
    return _library.is_available("mkl")


def version() -> str:
    """Returns MKL's version text. Raises RuntimeError if it is not installed."""
    return _library.version("mkl")


class verbose(_library.Verbose):
    """Accepted for compatibility with torch: nothing is printed.

    Args:
        enable: ``VERBOSE_OFF`` or ``VERBOSE_ON``.
    """

    def __init__(self, enable: int) -> None:
        self.enable = enable


class _Module(ModuleType):
    @property
    def enabled(self) -> bool:
        """True if MKL computes products; setting it chooses MKL, or cograd's own products again."""
        return _library.get_library("matmul") == "mkl"

    @enabled.setter
    def enabled(self, value: bool) -> None:
        if value:
            _library.set_library("matmul", "mkl")
        elif self.enabled:
            _library.set_library("matmul", "own")


sys.modules[__name__].__class__ = _Module
