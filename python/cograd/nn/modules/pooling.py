# SPDX-License-Identifier: BSD-3-Clause
"""Pooling layers."""

from __future__ import annotations

import cograd
from cograd import Tensor

from .. import functional as F
from ._pools import (
    Sizes,
    _AdaptiveAvgPoolNd,
    _AdaptiveMaxPoolNd,
    _AvgPoolNd,
    _FractionalMaxPoolNd,
    _LPPoolNd,
    _MaxPoolNd,
    _MaxUnpoolNd,
    _sizes,
)
from .module import Module

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]


class MaxPool1d(_MaxPoolNd):
    """The largest elements of windows of (N, C, L) or (C, L).

    Where elements tie the first in memory order gets all of the gradient; a NaN counts as the
    largest. See ``nn.functional.max_pool1d``.

    Args:
        kernel_size: of a window; an int or a tuple of one, as are the next three.
        stride: how far windows are apart; None for ``kernel_size``.
        padding: elements -inf on either side, at most half a window.
        dilation: distance of the elements of a window.
        return_indices: returns the places too, which MaxUnpool1d takes.
        ceil_mode: rounds sizes up: a last window may hang over the end, should it begin inside.

    Raises:
        RuntimeError: an input of other than 2 or 3 dims, or smaller than a window, a padding over
            half a window, or a size of 0.
        NotImplementedError: a complex or bool input.

    Shape:
        - input: (N, C, L) or (C, L).
        - output: (N, C, Lout) or (C, Lout), Lout =
          floor((n + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1 with n = L.
        - indices: the output's, int64; places in a channel's L.
        - dtypes: floating or integer.
    """

    _pool = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPoolNd):
    """The largest elements of windows of (N, C, H, W) or (C, H, W).

    Where elements tie the first in memory order gets all of the gradient; a NaN counts as the
    largest. See ``nn.functional.max_pool2d``.

    Args:
        kernel_size: of a window; an int for both dims, or (height, width), as are the next three.
        stride: how far windows are apart; None for ``kernel_size``.
        padding: elements -inf on either side, at most half a window.
        dilation: distance of the elements of a window.
        return_indices: returns the places too, which MaxUnpool2d takes.
        ceil_mode: rounds sizes up: a last window may hang over the end, should it begin inside.

    Raises:
        RuntimeError: an input of other than 3 or 4 dims, or smaller than a window, a padding over
            half a window, or a size of 0.
        NotImplementedError: a complex or bool input.

    Shape:
        - input: (N, C, H, W) or (C, H, W).
        - output: (N, C, Hout, Wout) or (C, Hout, Wout), each n of H and W becoming
          floor((n + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1.
        - indices: the output's, int64; places in a channel's H, W, row by row.
        - dtypes: floating or integer.
    """

    _pool = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPoolNd):
    """The largest elements of windows of (N, C, D, H, W) or (C, D, H, W).

    Where elements tie the first in memory order gets all of the gradient; a NaN counts as the
    largest. See ``nn.functional.max_pool3d``.

    Args:
        kernel_size: of a window; an int for all dims, or (depth, height, width), as are the next
            three.
        stride: how far windows are apart; None for ``kernel_size``.
        padding: elements -inf on either side, at most half a window.
        dilation: distance of the elements of a window.
        return_indices: returns the places too, which MaxUnpool3d takes.
        ceil_mode: rounds sizes up: a last window may hang over the end, should it begin inside.

    Raises:
        RuntimeError: an input of other than 4 or 5 dims, or smaller than a window, a padding over
            half a window, or a size of 0.
        NotImplementedError: a complex or bool input.

    Shape:
        - input: (N, C, D, H, W) or (C, D, H, W).
        - output: (N, C, Dout, Hout, Wout) or (C, Dout, Hout, Wout), each n of D, H and W becoming
          floor((n + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1.
        - indices: the output's, int64; places in a channel's D, H, W, row by row.
        - dtypes: floating or integer.
    """

    _pool = staticmethod(F.max_pool3d)


