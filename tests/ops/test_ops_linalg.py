# SPDX-License-Identifier: BSD-3-Clause
"""Matrix products and einsum: broadcasting for every rank pair, layouts, dtypes, errors."""

import math

import numpy as np
import pytest

import cograd as torch
from cograd.autograd import gradcheck, gradgradcheck

F8 = torch.float64


def rand(*shape, seed=0, grad=False):
    return torch.tensor(np.random.default_rng(seed).uniform(-1, 1, shape), requires_grad=grad)


LEFT = {1: (3,), 2: (2, 3), 3: (4, 2, 3), 4: (5, 1, 2, 3)}
RIGHT = {1: (3,), 2: (3, 6), 3: (4, 3, 6), 4: (5, 4, 3, 6)}


@pytest.mark.parametrize("n", LEFT)
@pytest.mark.parametrize("m", RIGHT)
def test_matmul_ranks(n, m):
    a, b = rand(*LEFT[n]), rand(*RIGHT[m], seed=1)
    want = a.numpy() @ b.numpy()
    for got in (a @ b, torch.matmul(a, b), a.matmul(b)):
        assert tuple(got.shape) == want.shape
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)
    a, b = rand(*LEFT[n], grad=True), rand(*RIGHT[m], seed=1, grad=True)
    assert gradcheck(torch.matmul, (a, b))
    if n + m <= 5:
        assert gradgradcheck(torch.matmul, (a, b))


@pytest.mark.parametrize(
    "sa,sb",
    [
        ((1, 2, 3), (4, 3, 2)),
        ((4, 2, 3), (1, 3, 2)),
        ((2, 1, 2, 3), (1, 4, 3, 2)),
        ((7, 2, 3), (3,)),
        ((3,), (7, 3, 2)),
        ((1, 1), (1, 1)),
    ],
)
def test_matmul_batch_broadcast(sa, sb):
    a, b = rand(*sa), rand(*sb, seed=1)
    np.testing.assert_allclose((a @ b).numpy(), a.numpy() @ b.numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    "sa,sb",
    [
        ((0, 3), (3, 2)),
        ((2, 0), (0, 3)),
        ((2, 3), (3, 0)),
        ((0, 2, 3), (3, 2)),
        ((2, 2, 0), (2, 0, 3)),
        ((0,), (0,)),
        ((2, 0), (0,)),
    ],
)
def test_matmul_empty(sa, sb):
    got = torch.ones(sa) @ torch.ones(sb)
    want = np.ones(sa) @ np.ones(sb)
    assert tuple(got.shape) == want.shape and got.tolist() == want.tolist()


@pytest.mark.parametrize("size", [1, 2, 5, 17, 64, 130])
@pytest.mark.parametrize("dtype,rtol", [(F8, 1e-12), (torch.float32, 1e-4)])
def test_matmul_layouts(size, dtype, rtol):
    base = rand(3, size + 1, size + 2).to(dtype)
    other = rand(3, size + 2, size + 1, seed=1).to(dtype)
    views = [
        (base[0], other[0]),
        (base[0], base[1].t()),
        (other[0].t(), other[1]),
        (base[0, :, ::2], other[0, ::2]),
        (base[0, ::2], other[0, :, 1:]),
        (base.permute(1, 0, 2), other.permute(0, 2, 1)[:1].mT),
        (base[:1].expand(3, -1, -1), other),
        (base[0, :1].expand(4, -1), other[0]),
        (base[0][1:], other[0].flip(0)),
    ]
    for a, b in views:
        np.testing.assert_allclose((a @ b).numpy(), a.numpy() @ b.numpy(), rtol=rtol, atol=rtol)
        v = b[..., 0]
        if b.ndim == 2:
            np.testing.assert_allclose((a @ v).numpy(), a.numpy() @ v.numpy(), rtol=rtol, atol=rtol)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_integer_matmul(dtype):
    a, b = torch.tensor([[1, 2], [3, 4]], dtype=dtype), torch.tensor([[1, 0], [2, 1]], dtype=dtype)
    assert (a @ b).tolist() == [[5, 2], [11, 4]] and (a @ b).dtype is dtype
    assert torch.dot(a[0], b[1]).item() == 4 and torch.mv(a, b[1]).tolist() == [4, 10]
    assert torch.bmm(a[None], b[None]).tolist() == [[[5, 2], [11, 4]]]


