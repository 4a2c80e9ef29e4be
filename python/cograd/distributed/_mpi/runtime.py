# SPDX-License-Identifier: BSD-3-Clause
"""MPI in this process: import, start, and what happens when the program ends or fails."""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import importlib.util
import multiprocessing
import os
import stat
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from cograd._base import launcher as _launcher
from cograd.distributed._mpi.board import FAILED, GONE, LEFT, Board
from cograd.distributed._names import DistBackendError

__all__ = ["Runtime", "available", "current", "get", "start"]

GRACE = 5.0  # seconds that a failed rank gives the others to report what they saw


class Runtime:
    """The MPI of this process; there is one instance, which lives until the process ends."""

    def __init__(self, mpi: Any) -> None:
        self.MPI = mpi
        self.pid = os.getpid()
        self.world = mpi.COMM_WORLD.Dup()
        self.rank: int = self.world.rank
        self.size: int = self.world.size
        node = self.world.Split_type(mpi.COMM_TYPE_SHARED)
        self.node_rank: int = node.rank
        self.world.Barrier()  # all have mapped it; no rank leaves the board's barrier before
        if self.node_rank == 0:
            _unlink_segments()
        if os.environ.get("COGRAD_DISTRIBUTED_TEST_NODES"):  # each rank as a node of its own
            node = mpi.COMM_SELF
        self.board = Board(mpi, self.world, node)
        self.tag_limit: int = self.world.Get_attr(mpi.TAG_UB)
        self.broken: str | None = None
        self.parked: list[Any] = []  # abandoned requests, with the memory that MPI may write to
        self.names: dict[str, int] = {}  # group names, with the number of groups so named
        self.pending: dict[int, Any] = {}  # Work that nobody has waited for yet, by id
        self.closing: list[Callable[[], None]] = []  # called once all ranks are at their end

    def check(self, call: bytes = b"") -> None:
        """Raises if ``call`` can no longer work: in a forked child, or after a failure."""
        if _ended:
            raise RuntimeError(
                "cograd.distributed: MPI was finalized when the program ended; communicate before "
                "that, or in a function that is passed to atexit after init_process_group"
            )
        if _forked:
            raise RuntimeError(
                f"cograd.distributed: this process was forked from rank {self.rank}, and a forked "
                "process cannot communicate; communicate in the rank itself, or start the "
                "children with the spawn method"
            )
        if self.board.alarm[0]:
            self.fail_with_others(f" in {call.decode(errors='replace')}" if call else "")

    def fail(self, text: str) -> DistBackendError:
        """Marks this rank as failed, so that the others raise; returns the error to raise."""
        if self.broken is None:
            self.broken = text
            self.board.end(FAILED, text.partition("\n")[0])
        return DistBackendError(text)

    def fail_with_others(self, during: str = "") -> None:
        """Raises because another rank has failed (or this one has, earlier)."""
        if self.broken is not None:
            first = self.broken.partition("\n")[0]
            raise DistBackendError(f"communication has failed before{during}: {first}")
        record = self.board.read(int(self.board.alarm[0]) - 1)
        reason = "failed" if record is None else f"failed: {record.reason}"
        text = (
            f"rank {self.rank}{during}: rank {int(self.board.alarm[0]) - 1} {reason}\n"
            f"what the ranks were doing:\n{self.board.describe(list(range(self.size)))}"
        )
        raise self.fail(text)


def _unlink_segments() -> None:
    """Removes the names of MPICH's shared memory once every rank of the node has mapped it.

    MPICH removes them only in MPI_Finalize, which a killed rank never reaches.
    """
    try:
        with open("/proc/self/maps", encoding="ascii", errors="replace") as file:
            mapped = {
                line.split(maxsplit=5)[5].strip() for line in file if "/dev/shm/mpich" in line
            }
    except OSError:
        return
    for path in mapped:
        if not path.endswith(" (deleted)"):
            try:
                os.unlink(path)
            except OSError:
                pass


current: Runtime | None = None
_forked = False
_ended = False  # MPI_Finalize was called: any further call would end the process


def available() -> bool:
    """Returns whether mpi4py is installed."""
    return importlib.util.find_spec("mpi4py") is not None


def get() -> Runtime:
    """Returns the running MPI."""
    if current is None:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call "
            "init_process_group."
        )
    return current


def start(limit: float) -> Runtime:
    """Imports and starts MPI, once in a process.

    MPI waits forever for a rank that never starts, and does not return meanwhile. So after
    ``limit`` seconds the process prints its stack and exits with code 1.
    """
    global current
    if current is not None:
        current.check()
        return current
    if _forked_before():
        raise RuntimeError(
            "init_process_group: this process was forked from a rank of MPI and cannot become one"
        )
    if _launcher.position() is not None:
        _check_is_rank()
    with _ended_after(limit):
        mpi = _import()
        _check_launcher(mpi)
        current = Runtime(mpi)
    os.register_at_fork(after_in_child=_in_child)
    atexit.register(_at_exit, current)
    _hook_exceptions(current)
    return current


