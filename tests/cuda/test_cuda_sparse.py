# SPDX-License-Identifier: BSD-3-Clause
"""Sparse tensors on a GPU: products have kernels, the rest is composed; nothing falls back."""

import fakes
import pytest

why = None if fakes.REAL else fakes.why_not()
pytestmark = pytest.mark.skipif(why is not None, reason=str(why))

START = """
torch.cuda.set_fallback("error")
torch.manual_seed(0)
sparse = torch.sparse
DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64,
          torch.complex128)
def tolerance(dtype):
    return {torch.float64: 1e-12, torch.complex128: 1e-12, torch.float16: 1e-2,
            torch.bfloat16: 5e-2}.get(dtype, 1e-5)
def close(found, expected):
    assert found.is_cuda and found.layout == expected.layout and found.dtype == expected.dtype
    if expected.layout != torch.strided:
        found, expected = found.to_dense(), expected.to_dense()
    tol = tolerance(expected.dtype)
    torch.testing.assert_close(found.cpu(), expected, rtol=tol, atol=tol)
def rand(*sizes, dtype=torch.float64):
    wide = torch.complex128 if dtype.is_complex else torch.float64
    return torch.randn(*sizes, dtype=wide).to(dtype)
def matrix(rows, cols, dtype=torch.float64, share=0.3):
    x = rand(rows, cols, dtype=dtype)
    x[torch.rand(rows, cols) > share] = 0
    if rows > 2:
        x[1] = 0  # a row without elements
    return x
LAYOUTS = ("to_sparse", "to_sparse_csr", "to_sparse_csc")
def same(f, *args):
    close(f(*(a.cuda() for a in args)), f(*args))
"""


def nightly(*dtypes):
    return [pytest.param(t, marks=pytest.mark.nightly) for t in dtypes]


@pytest.mark.parametrize(
    "dtype", ["float64", "bfloat16", "complex64", *nightly("float32", "float16", "complex128")]
)
def test_products_and_their_gradients(dtype):
    fakes.run(
        START
        + f"""
dtype = torch.{dtype}
"""
        + """
def products(device, dense, x, y, make):
    a = getattr(dense.to(device), make)().requires_grad_()
    x, y = (t.to(device).requires_grad_() for t in (x, y))
    out, left = a @ x, y @ a
    weight = torch.ones_like(out) * 0.5 + out.detach().real.round().to(out.dtype)
    grads = torch.autograd.grad((out * weight).sum().real + left.sum().real, (a, x, y))
    assert all(str(g.device).startswith(device) for g in grads)
    return [out.detach(), left.detach(), grads[0].to_dense(), *grads[1:]]
for rows, cols, k in ((5, 4, 1), (7, 9, 3), (3, 6, 40), (1, 1, 2), (4, 3, 0), (3, 0, 2)):
    if dtype in DTYPES[2:4] and (rows, k) != (7, 3):
        continue
    dense = matrix(rows, cols, dtype)
    x, y = rand(cols, k, dtype=dtype), rand(2, rows, dtype=dtype)
    for make in LAYOUTS:
        both = (products(device, dense, x, y, make) for device in ("cuda", "cpu"))
        for a, b in zip(*both):
            close(a, b)
""",
        timeout=300,
    )


def test_products_with_operands_of_other_forms():
    fakes.run(
        START
        + """
# Operands that are not contiguous, vectors, and duplicates whose order is that of the entries.
a, x = matrix(6, 5), rand(4, 5).t()
for make in LAYOUTS:
    same(lambda a, x: getattr(a, make)() @ x, a, x)
    same(lambda a, x: getattr(a, make)() @ x[:, 1], a, x)
    same(lambda a, x: torch.addmm(x[:1], getattr(a, make)(), x, beta=2, alpha=3), a, x)
at = torch.tensor([[2, 0, 2, 2], [1, 1, 1, 0]])
def duplicates(v, x):
    return torch.sparse_coo_tensor(at.to(v.device), v, (3, 2)) @ x
same(duplicates, rand(4), rand(2, 5))
for kind in (torch.int32, torch.int64):
    def compressed(v, x):
        d = v.device
        start, col = (torch.tensor(t, dtype=kind, device=d) for t in ([0, 2, 2, 3], [0, 3, 1]))
        return torch.sparse_csr_tensor(start, col, v, (3, 4)) @ x
    same(compressed, rand(3), rand(4, 2))
# Many entries in one row, and many rows.
same(lambda a, x: a.to_sparse_csr() @ x, matrix(3, 3000, share=0.9), rand(3000, 2))
same(lambda a, x: a.to_sparse_csr() @ x, matrix(500, 40, share=0.1), rand(40, 33))
""",
        timeout=300,
    )


