# SPDX-License-Identifier: BSD-3-Clause
"""Layers that move channels into pixels and back."""

from __future__ import annotations

from cograd import Tensor

from .. import functional as F
from .module import Module

__all__ = [
    "PixelShuffle",
    "PixelUnshuffle",
]


class PixelShuffle(Module):
    """Rearranges r^2 channels into an image that is r times as high and wide.

    out[c, h r + i, w r + j] = x[c r^2 + i r + j, h, w]. Shi et al., Real-Time Single Image and
    Video Super-Resolution Using an Efficient Sub-Pixel Convolutional Neural Network
    (arXiv:1609.05158). See ``nn.functional.pixel_shuffle``.

    Args:
        upscale_factor: r, positive.

    Raises:
        RuntimeError: there are fewer than 3 dims, r^2 does not divide the channels, or the factor
            is not positive.

    Shape:
        - input: (*, C r^2, H, W).
        - output: (*, C, H r, W r).
        - dtypes: any.
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Maps (*, C r^2, H, W) to (*, C, H r, W r)."""
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """The inverse of PixelShuffle: rearranges blocks of r x r pixels into channels.

    out[c r^2 + i r + j, h, w] = x[c, h r + i, w r + j]. See ``nn.functional.pixel_unshuffle``.

    Args:
        downscale_factor: r, positive.

    Raises:
        RuntimeError: there are fewer than 3 dims, r does not divide the height or width, or the
            factor is not positive.

    Shape:
        - input: (*, C, H r, W r).
        - output: (*, C r^2, H, W).
        - dtypes: any.
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Maps (*, C, H r, W r) to (*, C r^2, H, W)."""
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        return f"downscale_factor={self.downscale_factor}"
