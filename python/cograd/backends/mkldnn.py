# SPDX-License-Identifier: BSD-3-Clause
"""oneDNN, formerly MKL-DNN, from the package ``onednn-cpu-gomp`` (extra ``cograd[onednn]``)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from cograd.backends import _library

__all__ = [
    "VERBOSE_OFF",
    "VERBOSE_ON",
    "VERBOSE_ON_CREATION",
    "allow_tf32",
    "deterministic",
    "enabled",
    "flags",
    "fp32_precision",
    "is_available",
    "set_flags",
    "verbose",
    "version",
]

VERBOSE_OFF = 0
VERBOSE_ON = 1
VERBOSE_ON_CREATION = 2

enabled: bool
# Stored for compatibility with torch: results depend only on shapes, and float32 stays float32.
deterministic = False
allow_tf32: bool | None = None
fp32_precision = "none"


def is_available() -> bool:
    """Returns whether oneDNN is installed and can be loaded."""
    return _library.is_available("onednn")


def version() -> str:
    """Returns the version as text. Raises RuntimeError if oneDNN is not installed."""
    return _library.version("onednn")


class verbose(_library.Verbose):
    """Accepted for compatibility with torch: nothing is printed.

    Args:
        level: ``VERBOSE_OFF``, ``VERBOSE_ON`` or ``VERBOSE_ON_CREATION``.
    """

    def __init__(self, level: int) -> None:
        self.level = level


def set_flags(
    _enabled: bool | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
    _fp32_precision: str = "none",
) -> tuple[bool, bool, bool | None, str]:
    """Sets the given switches and returns the former values.

    Raises:
        RuntimeError: ``_enabled`` is True and oneDNN is not installed.
    """
    global deterministic, allow_tf32, fp32_precision
    module: Any = sys.modules[__name__]
    before = (module.enabled, deterministic, allow_tf32, fp32_precision)
    if _enabled is not None:
        module.enabled = _enabled
    if _deterministic is not None:
        deterministic = _deterministic
    if _allow_tf32 is not None:
        allow_tf32 = _allow_tf32
    fp32_precision = _fp32_precision
    return before


@contextmanager
def flags(
    enabled: bool = False,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
) -> Iterator[None]:
    """Sets the switches for the duration of a with block."""
    convolution, matmul = (_library.get_library(name) for name in ("convolution", "matmul"))
    before = set_flags(enabled, deterministic, allow_tf32, fp32_precision)
    try:
        yield
    finally:
        globals().update(deterministic=before[1], allow_tf32=before[2], fp32_precision=before[3])
        _library.set_library("convolution", convolution)
        _library.set_library("matmul", matmul)


class _Module(ModuleType):
    @property
    def enabled(self) -> bool:
        """True if oneDNN computes anything.

        Setting it chooses oneDNN for convolutions; unsetting it returns to cograd's own loops for
        convolutions and products.
        """
        return "onednn" in (_library.get_library(name) for name in _library.OPERATIONS)

    @enabled.setter
    def enabled(self, value: bool) -> None:
        if value:
            _library.set_library("convolution", "onednn")
            return
        for operation, libraries in _library.OPERATIONS.items():
            if _library.get_library(operation) == "onednn":
                _library.set_library(operation, libraries[0])


sys.modules[__name__].__class__ = _Module
