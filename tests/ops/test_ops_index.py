# SPDX-License-Identifier: BSD-3-Clause
"""gather, scatter, index_*, masked_*, take, nonzero: values, duplicates, gradients, errors."""

import numpy as np
import pytest
from op_items import each_cell

import cograd as torch
from cograd.autograd import gradcheck, gradgradcheck

F8 = torch.float64
RNG = np.random.default_rng


def rand(*shape, seed=0, grad=False):
    return torch.tensor(RNG(seed).uniform(-1, 1, shape), requires_grad=grad)


def randint(hi, *shape, seed=1):
    return torch.tensor(RNG(seed).integers(0, hi, shape))


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4)])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_gather(shape, dtype):
    t = rand(*shape)
    for d in range(-len(shape), len(shape)):
        index = randint(shape[d], *shape).to(dtype)
        want = np.take_along_axis(t.numpy(), index.long().numpy(), d)
        for r in (
            torch.gather(t, d, index),
            t.gather(d, index),
            torch.gather(input=t, dim=d, index=index),
        ):
            np.testing.assert_array_equal(r.numpy(), want)
        back = tuple(reversed(range(t.ndim)))
        strided = torch.gather(t.permute(back), -1 - d, index.permute(back))
        np.testing.assert_array_equal(strided.permute(back).numpy(), want)


def test_gather_smaller_index_and_edges():
    t = torch.arange(6.0).reshape(2, 3)
    assert torch.gather(t, 1, torch.tensor([[2]])).tolist() == [[2]]
    assert torch.gather(t, 0, torch.tensor([[1, 0]])).tolist() == [[3, 1]]
    assert torch.gather(t, 1, torch.zeros(2, 5, dtype=torch.int64)).shape == (2, 5)
    assert torch.gather(t, 1, torch.empty(2, 0, dtype=torch.int64)).shape == (2, 0)
    assert torch.gather(torch.tensor(5.0), 0, torch.tensor(0)).item() == 5
    x = rand(3, 4, grad=True)
    index = randint(4, 3, 6)
    assert gradcheck(lambda v: torch.gather(v, 1, index), (x,)) and gradgradcheck(
        lambda v: v.gather(1, index), (x,)
    )


@pytest.mark.parametrize(
    "index,dim,error,match",
    [
        (
            [[3]],
            1,
            (RuntimeError, IndexError),
            "index 3 is out of bounds for dimension 1 with size 3",
        ),
        (
            [[-1]],
            1,
            (RuntimeError, IndexError),
            "index -1 is out of bounds for dimension 1 with size 3",
        ),
        ([0], 1, RuntimeError, "same number of dimensions"),
        ([[0], [0], [0]], 1, RuntimeError, r"\[3, 1\] to be no larger than self \[2, 3\]"),
        ([[0]], 2, IndexError, r"range of \[-2, 1\], but got 2"),
        ([[0.0]], 1, RuntimeError, "dtype"),
    ],
)
def test_gather_errors(index, dim, error, match):
    with pytest.raises(error, match=match):
        torch.gather(torch.ones(2, 3), dim, torch.tensor(index))


