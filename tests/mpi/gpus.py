# SPDX-License-Identifier: BSD-3-Clause
"""Checks of tensors on GPUs: by NCCL, or through the memory of the host (arguments: backend)."""

import sys
import time

import checks

import cograd as torch
import cograd.distributed as dist
from cograd.distributed import ReduceOp
from cograd.distributed.nn import functional as linked
from cograd.nn.parallel import DistributedDataParallel as DDP  # noqa: N817

raises = checks.raises
BACKEND = sys.argv[1] if len(sys.argv) > 1 else "nccl"
NCCL = "nccl" in BACKEND
DTYPES = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
    torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128,
)  # fmt: skip


def me():
    return dist.get_rank()


def size():
    return dist.get_world_size()


def value(rank, dtype=torch.float32, shape=(2, 3)):
    """The tensor of a rank, on the CPU."""
    n = 1
    for s in shape:
        n *= s
    x = torch.arange(n).reshape(shape) + rank + 1
    return (x % 2 == rank % 2) if dtype is torch.bool else x.to(dtype)


def on_cpu(op, dtype=torch.float32, shape=(2, 3)):
    """What a reduction of all ranks' values gives, by MPI."""
    x = value(me(), dtype, shape)
    dist.all_reduce(x, op)
    return x


def check_names():
    pg = dist.group.WORLD
    assert pg.name() == dist.get_backend() == ("nccl" if BACKEND == "nccl" else "mpi")
    assert dist.get_backend_config() == ("cpu:mpi,cuda:nccl" if NCCL else "cpu:mpi")
    assert dist.is_nccl_available()
    assert dist.get_default_backend_for_device("cuda:0") == "nccl"


def check_all_reduce():
    ops = {
        True: (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX),
        False: (ReduceOp.SUM, ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX, ReduceOp.BAND,
                ReduceOp.BOR, ReduceOp.BXOR),
    }  # fmt: skip
    for dtype in DTYPES:
        for op in ops[dtype.is_floating_point or dtype.is_complex]:
            if dtype.is_complex and op in (ReduceOp.MIN, ReduceOp.MAX):
                with raises(ValueError, "complex"):
                    dist.all_reduce(value(me(), dtype).cuda(), op)
                continue
            want = on_cpu(op, dtype)
            x = value(me(), dtype).cuda()
            assert dist.all_reduce(x, op) is None
            torch.testing.assert_close(x.cpu(), want)
    with raises(RuntimeError, "non-integral"):
        dist.all_reduce(torch.ones(2).cuda(), ReduceOp.BAND)


def check_layouts_and_versions():
    for shape in ((0,), (), (3, 0, 2), (1,)):
        x = value(me(), shape=shape).cuda()
        dist.all_reduce(x)
        assert torch.equal(x.cpu(), on_cpu(ReduceOp.SUM, shape=shape))
    x = value(me()).cuda()
    view = x.t()
    before = x._version
    dist.all_reduce(view)
    assert x._version > before
    assert torch.equal(x.cpu(), on_cpu(ReduceOp.SUM))
    with raises(RuntimeError, "clone() it first"):
        dist.all_reduce(torch.ones(1).cuda().expand(3))
    w = torch.ones(2, requires_grad=True, device="cuda")
    y = w * w
    dist.all_reduce(w.detach())
    with raises(RuntimeError, "modified by an inplace operation"):
        y.sum().backward()
    with raises(RuntimeError, "same device"):
        dist.all_gather([torch.ones(1).cuda()] * size(), torch.ones(1))


