# SPDX-License-Identifier: BSD-3-Clause
"""Creates and destroys process groups, and answers queries about them."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import cograd
from cograd.distributed import _names
from cograd.distributed._calls.objects import exchange
from cograd.distributed._mpi import runtime as _runtime
from cograd.distributed._mpi.checks import check_int
from cograd.distributed._mpi.group import GroupMember, ProcessGroup, default_group, group, resolve
from cograd.distributed._mpi.watch import call_site, complete, poll
from cograd.distributed._mpi.work import progress
from cograd.distributed._names import Backend, DistBackendError, seconds
from cograd.distributed._nccl import communicator as _nccl

__all__ = [
    "destroy_process_group",
    "get_backend",
    "get_backend_config",
    "get_default_backend_for_device",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "init_process_group",
    "is_initialized",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "split_group",
]

_world = group  # for functions with an argument ``group``
_groups: list[ProcessGroup] = []
_made = 0  # number of groups created so far, equal on all ranks


def _no_nccl(name: str, why: str) -> RuntimeError:
    return RuntimeError(
        f"{name}: Distributed package doesn't have NCCL built in: {why}; "
        "use 'mpi', which moves tensors of GPUs through the host's memory, or pass none"
    )


def _check_backend(name: str, backend: Any, *, later: bool = False) -> tuple[str, str]:
    """Returns the name of a backend, and what moves tensors on GPUs: "nccl" or "mpi".

    Raises RuntimeError if this rank has no NCCL and needs it; ``later`` leaves that to ``_use``.

    Without a name the second is "": NCCL if there is one when a tensor on a GPU comes first. CPU
    tensors always travel by MPI.
    """
    if backend is None:
        return "mpi", ""
    text = str(backend).lower()
    gpus = "mpi"
    for part in text.split(","):
        device, _, of_device = part.partition(":")
        which = of_device if of_device else device
        if of_device and device not in ("cpu", "cuda"):
            continue  # ignore backends of other devices
        if which == "nccl" and device == "cuda":
            gpus = ""  # where there is none, the host's memory serves
            continue
        if which == "nccl" and not of_device:
            if not later and (why := _nccl.why_not()):
                raise _no_nccl(name, why)
            gpus = "nccl"
            continue
        if which in ("nccl", "ucc", "xccl"):
            raise RuntimeError(
                f"{name}: Distributed package doesn't have {which.upper()} built in: backend "
                f"{which!r} is not offered, as ranks communicate by MPI; use 'mpi', or pass none"
            )
        if which not in ("mpi", "gloo"):
            raise ValueError(
                f"{name}: unknown backend {backend!r}, expected 'mpi', 'gloo' or 'nccl'"
            )
        if which == "gloo" and _runtime.current is not None and _runtime.current.rank == 0:
            warnings.warn(
                f"{name}: backend 'gloo' is taken as a synonym of 'mpi', which communicates here",
                stacklevel=3,
            )
    return "nccl" if text == "nccl" else "mpi", gpus


def _use(name: str, pg: ProcessGroup, backends: tuple[str, str], device_id: Any) -> None:
    """Gives a group its backends. With a GPU, NCCL starts at once instead of at the first call.

    Raises the same RuntimeError on all ranks if NCCL is required and one of them has none.
    """
    if backends[1] == "nccl" and (why := pg.why_no_nccl()):
        raise _no_nccl(name, why)
    pg._backend, pg._chosen = backends
    if device_id is None or pg.choose() != "nccl":
        return
    device = cograd.device("cuda", device_id) if isinstance(device_id, int) else device_id
    _nccl.of_group(pg, cograd.device(device).index or 0)


def is_initialized() -> bool:
    """Returns whether the default group exists: created and not destroyed since."""
    return group.WORLD is not None


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Starts MPI and creates the default process group, of all ranks that mpiexec started.

    Without mpiexec the group has one rank.

    Args:
        backend: "mpi", of which "gloo" is a synonym, "nccl", or both by device as in
            "cpu:mpi,cuda:nccl". None takes NCCL for tensors on GPUs if it is installed. MPI carries
            all others, and those of GPUs where there is no NCCL, through the host's memory.
        init_method: accepted and ignored: mpiexec determines the ranks.
        timeout: how long a call may wait for other ranks; 30 minutes by default.
        world_size: compared with MPI's value if given.
        rank: compared with MPI's value if given.
        store: not supported: ValueError if given.
        group_name: a name for messages.
        pg_options: ignored.
        device_id: the GPU of this rank, where NCCL then starts at once.

    Raises:
        ImportError: mpi4py is not installed.
        RuntimeError: the backend is not supported, the process was forked, or MPI does not offer
            MPI_THREAD_MULTIPLE.
        ValueError: it is called twice, or MPI contradicts the rank or world size.
    """
    global _made
    if group.WORLD is not None:
        raise ValueError("trying to initialize the default process group twice!")
    limit = seconds("init_process_group", timeout)
    if init_method is not None and not isinstance(init_method, str):
        raise TypeError(
            f"init_process_group: init_method must be a str, got {type(init_method).__name__}"
        )
    if store is not None:
        raise ValueError("init_process_group: there is no store; mpiexec says who the ranks are")
    _names.set_debug_level_from_env()
    try:
        runtime = _runtime.start(limit)
    except ImportError:
        _check_backend("init_process_group", backend)  # reports an invalid backend first
        raise
    backends = _check_backend("init_process_group", backend, later=True)
    for what, given, actual in (
        ("world_size", world_size, runtime.size),
        ("rank", rank, runtime.rank),
    ):
        if given not in (-1, None) and given != actual:
            raise ValueError(
                f"init_process_group: {what}={given}, but MPI says {actual}; start the program "
                f"with mpiexec -n {world_size if what == 'world_size' else runtime.size}, and "
                "leave world_size and rank out"
            )
    runtime.board.enter(True, 0, f"init_process_group at {call_site()}".encode()[:900])
    comm, request = runtime.world.Idup()
    pg = ProcessGroup(
        runtime, comm, range(runtime.size), limit, group_name or "default", "default_pg"
    )
    poll(request.Test, runtime, pg, lambda: "init_process_group", timeout=limit)
    runtime.board.leave()
    _use("init_process_group", pg, backends, device_id)
    _made = 0
    _groups.append(pg)
    group.WORLD = pg


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Destroys a group (None: the default group and all others); MPI itself keeps running.

    Calls in progress are completed first. All members must call it; on other ranks it does
    nothing.
    """
    if _is_outside(group):
        return
    pg = resolve("destroy_process_group", group)
    runtime = pg._runtime
    if pg.comm is None:
        raise ValueError("Invalid process group specified or has been destroyed.")
    whole = pg is _world.WORLD
    usable = runtime.broken is None and not (_runtime._forked or _runtime._ended)
    if usable:
        runtime.board.enter(True, pg.sequence, b"destroy_process_group")
        poll(progress, runtime, pg, lambda: "destroy_process_group", timeout=pg.timeout)
        for one in _groups if whole else [pg]:
            _nccl.finish(one)
        runtime.board.leave()
    for one in list(_groups) if whole else [pg]:
        if one in _groups:
            _groups.remove(one)
        _nccl.leave(one, abort=not usable)
        comms = [one.comm, one._beside]
        one.comm = one._beside = None
        if usable and runtime.broken is None and not runtime.parked:
            for comm in comms:
                if comm is not None:
                    comm.Free()
    if whole:
        _world.WORLD = None


def get_backend(group: ProcessGroup | None = None) -> Backend:
    """Returns the backend of a group: "nccl" if the program named only that, else "mpi"."""
    return Backend(resolve("get_backend", group)._backend)


def get_backend_config(group: ProcessGroup | None = None) -> str:
    """Returns the backends of a group by device."""
    pg = resolve("get_backend_config", group)
    return "cpu:mpi,cuda:nccl" if pg._gpus == "nccl" else "cpu:mpi"


def get_default_backend_for_device(device: Any) -> str:
    """Returns "mpi" for the CPU and "nccl" for GPUs; raises ValueError for another device."""
    kind = str(device).partition(":")[0]
    if kind == "cuda":
        return "mpi" if _nccl.why_not() else "nccl"
    if kind != "cpu":
        raise ValueError(f"Default backend not registered for device : {device}")
    return "mpi"


def _is_outside(group: Any) -> bool:
    return group is GroupMember.NON_GROUP_MEMBER


def get_rank(group: ProcessGroup | None = None) -> int:
    """Returns this process's rank in a group (None: the global rank); -1 if not a member."""
    if _is_outside(group):
        return -1
    return resolve("get_rank", group).rank()


