# SPDX-License-Identifier: BSD-3-Clause
"""Times statements like ``timeit``, with a set number of threads and several samples."""

from __future__ import annotations

import statistics
import time
import timeit
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import cograd
from cograd import _absent

__all__ = ["Measurement", "TaskSpec", "Timer", "select_unit", "timer"]

timer = time.perf_counter


def select_unit(t: float) -> tuple[str, float]:
    """Returns a readable unit for ``t`` seconds, and its length in seconds."""
    for name, length in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if t >= length:
            return name, length
    return "ns", 1e-9


@dataclass(frozen=True)
class TaskSpec:
    """The timed statement and its labels."""

    stmt: str
    setup: str = "pass"
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The labels, or the statement."""
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        return self.stmt


@dataclass
class Measurement:
    """The samples of one statement.

    Attributes:
        number_per_run: number of runs of the statement in each sample.
        raw_times: seconds of each sample.
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = field(default=None)

    @property
    def times(self) -> list[float]:
        """Seconds per run, for each sample."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def median(self) -> float:
        """The median of ``times``."""
        return statistics.median(self.times)

    @property
    def mean(self) -> float:
        """The mean of ``times``."""
        return statistics.fmean(self.times)

    @property
    def iqr(self) -> float:
        """The distance between the quartiles of ``times``; 0 for one sample."""
        if len(self.raw_times) < 2:
            return 0.0
        first, _, third = statistics.quantiles(self.times, n=4, method="inclusive")
        return third - first

    @property
    def title(self) -> str:
        """The labels, or the statement."""
        return self.task_spec.title

    def __repr__(self) -> str:
        unit, length = select_unit(self.median)
        lines = [f"<{type(self).__module__}.{type(self).__name__} object at {id(self):#x}>"]
        lines.append(self.title)
        if self.task_spec.description:
            lines.append(self.task_spec.description)
        if self.task_spec.setup != "pass":
            lines.append(f"setup: {self.task_spec.setup}")
        name = "Median: " if len(self.raw_times) > 1 else ""
        lines.append(f"  {name}{self.median / length:.2f} {unit}")
        if len(self.raw_times) > 1:
            unit, length = select_unit(self.iqr)
            lines.append(f"  IQR:    {self.iqr / length:.2f} {unit}")
        n, threads = len(self.raw_times), self.task_spec.num_threads
        lines.append(
            f"  {n} measurement{'s' * (n > 1)}, {self.number_per_run} runs "
            f"{'per measurement' if n > 1 else ''}, {threads} thread{'s' * (threads > 1)}"
        )
        return "\n".join(lines)


@contextmanager
def _threads(n: int) -> Iterator[None]:
    before = cograd.get_num_threads()
    cograd.set_num_threads(n)
    try:
        yield
    finally:
        cograd.set_num_threads(before)


class Timer:
    """Times a statement.

    Args:
        stmt: the statement to time.
        setup: runs before each sample.
        global_setup: runs once; for definitions that ``stmt`` uses.
        timer: returns seconds.
        globals: names that ``stmt`` and ``setup`` can use; ``cograd`` and ``torch`` are included.
        label, sub_label, description, env: texts that describe the measurement.
        num_threads: number of threads that cograd may use meanwhile.
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
    ) -> None:
        names = {"cograd": cograd, "torch": cograd, **(globals or {})}
        if global_setup:
            exec(global_setup, names)
        self._timer = timeit.Timer(stmt, setup, timer, names)
        self._task_spec = TaskSpec(stmt, setup, label, sub_label, description, env, num_threads)

    def _measure(self, number: int, seconds: list[float]) -> Measurement:
        return Measurement(number, seconds, self._task_spec)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """Times one sample of ``number`` runs, after a hundredth as many warm-up runs."""
        with _threads(self._task_spec.num_threads):
            self._timer.timeit(max(number // 100, 2))
            return self._measure(number, [self._timer.timeit(number)])

    def blocked_autorange(
        self, callback: Callable[[int, float], None] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Times samples for at least ``min_run_time`` seconds in total.

        Each sample has enough runs for the clock's resolution.

        Args:
            callback: called with the number of runs and the seconds of each sample.
        """
        with _threads(self._task_spec.num_threads):
            number, total = self._block_size(min_run_time), 0.0
            seconds: list[float] = []
            while total < min_run_time or not seconds:
                seconds.append(self._timer.timeit(number))
                total += seconds[-1]
                if callback is not None:
                    callback(number, seconds[-1])
        return self._measure(number, seconds)

    def _block_size(self, min_run_time: float) -> int:
        """Returns a number of runs that hides the clock's cost, but allows several samples."""
        number = 1
        while True:
            taken = self._timer.timeit(number)
            if taken >= min(min_run_time / 1000, 1e-3) or taken >= min_run_time:
                return number
            number *= 10

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], None] | None = None,
    ) -> Measurement:
        """Times samples until their quartiles differ by less than ``threshold`` of the median."""
        with _threads(self._task_spec.num_threads):
            number, total = self._block_size(max(min_run_time, 1e-3)), 0.0
            result = self._measure(number, [])
            while total < max_run_time:
                result.raw_times.append(self._timer.timeit(number))
                total += result.raw_times[-1]
                if callback is not None:
                    callback(number, result.raw_times[-1])
                enough = total >= min_run_time and len(result.raw_times) > 3
                if enough and result.iqr / result.median < threshold:
                    break
        return result


if not TYPE_CHECKING:
    __getattr__ = _absent.reporter(__name__)
