# SPDX-License-Identifier: BSD-3-Clause
"""Adam."""

from __future__ import annotations

from typing import Any, ClassVar

import cograd
from cograd import Tensor

from . import _rules
from ._lists import step_lists
from ._options import check_betas, check_lr, check_modes, check_not_negative, new_counter
from .optimizer import Optimizer

__all__ = ["Adam", "adam"]


class Adam(Optimizer):
    """Adam: steps by the running mean of gradients over the root of that of their squares.

    Kingma and Ba, Adam: A Method for Stochastic Optimization (arXiv:1412.6980); amsgrad of Reddi et
    al., On the Convergence of Adam and Beyond (arXiv:1904.09237).

    Each step::

        m = beta1 m + (1 - beta1) g
        v = beta2 v + (1 - beta2) g^2
        p -= lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + eps)

    g is the gradient (its negative with ``maximize``) plus weight_decay times p.

    State: step (t), exp_avg (m), exp_avg_sq (v), and with ``amsgrad`` max_exp_avg_sq. Parameters
    are floating or complex; complex ones count as pairs of real ones.

    Args:
        params: tensors, (name, tensor) pairs, or dicts with 'params' and options of the group.
        lr: the learning rate, a number or a tensor of one element.
        betas: decay rates of the running means of the gradient and of its square.
        eps: added to the denominator.
        weight_decay: ``weight_decay`` times the parameter is added to the gradient.
        amsgrad: whether to divide by the largest running mean of squares so far.
        foreach: None and True update all parameters in one call, False applies the formula to each.
        maximize: whether to maximize instead of minimize.
        capturable: not supported, as it is for CUDA graphs; True raises.
        differentiable: whether autograd records the steps.
        fused: as ``foreach``; with True, parameters that are not floating raise.
        decoupled_weight_decay: whether to decay as AdamW does.

    Raises:
        ValueError: an option is out of range.
        RuntimeError: modes exclude each other, or ``capturable`` is set.
    """

    _later_options: ClassVar[dict[str, Any]] = {
        "amsgrad": False,
        "maximize": False,
        "foreach": None,
        "capturable": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
        "fused": None,
    }
    _rule = staticmethod(_rules.adam)
    _kernel = 1

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_lr(lr)
        check_not_negative("epsilon", eps)
        check_betas(betas)
        check_not_negative("weight_decay", weight_decay)
        check_modes(
            foreach=foreach, fused=fused, differentiable=differentiable, capturable=capturable
        )
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state: dict[str, Any] = self.state[param]
        if not state:
            state["step"] = new_counter(fused=group["fused"])
            state["exp_avg"] = cograd.zeros_like(param).detach()
            state["exp_avg_sq"] = cograd.zeros_like(param).detach()
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = cograd.zeros_like(param).detach()
        return state

    def _options(self, group: dict[str, Any]) -> tuple[Any, ...]:
        modes = (group["amsgrad"], group["decoupled_weight_decay"])
        return (*group["betas"], group["eps"], *modes)

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        if group["amsgrad"]:
            return ("step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq")
        return ("step", "exp_avg", "exp_avg_sq")


def adam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    max_exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    decoupled_weight_decay: bool = False,
    *,
    amsgrad: bool,
    beta1: Any,
    beta2: Any,
    lr: Any,
    weight_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """Runs one step of Adam on tensors and state that no optimizer owns.

    Args:
        params: the tensors to update in place.
        grads: one gradient for each parameter.
        exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps: the state of each parameter, written in
            place.
        grad_scale: the divisor of the gradients.
        found_inf: if it is not 0, the step is skipped.
        has_complex: accepted and ignored.
        foreach, capturable, differentiable, fused, decoupled_weight_decay, amsgrad, beta1,
            beta2, lr, weight_decay, eps, maximize: as in Adam.

    Raises:
        ValueError: the lists have different lengths.
        RuntimeError: modes exclude each other, ``capturable`` is set, or a leaf requires grad while
            grad mode is on and the step is not differentiable.
    """
    group = {
        "amsgrad": amsgrad,
        "lr": lr,
        "weight_decay": weight_decay,
        "eps": eps,
        "maximize": maximize,
        "foreach": foreach,
        "capturable": capturable,
        "differentiable": differentiable,
        "fused": fused,
        "decoupled_weight_decay": decoupled_weight_decay,
        "betas": (beta1, beta2),
    }
    columns: dict[str, Any] = {"exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs, "step": state_steps}
    if amsgrad:
        columns["max_exp_avg_sq"] = max_exp_avg_sqs
    step_lists(Adam, params, grads, columns, group, grad_scale=grad_scale, found_inf=found_inf)