@pytest.fixture(params=[1, 2])
def threads(request):
    """Runs a test with one thread and with two."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.int16])
def test_gather_of_long_and_strided_lines(dtype, threads):
    a = np.arange(37 * 2100).reshape(37, 2100).astype(dtype)
    index = np.random.default_rng(1).integers(0, 2100, (37, 2100))
    x, at = torch.tensor(a), torch.tensor(index)
    want = np.take_along_axis(a, index, 1)
    for source in (x, x.t().contiguous().t(), torch.cat((x, x), 1)[:, :2100]):
        for where in (at, at.t().contiguous().t(), at.int()):
            np.testing.assert_array_equal(torch.gather(source, 1, where).numpy(), want)
    np.testing.assert_array_equal(torch.gather(x.t(), 0, at.t()).numpy(), want.T)
    assert torch.gather(x, 1, at[:, :0]).shape == (37, 0)
    assert torch.gather(x[:, :0], 1, at[:, :0]).shape == (37, 0)


@each_cell("at", [0, 1023, 1024, 2049, 2099])
@each_cell("bad", [-1, 2100, 2**40, -(2**63)])
def test_gather_finds_a_wrong_index_anywhere_before_writing(at, bad, threads):
    x = torch.ones(37, 2100)
    index = torch.zeros(37, 2100, dtype=torch.int64)
    index[36, at] = bad
    for source, where in ((x, index), (x, index.t().contiguous().t()), (x.t(), index.t())):
        dim = 1 if source.shape[0] == 37 else 0
        out = torch.zeros(source.shape)
        with pytest.raises(RuntimeError, match=rf"index {bad} is out of bounds .* size 2100"):
            torch.gather(source, dim, where, out=out)
        assert out.sum().item() == 0 and out._version == 0


@pytest.mark.parametrize("at", [0, 1023, 1024, 4999])
@pytest.mark.parametrize("bad", [-1, 9, 2**40, -(2**63)])
def test_row_lookups_find_a_wrong_index_anywhere_before_writing(at, bad, threads):
    w = torch.ones(9, 12)
    index = torch.zeros(5000, dtype=torch.int64)
    index[at] = bad
    with pytest.raises(IndexError, match=f"embedding.. got {bad} for 9 rows"):
        torch.nn.functional.embedding(index, w)
    out = torch.zeros(5000, 12)
    with pytest.raises(IndexError, match=f"index {bad} is out of bounds"):
        torch.index_select(w, 0, index, out=out)
    assert out.sum().item() == 0 and out._version == 0
    with pytest.raises(IndexError, match=f"index {bad} is out of bounds"):
        w.t().index_select(1, index)


@each_cell("width", [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 100, 1000, 3000])
@each_cell("dtype", [np.float32, np.float64, np.int8])
def test_row_lookups_copy_rows_of_every_width(width, dtype, threads):
    a = np.arange(50 * width).reshape(50, width).astype(dtype)
    index = np.random.default_rng(2).integers(0, 50, 400)
    w, at = torch.tensor(a), torch.tensor(index)
    np.testing.assert_array_equal(w.index_select(0, at).numpy(), a[index])
    np.testing.assert_array_equal(w.t().index_select(1, at).numpy(), a.T[:, index])
    np.testing.assert_array_equal(
        w.reshape(2, 25, width).index_select(1, at % 25).numpy(),
        a.reshape(2, 25, width)[:, index % 25],
    )
    if dtype != np.int8:
        look_up = torch.nn.functional.embedding
        np.testing.assert_array_equal(
            look_up(at.reshape(20, 20).t(), w).numpy(), a[index.reshape(20, 20).T]
        )
        assert look_up(at[:0], w).shape == (0, width)


def np_scatter(a, dim, index, src, op):
    out = a.copy()
    for where in np.ndindex(index.shape):
        to = list(where)
        to[dim] = index[where]
        out[tuple(to)] = op(out[tuple(to)], src[where] if isinstance(src, np.ndarray) else src)
    return out


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4)])
def test_scatter_family(shape):
    t, src = rand(*shape), rand(*shape, seed=2)
    for d in range(len(shape)):
        index = randint(shape[d], *shape)
        a, i, s = t.numpy(), index.numpy(), src.numpy()
        add = np_scatter(a, d, i, s, lambda x, y: x + y)
        np.testing.assert_allclose(torch.scatter_add(t, d, index, src).numpy(), add, rtol=1e-12)
        np.testing.assert_allclose(t.clone().scatter_add_(d, index, src).numpy(), add, rtol=1e-12)
        np.testing.assert_array_equal(
            torch.scatter(t, d, index, 2.5).numpy(), np_scatter(a, d, i, 2.5, lambda x, y: y)
        )
        order = torch.argsort(rand(*shape, seed=3), d)
        put = np_scatter(a, d, order.numpy(), s, lambda x, y: y)
        np.testing.assert_array_equal(torch.scatter(t, d, order, src).numpy(), put)
        np.testing.assert_array_equal(t.clone().scatter_(d, order, src).numpy(), put)
        for name, op in [
            ("sum", lambda x, y: x + y),
            ("prod", lambda x, y: x * y),
            ("amax", max),
            ("amin", min),
        ]:
            np.testing.assert_allclose(
                t.scatter_reduce(d, index, src, name).numpy(),
                np_scatter(a, d, i, s, op),
                rtol=1e-12,
            )


def test_scatter_details():
    z = torch.zeros(2, 3)
    assert z.scatter(1, torch.tensor([[0, 1]]), torch.ones(2, 3)).tolist() == [[1, 1, 0], [0, 0, 0]]
    assert z.scatter(0, torch.tensor([[0, 1, 1]]), 2.0, reduce="add").tolist() == [
        [2, 0, 0],
        [0, 2, 2],
    ]
    assert z.scatter(1, torch.empty(2, 0, dtype=torch.int64), 1.0).sum().item() == 0
    assert torch.zeros(3, dtype=torch.int64).scatter(0, torch.tensor([1]), 7).tolist() == [0, 7, 0]
    one_hot = torch.zeros(3, 4).scatter_(1, torch.tensor([[1], [0], [3]]), 1)
    assert one_hot.argmax(1).tolist() == [1, 0, 3]
    m = torch.zeros(3).scatter_reduce(
        0, torch.tensor([0, 0, 1]), torch.tensor([2.0, 3.0, 4.0]), "mean", include_self=False
    )
    assert m.tolist() == [2.5, 4, 0]


def test_scatter_gradients():
    index = torch.tensor([[0, 1, 2, 1], [2, 2, 0, 1], [1, 0, 0, 2]])
    order = torch.argsort(rand(3, 4, seed=3), 0)
    x, s = rand(3, 4, grad=True), rand(3, 4, seed=2, grad=True)
    for f in (
        lambda a, b: a.scatter_add(0, index, b),
        lambda a, b: a.scatter(0, order, b),
        lambda a, b: a.scatter(0, index, 2.0) * b,
    ):
        assert gradcheck(f, (x, s)) and gradgradcheck(f, (x, s))


@pytest.mark.parametrize(
    "call,error,match",
    [
        (
            lambda z: z.scatter(1, torch.tensor([[3]]), 1.0),
            (RuntimeError, IndexError),
            "index 3 is out of bounds for dimension 1 with size 3",
        ),
        (
            lambda z: z.scatter(1, torch.tensor([[-1]]), 1.0),
            (RuntimeError, IndexError),
            "index -1 is out of bounds",
        ),
        (
            lambda z: z.scatter(1, torch.tensor([[0, 1]]), torch.ones(1, 1)),
            RuntimeError,
            r"\[1, 2\] to be no larger",
        ),
        (
            lambda z: z.scatter(1, torch.tensor([[0]]), torch.ones(1, 1, dtype=F8)),
            RuntimeError,
            "dtype",
        ),
        (lambda z: z.scatter_add(0, torch.tensor([[0]]), 1.0), TypeError, "src"),
        (
            lambda z: z.scatter_add(0, torch.tensor([[0, 1, 5]]), torch.ones(1, 3)),
            (RuntimeError, IndexError),
            "index 5 is out of bounds",
        ),
        (
            lambda z: z.scatter_reduce(0, torch.tensor([[0]]), torch.ones(1, 1), "zz"),
            RuntimeError,
            "zz",
        ),
        (
            lambda z: z.index_select(1, torch.tensor([0, 5])),
            (RuntimeError, IndexError),
            "5|out of range",
        ),
        (
            lambda z: z.index_select(1, torch.tensor([-1])),
            (RuntimeError, IndexError),
            "-1|out of range",
        ),
        (lambda z: z.index_select(1, torch.tensor([[0]])), IndexError, "vector"),
        (lambda z: z.index_select(1, torch.tensor([0.0])), RuntimeError, "dtype"),
        (lambda z: z.index_select(5, torch.tensor([0])), IndexError, "Dimension out of range"),
        (
            lambda z: z.index_add(0, torch.tensor([0, 5]), torch.ones(2, 3)),
            (RuntimeError, IndexError),
            "out of (range|bounds)",
        ),
        (
            lambda z: z.index_add(0, torch.tensor([0]), torch.ones(2, 3)),
            (RuntimeError, IndexError),
            None,
        ),
        (
            lambda z: z.index_add(0, torch.tensor([0]), torch.ones(1, 3, dtype=F8)),
            RuntimeError,
            "scalar type|dtype",
        ),
        (
            lambda z: z.index_copy(0, torch.tensor([5]), torch.ones(1, 3)),
            (RuntimeError, IndexError),
            "out of bounds|out of range",
        ),
        (
            lambda z: z.index_copy(0, torch.tensor([0]), torch.ones(1, 3, dtype=F8)),
            RuntimeError,
            "dtype",
        ),
        (
            lambda z: z.index_copy(0, torch.tensor([0]), torch.ones(2, 3)),
            (RuntimeError, IndexError),
            None,
        ),
        (lambda z: z.masked_fill(torch.tensor([1, 0, 1]), 5.0), RuntimeError, "bool"),
        (
            lambda z: z.masked_fill(torch.tensor([True, False, True]), torch.ones(2)),
            RuntimeError,
            "0-dim",
        ),
        (
            lambda z: z[0].masked_fill_(torch.ones(2, 3, dtype=torch.bool), 2.0),
            RuntimeError,
            r"output with shape \[3\]",
        ),
        (lambda z: z.masked_fill(torch.tensor([True, False]), 1.0), RuntimeError, "must match"),
        (lambda z: z.masked_select(torch.tensor([1, 0, 1])), RuntimeError, "[Bb]ool"),
        (lambda z: z.masked_select(torch.tensor([True, False])), RuntimeError, "must match"),
        (
            lambda z: z.take_along_dim(torch.tensor([5]), 1),
            RuntimeError,
            "same number of dimensions",
        ),
        (lambda z: z.take_along_dim(torch.tensor([[0.0]]), 1), RuntimeError, "dtype"),
        (lambda z: z.take(torch.tensor([6])), (IndexError, RuntimeError), "6"),
    ],
)
def test_errors_leave_the_input_alone(call, error, match):
    z = torch.zeros(2, 3)
    with pytest.raises(error, match=match):
        call(z)
    assert z.sum().item() == 0 and z._version == 0


def test_index_select():
    t = rand(2, 3, 4)
    for d in range(-3, 3):
        i = torch.tensor([0, 1, 1, 0])
        want = np.take(t.numpy(), i.numpy(), axis=d)
        np.testing.assert_array_equal(torch.index_select(t, d, i).numpy(), want)
        np.testing.assert_array_equal(
            t.permute(2, 0, 1).index_select(d, i.int()).numpy(),
            np.take(t.numpy().transpose(2, 0, 1), i.numpy(), axis=d),
        )
    assert t.index_select(1, torch.tensor(0)).shape == (2, 1, 4)
    assert t.index_select(1, torch.zeros(0, dtype=torch.int64)).shape == (2, 0, 4)
    x = rand(3, 4, grad=True)
    f = lambda v: v.index_select(0, torch.tensor([2, 2, 0]))
    assert gradcheck(f, (x,)) and gradgradcheck(f, (x,))


def test_index_add_copy_fill():
    z = torch.zeros(3)
    i = torch.tensor([0, 0, 2])
    v = torch.tensor([1.0, 2.0, 3.0])
    assert z.index_add(0, i, v).tolist() == [3, 0, 3]
    assert torch.index_add(z, 0, i, v, alpha=2).tolist() == [6, 0, 6]
    assert z.clone().index_add_(0, i, v).tolist() == [3, 0, 3]
    assert z.index_copy(0, torch.tensor([2, 0]), torch.tensor([7.0, 8.0])).tolist() == [8, 0, 7]
    assert z.clone().index_copy_(0, torch.tensor([1]), torch.tensor([5.0])).tolist() == [0, 5, 0]
    assert z.index_fill(0, torch.tensor([2, -1]), 7.0).tolist() == [0, 0, 7]
    m = torch.zeros(2, 3, 4)
    m.index_add_(1, torch.tensor([2, 0]), torch.ones(2, 2, 4))
    assert m.sum((0, 2)).tolist() == [8, 0, 8]
    x, s = rand(3, 4, grad=True), rand(2, 4, seed=2, grad=True)
    for f in (
        lambda a, b: a.index_add(0, torch.tensor([1, 1]), b, alpha=1.5),
        lambda a, b: a.index_copy(0, torch.tensor([2, 0]), b),
        lambda a, b: a.index_fill(0, torch.tensor([2]), 3.0) * b.sum(),
    ):
        assert gradcheck(f, (x, s)) and gradgradcheck(f, (x, s))


def test_masked_fill_and_select():
    t = torch.arange(6.0).reshape(2, 3)
    mask = torch.tensor([True, False, True])
    assert t.masked_fill(mask, 9).tolist() == [[9, 1, 9], [9, 4, 9]]
    assert t.masked_fill(mask, torch.tensor(9)).tolist() == [[9, 1, 9], [9, 4, 9]]
    assert torch.arange(3).masked_fill(mask, 5.5).tolist() == [5, 1, 5]
    assert torch.zeros(3).masked_fill(torch.ones(2, 3, dtype=torch.bool), 2.0).shape == (2, 3)
    assert t.clone().masked_fill_(t > 2, 0).tolist() == [[0, 1, 2], [0, 0, 0]]
    assert t.masked_fill(mask, float("-inf"))[0, 0].item() == float("-inf")
    assert torch.masked_select(t, mask).tolist() == [0, 2, 3, 5]
    assert torch.masked_select(torch.arange(3), torch.ones(2, 1, dtype=torch.bool)).tolist() == [
        0,
        1,
        2,
        0,
        1,
        2,
    ]
    assert t.masked_select(t > 99).shape == (0,)
    assert torch.zeros(4).masked_scatter(
        torch.tensor([True, False, True, False]), torch.tensor([1.0, 2.0])
    ).tolist() == [1, 0, 2, 0]
    x = rand(2, 3, grad=True)
    v = torch.tensor(2.0, dtype=F8, requires_grad=True)
    assert gradcheck(lambda a, b: a.masked_fill(mask, b), (x, v))
    assert gradcheck(lambda a: a.masked_select(mask), (x,)) and gradgradcheck(
        lambda a: a.masked_select(mask), (x,)
    )


def test_take_along_dim_and_take():
    t = rand(2, 3, 4)
    for d in range(3):
        i = torch.argsort(t, d)
        np.testing.assert_array_equal(torch.take_along_dim(t, i, d).numpy(), np.sort(t.numpy(), d))
    a = torch.arange(6).reshape(2, 3)
    assert a.take_along_dim(torch.tensor([[0], [2]]), 1).tolist() == [[0], [5]]
    assert a.take_along_dim(torch.tensor([[2]]), 1).tolist() == [[2], [5]], "the index broadcasts"
    assert a.take_along_dim(torch.tensor([5, 0])).tolist() == [5, 0]
    assert torch.take(a, torch.tensor([[0, 5], [-1, 2]])).tolist() == [[0, 5], [5, 2]]


def test_nonzero_and_argwhere():
    t = torch.tensor([[1, 0], [0, 3]])
    assert torch.nonzero(t).tolist() == torch.argwhere(t).tolist() == [[0, 0], [1, 1]]
    assert [i.tolist() for i in torch.nonzero(t, as_tuple=True)] == [[0, 1], [0, 1]]
    assert [i.tolist() for i in t.nonzero(as_tuple=True)] == [[0, 1], [0, 1]]
    assert torch.tensor(5).nonzero().shape == (1, 0) and torch.tensor(0).nonzero().shape == (0, 0)
    assert [i.tolist() for i in torch.tensor(5).nonzero(as_tuple=True)] == [[0]]
    assert torch.tensor([float("nan"), 0.0, -0.0]).nonzero().tolist() == [[0]]
    for shape in [(7,), (3, 4), (2, 0, 3), (2, 3, 4)]:
        a = RNG(0).integers(0, 2, shape)
        assert torch.tensor(a).nonzero().tolist() == np.argwhere(a).tolist()
        assert torch.tensor(a).nonzero().shape == (int(a.sum()), len(shape))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bool, torch.int16, torch.float32])
def test_an_empty_index_is_of_any_dtype(dtype):
    x, none = torch.ones(3), torch.tensor([], dtype=dtype)
    assert torch.gather(x, 0, none).shape == (0,)
    assert torch.gather(torch.ones(3, 2), 0, none).shape == (0,)
    for y in (
        x.scatter(0, none, 2.0),
        x.scatter(0, none, torch.tensor([])),
        x.scatter_add(0, none, torch.tensor([])),
        x.scatter_reduce(0, none, torch.tensor([]), "sum"),
        x.clone().scatter_(0, none, 2.0),
    ):
        assert torch.equal(y, x)
    leaf = torch.ones(3, requires_grad=True)
    (leaf.gather(0, none).sum() + leaf.scatter(0, none, 2.0).sum()).backward()
    assert leaf.grad.tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(RuntimeError, match="Expected dtype int32/int64 for index"):
        torch.gather(x, 0, torch.ones(1).to(dtype))
    with pytest.raises(RuntimeError, match="Expected dtype int32/int64 for index"):
        torch.index_select(x, 0, none)


@pytest.mark.parametrize(
    "write",
    [
        lambda x, v: x.index_put((torch.tensor([1, 1]),), v),
        lambda x, v: x.index_put((torch.tensor([1, 1]),), v, accumulate=True),
        lambda x, v: x.clone().index_put_((torch.tensor([1, 1]),), v),
        lambda x, v: x.put(torch.tensor([1, 1]), v),
        lambda x, v: x.put(torch.tensor([1, 1]), v, accumulate=True),
        lambda x, v: x.scatter(0, torch.tensor([1, 1]), v),
        lambda x, v: x.scatter(0, torch.tensor([1, 1]), v, reduce="add"),
        lambda x, v: x.scatter(0, torch.tensor([1, 1]), 2.0),
        lambda x, v: x.scatter(0, torch.tensor([1, 1]), 2.0, reduce="multiply"),
    ],
)
def test_tangent_of_a_position_that_is_written_twice(write):
    x, v = torch.tensor([1.0, 2.0, 3.0], dtype=F8), torch.tensor([4.0, 5.0], dtype=F8)
    tx, tv = torch.tensor([10.0, 20.0, 30.0], dtype=F8), torch.tensor([40.0, 50.0], dtype=F8)
    got = torch.func.jvp(write, (x, v), (tx, tv))[1]
    difference = write(x + tx, v + tv) - write(x, v)  # each write is affine
    assert got.tolist() == difference.tolist()


def test_no_tangent_of_scatter_that_multiplies_by_a_tensor():
    x, at = torch.ones(3), torch.tensor([1, 1])
    with pytest.raises(NotImplementedError, match="no derivative for reduce='multiply'"):
        torch.func.jvp(lambda x: x.scatter(0, at, x[:2], reduce="multiply"), (x,), (x,))
