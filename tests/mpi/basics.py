# SPDX-License-Identifier: BSD-3-Clause
"""Checks of collectives, messages, objects and groups, on any number of ranks."""

import sys
import threading
import warnings
from datetime import timedelta

import checks
import numpy as np
from checks import raises

import cograd as torch
import cograd.distributed as dist
from cograd.distributed import ReduceOp

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
REALS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
COMPLEX = (torch.complex64, torch.complex128)
DTYPES = (torch.bool, *INTEGERS, *REALS, *COMPLEX)


def me():
    return dist.get_rank(), dist.get_world_size()


def values(rank, dtype, shape=(3, 4)):
    """Returns small numbers that differ from rank to rank."""
    count = torch.Size(shape).numel()
    base = (torch.arange(count) * (rank + 2) + rank) % 5
    return base.reshape(shape).to(dtype)


def every(function):
    """Returns `function(rank)` for each rank."""
    return [function(rank) for rank in range(dist.get_world_size())]


def layouts(tensor):
    """Yields the same values contiguous, transposed, strided and as a part of a tensor."""
    yield tensor.clone()
    yield tensor.t().contiguous().t()
    wide = torch.zeros(tensor.shape[0], 2 * tensor.shape[1], dtype=tensor.dtype)
    wide[:, ::2] = tensor
    yield wide[:, ::2]
    long = torch.zeros(tensor.numel() + 5, dtype=tensor.dtype)
    long[3:-2] = tensor.reshape(-1)
    yield long[3:-2].view(tensor.shape)


def expected(op, parts):
    whole = torch.stack(parts)
    dtype = whole.dtype
    if dtype is torch.bool:
        if op in (ReduceOp.SUM, ReduceOp.MAX, ReduceOp.BOR):
            return whole.any(0)
        if op is ReduceOp.BXOR:
            return whole.sum(0) % 2 == 1
        return whole.all(0)
    if op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR):
        out = parts[0].clone()
        for part in parts[1:]:
            name = {"BAND": "and", "BOR": "or", "BXOR": "xor"}[op.name]
            out = getattr(torch, f"bitwise_{name}")(out, part)
        return out
    wide = whole.float() if dtype in (torch.float16, torch.bfloat16) else whole
    if op is ReduceOp.SUM:
        return wide.sum(0).to(dtype)
    if op is ReduceOp.AVG:
        return wide.mean(0).to(dtype)
    if op is ReduceOp.PRODUCT:
        return wide.prod(0).to(dtype)
    return (wide.amin(0) if op is ReduceOp.MIN else wide.amax(0)).to(dtype)


def ops_for(dtype):
    ops = [ReduceOp.SUM, ReduceOp.PRODUCT]
    if not dtype.is_complex:
        ops += [ReduceOp.MIN, ReduceOp.MAX]
    if dtype.is_complex or dtype.is_floating_point:
        return [*ops, ReduceOp.AVG]
    return [*ops, ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR]


def check_all_reduce():
    r, n = me()
    for dtype in DTYPES:
        for op in ops_for(dtype):
            want = expected(op, every(lambda q: values(q, dtype)))
            for x in layouts(values(r, dtype)):
                version = x._version
                assert dist.all_reduce(x, op) is None
                assert torch.allclose(x, want), (dtype, op, x, want)
                assert x._version > version
            work = dist.all_reduce(x := values(r, dtype), op, async_op=True)
            assert work.wait() and work.is_completed() and work.is_success()
            assert torch.allclose(x, want) and work.result()[0] is x


