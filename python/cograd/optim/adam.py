# SPDX-License-Identifier: BSD-3-Clause
"""Adam and AdamW."""

from __future__ import annotations

from typing import Any, ClassVar

import cograd
from cograd import Tensor

from . import _differentiable
from .optimizer import (
    Optimizer,
    as_real,
    check_lr,
    check_not_fused,
    check_not_negative,
    new_step,
    number,
    params_with_grad,
    step_count,
)

__all__ = ["Adam", "AdamW"]


class Adam(Optimizer):
    """Adam: steps of the running mean of gradients over the root of their running square.

    ``decoupled_weight_decay`` makes it AdamW. ``foreach``, ``capturable`` and ``fused`` are
    accepted for torch's sake; they choose between implementations of the same. With
    ``differentiable`` autograd records the steps.
    """

    _later_options: ClassVar[dict[str, Any]] = {
        "amsgrad": False,
        "maximize": False,
        "foreach": None,
        "capturable": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
        "fused": None,
    }
    _rule = staticmethod(_differentiable.adam)

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_lr(lr)
        if not eps >= 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        for i, beta in enumerate(betas):
            if not 0.0 <= number(beta) < 1.0:
                raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
        check_not_negative("weight_decay", weight_decay)
        check_not_fused(fused, differentiable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state: dict[str, Any] = self.state[param]
        if not state:
            state["step"] = new_step()
            state["exp_avg"] = cograd.zeros_like(param)
            state["exp_avg_sq"] = cograd.zeros_like(param)
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = cograd.zeros_like(param)
        return state

    def _update(self, group: dict[str, Any]) -> None:
        lr, eps, weight_decay = number(group["lr"]), group["eps"], group["weight_decay"]
        beta1, beta2 = (number(beta) for beta in group["betas"])
        amsgrad, decoupled = group["amsgrad"], group["decoupled_weight_decay"]
        for param, grad in params_with_grad(group):
            state = self._init_state(param, group)
            step = step_count(state)
            param, grad, state = as_real(param, grad, state)
            if weight_decay != 0:
                if decoupled:
                    param.mul_(1 - lr * weight_decay)
                else:
                    grad = grad.add(param, alpha=weight_decay)
            mean, square = state["exp_avg"], state["exp_avg_sq"]
            mean.lerp_(grad, 1 - beta1)
            square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
            if amsgrad:
                largest = state["max_exp_avg_sq"]
                largest.copy_(cograd.maximum(largest, square))
                square = largest
            # Both bias corrections in the scalars, one pass each over the tensors.
            denom = square.sqrt().div_((1 - beta2**step) ** 0.5).add_(eps)
            param.addcdiv_(mean, denom, value=-lr / (1 - beta1**step))


class AdamW(Adam):
    """Adam with weight decay applied to the parameters instead of the gradients."""

    _later_options: ClassVar[dict[str, Any]] = {
        **Adam._later_options,
        "decoupled_weight_decay": True,
    }

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )
