# SPDX-License-Identifier: BSD-3-Clause
"""out= of another shape or dtype: what may grow, and what is refused before any write."""

import numpy as np
import pytest
from op_items import each_cell

import cograd as torch

F8, F4, F2 = torch.float64, torch.float32, torch.float16
I8, I4 = torch.int64, torch.int32
SHARED = "shares its .* bytes of memory"
SEVERAL = {
    "max": lambda x, out: torch.max(x, 1, out=out),
    "min": lambda x, out: torch.min(x, 1, out=out),
    "sort": lambda x, out: torch.sort(x, out=out),
    "topk": lambda x, out: torch.topk(x, 2, out=out),
    "kthvalue": lambda x, out: torch.kthvalue(x, 1, out=out),
    "median": lambda x, out: torch.median(x, 1, out=out),
    "nanmedian": lambda x, out: torch.nanmedian(x, 1, out=out),
    "mode": lambda x, out: torch.mode(x, 1, out=out),
    "cummax": lambda x, out: torch.cummax(x, 1, out=out),
    "cummin": lambda x, out: torch.cummin(x, 1, out=out),
}


@pytest.fixture
def x():
    return torch.arange(6.0).reshape(2, 3)


@each_cell("name", SEVERAL)
@each_cell("dtypes", [(F4, I4), (F4, F4), (F8, I8), (F2, I8), (I8, I8)])
def test_results_of_another_dtype_are_refused(name, dtypes, x):
    for shape in ((0,), SEVERAL[name](x, (torch.empty(0), torch.empty(0, dtype=I8)))[0].shape):
        outs = tuple(torch.full(shape, 7, dtype=d) for d in dtypes)
        with pytest.raises(RuntimeError, match=name + ".*Expected out tensor to have dtype"):
            SEVERAL[name](x, outs)
        for t in outs:
            assert t.shape == shape and (t == 7).all() and t._version == 0


@pytest.mark.parametrize("name", SEVERAL)
def test_results_of_the_right_dtype_are_written(name, x):
    outs = (torch.empty(0), torch.empty(0, dtype=I8))
    got = SEVERAL[name](x, outs)
    want = SEVERAL[name](x, (torch.empty(0), torch.empty(0, dtype=I8)))
    assert got[0] is outs[0] and got[1] is outs[1]
    assert torch.equal(got[0], want[0]) and torch.equal(got[1], want[1])


def test_decompositions_keep_their_dtypes():
    m = torch.eye(3) * 2
    for f, n in (
        (torch.linalg.qr, 2),
        (torch.linalg.svd, 3),
        (torch.linalg.eigh, 2),
        (torch.linalg.slogdet, 2),
    ):
        with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
            f(m, out=tuple(torch.empty(0, dtype=F8) for _ in range(n)))
        f(m, out=tuple(torch.empty(0) for _ in range(n)))


def test_nonzero_writes_int64_alone(x):
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        torch.nonzero(x, out=torch.empty(0, dtype=I4))
    out = torch.empty(0, dtype=I8)
    assert torch.nonzero(x, out=out) is out and torch.equal(out, torch.nonzero(x))


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_results_in_one_memory_are_refused(x):
    t, memory = torch.full((2,), 7.0), torch.full((4,), 7.0)
    refused = "refer to a single memory location"
    for outs in (
        (t, t),
        (t, t.view(2)),
        (memory[:2], memory[1:3]),
        (memory[:0], memory[:0]),
        (memory[:1], memory[2:2]),
        (memory[:1], memory[1:3]),
    ):
        with pytest.raises(RuntimeError, match=refused):
            torch.aminmax(x, dim=1, out=outs)
    assert (t == 7).all() and (memory == 7).all()
    torch.aminmax(x, dim=1, out=(memory[:2], memory[2:]))
    assert memory.tolist() == [0, 3, 2, 5]


def test_none_is_written_where_one_cannot_grow(x):
    first = torch.full((2,), 7.0)
    fixed = torch.from_numpy(np.zeros(0, np.float32))
    with pytest.raises(RuntimeError, match="not resizable"):
        torch.aminmax(x, dim=1, out=(first, fixed))
    assert first.tolist() == [7, 7]