def check_extremes():
    """NaN is the extreme on every rank, whichever has it; zeros are ordered by their signs."""
    r, n = me()
    nan = float("nan")
    for dtype in REALS:
        for of in {0, n - 1}:
            own = [nan if r == of else 1.0, -1.0 - r, 0.0 if r == of else -0.0, float("inf"), 2.0]
            x = torch.tensor(own, dtype=dtype)
            most = torch.tensor([nan, -1.0, 0.0, float("inf"), 2.0], dtype=dtype)
            signs = [-0.0 if n > 1 else 0.0, float("inf"), 2.0]
            least = torch.tensor([nan, -float(n), *signs], dtype=dtype)
            for op, want in ((ReduceOp.MAX, most), (ReduceOp.MIN, least)):
                for made in (x.clone(), torch.stack([x, x], 1)[:, 0]):
                    dist.all_reduce(made, op)
                    assert str(made.tolist()) == str(want.tolist()), (dtype, op, made)
                made, parts = torch.empty(5, dtype=dtype), [x] * n
                dist.reduce_scatter(made, parts, op)
                assert str(made.tolist()) == str(want.tolist()), (dtype, op, made)
                made = x.clone()
                dist.reduce(made, n - 1, op)
                assert str(made.tolist()) == str((want if r == n - 1 else x).tolist())
                made, other = x.clone(), x[1:2].clone()
                dist.all_reduce_coalesced([made, other], op)
                assert str([*made.tolist(), other.item()]) == str([*want.tolist(), want[1].item()])


def check_halves_are_rounded_once():
    """The n * 2^-9 of 1 + n * 2^-9 is lost if bfloat16 is rounded after each addition."""
    r, n = me()
    x = torch.tensor([1.0 if r == 0 else 2.0**-9], dtype=torch.bfloat16)
    dist.all_reduce(x)
    assert x.item() == torch.tensor(1 + (n - 1) * 2.0**-9).bfloat16().item()
    x = torch.tensor([60000.0 if r == 0 else 60000.0 * (r == 1)], dtype=torch.float16)
    dist.all_reduce(x, ReduceOp.AVG)
    assert abs(x.item() - 60000.0 * min(n, 2) / n) < 32  # the sum alone overflows float16


def check_broadcast_and_reduce():
    r, n = me()
    for dtype in DTYPES:
        for root in {0, n - 1}:
            for x in layouts(values(r, dtype)):
                dist.broadcast(x, root)
                assert torch.equal(x, values(root, dtype))
            op = ReduceOp.SUM
            for x in layouts(values(r, dtype)):
                dist.reduce(x, root, op)
                want = (
                    expected(op, every(lambda q: values(q, dtype)))
                    if r == root
                    else values(r, dtype)
                )
                assert torch.allclose(x, want)
    x = values(r, torch.float32)
    work = dist.broadcast(x, group_src=n - 1, async_op=True)
    work.wait()
    assert torch.equal(x, values(n - 1, torch.float32))


def check_all_gather():
    r, n = me()
    for dtype in DTYPES:
        for x in layouts(values(r, dtype)):
            out = [torch.zeros(3, 4, dtype=dtype) for _ in range(n)]
            dist.all_gather(out, x)
            assert all(torch.equal(out[q], values(q, dtype)) for q in range(n))
            whole = torch.zeros(3 * n, 4, dtype=dtype)
            dist.all_gather_into_tensor(whole, x)
            stacked = torch.zeros(4, n, 3, dtype=dtype).permute(1, 2, 0)
            dist.all_gather_into_tensor(stacked, x)
            assert torch.equal(whole, torch.cat(out)) and torch.equal(stacked, torch.stack(out))
    parts = list(torch.zeros(n, 3).unbind(0))  # adjacent: no copy
    dist.all_gather(parts, values(r, torch.float32, (3,)))
    assert all(torch.equal(parts[q], values(q, torch.float32, (3,))) for q in range(n))
    own = torch.zeros(n, 2)
    own[r] = r + 1.0
    dist.all_gather_into_tensor(own, own[r])  # in place
    assert own[:, 0].tolist() == [q + 1.0 for q in range(n)]
    moved = torch.arange(2.0 * n + 2)
    dist.all_gather_into_tensor(moved[: 2 * n], moved[2:4])  # overlaps
    assert moved[: 2 * n].tolist() == [2.0, 3.0] * n
    uneven = [torch.zeros(q + 1) for q in range(n)]
    dist.all_gather(uneven, torch.full((r + 1,), r + 1.0))
    assert [t.sum().item() for t in uneven] == [(q + 1.0) ** 2 for q in range(n)]


