# SPDX-License-Identifier: BSD-3-Clause
"""OpenBLAS: computes complex products, and all decompositions of linalg."""

from __future__ import annotations

from cograd.backends import _library

__all__ = ["is_available", "version"]


def is_available() -> bool:
    """Returns True: cograd is linked to it."""
    return True


def version() -> str:
    """Returns OpenBLAS' text of version, options and kernels."""
    return _library.version("openblas")