def get_world_size(group: ProcessGroup | None = None) -> int:
    """Returns the number of ranks in a group; -1 if this process is not a member."""
    if _is_outside(group):
        return -1
    return resolve("get_world_size", group).size()


def get_process_group_ranks(group: ProcessGroup | None) -> list[int]:
    """Returns the global ranks of a group, in the order of their ranks in it."""
    return list(resolve("get_process_group_ranks", group).ranks)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """Returns the global rank of a group's member; raises ValueError if there is no such rank."""
    pg = resolve("get_global_rank", group)
    if not 0 <= group_rank < pg.size():
        raise ValueError(f"Group rank {group_rank} is not part of group {pg}")
    return pg.ranks[group_rank]


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """Returns the rank in ``group`` of a global rank; raises ValueError if it is not a member."""
    pg = resolve("get_group_rank", group)
    if global_rank not in pg.ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {pg}")
    return pg.ranks.index(global_rank)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Returns this process's rank on its machine: LOCAL_RANK if set, else MPI's value."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if _runtime.current is not None:
        return _runtime.current.node_rank
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError("get_node_local_rank: neither LOCAL_RANK nor a process group is there")


def get_pg_count() -> int:
    """Returns the number of process groups that this process is a member of."""
    return len(_groups)


def _checked_ranks(name: str, ranks: Any, size: int) -> list[int]:
    found = []
    for given in ranks:
        rank = check_int(name, "each of ranks", given)
        if not 0 <= rank < size:
            raise ValueError(
                f"{name}: The new group's rank should be within the world_size set by "
                f"init_process_group: got rank {rank} of {size}"
            )
        found.append(rank)
    if len(set(found)) != len(found):
        raise ValueError(f"{name}: the new group cannot have duplicate ranks, got {found}")
    if not found:
        raise ValueError(f"{name}: the new group has no ranks")
    return found


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
    """Creates a group of some ranks.

    All ranks must call it, members or not, in the same order and with the same ranks; with
    ``use_local_synchronization``, only the members.

    Args:
        ranks: global ranks; None for all.
        timeout: timeout of the group's calls; None for the default group's.
        backend: as in ``init_process_group``; None takes the default group's.
        pg_options: ignored.
        use_local_synchronization: whether only the members call it.
        group_desc: a description.
        device_id: as in ``init_process_group``.
        sort_ranks: whether to sort the group's ranks in ascending order instead of keeping the
            order of ``ranks``.

    Returns:
        The ProcessGroup, or GroupMember.NON_GROUP_MEMBER if this process is not a member.

    Raises:
        TypeError, ValueError: the ranks are invalid.
        DistBackendError: the ranks that call it do not all name the same ranks.
    """
    global _made
    world = default_group()
    runtime = world._alive()
    limit = world.timeout if timeout is None else seconds("new_group", timeout)
    backends = _check_backend("new_group", backend, later=True)
    if backend is None:
        backends = world._backend, world._chosen
    members = _checked_ranks(
        "new_group", range(world.size()) if ranks is None else ranks, world.size()
    )
    if sort_ranks:
        members.sort()
    if not use_local_synchronization:
        _made += 1
        _agree(world, "new_group", ",".join(map(str, members)))
    if runtime.rank not in members:
        return GroupMember.NON_GROUP_MEMBER
    if use_local_synchronization:
        _meet(world, members, limit)
    mpi_group = world.comm.Get_group().Incl(members)
    comm = world.comm.Create_group(mpi_group, 7)
    name = f"{_made}" if not use_local_synchronization else "local:" + ",".join(map(str, members))
    pg = ProcessGroup(runtime, comm, members, limit, name, group_desc or "")
    _use("new_group", pg, backends, device_id)
    _groups.append(pg)
    return pg