def check_rooted():
    for dtype in DTYPES:
        for root in range(size()):
            x = value(me(), dtype).cuda()
            dist.broadcast(x, root)
            assert torch.equal(x.cpu(), value(root, dtype)), dtype
            x = value(me(), dtype).cuda()
            dist.reduce(x, root)
            if me() == root:
                want = value(0, dtype)
                for r in range(1, size()):
                    want = want | value(r, dtype) if dtype is torch.bool else want + value(r, dtype)
                torch.testing.assert_close(x.cpu(), want)
            else:
                assert torch.equal(x.cpu(), value(me(), dtype))
    parts = [torch.zeros(2, 3).cuda() for _ in range(size())] if me() == 0 else None
    dist.gather(value(me()).cuda(), parts, dst=0)
    if me() == 0:
        assert all(torch.equal(p.cpu(), value(r)) for r, p in enumerate(parts))
    x = torch.zeros(2, 3).cuda().t().contiguous().t()
    rows = [value(r).cuda() * 2 for r in range(size())] if me() == size() - 1 else None
    dist.scatter(x, rows, src=size() - 1)
    assert torch.equal(x.cpu(), value(me()) * 2)


def check_gathers():
    for dtype in DTYPES:
        want = torch.stack([value(r, dtype) for r in range(size())])
        parts = [torch.zeros(2, 3, dtype=dtype).cuda() for _ in range(size())]
        dist.all_gather(parts, value(me(), dtype).cuda())
        assert all(torch.equal(p.cpu(), w) for p, w in zip(parts, want, strict=True))
        out = torch.zeros(size(), 2, 3, dtype=dtype).cuda()
        dist.all_gather_into_tensor(out, value(me(), dtype).cuda())
        assert torch.equal(out.cpu(), want)
        out[me()] = value(me(), dtype).cuda()
        dist.all_gather_into_tensor(out, out[me()])  # in place
        assert torch.equal(out.cpu(), want)
    uneven = [torch.zeros(r + 1).cuda() for r in range(size())]
    dist.all_gather(uneven, torch.full((me() + 1,), float(me())).cuda())
    assert [u.tolist() for u in uneven] == [[float(r)] * (r + 1) for r in range(size())]
    empty = torch.zeros(0).cuda()
    dist.all_gather_into_tensor(empty, torch.zeros(0).cuda())


def check_reduce_scatter():
    for op in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.MAX):
        whole = torch.stack([value(r + me()) for r in range(size())])
        want = torch.zeros(2, 3)
        dist.reduce_scatter_tensor(want, whole, op)
        out = torch.zeros(2, 3).cuda()
        dist.reduce_scatter_tensor(out, whole.cuda(), op)
        torch.testing.assert_close(out.cpu(), want)
        out.zero_()
        dist.reduce_scatter(out, list(whole.cuda().unbind(0)), op)
        torch.testing.assert_close(out.cpu(), want)
    parts = [torch.full((r + 1,), float(me() + 1)).cuda() for r in range(size())]
    out = torch.zeros(me() + 1).cuda()
    dist.reduce_scatter(out, parts)
    assert out.tolist() == [float(sum(range(1, size() + 1)))] * (me() + 1)
    both = torch.ones(size(), 2).cuda() * (me() + 1)
    dist.reduce_scatter_tensor(both[me()], both)  # its own part
    assert both[me()].tolist() == [float(sum(range(1, size() + 1)))] * 2


def check_all_to_all():
    rows = torch.arange(size() * 2.0).reshape(size(), 2) + 100 * me()
    want = torch.zeros_like(rows)
    dist.all_to_all_single(want, rows)
    out = torch.zeros_like(rows).cuda()
    dist.all_to_all_single(out, rows.cuda())
    assert torch.equal(out.cpu(), want)
    given = [torch.full((me() + r + 1,), float(me())).cuda() for r in range(size())]
    taken = [torch.zeros(me() + r + 1).cuda() for r in range(size())]
    dist.all_to_all(taken, given)
    assert [t.tolist() for t in taken] == [[float(r)] * (me() + r + 1) for r in range(size())]
    counts = [r + me() for r in range(size())]
    x = torch.full((sum(counts), 2), float(me())).cuda()
    out = torch.zeros(sum(counts), 2).cuda()
    dist.all_to_all_single(out, x, counts, counts)
    assert out[:, 0].tolist() == [float(r) for r in range(size()) for _ in range(counts[r])]


