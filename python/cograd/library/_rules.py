# SPDX-License-Identifier: BSD-3-Clause
"""The rules of an op, common to ops in Python and in C++."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Fn = Callable[..., Any]


class KeptRules:
    """The rules registered for an op besides its kernels."""

    _qualname: str
    _abstract_fn: Fn | None = None
    _backward_fn: Fn | None = None
    _setup_context_fn: Fn | None = None
    _jvp_fn: Fn | None = None
    _jvp_setup_fn: Fn | None = None
    _vmap_fn: Fn | None = None

    def _rebuild(self) -> None:
        """Generates the call again from the registered rules."""

    def _check_tangent_rule(self) -> None:
        """Raises RuntimeError if the op cannot have a tangent rule from Python."""

    def register_fake(self, fn: Fn, /) -> Fn:
        """Stores a function that returns outputs of the right shape and dtype, for opcheck."""
        self._abstract_fn = fn
        return fn

    def register_vmap(self, func: Fn | None = None) -> Fn:
        """Registers a batching rule; usable as a decorator.

        Under vmap ``func(info, in_dims, *args, **kwargs)`` is called with physical tensors, batched
        in the dims ``in_dims`` (None: not batched; for a list of tensors a list). ``info`` has
        ``batch_size`` and ``randomness``. It returns the output or outputs, and their batch dim or
        dims. Without a rule the op runs sample by sample.
        """

        def register(func: Fn) -> Fn:
            self._vmap_fn = func
            self._rebuild()
            return func

        return register if func is None else register(func)

    def register_jvp(self, func: Fn | None = None, /, *, setup_context: Fn | None = None) -> Fn:
        """Registers the tangent rule for forward mode; usable as a decorator.

        Args:
            func: ``func(ctx, *tangents)`` is called with a tangent for each positional argument
                (None if it is not a tensor, a list for a list of tensors) and returns one for each
                output.
            setup_context: saves what ``func`` needs with ``ctx.save_for_forward``; called with the
                arguments of register_autograd's setup_context, and after it.

        Without a rule tangents are computed from the backward of register_autograd.

        Raises:
            RuntimeError: the op writes its arguments, or has its own gradient.
        """
        self._check_tangent_rule()

        def register(func: Fn) -> Fn:
            self._jvp_fn, self._jvp_setup_fn = func, setup_context
            self._rebuild()
            return func

        return register if func is None else register(func)
