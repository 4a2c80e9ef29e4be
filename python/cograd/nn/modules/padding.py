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

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        self.padding: tuple[Any, ...] = (
            tuple(padding) if isinstance(padding, (tuple, list)) else (padding,) * (2 * self._dims)
        )

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        return f"{self.padding}"


class _ConstantPadNd(_PadNd):
    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """Maps (N, C, *) or (C, *) to the same with larger last dims."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Pads the last dim with ``value``.

    The layer is linear; the padding gets no gradient. See ``nn.functional.pad``.

    Args:
        padding: (left, right), or an int for both; negative numbers crop.
        value: the value of the padding.

    Raises:
        RuntimeError: a size becomes negative.

    Shape:
        - input: (*, L), any number of dims.
        - output: (*, left + L + right).
        - dtypes: any.
    """

    _dims = 1


class ConstantPad2d(_ConstantPadNd):
    """Pads the last two dims with ``value``.

    The layer is linear; the padding gets no gradient. See ``nn.functional.pad``.

    Args:
        padding: (left, right, top, bottom), or an int for all four; negative numbers crop.
        value: the value of the padding.

    Raises:
        RuntimeError: there are fewer than 2 dims, or a size becomes negative.

    Shape:
        - input: (*, H, W).
        - output: (*, top + H + bottom, left + W + right).
        - dtypes: any.
    """

    _dims = 2


class ConstantPad3d(_ConstantPadNd):
    """Pads the last three dims with ``value``.

    The layer is linear; the padding gets no gradient. See ``nn.functional.pad``.

    Args:
        padding: (left, right, top, bottom, front, back), or an int for all six; negative numbers
            crop.
        value: the value of the padding.

    Raises:
        RuntimeError: there are fewer than 3 dims, or a size becomes negative.

    Shape:
        - input: (*, D, H, W).
        - output: (*, front + D + back, top + H + bottom, left + W + right).
        - dtypes: any.
    """

    _dims = 3


class _ZeroPadNd(_ConstantPadNd):
    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        return f"{self.padding}"


class ZeroPad1d(_ZeroPadNd):
    """Pads the last dim with zeros.

    The layer is linear; the padding gets no gradient. See ``nn.functional.pad``.

    Args:
        padding: (left, right), or an int for both; negative numbers crop.

    Raises:
        RuntimeError: a size becomes negative.

    Shape:
        - input: (*, L), any number of dims.
        - output: (*, left + L + right).
        - dtypes: any.
    """

    _dims = 1


class ZeroPad2d(_ZeroPadNd):
    """Pads the last two dims with zeros.

    The layer is linear; the padding gets no gradient. See ``nn.functional.pad``.

    Args:
        padding: (left, right, top, bottom), or an int for all four; negative numbers crop.

    Raises:
        RuntimeError: there are fewer than 2 dims, or a size becomes negative.

    Shape:
        - input: (*, H, W).
        - output: (*, top + H + bottom, left + W + right).
        - dtypes: any.
    """

    _dims = 2


class ZeroPad3d(_ZeroPadNd):
    """Pads the last three dims with zeros.

    The layer is linear; the padding gets no gradient. See ``nn.functional.pad``.

    Args:
        padding: (left, right, top, bottom, front, back), or an int for all six; negative numbers
            crop.

    Raises:
        RuntimeError: there are fewer than 3 dims, or a size becomes negative.

    Shape:
        - input: (*, D, H, W).
        - output: (*, front + D + back, top + H + bottom, left + W + right).
        - dtypes: any.
    """

    _dims = 3


class _ReflectionPadNd(_PadNd):
    def forward(self, input: Tensor) -> Tensor:
        """Maps (N, C, *) or (C, *) to the same with larger last dims."""
        return F.pad(input, self.padding, "reflect")


class ReflectionPad1d(_ReflectionPadNd):
    """Pads by reflecting the input at the ends of the last dim.

    The element at the end is not repeated: ``a b c`` becomes ``c b a b c b a``. The layer is
    linear: an element gets the sum of the gradients of its copies. See ``nn.functional.pad``.

    Args:
        padding: (left, right), or an int for both; negative numbers crop.

    Raises:
        RuntimeError: a padding is as large as its dim, or larger.
        NotImplementedError: the input does not have 2 or 3 dims.

    Shape:
        - input: (N, C, L) or (C, L).
        - output: (N, C, left + L + right) or (C, left + L + right).
        - dtypes: any.
    """

    _dims = 1


