# SPDX-License-Identifier: BSD-3-Clause
"""Muon."""

from __future__ import annotations

import math
from typing import Any

import cograd
from cograd import Tensor

from ._options import number, rate, within
from ._rule import Rule, zeros
from .optimizer import Optimizer, ParamsT

__all__ = ["Muon"]


def _rounded(x: Tensor) -> Tensor:
    """Rounds to the nearest bfloat16 values, stored as float32."""
    return x.to(cograd.bfloat16).to(cograd.float32)


def _orthogonalized(
    update: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Tensor:
    """Approximates U V^T of the singular value decomposition by bfloat16 Newton-Schulz iterations.

    Products of bfloat16 matrices are accumulated in float32 and rounded. Products of float32
    matrices with bfloat16 values give the same result, and BLAS computes them.
    """
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    tall = update.size(0) > update.size(1)
    x = update.to(cograd.bfloat16)
    x = x.T if tall else x
    x = (x / x.norm().clamp(min=eps)).to(cograd.float32)
    for _ in range(steps):
        gram = _rounded(x @ x.T)
        gram = _rounded(cograd.addmm(gram, gram, gram, beta=b, alpha=c))
        x = _rounded(cograd.addmm(x, gram, x, beta=a))
    return x.T if tall else x


class Muon(Optimizer):
    """Momentum whose matrix is replaced by the nearest orthogonal matrix.

    Jordan et al., Muon: An optimizer for hidden layers in neural networks (2024); 'match_rms_adamw'
    is from Liu et al., Muon is Scalable for LLM Training (arXiv:2502.16982). It is for the matrices
    of hidden layers; use another optimizer for biases and embeddings.

    Each step::

        m = momentum m + (1 - momentum) g
        p -= lr weight_decay p
        p -= lr a orthogonal(momentum m + (1 - momentum) g, or m without nesterov)

    a is the factor of ``adjust_lr_fn``. State: momentum_buffer (m).

    Args:
        params: matrices, (name, matrix) pairs, or dicts with 'params' and options of the group.
        weight_decay: lr * weight_decay times the parameter is subtracted from it first.
        momentum: decay rate of the running mean of gradients.
        nesterov: whether to mix the gradient into the mean once more.
        ns_coefficients: coefficients of the iteration's quintic polynomial.
        eps: the lower limit of the norm that a matrix is divided by.
        ns_steps: number of iterations.
        adjust_lr_fn: how the rate depends on the shape: 'original' (or None) scales it by the root
            of rows over columns, 'match_rms_adamw' by 0.2 times the root of the longer side.

    Raises:
        ValueError: an option is out of range, or a parameter is not a matrix.
        RuntimeError: a parameter is complex, in ``step``.
    """

    _rule = Rule(
        state=(zeros("momentum_buffer"),),
        checks={
            "lr": rate("Learning rate should be >= 0 but is: {}"),
            "momentum": within(lambda value: value >= 0.0, "momentum should be >= 0 but is: {}"),
            "weight_decay": within(
                lambda value: value >= 0.0, "weight decay should be >= 0 but is: {}"
            ),
            "adjust_lr_fn": within(
                lambda name: name in (None, "original", "match_rms_adamw"),
                "Adjust learning rate function {} is not supported",
            ),
        },
    )

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        super().__init__(params, self._rule.defaults(locals()))
        for group in self.param_groups:
            for param in group["params"]:
                if param.ndim != 2:
                    raise ValueError(
                        "Muon only supports 2D parameters whereas we found a parameter with size: "
                        f"{param.size()}"
                    )

    def _update(self, group: dict[str, Any]) -> None:
        params = [param for param in group["params"] if param.grad is not None]
        if any(param.is_complex() for param in params):
            raise RuntimeError("Muon does not support complex parameters")
        lr, momentum = number(group["lr"]), group["momentum"]
        for param in params:
            grad, state = param.grad, self._init_state(param, group)
            buf = state["momentum_buffer"].lerp_(grad, 1 - momentum)
            update = grad.lerp(buf, momentum) if group["nesterov"] else buf
            args = (group["ns_coefficients"], group["ns_steps"], group["eps"])
            update = _orthogonalized(update, *args)
            param.mul_(1 - lr * group["weight_decay"])
            param.add_(update, alpha=-lr * self._rate(group, *param.shape))

    @staticmethod
    def _rate(group: dict[str, Any], rows: int, columns: int) -> float:
        if group["adjust_lr_fn"] == "match_rms_adamw":
            return 0.2 * math.sqrt(max(rows, columns))
        return math.sqrt(max(1, rows / columns)) if columns else 1.0
