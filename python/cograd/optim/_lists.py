# SPDX-License-Identifier: BSD-3-Clause
"""Runs optimizer steps on lists of tensors: torch's functional form of each optimizer.

A form is a function with torch's signature, whose body is ``step_lists(kind, locals())``. Which of
its parameters are lists of state, and which are options, follows from the optimizer's Rule.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import cograd
from cograd import Tensor

from . import _formula
from ._docs import complete_function
from ._options import check_modes, plain
from .optimizer import Optimizer

_Column = Sequence[Any]
_Form = TypeVar("_Form", bound=Callable[..., None])


def for_lists(kind: type[Optimizer]) -> Callable[[_Form], _Form]:
    """Completes the docstring of the form for lists of an optimizer."""

    def complete(form: _Form) -> _Form:
        rule = kind._rule
        complete_function(form, kind, [part.column for part in rule.state], rule.parts)
        return form

    return complete


def _group(kind: type[Optimizer], given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options among the arguments of a form, as in an optimizer's group."""
    rule, group = kind._rule, {}
    for name in kind._option_names:
        if name in rule.parts:
            group[name] = tuple(given[part] for part in rule.parts[name])
        elif name in given:
            group[name] = given[name]
    return group


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


def step_lists(kind: type[Optimizer], given: Mapping[str, Any]) -> None:
    """Runs one step of optimizer ``kind`` on tensors and state that no optimizer owns.

    Args:
        kind: the optimizer class, whose loop in the core or formula is run.
        given: the arguments of the form: first the tensors to update in place and one gradient for
            each; then, by their names, the lists of state, the options and torch's further
            parameters. The state is written in place; a list gets new tensors in place of None,
            and in place of all if the step is differentiable.

    Raises:
        ValueError: the lists have different lengths.
        RuntimeError: modes exclude each other, a step is not a tensor, or a leaf requires grad
            while grad mode is on and the step is not differentiable.
    """
    op, group = kind.__name__.lower(), _group(kind, given)
    params, grads = list(given.values())[:2]
    columns = {part.name: given[part.column] for part in kind._rule.state if part.active(group)}
    check_modes(group)
    _check_lists(op, params, {"grads": grads, **columns})
    found_inf = given.get("found_inf")
    if found_inf is not None and found_inf.item() != 0:
        return
    grads = _scaled(grads, given.get("grad_scale"))
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
        grad = grad.neg() if group["maximize"] else grad
        _formula.apply(kind._rule.formula, param, grad, state, options)


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
