# SPDX-License-Identifier: BSD-3-Clause
"""Steps of parameters whose gradients are sparse; they write the rows that have a gradient."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor
from cograd._base.memory_format import registered

from ._options import number

__all__ = ["adagrad_step", "adam_step", "sgd_step", "step_sparse"]


def step_sparse(optimizer: Any, group: dict[str, Any]) -> dict[str, Any]:
    """Updates the parameters with sparse gradients; returns the group with the others.

    Raises:
        RuntimeError: the optimizer does not support sparse gradients.
    """
    if not registered:
        return group
    kind = registered["kind"]
    found = [param for param in group["params"] if isinstance(param.grad, kind)]
    if not found:
        return group
    rule = optimizer._rule
    if rule.sparse is None:
        name = type(optimizer).__name__.replace("AdamW", "Adam")
        instead = ", please consider SparseAdam instead" if name == "Adam" else ""
        raise RuntimeError(f"{name} does not support sparse gradients{instead}")
    with cograd.no_grad():
        for param in found:
            grad = param.grad.neg() if group["maximize"] else param.grad
            rule.sparse(param, grad.coalesce(), optimizer._init_state(param, group), group)
    return {**group, "params": [p for p in group["params"] if not isinstance(p.grad, kind)]}


def _no_decay(group: dict[str, Any]) -> None:
    if group["weight_decay"] != 0:
        raise RuntimeError("weight_decay option is not compatible with sparse gradients")


def _values(dense: Tensor, grad: Any) -> Tensor:
    """Returns the elements of ``dense`` where ``grad`` has values."""
    found: Tensor = dense.sparse_mask(grad).values()
    return found


def _like(grad: Any, values: Tensor) -> Tensor:
    """Returns a tensor with the positions of ``grad`` and other values."""
    return cograd.sparse_coo_tensor(grad.indices(), values, grad.shape, is_coalesced=True)


def sgd_step(param: Tensor, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
    """Runs a step of SGD; the momentum buffer is sparse."""
    _no_decay(group)
    momentum = group["momentum"]
    if momentum != 0:
        buf = state.get("momentum_buffer")
        buf = grad.clone() if buf is None else buf * momentum + grad * (1 - group["dampening"])
        state["momentum_buffer"] = buf
        grad = grad + buf * momentum if group["nesterov"] else buf
    param.add_(grad, alpha=-number(group["lr"]))


def adagrad_step(param: Tensor, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
    """Runs a step of Adagrad; the sum of squares is dense."""
    _no_decay(group)
    state["step"] += 1
    rate = number(group["lr"]) / (1 + (state["step"].item() - 1) * group["lr_decay"])
    values = grad.values()
    state["sum"].add_(_like(grad, values.square()))
    root = _values(state["sum"], grad).sqrt_().add_(group["eps"])
    param.add_(_like(grad, values / root), alpha=-rate)


def adam_step(param: Tensor, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
    """Runs a step of SparseAdam: moments change only where there is a gradient."""
    state["step"] += 1
    (beta1, beta2), step = group["betas"], state["step"]
    values = grad.values()
    old, old_sq = (_values(state[name], grad) for name in ("exp_avg", "exp_avg_sq"))
    change = values.sub(old).mul_(1 - beta1)
    change_sq = values.square().sub_(old_sq).mul_(1 - beta2)
    state["exp_avg"].add_(_like(grad, change))
    state["exp_avg_sq"].add_(_like(grad, change_sq))
    root = change_sq.add_(old_sq).sqrt_().add_(group["eps"])
    rate = number(group["lr"]) * (1 - beta2**step) ** 0.5 / (1 - beta1**step)
    param.add_(_like(grad, change.add_(old).div_(root)), alpha=-rate)
