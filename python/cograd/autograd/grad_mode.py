# SPDX-License-Identifier: BSD-3-Clause
"""Grad modes: context managers and decorators for functions and generator functions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from cograd import _C

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "enable_grad",
    "enforce_grad_layout_policy",
    "inference_mode",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]

F = TypeVar("F", bound=Callable[..., Any])


def decorated(make: Callable[[], Any], func: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps ``func`` so that each call, or each step of a generator, runs inside ``make()``."""
    if inspect.isgeneratorfunction(func):
        return _step_by_step(make, func)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with make():
            return func(*args, **kwargs)

    return wrapper


def _step_by_step(make: Callable[[], Any], func: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a generator function: enters while it runs, exits while it is suspended."""

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        gen = func(*args, **kwargs)
        try:
            with make():
                response = gen.send(None)
            while True:
                try:
                    request = yield response
                except GeneratorExit:
                    with make():
                        gen.close()
                    raise
                except BaseException as error:
                    with make():
                        response = gen.throw(error)
                else:
                    with make():
                        response = gen.send(request)
        except StopIteration as stop:
            return stop.value

    return wrapper


class _Mode:
    """A context manager and decorator; each call of a decorated function enters a new manager."""

    def clone(self) -> _Mode:
        """Returns a new manager with the same arguments."""
        return type(self)()

    def __enter__(self) -> None:
        raise NotImplementedError

    def __exit__(self, *exc: object) -> None:
        raise NotImplementedError

    def __call__(self, func: F) -> F:
        """Decorates ``func``: a function, a generator function, or a class (its ``__init__``)."""
        if inspect.isclass(func):
            func.__init__ = self(func.__init__)  # type: ignore[method-assign]
            return cast(F, func)
        return cast(F, decorated(self.clone, func))


class _NoArgMode(_Mode):
    """A mode that can be used as ``@no_grad`` as well as ``@no_grad()``."""

    @overload
    def __new__(cls, orig_func: F) -> F: ...  # type: ignore[misc]

    @overload
    def __new__(cls, orig_func: None = None) -> Self: ...

    def __new__(cls, orig_func: Any = None) -> Any:
        self = super().__new__(cls)
        return self if orig_func is None else self(orig_func)

    def __init__(self, orig_func: Any = None) -> None:
        self.prev = False


class no_grad(_NoArgMode):
    """Disables recording of ops in a block, or in each call of a decorated function.

    Results do not require grad and save nothing for backward. Forward mode is not affected.
    Thread-local; ``enable_grad`` inside records again.
    """

    __enter__ = _C._enter_no_grad
    __exit__ = _C._exit_grad


class enable_grad(_NoArgMode):
    """Enables recording of ops in a block or call, also inside ``no_grad``. Thread-local."""

    __enter__ = _C._enter_enable_grad
    __exit__ = _C._exit_grad


class set_grad_enabled(_Mode):
    """Sets recording immediately; as a context manager, restores the former mode at the end.

    Args:
        mode: whether ops are recorded.
    """

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(f"set_grad_enabled(): mode must be bool, not {type(mode).__name__}")
        self.mode = mode
        self.prev = _C._set_grad_enabled(mode)

    def __call__(self, func: F) -> F:
        _C._set_grad_enabled(self.prev)  # a decorator must not change the mode at its definition
        return super().__call__(func)

    def clone(self) -> set_grad_enabled:
        return type(self)(self.mode)

    def __repr__(self) -> str:
        return f"{type(self).__module__}.{type(self).__qualname__}(mode={self.mode})"

    __enter__ = _C._enter_set_grad
    __exit__ = _C._exit_grad


class inference_mode(_Mode):
    """Disables recording and marks new tensors, so that they cannot enter a graph later.

    Args:
        mode: False leaves inference mode for the block.
    """

    @overload
    def __new__(cls, mode: F) -> F: ...  # type: ignore[misc]

    @overload
    def __new__(cls, mode: bool = True) -> Self: ...

    def __new__(cls, mode: Any = True) -> Any:
        if isinstance(mode, bool):
            return super().__new__(cls)
        return cls()(mode)

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode
        self.prev = (False, True)

    def clone(self) -> inference_mode:
        return type(self)(self.mode)

    __enter__ = _C._enter_inference
    __exit__ = _C._exit_inference


class set_multithreading_enabled(_Mode):
    """Sets whether backward runs started on this thread may use more than one thread.

    Takes effect immediately; as a context manager, restores the former setting at the end.

    Args:
        mode: False keeps runs on the calling thread, independent of ``set_num_backward_threads``.
    """

    def __init__(self, mode: bool) -> None:
        self.mode = mode
        self.prev = _C._set_multithreading(bool(mode))

    def __call__(self, func: F) -> F:
        _C._set_multithreading(self.prev)
        return super().__call__(func)

    def clone(self) -> set_multithreading_enabled:
        return type(self)(self.mode)

    __enter__ = _C._enter_set
    __exit__ = _C._exit_multithreading


class enforce_grad_layout_policy:
    """Stores a flag, as a call or a context manager: gradients have the layout of their tensors.

    Without the flag another layout is allowed but not required, so the flag has no effect.

    Args:
        enable: the flag.
    """

    def __init__(self, enable: bool = True) -> None:
        self.enable = bool(enable)

    def __enter__(self) -> None:
        """Does nothing."""

    def __exit__(self, *exc: object) -> None:
        """Does nothing."""
