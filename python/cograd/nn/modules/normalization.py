# SPDX-License-Identifier: BSD-3-Clause
"""Layer, RMS, group and local response normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cograd
from cograd import Tensor

from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module

__all__ = [
    "CrossMapLRN2d",
    "GroupNorm",
    "LayerNorm",
    "LocalResponseNorm",
    "RMSNorm",
]


def _shape_of(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    if isinstance(normalized_shape, int):
        return (normalized_shape,)
    return tuple(normalized_shape)


class LayerNorm(Module):
    """Normalises the last dims, ``normalized_shape``, of each sample to mean 0 and variance 1.

    y = (x - mean) / sqrt(var + eps) * weight + bias, in training and in evaluation; the variance is
    biased.

    Ba, Kiros and Hinton, Layer Normalization (arXiv:1607.06450). See ``nn.functional.layer_norm``.

    Args:
        normalized_shape: sizes of the last dims; an int means one dim.
        eps: added to the variance.
        elementwise_affine: whether the layer has a ``weight`` and a ``bias``.
        bias: False leaves out only the ``bias``.
        device, dtype: those of the parameters; None for the default.

    Raises:
        RuntimeError: the input does not end in ``normalized_shape``, or is empty.
        NotImplementedError: the input is not floating.

    Shape:
        - input and output: (*, normalized_shape).
        - weight, bias: normalized_shape, initialised to 1 and 0; None without
          ``elementwise_affine``.
        - dtypes: floating.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape_of(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        options = {"device": device, "dtype": dtype}
        weight = bias_param = None
        if elementwise_affine:
            weight = Parameter(cograd.empty(self.normalized_shape, **options))
            if bias:
                bias_param = Parameter(cograd.empty(self.normalized_shape, **options))
        self.register_parameter("weight", weight)
        self.register_parameter("bias", bias_param)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the weight to one and the bias to zero."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Maps (*, normalized_shape) to the same shape."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Computes x / sqrt(mean of |x|^2 + eps) * weight, the mean over ``normalized_shape``.

    It computes the same in training and in evaluation.

    Zhang and Sennrich, Root Mean Square Layer Normalization (arXiv:1910.07467). See
    ``nn.functional.rms_norm``.

    Args:
        normalized_shape: sizes of the last dims; an int means one dim.
        eps: added to the mean; None means the machine epsilon of the dtype.
        elementwise_affine: whether the layer has a ``weight``.
        device, dtype: those of the parameters; None for the default.

    Raises:
        RuntimeError: the input does not end in ``normalized_shape``.
        NotImplementedError: the input is integer or bool.

    Shape:
        - input and output: (*, normalized_shape).
        - weight: normalized_shape, initialised to 1; None without ``elementwise_affine``.
        - dtypes: floating or complex.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape_of(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        weight = None
        if elementwise_affine:
            weight = Parameter(cograd.empty(self.normalized_shape, device=device, dtype=dtype))
        self.register_parameter("weight", weight)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the weight to one."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        """Maps (*, normalized_shape) to the same shape."""
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class GroupNorm(Module):
    """Normalises groups of channels of each sample to mean 0 and variance 1.

    y = (x - mean) / sqrt(var + eps) * weight + bias, in training and in evaluation. The mean and
    the biased variance are over C / num_groups channels of a sample; weight and bias are per
    channel.

    Wu and He, Group Normalization (arXiv:1803.08494). See ``nn.functional.group_norm``.

    Args:
        num_groups: number of groups, a divisor of C; 1 is LayerNorm over (C, *), C is InstanceNorm.
        num_channels: C, the number of channels.
        eps: added to the variance.
        affine: whether the layer has a ``weight`` and a ``bias``.
        device, dtype: those of the parameters; None for the default.
        bias: False leaves out only the ``bias``.

    Raises:
        ValueError: ``num_groups`` does not divide the number of channels.
        RuntimeError: the input has fewer than 2 dims or another number of channels.
        NotImplementedError: the input is not floating.

    Shape:
        - input and output: (N, C, *).
        - weight, bias: (C), initialised to 1 and 0; None without ``affine``.
        - dtypes: floating.
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(
                f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        options = {"device": device, "dtype": dtype}
        with_bias = affine and bias
        weight = Parameter(cograd.empty(num_channels, **options)) if affine else None
        self.register_parameter("weight", weight)
        self.register_parameter(
            "bias", Parameter(cograd.empty(num_channels, **options)) if with_bias else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the weight to one and the bias to zero."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Maps (N, C, *) to the same shape."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class LocalResponseNorm(Module):
    """Computes x / (k + alpha * mean of the squares of ``size`` neighbouring channels)^beta.

    The window of channel c goes from c - size // 2 to c + (size - 1) // 2; channels that are out
    of range count as 0 in a mean over ``size``.

    Krizhevsky, Sutskever and Hinton, ImageNet Classification with Deep Convolutional Neural
    Networks (2012). See ``nn.functional.local_response_norm``.

    Args:
        size: number of channels in the mean: the channel itself and its neighbours.
        alpha: factor of the mean of squares.
        beta: the exponent.
        k: added to the mean; with 0, windows of zeros divide by 0.

    Raises:
        ValueError: the input has fewer than 3 dims.
        RuntimeError: ``size`` is not positive.
        NotImplementedError: the input is not floating.

    Shape:
        - input and output: (N, C, *), at least 3 dims.
        - dtypes: floating.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """Maps (N, C, *) to the same shape."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    """LocalResponseNorm of images, as torch keeps it for old models.

    x / (k + alpha / size * sum of the squares of the neighbouring channels)^beta. As in torch, the
    first channel stays in the sum of all later windows, and an even ``size`` has the window of the
    odd size below it.

    Args:
        size: number of channels in the mean: the channel itself and its neighbours.
        alpha: factor of the mean of squares.
        beta: the exponent.
        k: added to the mean; with 0, windows of zeros divide by 0.

    Raises:
        ValueError: the input does not have 4 dims.

    Shape:
        - input and output: (N, C, H, W).
        - dtypes: floating.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """Maps (N, C, H, W) to the same shape."""
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        half = int((self.size - 1) / 2 + 1) - 1
        squares = input * input
        sums = F.pad(squares, (0, 0, 0, 0, half, half)).unfold(1, 2 * half + 1, 1).sum(-1)
        # In torch the first channel stays in the sum of all later windows.
        behind = cograd.arange(input.shape[1], device=input.device) > half
        sums = sums + squares[:, :1] * behind.to(input.dtype).reshape(1, -1, 1, 1)
        return input * (sums * (self.alpha / self.size) + self.k).pow(-self.beta)

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
