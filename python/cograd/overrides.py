# SPDX-License-Identifier: BSD-3-Clause
"""Overriding ops: types and modes with ``__cograd_function__`` or ``__torch_function__``.

An op tries overrides in this order: the innermost mode, then each overriding type among its
arguments and the items of lists and tuples, subclasses before their bases. The first result that
is not NotImplemented is the op's result. Tensor subclasses inherit an override: their results are
of the subclass. ``Parameter`` and ``Buffer`` do not.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

import cograd
from cograd import _C
from cograd._C import Tensor

__all__ = [
    "BaseTorchFunctionMode",
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "TorchFunctionMode",
    "get_default_nowrap_functions",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "wrap_torch_function",
]

_NAMES = ("__cograd_function__", "__torch_function__")
_disabled = _C._disabled_torch_function_impl


def _protocol_name(kind: type) -> str:
    """Returns which of the two names the most derived class of ``kind`` defines, or ""."""
    for base in kind.__mro__:
        for name in _NAMES:
            if name in vars(base):
                # PyTorch's tensors define the method too, but not for cograd's functions.
                foreign = base is not Tensor and base.__module__.split(".")[0] == "torch"
                return "" if foreign and sys.modules.get("torch") is not cograd else name
    return ""


def _protocol(kind: type) -> Any:
    """Returns the bound protocol method of ``kind``, or None."""
    name = _protocol_name(kind)
    method = getattr(kind, name) if name else None
    return None if method is _disabled else method


def _overloaded(args: Iterable[Any]) -> list[Any]:
    """Returns the overriding arguments, one per type, subclasses before their bases."""
    found: list[Any] = []
    for arg in args:
        kind = type(arg)
        if kind is Tensor or any(type(other) is kind for other in found):
            continue
        if _protocol(kind) is None:
            continue
        place = len(found)
        for i, other in enumerate(found):
            if issubclass(kind, type(other)):
                place = i
                break
        found.insert(place, arg)
    return found


class _ThreadModes(threading.local):
    def __init__(self) -> None:
        self.stack: list[Any] = []


_modes = _ThreadModes()


def _call_mode(
    func: Callable[..., Any], types: tuple[type, ...], args: Any, kwargs: dict[str, Any]
) -> Any:
    """Calls the innermost mode; while it runs, the next outer mode is the innermost."""
    name = _protocol_name(type(_modes.stack[-1]))
    return _C._call_function_mode(name, func, types, args, kwargs)


def _dispatch(func: Callable[..., Any], candidates: Any, args: Any, kwargs: Any) -> Any:
    """Runs the overrides of an op that has candidates; NotImplemented if none of them overrides."""
    found = _overloaded(candidates)
    modes = bool(_modes.stack) and _C._overrides_off() < 2
    if not found and not modes:
        return NotImplemented
    types = tuple(map(type, found))
    if modes:
        result = _call_mode(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    for arg in found:
        method = _protocol(type(arg))
        result = method(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    name = getattr(func, "__name__", repr(func))
    who = [kind.__name__ for kind in types]
    if modes:
        who.insert(0, type(_modes.stack[-1]).__name__)
    raise TypeError(
        f"Multiple dispatch failed for 'cograd.{name}'; all __torch_function__ handlers returned "
        f"NotImplemented: {', '.join(who)}"
    )


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Returns whether one of the arguments, or a mode, overrides functions."""
    off = _C._overrides_off()
    if off >= 2:
        return False
    return bool(_modes.stack) or (off == 0 and bool(_overloaded(relevant_args)))


def has_torch_function_unary(arg: Any) -> bool:
    """Returns ``has_torch_function((arg,))``."""
    if type(arg) is Tensor and not _modes.stack:
        return False
    return has_torch_function((arg,))


def has_torch_function_variadic(*args: Any) -> bool:
    """Returns ``has_torch_function(args)``."""
    return has_torch_function(args)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Returns the overriding arguments' or modes' result for ``public_api(*args, **kwargs)``.

    Raises:
        TypeError: all of them returned NotImplemented, or nothing overrides the function.
    """
    candidates = relevant_args if _C._overrides_off() == 0 else ()
    result = _dispatch(public_api, candidates, args, kwargs)
    if result is NotImplemented:
        raise TypeError(
            f"handle_torch_function(): no argument of {public_api!r} overrides functions"
        )
    return result


def wrap_torch_function(
    dispatcher: Callable[..., Any],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorates a function so that it can be overridden.

    Args:
        dispatcher: accepts the function's arguments, returns those that may override it.
    """

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapped

    return decorate


