# SPDX-License-Identifier: BSD-3-Clause
"""Blocked matrices (BSR, BSC) and batches of compressed ones, beside their dense tensors."""

import copy
import math
import pickle

import numpy as np
import pytest

import cograd as torch
from cograd.autograd import gradcheck, gradgradcheck

F64 = torch.float64
KINDS = [
    (layout, batch)
    for layout in ("csr", "csc", "bsr", "bsc")
    for batch in ((), (2,), (2, 3))
    if batch or layout[0] == "b"
]
kinds = pytest.mark.parametrize(("layout", "batch"), KINDS)


def block_of(layout):
    return (2, 3) if layout[0] == "b" else None


def dense(layout, batch, dtype=F64):
    """Returns matrices of 3 x 2 blocks, of which each has four that are not zero."""
    rng = np.random.default_rng(0)
    high, wide = block_of(layout) or (1, 1)
    mask = np.zeros((math.prod(batch), 6))
    for row in mask:
        row[rng.permutation(6)[:4]] = 1
    blocks = mask.reshape(-1, 3, 1, 2, 1) * rng.integers(1, 9, (len(mask), 3, high, 2, wide))
    return torch.from_numpy(blocks.reshape(*batch, 3 * high, 2 * wide)).to(dtype)


def converted(x, layout, block=None):
    if layout[0] == "b":
        return getattr(x, f"to_sparse_{layout}")(block or block_of(layout))
    return getattr(x, f"to_sparse_{layout}")()


def of_values(s):
    """Returns a function that builds the tensor from other values."""
    return lambda v: torch.sparse_compressed_tensor(*s._pattern.parts, v, s.shape, layout=s.layout)


@kinds
def test_parts_and_conversions(layout, batch):
    d = dense(layout, batch)
    s = converted(d, layout)
    assert s.layout == getattr(torch, f"sparse_{layout}") and s.shape == d.shape
    assert s._nnz() == 4 and s.values().shape == (*batch, 4, *(block_of(layout) or ()))
    assert (s.sparse_dim(), s.dense_dim()) == (2, 0)
    assert s.is_sparse_csr == (layout == "csr") and not s.is_sparse
    name = "crow_indices" if layout[2] == "r" else "ccol_indices"
    assert getattr(s, name)().shape == (*batch, 4 if layout[2] == "r" else 3)
    with pytest.raises(RuntimeError, match="compressed tensor layout but got Sparse"):
        getattr(s, "ccol_indices" if name[1] == "r" else "crow_indices")()
    assert torch.equal(s.to_dense(), d)
    coo = s.to_sparse()
    assert coo.layout == torch.sparse_coo and torch.equal(coo.to_dense(), d)
    again = converted(coo.coalesce(), layout)
    assert torch.equal(again.values(), s.values()) and again._pattern.same_places(s._pattern)
    for other in ("csr", "csc", "bsr", "bsc"):
        o = converted(s, other, (2, 3) if layout[0] == "b" else (1, 1))
        assert o.layout == getattr(torch, f"sparse_{other}") and torch.equal(o.to_dense(), d)


@kinds
def test_derivatives(layout, batch):
    d = dense(layout, batch)
    s = converted(d, layout)
    build, v = of_values(s), s.values().clone().requires_grad_()
    x = torch.linspace(-1, 2, 4 * d.shape[-1], dtype=F64).reshape(-1, 4).requires_grad_()
    y = torch.linspace(-2, 1, 5 * d.shape[-2], dtype=F64).reshape(5, -1).requires_grad_()
    assert torch.allclose(build(v) @ x, d @ x) and torch.allclose(y @ build(v), y @ d)
    for f, arguments in {
        (lambda v, x: build(v) @ x, (v, x)),
        (lambda v, y: y @ build(v), (v, y)),
        (lambda v, x: torch.matmul(build(v), x.expand(*batch, *x.shape)), (v, x)),
        (lambda v: (build(v).mT * 2 - build(v).transpose(-1, -2)).to_dense(), (v,)),
        (lambda v: build(v).sin().to_sparse().to_dense(), (v,)),
        (lambda v: (build(v) * d + build(v) * build(v)).to_dense(), (v,)),
        (lambda v: torch.sparse.softmax(build(v), -1).to_dense(), (v,)),
        (lambda v: torch.sparse.sum(build(v), -1).to_dense(), (v,)),
    }:
        assert gradcheck(f, arguments, check_forward_ad=True)
        assert gradgradcheck(f, arguments, check_fwd_over_rev=True)


