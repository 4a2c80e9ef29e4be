# SPDX-License-Identifier: BSD-3-Clause
"""Work objects: calls that continue while the program does something else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import cograd
from cograd.distributed import _runtime
from cograd.distributed._board import spoken
from cograd.distributed._names import DistBackendError
from cograd.distributed._watch import poll

if TYPE_CHECKING:
    from cograd.distributed._group import ProcessGroup
    from cograd.distributed._runtime import Runtime
    from cograd.futures import Future

__all__ = ["Work", "mpi_failed", "progress"]


def mpi_failed(runtime: Runtime, error: Any, call: bytes) -> BaseException:
    """Marks this rank as failed after an error of MPI; returns the error to raise."""
    return runtime.fail(
        f"rank {runtime.rank}: MPI failed in {call.decode(errors='replace')}: "
        f"{error.Get_error_string()}"
    )


class Work:
    """A collective or message in progress.

    Before ``wait()`` has returned or ``is_completed()`` was True, the tensors it reads must not be
    written, and those it writes must not be used. MPI moves data only inside of its own calls:
    ``is_completed()`` of any Work drives all of them.
    """

    def __init__(
        self,
        group: ProcessGroup,
        number: int,
        text: bytes,
        request: Any,
        keep: Any,
        finish: Callable[[], Any] | None,
        result: Any,
        *,
        nbytes: int = 0,
        peers: list[int] | None = None,
    ) -> None:
        self._group = group
        self._runtime = group._runtime
        self._number = number
        self._text = text
        self._request = request
        self._keep = keep  # memory that MPI reads and writes
        self._lock = threading.RLock()
        self._held: Any = list(_storages(keep))  # stays valid if tensors change their memory
        self._finish = finish
        self._result = result
        self._nbytes = nbytes
        self._peers = peers
        self._status: Any = None
        self._check: Callable[[], None] | None = None  # compares with the other ranks' calls
        self._error: BaseException | None = None
        self._future: Future[Any] | None = None
        self._started = time.monotonic()

    def _test(self) -> bool:
        if _runtime._forked or _runtime._ended:
            self._runtime.check()
        with self._lock:  # two threads must not test the same request
            return self._test_alone()

    def _test_alone(self) -> bool:
        request = self._request
        if request is None:
            return True
        try:
            if self._status is not None:
                done = request.Test(self._status)
            else:
                done = request.Test()
        except self._runtime.MPI.Exception as error:
            raise self._failed(error) from None
        if done:
            self._complete()
        return bool(done)

    def _failed(self, error: Any) -> BaseException:
        """Stores the error of this call, marks the rank as failed and returns the error."""
        self._runtime.parked.append((self._request, self._keep, self._held))
        self._runtime.pending.pop(id(self), None)
        self._request = self._finish = None
        self._error = mpi_failed(self._runtime, error, self._text)
        if self._future is not None:
            self._future.set_exception(self._error)
        return self._error

    def _complete(self) -> None:
        if self._request is None:
            return
        self._request = None
        self._runtime.pending.pop(id(self), None)
        try:
            if self._check is not None:
                self._check()
            if self._finish is not None:
                self._finish()
        except BaseException as error:
            self._error = error
            raise
        finally:
            self._keep = self._finish = self._held = self._check = None
            if self._future is not None:
                if self._error is None:
                    self._future.set_result(self._result)
                else:
                    self._future.set_exception(self._error)

    def _describe(self) -> str:
        return spoken(self._text.decode(errors="replace"), self._number)

    def wait(self, timeout: timedelta | float | None = None) -> bool:
        """Waits until the call is complete; returns True.

        Raises DistBackendError if the group's timeout (counted from the call's start) passes, or if
        another rank has failed. With ``timeout`` (a timedelta or seconds), raises if that passes
        first; the call continues and can be waited for again.
        """
        if self._error is not None:
            raise self._error
        if self._request is None:
            with self._lock:  # another thread may still be writing the results
                if self._error is not None:
                    raise self._error
                return True
        runtime, group = self._runtime, self._group
        runtime.check(self._text)
        own = None if timeout is None else _seconds(timeout)
        left = group.timeout - (time.monotonic() - self._started)
        short = own is not None and own < left
        runtime.board.enter(True, self._number, self._text)
        try:
            poll(
                self._test,
                runtime,
                group,
                self._describe,
                timeout=own if short and own is not None else group.timeout,
                started=None if short else self._started,
                nbytes=self._nbytes,
                peers=self._peers,
                fatal=not short,
                look=self._check,
            )
        except BaseException as error:
            if self._request is not None:
                if isinstance(error, DistBackendError) and not short:
                    self._error = error
                runtime.parked.append(self)
            raise
        runtime.board.leave()
        return True

    def is_completed(self) -> bool:
        """Returns whether the call is complete, without waiting."""
        if self._request is None:
            return True
        self._runtime.check(self._text)
        return self._test()

    def is_success(self) -> bool:
        """Returns whether the call is complete and did not raise."""
        return self._error is None and self.is_completed()

    def exception(self) -> BaseException | None:
        """Returns the error that ``wait`` raised or would raise, or None."""
        return self._error

    def result(self) -> list[Any]:
        """Returns the tensors that the call wrote."""
        self.wait()
        value = self._result
        return list(value) if isinstance(value, (list, tuple)) else [value]

    def synchronize(self) -> None:
        """Calls ``wait()``: there is no stream to synchronise."""
        self.wait()

    def source_rank(self) -> int:
        """Returns the global rank that a completed ``irecv`` received from."""
        self.wait()
        if self._status is None:
            raise RuntimeError("source_rank: this handle is not of irecv")
        sender: int = self._status.Get_source()
        return self._group.ranks[sender]

    def get_future(self) -> Future[Any]:
        """Returns a Future whose value is the list of written tensors.

        It completes in ``wait()`` or ``is_completed()`` of this Work, or in its own ``wait()``.
        """
        from cograd.futures import Future

        if self._future is None:
            self._future = Future()
            if self._error is not None:
                self._future.set_exception(self._error)
            elif self._request is None:
                self._future.set_result(self._result)
            else:
                self._future._waiter = self.wait
        return self._future


def _storages(keep: Any) -> Iterator[Any]:
    if isinstance(keep, cograd.Tensor):
        yield keep.untyped_storage()
    elif isinstance(keep, (list, tuple)):
        for part in keep:
            yield from _storages(part)


def _seconds(timeout: timedelta | float) -> float:
    if isinstance(timeout, timedelta):
        return timeout.total_seconds()
    if isinstance(timeout, (int, float)) and not isinstance(timeout, bool):
        return float(timeout)
    raise TypeError(
        f"timeout must be a datetime.timedelta or seconds, got {type(timeout).__name__}"
    )


def progress() -> bool:
    """Lets MPI move the data of all calls in progress; returns True if none is left.

    Call it in loops that compute meanwhile, as DistributedDataParallel does between its buckets.
    """
    runtime = _runtime.current
    if runtime is None:
        return True
    if runtime.pending:
        runtime.check()
    for work in list(runtime.pending.values()):
        work._test()
    return not runtime.pending
