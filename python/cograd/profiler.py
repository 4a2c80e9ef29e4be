# SPDX-License-Identifier: BSD-3-Clause
"""torch.profiler's interface to ``autograd.profiler``: schedules, steps and trace handlers."""

from __future__ import annotations

import gzip
import json
import os
import socket
import time
import warnings
from collections.abc import Callable, Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any

import cograd
from cograd import _C
from cograd._base import absent as _absent
from cograd.autograd.profiler import EventList, TimeSummary, record_function
from cograd.autograd.profiler import profile as _Run

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


class ProfilerActivity(Enum):
    """The activities that torch can profile; cograd records those of the CPU and of CUDA."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(Enum):
    """The actions of the profiler during a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


_RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def supported_activities() -> set[ProfilerActivity]:
    """Returns the CPU, and CUDA if there is a GPU."""
    gpus = {ProfilerActivity.CUDA} if cograd.cuda.is_available() else set()
    return {ProfilerActivity.CPU, *gpus}


def kineto_available() -> bool:
    """Returns False: the events are those of ``autograd.profiler``."""
    return False


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """Returns a function from step number to action: cycles of wait, warmup and active steps.

    Args:
        wait, warmup: number of steps of a cycle that are not recorded.
        active: number of recorded steps of a cycle; the trace is ready after the last.
        repeat: number of cycles; 0 repeats without end.
        skip_first: number of steps before the first cycle.
        skip_first_wait: if not 0, the first cycle does not wait.

    Raises:
        AssertionError: a number is negative, or ``active`` is 0.
    """
    given = (wait, warmup, active, repeat, skip_first)
    if min(given) < 0 or active == 0:
        raise AssertionError(f"schedule(): invalid numbers of steps {given}; active is at least 1")
    cycle = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"schedule(): a step's number is not negative, got {step}")
        step -= skip_first
        if step < 0:
            return ProfilerAction.NONE
        if skip_first_wait:
            step += wait
        if repeat and step >= repeat * cycle:
            return ProfilerAction.NONE
        position = step % cycle
        if position < wait:
            return ProfilerAction.NONE
        if position < wait + warmup:
            return ProfilerAction.WARMUP
        return _RECORDING[position == cycle - 1]

    return action


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """Returns an ``on_trace_ready`` that writes each trace into the directory ``dir_name``.

    Raises:
        RuntimeError: raised by the handler if the directory cannot be created.
    """

    def handler(prof: profile) -> None:
        try:
            os.makedirs(dir_name, exist_ok=True)
        except OSError as error:
            raise RuntimeError(f"Can't create directory: {dir_name}") from error
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json" + (".gz" if use_gzip else "")
        prof.export_chrome_trace(os.path.join(dir_name, name))

    return handler