def check_gather_and_scatter():
    r, n = me()
    for root in {0, n - 1}:
        for x in layouts(values(r, torch.float64)):
            out = [torch.zeros(4, 3, dtype=torch.float64).t() for _ in range(n)]
            dist.gather(x, out if r == root else None, root)
            assert r != root or all(torch.equal(out[q], values(q, torch.float64)) for q in range(n))
            back = torch.zeros(3, 4, dtype=torch.float64)
            dist.scatter(back, out if r == root else None, root)
            assert torch.equal(back, x)
    x = torch.full((2,), float(r))
    work = dist.gather(x, [torch.zeros(2) for _ in range(n)] if r == 0 else None, async_op=True)
    work.wait()
    with raises(ValueError, "must be specified" if r == 0 else "must NOT be specified"):
        dist.gather(x, None if r == 0 else [x] * n, 0)
    with raises(ValueError, "must be specified" if r == 0 else "must NOT be specified"):
        dist.scatter(x, None if r == 0 else [x] * n, 0)


def check_reduce_scatter():
    r, n = me()
    for dtype in (torch.int32, torch.bfloat16, torch.float32, torch.complex64):
        whole = expected(ReduceOp.SUM, every(lambda q: values(q, dtype, (2 * n, 3))))
        for x in layouts(values(r, dtype, (2 * n, 3))):
            out = torch.zeros(3, 2, dtype=dtype).t()
            dist.reduce_scatter_tensor(out, x)
            assert torch.allclose(out, whole[2 * r : 2 * r + 2])
            out = torch.zeros(2, 3, dtype=dtype)
            dist.reduce_scatter(out, list(x.split(2)))
            assert torch.allclose(out, whole[2 * r : 2 * r + 2])
    x = torch.ones(n, 2) * (r + 1)
    dist.reduce_scatter_tensor(x[r], x, ReduceOp.AVG)  # its own part
    assert x[r].tolist() == [(n + 1) / 2] * 2
    uneven, out = [torch.ones(q + 1) for q in range(n)], torch.zeros(r + 1)
    dist.reduce_scatter(out, uneven)
    assert out.tolist() == [float(n)] * (r + 1)


def check_all_to_all():
    r, n = me()
    for dtype in DTYPES:
        for x in layouts(values(r, dtype, (2 * n, 3))):
            out = torch.zeros(3, 2 * n, dtype=dtype).t()
            dist.all_to_all_single(out, x)
            want = torch.cat(every(lambda q: values(q, dtype, (2 * n, 3))[2 * r : 2 * r + 2]))
            assert torch.equal(out, want)
    # rank q sends q + to + 1 rows to rank `to`, and none to the last
    counts = [[(q + to + 1) * (to < n - 1 or n == 1) for to in range(n)] for q in range(n)]
    sent = torch.full((sum(counts[r]), 2), float(r))
    received = torch.zeros(sum(c[r] for c in counts), 2)
    dist.all_to_all_single(received, sent, [c[r] for c in counts], counts[r])
    assert received[:, 0].tolist() == [float(q) for q in range(n) for _ in range(counts[q][r])]
    ins = [torch.full((r + 1, q + 1), float(r)) for q in range(n)]
    outs = [torch.zeros(q + 1, r + 1) for q in range(n)]
    work = dist.all_to_all(outs, ins, async_op=True)
    work.wait()
    assert [t.flatten()[0].item() for t in outs] == [float(q) for q in range(n)]


def check_empty():
    r, n = me()
    x = torch.zeros(0, 3)
    dist.all_reduce(x), dist.broadcast(x, 0), dist.reduce(x, 0)
    dist.all_gather([torch.zeros(0, 3) for _ in range(n)], x)
    dist.all_gather_into_tensor(torch.zeros(0, 3), x)
    dist.reduce_scatter_tensor(torch.zeros(0, 3), x)
    dist.all_to_all_single(torch.zeros(0, 3), x)
    dist.gather(x, [torch.zeros(0, 3) for _ in range(n)] if r == 0 else None)
    dist.scatter(x, [torch.zeros(0, 3) for _ in range(n)] if r == 0 else None)
    scalar = torch.tensor(2.0)
    dist.all_reduce(scalar)
    assert scalar.item() == 2.0 * n
    gathered = torch.zeros(n)
    dist.all_gather_into_tensor(gathered, torch.tensor(float(r)))
    assert gathered.tolist() == [float(q) for q in range(n)]
    if n > 1 and r < 2:
        (dist.send if r == 0 else dist.recv)(x, 1 - r)


