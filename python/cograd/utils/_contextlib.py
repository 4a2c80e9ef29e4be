# SPDX-License-Identifier: BSD-3-Clause
"""Context managers as decorators, for torch's private API."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from cograd.autograd.grad_mode import decorated

__all__ = ["context_decorator"]


def context_decorator(ctx: Any, func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates ``func`` to run inside the context manager ``ctx``, or inside ``ctx()``.

    Raises:
        RuntimeError: ``func`` is a class.
        AssertionError: ``ctx`` is a context manager and is also callable.
    """
    if callable(ctx) and hasattr(ctx, "__enter__"):
        raise AssertionError(
            f"context_decorator(): {ctx} is a context manager and also callable, which is "
            "ambiguous; pass a function that returns a context manager"
        )
    if inspect.isclass(func):
        raise RuntimeError(
            "Cannot decorate classes; it is ambiguous whether or not only the constructor or all "
            "methods should have the context manager applied: decorate each of them individually."
        )
    return decorated(ctx if callable(ctx) else lambda: ctx, func)


class _DecoratorContextManager:
    """A context manager and decorator; ``clone`` creates the manager of each call."""

    def __call__(self, orig_func: Any) -> Any:
        if inspect.isclass(orig_func):
            return context_decorator(self.clone, lambda *args, **kwargs: orig_func(*args, **kwargs))
        return context_decorator(self.clone, orig_func)

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> Any:
        raise NotImplementedError

    def clone(self) -> Any:
        """Returns a new manager; subclasses with arguments override it."""
        return type(self)()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """A context manager that also decorates without parentheses."""

    def __new__(cls, orig_func: Any = None) -> Any:
        if orig_func is None:
            return super().__new__(cls)
        return cls()(orig_func)