class MaxUnpool1d(_MaxUnpoolNd):
    """Puts the elements of a MaxPool1d back to their places, with zeros elsewhere.

    Linear in its input. Where windows overlap one place may be named twice: then the last one
    written stays. See ``nn.functional.max_unpool1d``.

    Args:
        kernel_size: the pooling's; an int or a tuple of one, as are the others.
        stride: the pooling's; None for ``kernel_size``.
        padding: the pooling's.

    Raises:
        RuntimeError: indices of another shape or dtype, or outside of the output.
        ValueError: an ``output_size`` further than one stride from the size above.

    Shape:
        - input: (N, C, L) or (C, L); indices: the same, int64.
        - output: (N, C, Lout) or (C, Lout), each n becoming (n - 1) stride - 2 padding +
          kernel_size, or ``output_size``, which may be given to the call.
        - dtypes: floating or integer.
    """

    _pool = staticmethod(F.max_unpool1d)
    _dims = 1


class MaxUnpool2d(_MaxUnpoolNd):
    """Puts the elements of a MaxPool2d back to their places, with zeros elsewhere.

    Linear in its input. Where windows overlap one place may be named twice: then the last one
    written stays. See ``nn.functional.max_unpool2d``.

    Args:
        kernel_size: the pooling's; an int for both dims, or (height, width), as are the others.
        stride: the pooling's; None for ``kernel_size``.
        padding: the pooling's.

    Raises:
        RuntimeError: indices of another shape or dtype, or outside of the output.
        ValueError: an ``output_size`` further than one stride from the size above.

    Shape:
        - input: (N, C, H, W) or (C, H, W); indices: the same, int64.
        - output: (N, C, Hout, Wout) or (C, Hout, Wout), each n becoming (n - 1) stride - 2
          padding + kernel_size, or ``output_size``, which may be given to the call.
        - dtypes: floating or integer.
    """

    _pool = staticmethod(F.max_unpool2d)
    _dims = 2


class MaxUnpool3d(_MaxUnpoolNd):
    """Puts the elements of a MaxPool3d back to their places, with zeros elsewhere.

    Linear in its input. Where windows overlap one place may be named twice: then the last one
    written stays. See ``nn.functional.max_unpool3d``.

    Args:
        kernel_size: the pooling's; an int for all dims, or (depth, height, width), as are the
            others.
        stride: the pooling's; None for ``kernel_size``.
        padding: the pooling's.

    Raises:
        RuntimeError: indices of another shape or dtype, or outside of the output.
        ValueError: an ``output_size`` further than one stride from the size above.

    Shape:
        - input: (N, C, D, H, W) or (C, D, H, W); indices: the same, int64.
        - output: (N, C, Dout, Hout, Wout) or (C, Dout, Hout, Wout), each n becoming (n - 1)
          stride - 2 padding + kernel_size, or ``output_size``, which may be given to the call.
        - dtypes: floating or integer.
    """

    _pool = staticmethod(F.max_unpool3d)
    _dims = 3


