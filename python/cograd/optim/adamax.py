# SPDX-License-Identifier: BSD-3-Clause
"""Adamax."""

from __future__ import annotations

from typing import Any, ClassVar

import cograd
from cograd import Tensor

from . import _rules
from ._lists import step_lists
from ._options import check_betas, check_lr, check_modes, check_not_negative, new_counter
from .optimizer import Optimizer

__all__ = ["Adamax", "adamax"]


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
        params: tensors, (name, tensor) pairs, or dicts with 'params' and options of the group.
        lr: the learning rate, a number or a tensor of one element.
        betas: decay rates of the running mean and of the running maximum.
        eps: added to the absolute value of a gradient.
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
    _rule = staticmethod(_rules.adamax)
    _kernel = 5

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_lr(lr)
        check_not_negative("epsilon", eps)
        check_betas(betas)
        check_not_negative("weight_decay", weight_decay)
        check_modes(capturable=capturable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state: dict[str, Any] = self.state[param]
        if not state:
            state["step"] = new_counter()
            state["exp_avg"] = cograd.zeros_like(param).detach()
            state["exp_inf"] = cograd.zeros_like(param).detach()
        return state

    def _options(self, group: dict[str, Any]) -> tuple[Any, ...]:
        return (*group["betas"], group["eps"])

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("step", "exp_avg", "exp_inf")


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
    """Runs one step of Adamax on tensors and state that no optimizer owns.

    Args:
        params: the tensors to update in place.
        grads: one gradient for each parameter.
        exp_avgs, exp_infs, state_steps: the state of each parameter, written in place.
        has_complex: accepted and ignored.
        foreach, maximize, differentiable, capturable, eps, beta1, beta2, lr, weight_decay: as in
            Adamax.

    Raises:
        ValueError: the lists have different lengths.
        RuntimeError: modes exclude each other, ``capturable`` is set, or a leaf requires grad while
            grad mode is on and the step is not differentiable.
    """
    group = {
        "eps": eps,
        "lr": lr,
        "weight_decay": weight_decay,
        "foreach": foreach,
        "maximize": maximize,
        "differentiable": differentiable,
        "capturable": capturable,
        "betas": (beta1, beta2),
    }
    columns: dict[str, Any] = {"exp_avg": exp_avgs, "exp_inf": exp_infs, "step": state_steps}
    step_lists(Adamax, params, grads, columns, group)
