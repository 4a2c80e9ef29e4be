# SPDX-License-Identifier: BSD-3-Clause
"""The trace that runs on this thread, for code that must not import the recorder."""

import threading
from typing import Any

__all__ = ["refuse_gradients", "refuse_vmap", "set_recorder", "thread"]


class _Thread(threading.local):
    recorder: Any = None


thread = _Thread()
_begun = False  # a trace has run in this process; a global is read faster than a thread's attribute


def set_recorder(recorder: Any) -> Any:
    """Sets the recorder of this thread, None without a trace, and returns the one before."""
    global _begun
    _begun = True
    before, thread.recorder = thread.recorder, recorder
    return before


def refuse_gradients(name: str) -> None:
    """Raises while recording: the graph would keep the example's gradients as constants."""
    if _begun and thread.recorder is not None:
        raise RuntimeError(
            f"{name}: a trace cannot record gradients of its own values; trace the function alone "
            "and differentiate the result"
        )


def refuse_vmap() -> None:
    """Raises while recording: a graph has no samples."""
    if _begun and thread.recorder is not None:
        raise NotImplementedError(
            "vmap: a trace or an export cannot record vmap; write the function for the whole "
            "batch, or trace it for one sample and apply vmap to the result"
        )
