# SPDX-License-Identifier: BSD-3-Clause
"""Optimizer: the parameter groups, state and state_dict shared by all optimizers."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any, ClassVar, TypeAlias, TypeVar, overload

import cograd
from cograd import _C, Tensor
from cograd.overrides import refuse_torch

from . import _formula
from ._docs import complete_class
from ._hooks import (
    Hooked,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from ._options import new_counter, on_gpu, plain, required
from ._rule import Rule, later_options, options_of
from ._sparse import step_sparse

__all__ = [
    "Optimizer",
    "ParamsT",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
    "required",
]

_Loss = TypeVar("_Loss")
ParamsT: TypeAlias = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
_NO_STEP = cograd.tensor(0.0, device="cpu")  # passed where an optimizer counts no steps


class Optimizer(Hooked):
    """Base class of optimizers.

    Subclasses define ``step``. Those of this package declare a ``_rule`` instead: see _rule.py.

    Args:
        params: tensors, (name, tensor) pairs, or dicts with 'params' and options of the group.
        defaults: options of groups that do not set them.
    """

    _rule: ClassVar[Rule] = Rule()
    _option_names: ClassVar[tuple[str, ...]] = ()
    # Options that checkpoints of older releases lack, with the values that they imply.
    _later_options: ClassVar[dict[str, Any]] = {}
    # Keys of a parameter's state that older checkpoints may store as plain numbers.
    _counters: ClassVar[tuple[str, ...]] = ("step",)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "_rule" not in cls.__dict__:
            return
        rule = cls._rule
        cls._option_names = tuple(options_of(cls))
        cls._later_options = later_options(cls, rule)
        cls._counters = tuple(part.name for part in rule.state if part.counter)
        complete_class(cls, cls._option_names)

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or "
                f"dicts, but got {type(params).__name__}"
            )
        self.defaults = defaults
        self.state: defaultdict[Any, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        self._init_hooks()
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def __getstate__(self) -> dict[str, Any]:
        return {
            "defaults": self.defaults,
            "state": self.state,
            "param_groups": self.param_groups,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_optimizer_step_pre_hooks" not in self.__dict__:
            self._init_hooks()
        self.defaults.setdefault("differentiable", False)
        for group in self.param_groups:
            for name, value in self._later_options.items():
                group.setdefault(name, value)
            for param in group["params"]:
                of_param = self.state.get(param) or {}
                for name in self._counters:
                    if not isinstance(of_param.get(name, _NO_STEP), Tensor):
                        of_param[name] = new_counter(float(of_param[name]), group.get("fused"))

    def __repr__(self) -> str:
        text = type(self).__name__ + " ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            for key in sorted(group):
                if key != "params":
                    text += f"    {key}: {group[key]}\n"
        return text + ")"

    # groups

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group: a dict with 'params' and options that override the defaults.

        Raises:
            TypeError: the group is not a dict, or holds something that is not a tensor.
            ValueError: a parameter is not a leaf or is in another group, or an option is missing.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, Tensor):
            params = [params]
        elif isinstance(params, (set, frozenset)):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list instead."
            )
        params = list(params)
        if params and all(isinstance(param, tuple) for param in params):
            param_group["param_names"] = [name for name, _ in params]
            params = [param for _, param in params]
        recorded = param_group.get("differentiable", self.defaults.get("differentiable"))
        for param in params:
            if not isinstance(param, Tensor):
                refuse_torch(type(self).__name__, param)
                raise TypeError(
                    f"optimizer can only optimize Tensors, but one of the params is "
                    f"{type(param).__name__}"
                )
            if not (recorded or param.is_leaf or param.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(
                    "parameter group didn't specify a value of required optimization parameter "
                    + name
                )
            param_group.setdefault(name, default)
        if len({id(param) for param in params}) != len(params):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this "
                "will cause an error",
                stacklevel=3,
            )
        self._check_names(param_group)
        known = {id(param) for group in self.param_groups for param in group["params"]}
        if any(id(param) in known for param in params):
            raise ValueError("some parameters appear in more than one parameter group")
        param_group["params"] = params
        self.param_groups.append(param_group)

    def _check_names(self, param_group: dict[str, Any]) -> None:
        """Raises ValueError if parameters of some groups have names and those of others do not."""
        kinds = ("without names", "with names")
        new = "param_names" in param_group
        if any(("param_names" in group) != new for group in self.param_groups):
            raise ValueError(
                "all optimizer param groups should be with/without names. cannot add param group "
                f"{kinds[new]} to the optimizer"
            )

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Sets the gradients of all parameters to None, or fills them with zeros."""
        for group in self.param_groups:
            for param in group["params"]:
                grad = param.grad
                if grad is None:
                    continue
                if set_to_none:
                    param.grad = None
                else:
                    if grad.grad_fn is not None:
                        grad.detach_()
                    else:
                        grad.requires_grad_(False)
                    grad.zero_()

    # stepping

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], _Loss]) -> _Loss: ...

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates all parameters once.

        Args:
            closure: recomputes the loss and its gradients, and returns the loss.

        Returns:
            the result of ``closure``, or None.
        """
        loss = None
        if closure is not None:
            with cograd.enable_grad():
                loss = closure()
        self._check_capture()
        for group in self.param_groups:
            with cograd.enable_grad() if group.get("differentiable") else cograd.no_grad():
                self._update(step_sparse(self, group))
        return loss

    def _check_capture(self) -> None:
        """Raises RuntimeError if a step is captured whose replays would not count steps."""
        if not _capturing() or not any(part.counter for part in self._rule.state):
            return
        for group in self.param_groups:
            if not group.get("capturable"):
                name = type(self).__name__
                raise RuntimeError(
                    f"{name}.step(): a CUDA graph is being captured, but capturable is False, so "
                    "the step would be counted on the CPU, once for all replays. "
                    + (
                        f"Create the optimizer by {name}(..., capturable=True)"
                        if "capturable" in group
                        else f"{name} has no capturable steps"
                    )
                )

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """Returns the state of a parameter; creates it in the first step."""
        rule = self._rule
        if not rule.keeps_state(group):
            return {}
        state: dict[str, Any] = self.state[param]
        if not state:
            if _capturing():
                raise RuntimeError(
                    f"{type(self).__name__}.step(): a CUDA graph is being captured, and each "
                    "replay would begin with new state. Take a step before the capture"
                )
            for part in rule.state:
                if not part.late and part.active(group):
                    value = part.make(param, group)
                    if value is not None:
                        state[part.name] = value
        return state

    def _update(self, group: dict[str, Any]) -> None:
        """Runs one step of a group, by its op if that supports it."""
        if group.get("fused"):
            self._check_fused(group)
        loops = group.get("fused") or group.get("foreach") is not False
        if any(on_gpu(param, group) for param in group["params"]):
            # The op takes options as numbers, which it would have to read from the GPU.
            loops = loops and self._rule.gpu_counts and not _has_gpu_options(group)
        if loops and not group.get("differentiable") and self._run_op(group):
            return
        self._run_formula(group)

    def _check_fused(self, group: dict[str, Any]) -> None:
        for param in group["params"]:
            if param.grad is not None and not param.is_floating_point():
                raise RuntimeError(
                    "`fused=True` requires all the params to be floating point Tensors of "
                    f"supported devices: ['cpu'] but {param.dtype} and {param.device.type}"
                )

    def _run_op(self, group: dict[str, Any]) -> bool:
        """Updates all parameters in one call of the core; returns False if it changed nothing."""
        params, rule = group["params"], self._rule
        if rule.op is None or not isinstance(self.state, dict):
            return False
        call = (
            type(self).__name__ + ".step",
            rule.op,
            params if type(params) is list else list(params),
            self.state,
            tuple([part.name if part.active(group) else None for part in rule.columns]),
            group,
            rule.keys,
        )
        done = _C._optim_step(*call, [])
        if done is None:
            self._update_by_device(group)
            return True
        if not isinstance(done, list):
            return done is True
        had = [(param, self.state.get(param)) for param in done]
        had = [(param, None if state is None else dict(state)) for param, state in had]
        settled = False
        try:
            for param in done:
                self._begin_state(param, group, rule)
            settled = _C._optim_step(*call, done) is True
        finally:
            if not settled:
                self._put_back(had)
        return settled

    def _update_by_device(self, group: dict[str, Any]) -> None:
        parts: dict[Any, list[Tensor]] = {}
        for param in group["params"]:
            if param.grad is not None:
                parts.setdefault(param.device, []).append(param)
        for params in parts.values():
            self._update({**group, "params": params})

    def _begin_state(self, param: Tensor, group: dict[str, Any], rule: Rule) -> None:
        """Creates the state that the op needs and that is missing."""
        state = self._init_state(param, group)
        for part in rule.state:
            if part.late and part.active(group):
                state[part.name] = part.make(param, group)

    def _put_back(self, states: list[tuple[Tensor, dict[str, Any] | None]]) -> None:
        for param, state in states:
            if state is None:
                self.state.pop(param, None)
            else:
                self.state[param] = state

    def _run_formula(self, group: dict[str, Any]) -> None:
        """Runs one step of a group by the formula."""
        if self._rule.formula is None:
            raise NotImplementedError(f"{type(self).__name__} defines neither step nor a rule")
        recorded = cograd.is_grad_enabled()
        numbers = group if recorded else None
        for param in group["params"]:
            if param.grad is None:
                continue
            if on_gpu(param, group):
                options = group
            else:
                options = numbers = numbers or plain(group)
            grad = param.grad.neg() if group["maximize"] else param.grad
            state = self._init_state(param, group)
            if recorded and "step" in state and state["step"].requires_grad:
                raise RuntimeError(
                    "`requires_grad` is not supported for `step` in differentiable mode"
                )
            _formula.apply(self._rule.formula, param, grad, state, options)

    # saving

    def state_dict(self) -> dict[str, Any]:
        """Returns {'state': index to state, 'param_groups': options and parameter indices}."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        index: dict[int, int] = {}
        for param in chain.from_iterable(group["params"] for group in self.param_groups):
            index.setdefault(id(param), len(index))
        groups = []
        for group in self.param_groups:
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [index[id(param)] for param in group["params"]]
            groups.append(packed)
        state = {
            (index[id(key)] if isinstance(key, Tensor) else key): value
            for key, value in self.state.items()
        }
        result = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            new = hook(self, result)
            result = result if new is None else new
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores the groups and the state that ``state_dict()`` returned.

        Raises:
            ValueError: the numbers of groups, or of parameters in a group, differ.
        """
        state_dict = state_dict.copy()
        pre_hooks = self._optimizer_load_state_dict_pre_hooks
        for hook in pre_hooks.values():
            new = hook(self, state_dict)
            state_dict = state_dict if new is None else new
        groups, saved = self.param_groups, deepcopy(state_dict["param_groups"])
        if len(groups) != len(saved):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(g["params"]) != len(s["params"]) for g, s in zip(groups, saved)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                "optimizer's group"
            )
        old_ids = chain.from_iterable(group["params"] for group in saved)
        params = chain.from_iterable(group["params"] for group in groups)
        param_of = dict(zip(old_ids, params))
        state: defaultdict[Any, Any] = defaultdict(dict)
        moved = {key for g in saved if g.get("capturable") for key in g["params"]}
        for key, value in state_dict["state"].items():
            if key in param_of:
                state[param_of[key]] = _cast_state(param_of[key], value, moves=key in moved)
            else:
                state[key] = value
        for group, new_group in zip(groups, saved):
            new_group["params"] = group["params"]
            if "param_names" in group and "param_names" not in new_group:
                new_group["param_names"] = group["param_names"]
        self.__setstate__({"state": state, "param_groups": saved})
        post_hooks = self._optimizer_load_state_dict_post_hooks
        for hook in post_hooks.values():
            hook(self)


def _has_gpu_options(group: dict[str, Any]) -> bool:
    options = (value for key, value in group.items() if key != "params")
    values = chain.from_iterable(v if isinstance(v, tuple) else (v,) for v in options)
    return any(isinstance(value, Tensor) and value.is_cuda for value in values)


def _capturing() -> bool:
    """Returns whether a CUDA graph captures this thread's current stream."""
    return bool(_C._cuda_started() and _C._cuda_capturing(-1))


def _cast_state(param: Tensor, value: Any, key: str | None = None, moves: bool = False) -> Any:
    """Returns a copy of loaded state; tensors but 'step' get its device and dtype.

    With ``moves``, which is the mode ``capturable``, 'step' goes to a GPU, too.
    """
    if isinstance(value, Tensor):
        fits = param.is_floating_point() or (param.is_complex() and value.is_complex())
        if key == "step" and moves and param.is_cuda:
            return value.detach().to(param.device, copy=True)
        if key == "step" or not fits:
            return value.detach().clone()
        return value.detach().to(param.device, param.dtype, copy=True)
    if isinstance(value, dict):
        return {k: _cast_state(param, v, k, moves) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast_state(param, v) for v in value)
    return value
