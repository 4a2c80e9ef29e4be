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
    """Max pooling: the largest element of each window of (N, C, L) or (C, L).

    Where elements tie, the first in memory order gets all of the gradient; NaN counts as the
    largest value. See ``nn.functional.max_pool1d``.

    Args:
        kernel_size: size of a window; an int or a tuple of one, as are the next three.
        stride: distance between windows; None for ``kernel_size``.
        padding: number of -inf elements added on either side, at most half a window.
        dilation: distance between the elements of a window.
        return_indices: whether to also return the indices of the largest elements, which
            MaxUnpool1d accepts.
        ceil_mode: whether to round sizes up, so that a last window that begins inside the input may
            extend past its end.

    Raises:
        RuntimeError: the input does not have 2 or 3 dims, it is smaller than a window, the padding
            exceeds half a window, or a size is 0.
        NotImplementedError: the input is complex or bool.

    Shape:
        - input: (N, C, L) or (C, L).
        - output: (N, C, Lout) or (C, Lout), Lout =
          floor((n + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1 with n = L.
        - indices: of the output's shape, int64; positions in a channel's L.
        - dtypes: floating or integer.
    """

    _function = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPoolNd):
    """Max pooling: the largest element of each window of (N, C, H, W) or (C, H, W).

    Where elements tie, the first in memory order gets all of the gradient; NaN counts as the
    largest value. See ``nn.functional.max_pool2d``.

    Args:
        kernel_size: size of a window; an int for both dims, or (height, width), as are the next
            three.
        stride: distance between windows; None for ``kernel_size``.
        padding: number of -inf elements added on either side, at most half a window.
        dilation: distance between the elements of a window.
        return_indices: whether to also return the indices of the largest elements, which
            MaxUnpool2d accepts.
        ceil_mode: whether to round sizes up, so that a last window that begins inside the input may
            extend past its end.

    Raises:
        RuntimeError: the input does not have 3 or 4 dims, it is smaller than a window, the padding
            exceeds half a window, or a size is 0.
        NotImplementedError: the input is complex or bool.

    Shape:
        - input: (N, C, H, W) or (C, H, W).
        - output: (N, C, Hout, Wout) or (C, Hout, Wout), each n of H and W becoming
          floor((n + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1.
        - indices: of the output's shape, int64; positions in a channel's H, W, row by row.
        - dtypes: floating or integer.
    """

    _function = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPoolNd):
    """Max pooling: the largest element of each window of (N, C, D, H, W) or (C, D, H, W).

    Where elements tie, the first in memory order gets all of the gradient; NaN counts as the
    largest value. See ``nn.functional.max_pool3d``.

    Args:
        kernel_size: size of a window; an int for all dims, or (depth, height, width), as are the
            next three.
        stride: distance between windows; None for ``kernel_size``.
        padding: number of -inf elements added on either side, at most half a window.
        dilation: distance between the elements of a window.
        return_indices: whether to also return the indices of the largest elements, which
            MaxUnpool3d accepts.
        ceil_mode: whether to round sizes up, so that a last window that begins inside the input may
            extend past its end.

    Raises:
        RuntimeError: the input does not have 4 or 5 dims, it is smaller than a window, the padding
            exceeds half a window, or a size is 0.
        NotImplementedError: the input is complex or bool.

    Shape:
        - input: (N, C, D, H, W) or (C, D, H, W).
        - output: (N, C, Dout, Hout, Wout) or (C, Dout, Hout, Wout), each n of D, H and W becoming
          floor((n + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1.
        - indices: of the output's shape, int64; positions in a channel's D, H, W, row by row.
        - dtypes: floating or integer.
    """

    _function = staticmethod(F.max_pool3d)


