# SPDX-License-Identifier: BSD-3-Clause
"""linalg on LAPACK: values against NumPy, shapes, layouts, batches and errors."""

import math

import numpy as np
import pytest

import cograd as torch

L = torch.linalg
F4, F8 = torch.float32, torch.float64
BATCHES = [(), (3,), (2, 3), (0,)]


def rand(*shape, seed=0, dtype=F8):
    return torch.tensor(np.random.default_rng(seed).normal(size=shape), dtype=dtype)


def square(*batch, n=4, seed=0, dtype=F8):
    return rand(*batch, n, n, seed=seed, dtype=dtype) + 3 * torch.eye(n, dtype=dtype)


def positive(*batch, n=4, seed=0, dtype=F8):
    x = rand(*batch, n, n, seed=seed, dtype=dtype)
    return x @ x.mT + torch.eye(n, dtype=dtype)


def close(got, want, tol=1e-10):
    want = want.numpy() if isinstance(want, torch.Tensor) else np.asarray(want)
    assert tuple(got.shape) == want.shape
    np.testing.assert_allclose(got.numpy(), want, rtol=tol, atol=tol)


@pytest.mark.parametrize("dtype,tol", [(F8, 1e-10), (F4, 2e-4)])
@pytest.mark.parametrize("batch", BATCHES)
def test_solve_inv_det(batch, dtype, tol):
    a, b = square(*batch, dtype=dtype), rand(*batch, 4, 2, seed=1, dtype=dtype)
    close(L.solve(a, b), np.linalg.solve(a.numpy(), b.numpy()), tol)
    close(L.inv(a), np.linalg.inv(a.numpy()), tol)
    close(L.det(a), np.linalg.det(a.numpy()), 10 * tol)
    sign, logabs = L.slogdet(-a[..., [1, 0, 2, 3], :])
    want = np.linalg.slogdet(-a.numpy()[..., [1, 0, 2, 3], :])
    close(sign, want[0], tol)
    close(logabs, want[1], tol)
    assert L.inv(a).dtype is dtype


def test_solve_forms():
    a = square(2)
    vectors, matrix = rand(2, 4, seed=1), rand(4, 3, seed=2)
    close(L.solve(a, vectors), np.linalg.solve(a.numpy(), vectors.numpy()[..., None])[..., 0])
    close(L.solve(a, vectors[0]), L.inv(a) @ vectors[0])
    close(L.solve(a, matrix), np.linalg.solve(a.numpy(), matrix.numpy()))
    rows = rand(5, 4, seed=3)
    close(L.solve(a[0], rows, left=False) @ a[0], rows)
    for view in (a.mT, a[:, ::2, ::2], a[0].expand(3, 4, 4), a.flip(0)):
        close(L.inv(view), np.linalg.inv(view.numpy()))


def test_layouts_do_not_matter():
    a, b = square(), rand(4, 3, seed=1)
    close(L.solve(a.mT.contiguous().mT, b.mT.contiguous().mT), L.solve(a, b), 0)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky(batch, upper):
    a = positive(*batch)
    got = L.cholesky(a, upper=upper)
    want = np.linalg.cholesky(a.numpy())
    close(got, np.swapaxes(want, -1, -2) if upper else want)
    close(torch.cholesky(a, upper), got, 0)
    b = rand(*batch, 4, 2, seed=1)
    close(torch.cholesky_solve(b, got, upper), np.linalg.solve(a.numpy(), b.numpy()))
    close(torch.cholesky_inverse(got, upper), np.linalg.inv(a.numpy()))


def test_cholesky_reads_one_triangle():
    a = positive()
    spoilt = a.tril() + 7 * a.triu(1)
    close(L.cholesky(spoilt), L.cholesky(a), 0)
    close(L.cholesky(spoilt.mT, upper=True), L.cholesky(a, upper=True))


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 5, 3), (2, 3, 5), (0, 3), (3, 0)])
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_qr(shape, mode):
    a = rand(*shape)
    q, r = L.qr(a, mode)
    m, n = shape[-2:]
    k = m if mode == "complete" else min(m, n)
    assert q.shape == (*shape[:-2], m, k) and r.shape == (*shape[:-2], k, n)
    close(q @ r, a)
    close(q.mT @ q, torch.eye(k, dtype=F8).expand(*shape[:-2], k, k))
    assert torch.equal(r, r.triu())
    named = torch.qr(a, mode == "reduced")
    assert torch.equal(named.Q, q) and torch.equal(named.R, r)