@pytest.mark.parametrize("dtype,rtol", [(torch.float16, 2e-2), (torch.bfloat16, 1e-1)])
def test_half_matmul(dtype, rtol):
    a, b = rand(20, 30), rand(30, 10, seed=1)
    got = a.to(dtype) @ b.to(dtype)
    assert got.dtype is dtype
    np.testing.assert_allclose(got.double().numpy(), (a @ b).numpy(), rtol=rtol, atol=rtol)


def test_nan_and_inf_pass_through():
    a = torch.tensor([[0.0, 1.0], [math.inf, 0.0]])
    b = torch.tensor([[math.nan, 1.0], [1.0, 2.0]])
    np.testing.assert_equal((a @ b).numpy(), [[math.nan, 2.0], [math.nan, math.inf]])


def test_named_products():
    a, b = rand(2, 3), rand(3, 4, seed=1)
    n, m = a.numpy(), b.numpy()
    np.testing.assert_allclose(torch.mm(a, b).numpy(), n @ m)
    np.testing.assert_allclose(a.mm(b).numpy(), n @ m)
    np.testing.assert_allclose(torch.mv(a, b[:, 0]).numpy(), n @ m[:, 0])
    np.testing.assert_allclose(torch.dot(a[0], b[:, 0]).numpy(), n[0] @ m[:, 0])
    np.testing.assert_allclose(torch.outer(a[0], b[0]).numpy(), np.outer(n[0], m[0]))
    np.testing.assert_allclose(torch.inner(a, a).numpy(), np.inner(n, n))
    x, y = rand(5, 2, 3), rand(5, 3, 4, seed=1)
    np.testing.assert_allclose(torch.bmm(x, y).numpy(), x.numpy() @ y.numpy())
    np.testing.assert_allclose(
        torch.tensordot(x, y, dims=([2], [1])).numpy(),
        np.tensordot(x.numpy(), y.numpy(), ([2], [1])),
    )
    assert torch.outer(torch.arange(2), torch.arange(3)).tolist() == [[0, 0, 0], [0, 1, 2]]


def test_addmm_family():
    a, b, c = rand(2, 3), rand(3, 4, seed=1), rand(2, 4, seed=2)
    want = 2 * c.numpy() + 3 * (a.numpy() @ b.numpy())
    np.testing.assert_allclose(torch.addmm(c, a, b, beta=2, alpha=3).numpy(), want)
    np.testing.assert_allclose(c.addmm(a, b, beta=2, alpha=3).numpy(), want)
    np.testing.assert_allclose(c.clone().addmm_(a, b, beta=2, alpha=3).numpy(), want)
    for shape in [(4,), (1, 4), (2, 1), (1,), ()]:
        d = rand(*shape, seed=3)
        np.testing.assert_allclose(torch.addmm(d, a, b).numpy(), d.numpy() + a.numpy() @ b.numpy())
    nan = torch.full((2, 4), math.nan, dtype=F8)
    assert torch.addmm(nan, a, b, beta=0).isfinite().all().item(), "beta=0 ignores the input"
    np.testing.assert_allclose(
        torch.addmv(c[:, 0], a, b[:, 0]).numpy(), c.numpy()[:, 0] + a.numpy() @ b.numpy()[:, 0]
    )
    x, y, z = rand(5, 2, 3), rand(5, 3, 4, seed=1), rand(2, 4, seed=2)
    np.testing.assert_allclose(
        torch.baddbmm(z, x, y, beta=0.5, alpha=2).numpy(),
        0.5 * z.numpy() + 2 * (x.numpy() @ y.numpy()),
    )


def test_product_gradients():
    a, b, c = rand(2, 3, grad=True), rand(3, 4, seed=1, grad=True), rand(4, seed=2, grad=True)
    x, y = rand(2, 2, 3, grad=True), rand(2, 3, 2, seed=1, grad=True)
    v, w = rand(3, grad=True), rand(3, seed=4, grad=True)
    for f, args in [
        (torch.mm, (a, b)),
        (torch.mv, (a, v)),
        (torch.dot, (v, w)),
        (torch.bmm, (x, y)),
        (torch.outer, (v, c)),
        (lambda p, q, r: torch.addmm(r, p, q, beta=2, alpha=3), (a, b, c)),
        (lambda p, q: torch.baddbmm(torch.ones(2, dtype=F8), p, q, alpha=2), (x, y)),
    ]:
        assert gradcheck(f, args) and gradgradcheck(f, args)


