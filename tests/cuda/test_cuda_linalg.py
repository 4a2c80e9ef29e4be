# SPDX-License-Identifier: BSD-3-Clause
"""Matrices on a GPU by cuSOLVER and cuBLAS: on the fake driver, by fakes with plain loops."""

import fakes
import pytest

needs_fake = pytest.mark.skipif(fakes.why_not() is not None, reason=str(fakes.why_not()))
why = None if fakes.REAL else fakes.why_not()
pytestmark = pytest.mark.skipif(why is not None, reason=str(why))

START = """
linalg = torch.linalg
torch.cuda.set_fallback("error")
torch.manual_seed(1)
SHAPES = ((1,), (), (3,), (2, 2), (0,))
DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)

def positive(*shape, dtype):
    a = torch.randn(*shape, shape[-1], dtype=dtype)
    return a @ a.mH + shape[-1] * torch.eye(shape[-1], dtype=dtype)

def close(found, expected):
    wide = expected.dtype in (torch.float64, torch.complex128)
    tolerance = 1e-10 if wide else 2e-4
    assert found.is_cuda and found.shape == expected.shape, (found.shape, expected.shape)
    assert found.dtype == expected.dtype
    torch.testing.assert_close(found.cpu(), expected, rtol=tolerance, atol=tolerance,
                               equal_nan=True)

def same(f, *args, **options):
    found, expected = f(*(a.cuda() for a in args), **options), f(*args, **options)
    if isinstance(expected, torch.Tensor):
        return close(found, expected)
    for a, b in zip(found, expected):
        close(a, b)

def runs(name):
    return fake.fake_cuda_launches(name)
"""

