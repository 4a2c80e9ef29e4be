# SPDX-License-Identifier: BSD-3-Clause
"""The cache: one directory for each build, which appears complete or not at all.

`<root>/<name>/<key>-<variant>/` contains the module, its `.pyi`, the generated sources and
`build.json`, which records the compiler and every included file with its digest. The key covers
everything known before compiling; variants of one key differ in headers or compiler.

"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import sys
import threading
import time
from types import TracebackType
from typing import Any

from cograd.utils.cpp_extension import _paths
from cograd.utils.cpp_extension._job import Job, digest

RECORD = "build.json"
TEMPORARY = ".tmp-"
_SYSTEM = (
    *("/usr/", "/opt/", "/nix/store/"),
    *(os.path.join(p, "include", "") for p in (sys.prefix, sys.base_prefix)),
    *(os.path.join(p, "lib", "") for p in (sys.prefix, sys.base_prefix)),  # site-packages
)
_RACY = 2.0  # seconds within which an equal time stamp does not prove an equal file


class Entry:
    """A finished build.

    Attributes:
        folder: path of the directory.
        path: path of the module, or the program.
        record: the content of build.json.
        data: the module's bytes, once read.
    """

    __slots__ = ("data", "folder", "path", "record")

    def __init__(self, folder: str, record: dict[str, Any]) -> None:
        self.folder = folder
        self.record = record
        self.path = os.path.join(folder, str(record["file"]))
        self.data = b""


def read_record(folder: str) -> dict[str, Any] | None:
    """Returns the content of build.json, None if it is missing or damaged."""
    try:
        with open(os.path.join(folder, RECORD), "rb") as file:
            record = json.loads(file.read())
    except (OSError, ValueError):
        return None
    wanted = ("file", "size", "digest", "compiler", "deps", "built")
    return record if isinstance(record, dict) and all(k in record for k in wanted) else None


def find(job: Job, key: str, compiler: str | None) -> Entry | None:
    """Returns the build that this job would repeat, or None.

    Args:
        job: the job to look up.
        key: `job.key()`.
        compiler: the compiler's identity; None if there is no compiler: then builds by all
            compilers are valid, and missing system headers are ignored.
    """
    try:
        names = [n for n in os.listdir(job.directory) if n.startswith(f"{key}-")]
    except OSError:
        return None
    for name in names:
        folder = os.path.join(job.directory, name)
        record = read_record(folder)
        if record is None or record.get("volatile"):
            continue
        if compiler is not None and record["compiler"] != compiler:
            continue
        if not all(_same(dep, record["built"], compiler is None) for dep in record["deps"]):
            continue
        entry = Entry(folder, record)
        if intact(entry):
            _mark_used(folder)
            return entry
    return None


def intact(entry: Entry) -> bool:
    """True if the module is unchanged since it was published; reads it into `entry.data`."""
    try:
        with open(entry.path, "rb") as file:
            entry.data = file.read()
    except OSError:
        return False
    same = len(entry.data) == int(entry.record["size"])
    return same and digest(entry.data) == str(entry.record["digest"])


def is_system(path: str) -> bool:
    """True if a header belongs to the compiler, the system, Python or cograd, not to the user."""
    return path.startswith((*_SYSTEM, _paths.include_dir() + os.sep))


def stamp_file(path: str) -> list[Any]:
    """Returns [path, time, size, digest] of a file."""
    with open(path, "rb") as file:
        data = file.read()
        status = os.fstat(file.fileno())
    return [path, status.st_mtime_ns, status.st_size, digest(data)]


def _same(dep: list[Any], built: float, without_compiler: bool) -> bool:
    """True if an included file is the one that was compiled.

    System headers with an unchanged time and size are trusted, as git does, unless they were
    written just before the build; all others are read.
    """
    path, mtime, size, content = dep
    path, built_before = str(path), float(mtime) / 1e9 < built - _RACY
    system = is_system(path)
    try:
        status = os.stat(path)
    except OSError:
        return without_compiler and system
    if status.st_size != int(size):
        return False
    if system and status.st_mtime_ns == mtime and built_before:
        return True
    try:
        return bool(stamp_file(path)[3] == str(content))
    except OSError:
        return False


def _mark_used(folder: str) -> None:
    """Stores the time of last use for `prune --days`, at most once a minute."""
    path = os.path.join(folder, RECORD)
    try:
        if time.time() - os.stat(path).st_mtime > 60:
            os.utime(path)
    except OSError:
        pass


def write_record(folder: str, record: dict[str, Any]) -> None:
    """Writes build.json, the last file of an entry."""
    with open(os.path.join(folder, RECORD), "w", encoding="utf-8") as file:
        json.dump(record, file, separators=(",", ":"))


def publish(temporary: str, folder: str) -> None:
    """Renames a finished temporary directory; replaces an existing `folder`.

    Raises:
        OSError: the file system rejects it.
    """
    for attempt in range(20):
        try:
            os.rename(temporary, folder)
            return
        except OSError:
            if attempt == 19 or not os.path.isdir(folder):
                raise
            remove(folder)  # damaged, or the same build by another process


def remove(folder: str) -> None:
    """Removes an entry atomically: a reader sees all of it or nothing."""
    import shutil

    parent = os.path.dirname(folder)
    try:
        grave = make_temporary(parent)
        os.rename(folder, os.path.join(grave, "entry"))
        shutil.rmtree(grave, ignore_errors=True)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)


def sweep(directory: str) -> int:
    """Removes the temporary directories of builds that died, and returns their number."""
    import shutil

    removed = 0
    try:
        names = os.listdir(directory)
    except OSError:
        return 0
    for name in names:
        if not name.startswith(TEMPORARY):
            continue
        path = os.path.join(directory, name)
        pid, _, rest = name[len(TEMPORARY) :].partition("-")
        host = rest.partition("-")[0]
        mine = host == str(hash_host())
        try:
            old = time.time() - os.stat(path).st_mtime > 86400
        except OSError:
            continue
        if old or (mine and pid.isdigit() and not is_alive(int(pid))):
            shutil.rmtree(path, ignore_errors=True)
            removed += 1
    return removed


def hash_host() -> int:
    """Returns a number for this host and its process ids, the same in all its processes."""
    import zlib

    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    return zlib.crc32(f"{os.uname().nodename} {namespace}".encode())


def is_alive(pid: int) -> bool:
    """Returns whether a process of this host exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def make_temporary(directory: str) -> str:
    """Creates a temporary directory beside the entries, so that a rename can publish it.

    Raises:
        OSError: the directory cannot be written to.
    """
    import tempfile

    return tempfile.mkdtemp(prefix=f"{TEMPORARY}{os.getpid()}-{hash_host()}-", dir=directory)


def read_depfile(path: str) -> list[str]:
    """Returns the files that a dependency file lists, which a compiler wrote in its folder.

    The compiler's own files in that folder are left out. Other relative paths come from ccache,
    which writes them if its option base_dir asks for them.
    """
    folder = os.path.dirname(path)
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        files = [os.path.normpath(os.path.join(folder, d)) for d in split_depfile(file.read())]
    return [f for f in files if not f.startswith(folder + os.sep)]


def split_depfile(text: str) -> list[str]:
    """Returns the files that the text of a compiler's dependency file lists."""
    import re

    text = text.replace("\\\n", " ")
    _, _, rest = text.partition(": ")
    rest = rest.split("\n\n")[0]
    words = re.findall(r"(?:\\[ #\\]|\$\$|[^\s\\]|\\(?=[^\s#\\]))+", rest)
    return [re.sub(r"\\([ #\\])", r"\1", w).replace("$$", "$") for w in words]


# Not filelock: it has no heartbeat, so its waiters block as long as a holder is stopped; it does
# not name the holder, leaves the file behind, and is one more package to install.
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
