# SPDX-License-Identifier: BSD-3-Clause
"""Stochastic gradient descent with momentum."""

from __future__ import annotations

from typing import Any

from cograd import Tensor

from ._formula import decayed, used
from ._lists import for_lists, step_lists
from ._options import not_negative
from ._rule import Rule, State
from ._sparse import sgd_step
from .optimizer import Optimizer, ParamsT

__all__ = ["SGD", "sgd"]


def _formula(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """Returns SGD's new parameter. Unlike in torch, the first momentum buffer keeps its history."""
    grad, momentum = decayed(param, grad, group), group["momentum"]
    if used(momentum):
        buf = state.get("momentum_buffer")
        buf = grad.clone() if buf is None else momentum * buf + (1 - group["dampening"]) * grad
        state["momentum_buffer"] = buf
        grad = grad + momentum * buf if group["nesterov"] else buf
    return param.sub(group["lr"] * grad)


def _buffer(param: Tensor, group: dict[str, Any]) -> Tensor:
    """Creates the buffer for the op, which writes the first step's values to it."""
    assert param.grad is not None
    return param.grad.detach().clone()


class SGD(Optimizer):
    """Updates by p -= lr * buf, buf = momentum * buf + (1 - dampening) * (grad + weight_decay * p).

    Robbins and Monro, A Stochastic Approximation Method (1951); Nesterov's momentum in the form of
    Sutskever et al., On the importance of initialization and momentum in deep learning (2013).

    Each step::

        buf = momentum buf + (1 - dampening) g
        p -= lr buf;  with nesterov p -= lr (g + momentum buf)

    g is the gradient (its negative with ``maximize``) plus weight_decay times p. The first buffer
    is g.

    State: momentum_buffer (buf), only with ``momentum``. Parameters are floating or complex;
    complex ones count as pairs of real ones.

    Args:
        momentum: momentum of the buffer; 0 keeps no buffer.
        dampening: the fraction of a gradient that is not added to the buffer.
        nesterov: whether to step by grad + momentum * buf.

    Raises:
        ValueError: an option is negative, or ``nesterov`` is set without momentum or with
            dampening.
        RuntimeError: ``fused`` is set together with ``differentiable`` or ``foreach``.
    """

    _rule = Rule(
        _formula,
        "_sgd_step",
        state=(
            State("momentum_buffer", _buffer, "momentum", column="momentum_buffer_list", late=True),
        ),
        checks={
            "momentum": not_negative("momentum"),
            "weight_decay": not_negative("weight_decay"),
        },
        later={"nesterov": False, "fused": False},
        sparse=sgd_step,
    )

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        defaults = self._rule.defaults(locals())
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, defaults)


@for_lists(SGD)
def sgd(
    params: list[Tensor],
    d_p_list: list[Tensor],
    momentum_buffer_list: list[Tensor | None],
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    *,
    weight_decay: float,
    momentum: float,
    lr: float,
    dampening: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    """Runs one step of SGD on tensors and state that no optimizer owns."""
    step_lists(SGD, locals())
