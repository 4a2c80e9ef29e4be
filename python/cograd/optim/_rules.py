# SPDX-License-Identifier: BSD-3-Clause
"""The update rules of optimizers as plain arithmetic.

They serve ``differentiable=True``, where gradients flow through a step, and cases that the loops
of the core do not support. Each rule returns the new parameter and stores new tensors in its
state; nothing is written in place, so that a graph over many steps stays valid. Options may be
tensors that require grad. Parameters are real: complex ones are passed as pairs of reals.
"""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor


def _used(option: Any) -> bool:
    """Returns whether an option has an effect; a tensor counts, as it may require grad."""
    return isinstance(option, Tensor) or option != 0


def _decayed(param: Tensor, grad: Tensor, group: dict[str, Any]) -> Tensor:
    weight_decay = group["weight_decay"]
    return grad + weight_decay * param if _used(weight_decay) else grad


def _decay(param: Tensor, grad: Tensor, group: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """Applies either kind of weight decay; returns the parameter and the gradient."""
    if not group["decoupled_weight_decay"]:
        return param, _decayed(param, grad, group)
    if _used(group["weight_decay"]):
        param = param * (1 - group["lr"] * group["weight_decay"])
    return param, grad


def _moments(grad: Tensor, state: dict[str, Any], beta1: Any, beta2: Any) -> tuple[Tensor, Tensor]:
    """Updates and returns the running means of gradients and of their squares."""
    mean = state["exp_avg"] = state["exp_avg"] + (1 - beta1) * (grad - state["exp_avg"])
    square = state["exp_avg_sq"] = beta2 * state["exp_avg_sq"] + (1 - beta2) * grad * grad
    return mean, square


def _value(counter: Tensor) -> Any:
    """Returns a counter of the state as a number, unless gradients flow through it."""
    return counter if counter.requires_grad else counter.item()


def sgd(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """Returns SGD's new parameter. Unlike in torch, the first momentum buffer keeps its history."""
    grad, momentum = _decayed(param, grad, group), group["momentum"]
    if _used(momentum):
        buf = state.get("momentum_buffer")
        buf = grad.clone() if buf is None else momentum * buf + (1 - group["dampening"]) * grad
        state["momentum_buffer"] = buf
        grad = grad + momentum * buf if group["nesterov"] else buf
    return param.sub(group["lr"] * grad)


def adam(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """Returns the new parameter of Adam and AdamW."""
    lr, (beta1, beta2) = group["lr"], group["betas"]
    step = state["step"].item()
    param, grad = _decay(param, grad, group)
    mean, square = _moments(grad, state, beta1, beta2)
    if group["amsgrad"]:
        square = cograd.maximum(state["max_exp_avg_sq"], square)
        state["max_exp_avg_sq"] = square
    denom = square.sqrt() / (1 - beta2**step) ** 0.5 + group["eps"]
    return param.sub(lr / (1 - beta1**step) * mean / denom)


def rmsprop(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """Returns RMSprop's new parameter."""
    alpha, momentum = group["alpha"], group["momentum"]
    grad = _decayed(param, grad, group)
    square = state["square_avg"] = alpha * state["square_avg"] + (1 - alpha) * grad * grad
    if group["centered"]:
        mean = state["grad_avg"] = state["grad_avg"] + (1 - alpha) * (grad - state["grad_avg"])
        square = square - mean * mean
    step = grad / (square.sqrt() + group["eps"])
    if isinstance(momentum, Tensor) or momentum > 0:
        step = state["momentum_buffer"] = momentum * state["momentum_buffer"] + step
    return param.sub(group["lr"] * step)


def adagrad(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """Returns Adagrad's new parameter."""
    grad = _decayed(param, grad, group)
    total = state["sum"] = state["sum"] + grad * grad
    rate = group["lr"] / (1 + (state["step"].item() - 1) * group["lr_decay"])
    return param.sub(rate * grad / (total.sqrt() + group["eps"]))


def adadelta(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """Returns Adadelta's new parameter."""
    rho, eps = group["rho"], group["eps"]
    grad = _decayed(param, grad, group)
    square = state["square_avg"] = rho * state["square_avg"] + (1 - rho) * grad * grad
    delta = (state["acc_delta"] + eps).sqrt() / (square + eps).sqrt() * grad
    state["acc_delta"] = rho * state["acc_delta"] + (1 - rho) * delta * delta
    return param.sub(group["lr"] * delta)


def adamax(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """Returns Adamax's new parameter."""
    beta1, beta2 = group["betas"]
    grad = _decayed(param, grad, group)
    mean = state["exp_avg"] = state["exp_avg"] + (1 - beta1) * (grad - state["exp_avg"])
    norm = cograd.maximum(beta2 * state["exp_inf"], grad.abs() + group["eps"])
    state["exp_inf"] = norm
    return param.sub(group["lr"] / (1 - beta1 ** state["step"].item()) * mean / norm)


def nadam(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """Returns NAdam's new parameter."""
    lr, (beta1, beta2), psi = group["lr"], group["betas"], group["momentum_decay"]
    step = state["step"].item()
    param, grad = _decay(param, grad, group)
    mean, square = _moments(grad, state, beta1, beta2)
    mu = beta1 * (1 - 0.5 * 0.96 ** (step * psi))
    mu_next = beta1 * (1 - 0.5 * 0.96 ** ((step + 1) * psi))
    state["mu_product"] = state["mu_product"] * mu
    product = _value(state["mu_product"])
    denom = (square / (1 - beta2**step)).sqrt() + group["eps"]
    of_grad = lr * (1 - mu) / (1 - product)
    of_mean = lr * mu_next / (1 - product * mu_next)
    return param.sub((of_grad * grad + of_mean * mean) / denom)


def radam(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """Returns RAdam's new parameter."""
    beta1, beta2 = group["betas"]
    step = state["step"].item()
    param, grad = _decay(param, grad, group)
    mean, square = _moments(grad, state, beta1, beta2)
    correction = 1 - beta2**step
    limit = 2 / (1 - beta2) - 1
    rho = limit - 2 * step * beta2**step / correction
    update = mean / (1 - beta1**step) * group["lr"]
    if rho > 5:
        rect = (rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho)
        update = update * (correction**0.5 * rect**0.5) / (square.sqrt() + group["eps"])
    return param.sub(update)


def rprop(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """Returns Rprop's new parameter."""
    (shorter, longer), (least, most) = group["etas"], group["step_sizes"]
    turn = grad * state["prev"]
    kept = cograd.ones_like(turn)
    factor = cograd.where(turn > 0, kept * longer, cograd.where(turn < 0, kept * shorter, kept))
    size = state["step_size"] = (state["step_size"] * factor).clamp(least, most)
    grad = state["prev"] = cograd.where(turn < 0, cograd.zeros_like(grad), grad)
    return param.sub(grad.sign() * size)


def asgd(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """Returns ASGD's new parameter."""
    lr, lambd = group["lr"], group["lambd"]
    step, eta, mu = state["step"].item(), _value(state["eta"]), _value(state["mu"])
    param = param * (1 - lambd * eta) - eta * _decayed(param, grad, group)
    state["ax"] = state["ax"] + mu * (param - state["ax"]) if _used(mu - 1) else param.clone()
    eta = lr / (1 + lambd * lr * step) ** group["alpha"]
    state["eta"] = state["eta"] * 0 + eta
    state["mu"] = cograd.full_like(state["mu"], 1 / max(1, step - group["t0"])).detach()
    return param


def apply(
    rule: Any, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]
) -> None:
    """Runs one step of a rule. In grad mode the state is replaced, else it is written in place."""
    recorded = cograd.is_grad_enabled()
    parts = param.is_complex()
    of_parts = {key for key, value in state.items() if isinstance(value, Tensor) and parts}
    of_parts = {key for key in of_parts if state[key].is_complex()}
    seen = {key: cograd.view_as_real(v) if key in of_parts else v for key, v in state.items()}
    before = dict(seen)
    if "step" in seen:
        seen["step"] = seen["step"] + 1
    old = param.clone() if recorded else param
    if parts:
        new = rule(cograd.view_as_real(old), cograd.view_as_real(grad), seen, group)
    else:
        new = rule(old, grad, seen, group)
    # Write the parameter first: the write may raise, and then nothing else has changed.
    param.copy_(cograd.view_as_complex(new.contiguous()) if parts else new)
    for key, value in seen.items():
        if value is before.get(key):
            continue
        if recorded or not isinstance(before.get(key), Tensor):
            is_part = key in of_parts or (parts and key not in before)
            state[key] = cograd.view_as_complex(value.contiguous()) if is_part else value
        else:
            before[key].copy_(value)