class MaxUnpool1d(_MaxUnpoolNd):
    """Inverts MaxPool1d: writes elements to their indices, with zeros elsewhere.

    The layer is linear in its input. Where windows overlap, an index may occur twice: the last
    element written wins. See ``nn.functional.max_unpool1d``.

    Args:
        kernel_size: that of the pooling; an int or a tuple of one, as are the others.
        stride: that of the pooling; None for ``kernel_size``.
        padding: that of the pooling.

    Raises:
        RuntimeError: the shape or dtype of the indices does not fit, or an index is out of range.
        ValueError: ``output_size`` differs by more than one stride from the size below.

    Shape:
        - input: (N, C, L) or (C, L); indices: the same, int64.
        - output: (N, C, Lout) or (C, Lout), each n becoming (n - 1) stride - 2 padding +
          kernel_size, or the ``output_size`` that is passed to the call.
        - dtypes: floating or integer.
    """

    _function = staticmethod(F.max_unpool1d)
    _dims = 1


class MaxUnpool2d(_MaxUnpoolNd):
    """Inverts MaxPool2d: writes elements to their indices, with zeros elsewhere.

    The layer is linear in its input. Where windows overlap, an index may occur twice: the last
    element written wins. See ``nn.functional.max_unpool2d``.

    Args:
        kernel_size: that of the pooling; an int for both dims, or (height, width), as are the
            others.
        stride: that of the pooling; None for ``kernel_size``.
        padding: that of the pooling.

    Raises:
        RuntimeError: the shape or dtype of the indices does not fit, or an index is out of range.
        ValueError: ``output_size`` differs by more than one stride from the size below.

    Shape:
        - input: (N, C, H, W) or (C, H, W); indices: the same, int64.
        - output: (N, C, Hout, Wout) or (C, Hout, Wout), each n becoming (n - 1) stride - 2 padding
          + kernel_size, or the ``output_size`` that is passed to the call.
        - dtypes: floating or integer.
    """

    _function = staticmethod(F.max_unpool2d)
    _dims = 2


class MaxUnpool3d(_MaxUnpoolNd):
    """Inverts MaxPool3d: writes elements to their indices, with zeros elsewhere.

    The layer is linear in its input. Where windows overlap, an index may occur twice: the last
    element written wins. See ``nn.functional.max_unpool3d``.

    Args:
        kernel_size: that of the pooling; an int for all dims, or (depth, height, width), as are the
            others.
        stride: that of the pooling; None for ``kernel_size``.
        padding: that of the pooling.

    Raises:
        RuntimeError: the shape or dtype of the indices does not fit, or an index is out of range.
        ValueError: ``output_size`` differs by more than one stride from the size below.

    Shape:
        - input: (N, C, D, H, W) or (C, D, H, W); indices: the same, int64.
        - output: (N, C, Dout, Hout, Wout) or (C, Dout, Hout, Wout), each n becoming (n - 1) stride
          - 2 padding + kernel_size, or the ``output_size`` that is passed to the call.
        - dtypes: floating or integer.
    """

    _function = staticmethod(F.max_unpool3d)
    _dims = 3