def check_messages():
    after, before = (me() + 1) % size(), (me() - 1) % size()
    out = torch.zeros(2, 3).cuda()
    if me() % 2 == 0 and after != me():
        dist.send(value(me()).cuda(), after)
    if size() > 1 and (me() % 2 == 1 or (size() % 2 == 1 and me() == 0)):
        assert dist.recv(out, before) == before
        assert torch.equal(out.cpu(), value(before))
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, value(me()).cuda().t(), after),
            dist.P2POp(dist.irecv, out.t(), before),
        ]
    ) if size() > 1 else []  # fmt: skip
    for work in works:
        work.wait()
    if size() > 1:
        assert torch.equal(out.cpu(), value(before))
        mixed, of_cpu = torch.zeros(2, 3).cuda(), torch.zeros(2, 3)
        works = dist.batch_isend_irecv(
            [
                dist.P2POp(dist.isend, value(me()) * 5, after),
                dist.P2POp(dist.isend, value(me()).cuda() * 7, after),
                dist.P2POp(dist.irecv, of_cpu, before),
                dist.P2POp(dist.irecv, mixed, before),
            ]
        )
        assert len(works) == (3 if NCCL else 4)
        for work in works:
            work.wait()
        assert torch.equal(of_cpu, value(before) * 5)
        assert torch.equal(mixed.cpu(), value(before) * 7)
        if NCCL:
            with raises(RuntimeError, "does not receive from any rank"):
                dist.recv(out)
    first, second = torch.zeros(3).cuda(), torch.zeros(3).cuda()
    if me() == 0 and size() > 1:
        one = dist.isend(torch.ones(3).cuda(), 1)
        two = dist.isend(torch.ones(3).cuda() * 2, 1)
        one.wait(), two.wait()
    elif me() == 1:
        one, two = dist.irecv(first, 0), dist.irecv(second, 0)
        two.wait(), one.wait()
        assert first.tolist() == [1.0] * 3 and second.tolist() == [2.0] * 3


def check_streams():
    """The fake driver runs work as late as it may, so a missing wait gives old values."""
    s = torch.cuda.Stream()
    x = value(me()).cuda()
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        y = x * 2  # waits in the queue of s
        dist.all_reduce(y)
        z = y + 1
        first = y.clone()
    torch.cuda.current_stream().wait_stream(s)
    want = on_cpu(ReduceOp.SUM) * 2
    assert torch.equal(first.cpu(), want) and torch.equal(z.cpu(), want + 1)
    a, b = value(me()).cuda(), value(me()).cuda() * 3
    works = [dist.all_reduce(t, async_op=True) for t in (a, b)]
    assert isinstance(works[0], dist.Work)
    futures = [w.get_future() for w in works]
    for w in works:
        assert w.wait()
    assert torch.equal(a.cpu(), want / 2) and torch.equal(b.cpu(), want * 1.5)
    assert all(w.is_completed() and w.is_success() for w in works)
    assert futures[0].wait()[0] is a and works[1].result()[0] is b
    # Memory of the stream s that is freed while the default stream's call may write it is not
    # given to s before: nothing orders what s writes there after that call.
    with torch.cuda.stream(s):
        c = torch.full((2, 3), 1.0).cuda()
    torch.cuda.current_stream().wait_stream(s)
    work = dist.all_reduce(c, async_op=True)
    work.wait()
    if NCCL:
        work._result = None  # else the thread that looks at the Work keeps c until it has ended
    del c, work
    with torch.cuda.stream(s):
        e = torch.full((2, 3), 7.0, device="cuda")
        f = torch.full((2, 3), 8.0, device="cuda")
    torch.cuda.synchronize()
    assert e.unique().tolist() == [7.0] and f.unique().tolist() == [8.0]
    # An output that is not contiguous is copied once the call is known to have ended.
    g = value(me()).cuda().t()
    want = on_cpu(ReduceOp.SUM).t()
    work = dist.all_reduce(g, async_op=True)
    while not work.is_completed():
        time.sleep(1e-3)
    assert torch.equal(g.cpu(), want)
    del work
    # A barrier ends only once the others have come, also with async_op.
    if BACKEND == "nccl" and size() > 1:
        began = time.monotonic()
        if me() == 0:
            time.sleep(0.4)
        assert dist.barrier(async_op=True).wait()
        assert me() == 0 or time.monotonic() - began > 0.3
    dist.barrier()
    dist.barrier(device_ids=[0])
    dist.all_reduce_coalesced([a, b])