VALUES = {
    "cholesky": """
for dtype in DTYPES:
    for shape in SHAPES:
        for n in (1, 2, 5):
            a = positive(*shape, n, dtype=dtype)
            same(linalg.cholesky, a)
            same(linalg.cholesky, a, upper=True)
            same(torch.cholesky_solve, torch.randn(*shape, n, 3, dtype=dtype), linalg.cholesky(a))
            same(torch.cholesky_inverse, linalg.cholesky(a))
    same(linalg.cholesky, positive(0, dtype=dtype))
    same(linalg.cholesky, positive(4, dtype=dtype).mT)
    bad = positive(3, 4, dtype=dtype)
    bad[1, 2, 2] = -1
    assert linalg.cholesky_ex(bad.cuda()).info.tolist() == [0, 3, 0]
    e = raises(linalg.LinAlgError, "(Batch element 1)", linalg.cholesky, bad.cuda())
    bad[1, 1, 1] = float("nan")
    assert linalg.cholesky_ex(bad.cuda()).info.tolist() == [0, 2, 0]
    assert linalg.cholesky_ex(bad[1].cuda()).info.item() == 2
""",
    "triangular": """
for dtype in DTYPES:
    for shape in SHAPES:
        for n, k in ((1, 1), (4, 2), (3, 5), (0, 2), (2, 0)):
            a = torch.randn(*shape, n, n, dtype=dtype) + 3 * torch.eye(n, dtype=dtype)
            b = torch.randn(*shape, n, k, dtype=dtype)
            for upper in (False, True):
                for unit in (False, True):
                    options = {"upper": upper, "unitriangular": unit}
                    same(linalg.solve_triangular, a, b, **options)
                    same(linalg.solve_triangular, a, b.mT, left=False, **options)
    same(linalg.solve_triangular, a[:1].mT, b[:1], upper=True)
    same(torch.triangular_solve, torch.randn(3, 2, dtype=dtype),
         torch.eye(3, dtype=dtype) + torch.ones(3, 3, dtype=dtype).triu())
    large = torch.randn(2, 300, 300, dtype=dtype) / 300 + torch.eye(300, dtype=dtype)
    same(linalg.solve_triangular, large, torch.randn(2, 300, 1, dtype=dtype), upper=True)
""",
    "LU": """
for dtype in DTYPES:
    for shape in SHAPES:
        for m, n in ((1, 1), (4, 4), (3, 5), (5, 3), (0, 0)):
            a = torch.randn(*shape, m, n, dtype=dtype)
            same(linalg.lu_factor, a)
            same(linalg.lu, a)
            same(lambda a: torch.lu_unpack(*linalg.lu_factor(a)), a)
        a, b = torch.randn(*shape, 4, 4, dtype=dtype), torch.randn(*shape, 4, 3, dtype=dtype)
        same(linalg.solve, a, b)
        same(linalg.solve, a, b.mT, left=False)
        for adjoint in (False, True):
            same(lambda a, b: linalg.lu_solve(*linalg.lu_factor(a), b, adjoint=adjoint), a, b)
        same(linalg.inv, a)
        same(linalg.det, a)
        same(linalg.slogdet, a)
    same(linalg.det, torch.randn(0, 0, dtype=dtype))
    same(linalg.det, torch.randn(50, 50, dtype=dtype) / 7)
    same(linalg.slogdet, torch.randn(3, 40, 40, dtype=dtype))
    singular = torch.ones(2, 3, 3, dtype=dtype)
    singular[0] = torch.eye(3, dtype=dtype) * 2
    same(linalg.inv_ex, singular)
    same(linalg.det, singular)
    same(linalg.slogdet, singular)
    assert linalg.inv_ex(singular.cuda()).info.tolist() == linalg.inv_ex(singular).info.tolist()
    raises(linalg.LinAlgError, "(Batch element 1)", linalg.inv, singular.cuda())
    raises(linalg.LinAlgError, "singular", linalg.solve, singular[1].cuda(), singular[0].cuda())
""",
    "QR": """
for dtype in DTYPES:
    for shape in SHAPES:
        for m, n in ((1, 1), (4, 4), (3, 5), (5, 3), (0, 2), (2, 0)):
            a = torch.randn(*shape, m, n, dtype=dtype)
            for mode in ("reduced", "complete", "r"):
                same(linalg.qr, a, mode=mode)
            same(torch.geqrf, a)
            if m >= n:
                same(torch.orgqr, *torch.geqrf(a))
    same(linalg.qr, torch.eye(3, dtype=dtype))
    for m, n in ((40, 40), (70, 3), (3, 70), (33, 64)):  # many columns for each lane of a warp
        for mode in ("reduced", "complete"):
            same(linalg.qr, torch.randn(2, m, n, dtype=dtype), mode=mode)
    # Reflectors of batches need no cuSOLVER, so a graph captures them.
    a = torch.randn(3, 5, 4, dtype=dtype).cuda()
    linalg.qr(a)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        q, r = linalg.qr(a)
    a.copy_(torch.randn(3, 5, 4, dtype=dtype))
    g.replay()
    close(q, linalg.qr(a.cpu()).Q)
    close(r, linalg.qr(a.cpu()).R)
""",
    "eigh": """
for dtype in DTYPES:
    for shape in SHAPES:
        for n in (0, 1, 2, 5):
            a = positive(*shape, n, dtype=dtype)
            for uplo in "LU":
                there = a.cuda() + (a.triu(1) if uplo == "L" else a.tril(-1)).cuda()  # not read
                found = linalg.eigh(there, UPLO=uplo)
                close(found.eigenvalues, linalg.eigvalsh(a))
                close(linalg.eigvalsh(there, UPLO=uplo), linalg.eigvalsh(a))
                v = found.eigenvectors  # has any phase
                close(v * found.eigenvalues.unsqueeze(-2) @ v.mH, a)
                close(v.mH @ v, torch.eye(n, dtype=dtype).expand(*shape, n, n))
    same(linalg.eigvalsh, torch.eye(3, dtype=dtype))
    bad = positive(3, 40, dtype=dtype)
    bad[1] = float("nan")
    raises(linalg.LinAlgError, "(Batch element 1): The algorithm failed to converge", linalg.eigh,
           bad.cuda())
""",
    "SVD": """
for dtype in DTYPES:
    for shape in SHAPES:
        for m, n in ((1, 1), (4, 4), (3, 5), (5, 3), (0, 2), (2, 0)):
            a = torch.randn(*shape, m, n, dtype=dtype)
            same(linalg.svdvals, a)
            for full in (False, True):
                u, s, vh = linalg.svd(a.cuda(), full_matrices=full)
                assert u.shape[-1] == (m if full else min(m, n)), (u.shape, full)
                assert vh.shape[-2] == (n if full else min(m, n)), (vh.shape, full)
                close(s, linalg.svdvals(a))
                k = min(m, n)
                close(u[..., :k] * s.unsqueeze(-2) @ vh[..., :k, :], a)
                close(u.mH @ u, torch.eye(u.shape[-1], dtype=dtype).expand(*shape, -1, -1))
                close(vh @ vh.mH, torch.eye(vh.shape[-2], dtype=dtype).expand(*shape, -1, -1))
            same(linalg.pinv, a)
    low = torch.ones(3, 4, dtype=dtype)
    same(linalg.svdvals, low)
    same(linalg.pinv, low)
    same(linalg.matrix_rank, low)
    u, s, vh = linalg.svd(low.cuda())
    close(u.mH @ u, torch.eye(3, dtype=dtype))
raises(linalg.LinAlgError, "non-finite", linalg.svd, torch.full((2, 2), float("nan")).cuda())
""",
    "gradients": """
def gradients(device, f, *args):
    args = [a.to(device).requires_grad_() for a in args]
    y = f(*args)
    weights = torch.arange(y.numel(), dtype=torch.float64, device=device).reshape(y.shape).cos()
    first = torch.autograd.grad((y * weights).sum().real, args, create_graph=True)
    second = torch.autograd.grad(sum((g * g.conj()).real.sum() for g in first), args)
    return [t.detach().cpu() for t in (y, *first, *second)]
for dtype in (torch.float64, torch.complex128):
    a, b = positive(2, 3, dtype=dtype), torch.randn(2, 3, 2, dtype=dtype)
    for f, args in ((linalg.cholesky, (a,)), (linalg.solve, (a, b)), (linalg.inv, (a,)),
                    (linalg.det, (a,)), (lambda a: linalg.lu_factor(a).LU, (a,)),
                    (lambda a, b: torch.cholesky_solve(b, linalg.cholesky(a)), (a, b)),
                    (lambda a, b: linalg.solve_triangular(a, b, upper=True), (a, b)),
                    (lambda b: linalg.qr(b).Q, (b,)), (linalg.pinv, (b,)),
                    (linalg.svdvals, (b,)), (linalg.eigvalsh, (a,)),
                    (lambda a: linalg.eigh(a).eigenvectors.abs(), (a,)),
                    (lambda b: linalg.svd(b, full_matrices=False).U.abs(), (b,))):
        for x, y in zip(gradients("cuda", f, *args), gradients("cpu", f, *args)):
            torch.testing.assert_close(x, y, rtol=1e-9, atol=1e-9)
same(torch.vmap(linalg.inv), torch.randn(2, 3, 3, dtype=torch.float64))
""",
}


