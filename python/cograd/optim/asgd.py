# SPDX-License-Identifier: BSD-3-Clause
"""Averaged stochastic gradient descent."""

from __future__ import annotations

from typing import Any, ClassVar

import cograd
from cograd import Tensor

from . import _rules
from ._lists import step_lists
from ._options import check_lr, check_modes, check_not_negative, new_counter, number
from .optimizer import Optimizer

__all__ = ["ASGD", "asgd"]


class ASGD(Optimizer):
    """SGD with a decreasing rate, and the mean of the parameters from step ``t0`` on.

    Polyak and Juditsky, Acceleration of Stochastic Approximation by Averaging (1992). The mean is
    ``state[param]["ax"]``.

    Each step::

        p = p (1 - lambd eta) - eta g
        ax = ax + mu (p - ax)
        eta = lr / (1 + lambd lr t)^alpha;  mu = 1 / max(1, t - t0)

    g is the gradient (its negative with ``maximize``) plus weight_decay times p.

    State: step (t), eta, mu, ax. Parameters are floating or complex; complex ones count as pairs of
    real ones.

    Args:
        params: tensors, (name, tensor) pairs, or dicts with 'params' and options of the group.
        lr: the learning rate, a number or a tensor of one element.
        lambd: decay rate of the parameters.
        alpha: the exponent of the decrease of the rate.
        t0: the step at which averaging begins.
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
    _counters = ("step", "eta", "mu")
    _rule = staticmethod(_rules.asgd)
    _kernel = 9

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_lr(lr)
        check_not_negative("weight_decay", weight_decay)
        check_modes(capturable=capturable)
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
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
            state["eta"] = new_counter(number(group["lr"]))
            state["mu"] = new_counter(1.0)
            state["ax"] = cograd.zeros_like(param).detach()
        return state

    def _options(self, group: dict[str, Any]) -> tuple[Any, ...]:
        return group["lambd"], group["alpha"], group["t0"]

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("step", "eta", "mu", "ax")


def asgd(
    params: list[Tensor],
    grads: list[Tensor],
    axs: list[Tensor],
    mus: list[Tensor],
    etas: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lambd: float,
    lr: float,
    t0: float,
    alpha: float,
    weight_decay: float,
) -> None:
    """Runs one step of ASGD on tensors and state that no optimizer owns.

    Args:
        params: the tensors to update in place.
        grads: one gradient for each parameter.
        axs, mus, etas, state_steps: the state of each parameter, written in place.
        has_complex: accepted and ignored.
        foreach, maximize, differentiable, capturable, lambd, lr, t0, alpha, weight_decay: as in
            ASGD.

    Raises:
        ValueError: the lists have different lengths.
        RuntimeError: modes exclude each other, ``capturable`` is set, or a leaf requires grad while
            grad mode is on and the step is not differentiable.
    """
    group = {
        "lambd": lambd,
        "lr": lr,
        "t0": t0,
        "alpha": alpha,
        "weight_decay": weight_decay,
        "foreach": foreach,
        "maximize": maximize,
        "differentiable": differentiable,
        "capturable": capturable,
    }
    columns: dict[str, Any] = {"ax": axs, "mu": mus, "eta": etas, "step": state_steps}
    step_lists(ASGD, params, grads, columns, group)
