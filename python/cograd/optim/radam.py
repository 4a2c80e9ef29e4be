# SPDX-License-Identifier: BSD-3-Clause
"""RAdam."""

from __future__ import annotations

from typing import Any, ClassVar

import cograd
from cograd import Tensor

from . import _rules
from ._lists import step_lists
from ._options import check_betas, check_lr, check_modes, check_not_negative, new_counter
from .optimizer import Optimizer

__all__ = ["RAdam", "radam"]


class RAdam(Optimizer):
    """Adam with a rate that corrects for the variance of the adaptive rate in the first steps.

    Liu et al., On the Variance of the Adaptive Learning Rate and Beyond (arXiv:1908.03265).

    Each step::

        m = beta1 m + (1 - beta1) g
        v = beta2 v + (1 - beta2) g^2
        n = 2 / (1 - beta2) - 1;  r = n - 2 t beta2^t / (1 - beta2^t)
        c = sqrt((r - 4) (r - 2) n / ((n - 4) (n - 2) r) * (1 - beta2^t)) / (sqrt(v) + eps)
        p -= lr m / (1 - beta1^t) * (c if r > 5 else 1)

    g is the gradient (its negative with ``maximize``) plus weight_decay times p.

    State: step (t), exp_avg (m), exp_avg_sq (v). Parameters are floating or complex; complex ones
    count as pairs of real ones.

    Args:
        params: tensors, (name, tensor) pairs, or dicts with 'params' and options of the group.
        lr: the learning rate, a number or a tensor of one element.
        betas: decay rates of the running means of the gradient and of its square.
        eps: added to the denominator.
        weight_decay: ``weight_decay`` times the parameter is added to the gradient.
        decoupled_weight_decay: whether lr * weight_decay times the parameter is subtracted from it
            instead.
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
        "decoupled_weight_decay": False,
        "capturable": False,
    }
    _rule = staticmethod(_rules.radam)
    _kernel = 7

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
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
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state: dict[str, Any] = self.state[param]
        if not state:
            state["step"] = new_counter()
            state["exp_avg"] = cograd.zeros_like(param).detach()
            state["exp_avg_sq"] = cograd.zeros_like(param).detach()
        return state

    def _options(self, group: dict[str, Any]) -> tuple[Any, ...]:
        return (*group["betas"], group["eps"], group["decoupled_weight_decay"])

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("step", "exp_avg", "exp_avg_sq")


def radam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float,
    weight_decay: float,
    eps: float,
) -> None:
    """Runs one step of RAdam on tensors and state that no optimizer owns.

    Args:
        params: the tensors to update in place.
        grads: one gradient for each parameter.
        exp_avgs, exp_avg_sqs, state_steps: the state of each parameter, written in place.
        has_complex: accepted and ignored.
        decoupled_weight_decay, foreach, differentiable, capturable, maximize, beta1, beta2,
            lr, weight_decay, eps: as in RAdam.

    Raises:
        ValueError: the lists have different lengths.
        RuntimeError: modes exclude each other, ``capturable`` is set, or a leaf requires grad while
            grad mode is on and the step is not differentiable.
    """
    group = {
        "lr": lr,
        "weight_decay": weight_decay,
        "eps": eps,
        "decoupled_weight_decay": decoupled_weight_decay,
        "foreach": foreach,
        "differentiable": differentiable,
        "capturable": capturable,
        "maximize": maximize,
        "betas": (beta1, beta2),
    }
    columns: dict[str, Any] = {"exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs, "step": state_steps}
    step_lists(RAdam, params, grads, columns, group)