def _check_is_rank() -> None:
    """Raises RuntimeError in a child process of a rank, which MPI's own error would end."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RuntimeError(
            "init_process_group: this process was started by a rank of mpiexec through "
            "multiprocessing (a DataLoader with workers, for one) and runs the program's main "
            "module again; put what only ranks shall do below if __name__ == '__main__':"
        )
    if multiprocessing.parent_process() is not None:
        raise RuntimeError(
            "init_process_group: this process was started by a rank of mpiexec through "
            "multiprocessing and cannot be a rank itself; mpiexec starts the ranks, so call in the "
            "rank what the process was to run (multiprocessing.spawn does so when nprocs is "
            "mpiexec's -n)"
        )
    number = os.environ.get("PMI_FD", "")
    try:
        if not number.isdecimal() or stat.S_ISSOCK(os.fstat(int(number)).st_mode):
            return
    except OSError:
        pass
    raise RuntimeError(
        "init_process_group: this process was started by a rank of mpiexec and cannot be a rank "
        "itself; to let it run alone take PMI_FD, PMI_RANK and PMI_SIZE out of its environment"
    )


def _check_launcher(mpi: Any) -> None:
    """Raises if another MPI's mpiexec started this process: each rank would be alone."""
    kind, size = _launcher.started_by()
    version = mpi.Get_library_version()
    library = _launcher.library_kind(version)
    if size > 1 and mpi.COMM_WORLD.size == 1 and library and kind != library:
        line = " ".join(version.splitlines()[0].split())
        raise RuntimeError(
            f"init_process_group: the mpiexec of {kind} started {size} processes, but mpi4py uses "
            f"{library} ({line[:80]}), for which each of them is alone. Start the program with "
            f"the mpiexec of {library} (python -m cograd torchrun finds it), or install mpi4py "
            f"for {kind}"
        )


@contextlib.contextmanager
def _ended_after(limit: float) -> Iterator[None]:
    try:
        number = sys.__stderr__.fileno()  # type: ignore[union-attr]
        faulthandler.dump_traceback_later(min(limit, 1e6), exit=True, file=number)
    except (OSError, RuntimeError, ValueError, AttributeError):  # there is no stderr
        yield
        return
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def _import() -> Any:
    if "mpi4py.MPI" not in sys.modules:
        try:
            import mpi4py
        except ImportError as error:
            raise ImportError(
                "cograd.distributed needs mpi4py and an MPI library: "
                "pip install 'cograd[mpi]' brings both"
            ) from error
        # This module finalizes MPI itself: at exit, MPI must not wait for ranks that failed.
        mpi4py.rc(initialize=True, threads=True, thread_level="multiple", finalize=False)
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise ImportError(
            "cograd.distributed: there is no MPI library: install one by pip install "
            "'cograd[mpi]', or load the cluster's own, such as by module load mpi\n"
            f"mpi4py said: {error}"
        ) from error
    if MPI.Is_finalized():
        raise RuntimeError("init_process_group: MPI was finalized in this process")
    if not MPI.Is_initialized():
        MPI.Init_thread(MPI.THREAD_MULTIPLE)
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        raise RuntimeError(
            "init_process_group: MPI runs without MPI_THREAD_MULTIPLE; import cograd.distributed "
            "and call init_process_group before mpi4py.MPI is imported, or set "
            "mpi4py.rc.thread_level = 'multiple' before it"
        )
    return MPI


def _forked_before() -> bool:
    return _forked


def _in_child() -> None:
    global _forked
    _forked = True


def _wait_for_others(runtime: Runtime, seconds: float) -> None:
    """Waits until every rank of this node has reached its end."""
    board = runtime.board
    now = time.monotonic()
    end = now + seconds
    # Ranks of other nodes cannot be checked: give them a second to read the reason.
    least = now + 1.0 if len(board.near()) < runtime.size else now
    while now < end:
        ended = all(board.life(rank)[0] in (LEFT, GONE) for rank in board.near())
        if ended and now >= least:
            return
        runtime.world.Iprobe()
        time.sleep(0.01)
        now = time.monotonic()


def _abort(runtime: Runtime) -> None:
    runtime.board.gone()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass
    _wait_for_others(runtime, GRACE)
    time.sleep(0.25)  # mpiexec still has to read the ranks' last lines
    runtime.MPI.COMM_WORLD.Abort(1)


def _hook_exceptions(runtime: Runtime) -> None:
    before = sys.excepthook

    def hook(kind: Any, value: Any, trace: Any) -> None:
        if before is sys.__excepthook__ and sys.stderr is not None and runtime.size > 1:
            _report(runtime, kind, value, trace)
        else:
            before(kind, value, trace)
        if os.getpid() == runtime.pid and runtime.size > 1:
            runtime.fail(_reason(kind, value, trace))
            _abort(runtime)

    sys.excepthook = hook


def _report(runtime: Runtime, kind: Any, value: Any, trace: Any) -> None:
    """Prints the traceback with the rank, in one write, so that ranks do not interleave."""
    lines = "".join(traceback.format_exception(kind, value, trace)).splitlines()
    try:
        sys.stderr.write("".join(f"[rank{runtime.rank}]: {line}\n" for line in lines))
        sys.stderr.flush()
    except (OSError, ValueError):
        pass


def _reason(kind: Any, value: Any, trace: Any) -> str:
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
    try:
        text = str(value).partition("\n")[0]
    except Exception:  # raised by the error's own __str__
        text = ""
    return f"{kind.__name__}: {text}{place}" if text else f"{kind.__name__}{place}"


def _at_exit(runtime: Runtime) -> None:
    global _ended
    if os.getpid() != runtime.pid or runtime.MPI.Is_finalized():
        return
    if runtime.broken is not None and runtime.size > 1:
        _abort(runtime)
    runtime.board.end(LEFT)
    barrier = runtime.world.Ibarrier()
    pause = 1e-5
    while not barrier.Test():
        if runtime.board.alarm[0]:
            runtime.board.end(FAILED, "ended while another rank failed")
            _abort(runtime)
        time.sleep(pause)
        pause = min(pause * 2, 2e-3)
    for close in runtime.closing:
        close()
    if not runtime.parked:
        _ended = True
        runtime.MPI.Finalize()
