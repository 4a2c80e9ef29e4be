# SPDX-License-Identifier: BSD-3-Clause
"""Module: the base class of everything that owns parameters."""

from __future__ import annotations

import functools
import itertools
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import cograd
from cograd import Tensor
from cograd.overrides import refuse_torch
from cograd.utils.hooks import BackwardHook

from ..parameter import Buffer, Parameter, is_lazy
from . import _hooks, _to
from ._access import AccessMixin, typename
from ._hooks import (
    HookMixin,
    _GlobalState,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from ._hooks import _global_backward_hooks as _global_backward_hooks
from ._hooks import _global_backward_pre_hooks as _global_backward_pre_hooks
from ._hooks import _global_buffer_registration_hooks as _global_buffer_registration_hooks
from ._hooks import _global_forward_hooks as _global_forward_hooks
from ._hooks import _global_forward_hooks_always_called as _global_forward_hooks_always_called
from ._hooks import _global_forward_hooks_with_kwargs as _global_forward_hooks_with_kwargs
from ._hooks import _global_forward_pre_hooks as _global_forward_pre_hooks
from ._hooks import _global_module_registration_hooks as _global_module_registration_hooks
from ._hooks import _global_parameter_registration_hooks as _global_parameter_registration_hooks
from ._state import _EXTRA_STATE_KEY_SUFFIX as _EXTRA_STATE_KEY_SUFFIX
from ._state import StateMixin
from ._state import _IncompatibleKeys as _IncompatibleKeys

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

_HOOK_DICTS = (
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_backward_pre_hooks",
    "_backward_hooks",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


def _indent(text: str) -> str:
    """Indents every line of ``text`` but the first by two columns."""
    return text.replace("\n", "\n  ")


# Devices with memory, between which the data of a parameter can move.
_REAL = {"cpu", "cuda", "fake"}


class Module(StateMixin, HookMixin, AccessMixin):
    """Base class of layers and models: holds parameters, buffers and child modules.

    Subclasses call ``super().__init__()``, assign parameters and modules as attributes and define
    ``forward``. Calling the module runs ``forward`` and the hooks. ``train()`` and ``eval()`` set
    ``training`` of the module and of all its descendants.

    Args:
        args, kwargs: refused, unless the class sets ``call_super_init``.

    Raises:
        TypeError: there are arguments.
        NotImplementedError: the module is called and has no ``forward``.
        AttributeError: a parameter is assigned before ``super().__init__()``.

    Shape:
        - input and output: those of ``forward``.
    """

    training: bool
    dump_patches = False
    call_super_init = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        name = type(self).__name__
        if not self.call_super_init and kwargs:
            raise TypeError(
                f"{name}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'"
            )
        if not self.call_super_init and args:
            raise TypeError(
                f"{name}.__init__() takes 1 positional argument but {len(args) + 1} were given"
            )
        state = self.__dict__
        state["training"] = True
        state["_parameters"] = {}
        state["_buffers"] = {}
        state["_non_persistent_buffers_set"] = set()
        state["_modules"] = {}
        for hooks in _HOOK_DICTS:
            state[hooks] = OrderedDict()
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    # calling

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Computes the module's output; subclasses define it."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs ``forward`` and, if there are any, the hooks."""
        if self._hooked or _GlobalState.hooked:
            return self._call_with_hooks(args, kwargs)
        return self.forward(*args, **kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        return Module.__call__(self, *args, **kwargs)

    def _backward_hook_lists(self) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
        """Returns the full backward hooks, the legacy ones, and the backward pre-hooks."""
        everywhere = tuple(_hooks._global_backward_hooks.values())
        own = tuple(self._backward_hooks.values())
        old_everywhere = _GlobalState.full_backward is False
        old_own = self._is_full_backward_hook is False
        full = (() if old_everywhere else everywhere) + (() if old_own else own)
        old = (everywhere if old_everywhere else ()) + (own if old_own else ())
        pre = (*_hooks._global_backward_pre_hooks.values(), *self._backward_pre_hooks.values())
        return full, old, pre

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        full, old, pre = self._backward_hook_lists()
        done: set[int] = set()
        result = run = None
        try:
            args, kwargs = self._run_forward_pre_hooks(args, kwargs)
            run = BackwardHook(self, full, pre) if full or pre else None
            if run is not None:
                args = run.setup_input_hook(args)
            result = self.forward(*args, **kwargs)
            for key, hook in self._forward_hook_items():
                done.add(key)
                new = self._run_forward_hook(key, hook, args, kwargs, result)
                result = result if new is None else new
            if run is not None:
                if not isinstance(result, (Tensor, tuple)):
                    warnings.warn(
                        "For backward hooks to be called, module output should be a Tensor or a "
                        f"tuple of Tensors but received {type(result)}",
                        stacklevel=3,
                    )
                result = run.setup_output_hook(result)
            if old:
                self._run_old_backward_hooks(old, args, result)
            return result
        except Exception:
            self._run_always_called(done, args, kwargs, result)
            if run is not None:
                run.abandon()
            raise

    def _run_old_backward_hooks(
        self, hooks: tuple[Any, ...], args: tuple[Any, ...], result: Any
    ) -> None:
        """Registers ``hooks`` on the grad_fn of the first tensor in ``result``."""
        first = result
        while not isinstance(first, Tensor):
            if isinstance(first, dict):
                first = next(v for v in first.values() if isinstance(v, Tensor))
            else:
                first = first[0]
        node = first.grad_fn
        if node is None:
            return
        for hook in hooks:
            node.register_hook(functools.partial(hook, self))
        below = {n for n, _ in node.next_functions if n is not None}
        wanted = {a.grad_fn for a in args if isinstance(a, Tensor) and a.requires_grad}
        if not isinstance(result, Tensor) or not (below & wanted) or len(args) != 1:
            warnings.warn(
                "Using a non-full backward hook when the forward contains multiple autograd Nodes "
                "is deprecated and will be removed in future versions. This hook will be missing "
                "some grad_input. Please use register_full_backward_hook to get the documented "
                "behavior.",
                FutureWarning,
                stacklevel=4,
            )

    def _run_forward_pre_hooks(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        hooks = (*_hooks._global_forward_pre_hooks.items(), *self._forward_pre_hooks.items())
        for key, hook in hooks:
            if key in self._forward_pre_hooks_with_kwargs:
                new = hook(self, args, kwargs)
                if new is None:
                    continue
                if not (isinstance(new, tuple) and len(new) == 2):
                    raise RuntimeError(
                        "forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
                        f"but got {new}."
                    )
                args, kwargs = new
            else:
                new = hook(self, args)
                if new is not None:
                    args = new if isinstance(new, tuple) else (new,)
        return args, kwargs

    def _forward_hook_items(self) -> tuple[tuple[int, Any], ...]:
        return (*_hooks._global_forward_hooks.items(), *self._forward_hooks.items())

    def _run_forward_hook(
        self, key: int, hook: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> Any:
        wants_kwargs = (
            key in self._forward_hooks_with_kwargs
            or key in _hooks._global_forward_hooks_with_kwargs
        )
        return hook(self, args, kwargs, result) if wants_kwargs else hook(self, args, result)

    def _run_always_called(
        self, done: set[int], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> None:
        """Runs the ``always_call`` hooks that an exception during the call has skipped."""
        for key, hook in self._forward_hook_items():
            always = (
                key in self._forward_hooks_always_called
                or key in _hooks._global_forward_hooks_always_called
            )
            if key in done or not always:
                continue
            try:
                new = self._run_forward_hook(key, hook, args, kwargs, result)
                result = result if new is None else new
            except Exception as error:
                warnings.warn(
                    "module forward hook with ``always_call=True`` raised an exception that was "
                    f"silenced as another error was raised in forward: {error}",
                    stacklevel=4,
                )

    # attributes

    def __getattr__(self, name: str) -> Any:
        state = self.__dict__
        if "_modules" in state:
            members = state["_parameters"]
            if name in members:
                return members[name]
            members = state["_modules"]
            if name in members:
                return members[name]
            members = state["_buffers"]
            if name in members:
                return members[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def _drop(self, name: str, keep: str) -> None:
        """Removes ``name`` from everywhere but the dict ``keep``."""
        self.__dict__.pop(name, None)
        for kind in ("_parameters", "_buffers", "_modules"):
            if kind != keep:
                self.__dict__.get(kind, {}).pop(name, None)
        if keep != "_buffers":
            self.__dict__.get("_non_persistent_buffers_set", set()).discard(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if not isinstance(value, (Tensor, Module)):
            state = self.__dict__
            if "_modules" not in state or not (
                name in state["_parameters"]
                or name in state["_modules"]
                or name in state["_buffers"]
            ):
                object.__setattr__(self, name, value)
                return
        self._set_member(name, value)

    def _set_member(self, name: str, value: Any) -> None:
        """Assigns a tensor or a module to any name, or any value to the name of a member."""
        state = self.__dict__
        ready = "_modules" in state
        is_buffer = isinstance(value, Buffer)
        if isinstance(value, Module):
            if not ready:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._drop(name, "_modules")
            hooks = _hooks._global_module_registration_hooks
            self._modules[name] = _hooks.registered(hooks, self, name, value) if hooks else value
        elif isinstance(value, Parameter):
            if not ready:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._drop(name, "_parameters")
            self.register_parameter(name, value)
        elif ready and name in self._parameters:
            self._clear_slot("parameter", "Parameter", self._parameters, name, value)
        elif ready and name in self._modules:
            self._clear_slot("child module", "Module", self._modules, name, value)
        elif is_buffer:
            self._drop(name, "_buffers")
            self.register_buffer(name, value, value.persistent)
        elif ready and name in self._buffers:
            if value is not None and not isinstance(value, Tensor):
                refuse_torch("Module.__setattr__", value)
                raise TypeError(
                    f"cannot assign '{typename(value)}' as buffer '{name}' "
                    "(cograd.nn.Buffer, cograd.Tensor or None expected)"
                )
            hooks = _hooks._global_buffer_registration_hooks
            self._buffers[name] = _hooks.registered(hooks, self, name, value) if hooks else value
        else:
            object.__setattr__(self, name, value)

    def _clear_slot(
        self, what: str, allowed: str, members: dict[str, Any], name: str, value: Any
    ) -> None:
        """Sets a registered parameter or module to None; raises TypeError for any other value."""
        if value is not None:
            refuse_torch("Module.__setattr__", value)
            raise TypeError(
                f"cannot assign '{typename(value)}' as {what} '{name}' "
                f"(cograd.nn.{allowed} or None expected)"
            )
        members[name] = None

    def __delattr__(self, name: str) -> None:
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = [
            *dir(type(self)),
            *self.__dict__,
            *self._parameters,
            *self._modules,
            *self._buffers,
        ]
        return sorted(name for name in names if not name[:1].isdigit())

    # conversion

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replaces the data of all parameters and buffers by ``fn`` of it; keeps the objects.

        A parameter that moves to or from the meta device becomes a new object.
        """
        if recurse:
            for child in self.children():
                child._apply(fn)
        for name, param in self._parameters.items():
            if param is None:
                continue
            with cograd.no_grad():
                made = fn(param if is_lazy(param) else param.detach())
                grad, param.grad = param.grad, None
                if made.device == param.device or {made.device.type, param.device.type} <= _REAL:
                    param.data = made
                else:
                    if is_lazy(param):
                        kind: Any = type(param)
                        param = kind(param.requires_grad, made.device, made.dtype)
                    else:
                        param = Parameter(made, param.requires_grad)
                    self._parameters[name] = param
                if grad is not None:
                    param.grad = fn(grad.detach()).requires_grad_(grad.requires_grad)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def apply(self, fn: Callable[[Any], None]) -> Self:
        """Calls ``fn`` on every descendant, innermost first, then on this module."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Converts in place: ``to(device, dtype, non_blocking)``, ``to(dtype)`` or ``to(tensor)``.

        The dtype is applied only to floating-point parameters and buffers, ``memory_format`` only
        to those of four and five dims.
        """
        device, dtype, memory_format = _to.parse(args, kwargs)

        def convert(tensor: Tensor) -> Tensor:
            if device is not None and tensor.device != cograd.device(device):
                tensor = tensor.to(device)
            if dtype is not None and (tensor.is_floating_point() or tensor.is_complex()):
                tensor = tensor.to(dtype)
            if memory_format is not None and tensor.dim() in (4, 5):
                tensor = tensor.to(memory_format=memory_format)
            return tensor

        return self._apply(convert)

    def _to_float_dtype(self, dtype: Any) -> Self:
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def type(self, dst_type: Any) -> Self:
        """Casts all parameters and buffers to ``dst_type``."""
        return self._apply(lambda t: t.to(dst_type))

    def float(self) -> Self:
        """Casts floating-point parameters and buffers to float32."""
        return self._to_float_dtype(cograd.float32)

    def double(self) -> Self:
        """Casts floating-point parameters and buffers to float64."""
        return self._to_float_dtype(cograd.float64)

    def half(self) -> Self:
        """Casts floating-point parameters and buffers to float16."""
        return self._to_float_dtype(cograd.float16)

    def bfloat16(self) -> Self:
        """Casts floating-point parameters and buffers to bfloat16."""
        return self._to_float_dtype(cograd.bfloat16)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Does nothing: there is no compiler; see ``cograd.compile``."""

    def cuda(self, device: Any = None) -> Self:
        """Moves everything to a GPU; None is the current one."""
        return self._apply(lambda t: t.cuda(device))

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Gives every parameter and buffer uninitialised memory on ``device``."""
        return self._apply(lambda t: cograd.empty_like(t, device=device), recurse=recurse)

    def cpu(self) -> Self:
        """Moves everything to the CPU."""
        return self._apply(lambda t: t.cpu())

    # modes

    def train(self, mode: bool = True) -> Self:
        """Sets the training mode of the module and of all its descendants."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self) -> Self:
        """Calls ``train(False)``."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Sets ``requires_grad`` of every parameter."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Sets the gradients of all parameters to None, or fills them with zeros."""
        for param in self.parameters():
            if param.grad is None:
                continue
            if set_to_none:
                param.grad = None
            else:
                if param.grad.grad_fn is not None:
                    param.grad.detach_()
                else:
                    param.grad.requires_grad_(False)
                param.grad.zero_()

    def share_memory(self) -> Self:
        """Moves parameters, their gradients, and buffers to memory shared with child processes."""
        for tensor in itertools.chain(self.parameters(), self.buffers()):
            tensor.share_memory_()
            if tensor.grad is not None:
                tensor.grad.share_memory_()
        return self

    # text and copies

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """Returns the text inside the parentheses of ``repr``; subclasses override it."""
        return ""

    def _repr_children(self) -> Iterator[str]:
        for name, module in self._modules.items():
            yield f"({name}): {_indent(repr(module))}"

    def __repr__(self) -> str:
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        child_lines = list(self._repr_children())
        head = self._get_name() + "("
        if len(extra_lines) == 1 and not child_lines:
            return head + extra_lines[0] + ")"
        lines = extra_lines + child_lines
        if not lines:
            return head + ")"
        return head + "\n  " + "\n  ".join(lines) + "\n)"

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for hooks in _HOOK_DICTS:
            self.__dict__.setdefault(hooks, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        if any(self.__dict__[hooks] for hooks in _HOOK_DICTS):  # torch lacks the flag
            self.__dict__["_hooked"] = True
