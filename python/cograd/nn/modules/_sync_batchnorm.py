# SPDX-License-Identifier: BSD-3-Clause
"""Batch normalisation with statistics over all ranks."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor
from cograd.autograd import Function

from .. import functional as F

__all__ = ["sync_batch_norm"]


class _SumOverRanks(Function):
    """Sums a tensor over the ranks; its derivative is the same sum."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        ctx.group = group
        total = x.clone()
        cograd.distributed.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return _SumOverRanks.apply(grads[0], ctx.group), None


def _dims(x: Tensor) -> list[int]:
    return [0, *range(2, x.dim())]


def _wide(v: Tensor, x: Tensor) -> Tensor:
    return v.view(1, -1, *[1] * (x.dim() - 2))


def _moments(x: Tensor, group: Any) -> tuple[Tensor, Tensor, float]:
    """Returns the mean, the biased variance and the count of each channel over all ranks.

    One exchange suffices. Counts, means and sums of squared deviations are combined pairwise
    (Chan, Golub, LeVeque 1983) in rank order, so all ranks get the same bits.
    """
    count, channels = x.numel() // x.size(1), x.size(1)
    dtype = cograd.float64 if x.dtype == cograd.float64 else cograd.float32
    mine = cograd.zeros(2 * channels + 1, dtype=dtype, device=x.device)
    if count > 0:
        var, mean = cograd.var_mean(x.to(dtype), dim=_dims(x), correction=0)
        mine = cograd.cat([mean, var * count, mean.new_full((1,), count)])
    parts = [cograd.empty_like(mine) for _ in range(cograd.distributed.get_world_size(group))]
    cograd.distributed.all_gather(parts, mine, group=group)
    n = 0.0
    mean, squares = mine.new_zeros(channels), mine.new_zeros(channels)
    for part in parts:
        more = float(part[-1])
        if more == 0:
            continue
        delta = part[:channels] - mean
        mean = mean + delta * (more / (n + more))
        squares = squares + part[channels:-1] + delta * delta * (n * more / (n + more))
        n += more
    return mean, squares / n, n


def _composed(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, group: Any, eps: float, n: float
) -> Tensor:
    """Computes the same from differentiable ops, for higher-order derivatives."""
    mean = _SumOverRanks.apply(x.sum(_dims(x)), group) / n
    centred = x - _wide(mean, x)
    var = _SumOverRanks.apply((centred * centred).sum(_dims(x)), group) / n
    y = centred * _wide((var + eps).rsqrt(), x)
    if weight is not None:
        y = y * _wide(weight, x)
    return y if bias is None else y + _wide(bias, x)


class _SyncBatchNorm(Function):
    """Normalises; its backward sums two products over all ranks.

    With u = (x - mean) * s, s = (var + eps)**-0.5 and g the gradient of y = u * w + b:
    dx = w * s * (g - sum(g)/n - u * sum(g * u)/n), dw = sum(g * u) and db = sum(g) of this rank.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        mean: Tensor,
        var: Tensor,
        n: float,
        eps: float,
        group: Any,
    ) -> Tensor:
        ctx.save_for_backward(x, weight, bias, mean, var)
        ctx.n, ctx.eps, ctx.group = n, eps, group
        return F.batch_norm(x, mean, var, weight, bias, False, 0.0, eps)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        x, weight, bias, mean, var = ctx.saved_tensors
        (g,) = grads
        if cograd.is_grad_enabled():
            with cograd.enable_grad():
                inputs = [t for t in (x, weight, bias) if t is not None and t.requires_grad]
                y = _composed(x, weight, bias, ctx.group, ctx.eps, ctx.n)
                found = cograd.autograd.grad(y, inputs, g, create_graph=True)
            left = iter(found)
            three = [next(left) if t is not None and t.requires_grad else None
                     for t in (x, weight, bias)]  # fmt: skip
            return (*three, *[None] * 5)
        s = (var + ctx.eps).rsqrt()
        u = (x - _wide(mean, x)) * _wide(s, x)
        sums = cograd.cat([g.sum(_dims(g)), (g * u).sum(_dims(g))]).to(mean.dtype)
        own_g, own_gu = sums.clone().chunk(2)
        dx = None
        if ctx.needs_input_grad[0]:
            cograd.distributed.all_reduce(sums, group=ctx.group)
            all_g, all_gu = (sums / ctx.n).chunk(2)
            scale = s if weight is None else s * weight
            dx = ((g - _wide(all_g, x) - u * _wide(all_gu, x)) * _wide(scale, x)).to(x.dtype)
        dw = own_gu.to(weight.dtype) if weight is not None and ctx.needs_input_grad[1] else None
        db = own_g.to(bias.dtype) if bias is not None and ctx.needs_input_grad[2] else None
        return (dx, dw, db, *[None] * 5)


def sync_batch_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    eps: float,
    momentum: float,
    group: Any,
) -> Tensor:
    """Normalises x (N, C, *) by the statistics of all ranks and updates the running statistics.

    Raises:
        ValueError: all ranks together have at most one value per channel.
    """
    with cograd.no_grad():
        mean, var, n = _moments(x.detach(), group)
        if n <= 1:
            raise ValueError(
                "Expected more than 1 value per channel when training, got input of size "
                f"{list(x.shape)} on this rank and {n:g} values a channel on all"
            )
        if running_mean is not None and running_var is not None:
            running_mean.mul_(1 - momentum).add_(mean.to(running_mean.dtype), alpha=momentum)
            unbiased = (var * (n / (n - 1))).to(running_var.dtype)
            running_var.mul_(1 - momentum).add_(unbiased, alpha=momentum)
    out: Tensor = _SyncBatchNorm.apply(x, weight, bias, mean, var, n, eps, group)
    return out