class AvgPool1d(Module):
    """Average pooling: the mean of each window of (N, C, L) or (C, L).

    The layer is linear in its input. See ``nn.functional.avg_pool1d``.

    Args:
        kernel_size: size of a window; an int or a tuple of one, as are the next two.
        stride: distance between windows; None for ``kernel_size``.
        padding: number of zeros added on either side, at most half a window.
        ceil_mode: whether to round sizes up, so that a last window that begins inside the input may
            extend past its end.
        count_include_pad: whether the mean counts the zeros of the padding.

    Raises:
        RuntimeError: the input does not have 2 or 3 dims, it is smaller than a window, or the
            padding exceeds half a window.
        NotImplementedError: the input is not floating.

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
        """Maps (N, C, L) or (C, L) to the same with a smaller L."""
        return F.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(_AvgPoolNd):
    """Average pooling: the mean of each window of (N, C, H, W) or (C, H, W).

    The layer is linear in its input. See ``nn.functional.avg_pool2d``.

    Args:
        kernel_size: size of a window; an int for both dims, or (height, width), as are the next
            two.
        stride: distance between windows; None for ``kernel_size``.
        padding: number of zeros added on either side, at most half a window.
        ceil_mode: whether to round sizes up, so that a last window that begins inside the input may
            extend past its end.
        count_include_pad: whether the mean counts the zeros of the padding.
        divisor_override: the divisor of the sums; None for the number of elements.

    Raises:
        RuntimeError: the input does not have 3 or 4 dims, it is smaller than a window, the padding
            exceeds half a window, or the divisor is 0.
        NotImplementedError: the input is not floating.

    Shape:
        - input: (N, C, H, W) or (C, H, W).
        - output: (N, C, Hout, Wout) or (C, Hout, Wout), each n of H and W becoming
          floor((n + 2 padding - kernel_size) / stride) + 1.
        - dtypes: floating.
    """

    _function = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPoolNd):
    """Average pooling: the mean of each window of (N, C, D, H, W) or (C, D, H, W).

    The layer is linear in its input. See ``nn.functional.avg_pool3d``.

    Args:
        kernel_size: size of a window; an int for all dims, or (depth, height, width), as are the
            next two.
        stride: distance between windows; None for ``kernel_size``.
        padding: number of zeros added on either side, at most half a window.
        ceil_mode: whether to round sizes up, so that a last window that begins inside the input may
            extend past its end.
        count_include_pad: whether the mean counts the zeros of the padding.
        divisor_override: the divisor of the sums; None for the number of elements.

    Raises:
        RuntimeError: the input does not have 4 or 5 dims, it is smaller than a window, the padding
            exceeds half a window, or the divisor is 0.
        NotImplementedError: the input is not floating.

    Shape:
        - input: (N, C, D, H, W) or (C, D, H, W).
        - output: (N, C, Dout, Hout, Wout) or (C, Dout, Hout, Wout), each n of D, H and W becoming
          floor((n + 2 padding - kernel_size) / stride) + 1.
        - dtypes: floating.
    """

    _function = staticmethod(F.avg_pool3d)


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """Max pooling of (N, C, H, W) or (C, H, W) over windows at random positions.

    Windows begin at floor(alpha (i + u)) - floor(alpha u), where u is random for each sample and
    channel, so that any ratio of sizes is possible. The gradient goes to the largest element.
    Graham, Fractional Max-Pooling (arXiv:1412.6071). See ``nn.functional.fractional_max_pool2d``.

    Args:
        kernel_size: size of a window; an int for both dims, or (height, width).
        output_size: the sizes of the output.
        output_ratio: the ratio of output to input sizes, between 0 and 1, instead of
            ``output_size``.
        return_indices: whether to also return the indices of the largest elements, which
            MaxUnpool2d accepts.
        _random_samples: (N, C, 2), the values of u; None samples new ones in each call.

    Raises:
        ValueError: neither or both of ``output_size`` and ``output_ratio`` are given, a ratio is
            not in (0, 1), or ``kernel_size`` is not positive.
        RuntimeError: the windows are too large for that number of outputs.
        NotImplementedError: the input is not floating.

    Shape:
        - input: (N, C, H, W) or (C, H, W).
        - output: (N, C, Hout, Wout) or (C, Hout, Wout), the last of ``output_size`` or of floor(n *
          output_ratio).
        - indices: of the output's shape, int64.
        - dtypes: floating.
    """

    _function = staticmethod(F.fractional_max_pool2d)
    _dims = 2


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """Max pooling of (N, C, D, H, W) or (C, D, H, W) over windows at random positions.

    Windows begin at floor(alpha (i + u)) - floor(alpha u), where u is random for each sample and
    channel, so that any ratio of sizes is possible. The gradient goes to the largest element.
    Graham, Fractional Max-Pooling (arXiv:1412.6071). See ``nn.functional.fractional_max_pool3d``.

    Args:
        kernel_size: size of a window; an int for all dims, or (depth, height, width).
        output_size: the sizes of the output.
        output_ratio: the ratio of output to input sizes, between 0 and 1, instead of
            ``output_size``.
        return_indices: whether to also return the indices of the largest elements, which
            MaxUnpool3d accepts.
        _random_samples: (N, C, 3), the values of u; None samples new ones in each call.

    Raises:
        ValueError: neither or both of ``output_size`` and ``output_ratio`` are given, a ratio is
            not in (0, 1), or ``kernel_size`` is not positive.
        RuntimeError: the windows are too large for that number of outputs.
        NotImplementedError: the input is not floating.

    Shape:
        - input: (N, C, D, H, W) or (C, D, H, W).
        - output: (N, C, Dout, Hout, Wout) or (C, Dout, Hout, Wout), the last of ``output_size`` or
          of floor(n * output_ratio).
        - indices: of the output's shape, int64.
        - dtypes: floating.
    """

    _function = staticmethod(F.fractional_max_pool3d)
    _dims = 3


class LPPool1d(_LPPoolNd):
    """Computes (sum of x^p)^(1/p) over windows of (N, C, L) or (C, L).

    The powers are those of x, not of |x|: for odd p elements may cancel, and a negative sum gives
    NaN unless p is 1. Where the sum is 0, the gradient is 0. See ``nn.functional.lp_pool1d``.

    Args:
        norm_type: p, not 0.
        kernel_size: size of a window; an int or a tuple of one.
        stride: distance between windows; None for ``kernel_size``.
        ceil_mode: whether to round sizes up, so that a last window that begins inside the input may
            extend past its end.

    Raises:
        RuntimeError: the input does not have 2 or 3 dims, or is smaller than a window.
        ZeroDivisionError: ``norm_type`` is 0.
        NotImplementedError: the input is complex.

    Shape:
        - input: (N, C, L) or (C, L).
        - output: (N, C, Lout) or (C, Lout), Lout = floor((n - kernel_size) / stride) + 1 with n =
          L.
        - dtypes: floating.
    """

    _function = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPoolNd):
    """Computes (sum of x^p)^(1/p) over windows of (N, C, H, W) or (C, H, W).

    The powers are those of x, not of |x|: for odd p elements may cancel, and a negative sum gives
    NaN unless p is 1. Where the sum is 0, the gradient is 0. See ``nn.functional.lp_pool2d``.

    Args:
        norm_type: p, not 0.
        kernel_size: size of a window; an int for both dims, or (height, width), as is the next.
        stride: distance between windows; None for ``kernel_size``.
        ceil_mode: whether to round sizes up, so that a last window that begins inside the input may
            extend past its end.

    Raises:
        RuntimeError: the input does not have 3 or 4 dims, or is smaller than a window.
        ZeroDivisionError: ``norm_type`` is 0.
        NotImplementedError: the input is complex.

    Shape:
        - input: (N, C, H, W) or (C, H, W).
        - output: (N, C, Hout, Wout) or (C, Hout, Wout), each n of H and W becoming
          floor((n - kernel_size) / stride) + 1.
        - dtypes: floating.
    """

    _function = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPoolNd):
    """Computes (sum of x^p)^(1/p) over windows of (N, C, D, H, W) or (C, D, H, W).

    The powers are those of x, not of |x|: for odd p elements may cancel, and a negative sum gives
    NaN unless p is 1. Where the sum is 0, the gradient is 0. See ``nn.functional.lp_pool3d``.

    Args:
        norm_type: p, not 0.
        kernel_size: size of a window; an int for all dims, or (depth, height, width), as is the
            next.
        stride: distance between windows; None for ``kernel_size``.
        ceil_mode: whether to round sizes up, so that a last window that begins inside the input may
            extend past its end.

    Raises:
        RuntimeError: the input does not have 4 or 5 dims, or is smaller than a window.
        ZeroDivisionError: ``norm_type`` is 0.
        NotImplementedError: the input is complex.

    Shape:
        - input: (N, C, D, H, W) or (C, D, H, W).
        - output: (N, C, Dout, Hout, Wout) or (C, Dout, Hout, Wout), each n of D, H and W becoming
          floor((n - kernel_size) / stride) + 1.
        - dtypes: floating.
    """

    _function = staticmethod(F.lp_pool3d)


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Average pooling of (N, C, L) or (C, L) to ``output_size``.

    In a dim of n elements and m outputs, window i goes from floor(i n / m) to ceil((i + 1) n / m).
    The layer is linear. See ``nn.functional.adaptive_avg_pool1d``.

    Args:
        output_size: Lout, an int or a tuple of one.

    Raises:
        RuntimeError: the input does not have 2 or 3 dims, a size is negative, or there are more
            than 1 size.
        NotImplementedError: the input is not floating.

    Shape:
        - input: (N, C, L) or (C, L).
        - output: (N, C, Lout) or (C, Lout).
        - dtypes: floating.
    """

    _function = staticmethod(cograd.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Average pooling of (N, C, H, W) or (C, H, W) to ``output_size``.

    In a dim of n elements and m outputs, window i goes from floor(i n / m) to ceil((i + 1) n / m).
    The layer is linear. See ``nn.functional.adaptive_avg_pool2d``.

    Args:
        output_size: (Hout, Wout), or an int for both; None keeps a size.

    Raises:
        RuntimeError: the input does not have 3 or 4 dims (unless all output sizes are 1), a size is
            negative, or there are more than 2 sizes.
        NotImplementedError: the input is not floating.

    Shape:
        - input: (N, C, H, W) or (C, H, W).
        - output: (N, C, Hout, Wout) or (C, Hout, Wout).
        - dtypes: floating.
    """

    _function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Average pooling of (N, C, D, H, W) or (C, D, H, W) to ``output_size``.

    In a dim of n elements and m outputs, window i goes from floor(i n / m) to ceil((i + 1) n / m).
    The layer is linear. See ``nn.functional.adaptive_avg_pool3d``.

    Args:
        output_size: (Dout, Hout, Wout), or an int for all; None keeps a size.

    Raises:
        RuntimeError: the input does not have 4 or 5 dims (unless all output sizes are 1), a size is
            negative, or there are more than 3 sizes.
        NotImplementedError: the input is not floating.

    Shape:
        - input: (N, C, D, H, W) or (C, D, H, W).
        - output: (N, C, Dout, Hout, Wout) or (C, Dout, Hout, Wout).
        - dtypes: floating.
    """

    _function = staticmethod(F.adaptive_avg_pool3d)


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Max pooling of (N, C, L) or (C, L) to ``output_size``.

    In a dim of n elements and m outputs, window i goes from floor(i n / m) to ceil((i + 1) n / m).
    Where elements tie, the first gets all of the gradient. See
    ``nn.functional.adaptive_max_pool1d``.

    Args:
        output_size: Lout, an int or a tuple of one.
        return_indices: whether to also return the indices, as MaxPool1d does.

    Raises:
        RuntimeError: the input does not have 2 or 3 dims, a size is negative, or there are more
            than 1 size.
        NotImplementedError: the input is not floating.

    Shape:
        - input: (N, C, L) or (C, L).
        - output: (N, C, Lout) or (C, Lout).
        - indices: of the output's shape, int64.
        - dtypes: floating.
    """

    _function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Max pooling of (N, C, H, W) or (C, H, W) to ``output_size``.

    In a dim of n elements and m outputs, window i goes from floor(i n / m) to ceil((i + 1) n / m).
    Where elements tie, the first gets all of the gradient. See
    ``nn.functional.adaptive_max_pool2d``.

    Args:
        output_size: (Hout, Wout), or an int for both; None keeps a size.
        return_indices: whether to also return the indices, as MaxPool2d does.

    Raises:
        RuntimeError: the input does not have 3 or 4 dims, a size is negative, or there are more
            than 2 sizes.
        NotImplementedError: the input is not floating.

    Shape:
        - input: (N, C, H, W) or (C, H, W).
        - output: (N, C, Hout, Wout) or (C, Hout, Wout).
        - indices: of the output's shape, int64.
        - dtypes: floating.
    """

    _function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Max pooling of (N, C, D, H, W) or (C, D, H, W) to ``output_size``.

    In a dim of n elements and m outputs, window i goes from floor(i n / m) to ceil((i + 1) n / m).
    Where elements tie, the first gets all of the gradient. See
    ``nn.functional.adaptive_max_pool3d``.

    Args:
        output_size: (Dout, Hout, Wout), or an int for all; None keeps a size.
        return_indices: whether to also return the indices, as MaxPool3d does.

    Raises:
        RuntimeError: the input does not have 4 or 5 dims, a size is negative, or there are more
            than 3 sizes.
        NotImplementedError: the input is not floating.

    Shape:
        - input: (N, C, D, H, W) or (C, D, H, W).
        - output: (N, C, Dout, Hout, Wout) or (C, Dout, Hout, Wout).
        - indices: of the output's shape, int64.
        - dtypes: floating.
    """

    _function = staticmethod(F.adaptive_max_pool3d)
