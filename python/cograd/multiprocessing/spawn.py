# SPDX-License-Identifier: BSD-3-Clause
"""Runs one function in several processes, and reports their failures."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from multiprocessing import connection
from typing import Any, TypeVar

from cograd import _launcher

__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "spawn",
    "start_processes",
]


class ProcessException(Exception):  # noqa: N818
    """Raised if a process of ``start_processes`` failed.

    Attributes:
        error_index: index of the process.
        error_pid: pid of the process.
    """

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.error_pid = error_pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """Raised if the function raised; the message contains its traceback."""

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg, error_index, error_pid)


class ProcessExitedException(ProcessException):
    """Raised if the process ended with an exit code or by a signal."""

    def __init__(
        self,
        msg: str,
        error_index: int,
        error_pid: int,
        exit_code: int,
        signal_name: str | None = None,
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> Any:
        arguments = (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)
        return type(self), arguments


def _end_with_parent() -> None:
    """Ends this process when its parent has ended, because nothing would join it."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        connection.wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def _call(fn: Callable[..., Any], index: int, args: Sequence[Any], errors: Any) -> None:
    _end_with_parent()
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass  # the parent is interrupted too
    except Exception:
        errors.send(traceback.format_exc())
        sys.exit(1)


class ProcessContext:
    """The processes of one ``start_processes``.

    Args:
        processes: started processes.
        error_files: for each process the receiving end of a pipe that transfers a traceback.
    """

    def __init__(self, processes: list[Any], error_files: list[Any]) -> None:
        self.processes = processes
        self.error_files = error_files
        self.sentinels = {process.sentinel: i for i, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """Returns the pids of the processes."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Waits for one or more processes to end; True once all have.

        Args:
            timeout: maximum number of seconds to wait.
            grace_period: seconds that the others have to end after SIGTERM if one failed; 30 if
                None. Then they are killed.

        Raises:
            ProcessRaisedException, ProcessExitedException: a process failed; the others are ended.
        """
        if not self.sentinels:
            return True
        for sentinel in connection.wait(list(self.sentinels), timeout):
            index = self.sentinels.pop(sentinel)
            process = self.processes[index]
            process.join()
            if process.exitcode != 0:
                self._end_others(30.0 if grace_period is None else grace_period)
                self._raise(index)
        return not self.sentinels

    def _end_others(self, seconds: float) -> None:
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        end = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(0.0, end - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()

    def _raise(self, index: int) -> None:
        process, errors = self.processes[index], self.error_files[index]
        try:
            text = errors.recv() if errors.poll() else None
        except EOFError:
            text = None
        if text is not None:
            raise ProcessRaisedException(
                f"\n\n-- Process {index} terminated with the following error:\n{text}",
                index,
                process.pid,
            )
        code = process.exitcode
        if code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = f"<Unknown signal {-code}>"
            raise ProcessExitedException(
                f"process {index} terminated with signal {name}", index, process.pid, code, name
            )
        raise ProcessExitedException(
            f"process {index} terminated with exit code {code}", index, process.pid, code
        )


class SpawnContext(ProcessContext):
    """The processes of one ``spawn``."""


def start_processes(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Calls ``fn(i, *args)`` in process ``i`` of ``nprocs``.

    Under ``mpiexec -n nprocs`` these processes exist already, as long as no process group is
    initialized: each calls ``fn`` with its own rank, and no process is started.

    Args:
        join: whether to wait for all; otherwise the ``ProcessContext`` is returned.
        daemon: whether the processes end with this one.
        start_method: ``"spawn"``, ``"fork"`` or ``"forkserver"``.

    Raises:
        ProcessRaisedException, ProcessExitedException: a process failed; the others are ended.
    """
    return _start(ProcessContext, fn, args, nprocs, join, daemon, start_method)


_Context = TypeVar("_Context", bound=ProcessContext)


def _is_rank(nprocs: int) -> bool:
    """True if mpiexec has started ``nprocs`` processes, each of which calls this.

    A program whose ranks start their own processes must initialize its process group before.
    """
    position = _launcher.position()
    if position is None or position[1] != nprocs or nprocs == 1:
        return False
    distributed = sys.modules.get("cograd.distributed")
    return distributed is None or not distributed.is_initialized()


def _warn_of_shared(args: Sequence[Any]) -> None:
    """Warns about arguments to be shared, because each rank has created its own."""
    for at, value in enumerate(args):
        kind = type(value)
        if kind.__module__.partition(".")[0] != "multiprocessing" and not (
            hasattr(value, "is_shared") and value.is_shared()
        ):
            continue
        warnings.warn(
            f"spawn: args[{at}] is a {kind.__name__} to be shared, but the ranks are the processes "
            "of mpiexec, and each has made its own: exchange objects by all_gather_object or "
            "gather_object of cograd.distributed",
            stacklevel=4,
        )


def _start(
    kind: type[_Context],
    fn: Callable[..., Any],
    args: Sequence[Any],
    nprocs: int,
    join: bool,
    daemon: bool,
    start_method: str,
) -> _Context | None:
    if _is_rank(nprocs):
        rank, _ = _launcher.position() or (0, 1)
        _warn_of_shared(args)
        fn(rank, *args)
        return None if join else kind([], [])
    context: Any = multiprocessing.get_context(start_method)
    processes, errors = [], []
    try:
        for i in range(nprocs):
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=_call, args=(fn, i, args, sender), daemon=daemon)
            try:
                process.start()
            finally:
                sender.close()
            processes.append(process)
            errors.append(receiver)
    except BaseException:
        ProcessContext(processes, errors)._end_others(5.0)
        raise
    result = kind(processes, errors)
    if not join:
        return result
    try:
        while not result.join():
            pass
    except KeyboardInterrupt:
        result._end_others(5.0)
        raise
    return None


def spawn(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> SpawnContext | None:
    """Calls ``start_processes`` with new interpreters; ``fn`` must be importable."""
    if start_method != "spawn":
        warnings.warn(
            f"This method only supports start_method=spawn (got: {start_method}). To use a "
            "different start_method use start_processes().",
            FutureWarning,
            stacklevel=2,
        )
    return _start(SpawnContext, fn, args, nprocs, join, daemon, "spawn")
