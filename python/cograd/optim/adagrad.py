# SPDX-License-Identifier: BSD-3-Clause
"""Adagrad."""

from __future__ import annotations

from typing import Any

from cograd import Tensor

from ._formula import decayed, step_of
from ._lists import for_lists, step_lists
from ._options import not_negative
from ._rule import Rule, counter, filled
from ._sparse import adagrad_step
from .optimizer import Optimizer, ParamsT

__all__ = ["Adagrad", "adagrad"]


def _formula(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """Returns Adagrad's new parameter."""
    grad = decayed(param, grad, group)
    total = state["sum"] = state["sum"] + grad * grad
    rate = group["lr"] / (1 + (step_of(state, param) - 1) * group["lr_decay"])
    return param.sub(rate * grad / (total.sqrt() + group["eps"]))


class Adagrad(Optimizer):
    """Divides gradients by the root of the sum of all their squares.

    Duchi, Hazan and Singer, Adaptive Subgradient Methods for Online Learning and Stochastic
    Optimization (2011).

    Each step::

        s = s + g^2
        p -= lr / (1 + (t - 1) lr_decay) * g / (sqrt(s) + eps)

    g is the gradient (its negative with ``maximize``) plus weight_decay times p.

    State: step (t), sum (s). Parameters are floating or complex; complex ones count as pairs of
    real ones.

    Args:
        lr_decay: the rate is lr / (1 + (step - 1) * lr_decay).
        initial_accumulator_value: initial value of the sum of squares.
    """

    _rule = Rule(
        _formula,
        "_adagrad_step",
        state=(
            counter("step"),
            filled("sum", lambda group: group["initial_accumulator_value"], column="state_sums"),
        ),
        checks={
            "lr_decay": not_negative("lr_decay"),
            "weight_decay": not_negative("weight_decay"),
            "initial_accumulator_value": not_negative("initial_accumulator_value"),
            "eps": not_negative("epsilon"),
        },
        sparse=adagrad_step,
        order="lr lr_decay eps weight_decay initial_accumulator_value foreach maximize "
        "differentiable fused",
    )

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
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
        super().__init__(params, self._rule.defaults(locals()))
        for group in self.param_groups:
            for param in group["params"]:
                self._init_state(param, group)


@for_lists(Adagrad)
def adagrad(
    params: list[Tensor],
    grads: list[Tensor],
    state_sums: list[Tensor],
    state_steps: list[Tensor],
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float,
    weight_decay: float,
    lr_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """Runs one step of Adagrad on tensors and state that no optimizer owns."""
    step_lists(Adagrad, locals())
