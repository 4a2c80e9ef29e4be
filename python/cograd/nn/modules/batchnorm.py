# SPDX-License-Identifier: BSD-3-Clause
"""BatchNorm, InstanceNorm, GroupNorm and normalisation across channels."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

from .. import functional as F
from .. import init
from ..parameter import Parameter
from ._sync_batchnorm import sync_batch_norm
from .lazy import _lazy_norm
from .module import Module

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "SyncBatchNorm",
]


class _NormBase(Module):
    """Holds the weight, the bias and the running statistics of ``num_features`` channels."""

    _version = 2

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        options = {"device": device, "dtype": dtype}
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        weight = Parameter(cograd.empty(num_features, **options)) if affine else None
        with_bias = affine and bias
        self.register_parameter("weight", weight)
        self.register_parameter(
            "bias", Parameter(cograd.empty(num_features, **options)) if with_bias else None
        )
        mean = cograd.zeros(num_features, **options) if track_running_stats else None
        var = cograd.ones(num_features, **options) if track_running_stats else None
        count = None
        if track_running_stats:
            count = cograd.tensor(0, dtype=cograd.int64, device=device)
        self.register_buffer("running_mean", mean)
        self.register_buffer("running_var", var)
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Resets the running mean to 0, the variance to 1 and the number of batches to 0."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Sets the weight to one and the bias to zero, and resets the running statistics."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        raise NotImplementedError

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        version = local_metadata.get("version", None)
        if (version is None or version < 2) and self.track_running_stats:
            key = prefix + "num_batches_tracked"
            if key not in state_dict:
                have = self.num_batches_tracked
                state_dict[key] = cograd.tensor(0) if have is None else have
        super()._load_from_state_dict(
            state_dict,
            prefix,
            local_metadata,
            strict,
            missing_keys,
            unexpected_keys,
            error_msgs,
        )


class _BatchNorm(_NormBase):
    def forward(self, input: Tensor) -> Tensor:
        """Maps (N, C, *) to the same shape."""
        self._check_input_dim(input)
        factor = self._factor()
        own = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if own else None,
            self.running_var if own else None,
            self.weight,
            self.bias,
            self.training or (self.running_mean is None and self.running_var is None),
            factor,
            self.eps,
        )

    def _factor(self) -> float:
        """Counts the batch; returns the fraction by which the running statistics move to it."""
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # cumulative mean over all batches
                seen = self.num_batches_tracked
                factor = 1.0 if seen.is_meta else 1.0 / float(seen)
        return factor


def _expected(want: str, input: Tensor) -> ValueError:
    return ValueError(f"expected {want} input (got {input.dim()}D input)")


class BatchNorm1d(_BatchNorm):
    """Normalises each channel of (N, C) or (N, C, L) to mean 0 and variance 1, over N and L.

    y = (x - mean) / sqrt(var + eps) * weight + bias. In training, mean and (biased) var are those
    of the batch, and the running statistics move to r = (1 - momentum) r + momentum b, where b is
    the mean or the unbiased variance of the batch. In evaluation the running statistics are used if
    there are any.

    Ioffe and Szegedy, Batch Normalization (arXiv:1502.03167). See ``nn.functional.batch_norm``.

    Args:
        num_features: C, the number of channels.
        eps: added to the variance.
        momentum: the fraction by which the running statistics move to those of a batch; None makes
            them means over all batches.
        affine: whether the layer has a ``weight`` and a ``bias``.
        track_running_stats: whether to keep running statistics; without them evaluation also uses
            the statistics of the batch.
        device, dtype: those of the parameters and running statistics; None for the default.
        bias: False leaves out only the ``bias``.

    Raises:
        ValueError: the input does not have 2 or 3 dims, or there is one value per channel in
            training.
        RuntimeError: the number of channels is not ``num_features``.
        NotImplementedError: the input is not floating.

    Shape:
        - input and output: (N, C) or (N, C, L).
        - weight, bias: (C), initialised to 1 and 0; None without ``affine``.
        - running_mean, running_var: (C), initialised to 0 and 1; num_batches_tracked: (), int64.
        - dtypes: floating; parameters may be float32 for a float16 or bfloat16 input.
    """

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in (2, 3):
            raise _expected("2D or 3D", input)


class BatchNorm2d(_BatchNorm):
    """Normalises each channel of (N, C, H, W) to mean 0 and variance 1, over N, H and W.

    y = (x - mean) / sqrt(var + eps) * weight + bias. In training, mean and (biased) var are those
    of the batch, and the running statistics move to r = (1 - momentum) r + momentum b, where b is
    the mean or the unbiased variance of the batch. In evaluation the running statistics are used if
    there are any.

    Ioffe and Szegedy, Batch Normalization (arXiv:1502.03167). See ``nn.functional.batch_norm``.

    Args:
        num_features: C, the number of channels.
        eps: added to the variance.
        momentum: the fraction by which the running statistics move to those of a batch; None makes
            them means over all batches.
        affine: whether the layer has a ``weight`` and a ``bias``.
        track_running_stats: whether to keep running statistics; without them evaluation also uses
            the statistics of the batch.
        device, dtype: those of the parameters and running statistics; None for the default.
        bias: False leaves out only the ``bias``.

    Raises:
        ValueError: the input does not have 4 dims, or there is one value per channel in training.
        RuntimeError: the number of channels is not ``num_features``.
        NotImplementedError: the input is not floating.

    Shape:
        - input and output: (N, C, H, W).
        - weight, bias: (C), initialised to 1 and 0; None without ``affine``.
        - running_mean, running_var: (C), initialised to 0 and 1; num_batches_tracked: (), int64.
        - dtypes: floating; parameters may be float32 for a float16 or bfloat16 input.
    """

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() != 4:
            raise _expected("4D", input)


class BatchNorm3d(_BatchNorm):
    """Normalises each channel of (N, C, D, H, W) to mean 0 and variance 1, over N, D, H and W.

    y = (x - mean) / sqrt(var + eps) * weight + bias. In training, mean and (biased) var are those
    of the batch, and the running statistics move to r = (1 - momentum) r + momentum b, where b is
    the mean or the unbiased variance of the batch. In evaluation the running statistics are used if
    there are any.

    Ioffe and Szegedy, Batch Normalization (arXiv:1502.03167). See ``nn.functional.batch_norm``.

    Args:
        num_features: C, the number of channels.
        eps: added to the variance.
        momentum: the fraction by which the running statistics move to those of a batch; None makes
            them means over all batches.
        affine: whether the layer has a ``weight`` and a ``bias``.
        track_running_stats: whether to keep running statistics; without them evaluation also uses
            the statistics of the batch.
        device, dtype: those of the parameters and running statistics; None for the default.
        bias: False leaves out only the ``bias``.

    Raises:
        ValueError: the input does not have 5 dims, or there is one value per channel in training.
        RuntimeError: the number of channels is not ``num_features``.
        NotImplementedError: the input is not floating.

    Shape:
        - input and output: (N, C, D, H, W).
        - weight, bias: (C), initialised to 1 and 0; None without ``affine``.
        - running_mean, running_var: (C), initialised to 0 and 1; num_batches_tracked: (), int64.
        - dtypes: floating; parameters may be float32 for a float16 or bfloat16 input.
    """

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() != 5:
            raise _expected("5D", input)


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation of (N, C, *) over the batches of all ranks of a process group.

    y = (x - mean) / sqrt(var + eps) * weight + bias. In training, mean and variance are over the
    values of all ranks; every rank of the group must call the module and run its backward. Without
    a process group, and in evaluation, it acts as ``BatchNorm``.

    Args:
        num_features: C, the number of channels.
        eps: added to the variance.
        momentum: the fraction by which the running statistics move to those of a batch; None makes
            them means over all batches.
        affine: whether the layer has a ``weight`` and a ``bias``.
        track_running_stats: whether to keep running statistics, which evaluation uses.
        process_group: a group of ``distributed``; None means the default group, if there is one.
        device, dtype: those of the parameters and running statistics; None for the default.

    Raises:
        ValueError: the input has fewer than 2 dims, or all ranks together have fewer than 2 values
            per channel.

    Shape:
        - input and output: (N, C, *), at least 2 dims.
        - weight, bias, running_mean, running_var: (C); num_batches_tracked: (), int64.
        - dtypes: floating.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype)
        self.process_group = process_group

    def forward(self, input: Tensor) -> Tensor:
        """Maps (N, C, *) to the same shape."""
        dist = cograd.distributed
        statistics = self.training or self.running_mean is None
        if not (statistics and dist.is_initialized() and self._ranks() > 1):
            return super().forward(input)
        self._check_input_dim(input)
        moves = self.training and self.track_running_stats
        factor = self._factor() if moves else 0.0
        return sync_batch_norm(
            input,
            self.weight,
            self.bias,
            self.running_mean if moves else None,
            self.running_var if moves else None,
            self.eps,
            factor,
            self.process_group,
        )

    def _ranks(self) -> int:
        return cograd.distributed.get_world_size(self.process_group)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")
        if input.size(1) == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """Replaces every BatchNorm in ``module`` by SyncBatchNorm; keeps the parameters."""
        result: Module = module
        if isinstance(module, _BatchNorm) and not isinstance(module, SyncBatchNorm):
            made = SyncBatchNorm(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
            )
            for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
                setattr(made, name, getattr(module, name))
            made.training = module.training
            result = made
        for name, child in module.named_children():
            result.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return result


LazyBatchNorm1d = _lazy_norm(BatchNorm1d)

LazyBatchNorm2d = _lazy_norm(BatchNorm2d)

LazyBatchNorm3d = _lazy_norm(BatchNorm3d)