@pytest.mark.parametrize(
    "call,match",
    [
        (
            lambda o: torch.matmul(o(2, 3), o(2, 3)),
            r"mat1 and mat2 shapes cannot be multiplied \(2x3 and 2x3\)",
        ),
        (lambda o: torch.mm(o(2, 3), o(2, 3)), r"\(2x3 and 2x3\)"),
        (lambda o: torch.matmul(o(), o(2)), "at least 1D.* 0D and 1D"),
        (lambda o: torch.matmul(o(3), o(4)), None),
        (lambda o: torch.matmul(o(3), o(4, 2)), "3.*4"),
        (lambda o: torch.matmul(o(2, 3), o(4)), None),
        (lambda o: torch.matmul(o(2, 3, 4), o(3, 4, 2)), "2.*3"),
        (lambda o: torch.matmul(o(2, 3, 4), o(2, 5, 2)), None),
        (lambda o: torch.matmul(o(2, 2), o(2, 2).double()), "dtype"),
        (lambda o: torch.matmul(o(2, 2), o(2, 2).long()), "dtype"),
        (lambda o: torch.mm(o(2), o(2)), "matri"),
        (lambda o: torch.bmm(o(2, 2, 3), o(3, 3, 2)), None),
        (lambda o: torch.bmm(o(2, 3), o(3, 2)), "3D"),
        (lambda o: torch.mv(o(2, 3), o(2)), "size"),
        (lambda o: torch.mv(o(3), o(3)), None),
        (lambda o: torch.dot(o(3), o(2)), "3.*2"),
        (lambda o: torch.dot(o(3, 1), o(3, 1)), "1D"),
        (lambda o: torch.dot(o(3), o(3).double()), "dtype"),
        (lambda o: torch.addmm(o(2, 2), o(2, 3), o(2, 3)), r"\(2x3 and 2x3\)"),
        (lambda o: torch.addmm(o(5), o(2, 3), o(3, 2)), None),
        (lambda o: torch.outer(o(2), o(2, 2)), "1-D"),
    ],
)
def test_errors(call, match):
    with pytest.raises(RuntimeError, match=match):
        call(lambda *s: torch.ones(s))


# ---------------------------------------------------------------- einsum


@pytest.mark.parametrize(
    "equation,shapes",
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("ij,jk", [(2, 3), (3, 4)]),
        ("ij,kj->ik", [(2, 3), (4, 3)]),
        ("i,i->", [(3,), (3,)]),
        ("i,j->ij", [(3,), (4,)]),
        ("ij->ji", [(2, 3)]),
        ("ba", [(2, 3)]),
        ("ij->", [(2, 3)]),
        ("ij->j", [(2, 3)]),
        ("ijk->ki", [(2, 3, 4)]),
        ("ii->", [(3, 3)]),
        ("ii", [(3, 3)]),
        ("ii->i", [(3, 3)]),
        ("iij->j", [(3, 3, 2)]),
        ("bij,bjk->bik", [(5, 2, 3), (5, 3, 4)]),
        ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("bhqk,bhkd->bqhd", [(2, 3, 4, 6), (2, 3, 6, 5)]),
        ("ij,j->i", [(2, 3), (3,)]),
        ("ij,ij->ij", [(2, 3), (2, 3)]),
        ("ij,ij->i", [(2, 3), (2, 3)]),
        ("i,ij,j->", [(2,), (2, 3), (3,)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
        ("ij,jk,kl,lm->im", [(2, 3), (3, 4), (4, 5), (5, 2)]),
        ("...ij,...jk->...ik", [(5, 2, 3), (5, 3, 4)]),
        ("...ij,...jk->...ik", [(5, 2, 3), (3, 4)]),
        ("...ij,...jk", [(6, 1, 2, 3), (5, 3, 4)]),
        ("...i->...", [(2, 3, 4)]),
        ("i...->...", [(2, 3, 4)]),
        ("...->...", [(2, 3)]),
        ("i...j->j...i", [(2, 3, 4)]),
        ("...ii->...i", [(2, 3, 3)]),
        ("ij,...j->...i", [(2, 3), (5, 4, 3)]),
        ("->", [()]),
        (",->", [(), ()]),
        (",i->i", [(), (3,)]),
        (" i j , j k -> i k ", [(2, 3), (3, 4)]),
        ("Aa,aB->AB", [(2, 3), (3, 4)]),
        ("ij,ij->", [(1, 3), (2, 3)]),
        ("ij,jk->ik", [(0, 3), (3, 4)]),
        ("ij,jk->ik", [(2, 0), (0, 4)]),
        ("abc,cde,ea->bd", [(2, 3, 4), (4, 5, 6), (6, 2)]),
    ],
)
def test_einsum(equation, shapes):
    operands = [rand(*s, seed=i, grad=True) for i, s in enumerate(shapes)]
    want = np.einsum(equation.replace(" ", ""), *[np.array(o.detach().numpy()) for o in operands])
    for got in (torch.einsum(equation, *operands), torch.einsum(equation, list(operands))):
        assert tuple(got.shape) == want.shape
        np.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-12, atol=1e-14)
    if want.size and all(o.numel() for o in operands) and sum(o.numel() for o in operands) < 60:
        assert gradcheck(lambda *a: torch.einsum(equation, *a), operands)
        if len(operands) < 3:
            assert gradgradcheck(lambda *a: torch.einsum(equation, *a), operands)


