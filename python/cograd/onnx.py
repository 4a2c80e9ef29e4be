# SPDX-License-Identifier: BSD-3-Clause
"""What programs ask of torch.onnx: whether they are being exported, which never happens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cograd import _absent

__all__ = ["is_in_onnx_export"]


def is_in_onnx_export() -> bool:
    """Always False."""
    return False


if not TYPE_CHECKING:  # which would take it for an answer to every name

    def __getattr__(name: str) -> Any:
        raise _absent.missing(__name__, name)
