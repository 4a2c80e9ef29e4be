# SPDX-License-Identifier: BSD-3-Clause
"""Merges batch normalisation in eval mode into the layer before it."""

from __future__ import annotations

import copy
from typing import Any

import cograd
from cograd import Tensor

from ..parameter import Parameter

__all__ = [
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
]


def _check_eval(*modules: Any) -> None:
    if any(module.training for module in modules):
        raise AssertionError("Fusion only for eval!")


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """Returns a copy of ``conv`` that computes ``bn(conv(x))``; both must be in eval mode.

    ``transpose`` is True for a transposed convolution.
    """
    _check_eval(conv, bn)
    fused = copy.deepcopy(conv)
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("fuse_conv_bn_eval: the batch norm has no running statistics")
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight,
        fused.bias,
        bn.running_mean,
        bn.running_var,
        bn.eps,
        bn.weight,
        bn.bias,
        transpose,
    )
    return fused


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Returns the weight and the bias of the fused convolution.

    They are computed from the convolution's own and from the batch norm's mean (C), variance (C),
    eps, weight and bias.
    """
    bias = cograd.zeros_like(bn_rm) if conv_b is None else conv_b
    scale = (bn_rv + bn_eps).rsqrt()
    if bn_w is not None:
        scale = scale * bn_w
    shift = cograd.zeros_like(bn_rm) if bn_b is None else bn_b
    shape = [1] * conv_w.dim()
    shape[1 if transpose else 0] = -1
    weight = (conv_w * scale.reshape(shape)).to(conv_w.dtype)
    new_bias = ((bias - bn_rm) * scale + shift).to(bias.dtype)
    wants = conv_b.requires_grad if conv_b is not None else conv_w.requires_grad
    return Parameter(weight.detach(), conv_w.requires_grad), Parameter(new_bias.detach(), wants)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """Returns a copy of ``linear`` that computes ``bn(linear(x))``; both must be in eval mode."""
    _check_eval(linear, bn)
    fused = copy.deepcopy(linear)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1"
        )
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("fuse_linear_bn_eval: the batch norm has no running statistics")
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Parameter, Parameter]:
    """Returns the weight and the bias of the fused linear layer."""
    bias = cograd.zeros_like(bn_rm) if linear_b is None else linear_b
    scale = bn_w * (bn_rv + bn_eps).rsqrt()
    weight = (linear_w * scale.unsqueeze(-1)).to(linear_w.dtype)
    new_bias = ((bias - bn_rm) * scale + bn_b).to(bias.dtype)
    wants = linear_b.requires_grad if linear_b is not None else linear_w.requires_grad
    return Parameter(weight.detach(), linear_w.requires_grad), Parameter(new_bias.detach(), wants)
