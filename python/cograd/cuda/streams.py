# SPDX-License-Identifier: BSD-3-Clause
"""Streams, which are queues of a GPU's work, and events, which are marks in them."""

from __future__ import annotations

import weakref
from typing import Any

import cograd
from cograd import _C
from cograd.cuda._devices import index_of

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "current_stream",
    "default_stream",
    "set_stream",
    "stream",
]


def _requires(kind: str) -> None:
    if _C._cuda_count() == 0:
        raise RuntimeError(
            f"cuda.{kind} requires CUDA support: {_C._cuda_failure()}; ask cuda.is_available() "
            "first"
        )


class Stream:
    """A queue of work of one GPU: its kernels run in order, beside those of other streams.

    Args:
        device: the GPU; None is the current one.
        priority: a negative number puts the stream's kernels before those of other streams.

    Raises:
        RuntimeError: there is no GPU.
    """

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        _requires(type(self).__name__)
        self._index = index_of(device, "Stream()")
        self.cuda_stream: int = _C._cuda_new_stream(self._index, int(priority))

    @classmethod
    def _of(cls, index: int, handle: int) -> Stream:
        made = cls.__new__(cls)
        made._index, made.cuda_stream = index, handle
        return made

    @property
    def device(self) -> Any:
        """The GPU of the stream."""
        return cograd.device("cuda", self._index)

    @property
    def device_index(self) -> int:
        """The index of the GPU."""
        return self._index

    @property
    def stream_id(self) -> int:
        """The driver's handle; 0 is the default stream."""
        return self.cuda_stream

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Returns the lowest and the highest priority."""
        return 0, -1

    def query(self) -> bool:
        """Returns whether all work of the stream is done."""
        return bool(_C._cuda_stream_done(self._index, self.cuda_stream))

    def synchronize(self) -> None:
        """Waits until all work of the stream is done."""
        _C._cuda_synchronize_stream(self._index, self.cuda_stream)

    def record_event(self, event: Event | None = None) -> Event:
        """Puts a mark behind the work that the stream has now; returns it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Lets the work that the stream gets from now on wait for a mark."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Lets the work that the stream gets from now on wait for all work of another one."""
        self.wait_event(stream.record_event())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self._index, self.cuda_stream) == (
            other._index,
            other.cuda_stream,
        )

    def __hash__(self) -> int:
        return hash((self._index, self.cuda_stream))

    def __repr__(self) -> str:
        return f"<cograd.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class Event:
    """A mark in a stream, which other streams and the program can wait for.

    Args:
        enable_timing: whether ``elapsed_time`` can be asked for.
        blocking: accepted; waits always let other threads run.
        interprocess: False; events of other processes are not supported.
    """

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        _requires(type(self).__name__)
        if interprocess:
            raise NotImplementedError("cuda.Event(): interprocess=True is not supported")
        self._timed = bool(enable_timing)
        self._index: int | None = None
        self._handle = 0

    def _start(self, index: int) -> None:
        if self._index is None:
            self._index = index
            self._handle = _C._cuda_new_event(index, self._timed)
            weakref.finalize(self, _C._cuda_free_event, self._handle).atexit = False
        elif self._index != index:
            raise RuntimeError(
                f"Event.record(): the event is on cuda:{self._index}, the stream on cuda:{index}"
            )

    @property
    def cuda_event(self) -> int:
        """The driver's handle; 0 before the event is recorded."""
        return self._handle

    def record(self, stream: Stream | None = None) -> None:
        """Puts the mark behind the work that a stream has now; None is the current one."""
        stream = current_stream() if stream is None else stream
        self._start(stream._index)
        _C._cuda_record_event(stream._index, self._handle, stream.cuda_stream)

    def wait(self, stream: Stream | None = None) -> None:
        """Lets the work that a stream gets from now on wait for the mark."""
        stream = current_stream() if stream is None else stream
        if self._index is not None:
            _C._cuda_wait_event(stream._index, stream.cuda_stream, self._handle)

    def query(self) -> bool:
        """Returns whether the work before the mark is done."""
        return self._index is None or bool(_C._cuda_event_done(self._handle))

    def synchronize(self) -> None:
        """Waits until the work before the mark is done."""
        if self._index is not None:
            _C._cuda_synchronize_event(self._handle)

    def elapsed_time(self, end_event: Event) -> float:
        """Returns the milliseconds between two marks.

        Raises:
            ValueError: one of the events was made without ``enable_timing``, or not recorded.
        """
        if not (self._timed and end_event._timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._index is None or end_event._index is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return float(_C._cuda_milliseconds(self._handle, end_event._handle))

    def __repr__(self) -> str:
        return f"<cograd.cuda.Event {self._handle:#x}>"


def current_stream(device: Any = None) -> Stream:
    """Returns the stream that gets this thread's work on a GPU."""
    index = index_of(device, "current_stream()")
    return Stream._of(index, _C._cuda_current_stream(index))


def default_stream(device: Any = None) -> Stream:
    """Returns the stream that a GPU uses if no other is chosen."""
    return Stream._of(index_of(device, "default_stream()"), 0)


def set_stream(stream: Stream | None) -> None:
    """Makes a stream the current one of its GPU on this thread; does nothing for None."""
    if stream is not None:
        _C._cuda_set_current(stream._index)
        _C._cuda_set_stream(stream._index, stream.cuda_stream)


class StreamContext:
    """A block in which a stream is the current one. None changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        _requires(type(self).__name__)
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is None:
            return
        self._device = _C._cuda_current()
        self._before = current_stream(self.stream._index)
        set_stream(self.stream)

    def __exit__(self, *error: object) -> None:
        if self.stream is not None:
            set_stream(self._before)
            _C._cuda_set_current(self._device)


def stream(stream: Stream | None) -> StreamContext:
    """Returns a block in which a stream is the current one."""
    return StreamContext(stream)
