# SPDX-License-Identifier: BSD-3-Clause
"""Sets and reports how ops without a kernel for GPUs run on the CPU, on copies."""

from __future__ import annotations

from cograd import _C


def set_fallback(policy: str) -> None:
    """Chooses what happens when an op has no kernel for the GPU.

    Args:
        policy: "warn" warns once per op and runs it on the CPU, which is the default; "silent" does
            not warn; "error" raises NotImplementedError.

    Raises:
        ValueError: the policy is none of these.
    """
    _C._set_fallback(policy)


def get_fallback() -> str:
    """Returns the policy that ``set_fallback`` chose."""
    return str(_C._get_fallback())


def fallback_stats(clear: bool = False) -> dict[str, tuple[int, int]]:
    """Returns the ops that ran on the CPU: the number of calls and the bytes copied, by name.

    Args:
        clear: whether counting starts anew.
    """
    found: dict[str, tuple[int, int]] = _C._fallbacks()
    if clear:
        _C._clear_fallbacks()
    return found
