# SPDX-License-Identifier: BSD-3-Clause
"""out= that shares memory with an input or with itself, for every op that supports out=."""

import pytest
from op_table import OPS, TABLE, arguments, call, samples_of

import cograd as torch

SHARED = "unsupported operation: some elements of the input tensor and the written-to tensor refer"
ITSELF = "unsupported operation: more than one element of the written-to tensor refers"
RANDOM = {"bernoulli", "normal", "multinomial"}
WITH_OUT = [r for r in TABLE if r["out"] and r["function"] and not r["internal"] and samples_of(r)]


def cases(record):
    """Yields (function, args, kwargs, results) of each sample that can run."""
    f = OPS.function(record)
    for sample in samples_of(record):
        args, kwargs = arguments(record, sample)
        result = call(f, args, kwargs)
        yield f, list(args), kwargs, result


def parts(result):
    return [result] if isinstance(result, torch.Tensor) else list(result)


def run_out(f, args, kwargs, result, at, target):
    """Calls f with `target` for result number `at` and new tensors for the others."""
    if isinstance(result, torch.Tensor):
        return f(*args, **kwargs, out=target)
    outs = [target if i == at else torch.empty_like(r) for i, r in enumerate(result)]
    return f(*args, **kwargs, out=tuple(outs))


def places(args):
    """Yields (value, a function that returns the arguments with another tensor instead)."""
    for i, a in enumerate(args):
        if isinstance(a, torch.Tensor):
            yield a, lambda t, i=i: [*args[:i], t, *args[i + 1 :]]
        elif isinstance(a, (list, tuple)):
            for k, item in enumerate(a):
                if isinstance(item, torch.Tensor):
                    yield (
                        item,
                        lambda t, i=i, k=k, a=a: [
                            *args[:i],
                            [*a[:k], t, *a[k + 1 :]],
                            *args[i + 1 :],
                        ],
                    )


@pytest.mark.parametrize("record", WITH_OUT, ids=lambda r: f"{r['name']}({r['signature']})")
def test_out_that_overlaps_itself(record):
    for f, args, kwargs, result in cases(record):
        for at, part in enumerate(parts(result)):
            if part.numel() < 2:
                continue
            target = torch.zeros((), dtype=part.dtype).expand(part.shape)
            with pytest.raises(RuntimeError, match=ITSELF):
                run_out(f, args, kwargs, result, at, target)


@pytest.mark.parametrize("record", WITH_OUT, ids=lambda r: f"{r['name']}({r['signature']})")
def test_out_that_overlaps_an_input(record):
    for f, args, kwargs, result in cases(record):
        for at, part in enumerate(parts(result)):
            for value, replaced in places(args):
                if value.dtype != part.dtype or value.numel() < 2 or part.numel() < 1:
                    continue
                memory = torch.zeros(value.numel() + part.numel() + 1, dtype=value.dtype)
                given = memory[: value.numel()].view(value.shape).copy_(value)
                target = memory[1 : part.numel() + 1].view(part.shape)
                with pytest.raises(RuntimeError, match=SHARED):
                    run_out(f, replaced(given), kwargs, result, at, target)
                assert torch.equal(given, value), "something was written before the error"


@pytest.mark.parametrize("record", WITH_OUT, ids=lambda r: f"{r['name']}({r['signature']})")
def test_out_that_is_an_input(record):
    """It gives the right values or an error; elementwise ops allow it."""
    elementwise = record["inplace"] and record["method"]
    for f, args, kwargs, result in cases(record):
        for at, part in enumerate(parts(result)):
            for number, (value, replaced) in enumerate(places(args)):
                if value.dtype != part.dtype or value.shape != part.shape or part.numel() < 2:
                    continue
                target = value.clone()
                try:
                    got = run_out(f, replaced(target), kwargs, result, at, target)
                except RuntimeError as error:
                    assert SHARED in str(error), error
                    assert not (elementwise and number == 0), "the input itself must be allowed"
                    continue
                if record["name"] not in RANDOM:
                    assert torch.equal(parts(got)[at].nan_to_num(), part.nan_to_num())


