# SPDX-License-Identifier: BSD-3-Clause
"""NAdam."""

from __future__ import annotations

from typing import Any, ClassVar

import cograd
from cograd import Tensor

from . import _rules
from ._lists import step_lists
from ._options import check_betas, check_lr, check_modes, check_not_negative, new_counter
from .optimizer import Optimizer

__all__ = ["NAdam", "nadam"]


class NAdam(Optimizer):
    """Adam with Nesterov's momentum.

    Dozat, Incorporating Nesterov Momentum into Adam (2016).

    Each step::

        m = beta1 m + (1 - beta1) g
        v = beta2 v + (1 - beta2) g^2
        mu_t = beta1 (1 - 0.96^(t momentum_decay) / 2)
        c = lr mu_{t+1} / (1 - mu_1 ... mu_{t+1}) m + lr (1 - mu_t) / (1 - mu_1 ... mu_t) g
        p -= c / (sqrt(v / (1 - beta2^t)) + eps)

    g is the gradient (its negative with ``maximize``) plus weight_decay times p.

    State: step (t), mu_product, exp_avg (m), exp_avg_sq (v). Parameters are floating or complex;
    complex ones count as pairs of real ones.

    Args:
        params: tensors, (name, tensor) pairs, or dicts with 'params' and options of the group.
        lr: the learning rate, a number or a tensor of one element.
        betas: decay rates of the running means of the gradient and of its square.
        eps: added to the denominator.
        weight_decay: ``weight_decay`` times the parameter is added to the gradient.
        momentum_decay: how fast the momentum approaches its limit.
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
        "maximize": False,
        "foreach": None,
        "capturable": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
    }
    _counters = ("step", "mu_product")
    _rule = staticmethod(_rules.nadam)
    _kernel = 6

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
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
        check_not_negative("momentum_decay", momentum_decay)
        check_modes(capturable=capturable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state: dict[str, Any] = self.state[param]
        if not state:
            state["step"] = new_counter()
            state["mu_product"] = new_counter(1.0)
            state["exp_avg"] = cograd.zeros_like(param).detach()
            state["exp_avg_sq"] = cograd.zeros_like(param).detach()
        return state

    def _options(self, group: dict[str, Any]) -> tuple[Any, ...]:
        rest = (group["eps"], group["momentum_decay"], group["decoupled_weight_decay"])
        return (*group["betas"], *rest)

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("step", "mu_product", "exp_avg", "exp_avg_sq")


def nadam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    mu_products: list[Tensor],
    state_steps: list[Tensor],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float,
    weight_decay: float,
    momentum_decay: float,
    eps: float,
) -> None:
    """Runs one step of NAdam on tensors and state that no optimizer owns.

    Args:
        params: the tensors to update in place.
        grads: one gradient for each parameter.
        exp_avgs, exp_avg_sqs, mu_products, state_steps: the state of each parameter, written in
            place.
        has_complex: accepted and ignored.
        decoupled_weight_decay, foreach, capturable, differentiable, maximize, beta1, beta2,
            lr, weight_decay, momentum_decay, eps: as in NAdam.

    Raises:
        ValueError: the lists have different lengths.
        RuntimeError: modes exclude each other, ``capturable`` is set, or a leaf requires grad while
            grad mode is on and the step is not differentiable.
    """
    group = {
        "lr": lr,
        "weight_decay": weight_decay,
        "momentum_decay": momentum_decay,
        "eps": eps,
        "decoupled_weight_decay": decoupled_weight_decay,
        "foreach": foreach,
        "capturable": capturable,
        "differentiable": differentiable,
        "maximize": maximize,
        "betas": (beta1, beta2),
    }
    columns: dict[str, Any] = {
        "exp_avg": exp_avgs,
        "exp_avg_sq": exp_avg_sqs,
        "mu_product": mu_products,
        "step": state_steps,
    }
    step_lists(NAdam, params, grads, columns, group)
