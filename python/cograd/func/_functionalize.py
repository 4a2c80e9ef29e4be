# SPDX-License-Identifier: BSD-3-Clause
"""functionalize: calls the function, because there is no traced program to rewrite."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

__all__ = ["functionalize"]


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """Returns a function with the results of ``func``, including in-place writes to arguments.

    In torch this removes in-place ops and views from a trace. cograd has no traces: ``func`` runs
    unchanged, at each call.

    Args:
        func: a function of tensors.
        remove: "mutations" or "mutations_and_views"; both have the same effect.

    Raises:
        RuntimeError: ``remove`` is something else.
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(): received invalid argument for remove={remove}, expected "
            "'mutations' or 'mutations_and_views'"
        )

    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return run
