# SPDX-License-Identifier: BSD-3-Clause
"""Stochastic gradient descent with momentum."""

from __future__ import annotations

from typing import Any, ClassVar

from . import _differentiable
from .optimizer import (
    Optimizer,
    check_lr,
    check_not_fused,
    check_not_negative,
    number,
    params_with_grad,
)

__all__ = ["SGD"]


class SGD(Optimizer):
    """p -= lr * buf, buf = momentum * buf + (1 - dampening) * (grad + weight_decay * p).

    ``foreach`` and ``fused`` are accepted for torch's sake; they choose between implementations
    that give the same numbers. With ``differentiable`` autograd records the steps.
    """

    _later_options: ClassVar[dict[str, Any]] = {
        "nesterov": False,
        "maximize": False,
        "foreach": None,
        "differentiable": False,
        "fused": False,
    }
    _rule = staticmethod(_differentiable.sgd)

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_lr(lr)
        check_not_negative("momentum", momentum)
        check_not_negative("weight_decay", weight_decay)
        check_not_fused(fused, differentiable)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def _update(self, group: dict[str, Any]) -> None:
        lr, momentum = number(group["lr"]), group["momentum"]
        weight_decay, nesterov = group["weight_decay"], group["nesterov"]
        for param, grad in params_with_grad(group):
            if weight_decay != 0:
                grad = grad.add(param, alpha=weight_decay)
            if momentum != 0:
                state = self.state[param]
                buf = state.get("momentum_buffer")
                if buf is None:
                    buf = state["momentum_buffer"] = grad.detach().clone()
                else:
                    buf.mul_(momentum).add_(grad, alpha=1 - group["dampening"])
                grad = grad.add(buf, alpha=momentum) if nesterov else buf
            param.add_(grad, alpha=-lr)
