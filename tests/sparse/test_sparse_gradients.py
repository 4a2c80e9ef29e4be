# SPDX-License-Identifier: BSD-3-Clause
"""Gradients, tangents and batches through sparse tensors; products on any number of threads."""

import numpy as np
import pytest

import cograd as torch
from cograd.autograd import grad, gradcheck, gradgradcheck
from cograd.utils.checkpoint import checkpoint

F64 = torch.float64
AT = torch.tensor([[0, 1, 1, 0, 1], [2, 0, 2, 2, 2]])  # with repeated positions


def leaf(*shape):
    n = int(np.prod(shape))
    values = np.sin(np.arange(1.0, n + 1)).reshape(shape)
    return torch.tensor(values, dtype=F64, requires_grad=True)


def coo(v):
    return torch.sparse_coo_tensor(AT, v, (2, 3, *v.shape[1:]))


def csr(v):
    return coo(v).to_sparse_csr()


def csc(v):
    return csr(v).to_sparse_csc()


def dense(s):
    return s.to_dense()


OPS = {
    "product": (lambda s, x: s @ x, (3, 4)),
    "from the left": (lambda s, x: x @ s, (4, 2)),
    "vector": (lambda s, x: s.mv(x), (3,)),
    "vector from the left": (lambda s, x: x @ s, (2,)),
    "transposed": (lambda s, x: s.t() @ x, (2, 4)),
    "addmm": (lambda s, x: torch.sparse.addmm(x[:2], s, x, beta=0.5, alpha=2.0), (3, 4)),
    "linear": (lambda s, x: torch.nn.functional.linear(x, s), (4, 3)),
    "sparse times sparse": (lambda s, x: dense(s @ s.t() * x[0]), (2,)),
    "sum": (lambda s, x: torch.sparse.sum(s) * x, (2,)),
    "sum along a dim": (lambda s, x: dense(torch.sparse.sum(s, 0)) * x, (3,)),
    "softmax": (lambda s, x: dense(torch.sparse.softmax(s, 1)) * x, (2, 3)),
    "log_softmax": (lambda s, x: dense(torch.sparse.log_softmax(s, 0)) * x, (2, 3)),
    "add": (lambda s, x: x + s * 3 - s, (2, 3)),
    "multiply": (lambda s, x: dense(s * x), (2, 3)),
    "multiply broadcast": (lambda s, x: dense(x * s), (2, 1)),
    "square": (lambda s, x: dense(s * s) * x, (2, 3)),
    "divide": (lambda s, x: dense(s / 3 * x[0]), (2,)),
    "index_select": (lambda s, x: dense(s.index_select(1, torch.tensor([2, 0, 2]))) * x, (2, 3)),
    "mask": (lambda s, x: dense(x.sparse_mask(s) * s), (2, 3)),
    "sampled": (lambda s, x: dense(torch.sparse.sampled_addmm(s, x[:2], x[2:].t())), (5, 4)),
    "function": (lambda s, x: dense(s.sin()) * x, (2, 3)),
    "cat": (lambda s, x: dense(torch.cat([s, s * x[0]], 1)), (2,)),
}