class profile:
    """Times ops, backward nodes and ``record_function`` blocks, in the steps a schedule chooses.

    A context manager; or call ``start`` and ``stop``. The events are those since recording last
    began; see :class:`cograd.autograd.profiler.profile`.

    Args:
        activities: what to profile, all that there is if None; others warn that they are
            unavailable. Of CUDA each launch, copy and fill is measured by events of its stream.
        schedule: function from step number to action, as :func:`schedule` returns it; None records
            everything.
        on_trace_ready: called with this profiler after the last recorded step of a cycle.
        profile_memory: record the memory of tensors after each event, and the line of each maximum.
        with_stack: record the line that called each op.
        acc_events: ``events`` returns the events of all cycles.
        use_cuda: whether CUDA is among the activities; an older option.
        record_shapes, with_flops, with_modules: accepted and ignored.

    Raises:
        AssertionError: no activity is available.
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        **_ignored: Any,
    ) -> None:
        self.activities = supported_activities() if activities is None else set(activities)
        if use_cuda is not None:
            text = "`use_cuda` is deprecated, use `activities` argument instead"
            warnings.warn(text, FutureWarning, stacklevel=2)
            self.activities -= {ProfilerActivity.CUDA}
            self.activities |= {ProfilerActivity.CUDA} if use_cuda else set()
        for absent in self.activities - supported_activities():
            if not isinstance(absent, ProfilerActivity):
                raise TypeError(
                    f"profile(): activities must be ProfilerActivity, got {type(absent).__name__}"
                )
            text = f"{absent.name} is not available, disabling {absent.name} profiling"
            warnings.warn(text, UserWarning, stacklevel=2)
        self.activities &= supported_activities()
        if not self.activities:
            raise AssertionError("No valid profiler activities found")
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self._schedule = schedule
        self._options: dict[str, Any] = {
            "profile_memory": profile_memory,
            "with_stack": with_stack,
            "use_cpu": ProfilerActivity.CPU in self.activities,
            "use_device": "cuda" if ProfilerActivity.CUDA in self.activities else None,
        }
        self._accumulates = acc_events
        self._earlier = EventList()
        self._run: _Run | None = None
        self._block: record_function | None = None
        self._metadata: dict[str, Any] = {}

    @property
    def current_action(self) -> ProfilerAction:
        """The action of the current step."""
        return self._schedule(self.step_num) if self._schedule else ProfilerAction.RECORD

    @property
    def _recording(self) -> bool:
        return self._run is not None and self._run._active

    def _begin_step(self) -> None:
        if self.current_action in _RECORDING and not self._recording:
            if self._accumulates and self._run is not None:
                self._earlier += self._run.function_events
            self._run = _Run(**self._options)
            self._run.__enter__()
        if self._schedule and self._recording:
            self._block = record_function(f"ProfilerStep#{self.step_num}")
            self._block.__enter__()

    def _end_block(self) -> None:
        if self._block is not None:
            self._block.__exit__()
            self._block = None

    def _end_run(self) -> None:
        if self._recording:
            assert self._run is not None
            self._run.__exit__()
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)

    def start(self) -> None:
        """Begins step 0."""
        self._begin_step()

    def step(self) -> None:
        """Ends a step and begins the next."""
        self._end_block()
        saves = self.current_action is ProfilerAction.RECORD_AND_SAVE
        self.step_num += 1  # on_trace_ready sees the step that begins, as in torch
        # A user's schedule may stop recording without RECORD_AND_SAVE.
        if saves or self.current_action not in _RECORDING:
            self._end_run()
        self._begin_step()

    def stop(self) -> None:
        """Ends the last step; the trace is ready if the step was recorded."""
        self._end_block()
        self._end_run()

    # They call start and stop; if interrupted, they leave recording off.
    __enter__ = _C._enter_start
    __exit__ = _C._exit_stop

    def events(self) -> EventList:
        """Returns the events, ordered by start time.

        Raises:
            RuntimeError: nothing was recorded, or recording is still on.
        """
        if self._run is None:
            raise RuntimeError("profile: nothing was recorded yet; see the schedule")
        found = EventList([*self._earlier, *self._run.function_events])
        found._last = self._run.function_events
        return found

    def summary(self) -> TimeSummary:
        """Returns how much of the time went to kernels, to the interpreter and to waiting."""
        return self.events().summary()

    def key_averages(self, *args: Any, **kwargs: Any) -> EventList:
        """Returns one entry per name; ignores grouping by shapes or lines."""
        return self.events().key_averages()

    def add_metadata(self, key: str, value: str) -> None:
        """Adds a string to traces that are written later."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Adds a JSON value to traces that are written later."""
        self._metadata[key] = json.loads(value)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes the events as JSON for chrome://tracing or Perfetto; compresses ``.gz`` files."""
        path = os.fspath(path)
        self.events().export_chrome_trace(path)
        if not self._metadata and not path.endswith(".gz"):
            return
        with open(path, encoding="utf-8") as f:
            trace = {**json.load(f), **self._metadata}
        with gzip.open(path, "wt") if path.endswith(".gz") else open(path, "w") as f:
            json.dump(trace, f)

    def export_html(self, path: str | os.PathLike[str]) -> None:
        """Writes a page; see :meth:`cograd.autograd.profiler.EventList.export_html`."""
        self.events().export_html(path)

    def _repr_html_(self) -> str | None:
        """Returns the page that a notebook shows; None before something was recorded."""
        try:
            events = self.events()
        except (AssertionError, RuntimeError):
            return None
        return events._repr_html_()

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Writes the page of :meth:`export_html`, which shows memory under ``profile_memory``.

        Raises:
            ValueError: ``path`` does not end in ``.html``.
        """
        if not path.endswith(".html"):
            raise ValueError(f"export_memory_timeline(): only .html is written, got {path!r}")
        self.export_html(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Writes ``line;op microseconds``, the input of flame graph tools; needs ``with_stack``.

        Raises:
            ValueError: ``metric`` is not self_cpu_time_total or self_cuda_time_total.
        """
        known = ("self_cpu_time_total", "self_cuda_time_total")
        if metric not in known:
            raise ValueError(f"export_stacks(): metric must be one of {known}, got {metric!r}")
        with open(path, "w", encoding="utf-8") as f:
            for event in self.events():
                took = getattr(event, metric)
                if event.kind != "kernel" and event.place and took >= 1:
                    place = event.place.replace(" ", "_")
                    f.write(f"{place};{event.name} {int(took)}\n")


if not TYPE_CHECKING:
    __getattr__ = _absent.reporter(__name__)
