# SPDX-License-Identifier: BSD-3-Clause
"""Reports calls that wait for a GPU."""

from __future__ import annotations

from cograd import _C

_MODES = ("default", "warn", "error")


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Chooses what becomes of calls that wait for a GPU, such as ``item()`` and ``nonzero()``.

    Those whose purpose is to wait, ``cuda.synchronize`` and ``Event.synchronize``, do not count.

    Args:
        debug_mode: "default" or 0: nothing; "warn" or 1: a warning that names the call; "error" or
            2: a RuntimeError before it waits.

    Raises:
        RuntimeError: there is no such mode.
    """
    mode = _MODES.index(debug_mode) if debug_mode in _MODES else debug_mode
    if isinstance(mode, str) or not 0 <= mode < len(_MODES):
        raise RuntimeError(
            "cuda.set_sync_debug_mode(): expected 'default', 'warn', 'error' or 0, 1, 2, got "
            f"{debug_mode!r}"
        )
    _C._cuda_set_wait_policy(int(mode))


def get_sync_debug_mode() -> int:
    """Returns what ``set_sync_debug_mode`` chose: 0, 1 or 2."""
    return int(_C._cuda_wait_policy())
