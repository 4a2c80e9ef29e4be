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
    """SGD with a falling rate, and the mean of the parameters from step ``t0`` on.

    Polyak and Juditsky, Acceleration of Stochastic Approximation by Averaging (1992). The mean is
    ``state[param]["ax"]``.

    Each step::

        p = p (1 - lambd eta) - eta g
        ax = ax + mu (p - ax)
        eta = lr / (1 + lambd lr t)^alpha;  mu = 1 / max(1, t - t0)

    g is the gradient (minus it with ``maximize``), to which weight_decay times p is added.

    State: step (t), eta, mu, ax. Parameters are floating or complex; complex ones count as pairs of
    real ones.

    Args:
        params: tensors, (name, tensor) pairs, or dicts with 'params' and options of the group.
        lr: the learning rate, a number or a tensor of one element.
        lambd: of the parameters' decay.
        alpha: the power by which the rate falls.
        t0: the step at which averaging begins.
        weight_decay: times the parameter is added to the gradient.
        foreach: whether one call updates all parameters: None and True do, False takes the formula.
        maximize: maximize instead of minimize.
        capturable: refused; it is for CUDA graphs.
        differentiable: autograd records the steps.

    Raises:
        ValueError: an option out of range.
        RuntimeError: capturable.
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
    """One step of ASGD for tensors and state that are not an optimizer's.

    Args:
        params: what is updated, in place.
        grads: a gradient for each.
        axs, mus, etas, state_steps: the state of each, written in place.
        has_complex: accepted; nothing follows from it.
        foreach, maximize, differentiable, capturable, lambd, lr, t0, alpha, weight_decay: as
            ASGD's.

    Raises:
        ValueError: lists of different lengths.
        RuntimeError: modes that exclude each other, capturable, or a leaf that requires grad while
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
