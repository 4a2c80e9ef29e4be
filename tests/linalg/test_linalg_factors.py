# SPDX-License-Identifier: BSD-3-Clause
"""LU, LDL and reflectors: their products, solves with them, derivatives, errors."""

import math

import pytest

import cograd as torch
from cograd import linalg

F8, C16 = torch.float64, torch.complex128
DTYPES = [torch.float32, F8, torch.complex64, C16]


def close(a, b):
    eps = torch.finfo(a.dtype).eps
    return torch.allclose(a, b, rtol=1e3 * eps, atol=1e3 * eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 3), (2, 1, 3, 5), (0, 3, 3), (3, 0), (0, 0)])
def test_lu(shape, dtype):
    A = torch.randn(*shape, dtype=dtype)
    P, L, U = linalg.lu(A)
    k = min(shape[-2:])
    assert L.shape == (*shape[:-1], k) and U.shape == (*shape[:-2], k, shape[-1])
    assert close(P @ L @ U, A)
    assert torch.equal(L.tril(), L) and torch.equal(U.triu(), U)
    LU, pivots, info = linalg.lu_factor_ex(A)
    assert pivots.dtype is info.dtype is torch.int32 and info.shape == shape[:-2]
    for got, want in zip(torch.lu_unpack(LU, pivots), (P, L, U), strict=True):
        assert torch.equal(got, want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_lu_solve(left, adjoint, dtype):
    A = torch.randn(2, 3, 3, dtype=dtype)
    B = torch.randn(3, 4, dtype=dtype)
    LU, pivots = linalg.lu_factor(A)
    X = linalg.lu_solve(LU, pivots, B if left else B.mT, left=left, adjoint=adjoint)
    M = A.mH if adjoint else A
    if left:
        assert torch.allclose(M @ X, B.expand(2, 3, 4), atol=1e-3)
    else:
        assert torch.allclose(X @ M, B.mT.expand(2, 4, 3), atol=1e-3)
    if left and not adjoint:
        assert torch.equal(torch.lu_solve(B, LU, pivots), X)
        assert torch.equal(B.lu_solve(LU, pivots), X)


@pytest.mark.parametrize("dtype", [F8, C16])
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 3), (3, 4)])
def test_derivatives_of_lu(shape, dtype):
    A = torch.randn(*shape, dtype=dtype, requires_grad=True)
    f = lambda a: linalg.lu_factor(a).LU
    assert torch.autograd.gradcheck(f, (A,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, (A,))
    assert torch.autograd.gradcheck(lambda a: linalg.lu(a)[1:], (A,))


@pytest.mark.parametrize("dtype", [F8, C16])
def test_derivatives_of_lu_solve(dtype):
    LU, pivots = linalg.lu_factor(torch.randn(3, 3, dtype=dtype))
    LU.requires_grad_()
    B = torch.randn(3, 2, dtype=dtype, requires_grad=True)
    for adjoint in (False, True):
        f = lambda lu, b, adjoint=adjoint: linalg.lu_solve(lu, pivots, b, adjoint=adjoint)
        assert torch.autograd.gradcheck(f, (LU, B))
        assert torch.autograd.gradgradcheck(f, (LU, B))


def test_old_lu():
    A = torch.randn(3, 3, dtype=F8)
    LU, pivots = torch.lu(A)
    assert torch.equal(LU, linalg.lu_factor(A).LU)
    assert torch.lu(A, get_infos=True).info.item() == 0
    assert torch.equal(A.lu()[1], pivots)


def test_lu_errors():
    zero = torch.zeros(2, 2)
    for f in (linalg.lu_factor, lambda a: linalg.lu_factor_ex(a, check_errors=True)):
        with pytest.raises(linalg.LinAlgError, match=r"U\[1,1\] is zero"):
            f(zero)
    assert linalg.lu_factor_ex(zero).info.item() == 1 and linalg.lu(zero).U.eq(0).all()
    assert torch.lu(zero)[0].eq(0).all()
    with pytest.raises(RuntimeError, match="without pivoting"):
        linalg.lu_factor(torch.eye(2), pivot=False)
    LU, pivots = linalg.lu_factor(torch.eye(3))
    for wrong in (pivots + 7, pivots * 0, pivots - 2):
        with pytest.raises(RuntimeError, match="must be between 1 and"):
            linalg.lu_solve(LU, wrong, torch.ones(3, 1))
        with pytest.raises(RuntimeError, match="must be between 1 and"):
            torch.lu_unpack(LU, wrong)
    for args in (
        (LU, pivots.long(), torch.ones(3, 1)),
        (LU, pivots[:2], torch.ones(3, 1)),
        (LU, pivots, torch.ones(2, 1)),
        (LU, pivots, torch.ones(3)),
        (LU, pivots, torch.ones(3, 1, dtype=F8)),
        (LU[:2], pivots, torch.ones(3, 1)),
    ):
        with pytest.raises(RuntimeError, match="lu_solve"):
            linalg.lu_solve(*args)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("hermitian", [False, True])
def test_ldl(hermitian, dtype):
    A = torch.randn(2, 4, 4, dtype=dtype)
    A = A + (A.mH if hermitian else A.mT)
    B = torch.randn(4, 3, dtype=dtype)
    LD, pivots = linalg.ldl_factor(A, hermitian=hermitian)
    assert torch.equal(LD.tril(), LD)
    X = linalg.ldl_solve(LD, pivots, B, hermitian=hermitian)
    assert torch.allclose(A @ X, B.expand(2, 4, 3), atol=1e-3)


@pytest.mark.parametrize("hermitian", [False, True])
def test_ldl_solve_is_differentiable_by_its_right_side(hermitian):
    A = torch.randn(3, 3, dtype=C16)
    A = A + (A.mH if hermitian else A.mT)
    LD, pivots = linalg.ldl_factor(A, hermitian=hermitian)
    B = torch.randn(2, 3, 2, dtype=C16, requires_grad=True)
    f = lambda b: linalg.ldl_solve(LD, pivots, b, hermitian=hermitian)
    assert torch.autograd.gradcheck(f, (B,))
    assert torch.autograd.gradgradcheck(f, (B,))
    with pytest.raises(RuntimeError, match="ldl_solve is not implemented"):
        linalg.ldl_solve(LD.requires_grad_(), pivots, B.detach()).abs().sum().backward()


def test_ldl_errors():
    LD, pivots = linalg.ldl_factor(torch.eye(3))
    for wrong in (pivots + 5, -pivots, pivots * 0):
        with pytest.raises(RuntimeError, match="what linalg.ldl_factor returned"):
            linalg.ldl_solve(LD, wrong, torch.ones(3, 1))
    with pytest.raises(linalg.LinAlgError, match="singular"):
        linalg.ldl_factor(torch.zeros(2, 2))
    assert linalg.ldl_factor_ex(torch.zeros(2, 2)).info.item() == 1
    A = torch.eye(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="not implemented"):
        linalg.ldl_factor_ex(A)[0].sum().backward()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (2, 4, 3), (3, 0)])
