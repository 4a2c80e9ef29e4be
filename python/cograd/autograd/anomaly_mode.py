# SPDX-License-Identifier: BSD-3-Clause
"""Anomaly mode: finds the forward call of a failing node, and the first non-finite value."""

from __future__ import annotations

import linecache
import os
import warnings
from types import CodeType
from typing import Any

from cograd import _C

__all__ = ["detect_anomaly", "set_detect_anomaly"]

Frames = list[tuple[CodeType, int]]  # innermost first

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_WARNING = (
    "Anomaly Detection has been enabled. This mode will increase the runtime and should only be "
    "enabled for debugging."
)


def _format(frames: Frames) -> list[str]:
    """Formats the frames as the lines of a traceback, outermost first."""
    lines = []
    for code, line in reversed(frames):
        text = f'  File "{code.co_filename}", line {line}, in {code.co_name}\n'
        source = linecache.getline(code.co_filename, line).strip()
        lines.append(text + (f"    {source}\n" if source else ""))
    return lines


def _place(frames: Frames) -> str:
    """Returns 'train.py:12 in step', for the innermost frame outside of cograd."""
    for code, line in frames:
        if not code.co_filename.startswith(_PACKAGE):
            return f"{code.co_filename}:{line} in {code.co_name}"
    return ""


def _reason(name: str, *args: Any) -> str:
    """Returns what _poles knows of a gradient that is not finite."""
    from cograd.autograd._poles import explain

    return explain(name, *args)


def _explanation(origins: list[tuple[str, Frames | None]]) -> list[str]:
    """Returns torch's texts for a node and for the nodes that were running when it was created."""
    texts = []
    for i, (name, frames) in enumerate(origins):
        first = i == 0
        head = (
            f"Error detected in {name}."
            if first
            else f"\n\nPrevious calculation was induced by {name}."
        )
        if frames is None:
            tail = (
                " No forward pass information available. Enable detect anomaly during forward "
                "pass for more information."
            )
        elif first:
            tail = " Traceback of forward call that caused the error:\n"
        else:
            tail = " Traceback of forward call that induced the previous calculation:\n"
        texts.append(head + tail + "".join(_format(frames) if frames is not None else []))
    return texts


def _explain(error: BaseException, origins: list[tuple[str, Frames | None]]) -> None:
    """Warns as torch does, and adds the forward tracebacks to the exception itself."""
    texts = _explanation(origins)
    note = "\n".join(text.strip("\n") for text in texts)
    if hasattr(error, "add_note"):
        error.add_note(note)
    elif error.args and isinstance(error.args[0], str):  # Python 3.10 has no notes
        error.args = (f"{error.args[0]}\n{note}", *error.args[1:])
    for text in texts:
        try:
            warnings.warn(text, UserWarning, stacklevel=2)
        except UserWarning:
            return  # warnings are errors: the error being raised is more useful


class detect_anomaly:
    """Context manager that finds the op that made a backward pass fail.

    While it is active, every node stores the Python stack that created it. If its backward fails,
    the stack is shown in a warning and is added to the exception as a note. In-place writes are
    logged, so that "modified by an inplace operation" names the op and the line that wrote.

    Args:
        check_nan: raise RuntimeError when a node's backward returns nan.
        forward: also raise when an op called from Python returns nan, or with ``inf=True`` an
            infinity, although its inputs are finite. (Not in torch.)
        inf: check for infinities as well as nan; a node of the backward pass is only reported if
            the gradients that reached it were finite. (Not in torch.)
    """

    def __init__(self, check_nan: bool = True, *, forward: bool = False, inf: bool = False) -> None:
        self.prev = _C._anomaly_state()
        self.check_nan = check_nan
        self.forward = forward
        self.inf = inf
        warnings.warn(_WARNING, stacklevel=2)

    __enter__ = _C._enter_anomaly
    __exit__ = _C._exit_anomaly


class set_detect_anomaly:
    """Turns anomaly mode on or off immediately; as a context manager, until the block ends.

    Args:
        mode: whether anomaly mode is on.
        check_nan, forward, inf: as for :class:`detect_anomaly`.
    """

    def __init__(
        self, mode: bool, check_nan: bool = True, *, forward: bool = False, inf: bool = False
    ) -> None:
        self.prev = _C._anomaly_state()
        _C._set_anomaly(mode, check_nan, forward, inf)

    __enter__ = _C._enter_set
    __exit__ = _C._exit_anomaly


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Turns anomaly mode on or off for the process."""
    _C._set_anomaly(enabled, check_nan, False, False)
