# SPDX-License-Identifier: BSD-3-Clause
"""Communicators of NCCL: who is in them, their streams, and what becomes of failures."""

from __future__ import annotations

import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import cograd
from cograd import _C
from cograd.distributed._mpi import runtime as _runtime
from cograd.distributed._mpi.board import spoken
from cograd.distributed._mpi.watch import complete
from cograd.distributed._mpi.work import Work, _seconds
from cograd.distributed._names import DistBackendError

if TYPE_CHECKING:
    from cograd.distributed._mpi.group import ProcessGroup

__all__ = [
    "Call",
    "Communicator",
    "GpuWork",
    "finish",
    "leave",
    "of_group",
    "of_pair",
    "why_not",
]

Call = tuple[int, int, int, int, int, int, int]  # kind, from, to, count, type, operation, peer
_PAIR = 4  # subtracted from the largest tag
_ID = 1024  # bytes of the message with the id, or with the reason why there is none
_LOOK = 0.25  # seconds between two looks at the communicators

_PATIENCE = 5.0  # seconds that the end of the program, or an abort, waits for calls

_watching = threading.Lock()  # guards the next three
_live: list[Communicator] = []
_watch: threading.Thread | None = None  # None as soon as it will not look again
_wake = threading.Event()  # ends the watch's pause


class _LostError(RuntimeError):
    """The driver or NCCL cannot be asked any more: no call can succeed."""


def why_not() -> str:
    """Returns why GPUs cannot use NCCL here, or ""."""
    if not cograd.cuda.is_available():
        return "there is no GPU"
    return str(_C._nccl_why_not())


class Communicator:
    """This rank's part of a communicator; its calls run on a stream of its own, in their order."""

    def __init__(self, pg: ProcessGroup, device: int, identity: bytes, rank: int, size: int):
        self.group = pg
        self.device = device
        self.stream = cograd.cuda.Stream(device)
        self.failed = ""
        self._during = b"a call of NCCL"  # what was in progress at a failure
        self.works: deque[GpuWork] = deque()  # those that may be in progress
        self._lock = threading.Lock()  # held while NCCL takes calls, which an abort would free
        self._looking = threading.Lock()  # held while the handle is asked, or ended
        self.handle: int = _C._nccl_join(device, identity, rank, size)
        _watch_over(self)

    def check(self) -> None:
        """Raises if a call has failed, on this rank or on another one."""
        self.look()
        if not self.failed:
            return
        if self.group._runtime.broken is None:
            self.group._runtime.check(self._during)  # says which rank failed, and how
        raise DistBackendError(self.failed)

    def look(self) -> None:
        """Ends the communicator if something has failed, so that no kernel waits for ever."""
        if self.failed or not self.handle:
            return
        # Asking an event makes a context on the current GPU.
        with cograd.cuda.device(self.device):
            if cograd.cuda.is_current_stream_capturing():
                return
            if not self._looking.acquire(blocking=False):
                return  # another thread is at it
            try:
                self._look()
            finally:
                self._looking.release()

    def _look(self) -> None:
        runtime, handle = self.group._runtime, self.handle
        if not handle:
            return
        for work in list(self.works):  # before NCCL's word, which says less
            try:
                work._compare()
            except DistBackendError as error:
                return self.abort(str(error))
        try:
            while self.works and self.works[0]._event.query():
                self.works.popleft()
            found = _C._nccl_failure(handle)
        except RuntimeError as error:
            raise _LostError(str(error)) from error
        oldest = self.works[0] if self.works else None  # no iterator: other threads append
        if oldest is not None:
            self._during = oldest._text
        text = oldest._describe() if oldest is not None else "a call of NCCL"
        if found:
            self.abort(f"rank {runtime.rank}: NCCL failed in {text}: {found}")
        elif runtime.board.alarm[0] or runtime.broken is not None:
            self.abort(f"rank {runtime.rank} in {text}: another rank has failed")
        elif oldest is not None and time.monotonic() - oldest._started > self.group.timeout:
            self.abort(
                f"rank {runtime.rank} waited {self.group.timeout:g} s (the timeout) in {text}\n"
                "what the ranks of the group were doing:\n"
                f"{runtime.board.describe(self.group.ranks)}"
            )

    def abort(self, why: str) -> None:
        """Ends all calls in progress; their results are not valid."""
        # A call that NCCL does not end itself is only ended by this.
        held = self._lock.acquire(timeout=_PATIENCE)
        handle, self.handle = self.handle, 0
        self.failed = self.failed or why
        if held:
            self._lock.release()
        runtime = self.group._runtime
        if runtime.broken is None and not runtime.board.alarm[0]:
            runtime.fail(why)
        if handle:
            _C._nccl_leave(handle, True)
        self.works.clear()

    def finish(self) -> None:
        """Waits for the calls in progress; raises if one fails or the group's timeout passes."""
        if not self.handle:
            return
        began, limit = time.monotonic(), self.group.timeout
        event = self.stream.record_event()
        while not self.reached(event):
            self.check()
            if time.monotonic() - began > limit:
                with self._looking:
                    self.abort(
                        f"rank {self.group._runtime.rank} waited {limit:g} s (the timeout) for "
                        "the end of calls of NCCL"
                    )
            time.sleep(1e-4)
        self.check()

    def reached(self, event: Any) -> bool:
        """Returns whether the GPU has come to an event of this communicator's stream."""
        with cograd.cuda.device(self.device):
            return bool(event.query())

    def leave(self, *, abort: bool) -> None:
        """Ends the communicator. Calls in progress are aborted, or have been waited for."""
        with _watching:
            if self in _live:
                _live.remove(self)
        with self._looking, self._lock:
            handle, self.handle = self.handle, 0
        if handle:
            _C._nccl_leave(handle, abort)
        self.works.clear()

    def close(self) -> None:
        """Ends the communicator at the end of the program, without waiting for other ranks."""
        try:
            end = time.monotonic() + _PATIENCE
            event = self.stream.record_event() if self.handle else None
            while event is not None and time.monotonic() < end and not self.reached(event):
                time.sleep(1e-4)
        except RuntimeError:
            pass  # nobody is there any more to whom it could be said
        self.leave(abort=True)

    def start(self, name: str, calls: Sequence[Call]) -> Any:
        """Starts calls after what the current stream has; returns the event of their end."""
        self.check()
        self.stream.wait_stream(cograd.cuda.current_stream(self.device))
        # The allocator knows streams that were current: memory that is freed waits for this one.
        with cograd.cuda.stream(self.stream), self._lock:
            if not self.handle:
                raise DistBackendError(self.failed or f"{name}: the communicator has been ended")
            if calls:
                _C._nccl_run(name, self.handle, self.device, self.stream.cuda_stream, calls)
        return self.stream.record_event()


