# SPDX-License-Identifier: BSD-3-Clause
"""Applies the formulas of optimizers, and holds what they share.

A formula is a function (param, grad, state, group) of plain arithmetic; it stands beside its
optimizer. Formulas serve ``differentiable=True``, where gradients flow through a step, and cases
that the loops of the core do not support. A formula returns the new parameter and stores new
tensors in the state; nothing is written in place, so that a graph over many steps stays valid.
Options may be tensors that require grad. Parameters are real: complex ones are passed as pairs of
reals.
"""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor


def used(option: Any) -> bool:
    """Returns whether an option has an effect; a tensor counts, as it may require grad."""
    return isinstance(option, Tensor) or option != 0


def decayed(param: Tensor, grad: Tensor, group: dict[str, Any]) -> Tensor:
    """Returns the gradient plus weight_decay times the parameter."""
    weight_decay = group["weight_decay"]
    return grad + weight_decay * param if used(weight_decay) else grad


def decay(param: Tensor, grad: Tensor, group: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """Applies either kind of weight decay; returns the parameter and the gradient."""
    if not group["decoupled_weight_decay"]:
        return param, decayed(param, grad, group)
    if used(group["weight_decay"]):
        param = param * (1 - group["lr"] * group["weight_decay"])
    return param, grad


def moments(grad: Tensor, state: dict[str, Any], beta1: Any, beta2: Any) -> tuple[Tensor, Tensor]:
    """Updates and returns the running means of gradients and of their squares."""
    mean = state["exp_avg"] = state["exp_avg"] + (1 - beta1) * (grad - state["exp_avg"])
    square = state["exp_avg_sq"] = beta2 * state["exp_avg_sq"] + (1 - beta2) * grad * grad
    return mean, square


def counter_value(counter: Tensor, param: Tensor) -> Any:
    """Returns a counter of the state as a number, unless gradients flow through it.

    One that is on the parameter's GPU stays there, in float64.
    """
    if counter.requires_grad:
        return counter
    return counter.double() if counter.is_cuda and param.is_cuda else counter.item()


def step_of(state: dict[str, Any], param: Tensor) -> Any:
    """Returns the number of the step; on the parameter's GPU, if its counter is there."""
    return counter_value(state["step"].detach(), param)


def apply(
    formula: Any, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]
) -> None:
    """Runs one step of a formula; replaces the state in grad mode, else writes it in place."""
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
        new = formula(cograd.view_as_real(old), cograd.view_as_real(grad), seen, group)
    else:
        new = formula(old, grad, seen, group)
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
