# SPDX-License-Identifier: BSD-3-Clause
"""Instance normalisation."""

from __future__ import annotations

import warnings
from typing import Any

from cograd import Tensor

from .. import functional as F
from .batchnorm import _expected, _NormBase
from .lazy import _lazy_norm

__all__ = [
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]


class _InstanceNorm(_NormBase):
    _dims = 0

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features,
            eps,
            momentum,
            affine,
            track_running_stats,
            device,
            dtype,
            bias=bias,
        )

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in (self._dims + 1, self._dims + 2):
            raise _expected(f"{self._dims + 1}D or {self._dims + 2}D", input)

    def _normalize(self, input: Tensor) -> Tensor:
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )

    def forward(self, input: Tensor) -> Tensor:
        """Maps (N, C, *) or (C, *) to the same shape."""
        self._check_input_dim(input)
        channels = input.shape[-self._dims - 1]
        if channels != self.num_features:
            dim = input.dim() - self._dims - 1
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={dim} to match num_features "
                    f"({self.num_features}), but got: {channels}."
                )
            warnings.warn(
                f"input's size at dim={dim} does not match num_features. You can silence this "
                "warning by not passing in num_features, which is not used because affine=False",
                stacklevel=2,
            )
        if input.dim() == self._dims + 1:
            return self._normalize(input.unsqueeze(0)).squeeze(0)
        return self._normalize(input)


class InstanceNorm1d(_InstanceNorm):
    """Normalises each channel of each sample to mean 0 and variance 1, over L.

    y = (x - mean) / sqrt(var + eps) * weight + bias, in training and in evaluation, where mean and
    (biased) var are those of a channel of a sample. With ``track_running_stats``, evaluation uses
    running statistics, which training moves towards the mean over the samples.

    Ulyanov, Vedaldi and Lempitsky, Instance Normalization (arXiv:1607.08022). See
    ``nn.functional.instance_norm``.

    Args:
        num_features: C, the number of channels.
        eps: added to the variance.
        momentum: the fraction by which the running statistics move in a step; None does not change
            them.
        affine: whether the layer has a ``weight`` and a ``bias``.
        track_running_stats: whether to keep running statistics.
        device, dtype: those of the parameters and running statistics; None for the default.
        bias: False leaves out only the ``bias``.

    Raises:
        ValueError: the input does not have 2 or 3 dims, there is one value per channel in training,
            or with ``affine`` the number of channels does not fit (without it this only warns).
        NotImplementedError: the input is not floating.

    Shape:
        - input and output: (N, C, L) or (C, L).
        - weight, bias: (C), initialised to 1 and 0; None without ``affine``.
        - running_mean, running_var: (C), num_batches_tracked: (); None without
          ``track_running_stats``.
        - dtypes: floating.
    """

    _dims = 1


class InstanceNorm2d(_InstanceNorm):
    """Normalises each channel of each sample to mean 0 and variance 1, over H and W.

    y = (x - mean) / sqrt(var + eps) * weight + bias, in training and in evaluation, where mean and
    (biased) var are those of a channel of a sample. With ``track_running_stats``, evaluation uses
    running statistics, which training moves towards the mean over the samples.

    Ulyanov, Vedaldi and Lempitsky, Instance Normalization (arXiv:1607.08022). See
    ``nn.functional.instance_norm``.

    Args:
        num_features: C, the number of channels.
        eps: added to the variance.
        momentum: the fraction by which the running statistics move in a step; None does not change
            them.
        affine: whether the layer has a ``weight`` and a ``bias``.
        track_running_stats: whether to keep running statistics.
        device, dtype: those of the parameters and running statistics; None for the default.
        bias: False leaves out only the ``bias``.

    Raises:
        ValueError: the input does not have 3 or 4 dims, there is one value per channel in training,
            or with ``affine`` the number of channels does not fit (without it this only warns).
        NotImplementedError: the input is not floating.

    Shape:
        - input and output: (N, C, H, W) or (C, H, W).
        - weight, bias: (C), initialised to 1 and 0; None without ``affine``.
        - running_mean, running_var: (C), num_batches_tracked: (); None without
          ``track_running_stats``.
        - dtypes: floating.
    """

    _dims = 2


class InstanceNorm3d(_InstanceNorm):
    """Normalises each channel of each sample to mean 0 and variance 1, over D, H and W.

    y = (x - mean) / sqrt(var + eps) * weight + bias, in training and in evaluation, where mean and
    (biased) var are those of a channel of a sample. With ``track_running_stats``, evaluation uses
    running statistics, which training moves towards the mean over the samples.

    Ulyanov, Vedaldi and Lempitsky, Instance Normalization (arXiv:1607.08022). See
    ``nn.functional.instance_norm``.

    Args:
        num_features: C, the number of channels.
        eps: added to the variance.
        momentum: the fraction by which the running statistics move in a step; None does not change
            them.
        affine: whether the layer has a ``weight`` and a ``bias``.
        track_running_stats: whether to keep running statistics.
        device, dtype: those of the parameters and running statistics; None for the default.
        bias: False leaves out only the ``bias``.

    Raises:
        ValueError: the input does not have 4 or 5 dims, there is one value per channel in training,
            or with ``affine`` the number of channels does not fit (without it this only warns).
        NotImplementedError: the input is not floating.

    Shape:
        - input and output: (N, C, D, H, W) or (C, D, H, W).
        - weight, bias: (C), initialised to 1 and 0; None without ``affine``.
        - running_mean, running_var: (C), num_batches_tracked: (); None without
          ``track_running_stats``.
        - dtypes: floating.
    """

    _dims = 3


LazyInstanceNorm1d = _lazy_norm(InstanceNorm1d)

LazyInstanceNorm2d = _lazy_norm(InstanceNorm2d)

LazyInstanceNorm3d = _lazy_norm(InstanceNorm3d)
