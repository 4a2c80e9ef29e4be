# SPDX-License-Identifier: BSD-3-Clause
"""torch.onnx for a library without export: programs can check for an export in progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cograd import _absent

__all__ = ["is_in_onnx_export"]


def is_in_onnx_export() -> bool:
    """Returns False."""
    return False


if not TYPE_CHECKING:  # type checkers would accept every name

    def __getattr__(name: str) -> Any:
        raise _absent.missing(__name__, name)
