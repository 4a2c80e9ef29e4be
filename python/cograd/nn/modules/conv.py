# SPDX-License-Identifier: BSD-3-Clause
"""Convolutions and transposed convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import cograd
from cograd import Tensor

from .. import functional as F
from .. import init
from ..parameter import Parameter
from .lazy import _lazy_conv
from .module import Module

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]

Sizes = int | Sequence[int]

_MODES = {"zeros", "reflect", "replicate", "circular"}


def _tuple(value: Any, n: int) -> tuple[Any, ...]:
    if isinstance(value, (tuple, list)):
        return tuple(value)
    return (value,) * n


class _ConvNd(Module):
    _dims = 0

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        transposed: bool,
        output_padding: Any,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(
                    f"Invalid padding string {padding!r}, should be one of {{'same', 'valid'}}"
                )
            if padding == "same" and any(s != 1 for s in stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in _MODES:
            raise ValueError(
                f"padding_mode must be one of {_MODES}, but got padding_mode='{padding_mode}'"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = self._pad_amounts()
        options = {"device": device, "dtype": dtype}
        rows, columns = (in_channels, out_channels) if transposed else (out_channels, in_channels)
        self.weight = Parameter(cograd.empty((rows, columns // groups, *kernel_size), **options))
        if bias:
            self.bias = Parameter(cograd.empty(out_channels, **options))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _pad_amounts(self) -> list[int]:
        """Returns the padding as ``F.pad`` expects it, the last dim first."""
        if self.padding == "valid":
            return [0, 0] * len(self.kernel_size)
        amounts = []
        for i in reversed(range(len(self.kernel_size))):
            if self.padding == "same":
                total = self.dilation[i] * (self.kernel_size[i] - 1)
                amounts += [total // 2, total - total // 2]
            else:
                amounts += [self.padding[i], self.padding[i]]
        return amounts

    def reset_parameters(self) -> None:
        """Samples new weights and biases from U(-k, k), k = 1 / sqrt(fan in)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        n = len(self.kernel_size)
        if self.padding != (0,) * n:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * n:
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * n:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if not hasattr(self, "padding_mode"):
            self.padding_mode = "zeros"


