# SPDX-License-Identifier: BSD-3-Clause
"""Programs in which rank 1 makes an error: python faults.py NAME runs one of them."""

import os
import signal
import sys
import time
from datetime import timedelta

import cograd as torch
import cograd.distributed as dist

SECONDS = 1.5
dist.init_process_group("mpi", timeout=timedelta(seconds=SECONDS))
rank, size = dist.get_rank(), dist.get_world_size()


def say(text):
    print(f"[{rank}] {text}", flush=True)


def caught(function, *arguments, **named):
    began = time.monotonic()
    try:
        function(*arguments, **named)
    except dist.DistBackendError as error:
        say(f"after {time.monotonic() - began:.1f} s: {error}")
        return error
    raise AssertionError("nothing was raised")


def raises():
    if rank == 1:
        for other in (0, 2):  # which may not have returned from init_process_group yet
            dist.recv(torch.zeros(1), other)
        time.sleep(0.3)
        raise ValueError("broken on purpose")
    dist.send(torch.zeros(1), 1)
    dist.all_reduce(torch.ones(3))


def computes_while_another_raises():
    if rank == 1:
        raise ValueError("broken on purpose")
    end = time.monotonic() + 60
    while time.monotonic() < end:  # ended by MPI_Abort
        sum(range(1000))


def killed_in_backward():
    x = torch.ones(3, requires_grad=True)
    if rank == 1:
        x.register_hook(lambda grad: os.kill(os.getpid(), signal.SIGKILL))
    (x * 2).sum().backward()
    dist.all_reduce(x.grad)


def raises_in_a_hook():
    x = torch.ones(3, requires_grad=True)

    def hook(grad):
        if rank == 1:
            raise ValueError("broken in a hook")
        dist.all_reduce(grad)

    x.register_hook(hook)
    (x * 2).sum().backward()


def interrupted():
    dist.barrier()
    if rank == 1:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        dist.recv(torch.zeros(1), 0)
    dist.all_reduce(torch.ones(3))


def ends_early():
    dist.group.WORLD.set_timeout(timedelta(seconds=60))
    if rank == 1:
        sys.exit(3)
    dist.all_reduce(torch.ones(3))


def times_out():
    """Rank 1 comes too late: the other ranks time out, and rank 1 raises their error."""
    dist.barrier()
    if rank == 1:
        time.sleep(SECONDS + 1)
    caught(dist.all_reduce, torch.ones(3, 2))
    caught(dist.barrier)


def different_calls():
    if rank == 1:
        caught(dist.broadcast, torch.ones(2), 0)
    else:
        caught(dist.all_reduce, torch.ones(3))


def calls_look_alike():
    """Rank 1 passes another dtype with the same number of bytes, which MPI would add up."""
    dist.all_reduce(torch.ones(2, 2) if rank else torch.ones(4))  # the same elements: fine
    works = [dist.all_reduce(torch.ones(3), async_op=True) for _ in range(50)]
    assert all(work.wait() for work in works)
    other = torch.ones(4, dtype=torch.int32) if rank == 1 else torch.ones(4)

    def reduce_and_wait():  # a rank whose neighbour's call is its own is told by the next call
        dist.all_reduce(other)
        dist.barrier()

    caught(reduce_and_wait)
    caught(dist.barrier)


def sends_too_much():
    if rank == 1:
        dist.send(torch.ones(9), 0)
        caught(dist.recv, torch.ones(1), 0)
    elif rank == 0:
        caught(dist.recv, torch.ones(3), 1)


def nobody_receives():
    if rank == 0:
        caught(dist.send, torch.ones(1_000_000), 1)
    else:
        caught(dist.barrier)


def missing_at_barrier():
    if rank == 1:
        time.sleep(2)
    caught(dist.monitored_barrier, timeout=timedelta(seconds=0.5))


def handle_times_out():
    """After Work.wait(timeout) has raised, the call goes on and can be waited for again."""
    dist.group.WORLD.set_timeout(timedelta(seconds=30))
    if rank == 1:
        time.sleep(0.6)
    x = torch.ones(2)
    work = dist.all_reduce(x, async_op=True)
    if rank != 1:
        caught(work.wait, timedelta(seconds=0.1))
        assert not work.is_completed()
    work.wait()
    assert x.tolist() == [size] * 2
    say("complete")


def debug():
    """With COGRAD_DISTRIBUTED_DEBUG=1 every rank raises, and the group can be used afterwards."""
    odd = rank == 1
    ones = torch.ones(3)
    pairs = [
        ("op", lambda: dist.broadcast(ones, 0) if odd else dist.all_reduce(ones)),
        ("shape", lambda: dist.all_reduce(torch.ones(4 if odd else 3))),
        ("dtype", lambda: dist.all_reduce(ones.double() if odd else ones)),
        (
            "reduction",
            lambda: dist.all_reduce(ones, dist.ReduceOp.MAX if odd else dist.ReduceOp.SUM),
        ),
        ("root", lambda: dist.broadcast(ones, 1 if odd else 0)),
    ]
    for name, call in pairs:
        try:
            call()
        except dist.DistBackendError as error:
            text = str(error)
            assert "different collectives" in text and text.count("faults.py:") >= 2 + size, text
            say(f"{name}: {text}")
            continue
        raise AssertionError(name)
    assert ones.tolist() == [1.0] * 3
    dist.all_reduce(ones)
    assert ones.tolist() == [size] * 3
    say("goes on")


def forked():
    """A forked child can compute; it raises if it communicates."""
    work = dist.all_reduce(torch.ones(2), async_op=True)
    child = os.fork()
    if child == 0:
        code = 0
        for call in (dist.barrier, work.wait, work.is_completed, dist.init_process_group):
            try:
                call()
            except (RuntimeError, ValueError) as error:
                code += "was forked from rank" in str(error) or "twice" in str(error)
        sys.exit(code + 3)  # through the exit handlers
    work.wait()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    data = torch.utils.data.TensorDataset(torch.arange(40.0))
    sampler = torch.utils.data.DistributedSampler(data, size, rank, shuffle=False)
    loader = torch.utils.data.DataLoader(data, batch_size=5, sampler=sampler, num_workers=2)
    total = torch.zeros(1)
    for (batch,) in loader:
        part = batch.sum().reshape(1)
        dist.all_reduce(part)
        total += part
    assert total.item() == 780.0
    say("complete")


def killed_with_workers():
    """When a rank is killed, its DataLoader workers end, too."""
    data = torch.utils.data.TensorDataset(torch.arange(4000.0))
    loader = torch.utils.data.DataLoader(data, batch_size=5, num_workers=2)
    for at, _ in enumerate(loader):
        if at == 5 and rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.01)


def segments():
    """MPI's shared memory has no names in /dev/shm once the ranks run."""
    with open("/proc/self/maps") as file:
        names = [line for line in file if "/dev/shm/mpich" in line and "(deleted)" not in line]
    dist.barrier()
    assert not names, names


globals()[sys.argv[1]]()
