# SPDX-License-Identifier: BSD-3-Clause
"""Runs optimizer steps on lists of tensors; shared by the optimizers' functional forms."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import cograd
from cograd import Tensor

from . import _rules
from ._options import check_modes, plain
from .optimizer import Optimizer

_Column = Sequence[Any]


def _check_lists(op: str, params: Sequence[Tensor], lists: dict[str, _Column]) -> None:
    for name, values in lists.items():
        if len(values) != len(params):
            raise ValueError(
                f"{op}(): {name} has {len(values)} items, expected one for each of the "
                f"{len(params)} params"
            )
    if not all(isinstance(step, Tensor) for step in lists.get("step", ())):
        raise RuntimeError(
            "API has changed, `state_steps` argument must contain a list of singleton tensors"
        )


def _scaled(grads: Sequence[Tensor], scale: Tensor | None) -> Sequence[Tensor]:
    return grads if scale is None else [grad / scale for grad in grads]


def _states(columns: dict[str, _Column], count: int) -> list[dict[str, Any]]:
    return [
        {name: column[i] for name, column in columns.items() if column[i] is not None}
        for i in range(count)
    ]


def _put_back(columns: dict[str, Any], states: list[dict[str, Any]]) -> None:
    """Writes tensors that a step created or replaced into the caller's lists."""
    for name, column in columns.items():
        for i, state in enumerate(states):
            if column[i] is not state.get(name):
                column[i] = state[name]


def step_lists(
    kind: type[Optimizer],
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    columns: dict[str, Any],
    group: dict[str, Any],
    *,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> None:
    """Runs one step of optimizer ``kind`` on tensors and state that no optimizer owns.

    Args:
        kind: the optimizer class, whose loop in the core or formula is run.
        params: the tensors to update in place.
        grads: one gradient for each parameter.
        columns: a list for each name of the state. The tensors are written in place; the list gets
            new tensors in place of None, and in place of all if the step is differentiable.
        group: the options, as in an optimizer's group.
        grad_scale: the divisor of the gradients.
        found_inf: if it is not 0, the step is skipped.

    Raises:
        ValueError: the lists have different lengths.
        RuntimeError: modes exclude each other, a step is not a tensor, or a leaf requires grad
            while grad mode is on and the step is not differentiable.
    """
    op = kind.__name__.lower()
    modes = {name: group.get(name) for name in ("foreach", "fused", "differentiable", "capturable")}
    check_modes(**modes)  # type: ignore[arg-type]
    _check_lists(op, params, {"grads": grads, **columns})
    if found_inf is not None and found_inf.item() != 0:
        return
    grads = _scaled(grads, grad_scale)
    states = _states(columns, len(params))
    if group.get("differentiable"):
        _step_recorded(kind, params, grads, states, group)
    else:
        _step_in_place(kind, params, grads, states, group)
    _put_back(columns, states)


def _step_recorded(
    kind: type[Optimizer],
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    states: list[dict[str, Any]],
    group: dict[str, Any],
) -> None:
    options = group if cograd.is_grad_enabled() else plain(group)
    for param, grad, state in zip(params, grads, states):
        _rules.apply(kind._rule, param, grad.neg() if group["maximize"] else grad, state, options)


def _step_in_place(
    kind: type[Optimizer],
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    states: list[dict[str, Any]],
    group: dict[str, Any],
) -> None:
    if cograd.is_grad_enabled() and any(p.requires_grad and p.is_leaf for p in params):
        raise RuntimeError(
            f"{kind.__name__.lower()}(): a leaf that requires grad is written in place while grad "
            "mode is on; call it under no_grad()"
        )
    with cograd.no_grad():
        # Aliases of the same memory: the caller's tensors keep their own .grad.
        aliases = [param.detach() for param in params]
        for alias, grad in zip(aliases, grads):
            alias.grad = grad.detach()
        optimizer = object.__new__(kind)
        optimizer.state = defaultdict(dict, zip(aliases, states))
        optimizer._update({**group, "params": aliases})
    for i, alias in enumerate(aliases):
        states[i] = optimizer.state[alias]