@pytest.mark.parametrize("case", VALUES)
def test_values_are_the_cpus(case):
    fakes.run(START + VALUES[case])


@needs_fake
def test_batches_of_small_matrices_take_one_call():
    fakes.run(
        START
        + """
a = positive(3, 4, dtype=torch.float32).cuda()
linalg.cholesky(a)
assert (runs(b"cusolver_potrfBatched"), runs(b"cusolver_potrf")) == (1, 1)
linalg.cholesky(a[0])
assert (runs(b"cusolver_potrfBatched"), runs(b"cusolver_potrf")) == (1, 2)
linalg.solve_triangular(a, a, upper=True)
assert (runs(b"cublas_trsmBatched"), runs(b"cublas_trsm")) == (1, 1)
large = torch.eye(300).expand(2, 300, 300).cuda()
linalg.solve_triangular(large, large[:, :, :1], upper=True)
assert (runs(b"cublas_trsmBatched"), runs(b"cublas_trsm")) == (1, 3)
linalg.solve(a, a)
assert (runs(b"cublas_getrfBatched"), runs(b"cublas_getrsBatched")) == (1, 1)
linalg.solve(a[0], a[0])
assert (runs(b"cusolver_getrf"), runs(b"cusolver_getrs")) == (1, 1)
linalg.lu_factor(a[:, :2])  # not square
assert (runs(b"cublas_getrfBatched"), runs(b"cusolver_getrf")) == (1, 4)
def both(one, each, f, x):
    # Returns how many launches of the batched function f(x) takes, and of the other one.
    before = runs(one), runs(each)
    f(x)
    return runs(one) - before[0], runs(each) - before[1] - (runs(one) - before[0])
def identity(count, m, n):
    return torch.eye(m, n).expand(count, m, n).cuda()
syev, svd, qr = ((b"cusolver_syevjBatched", b"cusolver_syev"),
                 (b"cusolver_gesvdjBatched", b"cusolver_gesvd"),
                 (b"cublas_geqrfBatched", b"cusolver_geqrf"))
for f in (linalg.eigh, linalg.eigvalsh):
    assert both(*syev, f, identity(3, 32, 32)) == (1, 0)
    assert both(*syev, f, identity(1, 4, 4)) == (0, 0 + 1) == both(*syev, f, identity(1, 33, 33))
    assert both(*syev, f, identity(2, 33, 33)) == (0, 2)
for f in (linalg.svd, linalg.svdvals):
    for m, n in ((32, 32), (3, 7), (7, 3)):
        assert both(*svd, f, identity(3, m, n)) == (1, 0)
    for m, n in ((33, 4), (4, 33)):
        assert both(*svd, f, identity(2, m, n)) == (0, 2)
    assert both(*svd, f, identity(1, 4, 4)) == (0, 1)
reflectors = runs(b"q_of_reflectors"), runs(b"cusolver_orgqr")
for m, n, each in ((64, 64, 0), (3, 7, 0), (7, 3, 0), (65, 3, 2)):
    found = runs(qr[0]), runs(qr[1]), runs(b"cusolver_orgqr")
    linalg.qr(identity(2, m, n))
    assert (runs(qr[0]), runs(qr[1])) == (found[0] + 1, found[1])
    assert runs(b"cusolver_orgqr") == found[2] + each
linalg.qr(identity(2, 257, 2))
assert runs(qr[1]) == found[1] + 2
assert fake.fake_cuda_calls(b"cusolverDnCreate") == fake.fake_cuda_calls(b"cublasCreate_v2") == 1
far = a.to("cuda:1")  # each GPU has a handle
assert torch.equal(linalg.cholesky(far).cpu(), linalg.cholesky(a).cpu())
assert fake.fake_cuda_calls(b"cusolverDnCreate") == 2
""",
        FAKE_CUDA_DEVICES=2,
    )