def check_autograd():
    """Collectives write without recording, as in torch, and increment the version."""
    r, n = me()
    leaf = torch.ones(2, requires_grad=True)
    dist.all_reduce(leaf)
    assert leaf.tolist() == [n] * 2 and leaf.requires_grad and leaf.is_leaf
    turned = torch.ones(2, 3, requires_grad=True)
    dist.broadcast(turned.detach().t(), 0)
    y = torch.ones(2, requires_grad=True)
    z = y * 2
    square = z * z
    dist.all_reduce(z)
    with raises(RuntimeError, "modified by an inplace operation"):
        square.sum().backward()


def check_hooks():
    """A hook can call a collective, whichever thread the engine runs it on."""
    r, n = me()
    x = torch.ones(3, requires_grad=True)
    x.register_hook(lambda grad: dist.all_reduce(grad))
    y = torch.ones(3, requires_grad=True)
    y.register_hook(dist.all_reduce)
    (x * x + 0 * y * y).sum().backward()
    assert x.grad.tolist() == [2.0 * n] * 3 and y.grad.tolist() == [0.0] * 3


def check_messages():
    r, n = me()
    if n == 1:
        with raises(ValueError, "same as the rank"):
            dist.send(torch.ones(1), 0)
        return
    right, left = (r + 1) % n, (r - 1) % n
    for dtype in DTYPES:
        for x in layouts(values(r, dtype)):
            y = torch.zeros(4, 3, dtype=dtype).t()
            work = dist.isend(x, right)
            assert dist.recv(y, left) == left and work.wait()
            assert torch.equal(y, values(left, dtype))
    if r == 0:
        seen = set()
        for _ in range(n - 1):
            x = torch.zeros(2)
            seen.add(sender := dist.recv(x, tag=5))
            assert x.tolist() == [float(sender)] * 2
        assert seen == set(range(1, n))
    else:
        dist.send(torch.full((2,), float(r)), 0, tag=5)
    big, into = torch.full((300_000,), float(r)), torch.zeros(300_000)
    works = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, big, right), dist.P2POp(dist.irecv, into, left)]
    )
    for work in works:
        work.wait()
    assert into[-1].item() == left
    work = dist.irecv(into)
    dist.send(big, right, tag=0) if r else dist.isend(big, right).wait()
    work.wait()
    assert work.source_rank() == left
    dist.barrier()
    if r == 0:
        dist.send(torch.ones(2), 1)
    elif r == 1:
        with raises(RuntimeError, "sent 2 elements, the tensor of shape"):
            dist.recv(torch.zeros(3), 0)


def check_objects():
    r, n = me()
    out = [None] * n
    dist.all_gather_object(out, {"rank": r, "text": "x" * (1000 * r)})
    assert [o["rank"] for o in out] == list(range(n)) and len(out[-1]["text"]) == 1000 * (n - 1)
    dist.gather_object((r, "a"), out if r == n - 1 else None, n - 1)
    assert r != n - 1 or out == [(q, "a") for q in range(n)]
    listed = [{"w": torch.ones(2) * 3}, None] if r == 0 else [None, 7]
    dist.broadcast_object_list(listed, 0)
    assert listed[0]["w"].tolist() == [3.0, 3.0] and listed[1] is None
    one = [None]
    dist.scatter_object_list(one, [f"to {q}" for q in range(n)] if r == 0 else None, 0)
    assert one == [f"to {r}"]
    if n > 1 and r < 2:
        if r == 0:
            dist.send_object_list(["a", {1: 2}], 1)
        else:
            got = [None, None]
            assert dist.recv_object_list(got) == 0 and got == ["a", {1: 2}]