class AvgPool1d(Module):
    """The means of windows of (N, C, L) or (C, L).

    Linear in its input. See ``nn.functional.avg_pool1d``.

    Args:
        kernel_size: of a window; an int or a tuple of one, as are the next two.
        stride: how far windows are apart; None for ``kernel_size``.
        padding: zeros on either side, at most half a window.
        ceil_mode: rounds sizes up: a last window may hang over the end, should it begin inside.
        count_include_pad: whether the zeros of the padding count in the mean.

    Raises:
        RuntimeError: an input of other than 2 or 3 dims, or smaller than a window, a padding over
            half a window.
        NotImplementedError: an input that is not floating.

    Shape:
        - input: (N, C, L) or (C, L).
        - output: (N, C, Lout) or (C, Lout), Lout =
          floor((n + 2 padding - kernel_size) / stride) + 1 with n = L.
        - dtypes: floating.
    """

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = _sizes(kernel_size, 1)
        self.stride = _sizes(stride if stride is not None else kernel_size, 1)
        self.padding = _sizes(padding, 1)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, L) or (C, L) to the same with a smaller L."""
        return F.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )

    def extra_repr(self) -> str:
        """The arguments as ``repr`` shows them."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(_AvgPoolNd):
    """The means of windows of (N, C, H, W) or (C, H, W).

    Linear in its input. See ``nn.functional.avg_pool2d``.

    Args:
        kernel_size: of a window; an int for both dims, or (height, width), as are the next two.
        stride: how far windows are apart; None for ``kernel_size``.
        padding: zeros on either side, at most half a window.
        ceil_mode: rounds sizes up: a last window may hang over the end, should it begin inside.
        count_include_pad: whether the zeros of the padding count in the mean.
        divisor_override: what sums are divided by, None for the number of elements.

    Raises:
        RuntimeError: an input of other than 3 or 4 dims, or smaller than a window, a padding over
            half a window, or a divisor of 0.
        NotImplementedError: an input that is not floating.

    Shape:
        - input: (N, C, H, W) or (C, H, W).
        - output: (N, C, Hout, Wout) or (C, Hout, Wout), each n of H and W becoming
          floor((n + 2 padding - kernel_size) / stride) + 1.
        - dtypes: floating.
    """

    _pool = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPoolNd):
    """The means of windows of (N, C, D, H, W) or (C, D, H, W).

    Linear in its input. See ``nn.functional.avg_pool3d``.

    Args:
        kernel_size: of a window; an int for all dims, or (depth, height, width), as are the next
            two.
        stride: how far windows are apart; None for ``kernel_size``.
        padding: zeros on either side, at most half a window.
        ceil_mode: rounds sizes up: a last window may hang over the end, should it begin inside.
        count_include_pad: whether the zeros of the padding count in the mean.
        divisor_override: what sums are divided by, None for the number of elements.

    Raises:
        RuntimeError: an input of other than 4 or 5 dims, or smaller than a window, a padding over
            half a window, or a divisor of 0.
        NotImplementedError: an input that is not floating.

    Shape:
        - input: (N, C, D, H, W) or (C, D, H, W).
        - output: (N, C, Dout, Hout, Wout) or (C, Dout, Hout, Wout), each n of D, H and W becoming
          floor((n + 2 padding - kernel_size) / stride) + 1.
        - dtypes: floating.
    """

    _pool = staticmethod(F.avg_pool3d)


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """The largest elements of windows of (N, C, H, W) or (C, H, W) at random places.

    Windows begin at floor(alpha (i + u)) - floor(alpha u), u being random for each sample and
    channel, so that any ratio of sizes can be had. The gradient goes to the largest element.
    Graham, Fractional Max-Pooling (arXiv:1412.6071). See ``nn.functional.fractional_max_pool2d``.

    Args:
        kernel_size: of a window; an int for both dims, or (height, width).
        output_size: the sizes of the output.
        output_ratio: or what part of the input they are, between 0 and 1.
        return_indices: returns the places too, which MaxUnpool2d takes.
        _random_samples: (N, C, 2), the u, instead of new ones in each call.

    Raises:
        ValueError: neither or both of ``output_size`` and ``output_ratio``, a ratio outside of (0,
            1), or a kernel that is not positive.
        RuntimeError: windows too large for so many outputs.
        NotImplementedError: an input that is not floating.

    Shape:
        - input: (N, C, H, W) or (C, H, W).
        - output: (N, C, Hout, Wout) or (C, Hout, Wout), the last of ``output_size`` or of floor(n *
          output_ratio).
        - indices: the output's, int64.
        - dtypes: floating.
    """

    _pool = staticmethod(F.fractional_max_pool2d)
    _dims = 2


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """The largest elements of windows of (N, C, D, H, W) or (C, D, H, W) at random places.

    Windows begin at floor(alpha (i + u)) - floor(alpha u), u being random for each sample and
    channel, so that any ratio of sizes can be had. The gradient goes to the largest element.
    Graham, Fractional Max-Pooling (arXiv:1412.6071). See ``nn.functional.fractional_max_pool3d``.

    Args:
        kernel_size: of a window; an int for all dims, or (depth, height, width).
        output_size: the sizes of the output.
        output_ratio: or what part of the input they are, between 0 and 1.
        return_indices: returns the places too, which MaxUnpool3d takes.
        _random_samples: (N, C, 3), the u, instead of new ones in each call.

    Raises:
        ValueError: neither or both of ``output_size`` and ``output_ratio``, a ratio outside of (0,
            1), or a kernel that is not positive.
        RuntimeError: windows too large for so many outputs.
        NotImplementedError: an input that is not floating.

    Shape:
        - input: (N, C, D, H, W) or (C, D, H, W).
        - output: (N, C, Dout, Hout, Wout) or (C, Dout, Hout, Wout), the last of ``output_size`` or
          of floor(n * output_ratio).
        - indices: the output's, int64.
        - dtypes: floating.
    """

    _pool = staticmethod(F.fractional_max_pool3d)
    _dims = 3