@pytest.mark.parametrize("layout", [coo, csr, csc])
@pytest.mark.parametrize("name", OPS)
def test_derivatives(name, layout):
    f, shape = OPS[name]
    arguments = (leaf(5), leaf(*shape))

    def of_values(v, x):
        return f(layout(v), x)

    assert gradcheck(of_values, arguments, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(of_values, arguments, check_fwd_over_rev=True)


@pytest.mark.parametrize(
    "f",
    [
        lambda s: dense(torch.sparse.softmax(s, 1)),
        lambda s: dense(torch.sparse.softmax(s, 2)),
        lambda s: dense(torch.sparse.sum(s, (0, 2))),
        lambda s: s.coalesce().values(),
        lambda s: dense(s.transpose(0, 1) * 2),
        lambda s: dense(s.index_select(2, torch.tensor([1, 1]))),
    ],
)
def test_dense_dims(f):
    assert gradcheck(lambda v: f(coo(v)), (leaf(5, 2),), check_forward_ad=True)


def test_sparse_leaves():
    s = coo(leaf(5).detach()).coalesce().requires_grad_()
    x = leaf(3, 2)
    assert s.is_leaf and s.grad is None
    (s @ x).sum().backward()
    want = torch.ones(2, 2, dtype=F64) @ x.detach().t()
    assert s.grad.layout == torch.sparse_coo and s.grad._nnz() == 3
    torch.testing.assert_close(s.grad, want.sparse_mask(s))
    (s @ x).sum().backward()
    torch.testing.assert_close(s.grad, (2 * want).sparse_mask(s))
    s.grad = None
    assert s.grad is None
    (g,) = grad((s @ x).sum(), s)
    torch.testing.assert_close(g, want.sparse_mask(s))
    torch.autograd.backward([(s @ x).sum()], inputs=[s])
    torch.testing.assert_close(s.grad, g)
    assert gradcheck(torch.sparse.mm, (s, x)) and gradgradcheck(torch.sparse.mm, (s, x))
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        s.mul_(2)


def test_sparse_roots_and_hooks():
    v = leaf(5)
    s = coo(v)
    seen = []
    s.register_hook(seen.append)
    out = s * 2
    out.backward(torch.ones(2, 3, dtype=F64))
    assert torch.equal(v.grad, torch.full((5,), 2.0, dtype=F64))
    assert seen[0].shape == (2, 3) and torch.equal(seen[0]._values(), v.grad)
    with pytest.raises(RuntimeError, match="scalar outputs"):
        (s * 2).backward()
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        (s * 2).backward(torch.ones(3, 3, dtype=F64))
    t = coo(leaf(5)) * 1
    t.retain_grad()
    (t * 3).sum().backward()
    assert torch.equal(t.grad._values(), torch.full((5,), 3.0, dtype=F64))


def test_vmap():
    x, v = leaf(4, 3, 2).detach(), leaf(4, 5).detach()
    want = torch.stack([coo(v[i]).to_dense() @ x[i] for i in range(4)])
    got = torch.vmap(lambda v, x: coo(v) @ x)(v, x)
    torch.testing.assert_close(got, want)
    per_sample = torch.vmap(torch.func.grad(lambda v, x: (coo(v) @ x).sum()))(v, x)
    assert per_sample.shape == (4, 5)
    torch.testing.assert_close(per_sample, x.sum(2)[:, AT[1]])


def test_requires_grad_is_the_tensors_own():
    v = torch.ones(5, dtype=F64)
    s = coo(v)
    t = s.t()
    s.requires_grad_()
    assert not v.requires_grad and not t.requires_grad and s.requires_grad
    assert torch.sparse_coo_tensor(AT, v, (2, 3), requires_grad=True).is_leaf
    with torch.no_grad():
        assert not coo(leaf(5)).requires_grad
    assert coo(leaf(5)).grad_fn is None or coo(leaf(5)).requires_grad


def matrix(n=3000, m=2500, entries=40000, dtype=np.float32, index=np.int64):
    rng = np.random.default_rng(0)
    row = np.sort(rng.integers(0, n, entries) ** 2 // n)  # long rows and empty ones
    start = np.zeros(n + 1, index)
    np.add.at(start, row + 1, 1)
    start = start.cumsum().astype(index)
    col = rng.integers(0, m, entries).astype(index)
    values = rng.standard_normal(entries).astype(dtype)
    parts = [torch.from_numpy(a) for a in (start, col, values)]
    return torch.sparse_csr_tensor(*parts, (n, m)), (row, col, values)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [1, 2, 7, 16, 100])
def test_products_have_the_same_bits_for_any_number_of_threads(columns, dtype, index):
    a, (row, col, values) = matrix(dtype=dtype, index=index)
    assert a.col_indices().dtype == (torch.int32 if index is np.int32 else torch.int64)
    x = torch.from_numpy(np.random.default_rng(1).standard_normal((2500, columns)).astype(dtype))
    want = np.zeros((3000, columns))
    np.add.at(want, row, values[:, None].astype(float) * x.numpy()[col])
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            v = a.values().detach().requires_grad_()
            s = torch.sparse_csr_tensor(a.crow_indices(), a.col_indices(), v, a.shape)
            y = x.clone().requires_grad_()
            out = s @ y
            out.backward(torch.ones_like(out))
            found.append((out.detach(), v.grad, y.grad))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        assert all(torch.equal(p, q) for p, q in zip(found[0], other))
    out, dv, dy = found[0]
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if dtype is np.float32 else {}
    np.testing.assert_allclose(out.numpy(), want, **(tolerance or {"rtol": 1e-10, "atol": 1e-12}))
    np.testing.assert_allclose(dv.numpy(), x.numpy().sum(1)[col], rtol=1e-3, atol=1e-4)
    column = np.zeros(2500)
    np.add.at(column, col, values.astype(float))
    np.testing.assert_allclose(dy.numpy()[:, 0], column, rtol=1e-3, atol=1e-4)


def test_other_dtypes_of_products():
    dense_ = torch.tensor([[0, 2, 0], [3, 0, 4]])
    for dtype in (torch.int64, torch.int32, torch.float16, torch.bfloat16, torch.complex64):
        d = dense_.to(dtype)
        x = torch.arange(6).reshape(3, 2).to(dtype)
        assert torch.equal(d.to_sparse() @ x, (dense_ @ torch.arange(6).reshape(3, 2)).to(dtype))
    z = torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex128, requires_grad=True)
    x = torch.ones(3, 2, dtype=torch.complex128, requires_grad=True)
    at = torch.tensor([[0, 1], [2, 0]])
    assert gradcheck(lambda z, x: torch.sparse_coo_tensor(at, z, (2, 3)) @ x, (z, x))
    with pytest.raises(RuntimeError, match="same dtype"):
        dense_.double().to_sparse() @ torch.ones(3, 2)


