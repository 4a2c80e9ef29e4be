# SPDX-License-Identifier: BSD-3-Clause
"""Process groups: their ranks, their communicator, and how they call MPI."""

from __future__ import annotations

import threading
import warnings
import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from cograd.distributed import _names
from cograd.distributed._mpi import runtime as _runtime
from cograd.distributed._mpi.board import spoken
from cograd.distributed._mpi.checks import check_int
from cograd.distributed._mpi.compare import compare
from cograd.distributed._mpi.watch import describe, origin, place, poll
from cograd.distributed._mpi.work import Work, mpi_failed
from cograd.distributed._nccl import communicator as _nccl

if TYPE_CHECKING:
    from cograd import Tensor
    from cograd.distributed._mpi.runtime import Runtime

__all__ = ["GroupMember", "ProcessGroup", "default_group", "group", "in_group", "resolve"]


class ProcessGroup:
    """Ranks that communicate; created by ``init_process_group`` and ``new_group``."""

    def __init__(
        self,
        runtime: Runtime,
        comm: Any,
        ranks: Sequence[int],
        timeout: float,
        name: str,
        desc: str = "",
    ) -> None:
        self._runtime = runtime
        self.comm = comm
        self.ranks = list(ranks)
        self.timeout = timeout
        self.group_name = name
        self.group_desc = desc or "undefined"
        self.sequence = 0  # number of collectives begun
        self._rank: int = comm.rank
        count = runtime.names[name] = runtime.names.get(name, 0) + 1
        self._calls = zlib.crc32(f"{name}#{count}".encode()) << 32  # number of call 0 on the board
        # Each rank checks the next one's calls, so some rank sees where two of the group differ.
        self._next = self.ranks[(self._rank + 1) % len(self.ranks)]
        self._beside: Any = None  # the communicator of comparisons in debug mode
        self._backend = "mpi"  # as the program names it
        self._chosen = ""  # as _gpus; empty before the ranks have agreed
        self._own = ""  # as _gpus, of this rank alone
        self._communicators: dict[tuple[int, int], Any] = {}  # of NCCL: by GPU, and peer or -1
        self._lock = threading.Lock()
        self._texts: dict[Any, tuple[str, bytes, int]] = {}

    def rank(self) -> int:
        """Returns this process's rank in the group."""
        return self._rank

    def size(self) -> int:
        """Returns the number of ranks in the group."""
        return len(self.ranks)

    def name(self) -> str:
        """Returns the backend's name."""
        return self._backend

    @property
    def _gpus(self) -> str:
        """Names what moves tensors on GPUs: "nccl", or "mpi" through the memory of the host.

        Before the ranks have agreed it is what this rank can use, as messages are of two ranks.
        """
        if not self._chosen and not self._own:
            self._own = "mpi" if _nccl.why_not() else "nccl"
        return self._chosen or self._own

    def choose(self) -> str:
        """Returns what moves tensors on GPUs in collectives; at first use the ranks agree on it."""
        if not self._chosen:
            self._chosen = "mpi" if self.why_no_nccl() else "nccl"
        return self._chosen

    def why_no_nccl(self) -> str:
        """Returns why some rank cannot use NCCL, or ""; all members call it at the same point."""
        size, byte = 512, self._runtime.MPI.BYTE
        own = _nccl.why_not().encode()[:size].ljust(size, b"\0")
        every = bytearray(size * self.size())
        self.collective(
            "the choice of NCCL",
            None,
            lambda comm: comm.Iallgather([own, byte], [every, byte]),
            keep=(own, every),
        )
        for at, rank in enumerate(self.ranks):
            if why := bytes(every[at * size : (at + 1) * size]).rstrip(b"\0"):
                return f"rank {rank}: {why.decode(errors='replace')}"
        return ""

    def set_timeout(self, timeout: Any) -> None:
        """Sets the timeout of this group's calls, a timedelta."""
        self.timeout = _names.seconds("set_timeout", timeout)

    def __repr__(self) -> str:
        return f"<ProcessGroup {self.group_name}: rank {self._rank} of ranks {self.ranks}>"

    def __reduce__(self) -> Any:
        raise TypeError("a ProcessGroup cannot be pickled: make it in every process")

    def _alive(self, call: bytes = b"") -> Runtime:
        """Returns the running MPI; raises in a forked child, after a failure, or if destroyed."""
        runtime = self._runtime
        runtime.check(call)
        if self.comm is None:
            raise ValueError(f"the process group {self.group_name} has been destroyed")
        return runtime

    def _text(self, name: str, detail: object, tensor: Tensor | None) -> tuple[str, bytes, int]:
        """Describes a call: as the ranks compare it, as the board shows it, and as a hash.

        The hash leaves out the call site, and replaces the shape by the number of elements.
        """
        agreed = getattr(origin, "what", "")
        key = name, detail, place(4), agreed, tensor is not None and (tensor.shape, tensor.dtype)
        found = self._texts.get(key)
        if found is None:
            if len(self._texts) > 4096:
                self._texts.clear()
            shape, dtype = (None, None) if tensor is None else (tensor.shape, tensor.dtype)
            file, line, why = key[2]
            own = detail.name if isinstance(detail, _names.ReduceOp) else detail
            call = (f"{name}({own})" if own else name) + agreed
            what = describe(call, shape, dtype, f"{file}:{line}{why}")
            shown = f"{what} (group {self.group_name})" if len(self.ranks) else what
            alike = f"{call} {tensor is not None and tensor.numel()} {dtype}"
            number = zlib.crc32(alike.encode(errors="replace"))
            found = self._texts[key] = what, shown.encode(errors="replace")[:900], number
        return found

    def collective(
        self,
        name: str,
        tensor: Tensor | None,
        start: Callable[[Any], Any],
        *,
        keep: Any = None,
        finish: Callable[[], Any] | None = None,
        async_op: bool = False,
        detail: object = "",
        result: Any = None,
        nbytes: int | None = None,
        timeout: float | None = None,
    ) -> Work | None:
        """Runs a collective: ``start(communicator)`` returns its request.

        Args:
            name: the name that the user knows.
            tensor: the tensor whose shape and dtype all ranks must share; None if there is none.
            start: begins the call; it runs after the comparison of debug mode.
            keep: objects that must live until the call is complete.
            finish: a function that runs when the call is complete.
            async_op: whether to return a Work at once instead of None at the end.
            detail: what else the ranks must share, such as the root.
            result: the value of the Work's future.
            nbytes: size of the message, if it is not the tensor's.
            timeout: timeout in seconds, if it is not the group's.
        """
        text, number, request, check = self.begin(
            name,
            detail,
            tensor,
            not async_op,
            lambda text: _begin(self._runtime, start, self.comm, text),
        )
        if nbytes is None:
            nbytes = 0 if tensor is None else tensor.numel() * tensor.element_size()
        return self._go(
            request, number, text, keep, check, finish, async_op, result, nbytes, None, timeout
        )

    def begin(
        self,
        name: str,
        detail: object,
        tensor: Tensor | None,
        waits: bool,
        start: Callable[[bytes], Any],
    ) -> tuple[bytes, int, Any, Callable[[], None]]:
        """Notes a collective on the board and starts it by ``start(text)``.

        Args:
            name, detail, tensor: as for ``collective``.
            waits: whether the board shows that this rank waits for the call.
            start: begins the call; its argument describes the call in messages.

        Returns:
            The description, the call's number in the group, what ``start`` returned, and a function
            that raises if the next rank ran a different call.
        """
        what, text, alike = self._text(name, detail, tensor)
        runtime = self._alive(text)
        with self._lock:
            self.sequence = number = self.sequence + 1
            if _names._level is not _names.DebugLevel.OFF:
                compare(self, number, what, text)
            call = self._calls + number
            runtime.board.note(call, alike)
            runtime.board.enter(waits, number, text)
            started = start(text)

        def check() -> None:
            if runtime.board.differs(self._next, call, alike):
                self._fail_for_difference(text, number)

        return text, number, started, check

    def _fail_for_difference(self, text: bytes, number: int) -> None:
        runtime = self._runtime
        call = spoken(text.decode(errors="replace"), number)
        raise runtime.fail(
            f"rank {runtime.rank} ran {call}, but rank {self._next} ran a different call instead: "
            "the results are invalid. Set COGRAD_DISTRIBUTED_DEBUG=1 to compare calls before data "
            "moves and to name both\nwhat the ranks of the group were doing:\n"
            f"{runtime.board.describe(self.ranks)}"
        )

    def point_to_point(
        self,
        name: str,
        tensor: Tensor,
        start: Callable[[Any], Any],
        peers: list[int],
        *,
        detail: str,
        keep: Any = None,
        finish: Callable[[], Any] | None = None,
        async_op: bool = False,
        status: Any = None,
    ) -> Work | None:
        """Runs a send or a receive with ``peers`` (global ranks)."""
        _, text, _ = self._text(name, detail, tensor)
        runtime = self._alive(text)
        runtime.board.enter(not async_op, 0, text)
        request = _begin(runtime, start, self.comm, text)
        nbytes = tensor.numel() * tensor.element_size()
        return self._go(
            request, 0, text, keep, None, finish, async_op, tensor, nbytes, peers, None, status
        )

    def _go(
        self,
        request: Any,
        number: int,
        text: bytes,
        keep: Any,
        check: Callable[[], None] | None,
        finish: Callable[[], Any] | None,
        async_op: bool,
        result: Any,
        nbytes: int,
        peers: list[int] | None,
        timeout: float | None,
        status: Any = None,
    ) -> Work | None:
        runtime = self._runtime
        if async_op:
            value = result if isinstance(result, list) else [result]
            work = Work(
                self, number, text, request, keep, finish, value, nbytes=nbytes, peers=peers
            )
            work._status, work._check = status, check
            runtime.pending[id(work)] = work
            if len(runtime.pending) > 64:  # releases complete Work that nobody waits for
                next(iter(list(runtime.pending.values())))._test()
            return work
        try:
            poll(
                request.Test if status is None else lambda: request.Test(status),
                runtime,
                self,
                lambda: spoken(text.decode(errors="replace"), number),
                timeout=self.timeout if timeout is None else timeout,
                nbytes=nbytes,
                peers=peers,
                look=check,
            )
            if check is not None:
                check()
        except BaseException as error:
            runtime.parked.append((request, keep))
            if isinstance(error, runtime.MPI.Exception):
                raise mpi_failed(runtime, error, text) from None
            raise
        if finish is not None:
            finish()
        runtime.board.leave()
        return None