def test_a_list_argument_that_requires_grad_is_seen():
    w = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        torch.cat([w, w], out=torch.empty(4))


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_shared_memory_does_not_come_apart():
    """Else an alias, a view or an array would no longer show what is written."""
    for sharing in (
        lambda t: t.detach(),
        lambda t: t[:2],
        lambda t: t.numpy(),
        lambda t: memoryview(t),
        lambda t: t.__dlpack__(),
    ):
        t = torch.ones(3)
        other = sharing(t)
        for grow in (
            lambda t: torch.add(torch.ones(9), 1, out=t),
            lambda t: torch.cat([torch.ones(9)], out=t),
            lambda t: torch.arange(9.0, out=t),
            lambda t: t.resize_(9),
        ):
            with pytest.raises(RuntimeError, match=SHARED):
                grow(t)
            assert t.tolist() == [1, 1, 1] and t.shape == (3,)
        del other
        assert torch.add(torch.ones(9), 1, out=t).shape == (9,)


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_foreign_memory_does_not_grow():
    for fixed in (torch.from_numpy(np.ones(3)), torch.from_numpy(np.ones(0))):
        with pytest.raises(RuntimeError, match="not resizable"):
            torch.add(torch.ones(9, dtype=F8), 1, out=fixed)
        with pytest.raises(RuntimeError, match="not resizable"):
            fixed.resize_(9)


def test_memory_without_bytes_may_be_shared():
    t = torch.empty(0)
    other = t.detach()
    assert torch.add(torch.ones(3), 1, out=t).tolist() == [2, 2, 2] and other.shape == (0,)


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_a_view_grows_inside_its_memory():
    memory = torch.zeros(5)
    view = memory[1:3]
    torch.add(torch.ones(3), 1, out=view)
    assert memory.tolist() == [0, 2, 2, 2, 0] and view.shape == (3,)
    with pytest.raises(RuntimeError, match=SHARED):
        torch.add(torch.ones(5), 1, out=view)
    assert view.shape == (3,)
    w = torch.ones(4, requires_grad=True)
    with torch.no_grad(), pytest.raises(RuntimeError, match="cannot resize variables"):
        torch.add(torch.ones(3), 1, out=w[:2])


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_an_offset_counts():
    t = torch.arange(6.0)
    t.as_strided_((2,), (1,), 4)
    torch.add(torch.ones(4), 1, out=t)
    assert t.tolist() == [2, 2, 2, 2] and t.storage_offset() == 4


def test_a_resize_that_is_refused_is_no_write():
    t = torch.ones(3)
    alias = t.detach()
    with pytest.raises(RuntimeError, match=SHARED):
        t.resize_(9)
    assert t._version == 0 and alias.tolist() == [1, 1, 1]


def test_a_fresh_out_is_laid_out_as_the_result():
    t = torch.ones(3, 4).t()
    for f in (
        lambda out: torch.add(t, t, out=out),
        lambda out: torch.exp(t, out=out),
        lambda out: torch.clamp(t, 2, out=out),
        lambda out: torch.where(t > 0, t, t, out=out),
        lambda out: torch.lerp(t, t, 0.5, out=out),
    ):
        assert f(torch.empty(0)).stride() == (1, 4)
        assert f(torch.empty(4, 3)).stride() == (3, 1)


def test_coordinates_of_one_dim_lie_together():
    x = torch.ones(2, 3)
    out, sized = torch.empty(0, dtype=I8), torch.empty(6, 2, dtype=I8)
    assert x.nonzero().stride() == torch.argwhere(x).stride() == (1, 6)
    assert torch.nonzero(x, out=out).stride() == (1, 6)
    assert torch.nonzero(x, out=sized).stride() == (2, 1) and torch.equal(out, sized)
    assert out.tolist() == [[i, k] for i in range(2) for k in range(3)]
    assert [t.tolist() for t in x.nonzero(as_tuple=True)] == [[0, 0, 0, 1, 1, 1], [0, 1, 2] * 2]
    assert torch.zeros(3, 2).nonzero().stride() == (1, 0)


@pytest.mark.parametrize(
    "count",
    [
        lambda out: torch.arange(6.0, out=out),
        lambda out: torch.arange(0, 6, out=out),
        lambda out: torch.linspace(0, 5, 6, out=out),
        lambda out: torch.logspace(0, 5, 6, out=out),
    ],
)
def test_counted_values_keep_a_shape_of_as_many_elements(count):
    want = count(torch.empty(6))
    for out in (torch.empty(2, 3), torch.empty(3, 2).t(), torch.empty(6, 1)):
        shape, stride, address = out.shape, out.stride(), out.data_ptr()
        assert count(out) is out and out.shape == shape and out.stride() == stride
        assert out.data_ptr() == address and torch.equal(out.flatten(), want)


@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
def test_quantiles_into_a_tensor(name, x):
    f = getattr(torch, name)
    for args in ((0.5,), (0.5, 1), (0.25, 0, True), (torch.tensor([0.2, 0.3]), 1)):
        out = torch.empty(0)
        assert f(x, *args, out=out) is out and torch.equal(out, f(x, *args))
        with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
            f(x, *args, out=torch.empty(0, dtype=F8))