def test_sizes_beyond_memory():
    n = 1 << 31
    s = torch.sparse_coo_tensor(torch.tensor([[0, n - 1], [5, n - 1]]), torch.ones(2), (n, n))
    assert s.numel() == n * n and (s + s).coalesce()._nnz() == 2 and s.sum() == 2
    with pytest.raises(RuntimeError, match="overflow|too large|numel"):
        torch.sparse_coo_tensor(torch.tensor([[0], [0], [0]]), torch.ones(1), (n, n, n))


def test_sparse_tensors_end_with_their_last_reference():
    import gc
    import weakref

    s = coo(leaf(5)) * 2
    ends = weakref.ref(s)
    del s
    assert ends() is None
    table = torch.nn.Embedding(4, 2, sparse=True)
    table(torch.tensor([1])).sum().backward()
    ends = weakref.ref(table.weight.grad)
    assert ends() is table.weight.grad  # kept by the weight alone
    table.weight.grad = None
    gc.collect()
    assert ends() is None


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_checkpoint_of_a_sparse_argument(layout):
    values = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    dense = torch.arange(4.0, dtype=torch.float64).reshape(2, 2).requires_grad_()

    def matrix():
        if layout == "coo":
            at = torch.tensor([[0, 1, 1], [1, 0, 1]])
            return torch.sparse_coo_tensor(at, values, (2, 2)).coalesce()
        ends, columns = torch.tensor([0, 1, 3]), torch.tensor([1, 0, 1])
        return torch.sparse_csr_tensor(ends, columns, values, (2, 2))

    def f(s, d):
        return (s @ d).sin()

    want = torch.autograd.grad(f(matrix(), dense).sum(), (values, dense))
    y = checkpoint(f, matrix(), dense, use_reentrant=False)
    got = torch.autograd.grad(y.sum(), (values, dense))
    assert [g.tolist() for g in got] == [g.tolist() for g in want]

    y = checkpoint(f, matrix(), dense, use_reentrant=False)
    with torch.no_grad():
        dense.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    sparse = matrix()
    y = checkpoint(f, sparse, dense, use_reentrant=False)
    with torch.no_grad():
        sparse.values().mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
