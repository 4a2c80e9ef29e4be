# SPDX-License-Identifier: BSD-3-Clause
"""cond: one of two functions, by a condition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cograd._C import Tensor

__all__ = ["cond"]


def cond(
    pred: Any,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: Sequence[Any] = (),
) -> Any:
    """Calls ``true_fn`` if ``pred`` (a bool, a number or one element) is true, else ``false_fn``.

    Both are ordinary Python functions, called with ``operands``; only the chosen one runs.
    """
    if not isinstance(pred, (bool, int, float)) and (
        not isinstance(pred, Tensor) or pred.numel() != 1
    ):
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError(
            f"Expect operands to be a tuple of possibly nested dict/list/tuple that only consists "
            f"of tensor leaves, but got {operands}."
        )
    return true_fn(*operands) if bool(pred) else false_fn(*operands)
