# SPDX-License-Identifier: BSD-3-Clause
"""Adamax."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

from ._formula import decayed, step_of
from ._lists import for_lists, step_lists
from ._options import check_betas, not_negative
from ._rule import Rule, counter, zeros
from .optimizer import Optimizer, ParamsT

__all__ = ["Adamax", "adamax"]


def _formula(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """Returns Adamax's new parameter."""
    beta1, beta2 = group["betas"]
    grad = decayed(param, grad, group)
    mean = state["exp_avg"] = state["exp_avg"] + (1 - beta1) * (grad - state["exp_avg"])
    norm = cograd.maximum(beta2 * state["exp_inf"], grad.abs() + group["eps"])
    state["exp_inf"] = norm
    return param.sub(group["lr"] / (1 - beta1 ** step_of(state, param)) * mean / norm)


class Adamax(Optimizer):
    """Adam with the running maximum of absolute gradients instead of the mean of squares.

    Kingma and Ba, Adam: A Method for Stochastic Optimization, section 7.1 (arXiv:1412.6980).

    Each step::

        m = beta1 m + (1 - beta1) g
        u = max(beta2 u, |g| + eps)
        p -= lr / (1 - beta1^t) * m / u

    g is the gradient (its negative with ``maximize``) plus weight_decay times p.

    State: step (t), exp_avg (m), exp_inf (u). Parameters are floating or complex; complex ones
    count as pairs of real ones.

    Args:
        betas: decay rates of the running mean and of the running maximum.
        eps: added to the absolute value of a gradient.
    """

    _rule = Rule(
        _formula,
        "_adamax_step",
        state=(counter("step"), zeros("exp_avg"), zeros("exp_inf")),
        checks={
            "eps": not_negative("epsilon"),
            "betas": check_betas,
            "weight_decay": not_negative("weight_decay"),
        },
        parts={"betas": ("beta1", "beta2")},
        gpu_counts=True,
    )

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(params, self._rule.defaults(locals()))


@for_lists(Adamax)
def adamax(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_infs: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    eps: float,
    beta1: float,
    beta2: float,
    lr: float,
    weight_decay: float,
) -> None:
    """Runs one step of Adamax on tensors and state that no optimizer owns."""
    step_lists(Adamax, locals())
