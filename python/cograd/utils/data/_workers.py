# SPDX-License-Identifier: BSD-3-Clause
"""The worker processes of a loader: their sockets, how they end, and why they died."""

from __future__ import annotations

import atexit
import os
import pickle
import select
import signal
import socket
import time
import weakref
from collections import deque
from typing import Any, NoReturn

from cograd._progress import Progress
from cograd.utils.data import _channel
from cograd.utils.data._utils.worker import WorkerOptions, worker_loop

_LEAVE_SECONDS = 5.0  # time for a worker to finish its current work when the loader ends
_CHECK_SECONDS = 2.0  # between checks for a dead worker whose socket another process keeps open

# The parent's ends of all sockets, which a forked child must not keep open.
_ends: weakref.WeakSet[socket.socket] = weakref.WeakSet()
_teams: weakref.WeakSet[Any] = weakref.WeakSet()


def _close_ends() -> None:
    for end in list(_ends):
        end.close()


os.register_at_fork(after_in_child=_close_ends)


@atexit.register
def _stop_all() -> None:
    for team in list(_teams):
        team.stop()


def _say_what_pickles(error: BaseException, method: str) -> None:
    """Adds advice to an error of pickling, in Python 3.11 and later."""
    pickling = isinstance(error, (AttributeError, TypeError, pickle.PicklingError))
    if pickling and method != "fork" and hasattr(error, "add_note"):
        error.add_note(
            f"DataLoader: workers that are started by {method!r} get dataset, collate_fn and "
            "worker_init_fn by pickling. Define them at the top of a module, or pass "
            'multiprocessing_context="fork".'
        )


class _Worker:
    """A process, the parent's end of its socket, and data waiting to be sent."""

    def __init__(self, context: Any, options: WorkerOptions) -> None:
        self.id = options.id
        self.end, other = socket.socketpair()
        _ends.add(self.end)
        try:
            self.process = context.Process(target=worker_loop, args=(options, other), daemon=True)
            self.process.start()
        except BaseException as error:
            self.end.close()
            _say_what_pickles(error, context.get_start_method())
            raise
        finally:
            other.close()
        self.outgoing: deque[memoryview] = deque()

    def flush(self) -> None:
        """Sends what the socket accepts without blocking."""
        while self.outgoing:
            try:
                sent = self.end.send(self.outgoing[0], socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            rest = self.outgoing.popleft()[sent:]
            if rest.nbytes:
                self.outgoing.appendleft(rest)


def _cause(process: Any) -> str:
    code = process.exitcode
    if code is None:
        return "closed its connection"
    if code >= 0:
        return f"exited with code {code}"
    try:
        name = f"{signal.Signals(-code).name} ({signal.strsignal(-code)})"
    except ValueError:
        name = str(-code)
    return f"is killed by signal: {name}"


class Team:
    """All workers of one iterator. Only the process that started them may use it."""

    def __init__(self, context: Any, options: list[WorkerOptions]) -> None:
        self.owner = os.getpid()
        self.workers: list[_Worker] = []
        self._poll = select.poll()
        self._by_fd: dict[int, _Worker] = {}
        self._ready: deque[_Worker] = deque()
        _teams.add(self)
        try:
            with Progress("DataLoader: starting workers", len(options)) as progress:
                for one in options:
                    progress.update(one.id)
                    self._add(_Worker(context, one))
        except BaseException:
            self.stop()
            raise

    def _add(self, worker: _Worker) -> None:
        self.workers.append(worker)
        self._by_fd[worker.end.fileno()] = worker
        self._poll.register(worker.end, select.POLLIN)

    def send(self, worker_id: int, message: Any) -> None:
        """Sends a message to a worker; queues what its socket does not accept yet."""
        worker = self.workers[worker_id]
        worker.outgoing.append(memoryview(_channel.encode_inline(message)))
        self._flush(worker)
        if worker.outgoing:
            self._poll.modify(worker.end, select.POLLIN | select.POLLOUT)

    def receive(self, timeout: float) -> tuple[int, Any] | None:
        """Returns (worker id, next message); None after ``timeout`` seconds (0: no timeout).

        Raises:
            RuntimeError: a worker has died.
        """
        end = time.monotonic() + timeout if timeout > 0 else None
        while not self._ready:
            wait = _CHECK_SECONDS
            if end is not None:
                wait = min(wait, end - time.monotonic())
                if wait <= 0:
                    return None
            self._wait(wait)
        worker = self._ready.popleft()
        try:
            return worker.id, _channel.receive(worker.end)
        except (EOFError, ConnectionError):
            pass
        self._fail(worker)

    def _wait(self, seconds: float) -> None:
        events = self._poll.poll(seconds * 1000)
        for fd, event in events:
            worker = self._by_fd[fd]
            if event & select.POLLOUT:
                self._flush(worker)
                if not worker.outgoing:
                    self._poll.modify(worker.end, select.POLLIN)
            if event & ~select.POLLOUT:
                self._ready.append(worker)
        if not events:
            for worker in self.workers:
                if not worker.process.is_alive():
                    self._fail(worker)

    def _flush(self, worker: _Worker) -> None:
        try:
            worker.flush()
            return
        except OSError:
            pass
        self._fail(worker)

    def _fail(self, worker: _Worker) -> NoReturn:
        """Ends all workers and raises the reason why this one died."""
        process = worker.process
        process.join(1.0)
        cause, pid = _cause(process), process.pid
        self.stop()
        raise RuntimeError(
            f"DataLoader worker (pid(s) {pid}) exited unexpectedly: "
            f"worker {worker.id} (pid {pid}) {cause}"
        )

    def stop(self) -> None:
        """Ends the workers by closing their sockets, then by SIGTERM, then by SIGKILL."""
        _teams.discard(self)
        if os.getpid() != self.owner:
            return
        workers, self.workers = self.workers, []
        self._ready.clear()
        try:
            for worker in workers:
                worker.end.close()
        finally:
            _end_processes([worker.process for worker in workers])


def _join(processes: list[Any], seconds: float) -> list[Any]:
    """Waits for the processes; returns those that still run."""
    end = time.monotonic() + seconds
    for process in processes:
        process.join(max(0.0, end - time.monotonic()))
    return [process for process in processes if process.is_alive()]


def _end_processes(processes: list[Any]) -> None:
    try:
        left = _join(processes, _LEAVE_SECONDS)
    except BaseException:  # interrupted while waiting: the processes must not be left behind
        left = [process for process in processes if process.is_alive()]
        _kill(left)
        raise
    for process in left:
        process.terminate()
    _kill(_join(left, 1.0))
    for process in processes:
        process.close()


def _kill(processes: list[Any]) -> None:
    for process in processes:
        process.kill()
    _join(processes, 5.0)
