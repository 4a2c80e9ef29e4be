# SPDX-License-Identifier: BSD-3-Clause
"""Rprop."""

from __future__ import annotations

from typing import Any, ClassVar

import cograd
from cograd import Tensor

from . import _rules
from ._lists import step_lists
from ._options import check_lr, check_modes, new_counter, number
from .optimizer import Optimizer

__all__ = ["Rprop", "rprop"]


class Rprop(Optimizer):
    """Steps by the gradient's sign; each element's step grows until the sign changes.

    Riedmiller and Braun, A Direct Adaptive Method for Faster Backpropagation Learning: The RPROP
    Algorithm (1993).

    Each step::

        s = s * etas[1] where g * g_before > 0, s * etas[0] where it is < 0, within step_sizes
        p -= sign(g) s, except where the sign changed

    g is the gradient (its negative with ``maximize``); after a sign change g_before is 0. State:
    step, prev (g_before), step_size (s). Parameters are floating or complex; complex ones count as
    pairs of real ones.

    Args:
        params: tensors, (name, tensor) pairs, or dicts with 'params' and options of the group.
        lr: the first step of every element, a number or a tensor of one element.
        etas: factors of the step where the sign changed, and where it did not.
        step_sizes: the smallest and the largest step.
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
    _rule = staticmethod(_rules.rprop)
    _kernel = 8

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        check_modes(capturable=capturable)
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state: dict[str, Any] = self.state[param]
        if not state:
            lr = number(group["lr"])
            state["step"] = new_counter()
            state["prev"] = cograd.zeros_like(param).detach()
            first: Any = complex(lr, lr) if param.is_complex() else lr
            state["step_size"] = cograd.full_like(param, first).detach()
        return state

    def _options(self, group: dict[str, Any]) -> tuple[Any, ...]:
        return (*group["etas"], *group["step_sizes"])

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("step", "prev", "step_size")


def rprop(
    params: list[Tensor],
    grads: list[Tensor],
    prevs: list[Tensor],
    step_sizes: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    maximize: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    step_size_min: float,
    step_size_max: float,
    etaminus: float,
    etaplus: float,
) -> None:
    """Runs one step of Rprop on tensors and state that no optimizer owns.

    Args:
        params: the tensors to update in place.
        grads: one gradient for each parameter.
        prevs, step_sizes, state_steps: the state of each parameter, written in place.
        has_complex: accepted and ignored.
        foreach, capturable, maximize, differentiable, step_size_min, step_size_max, etaminus,
            etaplus: as in Rprop.

    Raises:
        ValueError: the lists have different lengths.
        RuntimeError: modes exclude each other, ``capturable`` is set, or a leaf requires grad while
            grad mode is on and the step is not differentiable.
    """
    group = {
        "foreach": foreach,
        "capturable": capturable,
        "maximize": maximize,
        "differentiable": differentiable,
        "lr": 0.0,
        "etas": (etaminus, etaplus),
        "step_sizes": (step_size_min, step_size_max),
    }
    columns: dict[str, Any] = {"prev": prevs, "step_size": step_sizes, "step": state_steps}
    step_lists(Rprop, params, grads, columns, group)