def test_gradients_of_dense_blocks_reach_their_zeros():
    x = torch.tensor([[1.0, 0, 0, 0], [0, 2, 0, 0]], requires_grad=True)
    x.to_sparse_bsr((2, 2)).to_dense().sum().backward()
    assert x.grad.tolist() == [[1, 1, 0, 0], [1, 1, 0, 0]]


@kinds
def test_sparse_leaves(layout, batch):
    d = dense(layout, batch)
    s = converted(d, layout).requires_grad_()
    x = torch.ones(d.shape[-1], 2, dtype=F64)
    for times in (1, 2):
        (s @ x).sum().backward()
        assert s.grad.layout == s.layout and s.grad._pattern is s._pattern
        assert torch.equal(s.grad.values(), torch.full_like(s.values(), 2.0 * times))
    (g,) = torch.autograd.grad((s * d).sum(), s)
    assert torch.equal(g.to_dense(), d)
    s.backward(converted(torch.ones_like(d), layout) if layout[0] == "b" else torch.ones_like(d))
    assert torch.equal(s.grad.values(), torch.full_like(s.values(), 5.0))
    with torch.no_grad():
        s.mul_(2)
    assert torch.equal(s.detach().to_dense(), 2 * d)


def test_vmap():
    s = converted(dense("bsr", ()), "bsr")
    v, x = torch.randn(4, *s.values().shape, dtype=F64), torch.randn(4, 6, 3, dtype=F64)
    got = torch.vmap(lambda v, x: of_values(s)(v) @ x)(v, x)
    want = torch.stack([of_values(s)(v[i]).to_dense() @ x[i] for i in range(4)])
    torch.testing.assert_close(got, want)


@kinds
def test_arithmetic(layout, batch):
    d = dense(layout, batch)
    s, flipped = converted(d, layout), converted(d.flip(-1), layout)
    for got, want in (
        (s + s * 3, d * 4),
        (s - of_values(s)(s.values()), d * 0),
        (s / 2, d / 2),
        (abs(-s), d),
        (s**2, d**2),
        (s * s, d * d),
        (s * flipped, d * d.flip(-1)),
        (s.float(), d.float()),
        (s.clone(), d),
        (torch.zeros_like(s), d * 0),
        (d.sparse_mask(flipped), d * (d.flip(-1) != 0)),
        (s.sparse_mask(flipped), d * (d.flip(-1) != 0)),
        (torch.cat([s, s]), torch.cat([d, d])),
        (s.unsqueeze(0), d[None]),
    ):
        assert torch.equal(got.to_dense(), want) and got.layout != torch.strided
    assert torch.equal(s + d, 2 * d) and torch.equal(d - s, d * 0)
    assert torch.equal(d.clone().add_(s), 2 * d)
    assert s.sum() == d.sum() and torch.isclose(s.norm(), d.norm())
    if not batch:
        torch.testing.assert_close((s + flipped).to_dense(), d + d.flip(-1))
    for i, part in enumerate(s):
        assert torch.equal(part.to_dense(), d[i])
        assert part.layout == (s.layout if batch else torch.sparse_coo)


