# SPDX-License-Identifier: BSD-3-Clause
"""Hook registration of Module, and the graph points that feed its backward hooks."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import cograd
from cograd import Tensor

Hook = Callable[..., Any]


class RemovableHandle:
    """Removes one hook from the dicts it was put in. Works as a context manager too."""

    next_id = 0

    def __init__(self, hooks: dict[int, Any], *, extra_dict: Any = None) -> None:
        self.hooks_dict_ref = weakref.ref(hooks)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        extras = () if extra_dict is None else extra_dict
        if isinstance(extras, dict):
            extras = (extras,)
        self.extra_dict_ref = tuple(weakref.ref(extra) for extra in extras)

    def remove(self) -> None:
        """Takes the hook out; a second call does nothing."""
        for ref in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = ref()
            if hooks is not None and self.id in hooks:
                del hooks[self.id]

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


class _GlobalState:
    """``hooked`` is set by the first global registration and sends every call the slow way."""

    hooked = False


_global_forward_pre_hooks: dict[int, Hook] = OrderedDict()
_global_forward_hooks: dict[int, Hook] = OrderedDict()
_global_forward_hooks_with_kwargs: dict[int, bool] = OrderedDict()
_global_forward_hooks_always_called: dict[int, bool] = OrderedDict()
_global_backward_pre_hooks: dict[int, Hook] = OrderedDict()
_global_backward_hooks: dict[int, Hook] = OrderedDict()


def register_module_forward_pre_hook(hook: Hook) -> RemovableHandle:
    """Runs ``hook(module, args)`` before the forward of every module."""
    handle = RemovableHandle(_global_forward_pre_hooks)
    _global_forward_pre_hooks[handle.id] = hook
    _GlobalState.hooked = True
    return handle


def register_module_forward_hook(
    hook: Hook, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Runs ``hook(module, args, output)`` after the forward of every module."""
    handle = RemovableHandle(
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
    handle = RemovableHandle(_global_backward_pre_hooks)
    _global_backward_pre_hooks[handle.id] = hook
    _GlobalState.hooked = True
    return handle


def register_module_full_backward_hook(hook: Hook) -> RemovableHandle:
    """Runs ``hook(module, grad_input, grad_output)`` after the backward of every module."""
    handle = RemovableHandle(_global_backward_hooks)
    _global_backward_hooks[handle.id] = hook
    _GlobalState.hooked = True
    return handle


class HookMixin:
    """Registration methods of Module. ``_hooked`` tells ``__call__`` to leave its fast path."""

    _hooked = False
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
        """Stores ``hook`` and, under the same id, the flag dicts named in ``flags``."""
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
        """Runs ``hook(module, args)`` before ``forward``; what it returns replaces ``args``.

        With ``with_kwargs`` it is ``hook(module, args, kwargs)`` and may return both.
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

        With ``with_kwargs`` it is ``hook(module, args, kwargs, output)``; with ``always_call``
        it runs also when ``forward`` raises.
        """
        flags = {
            "_forward_hooks_with_kwargs": with_kwargs,
            "_forward_hooks_always_called": always_call,
        }
        return self._add_hook(self._forward_hooks, hook, prepend, flags)

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Runs ``hook(module, grad_output)`` before the module's backward.

        A tuple (or tensor) it returns replaces ``grad_output``.
        """
        return self._add_hook(self._backward_pre_hooks, hook, prepend, {})

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Runs ``hook(module, grad_input, grad_output)`` when the input gradients are known.

        A tuple (or tensor) it returns replaces ``grad_input``.
        """
        return self._add_hook(self._backward_hooks, hook, prepend, {})


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _replace(name: str, result: Any, grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """The gradients after a hook returned ``result``; None keeps them."""
    if result is None:
        return grads
    new = _as_tuple(result)
    if len(new) != len(grads):
        raise RuntimeError(
            f"{name} hook has returned an incorrect number of {name.lower()}: "
            f"got {len(new)}, but expected {len(grads)}"
        )
    return new


class BackwardRun:
    """Runs one call's full backward hooks: grads pass a point at the outputs, then the inputs."""

    def __init__(self, module: Any, hooks: Sequence[Hook], pre_hooks: Sequence[Hook]) -> None:
        self.module = module
        self.hooks = hooks
        self.pre_hooks = pre_hooks
        self.grad_outputs: tuple[Any, ...] | None = None
        self.input_count = 0
        self.has_input_point = False

    def at_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Marks the tensors of ``args`` whose gradients are the hooks' ``grad_input``."""
        slots = [i for i, a in enumerate(args) if isinstance(a, Tensor) and a.requires_grad]
        self.input_count = len(args)
        if not slots or not self.hooks or not cograd.is_grad_enabled():
            return args

        def run(*grads: Any) -> tuple[Any, ...]:
            if self.grad_outputs is None:  # this run did not come through the outputs
                return grads
            full: list[Any] = [None] * len(args)
            for slot, grad in zip(slots, grads):
                full[slot] = grad
            new = self._run_hooks(tuple(full))
            self.grad_outputs = None
            return tuple(new[slot] for slot in slots)

        self.has_input_point = True
        return _through_point(run, args, slots)

    def at_outputs(self, result: Any) -> Any:
        """Marks the tensors of ``result`` whose gradients are the hooks' ``grad_output``."""
        outputs = _as_tuple(result)
        slots = [i for i, o in enumerate(outputs) if isinstance(o, Tensor) and o.requires_grad]
        if not slots or not cograd.is_grad_enabled():
            return result

        def run(*grads: Any) -> tuple[Any, ...]:
            full: list[Any] = [None] * len(outputs)
            for slot, grad in zip(slots, grads):
                full[slot] = grad
            new = tuple(full)
            for hook in self.pre_hooks:
                new = _replace("Backward pre", hook(self.module, new), new)
            self.grad_outputs = new
            if not self.has_input_point and self.hooks:
                ignored = self._run_hooks((None,) * self.input_count, allow_change=False)
                del ignored
                self.grad_outputs = None
            return tuple(new[slot] for slot in slots)

        marked = _through_point(run, outputs, slots)
        return marked if isinstance(result, tuple) else marked[0]

    def _run_hooks(self, grads: tuple[Any, ...], allow_change: bool = True) -> tuple[Any, ...]:
        for hook in self.hooks:
            result = hook(self.module, grads, self.grad_outputs)
            if result is not None and not allow_change and any(r is not None for r in result):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient "
                    "should always return None or None for all gradients."
                )
            if allow_change:
                grads = _replace("Backward", result, grads)
        return grads


_point_class: Any = None


def _through_point(run: Hook, values: tuple[Any, ...], slots: list[int]) -> tuple[Any, ...]:
    """``values`` with those at ``slots`` passed through one graph node that calls ``run``."""
    global _point_class
    if _point_class is None:
        _point_class = _make_point_class()
    marked = _point_class.apply(run, *(values[slot] for slot in slots))
    full = list(values)
    for slot, tensor in zip(slots, _as_tuple(marked)):
        full[slot] = tensor
    return tuple(full)


def _make_point_class() -> Any:
    """The identity Function, made on first use: autograd is imported after nn."""

    class BackwardHook(cograd.autograd.Function):
        @staticmethod
        def forward(ctx: Any, run: Hook, *tensors: Tensor) -> tuple[Tensor, ...]:
            ctx.run = run
            ctx.set_materialize_grads(False)
            return tuple(tensor.view_as(tensor) for tensor in tensors)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
            return (None, *ctx.run(*grads))

    return BackwardHook