def test_sampled_products_and_second_derivatives():
    fakes.run(
        START
        + """
def sampled(a, x, y):
    return sparse.sampled_addmm(a.to_sparse_csr(), x, y, beta=0.5)
for k in (1, 2, 5, 70):
    same(sampled, matrix(6, 7), rand(6, k), rand(k, 7))
same(sampled, matrix(6, 7, torch.complex128), rand(6, 3, dtype=torch.complex128),
     rand(3, 7, dtype=torch.complex128))
def second(device):
    torch.manual_seed(1)
    dense, x = matrix(5, 4).to(device), rand(4, 3).to(device).requires_grad_()
    start = dense.to_sparse()
    v = start.values().detach().requires_grad_()
    a = torch.sparse_coo_tensor(start.indices(), v, start.shape)
    first = torch.autograd.grad(((a @ x) ** 3).sum(), (v, x), create_graph=True)
    both = torch.autograd.grad(sum((g * g).sum() for g in first), (v, x))
    tangents = torch.func.jvp(lambda t: a.detach() @ t, (x.detach(),), (torch.ones_like(x),))
    many = torch.vmap(lambda t: a.detach() @ t)(torch.stack([x.detach()] * 3))
    return [*first, *both, *tangents, many]
for a, b in zip(second("cuda"), second("cpu")):
    close(a, b)
"""
    )


@pytest.mark.parametrize(
    "dtype",
    ["float32", "complex64", "bool", *nightly("float64", "bfloat16", "complex128", "int64")],
)
def test_conversions_and_elementwise_forms(dtype):
    fakes.run(
        START
        + f"""
dtype = torch.{dtype}
plain = dtype in (torch.int64, torch.bool)
x = (torch.rand(5, 6) > 0.6).to(dtype) if plain else matrix(5, 6, dtype)
for make in LAYOUTS:
    same(lambda x: getattr(x, make)(), x)
    same(lambda x: getattr(x, make)().to_dense(), x)
    same(lambda x: getattr(x, make)().t(), x)
    for other in LAYOUTS:
        same(lambda x: getattr(getattr(x, make)(), other)(), x)
    if plain:
        continue
    same(lambda x: getattr(x, make)() * 2, x)
    same(lambda x: -getattr(x, make)(), x)
    same(lambda x: getattr(x, make)().sin(), x) if not dtype.is_complex else None
    same(lambda x: getattr(x, make)() + getattr(x.flip(0), make)(), x)
    same(lambda x: getattr(x, make)() * getattr(x.flip(0), make)(), x)
    same(lambda x: getattr(x, make)() * x.flip(0), x)
    same(lambda x: getattr(x, make)().sum(), x)
"""
    )


def test_coordinates_and_blocks():
    fakes.run(
        START
        + """
at = torch.tensor([[2, 0, 2, 2, 1], [1, 1, 1, 0, 1], [0, 0, 0, 3, 2]])
def joined(v):
    return torch.sparse_coo_tensor(at.to(v.device), v, (3, 2, 4, *v.shape[1:])).coalesce()
for dtype in (DTYPES[0], DTYPES[2], DTYPES[4]):
    same(joined, rand(5, dtype=dtype))
same(joined, rand(5, 2, 3))
same(lambda v: sparse.sum(joined(v), 1), rand(5))
same(lambda v: sparse.softmax(joined(v), 1), rand(5))
same(lambda v: joined(v).transpose(0, 2).coalesce(), rand(5))
same(lambda a, b: sparse.mm(a.to_sparse(), b.to_sparse()), matrix(4, 5), matrix(5, 3))
same(lambda x: x.to_sparse_bsr((2, 3)), matrix(4, 6))
same(lambda x: x.to_sparse_bsr((2, 3)) @ torch.ones(6, 2, dtype=x.dtype, device=x.device),
     matrix(4, 6))
def gradients(device):
    torch.manual_seed(2)
    x = matrix(4, 5).to(device).requires_grad_()
    y = (x.to_sparse() * 3).to_dense()
    (y * y).sum().backward()
    return [y.detach(), x.grad]
for a, b in zip(gradients("cuda"), gradients("cpu")):
    close(a, b)
"""
    )


