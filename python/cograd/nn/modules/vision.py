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
    """``nn.functional.interpolate`` as a layer: resizes the last dims.

    The mode 'linear' needs (N, C, L), 'bilinear' and 'bicubic' need (N, C, H, W), 'trilinear' needs
    (N, C, D, H, W); 'nearest', 'nearest-exact' and 'area' accept all three. The layer is linear.

    Args:
        size: sizes of the last dims: one int for all, or one for each.
        scale_factor: factor of these sizes: one number for all, or one for each; not with ``size``.
        mode: see above.
        align_corners: whether the centers of the corner pixels of input and output are aligned, for
            the linear and cubic modes; None means False.
        recompute_scale_factor: whether to recompute the factor from the sizes, which are integers.

    Raises:
        ValueError: neither or both of ``size`` and ``scale_factor`` are given, or ``align_corners``
            with another mode.
        NotImplementedError: the mode does not support the input's dims, or the dtype is not
            floating.

    Shape:
        - input: (N, C, L), (N, C, H, W) or (N, C, D, H, W).
        - output: (N, C, ``size``) or each last dim floor(size * scale_factor).
        - dtypes: floating.
    """

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
        """Maps (N, C, *) to the same with last dims of another size."""
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        if self.scale_factor is not None:
            return f"scale_factor={self.scale_factor!r}, mode={self.mode!r}"
        return f"size={self.size!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Upsample of images with mode 'nearest': each pixel takes the value of the nearest input.

    See ``nn.functional.interpolate``.

    Args:
        size: sizes of the last dims: one int for all, or one for each.
        scale_factor: factor of these sizes: one number for all, or one for each; not with ``size``.

    Raises:
        ValueError: neither or both of ``size`` and ``scale_factor`` are given.
        NotImplementedError: the mode does not support the input's dims, or the dtype is not
            floating.

    Shape:
        - input: (N, C, H, W).
        - output: (N, C, ``size``) or (N, C, floor(H * factor), floor(W * factor)).
        - dtypes: floating.
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Upsample of images with mode 'bilinear' and aligned corners.

    See ``nn.functional.interpolate``.

    Args:
        size: sizes of the last dims: one int for all, or one for each.
        scale_factor: factor of these sizes: one number for all, or one for each; not with ``size``.

    Raises:
        ValueError: neither or both of ``size`` and ``scale_factor`` are given.
        NotImplementedError: the mode does not support the input's dims, or the dtype is not
            floating.

    Shape:
        - input: (N, C, H, W).
        - output: (N, C, ``size``) or (N, C, floor(H * factor), floor(W * factor)).
        - dtypes: floating.
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


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


