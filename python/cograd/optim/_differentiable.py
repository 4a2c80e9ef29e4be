# SPDX-License-Identifier: BSD-3-Clause
"""The update rules as plain arithmetic, for ``differentiable=True``: gradients flow through a step.

Each rule gives the new parameter and puts new tensors into its state; nothing is written in place,
so that a graph over many steps stays valid. Options may be tensors that require grad.
"""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor


def _check_real(param: Tensor) -> None:
    if param.is_complex():
        raise NotImplementedError(
            f"differentiable=True takes no complex parameters here, got dtype {param.dtype}; give "
            "the optimizer cograd.view_as_real of it"
        )


def _used(option: Any) -> bool:
    """Whether an option has an effect; a tensor may require grad, so its value does not matter."""
    return isinstance(option, Tensor) or option != 0


def _decayed(param: Tensor, grad: Tensor, group: dict[str, Any]) -> Tensor:
    weight_decay = group["weight_decay"]
    return grad + weight_decay * param if _used(weight_decay) else grad


def sgd(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """SGD's new parameter. Unlike torch's, the first momentum buffer keeps its history too."""
    grad, momentum = _decayed(param, grad, group), group["momentum"]
    if _used(momentum):
        buf = state.get("momentum_buffer")
        buf = grad.clone() if buf is None else momentum * buf + (1 - group["dampening"]) * grad
        state["momentum_buffer"] = buf
        grad = grad + momentum * buf if group["nesterov"] else buf
    return param.sub(group["lr"] * grad)


def adam(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """Adam's and AdamW's new parameter."""
    _check_real(param)
    lr, (beta1, beta2) = group["lr"], group["betas"]
    step = state["step"].item()
    if not group["decoupled_weight_decay"]:
        grad = _decayed(param, grad, group)
    elif _used(group["weight_decay"]):
        param = param * (1 - lr * group["weight_decay"])
    mean = state["exp_avg"] = state["exp_avg"] + (1 - beta1) * (grad - state["exp_avg"])
    square = state["exp_avg_sq"] = beta2 * state["exp_avg_sq"] + (1 - beta2) * grad * grad
    if group["amsgrad"]:
        square = cograd.maximum(state["max_exp_avg_sq"], square)
        state["max_exp_avg_sq"] = square
    denom = square.sqrt() / (1 - beta2**step) ** 0.5 + group["eps"]
    return param.sub(lr / (1 - beta1**step) * mean / denom)


def rmsprop(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """RMSprop's new parameter."""
    _check_real(param)
    alpha, momentum = group["alpha"], group["momentum"]
    grad = _decayed(param, grad, group)
    square = state["square_avg"] = alpha * state["square_avg"] + (1 - alpha) * grad * grad
    if group["centered"]:
        mean = state["grad_avg"] = state["grad_avg"] + (1 - alpha) * (grad - state["grad_avg"])
        square = square - mean * mean
    step = grad / (square.sqrt() + group["eps"])
    if "momentum_buffer" in state:
        step = state["momentum_buffer"] = momentum * state["momentum_buffer"] + step
    return param.sub(group["lr"] * step)


def adagrad(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """Adagrad's new parameter."""
    _check_real(param)
    grad = _decayed(param, grad, group)
    total = state["sum"] = state["sum"] + grad * grad
    rate = group["lr"] / (1 + (state["step"].item() - 1) * group["lr_decay"])
    return param.sub(rate * grad / (total.sqrt() + group["eps"]))
