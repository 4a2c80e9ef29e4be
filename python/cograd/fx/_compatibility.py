# SPDX-License-Identifier: BSD-3-Clause
"""torch's decorator that states whether a name is stable."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

__all__ = ["compatibility"]

_T = TypeVar("_T")


def compatibility(is_backward_compatible: bool) -> Callable[[_T], _T]:
    """Returns a decorator that changes nothing."""
    return lambda decorated: decorated
