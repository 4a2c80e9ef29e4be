# SPDX-License-Identifier: BSD-3-Clause
"""A lock between processes that want to build the same thing, which cannot make them hang.

Results are published by renaming a directory, so two builds at once are only redundant. The lock
just avoids the redundant work: a process that waits for a dead or silent holder proceeds.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
import threading
import time
from types import TracebackType

from cograd.utils.cpp_extension._entry import is_alive

SILENCE = 30.0  # seconds without a heartbeat after which a holder counts as stuck
_HOST = os.uname().nodename
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW  # a symbolic link is not a lock
_thread_locks: dict[str, threading.Lock] = {}
_thread_locks_guard = threading.Lock()


def _forget_threads() -> None:
    """Resets the locks after a fork: the threads that held them do not exist in the child."""
    global _thread_locks_guard
    _thread_locks_guard = threading.Lock()
    _thread_locks.clear()


os.register_at_fork(after_in_child=_forget_threads)


class BuildLock:
    """Holds `path` locked inside a `with` block; `beat()` signals that work continues.

    The kernel releases the lock when its process ends. This fails for a forked child that inherited
    it, a stopped process, and file systems without locks. For those the file's text names the
    holder, and the file's modification time is the holder's last heartbeat.
    """

    def __init__(self, path: str, verbose: bool = False) -> None:
        self.path = path
        self.verbose = verbose
        self.broken = False
        self._fd: int | None = None
        with _thread_locks_guard:
            self._thread_lock = _thread_locks.setdefault(path, threading.Lock())

    def acquire_now(self) -> bool:
        """Acquires the lock if it is free; `__exit__` or `release` releases it."""
        if not self._thread_lock.acquire(blocking=False):
            return False
        try:
            fd = os.open(self.path, _FLAGS, 0o644)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._is_current(fd):
                    self._hold(fd)
                    return True
            except OSError:
                pass
            os.close(fd)
        except OSError:
            pass
        self._thread_lock.release()
        return False

    def release(self) -> None:
        """Releases a lock that `acquire_now` acquired."""
        self.__exit__(None, None, None)

    def __enter__(self) -> BuildLock:
        self._thread_lock.acquire()
        try:
            self._acquire()
        except BaseException:
            self._thread_lock.release()
            raise
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        try:
            if self._fd is not None:
                if self._is_current(self._fd):
                    os.unlink(self.path)  # waiting processes see that and create a new file
                os.close(self._fd)  # this unlocks
                self._fd = None
        finally:
            self._thread_lock.release()

    def beat(self) -> None:
        """Signals to waiting processes that this process is still working."""
        if self._fd is not None:
            try:
                os.utime(self._fd)
            except OSError:
                pass

    def _acquire(self) -> None:
        start = time.monotonic()
        told = False
        while True:
            try:
                fd = os.open(self.path, _FLAGS, 0o644)
            except OSError as e:
                if e.errno != errno.ELOOP:
                    raise
                self.broken = True  # a symbolic link, which is never a lock
                return
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as e:
                holder = self._holder(fd)
                os.close(fd)
                if e.errno not in (errno.EAGAIN, errno.EACCES, errno.EINTR):
                    self.broken = True  # the file system does not support locks
                    return
            else:
                if self._is_current(fd):
                    self._hold(fd)
                    return
                os.close(fd)
                continue
            waited = time.monotonic() - start
            if waited > 0.5 and self._stale(holder):
                self._break(holder)
                continue
            if not told and waited > (0.0 if self.verbose else 3.0):
                told = True
                print(
                    f"cograd: waiting for process {holder.split(' ')[0] or '?'}, which builds the "
                    f"same extension ({self.path})",
                    file=sys.stderr,
                )
            time.sleep(0.01 if waited < 1 else 0.05)

    def _hold(self, fd: int) -> None:
        os.ftruncate(fd, 0)
        os.write(fd, f"{os.getpid()} {_HOST}\n".encode())
        self._fd = fd

    def _is_current(self, fd: int) -> bool:
        """True if the path still names the opened file, so no process has broken the lock."""
        try:
            named = os.lstat(self.path)
        except FileNotFoundError:
            return False
        opened = os.fstat(fd)
        return (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)

    @staticmethod
    def _holder(fd: int) -> str:
        return os.pread(fd, 200, 0).decode(errors="replace").strip()

    def _stale(self, holder: str) -> bool:
        pid, _, host = holder.partition(" ")
        if pid.isdigit() and host == _HOST and not is_alive(int(pid)):
            return True
        try:
            return time.time() - os.lstat(self.path).st_mtime > SILENCE
        except FileNotFoundError:
            return True

    def _break(self, holder: str) -> None:
        print(
            f"cograd: breaking the stale lock {self.path} of process {holder or '?'}",
            file=sys.stderr,
        )
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            pass
