# SPDX-License-Identifier: BSD-3-Clause
"""Upsampling, shuffles of pixels and channels, dropout of channels, Softmax2d and RReLU."""

from __future__ import annotations

from typing import Any

from cograd import Tensor

from .. import functional as F
from .layers import Dropout
from .module import Module

__all__ = [
    "AlphaDropout",
    "ChannelShuffle",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "FeatureAlphaDropout",
    "PixelShuffle",
    "PixelUnshuffle",
    "RReLU",
    "Softmax2d",
    "Upsample",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
]


class Upsample(Module):
    """``nn.functional.interpolate`` as a layer."""

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        if isinstance(scale_factor, tuple):
            self.scale_factor: Any = tuple(float(factor) for factor in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *) to the same with last dims of another size."""
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        """The arguments as ``repr`` shows them."""
        if self.scale_factor is not None:
            return f"scale_factor={self.scale_factor!r}, mode={self.mode!r}"
        return f"size={self.size!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Upsample of images with mode ``'nearest'``."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Upsample of images with mode ``'bilinear'`` and aligned corners."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


class PixelShuffle(Module):
    """(*, C r^2, H, W) to (*, C, H r, W r)."""

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """(*, C r^2, H, W) to (*, C, H r, W r)."""
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        """The arguments as ``repr`` shows them."""
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """(*, C, H r, W r) to (*, C r^2, H, W)."""

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """(*, C, H r, W r) to (*, C r^2, H, W)."""
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        """The arguments as ``repr`` shows them."""
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Takes the channels of ``groups`` groups in turn."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *) to the same shape."""
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """The arguments as ``repr`` shows them."""
        return f"groups={self.groups}"


class Dropout1d(Dropout):
    """In training, zeroes whole channels of (N, C, L) with probability ``p``."""

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, L) or (C, L) to the same shape."""
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(Dropout):
    """In training, zeroes whole channels of (N, C, H, W) with probability ``p``."""

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, H, W) to the same shape."""
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(Dropout):
    """In training, zeroes whole channels of (N, C, D, H, W) with probability ``p``."""

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, D, H, W) to the same shape."""
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(Dropout):
    """Dropout that keeps the mean and variance of SELU activations."""

    def forward(self, input: Tensor) -> Tensor:
        """(*) to (*)."""
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(Dropout):
    """AlphaDropout of whole channels."""

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *) to the same shape."""
        return F.feature_alpha_dropout(input, self.p, self.training)


class Softmax2d(Module):
    """Softmax over the channels of (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, H, W) or (C, H, W) to the same shape."""
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3)


class RReLU(Module):
    """LeakyReLU with a slope that is drawn from U(lower, upper) for each element."""

    def __init__(
        self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False
    ) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """(*) to (*)."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """The arguments as ``repr`` shows them."""
        suffix = ", inplace=True" if self.inplace else ""
        return f"lower={self.lower}, upper={self.upper}{suffix}"
