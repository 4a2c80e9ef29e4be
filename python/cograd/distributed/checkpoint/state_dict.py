# SPDX-License-Identifier: BSD-3-Clause
"""State of modules and optimizers by parameter name, for checkpoints.

An optimizer's own state_dict numbers the parameters; here their names are the keys. So ranks that
have the state of only some parameters (ZeroRedundancyOptimizer) each write what they have, and
each read what they need, even if the ranks change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import cograd
from cograd import Tensor, nn
from cograd.optim import Optimizer

__all__ = [
    "StateDictOptions",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]


@dataclass
class StateDictOptions:
    """Options for reading and writing state.

    ``ignore_frozen_params`` leaves out parameters that do not require grad; ``strict`` raises
    if a module's keys differ from the given ones. ``full_state_dict``, ``cpu_offload``,
    ``keep_submodule_prefixes`` and ``flatten_optimizer_state_dict`` must keep their defaults.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    flatten_optimizer_state_dict: bool = False

    def __post_init__(self) -> None:
        if not self.keep_submodule_prefixes or self.flatten_optimizer_state_dict:
            raise ValueError(
                "StateDictOptions: keep_submodule_prefixes must be True and "
                "flatten_optimizer_state_dict False, other forms are not offered"
            )


def _inner(model: nn.Module) -> nn.Module:
    """Returns the module inside of a data-parallel wrapper."""
    while type(model).__name__ in ("DistributedDataParallel", "DataParallel"):
        model = model.get_submodule("module")
    return model


def _names(model: nn.Module) -> dict[Tensor, str]:
    return {p: name for name, p in _inner(model).named_parameters()}


def _listed(optimizers: Any) -> list[Optimizer]:
    found = [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)
    for optimizer in found:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"optimizers: expected Optimizer, got {type(optimizer).__name__}")
    return found


def _keeper(optimizer: Optimizer) -> Optimizer:
    """Returns the optimizer that holds this rank's state."""
    inner = getattr(optimizer, "optim", None)
    return inner if isinstance(inner, Optimizer) else optimizer


def _name_of(names: dict[Tensor, str], parameter: Tensor) -> str:
    if parameter not in names:
        raise ValueError(
            f"an optimizer has a parameter of shape {list(parameter.shape)} that is not the model's"
        )
    return names[parameter]


def get_model_state_dict(
    model: nn.Module, *, submodules: None = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """Returns the state_dict of ``model``, with names as without data-parallel wrappers."""
    if submodules is not None:
        raise ValueError("get_model_state_dict(): submodules must be None; give the submodule")
    inner = _inner(model)
    state = dict(inner.state_dict())
    if options is not None and options.ignore_frozen_params:
        for name, parameter in inner.named_parameters():
            if not parameter.requires_grad:
                state.pop(name, None)
    return state


def set_model_state_dict(
    model: nn.Module,
    model_state_dict: dict[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> Any:
    """Loads a result of ``get_model_state_dict``; returns missing and unexpected keys.

    Raises:
        RuntimeError: keys or shapes differ, unless ``options.strict`` is False.
    """
    strict = options is None or options.strict
    if options is not None and options.ignore_frozen_params:
        strict = False
    return _inner(model).load_state_dict(model_state_dict, strict=strict)


def _fill_state(optimizer: Optimizer) -> None:
    """Creates the state of a first step, by a step with learning rate 0."""
    keeper = _keeper(optimizer)
    if keeper.state:
        return
    parameters = [p for group in keeper.param_groups for p in group["params"] if p.requires_grad]
    grads = [p.grad for p in parameters]
    rates = [group.get("lr") for group in keeper.param_groups]
    before = [p.detach().clone() for p in parameters]
    try:
        for p in parameters:
            p.grad = cograd.zeros_like(p)
        for group in keeper.param_groups:
            if "lr" in group:
                group["lr"] = 0.0
        keeper.step()
    finally:
        with cograd.no_grad():
            for p, grad, value in zip(parameters, grads, before, strict=True):
                p.grad = grad
                p.copy_(value)
        for group, rate in zip(keeper.param_groups, rates, strict=True):
            if rate is not None:
                group["lr"] = rate


def get_optimizer_state_dict(
    model: nn.Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: None = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:
    """Returns the state of all ``optimizers``, with parameter names as keys.

    The result is {"state": {name: its state}, "param_groups": [...]}. An optimizer that has made no
    step gets the state of a first step, for ``load`` to fill. For a ZeroRedundancyOptimizer, only
    the state of this rank's parameters is returned.
    """
    if submodules is not None:
        raise ValueError("get_optimizer_state_dict(): submodules must be None")
    names = _names(model)
    state: dict[str, Any] = {}
    groups = []
    for optimizer in _listed(optimizers):
        _fill_state(optimizer)
        for parameter, values in _keeper(optimizer).state.items():
            state[_name_of(names, parameter)] = dict(values)
        for group in optimizer.param_groups:
            plain = {k: v for k, v in group.items() if k != "params"}
            groups.append({**plain, "params": [_name_of(names, p) for p in group["params"]]})
    return {"state": state, "param_groups": groups}


def set_optimizer_state_dict(
    model: nn.Module,
    optimizers: Optimizer | Iterable[Optimizer],
    optim_state_dict: dict[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Loads a result of ``get_optimizer_state_dict`` into the optimizers.

    Raises:
        ValueError: the groups differ, or a parameter of this rank has no state in it.
    """
    names = _names(model)
    given = optim_state_dict["param_groups"]
    at = 0
    for optimizer in _listed(optimizers):
        own = optimizer.param_groups
        for group, new in zip(own, given[at : at + len(own)], strict=True):
            want = [_name_of(names, p) for p in group["params"]]
            if want != list(new["params"]):
                raise ValueError(
                    f"set_optimizer_state_dict(): a group has the parameters {new['params']}, "
                    f"expected {want}"
                )
            group.update({k: v for k, v in new.items() if k != "params"})
        at += len(own)
        keeper = _keeper(optimizer)
        if keeper is not optimizer:
            for group, local in zip(own, keeper.param_groups, strict=True):
                local.update({k: v for k, v in group.items() if k != "params"})
        for group in keeper.param_groups:
            for parameter in group["params"]:
                name = _name_of(names, parameter)
                if name in optim_state_dict["state"]:
                    keeper.state[parameter] = dict(optim_state_dict["state"][name])


def get_state_dict(
    model: nn.Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: None = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the state_dict of the model and that of the optimizers."""
    return (
        get_model_state_dict(model, submodules=submodules, options=options),
        get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options),
    )


def set_state_dict(
    model: nn.Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any],
    options: StateDictOptions | None = None,
) -> Any:
    """Loads both results of ``get_state_dict``; returns the model's missing and unexpected keys."""
    found = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return found