def test_qr_triangle_only():
    a = rand(5, 3)
    q, r = L.qr(a, mode="r")
    assert q.shape == (0,) and torch.equal(r, L.qr(a).R)


@pytest.mark.parametrize("batch", BATCHES)
def test_eigh(batch):
    x = rand(*batch, 4, 4)
    a = x + x.mT
    values, vectors = L.eigh(a)
    close(values, np.linalg.eigvalsh(a.numpy()))
    close(vectors * values.unsqueeze(-2) @ vectors.mT, a)
    close(vectors.mT @ vectors, torch.eye(4, dtype=F8).expand(*batch, 4, 4))
    close(L.eigvalsh(a), values)
    close(L.eigvalsh(a.tril()), values)
    close(L.eigh(a.triu(), UPLO="U").eigenvalues, values)


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 5, 3), (0, 3, 2)])
def test_svd(shape):
    a = rand(*shape)
    m, n = shape[-2:]
    k = min(m, n)
    u, s, vh = L.svd(a, full_matrices=False)
    assert u.shape == (*shape[:-2], m, k) and vh.shape == (*shape[:-2], k, n)
    close(s, np.linalg.svd(a.numpy(), compute_uv=False))
    close(u * s.unsqueeze(-2) @ vh, a)
    u, s, vh = L.svd(a)
    assert u.shape[-2:] == (m, m) and vh.shape[-2:] == (n, n)
    close(u[..., :k] * s.unsqueeze(-2) @ vh[..., :k, :], a)
    close(vh @ vh.mT, torch.eye(n, dtype=F8).expand(*shape[:-2], n, n))
    close(L.svdvals(a), s)
    named = torch.svd(a)
    close(named.U * named.S.unsqueeze(-2) @ named.V.mT, a)
    assert torch.svd(a, compute_uv=False).U.abs().sum().item() == 0


def test_svd_of_nothing():
    u, s, vh = L.svd(torch.ones(0, 3))
    assert u.shape == (0, 0) and s.shape == (0,) and torch.equal(vh, torch.eye(3))


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_solve_triangular(upper, unit):
    a, b = square(2), rand(4, 3, seed=1)
    half = a.triu(int(unit)) if upper else a.tril(-int(unit))
    if unit:
        half = half + torch.eye(4, dtype=F8)
    close(half @ L.solve_triangular(a, b, upper=upper, unitriangular=unit), b.expand(2, 4, 3))
    rows = b.mT
    got = L.solve_triangular(a, rows, upper=upper, left=False, unitriangular=unit)
    close(got @ half, rows.expand(2, 3, 4))


def test_pinv_rank_lstsq():
    low = rand(5, 2) @ rand(2, 4, seed=1)
    for a in (rand(5, 3), rand(3, 5), low):
        close(L.pinv(a), np.linalg.pinv(a.numpy(), rcond=1e-12))
        assert L.matrix_rank(a).item() == np.linalg.matrix_rank(a.numpy())
        b = rand(a.shape[0], 2, seed=2)
        want = np.linalg.lstsq(a.numpy(), b.numpy(), rcond=1e-12)
        got = L.lstsq(a, b)
        close(got.solution, want[0])
        assert got.rank.item() == want[2]
        if got.residuals.numel():
            close(got.residuals, want[1])
        close(L.lstsq(a, b, driver="gelsd").singular_values, want[3])
    assert L.lstsq(rand(5, 3), rand(5)).solution.shape == (3,)
    stack = torch.stack([torch.eye(3), torch.zeros(3, 3)])
    assert L.matrix_rank(stack).tolist() == [3, 0]
    assert L.matrix_rank(stack, hermitian=True).tolist() == [3, 0]
    assert L.matrix_rank(torch.eye(3) * 0.1, atol=0.5).item() == 0
    close(torch.pinverse(low, 1e-12), np.linalg.pinv(low.numpy(), rcond=1e-12))
    s = low @ low.mT
    close(L.pinv(s, hermitian=True), np.linalg.pinv(s.numpy(), rcond=1e-12), 1e-6)


