# SPDX-License-Identifier: BSD-3-Clause
"""Temporarily replaces the parameters and the state of an optimizer."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from cograd import Tensor

from .optimizer import Optimizer

__all__ = ["swap_in_optimizer_params_and_state"]

_NAME = "swap_in_optimizer_params_and_state requires "


def _checked_state(state_dict: Any) -> tuple[dict[Any, Any], list[Any]]:
    """Returns the state and the groups of a ``state_dict()``; raises if it is invalid."""
    if not isinstance(state_dict, dict):
        raise RuntimeError(_NAME + "the dict that optimizer.state_dict() returns.")
    state, groups = state_dict.get("state"), state_dict.get("param_groups")
    if not isinstance(state, dict):
        raise RuntimeError(
            f"{_NAME}swapin_optim_state['state'] to be a dict from indices of parameters to their "
            f"state, got {type(state).__name__}."
        )
    if any(isinstance(key, Tensor) for key in state):
        raise RuntimeError(f"{_NAME}state whose keys are indices of parameters, as state_dict()'s.")
    if any(isinstance(key, int) and not isinstance(value, dict) for key, value in state.items()):
        raise RuntimeError(_NAME + "the state of each parameter to be a dict.")
    if not isinstance(groups, list):
        raise RuntimeError(
            f"{_NAME}swapin_optim_state['param_groups'] to be a list of dicts, "
            f"got {type(groups).__name__}."
        )
    return state, groups


def _checked_group(index: int, group: dict[str, Any], new: Any) -> list[int]:
    """Returns a group's parameter indices; raises RuntimeError if the groups do not match."""
    if not isinstance(new, dict):
        raise RuntimeError(_NAME + "each param group to be a dict.")
    indices = new.get("params")
    if not isinstance(indices, list) or not all(isinstance(i, int) for i in indices):
        raise RuntimeError(f"{_NAME}param_groups whose 'params' are indices, as state_dict()'s.")
    if len(indices) != len(group["params"]):
        raise RuntimeError(
            f"swapin_optim_state param group {index} has {len(indices)} params, the optimizer's "
            f"has {len(group['params'])}."
        )
    if set(group) != set(new):
        raise RuntimeError(
            f"{_NAME}the options of group {index} to be those of the optimizer. Keys only in "
            f"swap-in: {[k for k in new if k not in group]}. Keys only in live: "
            f"{[k for k in group if k not in new]}."
        )
    return indices


@contextlib.contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer,
    swapin_parameters: dict[str, Tensor],
    swapin_optim_state: dict[str, Any],
) -> Iterator[None]:
    """Replaces an optimizer's parameters, state and options until the block ends.

    In-place writes to the given tensors persist; other assignments inside the block are dropped.

    Args:
        optimizer: an optimizer that has state.
        swapin_parameters: the parameters, in the order of the optimizer's.
        swapin_optim_state: a result of ``optimizer.state_dict()``.

    Raises:
        RuntimeError: the optimizer has no state yet, or the arguments do not fit it.
    """
    if not optimizer.state:
        raise RuntimeError(_NAME + "initialized optimizer state.")
    saved, groups = _checked_state(swapin_optim_state)
    if len(groups) != len(optimizer.param_groups):
        raise RuntimeError(
            f"swapin_optim_state has {len(groups)} parameter groups, the optimizer has "
            f"{len(optimizer.param_groups)}."
        )
    indices = [
        _checked_group(i, *pair) for i, pair in enumerate(zip(optimizer.param_groups, groups))
    ]
    params = list(swapin_parameters.values())
    if len(params) < sum(map(len, indices)):
        raise RuntimeError(f"{_NAME}a parameter for each of the optimizer's, got {len(params)}.")
    extra = set(saved).difference(*indices)
    if extra:
        raise RuntimeError(f"{_NAME}state of the groups' params only; got extra keys {extra!r}.")
    before, options = optimizer.state, [dict(group) for group in optimizer.param_groups]
    try:
        state: defaultdict[Any, Any] = defaultdict(dict)
        for group, new, own in zip(optimizer.param_groups, groups, indices):
            group.update(new)
            group["params"], params = params[: len(own)], params[len(own) :]
            for param, i in zip(group["params"], own):
                state[param] = dict(saved.get(i, {}))
        optimizer.state = state
        yield
    finally:
        for group, old in zip(optimizer.param_groups, options):
            group.clear()
            group.update(old)
        optimizer.state = before
