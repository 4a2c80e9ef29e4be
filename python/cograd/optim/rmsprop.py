# SPDX-License-Identifier: BSD-3-Clause
"""RMSprop."""

from __future__ import annotations

from typing import Any, ClassVar

import cograd
from cograd import Tensor

from . import _rules
from ._lists import step_lists
from ._options import check_lr, check_modes, check_not_negative, new_counter
from .optimizer import Optimizer

__all__ = ["RMSprop", "rmsprop"]


class RMSprop(Optimizer):
    """Divides gradients by their running root mean square; optionally centred, with momentum.

    Tieleman and Hinton, Neural Networks for Machine Learning, lecture 6.5 (2012); centred as in
    Graves, Generating Sequences With Recurrent Neural Networks (arXiv:1308.0850).

    Each step::

        v = alpha v + (1 - alpha) g^2
        b = momentum b + g / (sqrt(v) + eps)
        p -= lr b

    g is the gradient (its negative with ``maximize``) plus weight_decay times p.

    With ``centered``, v - a^2 replaces v, where a is the running mean of g. State: step,
    square_avg (v), grad_avg (a), momentum_buffer (b). Parameters are floating or complex; complex
    ones count as pairs of real ones.

    Args:
        params: tensors, (name, tensor) pairs, or dicts with 'params' and options of the group.
        lr: the learning rate, a number or a tensor of one element.
        alpha: decay rate of the running mean of squares.
        eps: added to the denominator.
        weight_decay: ``weight_decay`` times the parameter is added to the gradient.
        momentum: momentum of the steps; 0 keeps no buffer.
        centered: whether to subtract the square of the running mean from the running mean of
            squares.
        foreach: None and True update all parameters in one call, False applies the formula to each.
        maximize: whether to maximize instead of minimize.
        capturable: not supported, as it is for CUDA graphs; True raises.
        differentiable: whether autograd records the steps.

    Raises:
        ValueError: an option is out of range.
        RuntimeError: ``capturable`` is set.
    """

    _later_options: ClassVar[dict[str, Any]] = {
        "momentum": 0,
        "centered": False,
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "capturable": False,
    }
    _rule = staticmethod(_rules.rmsprop)
    _kernel = 2

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        check_not_negative("epsilon", eps)
        check_not_negative("momentum", momentum)
        check_not_negative("weight_decay", weight_decay)
        check_not_negative("alpha", alpha)
        check_modes(capturable=capturable)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state: dict[str, Any] = self.state[param]
        if not state:
            state["step"] = new_counter()
            state["square_avg"] = cograd.zeros_like(param).detach()
            if group["momentum"] > 0:
                state["momentum_buffer"] = cograd.zeros_like(param).detach()
            if group["centered"]:
                state["grad_avg"] = cograd.zeros_like(param).detach()
        return state

    def _options(self, group: dict[str, Any]) -> tuple[Any, ...]:
        return group["alpha"], group["eps"], group["momentum"], group["centered"]

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        names: tuple[str, ...] = ("step", "square_avg")
        names += ("grad_avg",) if group["centered"] else ()
        return names + (("momentum_buffer",) if group["momentum"] > 0 else ())


def rmsprop(
    params: list[Tensor],
    grads: list[Tensor],
    square_avgs: list[Tensor],
    grad_avgs: list[Tensor],
    momentum_buffer_list: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lr: float,
    alpha: float,
    eps: float,
    weight_decay: float,
    momentum: float,
    centered: bool,
) -> None:
    """Runs one step of RMSprop on tensors and state that no optimizer owns.

    Args:
        params: the tensors to update in place.
        grads: one gradient for each parameter.
        square_avgs, grad_avgs, momentum_buffer_list, state_steps: the state of each parameter,
            written in place.
        has_complex: accepted and ignored.
        foreach, maximize, differentiable, capturable, lr, alpha, eps, weight_decay, momentum,
            centered: as in RMSprop.

    Raises:
        ValueError: the lists have different lengths.
        RuntimeError: modes exclude each other, ``capturable`` is set, or a leaf requires grad while
            grad mode is on and the step is not differentiable.
    """
    group = {
        "lr": lr,
        "alpha": alpha,
        "eps": eps,
        "weight_decay": weight_decay,
        "momentum": momentum,
        "centered": centered,
        "foreach": foreach,
        "maximize": maximize,
        "differentiable": differentiable,
        "capturable": capturable,
    }
    columns: dict[str, Any] = {"square_avg": square_avgs, "step": state_steps}
    if centered:
        columns["grad_avg"] = grad_avgs
    if momentum > 0:
        columns["momentum_buffer"] = momentum_buffer_list
    step_lists(RMSprop, params, grads, columns, group)
