# SPDX-License-Identifier: BSD-3-Clause
"""First and second gradients of linalg compared with differences of values."""

import math

import numpy as np
import pytest

import cograd as torch
from cograd.autograd import gradcheck, gradgradcheck

L = torch.linalg
F8 = torch.float64


def leaf(*shape, seed=0, shift=0.0):
    values = np.random.default_rng(seed).normal(size=shape)
    if shift:
        values = values + shift * np.eye(*shape[-2:])
    return torch.tensor(values, dtype=F8, requires_grad=True)


def sym(x):
    return x + x.mT


def spd(x):
    return x @ x.mT + torch.eye(x.shape[-1], dtype=F8)


def sign_free(vectors, dim=-2):
    """Returns a function of vectors that does not change with their signs."""
    return vectors.square() if dim is None else vectors * vectors.sum(dim, keepdim=True)


def eigh(x):
    values, vectors = L.eigh(sym(x))
    return values, sign_free(vectors)


def svd(x):
    u, s, vh = L.svd(x, full_matrices=False)
    return s, sign_free(u), sign_free(vh, -1)


def null_spaces(x):
    """Returns projectors on the left and right null spaces of x and all of U, by a full svd."""
    u, s, vh = L.svd(x)
    k = s.shape[-1]
    left, right = u[..., k:], vh[..., k:, :]
    return left @ left.mT, right.mT @ right, sign_free(u[..., :k])