def test_ops_that_refuse_their_own_input():
    x = torch.rand(3, 3)
    v = torch.rand(3)
    rows = torch.tensor([0, 1, 2])
    index = torch.zeros(3, 3, dtype=torch.int64)
    for use in (
        lambda: torch.cat([x], out=x),
        lambda: torch.cat([v[:1], v[1:]], out=v),
        lambda: torch.concat([x], out=x),
        lambda: torch.stack([v], out=v.view(1, 3)),
        lambda: torch.hstack([v], out=v),
        lambda: torch.vstack([x], out=x),
        lambda: torch.gather(x, 0, index, out=x),
        lambda: torch.gather(index, 0, index.clone(), out=index),
        lambda: torch.index_select(x, 0, rows, out=x),
        lambda: torch.masked_select(v, v > -1, out=v),
        lambda: torch.take(x, index, out=x),
        lambda: torch.take_along_dim(x, index, 0, out=x),
        lambda: torch.kthvalue(x[:1], 1, 0, True, out=(x[:1], index[:1])),
        lambda: torch.cross(x, x.clone(), dim=1, out=x),
        lambda: torch.scatter(x.clone(), 0, index, x, out=x),
        lambda: torch.scatter(index.clone(), 0, index, index.clone(), out=index),
        lambda: torch.index_add(x.clone(), 0, rows, x, out=x),
        lambda: torch.index_copy(x.clone(), 0, rows, x, out=x),
    ):
        with pytest.raises(RuntimeError, match=SHARED):
            use()


def test_parts_of_one_memory_that_do_not_meet_are_allowed():
    memory = torch.arange(20.0)
    torch.add(memory[::2], 1, out=memory[1::2])
    assert torch.equal(memory[1::2], memory[::2] + 1)
    torch.cat([memory[:4], memory[4:8]], out=memory[8:16])
    assert torch.equal(memory[8:16], memory[:8])
    grid = torch.zeros(4, 6)
    torch.gather(grid[:, :3], 1, torch.zeros(4, 3, dtype=torch.int64), out=grid[:, 3:])


def test_out_of_another_kind():
    p = torch.ones(4)
    for dtype in (torch.float32, torch.int32, torch.uint8):
        with pytest.raises(RuntimeError, match="multinomial"):
            torch.multinomial(p, 2, out=torch.empty(2, dtype=dtype))
    assert torch.multinomial(p, 2, out=torch.empty(2, dtype=torch.int64)).dtype == torch.int64
    x = torch.rand(3, 3, dtype=torch.float64)
    index = torch.zeros(3, 3, dtype=torch.int64)
    single = torch.empty(3, 3)
    for use in (
        lambda: torch.searchsorted(x[0], x, out=single),
        lambda: torch.bucketize(x, x[0], out=single),
        lambda: torch.histc(x, 3, out=single[0]),
        lambda: torch.isin(x, x, out=single),
        lambda: torch.signbit(x, out=single),
        lambda: torch.isposinf(x, out=single),
        lambda: torch.msort(x, out=single),
        lambda: torch.cross(x, x, dim=1, out=single),
        lambda: torch.renorm(x, 2, 0, 1, out=single),
        lambda: torch.scatter_reduce(x, 0, index, x, "sum", out=single),
        lambda: torch.index_reduce(x, 0, index[0], x, "mean", out=single),
    ):
        with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
            use()


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize(
    "write",
    [
        lambda out: torch.add(torch.tensor([10.0, 20.0]), 1, out=out),
        lambda out: torch.cat([torch.ones(1), torch.ones(1)], out=out),
        lambda out: torch.arange(2.0, out=out),
    ],
    ids=["add", "cat", "arange"],
)
def test_an_out_that_grows_is_a_write(write):
    """A node that saved the tensor must not read the new contents."""
    a, v = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0])
    y = a * v
    before = v._version
    write(v)
    assert v._version > before and v.shape == (2,)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