class ChannelShuffle(Module):
    """Reorders the channels: takes one channel of each of ``groups`` groups in turn.

    Channel i of group g becomes channel i * groups + g. Zhang et al., ShuffleNet
    (arXiv:1707.01083). See ``nn.functional.channel_shuffle``.

    Args:
        groups: number of groups, which must divide C.

    Raises:
        RuntimeError: there are fewer than 3 dims, or ``groups`` does not divide the channels.

    Shape:
        - input and output: (N, C, *), at least 3 dims.
        - dtypes: any.
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """Maps (N, C, *) to the same shape."""
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        return f"groups={self.groups}"


class Dropout1d(Dropout):
    """In training, zeroes whole channels of (N, C, L) with probability ``p``.

    The others are divided by 1 - p; in evaluation it returns its input. Tompson et al., Efficient
    Object Localization Using Convolutional Networks (arXiv:1411.4280). See
    ``nn.functional.dropout1d``.

    Args:
        p: probability of a zeroed channel, in [0, 1].
        inplace: whether to write the result into the input; raises for a leaf that requires grad.

    Raises:
        ValueError: ``p`` is not in [0, 1].
        RuntimeError: the input does not have 2 or 3 dims.

    Shape:
        - input and output: (N, C, L) or (C, L).
        - dtypes: floating or complex.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Maps (N, C, L) or (C, L) to the same shape."""
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(Dropout):
    """In training, zeroes whole channels of (N, C, H, W) with probability ``p``.

    The others are divided by 1 - p; in evaluation it returns its input. For an input of 3 dims,
    (N, C, L), the channels are those of dim 1, as in torch. Tompson et al., Efficient Object
    Localization Using Convolutional Networks (arXiv:1411.4280). See ``nn.functional.dropout2d``.

    Args:
        p: probability of a zeroed channel, in [0, 1].
        inplace: whether to write the result into the input; raises for a leaf that requires grad.

    Raises:
        ValueError: ``p`` is not in [0, 1].

    Shape:
        - input and output: (N, C, H, W) or (N, C, L).
        - dtypes: floating or complex.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Maps (N, C, H, W) to the same shape."""
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(Dropout):
    """In training, zeroes whole channels of (N, C, D, H, W) with probability ``p``.

    The others are divided by 1 - p; in evaluation it returns its input. Tompson et al., Efficient
    Object Localization Using Convolutional Networks (arXiv:1411.4280). See
    ``nn.functional.dropout3d``.

    Args:
        p: probability of a zeroed channel, in [0, 1].
        inplace: whether to write the result into the input; raises for a leaf that requires grad.

    Raises:
        ValueError: ``p`` is not in [0, 1].

    Shape:
        - input and output: (N, C, D, H, W) or (C, D, H, W).
        - dtypes: floating or complex.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Maps (N, C, D, H, W) to the same shape."""
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(Dropout):
    """Dropout that keeps the mean and variance of SELU activations.

    In training, elements become -1.7580993408473766, the limit of SELU, with probability ``p``;
    then all are scaled and shifted to mean 0 and variance 1. In evaluation it returns its input.

    Klambauer et al., Self-Normalizing Neural Networks (arXiv:1706.02515). See
    ``nn.functional.alpha_dropout``.

    Args:
        p: probability, in [0, 1].
        inplace: stored without effect.

    Raises:
        ValueError: ``p`` is not in [0, 1].

    Shape:
        - input and output: (*), any shape.
        - dtypes: floating.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Maps (*) to (*)."""
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(Dropout):
    """AlphaDropout of whole channels.

    In training, channels become -1.7580993408473766, the limit of SELU, with probability ``p``, and
    all are scaled and shifted as in AlphaDropout. In evaluation it returns its input. See
    ``nn.functional.feature_alpha_dropout``.

    Args:
        p: probability, in [0, 1].
        inplace: stored without effect.

    Raises:
        ValueError: ``p`` is not in [0, 1].
        RuntimeError: the input has fewer than 2 dims.

    Shape:
        - input and output: (N, C, *), at least 2 dims.
        - dtypes: floating.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Maps (N, C, *) to the same shape."""
        return F.feature_alpha_dropout(input, self.p, self.training)


class Softmax2d(Module):
    """Computes exp(x_c) / sum_k exp(x_k) over the channels of images.

    See ``nn.functional.softmax``.

    Raises:
        ValueError: the input does not have 3 or 4 dims.
        NotImplementedError: the input is not floating.

    Shape:
        - input and output: (N, C, H, W) or (C, H, W).
        - dtypes: floating.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Maps (N, C, H, W) or (C, H, W) to the same shape."""
        if input.dim() not in (3, 4):
            raise ValueError(
                f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead"
            )
        return F.softmax(input, -3)


class RReLU(Module):
    """Computes x where x > 0, a * x elsewhere, with a random slope a.

    In training, a is sampled from U(lower, upper) for each element; in evaluation it is (lower +
    upper) / 2. At 0 the gradient is a.

    Xu et al., Empirical Evaluation of Rectified Activations in Convolutional Network
    (arXiv:1505.00853). See ``nn.functional.rrelu``.

    Args:
        lower, upper: bounds of the slopes.
        inplace: whether to write the result into the input; raises for a leaf that requires grad.

    Raises:
        RuntimeError: ``lower`` is larger than ``upper``, when the module is called.
        NotImplementedError: the input is not floating.

    Shape:
        - input and output: (*), any shape.
        - dtypes: floating.
    """

    def __init__(
        self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False
    ) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Maps (*) to (*)."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        suffix = ", inplace=True" if self.inplace else ""
        return f"lower={self.lower}, upper={self.upper}{suffix}"
