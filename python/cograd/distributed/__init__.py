# SPDX-License-Identifier: BSD-3-Clause
"""Programs over several processes, on one machine or many, that communicate by MPI and NCCL.

``mpiexec -n 4 python train.py`` starts four ranks; each calls ``init_process_group()`` once.
Without mpiexec, the same program runs as one rank. It needs mpi4py and an MPI library:
``cograd[mpi]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cograd._base import absent as _absent
from cograd._base import launcher as _launcher
from cograd.distributed._calls.collectives import (
    all_reduce,
    all_reduce_coalesced,
    barrier,
    broadcast,
    monitored_barrier,
    reduce,
)
from cograd.distributed._calls.gathering import (
    all_gather,
    all_gather_into_tensor,
    all_gather_single,
    all_to_all,
    all_to_all_single,
    gather,
    reduce_scatter,
    reduce_scatter_single,
    reduce_scatter_tensor,
    scatter,
)
from cograd.distributed._calls.objects import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from cograd.distributed._calls.p2p import P2POp, batch_isend_irecv, irecv, isend, recv, send
from cograd.distributed._mpi.group import GroupMember, ProcessGroup, group
from cograd.distributed._mpi.runtime import available as _mpi4py_is_there
from cograd.distributed._mpi.work import Work, progress
from cograd.distributed._names import (
    Backend,
    DebugLevel,
    DistBackendError,
    DistError,
    DistNetworkError,
    DistStoreError,
    ReduceOp,
    default_pg_timeout,
    get_debug_level,
    set_debug_level,
    set_debug_level_from_env,
    supports_complex,
)
from cograd.distributed._nccl.communicator import why_not as _why_no_nccl
from cograd.distributed._setup import (
    destroy_process_group,
    get_backend,
    get_backend_config,
    get_default_backend_for_device,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_pg_count,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    init_process_group,
    is_initialized,
    new_group,
    new_subgroups,
    new_subgroups_by_enumeration,
    split_group,
)
from cograd.distributed.grad_bucket import GradBucket

__all__ = [
    "Backend",
    "DebugLevel",
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "GradBucket",
    "GroupMember",
    "P2POp",
    "ProcessGroup",
    "ReduceOp",
    "Work",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_gather_single",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "default_pg_timeout",
    "destroy_process_group",
    "gather",
    "gather_object",
    "get_backend",
    "get_backend_config",
    "get_debug_level",
    "get_default_backend_for_device",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "irecv",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "isend",
    "monitored_barrier",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "progress",
    "recv",
    "recv_object_list",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
    "send",
    "send_object_list",
    "set_debug_level",
    "set_debug_level_from_env",
    "split_group",
    "supports_complex",
]


def is_available() -> bool:
    """Returns whether mpi4py is installed, which ``init_process_group`` needs to start MPI."""
    return _mpi4py_is_there()


def is_mpi_available() -> bool:
    """Returns whether mpi4py is installed."""
    return _mpi4py_is_there()


def is_gloo_available() -> bool:
    """Returns whether "gloo" is accepted; it is a synonym of "mpi" where mpi4py is installed."""
    return _mpi4py_is_there()


def is_nccl_available() -> bool:
    """Returns whether there are a GPU and NVIDIA's NCCL."""
    return not _why_no_nccl()


def is_ucc_available() -> bool:
    """Returns False: UCC is not supported."""
    return False


def is_xccl_available() -> bool:
    """Returns False: XCCL is not supported."""
    return False


def is_backend_available(backend: str) -> bool:
    """Returns whether ``init_process_group`` accepts this backend."""
    if backend.lower() == "nccl" and _why_no_nccl():
        return False
    return backend.lower() in ("mpi", "gloo", "nccl") and _mpi4py_is_there()


def is_torchelastic_launched() -> bool:
    """Returns False: mpiexec starts programs, not torchelastic."""
    return False


_launcher.announce()

_PARTS = ("algorithms", "checkpoint", "nn", "optim")  # imported on first access


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name in _PARTS:
            from importlib import import_module

            return import_module(f"{__name__}.{name}")
        raise _absent.missing(__name__, name)

    del TYPE_CHECKING, annotations