class LPPool1d(_LPPoolNd):
    """(sum of x^p)^(1/p) over windows of (N, C, L) or (C, L).

    The powers are those of x, not of its size: for odd p elements may cancel, and a negative sum
    gives NaN, unless p is 1. Where the sum is 0 the gradient is 0. See ``nn.functional.lp_pool1d``.

    Args:
        norm_type: p, not 0.
        kernel_size: of a window; an int or a tuple of one.
        stride: how far windows are apart; None for ``kernel_size``.
        ceil_mode: rounds sizes up: a last window may hang over the end, should it begin inside.

    Raises:
        RuntimeError: an input of other than 2 or 3 dims, or smaller than a window.
        ZeroDivisionError: ``norm_type`` is 0.
        NotImplementedError: a complex input.

    Shape:
        - input: (N, C, L) or (C, L).
        - output: (N, C, Lout) or (C, Lout), Lout = floor((n - kernel_size) / stride) + 1 with n =
          L.
        - dtypes: floating.
    """

    _pool = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPoolNd):
    """(sum of x^p)^(1/p) over windows of (N, C, H, W) or (C, H, W).

    The powers are those of x, not of its size: for odd p elements may cancel, and a negative sum
    gives NaN, unless p is 1. Where the sum is 0 the gradient is 0. See ``nn.functional.lp_pool2d``.

    Args:
        norm_type: p, not 0.
        kernel_size: of a window; an int for both dims, or (height, width), as is the next.
        stride: how far windows are apart; None for ``kernel_size``.
        ceil_mode: rounds sizes up: a last window may hang over the end, should it begin inside.

    Raises:
        RuntimeError: an input of other than 3 or 4 dims, or smaller than a window.
        ZeroDivisionError: ``norm_type`` is 0.
        NotImplementedError: a complex input.

    Shape:
        - input: (N, C, H, W) or (C, H, W).
        - output: (N, C, Hout, Wout) or (C, Hout, Wout), each n of H and W becoming
          floor((n - kernel_size) / stride) + 1.
        - dtypes: floating.
    """

    _pool = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPoolNd):
    """(sum of x^p)^(1/p) over windows of (N, C, D, H, W) or (C, D, H, W).

    The powers are those of x, not of its size: for odd p elements may cancel, and a negative sum
    gives NaN, unless p is 1. Where the sum is 0 the gradient is 0. See ``nn.functional.lp_pool3d``.

    Args:
        norm_type: p, not 0.
        kernel_size: of a window; an int for all dims, or (depth, height, width), as is the next.
        stride: how far windows are apart; None for ``kernel_size``.
        ceil_mode: rounds sizes up: a last window may hang over the end, should it begin inside.

    Raises:
        RuntimeError: an input of other than 4 or 5 dims, or smaller than a window.
        ZeroDivisionError: ``norm_type`` is 0.
        NotImplementedError: a complex input.

    Shape:
        - input: (N, C, D, H, W) or (C, D, H, W).
        - output: (N, C, Dout, Hout, Wout) or (C, Dout, Hout, Wout), each n of D, H and W becoming
          floor((n - kernel_size) / stride) + 1.
        - dtypes: floating.
    """

    _pool = staticmethod(F.lp_pool3d)


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """The means of as many windows of (N, C, L) or (C, L) as make ``output_size``.

    In a dim of n elements and m outputs window i goes from floor(i n / m) to ceil((i + 1) n / m).
    Linear. See ``nn.functional.adaptive_avg_pool1d``.

    Args:
        output_size: Lout, an int or a tuple of one.

    Raises:
        RuntimeError: an input of other than 2 or 3 dims, a negative size, or more sizes than 1.
        NotImplementedError: an input that is not floating.

    Shape:
        - input: (N, C, L) or (C, L).
        - output: (N, C, Lout) or (C, Lout).
        - dtypes: floating.
    """

    _pool = staticmethod(cograd.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """The means of as many windows of (N, C, H, W) or (C, H, W) as make ``output_size``.

    In a dim of n elements and m outputs window i goes from floor(i n / m) to ceil((i + 1) n / m).
    Linear. See ``nn.functional.adaptive_avg_pool2d``.

    Args:
        output_size: (Hout, Wout), or an int for both; None keeps a size.

    Raises:
        RuntimeError: an input of other than 3 or 4 dims unless the sizes are 1, a negative size, or
            more sizes than 2.
        NotImplementedError: an input that is not floating.

    Shape:
        - input: (N, C, H, W) or (C, H, W).
        - output: (N, C, Hout, Wout) or (C, Hout, Wout).
        - dtypes: floating.
    """

    _pool = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """The means of as many windows of (N, C, D, H, W) or (C, D, H, W) as make ``output_size``.

    In a dim of n elements and m outputs window i goes from floor(i n / m) to ceil((i + 1) n / m).
    Linear. See ``nn.functional.adaptive_avg_pool3d``.

    Args:
        output_size: (Dout, Hout, Wout), or an int for all; None keeps a size.

    Raises:
        RuntimeError: an input of other than 4 or 5 dims unless the sizes are 1, a negative size, or
            more sizes than 3.
        NotImplementedError: an input that is not floating.

    Shape:
        - input: (N, C, D, H, W) or (C, D, H, W).
        - output: (N, C, Dout, Hout, Wout) or (C, Dout, Hout, Wout).
        - dtypes: floating.
    """

    _pool = staticmethod(F.adaptive_avg_pool3d)


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """The largest elements of windows of (N, C, L) or (C, L) that make ``output_size``.

    In a dim of n elements and m outputs window i goes from floor(i n / m) to ceil((i + 1) n / m).
    Where elements tie the first gets all of the gradient. See
    ``nn.functional.adaptive_max_pool1d``.

    Args:
        output_size: Lout, an int or a tuple of one.
        return_indices: returns the places too, as MaxPool1d does.

    Raises:
        RuntimeError: an input of other than 2 or 3 dims, a negative size, or more sizes than 1.
        NotImplementedError: an input that is not floating.

    Shape:
        - input: (N, C, L) or (C, L).
        - output: (N, C, Lout) or (C, Lout).
        - indices: the output's, int64.
        - dtypes: floating.
    """

    _pool = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """The largest elements of windows of (N, C, H, W) or (C, H, W) that make ``output_size``.

    In a dim of n elements and m outputs window i goes from floor(i n / m) to ceil((i + 1) n / m).
    Where elements tie the first gets all of the gradient. See
    ``nn.functional.adaptive_max_pool2d``.

    Args:
        output_size: (Hout, Wout), or an int for both; None keeps a size.
        return_indices: returns the places too, as MaxPool2d does.

    Raises:
        RuntimeError: an input of other than 3 or 4 dims, a negative size, or more sizes than 2.
        NotImplementedError: an input that is not floating.

    Shape:
        - input: (N, C, H, W) or (C, H, W).
        - output: (N, C, Hout, Wout) or (C, Hout, Wout).
        - indices: the output's, int64.
        - dtypes: floating.
    """

    _pool = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """The largest elements of windows of (N, C, D, H, W) or (C, D, H, W) that make ``output_size``.

    In a dim of n elements and m outputs window i goes from floor(i n / m) to ceil((i + 1) n / m).
    Where elements tie the first gets all of the gradient. See
    ``nn.functional.adaptive_max_pool3d``.

    Args:
        output_size: (Dout, Hout, Wout), or an int for all; None keeps a size.
        return_indices: returns the places too, as MaxPool3d does.

    Raises:
        RuntimeError: an input of other than 4 or 5 dims, a negative size, or more sizes than 3.
        NotImplementedError: an input that is not floating.

    Shape:
        - input: (N, C, D, H, W) or (C, D, H, W).
        - output: (N, C, Dout, Hout, Wout) or (C, Dout, Hout, Wout).
        - indices: the output's, int64.
        - dtypes: floating.
    """

    _pool = staticmethod(F.adaptive_max_pool3d)