def test_reflectors(shape, dtype):
    A = torch.randn(*shape, dtype=dtype)
    a, tau = torch.geqrf(A)
    Q, R = linalg.qr(A)
    assert close(linalg.householder_product(a, tau), Q)
    assert torch.equal(torch.orgqr(a, tau), linalg.householder_product(a, tau))
    assert close(a.triu()[..., : shape[-1], :], R)
    full = torch.ormqr(a, tau, torch.eye(shape[-2], dtype=dtype).expand(*shape[:-1], shape[-2]))
    assert close(full[..., : shape[-1]], Q)
    C = torch.randn(*shape[:-1], 2, dtype=dtype)
    assert close(torch.ormqr(a, tau, C, transpose=True), full.mH @ C)
    assert close(a.ormqr(tau, C.mT, left=False), C.mT @ full)


@pytest.mark.parametrize("dtype", [F8, C16])
def test_derivatives_of_reflectors(dtype):
    a = torch.randn(4, 3, dtype=dtype, requires_grad=True)
    tau = torch.randn(3, dtype=dtype, requires_grad=True)
    c = torch.randn(4, 2, dtype=dtype, requires_grad=True)
    assert torch.autograd.gradcheck(linalg.householder_product, (a, tau))
    assert torch.autograd.gradgradcheck(linalg.householder_product, (a, tau))
    assert torch.autograd.gradcheck(torch.ormqr, (a, tau, c))
    with pytest.raises(NotImplementedError, match="geqrf"):
        torch.geqrf(a)[1].abs().sum().backward()