def check_groups():
    pg = dist.new_group(list(range(size() - 1, -1, -1)), sort_ranks=False)
    x = value(me()).cuda()
    dist.all_reduce(x, group=pg)
    assert torch.equal(x.cpu(), on_cpu(ReduceOp.SUM))
    dist.destroy_process_group(pg)
    alone = [dist.new_group([r]) for r in range(size())][me()]
    x = value(me()).cuda()
    dist.all_reduce(x, group=alone)
    assert torch.equal(x.cpu(), value(me()))


def check_gradients():
    x = value(me()).cuda().requires_grad_()
    weight = torch.arange(6.0).reshape(2, 3).cuda() + me()
    (linked.all_reduce(x) * weight).sum().backward()
    want = sum(torch.arange(6.0).reshape(2, 3) + r for r in range(size()))
    assert torch.equal(x.grad.cpu(), want)
    x.grad = None
    parts = linked.all_gather(x)
    assert all(p.is_cuda for p in parts)
    (torch.stack(parts) * (me() + 1)).sum().backward()
    assert x.grad.unique().tolist() == [float(sum(range(1, size() + 1)))]
    x.grad = None
    y = linked.broadcast(x, 0)
    y.sum().backward()
    assert x.grad.unique().tolist() == [float(size() if me() == 0 else 0)]
    if size() > 1:
        x.grad = None
        after, before = (me() + 1) % size(), (me() - 1) % size()
        got = linked.sendrecv(x, after, before)
        assert got.is_cuda and torch.equal(got.cpu(), value(before))
        (got * (me() + 1)).sum().backward()
        assert x.grad.is_cuda and x.grad.unique().tolist() == [float(after + 1)]


def check_data_parallel():
    def net():
        torch.manual_seed(3)
        return torch.nn.Sequential(
            torch.nn.Linear(5, 7), torch.nn.BatchNorm1d(7), torch.nn.Linear(7, 3)
        )

    torch.manual_seed(5)
    x, y = torch.randn(4 * size(), 5), torch.randn(4 * size(), 3)
    for options in ({}, {"gradient_as_bucket_view": True}, {"find_unused_parameters": True}):
        cpu, gpu = DDP(net(), **options), DDP(net().cuda(), **options)
        for _ in range(3):
            for model, where in ((cpu, "cpu"), (gpu, "cuda")):
                model.zero_grad()
                part = slice(4 * me(), 4 * me() + 4)
                loss = (model(x[part].to(where)) - y[part].to(where)).pow(2).mean()
                loss.backward()
                torch.optim.SGD(model.parameters(), 0.1).step()
        for a, b in zip(cpu.parameters(), gpu.parameters(), strict=True):
            torch.testing.assert_close(b.detach().cpu(), a.detach(), atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(b.grad.cpu(), a.grad, atol=1e-5, rtol=1e-5)


def check_hooks_of_data_parallel():
    from cograd.distributed.algorithms.ddp_comm_hooks import default_hooks

    torch.manual_seed(3)
    model = DDP(torch.nn.Linear(5, 3).cuda())
    model.register_comm_hook(None, default_hooks.allreduce_hook)
    x = torch.full((2, 5), float(me() + 1)).cuda()
    model(x).sum().backward()
    mean = sum(range(1, size() + 1)) / size()
    torch.testing.assert_close(model.module.weight.grad.cpu(), torch.full((3, 5), 2 * mean))


if __name__ == "__main__":
    checks.run(globals(), sys.argv[2:], backend=BACKEND)
