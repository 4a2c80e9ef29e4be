# SPDX-License-Identifier: BSD-3-Clause
"""Base class of modules that differ only in the function that they call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .module import Module


class _Family(Module):
    """Makes ``forward`` of each subclass from its ``_function``.

    So ``forward`` reads only public attributes of its module, and a program may call, for example,
    ``nn.ReLU.forward`` with any object that has ``inplace``, as in torch.
    """

    _function: Any = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        made = vars(cls).get("_function")
        if made is not None and "forward" not in vars(cls):
            forward = cls._forward_of(made.__func__)
            forward.__qualname__ = f"{cls.__qualname__}.forward"
            forward.__module__ = cls.__module__
            cls.forward = forward  # type: ignore[method-assign]

    @staticmethod
    def _forward_of(function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns ``forward`` for a subclass that calls ``function``."""
        raise NotImplementedError
