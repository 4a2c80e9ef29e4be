# SPDX-License-Identifier: BSD-3-Clause
# Written by make stubs from the rows of python/surface/faces.toml: change those.
"""torch.onnx for a library without export: programs can check for an export in progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cograd._base import absent as _absent

__all__ = [
    "is_in_onnx_export",
]


def is_in_onnx_export() -> bool:
    """Returns False."""
    return False


if not TYPE_CHECKING:  # type checkers would accept every name
    __getattr__ = _absent.reporter(__name__)
    del TYPE_CHECKING, annotations
