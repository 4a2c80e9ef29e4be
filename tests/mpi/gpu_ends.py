# SPDX-License-Identifier: BSD-3-Clause
"""Ends of communicators, and what their thread does meanwhile (argument: a function)."""

import ctypes
import os
import sys
import threading
import time
from datetime import timedelta

import cograd as torch
import cograd.distributed as dist
from cograd.distributed._nccl import communicator as own

driver = ctypes.CDLL(os.environ["COGRAD_CUDA_DRIVER"])
driver.fake_cuda_fail.argtypes = [ctypes.c_char_p, ctypes.c_int64, ctypes.c_int]
driver.fake_cuda_calls.restype = ctypes.c_int64


def device_one():
    """No thread makes a context on GPU 0, which this rank does not use."""
    torch.cuda.set_device(1)
    x = torch.ones(3, device="cuda")
    work = dist.all_reduce(x, async_op=True)
    time.sleep(1)  # the thread looks several times
    work.wait()
    assert x.tolist() == [2.0] * 3
    assert own._watch.is_alive()
    time.sleep(0.6)
    dist.barrier()
    dist.destroy_process_group()
    contexts = driver.fake_cuda_calls(b"cuDevicePrimaryCtxRetain")
    print(f"contexts: {contexts}\n", end="", flush=True)  # one write, as both ranks print


def destroyed_early():
    """Rank 1 never makes the call that rank 0 leaves unfinished."""
    x = torch.ones(3).cuda()
    dist.all_reduce(x)
    x.cpu()
    if dist.get_rank() == 0:
        dist.all_reduce(x, async_op=True)
    else:
        time.sleep(6)
    began = time.monotonic()
    try:
        dist.destroy_process_group()
    except dist.DistBackendError as error:
        print(f"[{dist.get_rank()}] {time.monotonic() - began:.1f} s: {error}", flush=True)


def not_destroyed():
    """The program ends with its communicators, of which one has a call in progress."""
    x = torch.ones(3).cuda()
    dist.all_reduce(x)
    if dist.get_rank() == 0:
        dist.send(x, 1)
    else:
        dist.recv(x, 0)
    leave = own._C._nccl_leave

    def left(handle, abort):
        leave(handle, abort)
        mpi = dist.group.WORLD._runtime.MPI
        alive = own._watch is not None and own._watch.is_alive()
        os.write(1, f"left; finalized {mpi.Is_finalized()}, watched {alive}\n".encode())

    own._C._nccl_leave = left
    dist.all_reduce(x, async_op=True)


def lost():
    """An error of the driver is one of the communicator; another one of a look is not."""
    x = torch.ones(3).cuda()
    dist.all_reduce(x)
    x.cpu()
    communicator = dist.group.WORLD._communicators[0, -1]
    look, seen = communicator._look, []

    def broken():
        seen.append(threading.current_thread().name)
        raise KeyError("not an error of NCCL")

    communicator._look = broken
    time.sleep(1)
    assert set(seen) == {"cograd-nccl"} and len(seen) > 1, seen
    communicator._look = look
    assert communicator.failed == ""
    dist.all_reduce(x)
    assert x.tolist() == [4.0] * 3
    dist.barrier()
    dist.all_reduce(x, async_op=True)
    driver.fake_cuda_fail(b"cuEventQuery", -1000, 700)
    time.sleep(1)
    assert "cuEventQuery" in communicator.failed, communicator.failed
    print("complete", flush=True)
    sys.stdout.flush()
    driver.fake_cuda_fail(b"cuEventQuery", -1, 0)
    os._exit(0)


def again():
    """The thread ends with the last communicator, and a new one looks at the next ones."""
    for _ in range(3):
        pg = dist.new_group()
        x = torch.ones(3).cuda()
        dist.all_reduce(x, group=pg)
        assert x.tolist() == [2.0] * 3
        assert own._watch is not None and own._watch.is_alive()
        watch = own._watch
        dist.destroy_process_group(pg)
        assert own._live == []
        time.sleep(0.24)  # a new communicator comes as the thread is about to end
        watch.join(0 if dist.get_rank() else 2)
    dist.destroy_process_group()
    print("complete", flush=True)


def one_without():
    """Rank 1 has no NCCL: all ranks use the host's memory, or all raise the same error."""
    pg = dist.group.WORLD
    x = torch.ones(3).cuda()
    dist.all_reduce(x)
    assert x.tolist() == [2.0] * 3
    assert pg._chosen == "mpi" and dist.get_backend_config() == "cpu:mpi"
    if dist.get_rank() == 0:
        dist.send(x * 2, 1)
    else:
        dist.recv(x, 0)
        assert x.tolist() == [4.0] * 3
    for make in (dist.new_group, again_with):
        try:
            make(backend="nccl")
            raise AssertionError("nothing was raised")
        except RuntimeError as error:
            print(f"said: {error}", flush=True)


def again_with(backend):
    dist.destroy_process_group()
    dist.init_process_group(backend)


if sys.argv[1] == "one_without" and os.environ["PMI_RANK"] == "1":
    os.environ["COGRAD_NCCL"] = "none"
backend = None if sys.argv[1] == "one_without" else "nccl"
seconds = 2 if "early" in sys.argv[1] else 20
dist.init_process_group(backend, timeout=timedelta(seconds=seconds))
globals()[sys.argv[1]]()