def test_batches_of_coordinates():
    d = dense("bsr", (2, 3))
    x, y = torch.randn(2, 3, 6, 4, dtype=F64), torch.randn(2, 3, 5, 6, dtype=F64)
    s = d.to_sparse()
    torch.testing.assert_close(s @ x, d @ x)
    torch.testing.assert_close(y @ s, y @ d)
    torch.testing.assert_close(torch.bmm(s[0], x[0]), d[0] @ x[0])
    v = s.values().requires_grad_()

    def f(v, x):
        return torch.sparse_coo_tensor(s.indices(), v, d.shape) @ x

    assert gradcheck(f, (v, x.requires_grad_())) and gradgradcheck(f, (v, x))


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("layout", ["bsr", "bsc", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_have_the_same_bits_for_any_number_of_threads(layout, dtype, index):
    rng = np.random.default_rng(0)
    col = np.sort(rng.integers(0, 300, (400, 30)), 1).astype(index)  # with repeated blocks
    start = np.arange(0, 12001, 30).astype(index)
    shape, block, batch = (2, 1600, 900), (4, 3), 2
    if layout == "bsc":
        shape, block = (2, 900, 1600), (3, 4)
    if layout == "csr":
        shape, block = (2, 400, 300), ()
    v = torch.from_numpy(rng.standard_normal((batch, 12000, *block)).astype(dtype))
    parts = [torch.from_numpy(np.stack([a, a])) for a in (start, col.reshape(-1))]
    x = torch.from_numpy(rng.standard_normal((2, shape[2], 7)).astype(dtype))
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            v.requires_grad_().grad = x.requires_grad_().grad = None
            kind = getattr(torch, f"sparse_{layout}")
            out = torch.sparse_compressed_tensor(*parts, v, shape, layout=kind) @ x
            out.backward(torch.ones_like(out))
            found.append((out.detach(), v.grad, x.grad))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        assert all(torch.equal(p, q) for p, q in zip(found[0], other))
    d = torch.sparse_compressed_tensor(*parts, v.detach().double(), shape, layout=kind).to_dense()
    torch.testing.assert_close(found[0][0].double(), d @ x.double(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float16, torch.complex64])
def test_other_dtypes_of_products(dtype):
    d = dense("bsr", (2,), torch.int64)
    x = torch.arange(12).reshape(6, 2)
    assert torch.equal(converted(d.to(dtype), "bsr") @ x.to(dtype), (d @ x).to(dtype))


def test_linear_and_addmm():
    d = dense("bsr", ())
    s, x = converted(d, "bsr"), torch.randn(2, 4, 6, dtype=F64)
    bias = torch.randn(6, dtype=F64)
    torch.testing.assert_close(torch.nn.functional.linear(x, s, bias), x @ d.t() + bias)
    torch.testing.assert_close(
        torch.addmm(bias[:, None], s, x[0].t()), d @ x[0].t() + bias[:, None]
    )
    torch.testing.assert_close(s.mv(x[0, 0]), d @ x[0, 0])
    torch.testing.assert_close(bias @ s, bias @ d)


@kinds
def test_copies_and_files(layout, batch, tmp_path):
    for s in (converted(dense(layout, batch), layout),):
        copies = [pickle.loads(pickle.dumps(s)), copy.deepcopy(s), copy.copy(s), s.clone()]
        for kind in ("torch", "safetensors"):
            torch.save({"a": [s]}, tmp_path / "file", format=kind)
            copies.append(torch.load(tmp_path / "file")["a"][0])
        for c in copies:
            torch.testing.assert_close(c, s)
            assert repr(c) == repr(s) and f"layout={s.layout}" in repr(s)
        other = torch.zeros_like(s)
        assert torch.equal(other.copy_(s).to_dense(), s.to_dense())


def test_unordered_and_repeated_blocks():
    v = torch.arange(1.0, 13).reshape(3, 2, 2)
    s = torch.sparse_bsr_tensor([0, 3], [1, 0, 1], v, (2, 4))
    want = torch.cat([v[1], v[0] + v[2]], 1)
    assert torch.equal(s.to_dense(), want) and torch.equal(s @ torch.eye(4), want)
    assert torch.equal((s**2).to_dense(), want**2)  # of the sums
    assert torch.equal((s * s).to_dense(), want**2)
    with pytest.raises(RuntimeError, match="same number of specified elements"):
        torch.sparse_csr_tensor([[0, 2], [0, 2]], [[0, 0], [0, 1]], torch.ones(2, 2)).sin()
    s = converted(dense("csr", (2,)), "csr")
    with pytest.raises(RuntimeError, match=r"add\(\): Expect the same number"):
        s + converted(dense("csr", (2,)).flip(-2), "csr")


def test_written_indices_raise_and_are_used():
    s = converted(dense("csr", (2,)), "csr")
    x = torch.ones(2, 3, dtype=F64)
    assert torch.equal(s @ x, s.to_dense() @ x)
    column = s.col_indices()[0, 0].item()
    for bad in (2, -1, 1 << 40):  # the columns of the other matrix, in the large one
        s.col_indices()[0, 0] = bad
        for f in (lambda: s @ x, s.to_dense, lambda: x.t() @ s.mT, lambda: s * s.to_dense()):
            with pytest.raises(IndexError, match="out of range"):
                f()
    s.col_indices()[0, 0] = column
    assert torch.equal(s @ x, s.to_dense() @ x)
    s.crow_indices()[0, 1] = 9
    with pytest.raises(IndexError, match="out of range"):
        s @ x


@pytest.mark.parametrize(
    ("text", "make"),
    [
        ("divisible by the blocks", lambda: bsr([0, 1, 2], [0, 1], (2, 2, 2), (4, 5))),
        ("dim 0, size is 2 but found index 3", lambda: bsr([0, 1, 2], [0, 3], (2, 2, 2), (4, 4))),
        ("negative index", lambda: bsr([0, 1, 2], [0, -1], (2, 2, 2), (4, 4))),
        ("values must have 3 dims", lambda: bsr([0, 1, 2], [0, 1], (2, 2), (4, 4))),
        ("must ascend from 0 to nnz = 2", lambda: bsr([0, 1, 3], [0, 1], (2, 2, 2), (4, 4))),
        ("3 compressed indices do not fit", lambda: bsr([0, 1, 2], [0, 1], (2, 2, 2), (6, 4))),
        ("blocks must not be empty", lambda: bsr([0, 1, 2], [0, 1], (2, 0, 2))),
        ("batch dims differ", lambda: bsr([[0, 1]], [[0], [0]], (1, 1, 2, 2))),
        ("begin with the batch dims", lambda: bsr([[0, 1]], [[0]], (1, 1, 2, 2), (2, 2, 2))),
        ("expected 2 sizes", lambda: bsr([0, 1], [0], (1, 2, 2), (2,))),
        ("same number of specified", lambda: torch.tensor([[[1, 0]], [[1, 1]]]).to_sparse_csr()),
        ("divisible by given blocksize", lambda: torch.eye(6).to_sparse_bsr((4, 2))),
        ("2 positive sizes", lambda: torch.eye(6).to_sparse_bsr((2,))),
        ("needs blocksize", lambda: torch.eye(6).to_sparse(layout=torch.sparse_bsr)),
        ("no blocks", lambda: torch.eye(6).to_sparse(blocksize=(2, 2))),
        ("bmm.*3 dims, got 2", lambda: torch.bmm(torch.eye(2).to_sparse(), torch.ones(1, 2, 2))),
        ("batch dims must be the same", lambda: cubes() @ torch.ones(3, 4, 1)),
        ("cannot be multiplied.*expected 4 rows", lambda: cubes() @ torch.ones(2, 5, 1)),
        ("same dtype", lambda: cubes() @ torch.ones(2, 4, 1, dtype=F64)),
    ],
)
def test_invalid_arguments_raise(text, make):
    with pytest.raises(RuntimeError, match=text):
        make()


def bsr(start, other, shape, *size):
    return torch.sparse_bsr_tensor(start, other, torch.ones(*shape), *size)


def cubes():
    return torch.ones(2, 3, 4).to_sparse_csr()


@pytest.mark.parametrize(
    ("text", "call"),
    [
        (r"exp\(\): not supported", lambda s: s.exp()),
        (r"matmul.*layout cograd.sparse_bsr", lambda s: s @ s.t()),
        (r"mm\(\).*layout cograd.sparse_bsr", lambda s: torch.mm(s, s.t().to_sparse_csr())),
        (r"sampled_addmm.*sparse_bsr", lambda s: torch.sparse.sampled_addmm(s, s, s)),
        (r"sparse.mm.*with reduce='mean'", lambda s: torch.sparse.mm(s, torch.ones(6, 1), "mean")),
        (r"permute.*but of rows and columns", lambda s: cubes().transpose(0, 1)),
        (r"matmul.*batches on both sides", lambda s: cubes() @ cubes().mT),
        (r"matmul.*together with a batch|as this argument", lambda s: s @ torch.ones(2, 6, 1)),
        (r"to_sparse_bsr.*dense dims", lambda s: torch.ones(2, 2, 2).to_sparse_bsr((1, 1), 1)),
        (r"sparse_bsr_tensor.*dense dims", lambda s: bsr([0, 1], [0], (1, 2, 2, 5))),
        (r"to_scipy", lambda s: cubes().to_scipy()),
        (r"to_scipy", lambda s: s.t().to_scipy()),
        (r"new_zeros.*shape \(3, 3\)", lambda s: s.new_zeros((3, 3))),
    ],
)
def test_what_is_missing_is_named(text, call):
    with pytest.raises(NotImplementedError, match=text):
        call(converted(dense("bsr", (), torch.float32), "bsr"))


@pytest.mark.parametrize("shape", [(0, 6, 4), (2, 0, 4), (2, 6, 0), (0, 4), (4, 0)])
@pytest.mark.parametrize("layout", ["csr", "bsr", "bsc"])
def test_sizes_of_zero(layout, shape):
    d = torch.zeros(shape)
    s = converted(d, layout, (2, 2))
    assert s.shape == shape and torch.equal(s.to_dense(), d)
    x = torch.ones(shape[-1], 3)
    assert torch.equal(s @ x, d @ x) and torch.equal((s + s).to_dense(), d)
    assert torch.equal(converted(s.to_sparse(), layout, (2, 2)).to_dense(), d)


# ---- large blocks, whose products are products of dense blocks


def large(layout, batch=(), dtype=F64):
    """Returns matrices of 3 x 2 blocks of 16 x 20 elements, of which each has four, and them."""
    rng = np.random.default_rng(1)
    mask = np.zeros((math.prod(batch), 6))
    for row in mask:
        row[rng.permutation(6)[:4]] = 1
    blocks = mask.reshape(-1, 3, 1, 2, 1) * rng.integers(1, 9, (len(mask), 3, 16, 2, 20))
    d = torch.from_numpy(blocks.reshape(*batch, 48, 40)).to(dtype)
    return d, converted(d, layout, (16, 20))


@pytest.fixture
def by_blocks(monkeypatch):
    """Returns the list of the products that were computed block by block."""
    from cograd.sparse import _products

    calls, run = [], _products._by_blocks
    record = lambda *args, **options: calls.append(args[2].shape[-1]) or run(*args, **options)
    monkeypatch.setattr(_products, "_by_blocks", record)
    return calls


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
@pytest.mark.parametrize("layout", ["bsr", "bsc"])
def test_products_of_large_blocks(layout, batch, by_blocks):
    d, s = large(layout, batch)
    x, y = torch.rand(*batch, 40, 3, dtype=F64), torch.rand(*batch, 1, 48, dtype=F64)
    torch.testing.assert_close(s @ x, d @ x)
    torch.testing.assert_close(y @ s, y @ d)
    assert by_blocks == [3, 1]
    if not batch:
        torch.testing.assert_close(s @ x[:, 0], d @ x[:, 0])
        torch.testing.assert_close(torch.nn.functional.linear(x.t(), s), x.t() @ d.t())
        assert len(by_blocks) == 4
    s @ torch.rand(*batch, 40, 65, dtype=F64)
    assert len(by_blocks) == (2 if batch else 4)  # many columns: as elements


@pytest.mark.parametrize("layout", ["bsr", "bsc"])
def test_derivatives_of_products_of_large_blocks(layout, by_blocks):
    d, s = large(layout)
    f = of_values(s)
    x, v = torch.rand(40, 1, dtype=F64), s.values()
    product = lambda v, x: f(v) @ x
    whole = lambda v, x: f(v).to_dense() @ x
    seed = torch.rand(48, 1, dtype=F64)
    both = [torch.func.vjp(g, v, x)[1](seed) for g in (product, whole)]
    torch.testing.assert_close(*both)
    tangents = (torch.rand_like(v), torch.rand_like(x))
    both = [torch.func.jvp(g, (v, x), tangents)[1] for g in (product, whole)]
    torch.testing.assert_close(*both)
    twice = lambda g: torch.func.jvp(
        torch.func.grad(lambda v, x: (g(v, x) ** 3).sum(), (0, 1)), (v, x), tangents
    )
    torch.testing.assert_close(twice(product), twice(whole))
    several = torch.vmap(product, (None, 1))(v, torch.rand(40, 5, 1, dtype=F64))
    assert several.shape == (5, 48, 1) and by_blocks


def test_large_blocks_of_other_dtypes_and_the_number_of_threads(by_blocks):
    for dtype in (torch.int64, torch.complex128, torch.bfloat16, torch.float16):
        d, s = large("bsr", dtype=dtype)
        x = torch.arange(80).reshape(40, 2).to(dtype)
        wide = dtype if dtype in (torch.int64, torch.complex128) else torch.float32
        assert torch.equal(s @ x, (d.to(wide) @ x.to(wide)).to(dtype))
    d = torch.rand(1600, 1600)
    s, x, found = d.to_sparse_bsr((16, 16)), torch.rand(1600, 1, requires_grad=True), []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            out = s @ x
            found.append((out, *torch.autograd.grad(out.sum(), x)))
    finally:
        torch.set_num_threads(before)
    assert all(map(torch.equal, (*found[0], *found[0]), (*found[1], *found[2])))
    assert len(by_blocks) > 4


@pytest.mark.parametrize("shape", [(0, 40), (48, 0), (48, 40), (2, 48, 40)])
def test_large_blocks_of_size_zero(shape):
    s = torch.zeros(shape).to_sparse_bsr((16, 20))
    out = s @ torch.ones(*shape[:-2], shape[-1], 2)
    assert out.shape == (*shape[:-1], 2) and not out.any()
    out = torch.ones(*shape[:-2], 2, shape[-2]) @ s
    assert out.shape == (*shape[:-2], 2, shape[-1]) and not out.any()