class _Conv(_ConvNd):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: str | Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        n = self._dims
        super().__init__(
            in_channels,
            out_channels,
            _tuple(kernel_size, n),
            _tuple(stride, n),
            padding if isinstance(padding, str) else _tuple(padding, n),
            _tuple(dilation, n),
            False,
            (0,) * n,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        conv = _CONVS[self._dims - 1]
        if self.padding_mode == "zeros":
            return conv(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)
        padded = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
        return conv(padded, weight, bias, self.stride, 0, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        """Maps (N, C, *) or (C, *) to (N, O, *) or (O, *)."""
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv):
    """Convolution of (N, C, L) or (C, L).

    out[o] = bias[o] + sum over c of weight[o, c] * x[c], where * is cross-correlation; it is linear
    in the input. Dumoulin and Visin, A Guide to Convolution Arithmetic for Deep Learning
    (arXiv:1603.07285). See ``nn.functional.conv1d``.

    Args:
        in_channels: C, number of channels of the input.
        out_channels: O, number of channels of the output.
        kernel_size: an int or a tuple of one; so are the next three.
        stride: step of the kernel, positive.
        padding: number of elements added on either side, not negative; 'same' keeps the input's
            size, 'valid' adds none.
        dilation: distance between the kernel's elements, positive.
        groups: number of independent groups that C and O are divided into.
        bias: whether the layer has a ``bias``.
        padding_mode: the kind of padding: 'zeros', 'reflect', 'replicate' or 'circular'.
        device, dtype: those of the parameters; None for the default.

    Raises:
        ValueError: ``groups`` does not divide C and O, ``padding`` or ``padding_mode`` is unknown,
            or 'same' is given with a stride.
        RuntimeError: the input's dims, channels or dtype do not fit, or it is smaller than the
            kernel.

    Shape:
        - input: (N, C, L) or (C, L).
        - output: (N, O, Lout) or (O, Lout), Lout =
          floor((n + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1 with n = L.
        - weight: (O, C / groups, K), initialised from U(-k, k), k = 1 / sqrt((C / groups) K).
        - bias: (O), initialised in the same way; None if ``bias`` is False.
        - dtypes: floating or complex, the weight's.
    """

    _dims = 1


class Conv2d(_Conv):
    """Convolution of (N, C, H, W) or (C, H, W).

    out[o] = bias[o] + sum over c of weight[o, c] * x[c], where * is cross-correlation; it is linear
    in the input. Dumoulin and Visin, A Guide to Convolution Arithmetic for Deep Learning
    (arXiv:1603.07285). See ``nn.functional.conv2d``.

    Args:
        in_channels: C, number of channels of the input.
        out_channels: O, number of channels of the output.
        kernel_size: an int for both dims, or (height, width); so are the next three.
        stride: step of the kernel, positive.
        padding: number of elements added on either side, not negative; 'same' keeps the input's
            size, 'valid' adds none.
        dilation: distance between the kernel's elements, positive.
        groups: number of independent groups that C and O are divided into.
        bias: whether the layer has a ``bias``.
        padding_mode: the kind of padding: 'zeros', 'reflect', 'replicate' or 'circular'.
        device, dtype: those of the parameters; None for the default.

    Raises:
        ValueError: ``groups`` does not divide C and O, ``padding`` or ``padding_mode`` is unknown,
            or 'same' is given with a stride.
        RuntimeError: the input's dims, channels or dtype do not fit, or it is smaller than the
            kernel.

    Shape:
        - input: (N, C, H, W) or (C, H, W).
        - output: (N, O, Hout, Wout) or (O, Hout, Wout), each n of H and W becoming
          floor((n + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1.
        - weight: (O, C / groups, KH, KW), initialised from U(-k, k), k = 1 / sqrt((C / groups) KH
          KW).
        - bias: (O), initialised in the same way; None if ``bias`` is False.
        - dtypes: floating or complex, the weight's.
    """

    _dims = 2


class Conv3d(_Conv):
    """Convolution of (N, C, D, H, W) or (C, D, H, W).

    out[o] = bias[o] + sum over c of weight[o, c] * x[c], where * is cross-correlation; it is linear
    in the input. Dumoulin and Visin, A Guide to Convolution Arithmetic for Deep Learning
    (arXiv:1603.07285). See ``nn.functional.conv3d``.

    Args:
        in_channels: C, number of channels of the input.
        out_channels: O, number of channels of the output.
        kernel_size: an int for all dims, or (depth, height, width); so are the next three.
        stride: step of the kernel, positive.
        padding: number of elements added on either side, not negative; 'same' keeps the input's
            size, 'valid' adds none.
        dilation: distance between the kernel's elements, positive.
        groups: number of independent groups that C and O are divided into.
        bias: whether the layer has a ``bias``.
        padding_mode: the kind of padding: 'zeros', 'reflect', 'replicate' or 'circular'.
        device, dtype: those of the parameters; None for the default.

    Raises:
        ValueError: ``groups`` does not divide C and O, ``padding`` or ``padding_mode`` is unknown,
            or 'same' is given with a stride.
        RuntimeError: the input's dims, channels or dtype do not fit, or it is smaller than the
            kernel.

    Shape:
        - input: (N, C, D, H, W) or (C, D, H, W).
        - output: (N, O, Dout, Hout, Wout) or (O, Dout, Hout, Wout), each n of D, H and W becoming
          floor((n + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1.
        - weight: (O, C / groups, KD, KH, KW), initialised from U(-k, k), k = 1 / sqrt((C / groups)
          KD KH KW).
        - bias: (O), initialised in the same way; None if ``bias`` is False.
        - dtypes: floating or complex, the weight's.
    """

    _dims = 3


_CONVS = (F.conv1d, F.conv2d, F.conv3d)


class _ConvTransposeNd(_ConvNd):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        n = self._dims
        super().__init__(
            in_channels,
            out_channels,
            _tuple(kernel_size, n),
            _tuple(stride, n),
            _tuple(padding, n),
            _tuple(dilation, n),
            True,
            _tuple(output_padding, n),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _output_padding(
        self,
        input: Tensor,
        output_size: Sequence[int] | None,
        stride: Sequence[int],
        padding: Sequence[int],
        kernel_size: Sequence[int],
        num_spatial_dims: int,
        dilation: Sequence[int] | None = None,
    ) -> Sequence[int]:
        """Returns the output padding with which the output has ``output_size``."""
        n = num_spatial_dims
        dilation = (1,) * n if dilation is None else dilation
        if output_size is None:
            return _tuple(self.output_padding, n)
        leading = input.dim() - n
        wanted = list(output_size)
        if len(wanted) == leading + n:
            wanted = wanted[leading:]
        if len(wanted) != n:
            raise ValueError(
                f"ConvTranspose{n}D: for {input.dim()}D input, output_size must have {n} or "
                f"{leading + n} elements (got {len(output_size)})"
            )
        least = [
            (input.shape[i + leading] - 1) * stride[i]
            - 2 * padding[i]
            + dilation[i] * (kernel_size[i] - 1)
            + 1
            for i in range(n)
        ]
        most = [low + step - 1 for low, step in zip(least, stride, strict=True)]
        for size, low, high in zip(wanted, least, most, strict=True):
            if size < low or size > high:
                raise ValueError(
                    f"requested an output size of {list(output_size)}, but valid sizes range from "
                    f"{least} to {most} (for an input of {input.shape[2:]})"
                )
        return [size - low for size, low in zip(wanted, least, strict=True)]

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Maps (N, C, *) or (C, *) to (N, O, *) or (O, *), of ``output_size`` if it is given."""
        n = self._dims
        geometry = (self.stride, self.padding, self.kernel_size, n, self.dilation)
        return _TRANSPOSED[n - 1](
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self._output_padding(input, output_size, *geometry),
            self.groups,
            self.dilation,
        )


class ConvTranspose1d(_ConvTransposeNd):
    """Transposed convolution of (N, C, L) or (C, L).

    The layer computes the gradient of Conv1d with respect to its input: each element of the input
    adds the kernel times it to the output. Dumoulin and Visin, A Guide to Convolution Arithmetic
    for Deep Learning (arXiv:1603.07285). See ``nn.functional.conv_transpose1d``.

    Args:
        in_channels: C, number of channels of the input.
        out_channels: O, number of channels of the output.
        kernel_size: an int or a tuple of one; so are the next three.
        stride: distance in the output between the kernels of two neighbouring input elements.
        padding: number of elements cut from either side of the output.
        output_padding: number of elements added at one side, less than ``stride`` or ``dilation``;
            ignored if the call gets an ``output_size``.
        groups: number of independent groups that C and O are divided into.
        bias: whether the layer has a ``bias``.
        dilation: distance between the kernel's elements.
        padding_mode: only 'zeros'.
        device, dtype: those of the parameters; None for the default.

    Raises:
        ValueError: ``groups`` does not divide C and O, ``padding_mode`` is not 'zeros', or
            ``output_size`` is impossible.
        RuntimeError: the input's dims, channels or dtype do not fit, or ``output_padding`` is too
            large.

    Shape:
        - input: (N, C, L) or (C, L); output_size, optional: the last size or all sizes of the
          output.
        - output: (N, O, Lout) or (O, Lout), Lout =
          (n - 1) stride - 2 padding + dilation (kernel_size - 1) + output_padding + 1 with n = L.
        - weight: (C, O / groups, K), initialised from U(-k, k), k = 1 / sqrt((O / groups) K).
        - bias: (O), initialised in the same way; None if ``bias`` is False.
        - dtypes: floating or complex, the weight's.
    """

    _dims = 1


class ConvTranspose2d(_ConvTransposeNd):
    """Transposed convolution of (N, C, H, W) or (C, H, W).

    The layer computes the gradient of Conv2d with respect to its input: each element of the input
    adds the kernel times it to the output. Dumoulin and Visin, A Guide to Convolution Arithmetic
    for Deep Learning (arXiv:1603.07285). See ``nn.functional.conv_transpose2d``.

    Args:
        in_channels: C, number of channels of the input.
        out_channels: O, number of channels of the output.
        kernel_size: an int for both dims, or (height, width); so are the next three.
        stride: distance in the output between the kernels of two neighbouring input elements.
        padding: number of elements cut from either side of the output.
        output_padding: number of elements added at one side, less than ``stride`` or ``dilation``;
            ignored if the call gets an ``output_size``.
        groups: number of independent groups that C and O are divided into.
        bias: whether the layer has a ``bias``.
        dilation: distance between the kernel's elements.
        padding_mode: only 'zeros'.
        device, dtype: those of the parameters; None for the default.

    Raises:
        ValueError: ``groups`` does not divide C and O, ``padding_mode`` is not 'zeros', or
            ``output_size`` is impossible.
        RuntimeError: the input's dims, channels or dtype do not fit, or ``output_padding`` is too
            large.

    Shape:
        - input: (N, C, H, W) or (C, H, W); output_size, optional: the last 2 or all sizes of the
          output.
        - output: (N, O, Hout, Wout) or (O, Hout, Wout), each n of H and W becoming
          (n - 1) stride - 2 padding + dilation (kernel_size - 1) + output_padding + 1.
        - weight: (C, O / groups, KH, KW), initialised from U(-k, k), k = 1 / sqrt((O / groups) KH
          KW).
        - bias: (O), initialised in the same way; None if ``bias`` is False.
        - dtypes: floating or complex, the weight's.
    """

    _dims = 2


class ConvTranspose3d(_ConvTransposeNd):
    """Transposed convolution of (N, C, D, H, W) or (C, D, H, W).

    The layer computes the gradient of Conv3d with respect to its input: each element of the input
    adds the kernel times it to the output. Dumoulin and Visin, A Guide to Convolution Arithmetic
    for Deep Learning (arXiv:1603.07285). See ``nn.functional.conv_transpose3d``.

    Args:
        in_channels: C, number of channels of the input.
        out_channels: O, number of channels of the output.
        kernel_size: an int for all dims, or (depth, height, width); so are the next three.
        stride: distance in the output between the kernels of two neighbouring input elements.
        padding: number of elements cut from either side of the output.
        output_padding: number of elements added at one side, less than ``stride`` or ``dilation``;
            ignored if the call gets an ``output_size``.
        groups: number of independent groups that C and O are divided into.
        bias: whether the layer has a ``bias``.
        dilation: distance between the kernel's elements.
        padding_mode: only 'zeros'.
        device, dtype: those of the parameters; None for the default.

    Raises:
        ValueError: ``groups`` does not divide C and O, ``padding_mode`` is not 'zeros', or
            ``output_size`` is impossible.
        RuntimeError: the input's dims, channels or dtype do not fit, or ``output_padding`` is too
            large.

    Shape:
        - input: (N, C, D, H, W) or (C, D, H, W); output_size, optional: the last 3 or all sizes of
          the output.
        - output: (N, O, Dout, Hout, Wout) or (O, Dout, Hout, Wout), each n of D, H and W becoming
          (n - 1) stride - 2 padding + dilation (kernel_size - 1) + output_padding + 1.
        - weight: (C, O / groups, KD, KH, KW), initialised from U(-k, k), k = 1 / sqrt((O / groups)
          KD KH KW).
        - bias: (O), initialised in the same way; None if ``bias`` is False.
        - dtypes: floating or complex, the weight's.
    """

    _dims = 3


_TRANSPOSED = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)

LazyConv1d = _lazy_conv(Conv1d)

LazyConv2d = _lazy_conv(Conv2d)

LazyConv3d = _lazy_conv(Conv3d)

LazyConvTranspose1d = _lazy_conv(ConvTranspose1d)

LazyConvTranspose2d = _lazy_conv(ConvTranspose2d)

LazyConvTranspose3d = _lazy_conv(ConvTranspose3d)