@pytest.mark.parametrize("ord", ["fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf])
def test_matrix_norms(ord):
    a = rand(2, 3, 4)
    want = np.linalg.norm(a.numpy(), ord, axis=(1, 2))
    close(L.matrix_norm(a, ord), want)
    close(L.matrix_norm(a, ord, keepdim=True), want.reshape(2, 1, 1))
    close(L.norm(a, ord, dim=(1, 2)), want)
    other = L.matrix_norm(a, ord, dim=(2, 0), keepdim=True)
    close(other, np.linalg.norm(a.numpy(), ord, axis=(2, 0), keepdims=True))
    close(L.norm(a[0], ord), want[0])


@pytest.mark.parametrize("p", [None, "fro", "nuc", 1, -1, 2, -2, math.inf])
def test_cond(p):
    a = square(2, seed=5)
    close(L.cond(a, p), np.linalg.cond(a.numpy(), p), 1e-9)
    if p not in (None, -2, 2):
        assert L.cond(torch.zeros(2, 2), p).item() == math.inf


@pytest.mark.parametrize("n", [0, 1, 2, 5, -1, -3])
def test_matrix_power(n):
    a = square(2)
    got = L.matrix_power(a, n)
    close(got, np.linalg.matrix_power(a.numpy(), n), 1e-8)
    assert got.data_ptr() != a.data_ptr()


def test_singular_matrices():
    eye, zero = torch.eye(3), torch.zeros(3, 3)
    both = torch.stack([eye, zero])
    assert issubclass(L.LinAlgError, RuntimeError)
    for call, text in (
        (lambda: L.solve(zero, eye), "^torch.linalg.solve: The solver failed"),
        (lambda: L.solve(both, both), r"\(Batch element 1\): The solver failed"),
        (lambda: L.inv(zero), "^linalg.inv: The diagonal element 1 is zero"),
        (lambda: torch.inverse(both), r"\(Batch element 1\): The diagonal element 1"),
        (lambda: L.cholesky(-eye), "^linalg.cholesky: .* minor of order 1 is not positive"),
        (lambda: torch.cholesky(-eye), "^cholesky: The factorization"),
        (lambda: L.eigh(eye * math.nan), "failed to converge"),
        (lambda: L.svd(eye * math.inf), "non-finite values"),
    ):
        with pytest.raises(L.LinAlgError, match=text):
            call()
    inverse, info = L.inv_ex(both)
    assert info.tolist() == [0, 1] and torch.equal(inverse[0], eye)
    assert not inverse[1].isfinite().any()
    assert L.solve_ex(both, both).info.tolist() == [0, 1]
    assert L.cholesky_ex(torch.stack([eye, -eye])).info.tolist() == [0, 1]
    assert L.det(both).tolist() == [1, 0]
    assert L.slogdet(zero).sign.item() == 0 and L.slogdet(zero).logabsdet.item() == -math.inf
    assert math.isnan(torch.logdet(-eye).item()) and torch.logdet(eye).item() == 0


def test_bad_arguments():
    eye, wide = torch.eye(3), torch.ones(2, 3)
    for call, text in (
        (lambda: L.inv(wide), "batches of square matrices, but they are 2 by 3"),
        (lambda: L.det(torch.ones(3)), "must have at least 2 dimensions"),
        (lambda: L.inv(eye.long()), "Expected a floating point .* Got Long"),
        (lambda: L.inv(eye.half()), "Low precision dtypes not supported. Got Half"),
        (lambda: L.solve(eye, torch.ones(2, 2)), r"AX = B \(3x3 and 2x2\)"),
        (lambda: L.solve(eye, eye.double()), "same dtype, but found A of type Float"),
        (lambda: L.solve(torch.ones(2, 3, 3), torch.ones(5, 3, 1)), "do not broadcast"),
        (lambda: L.qr(eye, mode="x"), "unrecognized mode 'x'"),
        (lambda: L.eigh(eye, UPLO="X"), "UPLO argument to be 'L' or 'U'"),
        (lambda: L.solve_triangular(eye, torch.ones(3), upper=True), "B must have at least 2"),
        (lambda: L.lstsq(wide.mT, torch.ones(2, 2)), "should match"),
        (lambda: L.lstsq(eye, eye, driver="x"), "should be one of"),
        (lambda: L.matrix_norm(eye, 3), "Order 3 not supported"),
        (lambda: L.matrix_norm(eye[0]), "at least 2 dimensions"),
    ):
        with pytest.raises(RuntimeError, match=text):
            call()


def test_out():
    a = square()
    for f in (L.inv, L.det, torch.inverse):
        out = torch.empty(0, dtype=F8)
        assert f(a, out=out) is out and torch.equal(out, f(a))
    out = torch.empty(0, dtype=F8), torch.empty(0, dtype=F8)
    got = L.qr(a, out=out)
    assert got.Q is out[0] and torch.equal(out[1], L.qr(a).R)
    out = torch.empty(0, dtype=F8)
    assert L.matrix_norm(a, 2, out=out) is out and out.item() == L.matrix_norm(a, 2).item()


def test_names_as_methods():
    a = positive()
    for name in ("inverse", "det", "slogdet", "logdet", "cholesky", "qr", "svd", "pinverse"):
        got, want = getattr(a, name)(), getattr(torch, name)(a)
        for g, w in zip(*(x if isinstance(x, tuple) else (x,) for x in (got, want)), strict=True):
            assert torch.equal(g, w)
    assert torch.equal(a.matrix_power(2), a @ a)


def test_inputs_are_left_alone():
    a = positive(2).mT
    before = a.clone()
    for f in (L.inv, L.det, L.slogdet, L.cholesky, L.qr, L.eigh, L.svd, L.pinv):
        f(a)
    assert torch.equal(a, before) and a._version == 0


def test_many_small_and_one_large():
    small = square(500, n=3)
    close(L.inv(small), np.linalg.inv(small.numpy()))
    large = square(n=300) + 40 * torch.eye(300, dtype=F8)
    close(large @ L.inv(large), torch.eye(300, dtype=F8), 1e-8)
    u, s, vh = L.svd(large, full_matrices=False)
    close(u * s @ vh, large, 1e-8)


@pytest.mark.parametrize("n", [2, 3, 40])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex128])
def test_a_pivot_of_nan_makes_all_that_follows_nan(n, dtype):
    """As in torch, the elements below it are divided by it, and 0 times NaN is NaN."""
    a = torch.eye(n, dtype=dtype)
    a[n // 2, n // 2] = float("nan")
    lu = torch.linalg.lu_factor(a)[0]
    assert lu[n // 2 :, n // 2 :][1:].isnan().all()
    assert not lu[: n // 2].isnan().any() and not lu[:, : n // 2].isnan().any()
    assert torch.linalg.solve(a, torch.ones(n, dtype=dtype)).isnan().all()
    assert torch.linalg.solve(a, torch.ones(n, 2, dtype=dtype)).isnan().all()
    assert torch.linalg.solve_ex(a, torch.ones(n, dtype=dtype))[1].item() == 0
    # Some of OpenBLAS's kernels skip zeros above the pivot.
    assert torch.linalg.inv(a)[n // 2 :, n // 2].isnan().all() and torch.linalg.det(a).isnan()
    both = torch.stack([a, torch.eye(n, dtype=dtype)])
    found = torch.linalg.solve(both, torch.ones(2, n, 1, dtype=dtype))
    assert found[0].isnan().all() and torch.equal(found[1], torch.ones(n, 1, dtype=dtype))
