# SPDX-License-Identifier: BSD-3-Clause
"""Registers hooks of one module, and global hooks of all modules."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from cograd._handles import RemovableHandle

Hook = Callable[..., Any]


class _GlobalState:
    """``hooked`` is True while global hooks exist: every call then leaves the fast path."""

    hooked = False
    full_backward: bool | None = None  # the kind of the global backward hooks


_global_forward_pre_hooks: dict[int, Hook] = OrderedDict()
_global_forward_hooks: dict[int, Hook] = OrderedDict()
_global_forward_hooks_with_kwargs: dict[int, bool] = OrderedDict()
_global_forward_hooks_always_called: dict[int, bool] = OrderedDict()
_global_backward_pre_hooks: dict[int, Hook] = OrderedDict()
_global_backward_hooks: dict[int, Hook] = OrderedDict()
_called_hooks = (
    _global_forward_pre_hooks,
    _global_forward_hooks,
    _global_backward_pre_hooks,
    _global_backward_hooks,
)
_global_buffer_registration_hooks: dict[int, Hook] = OrderedDict()
_global_module_registration_hooks: dict[int, Hook] = OrderedDict()
_global_parameter_registration_hooks: dict[int, Hook] = OrderedDict()


class _GlobalHandle(RemovableHandle):
    """The hook handle of a global hook; removing the last one makes calls fast again."""

    def remove(self) -> None:
        """Removes the hook; a second call does nothing."""
        super().remove()
        _GlobalState.hooked = any(_called_hooks)


def _register_global(hooks: dict[int, Hook], hook: Hook) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def registered(hooks: dict[int, Hook], module: Any, name: str, value: Any) -> Any:
    """Runs the registration hooks; returns ``value`` or what they returned in its place."""
    for hook in tuple(hooks.values()):
        new = hook(module, name, value)
        if new is not None:
            value = new
    return value


def register_module_buffer_registration_hook(hook: Hook) -> RemovableHandle:
    """Runs ``hook(module, name, buffer)`` for every buffer that is registered.

    If the hook returns a tensor, that tensor is stored instead.
    """
    return _register_global(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook: Hook) -> RemovableHandle:
    """Runs ``hook(module, name, submodule)`` for every child that is registered.

    If the hook returns a module, that module is stored instead.
    """
    return _register_global(_global_module_registration_hooks, hook)


def register_module_parameter_registration_hook(hook: Hook) -> RemovableHandle:
    """Runs ``hook(module, name, param)`` for every parameter that is registered.

    If the hook returns a parameter, that parameter is stored instead.
    """
    return _register_global(_global_parameter_registration_hooks, hook)


def register_module_forward_pre_hook(hook: Hook) -> RemovableHandle:
    """Runs ``hook(module, args)`` before the forward of every module."""
    handle = _GlobalHandle(_global_forward_pre_hooks)
    _global_forward_pre_hooks[handle.id] = hook
    _GlobalState.hooked = True
    return handle


def register_module_forward_hook(
    hook: Hook, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Runs ``hook(module, args, output)`` after the forward of every module."""
    handle = _GlobalHandle(
        _global_forward_hooks,
        extra_dict=[_global_forward_hooks_with_kwargs, _global_forward_hooks_always_called],
    )
    _global_forward_hooks[handle.id] = hook
    _GlobalState.hooked = True
    if with_kwargs:
        _global_forward_hooks_with_kwargs[handle.id] = True
    if always_call:
        _global_forward_hooks_always_called[handle.id] = True
    return handle


def register_module_full_backward_pre_hook(hook: Hook) -> RemovableHandle:
    """Runs ``hook(module, grad_output)`` before the backward of every module."""
    handle = _GlobalHandle(_global_backward_pre_hooks)
    _global_backward_pre_hooks[handle.id] = hook
    _GlobalState.hooked = True
    return handle


def _set_global_backward_kind(full: bool) -> None:
    if _GlobalState.full_backward is (not full) and _global_backward_hooks:
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module "
            "hook. Please use only one of them."
        )
    _GlobalState.full_backward = full