A, AB, TALL, WIDE = (3, 3), (2, 3, 3), (4, 3), (3, 4)
CASES = {
    "solve": (L.solve, [(A, 3), ((3, 2), 0)]),
    "solve batch": (L.solve, [(AB, 3), ((3, 2), 0)]),
    "solve vector": (L.solve, [(AB, 3), ((2, 3), 0)]),
    "solve right": (lambda a, b: L.solve(a, b, left=False), [(A, 3), ((2, 3), 0)]),
    "inv": (L.inv, [(AB, 3)]),
    "inv_ex": (lambda a: L.inv_ex(a).inverse, [(A, 3)]),
    "det": (L.det, [(AB, 2)]),
    "slogdet": (lambda a: L.slogdet(a).logabsdet, [(AB, 3)]),
    "logdet": (lambda a: torch.logdet(spd(a)), [(A, 0)]),
    "cholesky": (lambda a: L.cholesky(spd(a)), [(AB, 0)]),
    "cholesky upper": (lambda a: L.cholesky(spd(a), upper=True), [(A, 0)]),
    "cholesky_solve": (
        lambda b, a: torch.cholesky_solve(b, L.cholesky(spd(a))),
        [((3, 2), 0), (A, 0)],
    ),
    "cholesky_inverse": (lambda a: torch.cholesky_inverse(a.tril()), [(A, 3)]),
    "qr": (L.qr, [(A, 0)]),
    "qr tall": (L.qr, [((2, 4, 3), 0)]),
    "qr wide": (L.qr, [(WIDE, 0)]),
    "qr complete wide": (lambda a: L.qr(a, mode="complete"), [(WIDE, 0)]),
    "eigh": (eigh, [(AB, 0)]),
    "eigvalsh": (lambda a: L.eigvalsh(sym(a)), [(A, 0)]),
    "svd": (svd, [(AB, 0)]),
    "svd tall": (svd, [(TALL, 0)]),
    "svd wide": (svd, [(WIDE, 0)]),
    "svd full tall": (null_spaces, [((2, 5, 3), 0)]),
    "svd full wide": (null_spaces, [((3, 5), 0)]),
    "svdvals": (L.svdvals, [((2, 4, 3), 0)]),
    "solve_triangular upper": (
        lambda a, b: L.solve_triangular(a, b, upper=True),
        [(AB, 3), ((3, 2), 0)],
    ),
    "solve_triangular lower": (
        lambda a, b: L.solve_triangular(a, b, upper=False),
        [(A, 3), ((2, 3, 2), 0)],
    ),
    "solve_triangular unit right": (
        lambda a, b: L.solve_triangular(a, b, upper=True, left=False, unitriangular=True),
        [(A, 3), ((2, 3), 0)],
    ),
    "pinv tall": (L.pinv, [(TALL, 0)]),
    "pinv wide": (L.pinv, [((2, 3, 4), 0)]),
    "pinv low rank": (lambda a, b: L.pinv(a @ b, rtol=1e-8), [((4, 2), 0), ((2, 3), 0)]),
    "lstsq": (lambda a, b: L.lstsq(a, b)[:2], [(TALL, 0), ((4, 2), 0)]),
    "cond": (L.cond, [(A, 3)]),
    "nuclear": (lambda a: L.matrix_norm(a, "nuc"), [(TALL, 0)]),
    "spectral": (lambda a: L.matrix_norm(a, 2), [(TALL, 0)]),
    "matrix_power": (lambda a: L.matrix_power(a, 3), [(A, 0)]),
    "matrix_power negative": (lambda a: L.matrix_power(a, -2), [(A, 3)]),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients(name):
    f, shapes = CASES[name]
    inputs = [leaf(*shape, seed=i, shift=shift) for i, (shape, shift) in enumerate(shapes)]
    assert gradcheck(f, inputs)
    assert gradgradcheck(f, inputs)


@pytest.mark.parametrize(
    "f",
    [
        lambda a: L.svd(a)[0][..., 3:].square().sum(-1).sin().sum() + L.svd(a)[0].abs().sum(),
        lambda a: L.svd(a.mT)[2][..., 3:, :].exp().sum(),
        lambda a: torch.svd(a, some=False).U[..., 4].sum(),
    ],
)
def test_a_gradient_that_depends_on_the_basis_of_a_null_space_is_refused(f):
    a = leaf(5, 3)
    with pytest.raises(RuntimeError, match="rotation among themselves.*full_matrices=False"):
        f(a).backward()
    assert a.grad is None


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_whether_a_gradient_depends_on_a_basis_is_told_at_any_scale(scale):
    a = leaf(5, 3)
    with pytest.raises(RuntimeError, match="rotation among themselves"):
        (L.svd(a)[0][:, 3:].sum() * scale).backward()
    tall = torch.randn(60, 4, requires_grad=True)
    weight = torch.randn(60, 60)
    u = L.svd(tall)[0][:, 4:]
    p = u @ u.mT
    ((p @ weight @ p).square().sum() * scale).backward()
    assert tall.grad.isfinite().all()
    (L.svd(a)[0][:, 3:].sum() * math.nan).backward()
    assert a.grad.isnan().all()


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_det_of_singular_matrices(rank):
    """Gradients are the cofactors: det times the inverse for rank 3, zero for ranks 1 and 0."""
    values = np.diag([3.0, 2.0, 1.0][:rank] + [0.0] * (3 - rank))
    a = torch.tensor(values, dtype=F8, requires_grad=True)
    assert L.det(a).item() == pytest.approx(6.0 if rank == 3 else 0.0)
    assert gradcheck(L.det, (a,))
    want = {3: [2.0, 3.0, 6.0], 2: [0.0, 0.0, 6.0]}.get(rank, [0.0] * 3)
    (g,) = torch.autograd.grad(L.det(a), a)
    np.testing.assert_allclose(g.numpy(), np.diag(want), atol=1e-12)


def test_second_derivative_of_a_singular_det():
    u = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    v = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    a = torch.tensor(u @ np.diag([3.0, 1.0, 0.0]) @ v, dtype=F8)
    a[2] = a[0]  # exactly singular: elimination meets a zero
    a.requires_grad_()
    assert L.det(a).item() == pytest.approx(0.0, abs=1e-15)
    assert gradcheck(L.det, (a,)) and gradgradcheck(L.det, (a,))


def test_slogdet_of_a_singular_matrix():
    a = torch.zeros(2, 2, dtype=F8, requires_grad=True)
    L.slogdet(a).logabsdet.backward()
    assert not a.grad.isfinite().any()


def test_cholesky_gradient_is_symmetric():
    a = spd(leaf(3, 3).detach()).requires_grad_()
    L.cholesky(a).sum().backward()
    assert torch.equal(a.grad, a.grad.mT)


def test_what_has_no_gradient():
    x = leaf(4, 3)
    with pytest.raises(RuntimeError, match="mode='r'"):
        L.qr(x, mode="r").R.sum().backward()
    with pytest.raises(RuntimeError, match="nrows > ncols"):
        L.qr(x, mode="complete").Q.sum().backward()
    assert not L.inv_ex(x[:3]).info.requires_grad
    with pytest.raises(RuntimeError, match="out="):
        L.inv(x[:3], out=torch.empty(0, dtype=F8))


def test_writing_a_saved_result_is_noticed():
    a = leaf(3, 3, shift=3.0)
    y = L.inv(a)
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_gradient_without_a_graph_equals_that_with_one():
    """solve reuses its factors in the first case and calls itself in the second."""
    a, b = leaf(2, 3, 3, shift=3.0), leaf(2, 3, 2, seed=1)
    loss = L.solve(a, b).sin().sum()
    plain = torch.autograd.grad(loss, (a, b), retain_graph=True)
    graph = torch.autograd.grad(loss, (a, b), create_graph=True)
    for p, g in zip(plain, graph, strict=True):
        np.testing.assert_allclose(p.numpy(), g.detach().numpy(), rtol=1e-12)
