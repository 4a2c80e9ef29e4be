# SPDX-License-Identifier: BSD-3-Clause
"""Adagrad."""

from __future__ import annotations

from typing import Any, ClassVar

import cograd
from cograd import Tensor

from . import _rules
from ._lists import step_lists
from ._options import check_lr, check_modes, check_not_negative, new_counter
from .optimizer import Optimizer

__all__ = ["Adagrad", "adagrad"]


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
        params: tensors, (name, tensor) pairs, or dicts with 'params' and options of the group.
        lr: the learning rate, a number or a tensor of one element.
        lr_decay: the rate is lr / (1 + (step - 1) * lr_decay).
        weight_decay: ``weight_decay`` times the parameter is added to the gradient.
        initial_accumulator_value: initial value of the sum of squares.
        eps: added to the denominator.
        foreach: None and True update all parameters in one call, False applies the formula to each.
        maximize: whether to maximize instead of minimize.
        differentiable: whether autograd records the steps.
        fused: as ``foreach``; with True, parameters that are not floating raise.

    Raises:
        ValueError: an option is out of range.
        RuntimeError: ``fused`` is set together with ``differentiable`` or ``foreach``.
    """

    _later_options: ClassVar[dict[str, Any]] = {
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "fused": None,
    }
    _rule = staticmethod(_rules.adagrad)
    _kernel = 3

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
        check_not_negative("epsilon", eps)
        check_modes(foreach=foreach, fused=fused, differentiable=differentiable)
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
                self._init_state(param, group)

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state: dict[str, Any] = self.state[param]
        if not state:
            value = group["initial_accumulator_value"]
            start: Any = complex(value, value) if param.is_complex() else value
            state["step"] = new_counter(fused=group["fused"])
            state["sum"] = cograd.full_like(param, start).detach()
        return state

    def _options(self, group: dict[str, Any]) -> tuple[Any, ...]:
        return group["lr_decay"], group["eps"]

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("step", "sum")


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
    """Runs one step of Adagrad on tensors and state that no optimizer owns.

    Args:
        params: the tensors to update in place.
        grads: one gradient for each parameter.
        state_sums, state_steps: the state of each parameter, written in place.
        grad_scale: the divisor of the gradients.
        found_inf: if it is not 0, the step is skipped.
        has_sparse_grad, has_complex: accepted and ignored.
        fused, foreach, differentiable, lr, weight_decay, lr_decay, eps, maximize: as in Adagrad.

    Raises:
        ValueError: the lists have different lengths.
        RuntimeError: modes exclude each other, ``capturable`` is set, or a leaf requires grad while
            grad mode is on and the step is not differentiable.
    """
    group = {
        "lr": lr,
        "weight_decay": weight_decay,
        "lr_decay": lr_decay,
        "eps": eps,
        "maximize": maximize,
        "fused": fused,
        "foreach": foreach,
        "differentiable": differentiable,
    }
    columns: dict[str, Any] = {"sum": state_sums, "step": state_steps}
    step_lists(Adagrad, params, grads, columns, group, grad_scale=grad_scale, found_inf=found_inf)