def register_module_backward_hook(hook: Hook) -> RemovableHandle:
    """Deprecated. Runs ``hook(module, grad_input, grad_output)`` after every module's last op."""
    _set_global_backward_kind(False)
    handle = _GlobalHandle(_global_backward_hooks)
    _global_backward_hooks[handle.id] = hook
    _GlobalState.hooked = True
    return handle


def register_module_full_backward_hook(hook: Hook) -> RemovableHandle:
    """Runs ``hook(module, grad_input, grad_output)`` after the backward of every module."""
    _set_global_backward_kind(True)
    handle = _GlobalHandle(_global_backward_hooks)
    _global_backward_hooks[handle.id] = hook
    _GlobalState.hooked = True
    return handle


class HookMixin:
    """Registration methods of Module. If ``_hooked`` is True, ``__call__`` leaves its fast path."""

    _hooked = False
    _is_full_backward_hook: bool | None = None
    _forward_pre_hooks: dict[int, Hook]
    _forward_hooks: dict[int, Hook]
    _backward_pre_hooks: dict[int, Hook]
    _backward_hooks: dict[int, Hook]
    _forward_pre_hooks_with_kwargs: dict[int, bool]
    _forward_hooks_with_kwargs: dict[int, bool]
    _forward_hooks_always_called: dict[int, bool]

    def _add_hook(
        self, hooks: dict[int, Hook], hook: Hook, prepend: bool, flags: dict[str, bool]
    ) -> RemovableHandle:
        """Stores ``hook`` and sets, under the same id, the flag dicts named in ``flags``."""
        extra = [getattr(self, name) for name in flags]
        handle = RemovableHandle(hooks, extra_dict=extra)
        hooks[handle.id] = hook
        if prepend:
            hooks.move_to_end(handle.id, last=False)  # type: ignore[attr-defined]
        for flag_dict, wanted in zip(extra, flags.values()):
            if wanted:
                flag_dict[handle.id] = True
        object.__setattr__(self, "_hooked", True)
        return handle

    def register_forward_pre_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Runs ``hook(module, args)`` before ``forward``; its result replaces ``args``.

        With ``with_kwargs`` it runs ``hook(module, args, kwargs)``, which may return both.
        """
        flags = {"_forward_pre_hooks_with_kwargs": with_kwargs}
        return self._add_hook(self._forward_pre_hooks, hook, prepend, flags)

    def register_forward_hook(
        self,
        hook: Hook,
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Runs ``hook(module, args, output)`` after ``forward``; its result replaces the output.

        With ``with_kwargs`` it runs ``hook(module, args, kwargs, output)``; with ``always_call``
        it also runs when ``forward`` raises.
        """
        flags = {
            "_forward_hooks_with_kwargs": with_kwargs,
            "_forward_hooks_always_called": always_call,
        }
        return self._add_hook(self._forward_hooks, hook, prepend, flags)

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Runs ``hook(module, grad_output)`` before the module's backward.

        If the hook returns a tuple (or tensor), that replaces ``grad_output``.
        """
        return self._add_hook(self._backward_pre_hooks, hook, prepend, {})

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Runs ``hook(module, grad_input, grad_output)`` when the input gradients are known.

        If the hook returns a tuple (or tensor), that replaces ``grad_input``.
        """
        self._set_backward_kind(True)
        return self._add_hook(self._backward_hooks, hook, prepend, {})

    def register_backward_hook(self, hook: Hook) -> RemovableHandle:
        """Deprecated. Runs ``hook(module, grad_input, grad_output)`` after the output's last op.

        Use ``register_full_backward_hook``, which receives the gradients of the module's inputs.
        """
        self._set_backward_kind(False)
        return self._add_hook(self._backward_hooks, hook, False, {})

    def _set_backward_kind(self, full: bool) -> None:
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single "
                "Module. Please use only one of them."
            )
        object.__setattr__(self, "_is_full_backward_hook", full)