class GpuWork(Work):
    """Calls of NCCL in progress.

    ``wait()`` lets the current stream wait for them, not the program; ``wait(timeout)`` does both,
    and so does ``wait()`` of a barrier.
    """

    def __init__(
        self,
        communicator: Communicator,
        number: int,
        text: bytes,
        event: Any,
        keep: Any,
        finish: Callable[[], Any] | None,
        result: Any,
        check: Callable[[], None] | None,
        blocks: bool = False,
    ) -> None:
        pg = communicator.group
        super().__init__(pg, number, text, None, keep, finish, result)
        self._communicator = communicator
        self._event = event
        self._done = False
        self._check = check
        self._blocks = blocks
        # Events of a captured graph cannot be asked.
        if not cograd.cuda.is_current_stream_capturing():
            communicator.works.append(self)

    def _reached(self) -> bool:
        return self._communicator.reached(self._event)

    def _test(self) -> bool:
        return self._reached()

    def _compare(self) -> None:
        """Raises if the next rank is known to have made another call instead."""
        check = self._check
        if check is not None:
            check()

    def wait(self, timeout: timedelta | float | None = None) -> bool:
        """Lets the current stream wait; with ``timeout``, the program waits at most so long.

        Raises DistBackendError if NCCL or another rank has failed.
        """
        if self._error is not None:
            raise self._error
        self._runtime.check(self._text)
        try:
            self._compare()
            self._communicator.check()
        except DistBackendError as error:
            self._error = error
            if self._future is not None and not self._future.done():
                self._future.set_exception(error)
            raise
        if timeout is not None:
            self._wait_here(_seconds(timeout))
        with self._lock:
            cograd.cuda.current_stream(self._communicator.device).wait_event(self._event)
            if not self._done:
                self._done = True
                finish, self._finish = self._finish, None
                if finish is not None:
                    finish()
                self._keep = self._held = self._check = None
                if self._future is not None:
                    self._future.set_result(self._result)
        if self._blocks:
            cograd.cuda.current_stream(self._communicator.device).synchronize()
            self._communicator.check()  # an abort, too, lets the stream go on
        return True

    def _wait_here(self, limit: float) -> None:
        deadline = time.monotonic() + limit
        while not self._reached():
            self._communicator.check()
            if time.monotonic() > deadline:
                raise DistBackendError(
                    f"rank {self._runtime.rank} waited {limit:g} s (the timeout) in "
                    f"{self._describe()}"
                )
            time.sleep(1e-4)

    def is_completed(self) -> bool:
        """Returns whether the GPU has done it; the current stream may then use what it wrote."""
        self._runtime.check(self._text)
        self._communicator.check()
        if not self._reached():
            return False
        if self._finish is not None:  # a copy into an output that is not contiguous, for one
            self.wait()
        return True

    def get_future(self) -> Any:
        """Returns a Future of the list of written tensors; it completes in ``wait()``."""
        from cograd.futures import Future

        if self._future is None:
            self._future = Future()
            if self._error is not None:
                self._future.set_exception(self._error)
            elif self._done:
                self._future.set_result(self._result)
            else:
                self._future._waiter = self.wait
        return self._future

    def source_rank(self) -> int:
        """Raises: a receiver of NCCL names the sender."""
        raise RuntimeError("source_rank: NCCL receives from the rank that the call names only")

    def _describe(self) -> str:
        return spoken(self._text.decode(errors="replace"), self._number)