@needs_fake
def test_they_run_on_the_current_stream():
    fakes.run(
        START
        + """
a = positive(3, 4, dtype=torch.float64).cuda()
expected = linalg.cholesky(a.cpu())
linalg.cholesky(a)
torch.cuda.synchronize()
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    found = linalg.cholesky_ex(a).L
torch.cuda.current_stream().synchronize()
assert not side.query()
side.synchronize()
torch.testing.assert_close(found.cpu(), expected)
torch.testing.assert_close(linalg.cholesky(a).cpu(), expected)
"""
    )


@needs_fake
def test_errors_name_the_function_and_the_status():
    fakes.run(
        START
        + """
a = positive(3, dtype=torch.float64).cuda()
two = a.expand(2, 3, 3)
def triangular(a):
    return linalg.solve_triangular(a, a, upper=True)
def solved(a):
    return linalg.solve(a, a)
LOST = torch.cuda.OutOfMemoryError
for symbol, code, kind, f, x, text in (
    (b"cusolverDnCreate", 7, RuntimeError, linalg.cholesky, a, "cholesky(): cuSOLVER's create "
     "failed with CUSOLVER_STATUS_INTERNAL_ERROR (7): the library or the driver failed"),
    (b"cusolverDnSetStream", 1, RuntimeError, linalg.cholesky, a, "cholesky(): cuSOLVER's "
     "set_stream failed with CUSOLVER_STATUS_NOT_INITIALIZED (1)"),
    (b"cusolverDnCreateSyevjInfo", 2, LOST, linalg.cholesky, a, "CreateSyevjInfo failed"),
    (b"cusolverDnCreateGesvdjInfo", 2, LOST, linalg.cholesky, a, "CreateGesvdjInfo failed"),
    (b"potrf", 6, RuntimeError, linalg.cholesky, a, "cholesky(): cuSOLVER's potrf failed with "
     "CUSOLVER_STATUS_EXECUTION_FAILED (6): a kernel failed"),
    (b"potrf", 2, LOST, linalg.cholesky, a, "CUSOLVER_STATUS_ALLOC_FAILED (2)"),
    (b"potrfBatched", 77, RuntimeError, linalg.cholesky, two, "potrfBatched failed with status 77"),
    (b"getrf", 9, RuntimeError, linalg.lu_factor, a, "lu_factor(): cuSOLVER's getrf failed with "
     "CUSOLVER_STATUS_NOT_SUPPORTED (9)"),
    (b"getrs", 3, RuntimeError, solved, a, "lu_solve(): cuSOLVER's getrs failed"),
    (b"geqrf", 6, RuntimeError, linalg.qr, a, "qr(): cuSOLVER's geqrf failed"),
    (b"orgqr", 6, RuntimeError, linalg.qr, a, "qr(): cuSOLVER's orgqr failed"),
    (b"syevd", 6, RuntimeError, linalg.eigh, a, "eigh(): cuSOLVER's syevd failed"),
    (b"syevjBatched", 6, RuntimeError, linalg.eigh, two, "eigh(): cuSOLVER's syevjBatched failed"),
    (b"gesvd", 6, RuntimeError, linalg.svd, a, "svd(): cuSOLVER's gesvd failed"),
    (b"gesvdjBatched", 6, RuntimeError, linalg.svd, two, "svd(): cuSOLVER's gesvdjBatched failed"),
    (b"cublasCreate_v2", 1, RuntimeError, triangular, a, "triangular_solve(): cuBLAS's create "
     "failed with CUBLAS_STATUS_NOT_INITIALIZED (1)"),
    (b"trsm", 14, RuntimeError, triangular, a, "triangular_solve(): cuBLAS's trsm failed with "
     "CUBLAS_STATUS_INTERNAL_ERROR (14)"),
    (b"trsmBatched", 3, LOST, triangular, two, "CUBLAS_STATUS_ALLOC_FAILED (3)"),
    (b"geqrfBatched", 13, RuntimeError, linalg.qr, two, "qr(): cuBLAS's geqrfBatched failed"),
    (b"getrfBatched", 15, RuntimeError, linalg.lu_factor, two, "lu_factor(): cuBLAS's getrfBatched "
     "failed with CUBLAS_STATUS_NOT_SUPPORTED (15)"),
    (b"getrsBatched", 8, RuntimeError, solved, two, "lu_solve(): cuBLAS's getrsBatched failed"),
):
    twice = symbol in (b"cusolverDnCreate", b"cublasCreate_v2")  # the call is tried again
    fails(symbol, code, kind, text, f, x, calls=2 if twice else 1)
same(linalg.cholesky, a.cpu())
same(linalg.solve, a.cpu(), a.cpu())
"""
    )


