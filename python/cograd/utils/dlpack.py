# SPDX-License-Identifier: BSD-3-Clause
"""DLPack capsules of tensors."""

from __future__ import annotations

from typing import Any

from cograd._C import Tensor, from_dlpack

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """An unversioned DLPack capsule over the memory of ``tensor``; it can be consumed once.

    Raises:
        BufferError: ``tensor`` requires grad or is read-only.
    """
    return tensor.__dlpack__()