class ReflectionPad2d(_ReflectionPadNd):
    """Pads by reflecting the input at the ends of the last two dims.

    The element at the end is not repeated: ``a b c`` becomes ``c b a b c b a``. The layer is
    linear: an element gets the sum of the gradients of its copies. See ``nn.functional.pad``.

    Args:
        padding: (left, right, top, bottom), or an int for all four; negative numbers crop.

    Raises:
        RuntimeError: a padding is as large as its dim, or larger.
        NotImplementedError: the input does not have 3 or 4 dims; with fewer than 2 dims it is a
            RuntimeError.

    Shape:
        - input: (N, C, H, W) or (C, H, W).
        - output: the same with H + top + bottom and W + left + right.
        - dtypes: any.
    """

    _dims = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Pads by reflecting the input at the ends of the last three dims.

    The element at the end is not repeated: ``a b c`` becomes ``c b a b c b a``. The layer is
    linear: an element gets the sum of the gradients of its copies. See ``nn.functional.pad``.

    Args:
        padding: (left, right, top, bottom, front, back), or an int for all six; negative numbers
            crop.

    Raises:
        RuntimeError: a padding is as large as its dim, or larger.
        NotImplementedError: the input does not have 4 or 5 dims; with fewer than 3 dims it is a
            RuntimeError.

    Shape:
        - input: (N, C, D, H, W) or (C, D, H, W).
        - output: the same with D + front + back, H + top + bottom and W + left + right.
        - dtypes: any.
    """

    _dims = 3


class _ReplicationPadNd(_PadNd):
    def forward(self, input: Tensor) -> Tensor:
        """Maps (N, C, *) or (C, *) to the same with larger last dims."""
        return F.pad(input, self.padding, "replicate")


class ReplicationPad1d(_ReplicationPadNd):
    """Pads by repeating the elements at the ends of the last dim.

    ``a b c`` becomes ``a a a b c c c``. The layer is linear: an element gets the sum of the
    gradients of its copies. See ``nn.functional.pad``.

    Args:
        padding: (left, right), or an int for both; negative numbers crop.

    Raises:
        RuntimeError: an empty dim is padded.
        NotImplementedError: the input does not have 2 or 3 dims.

    Shape:
        - input: (N, C, L) or (C, L).
        - output: (N, C, left + L + right) or (C, left + L + right).
        - dtypes: any.
    """

    _dims = 1


class ReplicationPad2d(_ReplicationPadNd):
    """Pads by repeating the elements at the ends of the last two dims.

    ``a b c`` becomes ``a a a b c c c``. The layer is linear: an element gets the sum of the
    gradients of its copies. See ``nn.functional.pad``.

    Args:
        padding: (left, right, top, bottom), or an int for all four; negative numbers crop.

    Raises:
        RuntimeError: an empty dim is padded.
        NotImplementedError: the input does not have 3 or 4 dims; with fewer than 2 dims it is a
            RuntimeError.

    Shape:
        - input: (N, C, H, W) or (C, H, W).
        - output: the same with H + top + bottom and W + left + right.
        - dtypes: any.
    """

    _dims = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Pads by repeating the elements at the ends of the last three dims.

    ``a b c`` becomes ``a a a b c c c``. The layer is linear: an element gets the sum of the
    gradients of its copies. See ``nn.functional.pad``.

    Args:
        padding: (left, right, top, bottom, front, back), or an int for all six; negative numbers
            crop.

    Raises:
        RuntimeError: an empty dim is padded.
        NotImplementedError: the input does not have 4 or 5 dims; with fewer than 3 dims it is a
            RuntimeError.

    Shape:
        - input: (N, C, D, H, W) or (C, D, H, W).
        - output: the same with D + front + back, H + top + bottom and W + left + right.
        - dtypes: any.
    """

    _dims = 3


class _CircularPadNd(_PadNd):
    def _check_input_dim(self, input: Tensor) -> None:
        n = self._dims + 1
        if input.dim() not in (n, n + 1):
            raise ValueError(f"expected {n}D or {n + 1}D input (got {input.dim()}D input)")

    def forward(self, input: Tensor) -> Tensor:
        """Maps (N, C, *) or (C, *) to the same with larger last dims."""
        self._check_input_dim(input)
        return F.pad(input, self.padding, "circular")


class CircularPad1d(_CircularPadNd):
    """Pads by continuing the input from the other end of the last dim.

    ``a b c`` becomes ``b c a b c a b``. The layer is linear: an element gets the sum of the
    gradients of its copies. See ``nn.functional.pad``.

    Args:
        padding: (left, right), or an int for both; negative numbers crop.

    Raises:
        RuntimeError: a padding is larger than its dim.
        ValueError: the input does not have 2 or 3 dims.

    Shape:
        - input: (N, C, L) or (C, L).
        - output: (N, C, left + L + right) or (C, left + L + right).
        - dtypes: any.
    """

    _dims = 1


class CircularPad2d(_CircularPadNd):
    """Pads by continuing the input from the other end of the last two dims.

    ``a b c`` becomes ``b c a b c a b``. The layer is linear: an element gets the sum of the
    gradients of its copies. See ``nn.functional.pad``.

    Args:
        padding: (left, right, top, bottom), or an int for all four; negative numbers crop.

    Raises:
        RuntimeError: a padding is larger than its dim.
        ValueError: the input does not have 3 or 4 dims.

    Shape:
        - input: (N, C, H, W) or (C, H, W).
        - output: the same with H + top + bottom and W + left + right.
        - dtypes: any.
    """

    _dims = 2


class CircularPad3d(_CircularPadNd):
    """Pads by continuing the input from the other end of the last three dims.

    ``a b c`` becomes ``b c a b c a b``. The layer is linear: an element gets the sum of the
    gradients of its copies. See ``nn.functional.pad``.

    Args:
        padding: (left, right, top, bottom, front, back), or an int for all six; negative numbers
            crop.

    Raises:
        RuntimeError: a padding is larger than its dim.
        ValueError: the input does not have 4 or 5 dims.

    Shape:
        - input: (N, C, D, H, W) or (C, D, H, W).
        - output: the same with D + front + back, H + top + bottom and W + left + right.
        - dtypes: any.
    """

    _dims = 3
