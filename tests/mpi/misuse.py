# SPDX-License-Identifier: BSD-3-Clause
"""Programs in which rank 1 misuses the package: python misuse.py NAME runs one of them."""

import gc
import glob
import json
import os
import subprocess
import sys
import threading
from datetime import timedelta

import cograd as torch
import cograd.distributed as dist
from cograd.distributed import checkpoint as dcp
from cograd.distributed._mpi.runtime import get as runtime

LIMIT = timedelta(seconds=3)


def never_begins():
    """Rank 1 raises before MPI starts, so MPI_Init waits forever on the others."""
    if rank_before == 1:
        raise ValueError("broken before it began")
    dist.init_process_group("mpi", timeout=LIMIT)


def caught(kind, text, function, *arguments, **named):
    try:
        function(*arguments, **named)
    except kind as error:
        assert text in str(error), error
        return
    raise AssertionError(f"no {kind.__name__} with {text!r}")


def local_group_without_a_member():
    if rank == 0:
        dist.new_group([0, 1], use_local_synchronization=True)


def local_groups_differ():
    ranks = [0, 1, 2] if rank else [0, 1]
    if rank < 2:
        text = "the ranks name different groups"
        caught(dist.DistBackendError, text, dist.new_group, ranks, use_local_synchronization=True)
        group = dist.new_group([1, 0], use_local_synchronization=True, sort_ranks=False)
        assert dist.get_rank(group) == 1 - rank
        dist.barrier(group)


def destroyed_by_all():
    """Every rank calls destroy_process_group, also ranks that are not in the group."""
    group = dist.new_group([0])
    dist.destroy_process_group(group)
    dist.barrier()


def irecv_of_too_much():
    """A handle raises the same MPI error as recv does, at every wait()."""
    if rank == 1:
        dist.send(torch.ones(9), 0)
        caught(dist.DistBackendError, "rank 0 failed", dist.barrier)
        print("told", flush=True)
        return
    work = dist.irecv(torch.ones(3), 1)
    for _ in range(2):
        caught(dist.DistBackendError, "MPI failed in irecv(src=1", work.wait)


def other_memory_under_irecv():
    """The memory that MPI writes to lives until the write, even if the tensor gets other memory."""
    x = torch.ones(3_000_000)
    if rank:
        dist.barrier()
        dist.send(x, 0)
        return
    work = dist.irecv(x, 1)
    x.data = torch.zeros(1)
    gc.collect()
    others = [torch.full((3_000_000,), 7.0) for _ in range(4)]
    dist.barrier()
    work.wait()
    assert all((other == 7).all() for other in others)


def memory_that_may_not_be_written():
    fixed = torch.frombuffer(bytes(8), dtype=torch.float32)
    for call in (
        lambda: dist.all_reduce(fixed),
        lambda: dist.recv(fixed, 1 - rank),
        lambda: dist.all_gather_into_tensor(fixed, torch.ones(1)),
        lambda: dist.all_to_all_single(fixed, torch.ones(2)),
    ):
        caught(RuntimeError, "read-only", call)
    given = fixed if rank == 0 else torch.ones(2)
    dist.broadcast(given, 0)
    assert given.tolist() == [0, 0]


def objects_that_cannot_be_pickled():
    """All ranks raise, and the group can be used afterwards."""
    bad = (lambda: 1) if rank == 1 else 1
    slots, first = [None] * size, rank == 0
    calls = [
        lambda: dist.all_gather_object(slots, bad),
        lambda: dist.gather_object(bad, slots if first else None),
        lambda: dist.broadcast_object_list([bad], 1),
        lambda: dist.scatter_object_list([0], None if first else [1] * (size - 1) + [bad], 1),
        lambda: dist.recv_object_list(slots[:1], 1) if first else dist.send_object_list([bad], 0),
    ]
    for call in calls:
        if first:
            caught(dist.DistBackendError, "rank 1 could not pickle its objects", call)
        else:
            caught(AttributeError, "pickle", call)
    dist.all_gather_object(slots, rank)
    assert slots == list(range(size))


def one_receive_twice_in_a_batch():
    if rank:
        dist.send(torch.ones(3), 0)
        dist.send(torch.ones(3), 0)
        return
    receive = dist.P2POp(dist.irecv, torch.zeros(3), 1)
    first, second = dist.batch_isend_irecv([receive, receive])
    assert first is not second
    first.wait()
    second.wait()


def hooks_of_wrong_shapes():
    """A result of the wrong shape raises; one element would otherwise fill the whole bucket."""
    for text, wrong in (
        ("got [1]", lambda flat: flat.new_ones(1)),
        ("got [2]", lambda flat: flat[:2]),
        ("got NoneType", lambda flat: None),
    ):
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))

        def hook(state, bucket, wrong=wrong):
            future = torch.futures.Future()
            future.set_result(wrong(bucket.buffer()))
            return future

        model.register_comm_hook(None, hook)
        caught(RuntimeError, text, model(torch.ones(2, 4)).sum().backward)


