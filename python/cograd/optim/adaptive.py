# SPDX-License-Identifier: BSD-3-Clause
"""RMSprop and Adagrad."""

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

__all__ = ["Adagrad", "RMSprop"]


class RMSprop(Optimizer):
    """Gradients over the root of their running square; optionally centred, with momentum."""

    _later_options: ClassVar[dict[str, Any]] = {
        "momentum": 0,
        "centered": False,
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "capturable": False,
    }
    _rule = staticmethod(_differentiable.rmsprop)

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        if not eps >= 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_not_negative("momentum", momentum)
        check_not_negative("weight_decay", weight_decay)
        check_not_negative("alpha", alpha)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state: dict[str, Any] = self.state[param]
        if not state:
            state["step"] = new_step()
            state["square_avg"] = cograd.zeros_like(param)
            if group["momentum"] > 0:
                state["momentum_buffer"] = cograd.zeros_like(param)
            if group["centered"]:
                state["grad_avg"] = cograd.zeros_like(param)
        return state

    def _update(self, group: dict[str, Any]) -> None:
        lr, alpha, eps = number(group["lr"]), group["alpha"], group["eps"]
        for param, grad in params_with_grad(group):
            state = self._init_state(param, group)
            step_count(state)
            param, grad, state = as_real(param, grad, state)
            if group["weight_decay"] != 0:
                grad = grad.add(param, alpha=group["weight_decay"])
            square = state["square_avg"]
            square.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
            if group["centered"]:
                mean = state["grad_avg"]
                mean.lerp_(grad, 1 - alpha)
                root = square.addcmul(mean, mean, value=-1).sqrt_()
            else:
                root = square.sqrt()
            root.add_(eps)
            if group["momentum"] > 0:
                buf = state["momentum_buffer"]
                buf.mul_(group["momentum"]).addcdiv_(grad, root)
                param.add_(buf, alpha=-lr)
            else:
                param.addcdiv_(grad, root, value=-lr)


def _start(param: Tensor, group: dict[str, Any]) -> Any:
    value = group["initial_accumulator_value"]
    return complex(value, value) if param.is_complex() else value


class Adagrad(Optimizer):
    """Gradients over the root of the sum of all their squares."""

    _later_options: ClassVar[dict[str, Any]] = {
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "fused": None,
    }
    _rule = staticmethod(_differentiable.adagrad)

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_lr(lr)
        check_not_negative("lr_decay", lr_decay)
        check_not_negative("weight_decay", weight_decay)
        check_not_negative("initial_accumulator_value", initial_accumulator_value)
        if not eps >= 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_not_fused(fused, differentiable)
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param] = {
                    "step": new_step(),
                    "sum": cograd.full_like(param, _start(param, group)).detach(),
                }

    def _update(self, group: dict[str, Any]) -> None:
        lr, eps = number(group["lr"]), group["eps"]
        for param, grad in params_with_grad(group):
            state = self.state[param]
            step = step_count(state)
            param, grad, state = as_real(param, grad, state)
            if group["weight_decay"] != 0:
                grad = grad.add(param, alpha=group["weight_decay"])
            state["sum"].addcmul_(grad, grad, value=1)
            root = state["sum"].sqrt().add_(eps)
            param.addcdiv_(grad, root, value=-lr / (1 + (step - 1) * group["lr_decay"]))
