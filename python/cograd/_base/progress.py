# SPDX-License-Identifier: BSD-3-Clause
"""A progress line for long tasks: shown only on a terminal, and only after a second."""

from __future__ import annotations

import math
import sys
import time
from types import TracebackType
from typing import Any

__all__ = ["Progress"]

_DELAY = 1.0  # seconds of work without a progress line
_INTERVAL = 0.25


class Progress:
    """Shows on standard error, if that is a terminal, how much of ``total`` is done.

    Uses tqdm if it is installed. A context manager; it clears the line at the end.
    """

    def __init__(self, title: str, total: int) -> None:
        self.title, self.total = title, total
        self._start = time.monotonic()
        self._next = self._start + _DELAY
        self._bar: Any = None
        self._shown = False

    def update(self, done: int, note: str = "") -> None:
        """Shows the state if the interval has passed; ``note`` names the current item."""
        now = time.monotonic()
        if now < self._next:
            return
        if sys.stderr is None or not sys.stderr.isatty():
            self._next = math.inf
            return
        self._next = now + _INTERVAL
        if not self._shown:
            self._bar = _bar(self.title, self.total, self._start)
            self._shown = True
        if self._bar is not None:
            self._bar.set_postfix_str(note[:60], refresh=False)
            self._bar.n = done
            self._bar.refresh()
            return
        text = f"{self.title}: {done}/{self.total} done, {now - self._start:.0f} s"
        text += f" ({note})" if note else ""
        print(f"\r\033[K{text[:110]}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Clears the line."""
        if self._bar is not None:
            self._bar.close()
        elif self._shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
        self._bar, self._shown = None, False

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: Any, trace: TracebackType | None
    ) -> None:
        self.close()


def _bar(title: str, total: int, start: float) -> Any:
    """Returns a tqdm bar, or None if tqdm is not installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        return None

    class Bar(tqdm):  # type: ignore[misc, type-arg, unused-ignore]
        monitor_interval = 0  # start no monitor thread: workers may be forked meanwhile

    bar = Bar(desc=title, total=total, leave=False, file=sys.stderr)
    bar.start_t -= time.monotonic() - start
    return bar