def is_tensor_like(value: Any) -> bool:
    """Returns whether ``value`` is a Tensor or has the override protocol."""
    return isinstance(value, Tensor) or any(hasattr(type(value), name) for name in _NAMES)


@functools.cache
def get_default_nowrap_functions() -> frozenset[Any]:
    """Returns the functions whose results keep their class by default."""
    return frozenset((Tensor._make_subclass, Tensor.as_subclass))


class DisableTorchFunctionSubclass:
    """Disables overrides by types, but not by modes, while active. Thread-local."""

    _level = 1

    __enter__ = _C._enter_overrides_off
    __exit__ = _C._exit_overrides_off


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """Disables all overrides while active. Thread-local."""

    _level = 2


class TorchFunctionMode:
    """A context manager that intercepts every op called inside, on this thread.

    Subclass it and define ``__torch_function__(self, func, types, args=(), kwargs=None)`` (or
    ``__cograd_function__``). The mode is off while that method runs.
    """

    def __init__(self) -> None:
        pass

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define __torch_function__")

    __enter__ = _C._enter_function_mode
    __exit__ = _C._exit_function_mode


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


def _convert(value: Any, cls: type) -> Any:
    """Converts the tensors in ``value`` to ``cls``, unless they are of that class."""
    if cls is Tensor:
        return value
    if isinstance(value, Tensor):
        return value if isinstance(value, cls) else value._convert_result(cls)
    if isinstance(value, (tuple, list)):
        items = [_convert(item, cls) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _is_torchs(func: Any) -> bool:
    """Returns whether a function is PyTorch's own."""
    owners = (func, getattr(func, "__self__", None), getattr(func, "__objclass__", None))
    modules = (getattr(owner, "__module__", None) or "" for owner in owners)
    return any(module.partition(".")[0] == "torch" for module in modules)


def is_torch_tensor(value: Any) -> bool:
    """Returns whether ``value`` is a tensor of PyTorch, which cograd never imports."""
    return not isinstance(value, Tensor) and any(
        base.__name__ == "Tensor" and base.__module__ == "torch" for base in type(value).__mro__
    )


def refuse_torch(where: str, value: Any) -> None:
    """Raises a helpful TypeError for a PyTorch tensor, where ``value`` is invalid anyway."""
    if is_torch_tensor(value):
        raise TypeError(f"{where}(): got a torch.Tensor, but {_CONVERT}")


_CONVERT = (
    "cograd.Tensor and torch.Tensor do not mix in one call; convert it with "
    "cograd.from_dlpack(tensor), or the other way with torch.from_dlpack(tensor)"
)


def _default(
    cls: type, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
) -> Any:
    """Runs ``func`` as if there were no subclasses, and converts its tensors to ``cls``."""
    related = all(issubclass(cls, kind) for kind in types)
    # PyTorch's functions call this too; calling one of them from here would recurse.
    off = _C._overrides_off()
    if (off or not related) and _is_torchs(func):
        name = getattr(func, "__name__", repr(func))
        raise TypeError(f"torch.{name}(): got a cograd.Tensor, but {_CONVERT}")
    if not related:
        return NotImplemented
    kwargs = kwargs or {}
    result = func(*args, **kwargs) if off else _disabled(func, types, args, kwargs)
    return result if func in get_default_nowrap_functions() else _convert(result, cls)


def _announce(cls: Any, /, **kwargs: Any) -> None:
    """Makes ops check argument types from the first overriding subclass on (__init_subclass__).

    A rare class of the package may do so when an instance is made, to keep all other programs fast.
    """
    super(Tensor, cls).__init_subclass__(**kwargs)
    if _protocol(cls) is not None and "_announces_instances" not in cls.__dict__:
        _C._overrides_possible()


def _install() -> None:
    tensor: Any = Tensor
    tensor.__torch_function__ = classmethod(_default)
    tensor.__cograd_function__ = classmethod(_default)
    tensor.__init_subclass__ = classmethod(_announce)
    module: Any = _C
    module.DisableTorchFunctionSubclass = DisableTorchFunctionSubclass
    module.DisableTorchFunction = DisableTorchFunction


_install()
