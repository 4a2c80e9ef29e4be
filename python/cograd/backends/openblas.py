# SPDX-License-Identifier: BSD-3-Clause
"""OpenBLAS: products by default, and all of linalg's decompositions."""

from __future__ import annotations

from cograd.backends import _library

__all__ = ["is_available", "version"]


def is_available() -> bool:
    """Always True: cograd is linked to it."""
    return True


def version() -> str:
    """OpenBLAS' own line of version, options and kernels."""
    return _library.version("openblas")
