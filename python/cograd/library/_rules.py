# SPDX-License-Identifier: BSD-3-Clause
"""The rules of an op that are kept for others to use, whatever language it computes in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Fn = Callable[..., Any]


class KeptRules:
    """What `register_fake` and `register_vmap` were given."""

    _abstract_fn: Fn | None = None
    _vmap_fn: Fn | None = None

    def register_fake(self, fn: Fn, /) -> Fn:
        """Keeps a function that makes outputs of the right shape and dtype; opcheck compares."""
        self._abstract_fn = fn
        return fn

    def register_vmap(self, func: Fn | None = None) -> Fn:
        """Keeps a batching rule. There is no vmap yet, so nothing calls it."""

        def register(func: Fn) -> Fn:
            self._vmap_fn = func
            return func

        return register if func is None else register(func)
