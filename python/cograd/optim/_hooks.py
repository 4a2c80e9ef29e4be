# SPDX-License-Identifier: BSD-3-Clause
"""Registers hooks of one optimizer, and global hooks of all optimizers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from itertools import chain
from typing import Any

from cograd._base.handles import RemovableHandle

_Hooks = OrderedDict[int, Callable[..., Any]]
_global_pre_hooks: _Hooks = OrderedDict()
_global_post_hooks: _Hooks = OrderedDict()


def _add(hooks: _Hooks, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Runs ``hook(optimizer, args, kwargs)`` before every step of every optimizer.

    The first of ``args`` is the optimizer, too. If the hook returns something other than None, it
    must be a tuple of new args and kwargs.
    """
    return _add(_global_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Runs ``hook(optimizer, args, kwargs)`` after every step of every optimizer."""
    return _add(_global_post_hooks, hook)


class Hooked:
    """Stores the hooks of an optimizer; a mixin of Optimizer."""

    _optimizer_step_pre_hooks: _Hooks
    _optimizer_step_post_hooks: _Hooks
    _optimizer_state_dict_pre_hooks: _Hooks
    _optimizer_state_dict_post_hooks: _Hooks
    _optimizer_load_state_dict_pre_hooks: _Hooks
    _optimizer_load_state_dict_post_hooks: _Hooks

    def _init_hooks(self) -> None:
        for name in Hooked.__annotations__:
            setattr(self, name, OrderedDict())

    def _patch_step_function(self) -> None:
        """Does nothing: the class has wrapped ``step`` already. Other libraries call this."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:  # wrap a step that a user defines, too
            cls.step = _with_hooks(cls.__dict__["step"])  # type: ignore[attr-defined]

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Runs ``hook(optimizer, args, kwargs)`` before ``step``.

        The first of ``args`` is the optimizer, too. If the hook returns something other than None,
        it must be a tuple of new args and kwargs.
        """
        return _add(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Runs ``hook(optimizer, args, kwargs)`` after ``step``."""
        return _add(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Runs ``hook(optimizer)`` before ``state_dict``."""
        return _add(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Runs ``hook(optimizer, state_dict)`` after ``state_dict``; its result replaces it."""
        return _add(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Runs ``hook(optimizer, state_dict)`` before loading; its result replaces the dict."""
        return _add(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Runs ``hook(optimizer)`` after loading."""
        return _add(self._optimizer_load_state_dict_post_hooks, hook, prepend)


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """Returns ``step`` with the optimizer's pre-hooks and post-hooks around it."""

    @wraps(step)
    def hooked(self: Hooked, *args: Any, **kwargs: Any) -> Any:
        if "_optimizer_step_pre_hooks" not in self.__dict__:  # Optimizer.__init__ was not called
            self._init_hooks()
        args = (self, *args)  # torch's hooks see the arguments of the unbound method
        for hook in chain(_global_pre_hooks.values(), self._optimizer_step_pre_hooks.values()):
            new = hook(self, args, kwargs)
            if new is not None:
                if not (isinstance(new, tuple) and len(new) == 2):
                    raise RuntimeError(
                        f"{type(self).__name__}.step must return None or a tuple of "
                        f"(new_args, new_kwargs), but got {new}."
                    )
                args, kwargs = new
        result = step(*args, **kwargs)
        for hook in chain(self._optimizer_step_post_hooks.values(), _global_post_hooks.values()):
            hook(self, args, kwargs)
        return result

    return hooked