def test_einsum_sublist_form():
    a, b = rand(2, 3), rand(3, 4, seed=1)
    np.testing.assert_allclose(torch.einsum(a, [0, 1], b, [1, 2], [0, 2]).numpy(), (a @ b).numpy())
    np.testing.assert_allclose(
        torch.einsum(a, [..., 1], b, [1, 2], [..., 2]).numpy(), (a @ b).numpy()
    )


@pytest.mark.parametrize(
    "equation,shapes,match",
    [
        ("ij,jk->ik", [(2, 3), (4, 2)], "subscript j has size 4 for operand 1"),
        ("ij->ijk", [(2, 3)], "output subscript k does not appear"),
        (
            "ijk->i",
            [(2, 3)],
            r"subscripts in the equation \(3\) does not match the number of dimensions \(2\)",
        ),
        ("i->i", [(2, 3)], r"\(1\)"),
        ("ii->i", [(2, 3)], "subscript i is repeated for operand 0 but the sizes don't match"),
        ("i,i->ii", [(2,), (2,)], "output subscript i appears more than once"),
        ("ij,jk->ik", [(2, 3)], "fewer operands"),
        ("ij", [(2, 3), (2, 3)], "more operands"),
        ("i1->i", [(2, 3)], "invalid subscript"),
        ("ij-i", [(2, 3)], None),
        ("i.j->i", [(2, 3)], None),
        ("...i...->i", [(2, 3)], None),
        ("ij->i->", [(2, 3)], None),
    ],
)
def test_einsum_errors(equation, shapes, match):
    with pytest.raises(RuntimeError, match=match):
        torch.einsum(equation, *[torch.ones(s) for s in shapes])


def test_einsum_without_operands():
    with pytest.raises((ValueError, RuntimeError)):
        torch.einsum("ij")
    with pytest.raises((ValueError, RuntimeError)):
        torch.einsum()


def test_addr_of_bools():
    """The result is an or of ands, as in torch; a factor counts as False if it is 0."""
    eye, v = torch.eye(2, dtype=torch.bool), torch.tensor([True, False])
    w = torch.tensor([False, True])
    both = [[True, True], [False, True]]
    assert torch.addr(eye, v, w).tolist() == eye.clone().addr_(v, w).tolist() == both
    assert torch.addr(eye, v, w, beta=2, alpha=True).tolist() == both
    assert torch.addr(eye, v, w, beta=0).tolist() == [[False, True], [False, False]]
    assert torch.addr(eye, v, w, alpha=0).tolist() == eye.tolist()
    out = torch.empty(2, 2, dtype=torch.bool)
    assert torch.addr(eye, v, w, out=out) is out and out.tolist() == both
    with pytest.raises(RuntimeError, match="beta must not be a floating point number"):
        torch.addr(eye, v, w, beta=1.5)
    with pytest.raises(NotImplementedError, match="not implemented for dtype Bool"):
        torch.addmv(v, eye, w)