@needs_fake
def test_a_handle_that_finds_no_memory_is_made_again():
    fakes.run(
        START
        + """
torch.zeros(1 << 22, device="cuda")
reserved = torch.cuda.memory_reserved()
fake.fake_cuda_fail(b"cusolverDnCreate", 1, 2)
same(linalg.cholesky, positive(3, dtype=torch.float64))
assert torch.cuda.memory_reserved() < reserved
"""
    )


@needs_fake
def test_without_the_libraries_matrices_are_factored_on_the_cpu():
    fakes.run(
        """
import warnings
a = torch.eye(3) * 4
def texts(f, *args):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        y = f(*(x.cuda() for x in args))
        assert y.is_cuda and torch.equal(y.cpu(), f(*args))
    return " ".join(str(w.message) for w in seen)
torch.cuda.set_fallback("warn")
said = texts(torch.linalg.cholesky, a)
assert "cuSOLVER is missing (not found: pip install 'cograd[cuda-full]'" in said, said
said = texts(lambda a, b: torch.linalg.solve_triangular(a, b, upper=True), a, a)
assert "cuBLAS is missing (not found: pip install 'cograd[cuda]'" in said, said
torch.cuda.set_fallback("error")
raises(NotImplementedError, "cuSOLVER is missing", torch.linalg.inv, a.cuda())
libraries = {name: (path, missing) for name, path, _, missing in _C._cuda_libraries()}
assert libraries["cuSOLVER"][0] == "" == libraries["cuBLAS"][0]
""",
        COGRAD_CUSOLVER="none",
        COGRAD_CUBLAS="none",
    )