def _watch_over(communicator: Communicator) -> None:
    """Lets a thread look for failures of it while the program waits for a GPU."""
    global _watch
    runtime = communicator.group._runtime
    with _watching:
        if _close not in runtime.closing:
            runtime.closing.append(_close)
        _live.append(communicator)
        if _watch is None or not _watch.is_alive():
            _wake.clear()
            _watch = threading.Thread(target=_look_at_all, name="cograd-nccl", daemon=True)
            _watch.start()


def _look_at_all() -> None:
    global _watch
    while True:
        _wake.wait(_LOOK)
        with _watching:
            found = list(_live)
            if not found:
                _watch = None
                return
        for communicator in found:
            try:
                # It is not set back: even that would make a context on GPU 0.
                _C._cuda_set_current(communicator.device)
                communicator.look()
            except _LostError as error:
                communicator.failed = communicator.failed or str(error)
            except Exception as error:  # the next look may succeed
                warnings.warn(f"cograd.distributed: a look at NCCL failed: {error!r}", stacklevel=1)


def _close() -> None:
    """Ends the watch, which asks MPI, and all communicators; all ranks are at their end."""
    with _watching:
        live, watch = list(_live), _watch
        _live.clear()
        _wake.set()
    if watch is not None:
        watch.join(_PATIENCE)
    for communicator in live:
        communicator.close()


def _encoded(make: Callable[[], bytes]) -> bytearray:
    """Returns an id, or why there is none, as the message for the other ranks."""
    try:
        return bytearray((b"+" + make()).ljust(_ID, b"\0"))
    except RuntimeError as error:
        return bytearray((b"-" + str(error).encode()[: _ID - 1]).ljust(_ID, b"\0"))


def _decoded(raw: bytearray) -> bytes:
    if raw[:1] != b"+":
        raise RuntimeError(bytes(raw[1:]).rstrip(b"\0").decode(errors="replace"))
    return bytes(raw[1:129])


def of_group(pg: ProcessGroup, device: int) -> Communicator:
    """Returns the communicator of a whole group; all members call it at the same point."""
    found: Communicator | None = pg._communicators.get((device, -1))
    if found is not None:
        return found
    runtime, first = pg._runtime, pg.rank() == 0
    raw = _encoded(_C._nccl_unique_id) if first else bytearray(_ID)
    request = pg.comm.Ibcast([raw, runtime.MPI.BYTE], 0)
    text = "the start of NCCL"
    complete([request], raw, runtime, pg, lambda: text, timeout=pg.timeout)
    made = Communicator(pg, device, _decoded(raw), pg.rank(), pg.size())
    pg._communicators[device, -1] = made
    return made


def of_pair(pg: ProcessGroup, device: int, peer: int) -> Communicator:
    """Returns the communicator of two members, which both call it for their first message."""
    found: Communicator | None = pg._communicators.get((device, peer))
    if found is not None:
        return found
    runtime, tag, byte = pg._runtime, pg._runtime.tag_limit - _PAIR, pg._runtime.MPI.BYTE
    first = pg.rank() < peer
    raw = _encoded(_C._nccl_unique_id) if first else bytearray(_ID)
    begin = pg.comm.Isend if first else pg.comm.Irecv
    text = f"the start of NCCL with rank {pg.ranks[peer]}"
    others = [pg.ranks[peer]]
    request = begin([raw, byte], peer, tag)
    complete([request], raw, runtime, pg, lambda: text, timeout=pg.timeout, peers=others)
    made = Communicator(pg, device, _decoded(raw), 0 if first else 1, 2)
    pg._communicators[device, peer] = made
    return made


def finish(pg: ProcessGroup) -> None:
    """Waits for the calls of a group; raises if one fails or the timeout passes."""
    for communicator in list(pg._communicators.values()):
        communicator.finish()


def leave(pg: ProcessGroup, *, abort: bool) -> None:
    """Ends all communicators of a group."""
    if not _runtime._forked:  # a child has no use of them, and locks that nobody opens
        for communicator in pg._communicators.values():
            communicator.leave(abort=abort)
    pg._communicators.clear()