def test_training_with_a_sparse_matrix():
    fakes.run(
        START
        + """
def train(device):
    torch.manual_seed(3)
    graph = matrix(8, 8).to(device).to_sparse_csr()
    w = torch.randn(3, 2, dtype=torch.float64).to(device).requires_grad_()
    x = rand(8, 3).to(device)
    table = torch.nn.Embedding(6, 4, sparse=True, dtype=torch.float64).to(device)
    optimizer = torch.optim.SGD([w, *table.parameters()], 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss = (graph @ torch.tanh(x @ w)).square().mean()
        loss = loss + table(torch.tensor([1, 4, 1]).to(device)).square().sum()
        loss.backward()
        optimizer.step()
    return [w.detach(), table.weight.detach()]
for a, b in zip(train("cuda"), train("cpu")):
    close(a, b)
"""
    )


def test_bad_indices_are_errors_of_the_next_wait():
    fakes.run(
        START
        + """
def bad(start, col, place=None, t=None):
    to = lambda v: None if v is None else torch.tensor(v).cuda()
    _C._ops._csr(torch.ones(2).cuda(), torch.ones(3, 4).cuda(), to(start), to(col), to(place))
    e = raises(IndexError, "a kernel of _csr() found it", torch.cuda.synchronize)
    torch.cuda.synchronize()
    return str(e)
assert "index 3 is out of bounds for dimension with size 3" in bad([0, 1, 2], [0, 3])
assert "index -1 is out" in bad([0, 1, 2], [0, -1])
assert "index 2 is out of bounds for dimension with size 2" in bad([0, 1, 2], [0, 1], [0, 2])
for start in ([0, 3, 2], [1, 1, 2], [0, -1, 2], [0, 1, 1], [0, 1, 3], [0, 2, 1]):
    bad(start, [0, 1])
x, y = torch.ones(2, 3).cuda(), torch.ones(4, 3).cuda()
_C._ops._csr(x, y, torch.tensor([0, 1, 2]).cuda(), torch.tensor([0, 4]).cuda(), sampled=True)
raises(IndexError, "index 4 is out of bounds for dimension with size 4", torch.cuda.synchronize)
x = torch.full((2, 3), float("nan")).cuda()
del x  # what is freed is not zero
x = torch.ones(2, 3).cuda()
out = _C._ops._csr(x, y, torch.tensor([0, 1, 2]).cuda(), torch.tensor([0, 4]).cuda(), sampled=True)
raises(IndexError, "index 4 is out of bounds", torch.cuda.synchronize)
assert out.tolist() == [3.0, 0.0]
for start, col in (([0, 1, 2], [0, 3]), ([0, 1, 2], [-5, 1]), ([0, 3, 2], [0, 1])):
    _C._csr_transpose(torch.tensor(start).cuda(), torch.tensor(col).cuda(), 3, None)
    raises(IndexError, "a kernel of _csr() found it", torch.cuda.synchronize)
for cols, columns in ((0, []), (5, []), (1000, [999]), (1000, [3, 3, 700]), (4, [0, 1, 2, 3])):
    start = torch.tensor([0, len(columns)])
    col = torch.tensor(columns, dtype=torch.int64)
    got = _C._csr_transpose(start.cuda(), col.cuda(), cols, None)
    for a, b in zip(got, _C._csr_transpose(start, col, cols, None)):
        assert a.tolist() == b.tolist(), (cols, columns)
# Good ones go on to work.
a = torch.eye(3, dtype=torch.float64)
same(lambda a: a.to_sparse_csr() @ a, a)
"""
    )