def check_groups():
    r, n = me()
    assert dist.get_process_group_ranks(None) == list(range(n))
    assert dist.get_backend() == "mpi" and dist.group.WORLD.size() == n
    evens = dist.new_group(list(range(0, n, 2)))
    member = r % 2 == 0
    assert (evens is not dist.GroupMember.NON_GROUP_MEMBER) == member
    assert dist.get_rank(evens) == (r // 2 if member else -1)
    x = torch.tensor([float(r)])
    if member:
        dist.all_reduce(x, group=evens)
        assert x.item() == sum(range(0, n, 2))
        assert dist.get_global_rank(evens, r // 2) == r and dist.get_group_rank(evens, r) == r // 2
        if n > 2:
            y = torch.tensor([float(r)])
            dist.broadcast(y, 2, group=evens)
            dist.broadcast(y, group=evens, group_src=1)
            assert y.item() == 2.0
            with raises(ValueError, "Global rank 1 is not part of group"):
                dist.broadcast(y, 1, group=evens)
    else:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert dist.all_reduce(x, group=evens) is None and x.item() == r
        assert "does not belong to the given group" in str(caught[0].message)
    if n == 4:
        own, groups = dist.new_subgroups(2)
        assert own.ranks == [r // 2 * 2, r // 2 * 2 + 1] and len(groups) == 2
        part = dist.split_group(None, [[0, 3], [1]])
        assert (part is None) == (r == 2)
        assert r == 2 or part.ranks == ([1] if r == 1 else [0, 3])
        if r in (1, 2):
            local = dist.new_group([1, 2], use_local_synchronization=True)
            dist.all_reduce(x, group=local)
            assert x.item() == 3.0
        turned = dist.new_group([3, 1], sort_ranks=False)
        assert r not in (1, 3) or (turned.ranks == [3, 1] and turned.rank() == int(r == 1))
        with raises(dist.DistBackendError, "the ranks name different groups"):
            dist.new_group([0] if r < 2 else [1])
    with raises(ValueError, "duplicate ranks"):
        dist.new_group([0, 0])
    with raises(ValueError, "within the world_size"):
        dist.new_group([n])
    with raises(TypeError, "datetime.timedelta"):
        dist.new_group(timeout=3)
    if member:
        dist.destroy_process_group(evens)
        with raises(ValueError, "has been destroyed"):
            dist.all_reduce(x, group=evens)


def check_arguments():
    """Wrong arguments raise on the rank that has them, before anything is sent."""
    r, n = me()
    x = torch.ones(2)
    with raises(TypeError, "Expected parameter `tensor`"):
        dist.all_reduce([1.0])
    with raises(TypeError, "op must be a ReduceOp"):
        dist.all_reduce(x, "sum")
    with raises(RuntimeError, "PREMUL_SUM is not offered"):
        dist.all_reduce(x, ReduceOp.PREMUL_SUM)
    with raises(RuntimeError, "non-integral dtype"):
        dist.all_reduce(x, ReduceOp.BAND)
    with raises(RuntimeError, "needs a floating or complex dtype"):
        dist.all_reduce(x.int(), ReduceOp.AVG)
    with raises(ValueError, "on complex tensors"):
        dist.all_reduce(x.to(torch.complex64), ReduceOp.MAX)
    with raises(RuntimeError, "several elements at one place"):
        dist.all_reduce(x.expand(3, 2))
    with raises(RuntimeError, "tensor_list has"):
        dist.all_gather([x] * (n + 1), x)
    with raises(RuntimeError, "invalid tensor size at index"):
        dist.all_gather([torch.ones(3) for _ in range(n)], x)
    with raises(ValueError, "different dtypes"):
        dist.all_gather([x.int() for _ in range(n)], x)
    with raises(TypeError, "list of Tensor"):
        dist.all_gather(x, x)
    with raises(RuntimeError, "expected"):
        dist.all_gather_into_tensor(torch.ones(2 * n + 1), x)
    with raises(ValueError, "different dtypes"):
        dist.reduce_scatter_tensor(torch.ones(1).int(), torch.ones(n))
    with raises(RuntimeError, "input_list has"):
        dist.reduce_scatter(x, [x] * (n + 1))
    with raises(RuntimeError, "add up to the"):
        dist.all_to_all_single(x, x, [2] * n, [3] * n)
    with raises(ValueError, f"Global rank {n} is not part"):
        dist.broadcast(x, n)
    with raises(ValueError, "must specify src or group_src"):
        dist.broadcast(x)
    with raises(ValueError, "can't specify both"):
        dist.broadcast(x, 0, group_src=0)
    with raises(TypeError, "must be an int"):
        dist.broadcast(x, 0.0)
    dist.broadcast(x, np.int64(0))
    with raises(TypeError, "group must be a ProcessGroup"):
        dist.all_reduce(x, group=3)
    with raises(ValueError, "twice"):
        dist.init_process_group()
    with raises(ValueError, "object_list has"):
        dist.all_gather_object([None] * (n + 1), 1)
    with raises(ValueError, "p2p_op_list"):
        dist.batch_isend_irecv([1])
    with raises(ValueError, "Invalid ``op``"):
        dist.P2POp(dist.all_reduce, x, 0)
    with raises(TypeError, "timedelta"):
        dist.barrier(timeout=3)
    if n > 1:
        with raises(ValueError, "tag must be from 0"):
            dist.send(x, 1 - min(r, 1), tag=-1)
    assert x.tolist() == [1.0, 1.0]


def check_futures():
    r, n = me()
    x = torch.ones(3)
    future = dist.all_reduce(x, async_op=True).get_future()
    twice = future.then(lambda done: done.value()[0] * 2)
    assert twice.wait().tolist() == [2.0 * n] * 3 and future.done()
    bad = dist.all_reduce(x, async_op=True).get_future().then(lambda done: 1 / 0)
    with raises(ZeroDivisionError, "division"):
        bad.wait()
    works = [dist.all_reduce(torch.ones(1000), async_op=True) for _ in range(5)]
    assert torch.futures.wait_all([w.get_future() for w in works])[4][0][0].item() == n
    coalesced = [torch.ones(2, 3).t(), torch.ones(0), torch.full((2,), 2.0)]
    dist.all_reduce_coalesced(coalesced)
    assert coalesced[0][2, 1].item() == n and coalesced[2].tolist() == [2.0 * n] * 2


def check_threads():
    """Threads can use different groups at the same time."""
    groups, results = [dist.new_group() for _ in range(3)], {}

    def work(at):
        x = torch.ones(1000) * at
        for _ in range(20):
            dist.all_reduce(x, ReduceOp.AVG, group=groups[at])
        results[at] = x[7].item()

    threads = [threading.Thread(target=work, args=(at,)) for at in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {at: float(at) for at in range(3)}


def check_second_life():
    """A program can call destroy_process_group, and then init_process_group again."""
    r, n = me()
    left = dist.all_reduce(torch.ones(5), async_op=True)  # nobody waits for it
    dist.destroy_process_group()
    assert left.is_completed() and not dist.is_initialized()
    with raises(ValueError, "has not been initialized"):
        dist.barrier()
    with raises(ValueError, "MPI says"):
        dist.init_process_group(world_size=n + 1, rank=0)
    with raises(RuntimeError, "have NCCL built in"):
        dist.init_process_group("nccl")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dist.init_process_group(
            "cpu:gloo,cuda:nccl", "env://", timedelta(seconds=30), world_size=n, rank=r
        )
    assert len(caught) == (r == 0) and dist.get_backend() == "mpi"


def check_large_counts():
    """One message can have more than 2^31 elements of one byte; needs two ranks and the memory."""
    r, n = me()
    if n != 2 or "--large" not in sys.argv:
        return
    count = 2**31 + 5
    x = torch.full((count,), r, dtype=torch.uint8)
    dist.broadcast(x, 1)
    assert x[0].item() == x[-1].item() == 1
    dist.all_reduce(x)
    assert x[-1].item() == 2


checks.run(globals(), [a for a in sys.argv[1:] if a.startswith("check_")])
