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
    """``func``, of which each call enters what ``make()`` gives; of a generator, each step."""
    if inspect.isgeneratorfunction(func):
        return _step_by_step(make, func)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with make():
            return func(*args, **kwargs)

    return wrapper


def _step_by_step(make: Callable[[], Any], func: Callable[..., Any]) -> Callable[..., Any]:
    """Entered while the generator runs, and left while it is suspended."""

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
    """A context manager that is also a decorator; each call of the decorated enters a new one."""

    def clone(self) -> _Mode:
        """A fresh manager with the same arguments."""
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
    """A mode that may be used as ``@no_grad`` as well as ``@no_grad()``."""

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
    """Ops are not recorded within the block, or within each call of what it decorates.

    Results do not require grad and keep nothing for backward. Forward mode is not stopped. Of this
    thread only; ``enable_grad`` inside records again.
    """

    __enter__ = _C._enter_no_grad
    __exit__ = _C._exit_grad


class enable_grad(_NoArgMode):
    """Ops are recorded within the block or call, also in ``no_grad``. Of this thread only."""

    __enter__ = _C._enter_enable_grad
    __exit__ = _C._exit_grad


class set_grad_enabled(_Mode):
    """Sets recording at once; as a context manager the former mode comes back at the end.

    Args:
        mode: whether ops are recorded.
    """

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(f"set_grad_enabled(): mode must be bool, not {type(mode).__name__}")
        self.mode = mode
        self.prev = _C._set_grad_enabled(mode)

    def __call__(self, func: F) -> F:
        _C._set_grad_enabled(self.prev)  # a decorator must not change the mode where it is written
        return super().__call__(func)

    def clone(self) -> set_grad_enabled:
        return type(self)(self.mode)

    def __repr__(self) -> str:
        return f"{type(self).__module__}.{type(self).__qualname__}(mode={self.mode})"

    __enter__ = _C._enter_set_grad
    __exit__ = _C._exit_grad


class inference_mode(_Mode):
    """No recording, and the tensors made are marked: they cannot enter a graph later.

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
    """Whether backward runs started on this thread may use more than one thread.

    Takes effect at once; as a context manager the former setting comes back at the end.

    Args:
        mode: False keeps runs on the calling thread, whatever ``set_num_backward_threads`` says.
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
    """Keeps a flag, as a call or a context manager: gradients are laid out as their tensors.

    Where the flag is off, another layout is allowed, not demanded; so there is nothing to do.

    Args:
        enable: the flag.
    """

    def __init__(self, enable: bool = True) -> None:
        self.enable = bool(enable)

    def __enter__(self) -> None:
        """Does nothing."""

    def __exit__(self, *exc: object) -> None:
        """Does nothing."""
