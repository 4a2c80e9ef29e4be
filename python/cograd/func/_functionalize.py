# SPDX-License-Identifier: BSD-3-Clause
"""functionalize: there is no program to rewrite, the function is called."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

__all__ = ["functionalize"]


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """A function with the results of ``func``, in-place writes to its arguments included.

    Nothing is traced and nothing is rewritten: ``func`` runs as it is, at each call. In torch this
    takes in-place ops and views out of a trace, and there are no traces here.

    Args:
        func: takes and gives tensors.
        remove: "mutations" or "mutations_and_views"; both mean the same.

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