def _begin(runtime: Runtime, start: Callable[[Any], Any], comm: Any, text: bytes) -> Any:
    try:
        return start(comm)
    except runtime.MPI.Exception as error:
        raise mpi_failed(runtime, error, text) from None


class _WorldMeta(type):
    _default: ProcessGroup | None = None

    @property
    def WORLD(cls) -> ProcessGroup | None:
        """Returns the default process group; None before it is created."""
        return _WorldMeta._default

    @WORLD.setter
    def WORLD(cls, value: ProcessGroup | None) -> None:
        _WorldMeta._default = value


class group(metaclass=_WorldMeta):
    """A namespace: ``group.WORLD`` is the default process group."""


class GroupMember(metaclass=_WorldMeta):
    """``NON_GROUP_MEMBER`` is what ``new_group`` returns on processes that are not members."""

    NON_GROUP_MEMBER = -100


def default_group() -> ProcessGroup:
    """Returns the default process group; raises ValueError before it is created."""
    found = _WorldMeta._default
    if found is None:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call "
            "init_process_group."
        )
    return found


def resolve(name: str, given: Any) -> ProcessGroup:
    """Returns the group for an argument ``group``, which may be None."""
    if given is None:
        return default_group()
    if not isinstance(given, ProcessGroup):
        raise TypeError(f"{name}: group must be a ProcessGroup or None, got {type(given).__name__}")
    return given


