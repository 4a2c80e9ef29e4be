# SPDX-License-Identifier: BSD-3-Clause
"""Conversion of tensors to and from DLPack capsules."""

from __future__ import annotations

from typing import Any

from cograd._C import Tensor, from_dlpack

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """Returns an unversioned DLPack capsule over the memory of ``tensor``; it is consumed once.

    Raises:
        BufferError: ``tensor`` requires grad or is read-only.
    """
    return tensor.__dlpack__()
