# SPDX-License-Identifier: BSD-3-Clause
"""Padding layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cograd import Tensor

from .. import functional as F
from .module import Module

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


class _PadNd(Module):
    _dims = 0
    _mode = "constant"

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        self.padding: tuple[Any, ...] = (
            tuple(padding)
            if isinstance(padding, (tuple, list))
            else (padding,) * (2 * self._dims)
        )

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *) or (C, *) to the same with larger last dims."""
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        """The arguments as ``repr`` shows them."""
        return f"{self.padding}"


class _ConstantPadNd(_PadNd):
    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *) or (C, *) to the same with larger last dims."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """The arguments as ``repr`` shows them."""
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """``value`` at the ends of the last dim; padding is an int or (left, right)."""

    _dims = 1


class ConstantPad2d(_ConstantPadNd):
    """``value`` around images; padding is an int or (left, right, top, bottom)."""

    _dims = 2


class ConstantPad3d(_ConstantPadNd):
    """``value`` around volumes; padding is an int or (left, right, top, bottom, front, back)."""

    _dims = 3


class _ZeroPadNd(_ConstantPadNd):
    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """The arguments as ``repr`` shows them."""
        return f"{self.padding}"


class ZeroPad1d(_ZeroPadNd):
    """Zeros at the ends of the last dim."""

    _dims = 1


class ZeroPad2d(_ZeroPadNd):
    """Zeros around images."""

    _dims = 2


class ZeroPad3d(_ZeroPadNd):
    """Zeros around volumes."""

    _dims = 3


class ReflectionPad1d(_PadNd):
    """The input mirrored at the ends of its last dim."""

    _dims = 1
    _mode = "reflect"


class ReflectionPad2d(_PadNd):
    """Images mirrored at their edges."""

    _dims = 2
    _mode = "reflect"


class ReflectionPad3d(_PadNd):
    """Volumes mirrored at their faces."""

    _dims = 3
    _mode = "reflect"


class ReplicationPad1d(_PadNd):
    """The last elements repeated at the ends of the last dim."""

    _dims = 1
    _mode = "replicate"


class ReplicationPad2d(_PadNd):
    """The edges of images repeated."""

    _dims = 2
    _mode = "replicate"


class ReplicationPad3d(_PadNd):
    """The faces of volumes repeated."""

    _dims = 3
    _mode = "replicate"


class CircularPad1d(_PadNd):
    """The last dim continued from its other end."""

    _dims = 1
    _mode = "circular"


class CircularPad2d(_PadNd):
    """Images continued from their other edges."""

    _dims = 2
    _mode = "circular"


class CircularPad3d(_PadNd):
    """Volumes continued from their other faces."""

    _dims = 3
    _mode = "circular"