def in_group(name: str, given: Any) -> ProcessGroup | None:
    """Returns the group like ``resolve``, or warns and returns None outside of the group."""
    if given is GroupMember.NON_GROUP_MEMBER:
        runtime = _runtime.get()
        warnings.warn(
            f"Running {name} on global rank {runtime.rank} which does not belong to the given "
            "group.",
            stacklevel=3,
        )
        return None
    return resolve(name, given)


def group_rank(
    name: str, pg: ProcessGroup, which: str, given: Any, in_pg: Any, default: int | None = None
) -> int:
    """Returns the rank in ``pg`` for an argument such as ``src`` (global) or ``group_src``.

    ``default`` is the global rank if neither is given; None if one is required.
    """
    if given is not None and in_pg is not None:
        raise ValueError(f"{name}: can't specify both {which} and group_{which}")
    if given is None and in_pg is None:
        given = default
    value = given if in_pg is None else in_pg
    if value is None:
        raise ValueError(f"{name}: must specify {which} or group_{which}")
    value = check_int(name, which, value)
    if in_pg is not None:
        if not 0 <= value < pg.size():
            raise ValueError(f"{name}: Group rank {value} is not part of group {pg}")
        return value
    if value not in pg.ranks:
        raise ValueError(f"{name}: Global rank {value} is not part of group {pg}")
    return pg.ranks.index(value)
