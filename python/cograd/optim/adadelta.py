# SPDX-License-Identifier: BSD-3-Clause
"""Adadelta."""

from __future__ import annotations

from typing import Any, ClassVar

import cograd
from cograd import Tensor

from . import _rules
from ._lists import step_lists
from ._options import check_lr, check_modes, check_not_negative, new_counter
from .optimizer import Optimizer

__all__ = ["Adadelta", "adadelta"]


class Adadelta(Optimizer):
    """Scales gradients by the running RMS of the updates over that of the gradients.

    Zeiler, ADADELTA: An Adaptive Learning Rate Method (arXiv:1212.5701).

    Each step::

        v = rho v + (1 - rho) g^2
        d = sqrt(u + eps) / sqrt(v + eps) * g
        u = rho u + (1 - rho) d^2
        p -= lr d

    g is the gradient (its negative with ``maximize``) plus weight_decay times p.

    State: step, square_avg (v), acc_delta (u). Parameters are floating or complex; complex ones
    count as pairs of real ones.

    Args:
        params: tensors, (name, tensor) pairs, or dicts with 'params' and options of the group.
        lr: the learning rate, a number or a tensor of one element.
        rho: decay rate of both running means of squares.
        eps: added to both running means of squares.
        weight_decay: ``weight_decay`` times the parameter is added to the gradient.
        foreach: None and True update all parameters in one call, False applies the formula to each.
        maximize: whether to maximize instead of minimize.
        capturable: not supported, as it is for CUDA graphs; True raises.
        differentiable: whether autograd records the steps.

    Raises:
        ValueError: an option is out of range.
        RuntimeError: ``capturable`` is set.
    """

    _later_options: ClassVar[dict[str, Any]] = {
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "capturable": False,
    }
    _rule = staticmethod(_rules.adadelta)
    _kernel = 4

    def __init__(
        self,
        params: Any,
        lr: Any = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_not_negative("epsilon", eps)
        check_not_negative("weight_decay", weight_decay)
        check_modes(capturable=capturable)
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state: dict[str, Any] = self.state[param]
        if not state:
            state["step"] = new_counter()
            state["square_avg"] = cograd.zeros_like(param).detach()
            state["acc_delta"] = cograd.zeros_like(param).detach()
        return state

    def _options(self, group: dict[str, Any]) -> tuple[Any, ...]:
        return group["rho"], group["eps"]

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("step", "square_avg", "acc_delta")


def adadelta(
    params: list[Tensor],
    grads: list[Tensor],
    square_avgs: list[Tensor],
    acc_deltas: list[Tensor],
    state_steps: list[Tensor],
    capturable: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float,
    rho: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """Runs one step of Adadelta on tensors and state that no optimizer owns.

    Args:
        params: the tensors to update in place.
        grads: one gradient for each parameter.
        square_avgs, acc_deltas, state_steps: the state of each parameter, written in place.
        has_complex: accepted and ignored.
        capturable, foreach, differentiable, lr, rho, eps, weight_decay, maximize: as in Adadelta.

    Raises:
        ValueError: the lists have different lengths.
        RuntimeError: modes exclude each other, ``capturable`` is set, or a leaf requires grad while
            grad mode is on and the step is not differentiable.
    """
    group = {
        "lr": lr,
        "rho": rho,
        "eps": eps,
        "weight_decay": weight_decay,
        "maximize": maximize,
        "capturable": capturable,
        "foreach": foreach,
        "differentiable": differentiable,
    }
    columns: dict[str, Any] = {
        "square_avg": square_avgs,
        "acc_delta": acc_deltas,
        "step": state_steps,
    }
    step_lists(Adadelta, params, grads, columns, group)
