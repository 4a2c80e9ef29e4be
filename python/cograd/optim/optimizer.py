# SPDX-License-Identifier: BSD-3-Clause
"""Optimizer: parameter groups, state, state_dict and hooks shared by all optimizers."""

from __future__ import annotations

import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from functools import wraps
from itertools import chain
from typing import Any, ClassVar

import cograd
from cograd import Tensor
from cograd._handles import RemovableHandle
from cograd.overrides import refuse_torch

__all__ = ["Optimizer", "required"]


class _Required:
    """Marks an option that every parameter group has to give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()
_NO_STEP = cograd.tensor(0.0)  # stands in where an optimizer counts no steps


def check_not_fused(fused: bool | None, differentiable: bool) -> None:
    """Raises RuntimeError for two options that exclude each other."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")


def number(value: Any) -> float:
    """A hyper-parameter as a plain number; 0-dim tensors are allowed for learning rates."""
    return float(value.item()) if isinstance(value, Tensor) else value


def check_lr(lr: Any) -> None:
    """Raises ValueError for a negative learning rate."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    if not number(lr) >= 0.0:
        raise ValueError(f"Invalid learning rate: {lr}")


def check_not_negative(name: str, value: float) -> None:
    """Raises ValueError for a negative option."""
    if not value >= 0.0:
        raise ValueError(f"Invalid {name} value: {value}")


class Optimizer:
    """Base class of optimizers; subclasses define ``_update(group)``, one group's step.

    Args:
        params: tensors, (name, tensor) pairs, or dicts with 'params' and options of the group.
        defaults: options for groups that do not give them.
    """

    # Options that checkpoints of older releases lack, with what they meant then.
    _later_options: ClassVar[dict[str, Any]] = {}
    # The rule for groups with ``differentiable``; see _differentiable.py.
    _rule: Callable[[Tensor, Tensor, dict[str, Any], dict[str, Any]], Tensor] | None = None

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or "
                f"dicts, but got {type(params).__name__}"
            )
        self.defaults = defaults
        self.state: defaultdict[Any, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        self._init_hooks()
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _init_hooks(self) -> None:
        for name in (
            "_optimizer_step_pre_hooks",
            "_optimizer_step_post_hooks",
            "_optimizer_state_dict_pre_hooks",
            "_optimizer_state_dict_post_hooks",
            "_optimizer_load_state_dict_pre_hooks",
            "_optimizer_load_state_dict_post_hooks",
        ):
            setattr(self, name, OrderedDict())

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
                of_param = self.state.get(param)
                if of_param and not isinstance(of_param.get("step", _NO_STEP), Tensor):
                    of_param["step"] = cograd.tensor(float(of_param["step"]))

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
            TypeError: the group is no dict, or holds something that is not a tensor.
            ValueError: a parameter is no leaf, is in another group, or an option is missing.
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
        """Raises ValueError where parameters of some groups have names and others have none."""
        kinds = ("without names", "with names")
        new = "param_names" in param_group
        if any(("param_names" in group) != new for group in self.param_groups):
            raise ValueError(
                "all optimizer param groups should be with/without names. cannot add param group "
                f"{kinds[new]} to the optimizer"
            )

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops the gradients of all parameters, or fills them with zeros."""
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

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:  # a step written by the user gets the hooks too
            cls.step = _with_hooks(cls.__dict__["step"])  # type: ignore[method-assign]

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update of all parameters.

        Args:
            closure: computes the loss and its gradients again, and returns the loss.

        Returns:
            what ``closure`` returned, or None.
        """
        loss = None
        if closure is not None:
            with cograd.enable_grad():
                loss = closure()
        for group in self.param_groups:
            if group.get("differentiable"):
                with cograd.enable_grad():
                    self._update_recorded(group)
            else:
                with cograd.no_grad():
                    self._update(group)
        return loss

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """The state of a parameter, made if this is its first step."""
        return self.state[param]  # type: ignore[no-any-return]

    def _update_recorded(self, group: dict[str, Any]) -> None:
        """One step of a group that autograd records."""
        rule = type(self)._rule
        if rule is None:
            raise NotImplementedError(f"{type(self).__name__}: differentiable is not supported")
        for param, grad in params_with_grad(group):
            state = self._init_state(param, group)
            if "step" in state:
                if state["step"].requires_grad:
                    raise RuntimeError(
                        "`requires_grad` is not supported for `step` in differentiable mode"
                    )
                state["step"] = state["step"] + 1
            param.copy_(rule(param.clone(), grad, state, group))

    def _update(self, group: dict[str, Any]) -> None:
        raise NotImplementedError

    # saving

    def state_dict(self) -> dict[str, Any]:
        """{'state': index to state, 'param_groups': options and parameter indices}."""
        for hook in self._optimizer_state_dict_pre_hooks.values():  # type: ignore[attr-defined]
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
        for hook in self._optimizer_state_dict_post_hooks.values():  # type: ignore[attr-defined]
            new = hook(self, result)
            result = result if new is None else new
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over groups and state of ``state_dict()``.

        Raises:
            ValueError: the numbers of groups, or of parameters in a group, differ.
        """
        state_dict = state_dict.copy()
        pre_hooks = self._optimizer_load_state_dict_pre_hooks  # type: ignore[attr-defined]
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
        for key, value in state_dict["state"].items():
            if key in param_of:
                state[param_of[key]] = _cast_state(param_of[key], value)
            else:
                state[key] = value
        for group, new_group in zip(groups, saved):
            new_group["params"] = group["params"]
            if "param_names" in group and "param_names" not in new_group:
                new_group["param_names"] = group["param_names"]
        self.__setstate__({"state": state, "param_groups": saved})
        post_hooks = self._optimizer_load_state_dict_post_hooks  # type: ignore[attr-defined]
        for hook in post_hooks.values():
            hook(self)

    # hooks

    def _add_hook(self, kind: str, hook: Callable[..., Any], prepend: bool) -> RemovableHandle:
        hooks = getattr(self, kind)
        handle = RemovableHandle(hooks)
        hooks[handle.id] = hook
        if prepend:
            hooks.move_to_end(handle.id, last=False)
        return handle

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Runs ``hook(optimizer, args, kwargs)`` before ``step``."""
        return self._add_hook("_optimizer_step_pre_hooks", hook, False)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Runs ``hook(optimizer, args, kwargs)`` after ``step``."""
        return self._add_hook("_optimizer_step_post_hooks", hook, False)

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Runs ``hook(optimizer)`` before ``state_dict``."""
        return self._add_hook("_optimizer_state_dict_pre_hooks", hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Runs ``hook(optimizer, state_dict)`` after ``state_dict``; its result replaces it."""
        return self._add_hook("_optimizer_state_dict_post_hooks", hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Runs ``hook(optimizer, state_dict)`` before loading; its result replaces the dict."""
        return self._add_hook("_optimizer_load_state_dict_pre_hooks", hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Runs ``hook(optimizer)`` after loading."""
        return self._add_hook("_optimizer_load_state_dict_post_hooks", hook, prepend)


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """``step`` between the optimizer's pre and post hooks."""

    @wraps(step)
    def hooked(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        for hook in self._optimizer_step_pre_hooks.values():  # type: ignore[attr-defined]
            new = hook(self, args, kwargs)
            if new is not None:
                if not (isinstance(new, tuple) and len(new) == 2):
                    raise RuntimeError(
                        f"{type(self).__name__}.step must return None or a tuple of "
                        f"(new_args, new_kwargs), but got {new}."
                    )
                args, kwargs = new
        result = step(self, *args, **kwargs)
        for hook in self._optimizer_step_post_hooks.values():  # type: ignore[attr-defined]
            hook(self, args, kwargs)
        return result

    return hooked


Optimizer.step = _with_hooks(Optimizer.step)  # type: ignore[method-assign]


def _cast_state(param: Tensor, value: Any, key: str | None = None) -> Any:
    """A copy of loaded state; float tensors but 'step' take the parameter's dtype."""
    if isinstance(value, Tensor):
        if key == "step" or not (param.is_floating_point() or param.is_complex()):
            return value.detach().clone()
        return value.detach().to(param.dtype, copy=True)
    if isinstance(value, dict):
        return {k: _cast_state(param, v, key=k) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast_state(param, v) for v in value)
    return value


def as_real(
    param: Tensor, grad: Tensor, state: dict[str, Any]
) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """The same, with complex tensors seen as their parts: each part is a parameter of its own."""
    if not param.is_complex():
        return param, grad, state
    views = {
        key: cograd.view_as_real(value)
        if isinstance(value, Tensor) and value.is_complex()
        else value
        for key, value in state.items()
    }
    return cograd.view_as_real(param), cograd.view_as_real(grad), views


def step_count(state: dict[str, Any]) -> float:
    """Adds one to ``state['step']``, a 0-dim float32 tensor as in torch, and returns it."""
    step = state["step"]
    step += 1
    return float(step.item())


def new_step() -> Tensor:
    """The step counter at zero."""
    return cograd.tensor(0.0, dtype=cograd.float32)


def params_with_grad(group: dict[str, Any]) -> Iterable[tuple[Tensor, Tensor]]:
    """(parameter, gradient) of those that have one; negated if the group maximizes."""
    maximize = group["maximize"]
    for param in group["params"]:
        grad = param.grad
        if grad is not None:
            yield param, (grad.neg() if maximize else grad)