@needs_fake
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_matrices_that_rotations_do_not_decompose_are_done_again(dtype):
    fakes.run(
        START
        + f"""
dtype = torch.{dtype}
def again(name, each, f, *args):
    # The third matrix does not converge, and neither does the last one.
    before = runs(each)
    for n in (3, 5):
        fake.fake_cuda_fail(name, n, 5)
        f(*args)
    return runs(each) - before
def eigen(a):
    values, vectors = linalg.eigh(a.cuda())
    close(values, linalg.eigvalsh(a))
    assert torch.allclose((vectors * values.unsqueeze(-2) @ vectors.mH).cpu(), a, atol=1e-3)
a = positive(5, 4, dtype=dtype)
each = b"cusolver_syevd"
assert again(b"syevjBatched info", each, eigen, a) == 2
assert again(b"syevjBatched info", each, lambda a: same(linalg.eigvalsh, a), a) == 2
def singular(x, full):
    u, s, vh = linalg.svd(x.cuda(), full_matrices=full)
    close(s, linalg.svdvals(x))
    k = s.shape[-1]
    back = (u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :]
    assert torch.allclose(back.cpu(), x, atol=1e-3)
    for q in (u.mH @ u, vh @ vh.mH):
        eye = torch.eye(q.shape[-1], dtype=dtype).expand(q.shape)
        assert torch.allclose(q.cpu(), eye, atol=1e-3)
each = b"cusolver_gesvd"
for m, n in ((4, 4), (5, 3), (3, 5)):
    x = torch.randn(5, m, n, dtype=dtype)
    for full in (False, True):
        found = runs(b"cusolver_gesvdjBatched")
        assert again(b"gesvdjBatched info", each, singular, x, full) - 2 == 2
    again(b"gesvdjBatched info", each, lambda x: same(linalg.svdvals, x), x)
# What fails twice is an error.
fake.fake_cuda_fail(b"gesvdjBatched info", 2, 5)
fake.fake_cuda_fail(b"gesvd info", 1, 3)
raises(linalg.LinAlgError, "(error code: 3)", lambda: linalg.svd(x.cuda()))
"""
    )