def test_errors_of_reflectors():
    a, tau = torch.ones(4, 3), torch.ones(3)
    for args, message in (
        ((a.mT, tau), "greater than or equal to input.shape"),
        ((a, torch.ones(4)), "greater than or equal to tau.shape"),
        ((a, tau.double()), "dtype"),
        ((a[0], tau), "at least 2 dimensions"),
        ((a, torch.ones(2, 3)), "one dimension less"),
    ):
        with pytest.raises(RuntimeError, match=message):
            linalg.householder_product(*args)
    with pytest.raises(RuntimeError, match="must be equal to input.shape"):
        torch.ormqr(a, tau, torch.ones(3, 2))


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("upper", [False, True])
def test_triangular_solve(upper, transpose, unit):
    A, b = torch.randn(2, 3, 3, dtype=C16), torch.randn(3, 2, dtype=C16)
    x, copy = torch.triangular_solve(b, A, upper, transpose, unit)
    T = A.triu() if upper else A.tril()
    if unit:
        T = T - torch.diag_embed(T.diagonal(dim1=-2, dim2=-1)) + torch.eye(3)
    assert torch.allclose((T.mT if transpose else T) @ x, b.expand(2, 3, 2))
    assert torch.equal(copy, A) and copy.data_ptr() != A.data_ptr()


def test_tensors_as_matrices():
    A = torch.randn(4, 3, 2, 6, dtype=F8)
    inverse = linalg.tensorinv(A)
    assert inverse.shape == (2, 6, 4, 3)
    eye = torch.tensordot(inverse, A, 2).reshape(12, 12)
    assert torch.allclose(eye, torch.eye(12, dtype=F8), atol=1e-9)
    B = torch.randn(4, 3, dtype=F8)
    X = linalg.tensorsolve(A, B)
    assert torch.allclose(torch.tensordot(A, X, 2), B)
    M = torch.randn(2, 6, 3, dtype=F8)
    b = torch.randn(6, dtype=F8)
    x = linalg.tensorsolve(M, b, dims=(0, 2))
    assert x.shape == (2, 3) and torch.allclose(torch.einsum("ajb,ab->j", M, x), b)
    with pytest.raises(RuntimeError, match="requirement prod"):
        linalg.tensorinv(A, ind=1)
    with pytest.raises(RuntimeError, match="strictly positive"):
        linalg.tensorinv(A, ind=0)
    with pytest.raises(RuntimeError, match="requirement prod"):
        linalg.tensorsolve(A, torch.ones(5))


def test_vander():
    x = torch.tensor([[1, 2, 3], [0, -1, 2]])
    assert linalg.vander(x).tolist()[0] == [[1, 1, 1], [1, 2, 4], [1, 3, 9]]
    y = torch.randn(4, dtype=F8, requires_grad=True)
    assert torch.allclose(linalg.vander(y, N=6)[:, 5], y**5)
    assert torch.autograd.gradcheck(linalg.vander, (y,))
    for wrong in (1, 0):
        with pytest.raises(RuntimeError, match="N must be greater than 1"):
            linalg.vander(y, N=wrong)
    for dtype in (torch.uint8, torch.int8, torch.int32):
        powers = linalg.vander(torch.tensor([3], dtype=dtype), N=7)
        assert powers.dtype is torch.int64 and powers[0, 6].item() == 729


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (2, 0, 3)])
def test_matrices_without_elements(shape):
    A = torch.zeros(shape, dtype=F8)
    zeros = torch.zeros(shape[:-2], dtype=F8)
    for p in (None, 2, -2, 1, "fro"):
        assert torch.equal(linalg.cond(A, p), zeros)
    for order in (2, 1, math.inf, "fro", "nuc"):
        assert torch.equal(linalg.matrix_norm(A, order), zeros)
    assert linalg.matrix_norm(A, 2, keepdim=True).shape == (*shape[:-2], 1, 1)
    assert linalg.pinv(A, hermitian=True).shape == (*shape[:-2], shape[-1], shape[-2])


def test_hermitian_pinv_reads_a_real_diagonal():
    A = torch.randn(3, 3, dtype=C16)
    whole = A.tril(-1) + A.tril(-1).mH + A.real.diagonal().diag_embed()
    torch.testing.assert_close(linalg.pinv(A, hermitian=True), linalg.inv(whole))
