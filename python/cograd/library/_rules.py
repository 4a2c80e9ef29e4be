# SPDX-License-Identifier: BSD-3-Clause
"""The rules of an op, whatever language it computes in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Fn = Callable[..., Any]


class KeptRules:
    """What was registered for an op besides its kernels."""

    _qualname: str
    _abstract_fn: Fn | None = None
    _backward_fn: Fn | None = None
    _setup_context_fn: Fn | None = None
    _jvp_fn: Fn | None = None
    _jvp_setup_fn: Fn | None = None
    _vmap_fn: Fn | None = None

    def _rebuild(self) -> None:
        """Makes the call anew from what is registered."""

    def _check_tangent_rule(self) -> None:
        """Raises if the op can have no rule for tangents from Python."""

    def register_fake(self, fn: Fn, /) -> Fn:
        """Keeps a function that makes outputs of the right shape and dtype; opcheck compares."""
        self._abstract_fn = fn
        return fn

    def register_vmap(self, func: Fn | None = None) -> Fn:
        """Registers a batching rule; usable as a decorator.

        Inside of a vmap ``func(info, in_dims, *args, **kwargs)`` is called with tensors that hold
        all samples, in the dims ``in_dims`` (None: they are equal; for a list of tensors a list).
        ``info`` has ``batch_size`` and ``randomness``. It returns the output or outputs, and the
        dim or dims of the samples in them. Without a rule the op runs sample by sample.
        """

        def register(func: Fn) -> Fn:
            self._vmap_fn = func
            self._rebuild()
            return func

        return register if func is None else register(func)

    def register_jvp(self, func: Fn | None = None, /, *, setup_context: Fn | None = None) -> Fn:
        """Registers the rule for tangents, of forward mode; usable as a decorator.

        Args:
            func: ``func(ctx, *tangents)`` gets a tangent for each positional argument (None for
                what is no tensor, a list for a list of tensors) and returns one for each output.
            setup_context: keeps what ``func`` needs by ``ctx.save_for_forward``, with the
                arguments of register_autograd's, which runs before if there is one.

        Without a rule tangents come from the backward of register_autograd.

        Raises:
            RuntimeError: the op writes its arguments, or has a gradient of its own.
        """
        self._check_tangent_rule()

        def register(func: Fn) -> Fn:
            self._jvp_fn, self._jvp_setup_fn = func, setup_context
            self._rebuild()
            return func

        return register if func is None else register(func)