def _agree(world: ProcessGroup, name: str, what: str) -> None:
    """Raises on every rank unless all pass the same text."""
    said = exchange(world, name, what)
    if len(set(said)) > 1:
        lines = "\n".join(f"  rank {at}: {text}" for at, text in enumerate(said))
        raise DistBackendError(f"{name}: the ranks name different groups\n{lines}")


_MEETING = 3  # subtracted from the largest tag


def _meet(world: ProcessGroup, members: list[int], limit: float) -> None:
    """Waits until all members have called it: MPI's own group creation has no timeout.

    Each member sends its list of ranks to the first one, which answers with its own.
    """
    runtime, comm, rank = world._runtime, world.comm, world.rank()
    first, tag, byte = members[0], runtime.tag_limit - _MEETING, runtime.MPI.BYTE
    names = ",".join(map(str, members))
    own = f"{hashlib.sha256(names.encode()).hexdigest()} {names}".encode()[:256].ljust(256)
    others = [r for r in members if r != first] if rank == first else [first]
    said = {r: bytearray(len(own)) for r in others}
    text = f"new_group({names[:150]}) at {call_site()}"
    runtime.board.enter(True, 0, text.encode(errors="replace")[:900])

    def wait_for(requests: list[Any]) -> None:
        waiting = {"timeout": limit, "peers": others}
        complete(requests, (own, said), runtime, world, lambda: text, **waiting)

    if rank != first:
        wait_for([comm.Isend([own, byte], first, tag)])
    wait_for([comm.Irecv([raw, byte], r, tag) for r, raw in said.items()])
    if rank == first:
        wait_for([comm.Isend([own, byte], r, tag) for r in others])
    runtime.board.leave()
    for other, raw in said.items():
        if raw != own:
            raise DistBackendError(
                f"new_group: the ranks name different groups: rank {rank} {names}, rank {other} "
                f"{bytes(raw[65:]).decode().rstrip()}"
            )


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Creates disjoint groups; returns this process's group (None if in none) and all groups.

    The list has GroupMember.NON_GROUP_MEMBER for groups of which this process is not a member.
    Raises ValueError if the list is empty or a rank is named twice.
    """
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    every = [rank for ranks in ranks_per_subgroup_list for rank in ranks]
    twice = sorted({rank for rank in every if every.count(rank) > 1})
    if twice:
        raise ValueError(f"new_subgroups_by_enumeration: rank {twice[0]} is in two groups")
    own, groups = None, []
    for ranks in ranks_per_subgroup_list:
        made = new_group(ranks, timeout, backend, pg_options, group_desc=group_desc)
        groups.append(made)
        if isinstance(made, ProcessGroup):
            own = made
    return own, groups


def new_subgroups(
    group_size: int | None = None,
    group: ProcessGroup | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Divides a group into groups of ``group_size`` adjacent ranks (default: one per machine).

    Raises ValueError unless the size divides that of the group.
    """
    pg = resolve("new_subgroups", group)
    runtime = pg._alive()
    if group_size is None:
        sizes = exchange(default_group(), "new_subgroups", str(len(runtime.board.near())))
        if len(set(sizes)) > 1:
            raise ValueError("new_subgroups: the machines have different numbers of ranks")
        group_size = int(sizes[0])
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    size = pg.size()
    if size < group_size:
        raise ValueError(f"The arg 'group_size' ({group_size}) must not exceed the size {size}")
    if size % group_size:
        raise ValueError(f"The world size ({size}) must be divisible by group_size={group_size}")
    parts = [pg.ranks[at : at + group_size] for at in range(0, size, group_size)]
    return new_subgroups_by_enumeration(parts, timeout, backend, pg_options, group_desc)


def split_group(
    parent_pg: ProcessGroup | None = None,
    split_ranks: Sequence[Sequence[int]] | None = None,
    timeout: timedelta | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
    backend: str | None = None,
) -> ProcessGroup | None:
    """Splits a group by lists of its own ranks; returns this process's part, or None.

    All members of ``parent_pg`` must call it.
    """
    global _made
    parent = resolve("split_group", parent_pg)
    runtime = parent._alive()
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    _check_backend("split_group", backend)
    limit = parent.timeout if timeout is None else seconds("split_group", timeout)
    parts = [_checked_ranks("split_group", part, parent.size()) for part in split_ranks]
    every = [rank for part in parts for rank in part]
    if len(set(every)) != len(every):
        raise ValueError("split_group: a rank is in two of the groups")
    _agree(parent, "split_group", repr(parts))
    own = next((part for part in parts if parent.rank() in part), None)
    if own is None:
        return None
    comm = parent.comm.Create_group(parent.comm.Get_group().Incl(own), 8)
    ranks = [parent.ranks[rank] for rank in own]
    name = f"{parent.group_name}:split:{','.join(map(str, own))}"
    pg = ProcessGroup(runtime, comm, ranks, limit, name, group_desc or "")
    _groups.append(pg)
    return pg