def waited_for_by_threads():
    """All threads that wait for one handle see the result."""
    seen = []
    for _ in range(20):
        x = torch.ones(300, 300).t()
        work = dist.all_reduce(x, async_op=True)

        def wait(x=x, work=work):
            work.wait()
            seen.append((x == size).all().item())

        threads = [threading.Thread(target=wait) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert seen == [True] * 80


def forked_with_a_handle():
    """A forked child that uses its parent's handle raises and does not take part in MPI."""
    x = torch.ones(100_000)
    work = dist.all_reduce(x, async_op=True)
    child = os.fork()
    if child == 0:
        for call in (work.wait, work.is_completed, dist.progress):
            caught(RuntimeError, "was forked from rank", call)
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    work.wait()
    assert (x == size).all()


def handles_that_nobody_keeps():
    """The memory of handles that the program drops is freed."""
    for _ in range(300):
        dist.all_reduce(torch.ones(10), async_op=True)
        dist.barrier()
    assert len(runtime().pending) <= 66


def parts_are_found():
    assert dist.nn.functional.all_reduce is not None and dist.checkpoint.save is not None


def _wanted():
    return {"a": torch.zeros(4, 2), "n": 0}


def damaged_checkpoint():
    """All ranks raise CheckpointException, however the files are damaged."""
    folder = sys.argv[2]
    dcp.save({"a": torch.ones(4, 2), "n": 3}, checkpoint_id=folder)
    name = os.path.join(folder, "index.json")
    with open(name) as file:
        good = file.read()

    def index(change):
        dist.barrier()
        if rank == 0:
            found = json.loads(good)
            text = change(found, found["tensors"]["a"], found["tensors"]["a"]["chunks"][0])
            with open(name, "w") as file:
                file.write(text if isinstance(text, str) else json.dumps(found))
        dist.barrier()
        caught(dcp.CheckpointException, "", dcp.load, _wanted(), checkpoint_id=folder)

    for change in (
        lambda whole, a, chunk: whole.pop("tensors") and None,
        lambda whole, a, chunk: whole.pop("values") and None,
        lambda whole, a, chunk: whole["tensors"].update(a="x"),
        lambda whole, a, chunk: a.pop("chunks") and None,
        lambda whole, a, chunk: a.update(dtype=3),
        lambda whole, a, chunk: a.update(shape=None),
        lambda whole, a, chunk: chunk.update(file=0),
        lambda whole, a, chunk: chunk.update(file="../x"),
        lambda whole, a, chunk: chunk.update(file=".."),
        lambda whole, a, chunk: chunk.update(offsets=[0]),
        lambda whole, a, chunk: chunk.update(offsets=["a", 0]),
        lambda whole, a, chunk: chunk.update(sizes=[1, 1]),
        lambda whole, a, chunk: "[" * 100_000,
    ):
        index(change)
    (shard,) = glob.glob(os.path.join(folder, "shard-*"))
    with open(shard, "rb") as file:
        raw = file.read()
    length = int.from_bytes(raw[:8], "little")
    for place in ([-8, -4], [0, 10**18], [0, 10**30], [32, 0], "ab", None):
        dist.barrier()
        if rank == 0:
            with open(name, "w") as file:
                file.write(good)
            header = json.loads(raw[8 : 8 + length])
            header["a@0"]["data_offsets"] = place
            text = json.dumps(header).encode()
            with open(shard, "wb") as file:
                file.write(len(text).to_bytes(8, "little") + text + raw[8 + length :])
        dist.barrier()
        caught(dcp.CheckpointException, "", dcp.load, _wanted(), checkpoint_id=folder)
    dist.barrier()


def mismatches_within_lists():
    """Debug mode compares shapes in lists, and what one rank sends with what another expects."""
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    one, two = torch.zeros(1), torch.zeros(2)
    lists = [one, two] if rank else [two, one]
    told, name = dist.DistBackendError, "different collectives"
    own = lists[rank]
    caught(told, name, dist.reduce_scatter, own.clone(), [t.clone() for t in lists])
    caught(told, name, dist.all_gather, [t.clone() for t in lists], own)
    caught(told, name, dist.all_reduce_coalesced, [t.clone() for t in lists])
    sizes = [1, 1] if rank else [1, 2]
    given = [torch.zeros(n) for n in sizes]
    caught(told, "rank 0 sends 2 elements to rank 1, which expects 1", dist.all_to_all,
           [torch.zeros(1), torch.zeros(1)], given)  # fmt: skip
    caught(told, "sends 2 elements", dist.all_to_all_single,
           torch.zeros(2), torch.cat(given), [1, 1], sizes)  # fmt: skip
    equal = [torch.zeros(2) for _ in range(2)]
    dist.all_gather(equal, torch.ones(2))
    dist.all_to_all(equal, [two, two])
    dist.all_gather([torch.zeros(1), torch.zeros(2)], torch.zeros(rank + 1))
    dist.barrier()
    spaces = torch.zeros(2, 3)
    within = "cograd.distributed.nn.functional, which support vmap"
    for call in (dist.all_reduce, lambda x: dist.broadcast(x, 0), lambda x: dist.send(x, 1 - rank)):
        caught(RuntimeError, within, torch.func.vmap(call), spaces)


def children():
    """Child processes of a rank cannot be ranks; they raise before MPI ends them."""
    code = "import cograd.distributed as dist\ndist.init_process_group()\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "take PMI_FD, PMI_RANK and PMI_SIZE out" in done.stderr, done
    torch.multiprocessing.spawn(print, nprocs=1)  # runs this file again, without a guard


class _Late:
    def __del__(self):
        for call in (dist.barrier, dist.destroy_process_group, lambda: self.work.is_completed()):
            try:
                call()
            except RuntimeError as error:
                assert "MPI was finalized" in str(error), error
        os.write(1, b"let go\n")


def calls_after_the_end():
    """An object that outlives MPI cannot communicate and does not change the exit code."""
    global late
    late = _Late()
    late.work = dist.irecv(torch.zeros(1), 1 - rank)


def error_without_text():
    """The __str__ of the exception raises."""

    class Broken(Exception):
        def __str__(self):
            raise ValueError("no text")

    if rank == 1:
        raise Broken
    dist.barrier()


rank_before = int(os.environ.get("PMI_RANK", "0"))
if sys.argv[1] != "never_begins":
    dist.init_process_group("mpi", timeout=LIMIT)
    rank, size = dist.get_rank(), dist.get_world_size()
globals()[sys.argv[1]]()
