# SPDX-License-Identifier: BSD-3-Clause
"""Layers that take patches out of images and add them up."""

from __future__ import annotations

from cograd import Tensor

from .. import functional as F
from .conv import Sizes
from .module import Module

__all__ = [
    "Fold",
    "Unfold",
]


class Unfold(Module):
    """Extracts the sliding blocks of images as columns.

    The layer is linear: a pixel gets the sum of the gradients of its copies. See
    ``nn.functional.unfold``.

    Args:
        kernel_size: an int, or (height, width); so are the next three.
        dilation: distance between the kernel's elements.
        padding: number of zeros added on either side.
        stride: step of the kernel.

    Raises:
        RuntimeError: the input does not have 3 or 4 dims, or is smaller than the kernel.
        NotImplementedError: the input is bool.

    Shape:
        - input: (N, C, H, W) or (C, H, W).
        - output: (N, C KH KW, P) or (C KH KW, P), P the product over H and W of
          floor((n + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1.
        - dtypes: any but bool.
    """

    def __init__(
        self, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """Maps (N, C, H, W) to (N, C KH KW, L)."""
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        return (
            f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, "
            f"stride={self.stride}"
        )


class Fold(Module):
    """Sums columns into the blocks of images that they belong to; the adjoint of Unfold.

    Fold of Unfold multiplies each pixel by the number of blocks that contain it. The layer is
    linear. See ``nn.functional.fold``.

    Args:
        output_size: H and W of the images.
        kernel_size: an int, or (height, width); so are the next three.
        dilation: distance between the kernel's elements.
        padding: number of zeros added on either side.
        stride: step of the kernel.

    Raises:
        RuntimeError: the input's dims do not fit, KH KW does not divide its rows, or the number of
            columns is not P.
        NotImplementedError: the input is bool.

    Shape:
        - input: (N, C KH KW, P) or (C KH KW, P), P as for Unfold.
        - output: (N, C, H, W) or (C, H, W).
        - dtypes: any but bool.
    """

    def __init__(
        self,
        output_size: Sizes,
        kernel_size: Sizes,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        stride: Sizes = 1,
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """Maps (N, C KH KW, L) to (N, C, H, W)."""
        return F.fold(
            input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride
        )

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, "
            f"dilation={self.dilation}, padding={self.padding}, stride={self.stride}"
        )
