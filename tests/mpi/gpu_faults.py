# SPDX-License-Identifier: BSD-3-Clause
"""Failures of NCCL: what the ranks say, and that none waits for ever."""

import ctypes
import os
import sys
import time
from datetime import timedelta

import cograd as torch
import cograd.distributed as dist

driver = ctypes.CDLL(os.environ["COGRAD_CUDA_DRIVER"])
driver.fake_cuda_fail.argtypes = [ctypes.c_char_p, ctypes.c_int64, ctypes.c_int]


def says(call):
    began = time.monotonic()
    try:
        call()
    except (RuntimeError, ValueError) as error:
        print(f"[{dist.get_rank()}] {time.monotonic() - began:.1f} s: {error}", flush=True)
        time.sleep(1)  # the end of a rank that has failed ends the others
        return
    raise AssertionError("nothing was raised")


def call_fails():
    """Both ranks' call fails, and says what NCCL said."""
    x = torch.ones(3).cuda()
    dist.all_reduce(x)
    driver.fake_cuda_fail(b"ncclAllReduce", 1, 5)
    says(lambda: dist.all_reduce(x))


def no_id():
    """Rank 0 gets no id; the others are told why."""
    if dist.get_rank() == 0:
        driver.fake_cuda_fail(b"ncclGetUniqueId", 1, 2)
    says(lambda: dist.all_reduce(torch.ones(3).cuda()))


def fails_later():
    x = torch.ones(3).cuda()
    dist.all_reduce(x)
    x.cpu()
    library = ctypes.CDLL(os.environ["COGRAD_NCCL"])
    library.fake_nccl_break(6)
    says(lambda: [dist.all_reduce(x) or time.sleep(0.05) for _ in range(50)])


def nobody_else_comes():
    """Rank 1 never calls: the GPU of rank 0 waits for it, until the timeout."""
    x = torch.ones(3).cuda()
    dist.all_reduce(x)
    x.cpu()
    if dist.get_rank() == 0:
        dist.all_reduce(x)
        began = time.monotonic()
        torch.cuda.synchronize()
        print(f"[0] waited {time.monotonic() - began:.1f} s", flush=True)
        says(lambda: dist.all_reduce(x))
    else:
        time.sleep(4)
        says(dist.barrier)


def another_rank_raises():
    x = torch.ones(3).cuda()
    dist.all_reduce(x)
    x.cpu()
    if dist.get_rank() == 1:
        raise ValueError("broken on purpose")
    dist.all_reduce(x)
    torch.cuda.synchronize()
    says(lambda: dist.all_reduce(x))


def different_calls():
    x = torch.ones(4).cuda()
    dist.all_reduce(x)
    x.cpu()
    if dist.get_rank() == 0:
        says(lambda: [dist.all_reduce(x) or time.sleep(0.1) for _ in range(20)])
    else:
        says(lambda: [dist.broadcast(x, 0) or time.sleep(0.1) for _ in range(20)])


def forked():
    x = torch.ones(3).cuda()
    dist.all_reduce(x)
    pid = os.fork()
    if pid == 0:
        try:
            dist.all_reduce(x)
        except RuntimeError as error:
            os._exit(0 if "forked" in str(error) else 1)
        os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0
    dist.destroy_process_group()
    print("complete", flush=True)


dist.init_process_group("nccl", timeout=timedelta(seconds=2 if "nobody" in sys.argv[1] else 20))
globals()[sys.argv[1]]()
