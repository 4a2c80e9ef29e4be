# SPDX-License-Identifier: BSD-3-Clause
"""RMSprop."""

from __future__ import annotations

from typing import Any

from cograd import Tensor

from ._formula import decayed
from ._lists import for_lists, step_lists
from ._options import not_negative
from ._rule import Rule, counter, zeros
from .optimizer import Optimizer, ParamsT

__all__ = ["RMSprop", "rmsprop"]


def _formula(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """Returns RMSprop's new parameter."""
    alpha, momentum = group["alpha"], group["momentum"]
    grad = decayed(param, grad, group)
    square = state["square_avg"] = alpha * state["square_avg"] + (1 - alpha) * grad * grad
    if group["centered"]:
        mean = state["grad_avg"] = state["grad_avg"] + (1 - alpha) * (grad - state["grad_avg"])
        square = square - mean * mean
    step = grad / (square.sqrt() + group["eps"])
    if isinstance(momentum, Tensor) or momentum > 0:
        step = state["momentum_buffer"] = momentum * state["momentum_buffer"] + step
    return param.sub(group["lr"] * step)


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
        alpha: decay rate of the running mean of squares.
        momentum: momentum of the steps; 0 keeps no buffer.
        centered: whether to subtract the square of the running mean from the running mean of
            squares.
    """

    _rule = Rule(
        _formula,
        "_rmsprop_step",
        state=(
            counter("step"),
            zeros("square_avg"),
            zeros("momentum_buffer", when="momentum", column="momentum_buffer_list"),
            zeros("grad_avg", when="centered"),
        ),
        checks={
            "eps": not_negative("epsilon"),
            "momentum": not_negative("momentum"),
            "weight_decay": not_negative("weight_decay"),
            "alpha": not_negative("alpha"),
        },
        later={"momentum": 0, "centered": False},
        gpu_counts=True,
        order="lr momentum alpha eps centered weight_decay capturable foreach maximize "
        "differentiable",
    )

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
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
        super().__init__(params, self._rule.defaults(locals()))


@for_lists(RMSprop)
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
    """Runs one step of RMSprop on tensors and state that no optimizer owns."""
    step_lists(RMSprop, locals())
