# SPDX-License-Identifier: BSD-3-Clause
"""Linear algebra of complex matrices: values from NumPy, derivatives by central differences."""

import zlib

import numpy as np
import pytest
from op_items import each_cell

import cograd as torch
from cograd import func, linalg

pytestmark = pytest.mark.filterwarnings("ignore:vmap")
C8, C16 = torch.complex64, torch.complex128


def numbers(key, *shape):
    rng = np.random.default_rng(zlib.crc32(repr((key, shape)).encode()))
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


def square(key, n=3, batch=()):
    return numbers(key, *batch, n, n) + 2 * np.eye(n)


def hermitian(key, n=3, batch=()):
    x = numbers(key, *batch, n, n)
    return x @ x.conj().swapaxes(-1, -2) / n + np.diag(np.arange(1.0, n + 1))


def lower(key, n=3, batch=()):
    return np.tril(square(key, n, batch))


def wide(key, m=2, n=4, batch=()):
    return numbers(key, *batch, m, n)


def tall(key, m=4, n=2, batch=()):
    return numbers(key, *batch, m, n)


def column(key, n=3, k=2, batch=()):
    return numbers(key, *batch, n, k)


def vector(key, n=3, batch=()):
    return numbers(key, *batch, n)


def other(key, n=3, batch=()):
    return vector("other" + key, n, batch)


def hermitian_part(a):
    return (a + a.mH) / 2


def projector(columns):
    return columns @ columns.mH


# Each op's result in a form that does not depend on the phases of vectors.
CASES = {
    "solve": (linalg.solve, square, column),
    "solve_right": (lambda a, b: linalg.solve(a, b.mT, left=False), square, column),
    "solve_vector": (linalg.solve, square, vector),
    "solve_ex": (lambda a, b: linalg.solve_ex(a, b)[0], square, column),
    "inv": (linalg.inv, square),
    "inv_ex": (lambda a: linalg.inv_ex(a)[0], square),
    "det": (linalg.det, square),
    "slogdet": (linalg.slogdet, square),
    "slogdet_sign": (lambda a: linalg.slogdet(a)[0], square),
    "logdet": (torch.logdet, square),
    "cholesky": (lambda a: linalg.cholesky(hermitian_part(a)), hermitian),
    "cholesky_upper": (lambda a: linalg.cholesky(hermitian_part(a), upper=True), hermitian),
    "cholesky_ex": (lambda a: linalg.cholesky_ex(hermitian_part(a))[0], hermitian),
    "cholesky_solve": (lambda l, b: torch.cholesky_solve(b, l.tril()), lower, column),
    "cholesky_inverse": (lambda l: torch.cholesky_inverse(l.mH.triu(), upper=True), lower),
    "solve_triangular": (lambda a, b: linalg.solve_triangular(a, b, upper=False), lower, column),
    "solve_triangular_unit": (
        lambda a, b: linalg.solve_triangular(a, b.mT, upper=True, left=False, unitriangular=True),
        square,
        column,
    ),
    "qr": (linalg.qr, tall),
    "qr_square": (linalg.qr, square),
    "qr_wide": (linalg.qr, wide),
    "qr_complete": (lambda a: linalg.qr(a, "complete"), wide),
    "eigh_values": (lambda a: linalg.eigh(hermitian_part(a))[0], hermitian),
    "eigh_vectors": (lambda a: projector(linalg.eigh(hermitian_part(a))[1][..., :1]), hermitian),
    "eigh_both": (
        lambda a: (
            (e := linalg.eigh(hermitian_part(a)))[0],
            (e[1] * torch.tensor([1.0, 2.0, -1.0])) @ e[1].mH,
        ),
        hermitian,
    ),
    "eigvalsh": (lambda a: linalg.eigvalsh(hermitian_part(a), "U"), hermitian),
    "eigvals": (linalg.eigvals, square),
    "eig_vectors": (
        lambda a: projector(linalg.eig(a)[1][..., :1]),
        square,
    ),
    "eig_both": (
        lambda a: ((e := linalg.eig(a))[0], linalg.solve(e[1], a, left=False) @ e[1], e[1].abs()),
        square,
    ),
    "svdvals": (linalg.svdvals, tall),
    "svd_left": (lambda a: projector(linalg.svd(a, False)[0][..., :1]), tall),
    "svd_null": (lambda a: projector(linalg.svd(a)[0][..., min(a.shape[-2:]) :]), tall),
    "svd_null_rows": (lambda a: projector(linalg.svd(a)[2].mH[..., min(a.shape[-2:]) :]), wide),
    "svd_right": (lambda a: projector(linalg.svd(a, False)[2].mH[..., :1]), wide),
    "svd_pair": (
        lambda a: (s := linalg.svd(a, False))[0] @ s[2] * s[1].sum(-1)[..., None, None],
        square,
    ),
    "svd_pair_tall": (lambda a: (s := torch.svd(a))[0] @ s[2].mH, tall),
    "svd_pair_wide": (lambda a: (s := linalg.svd(a, False))[0] @ s[2], wide),
    "pinv": (linalg.pinv, tall),
    "pinv_wide": (linalg.pinv, wide),
    "pinv_hermitian": (lambda a: linalg.pinv(hermitian_part(a), hermitian=True), hermitian),
    "pinverse": (torch.pinverse, tall),
    "lstsq": (lambda a, b: linalg.lstsq(a, b)[0], lambda k, batch=(): tall(k, 3, 2, batch), column),
    "lstsq_residuals": (
        lambda a, b: linalg.lstsq(a, b, driver="gels")[1],
        lambda k, batch=(): tall(k, 3, 2, batch),
        column,
    ),
    "cond": (linalg.cond, square),
    "cond_1": (lambda a: linalg.cond(a, 1), square),
    "matrix_power": (lambda a: linalg.matrix_power(a, 3), square),
    "matrix_power_negative": (lambda a: linalg.matrix_power(a, -2), square),
    "matrix_exp": (linalg.matrix_exp, square),
    "norm": (linalg.vector_norm, wide),
    "norm_dim": (lambda a: linalg.vector_norm(a, 2, -1, True), wide),
    "norm_1": (lambda a: linalg.vector_norm(a, 1, (-2, -1)), wide),
    "norm_3": (lambda a: linalg.vector_norm(a, 3, -2), wide),
    "norm_half": (lambda a: linalg.vector_norm(a, 0.5, -1), wide),
    "norm_inf": (lambda a: linalg.vector_norm(a, float("inf"), -1), wide),
    "norm_nuc": (lambda a: linalg.matrix_norm(a, "nuc"), wide),
    "norm_fro": (lambda a: linalg.matrix_norm(a), wide),
    "norm_two": (lambda a: linalg.matrix_norm(a, -2), wide),
    "norm_columns": (lambda a: linalg.matrix_norm(a, 1), wide),
    "norm_old": (lambda a: torch.norm(a, 3, -1), wide),
    "renorm": (lambda a: torch.renorm(a, 2, -1, 0.7), wide),
    "dist": (lambda a, b: torch.dist(a, b, 3), vector, other),
    "multi_dot": (lambda a, b: linalg.multi_dot([b.mH, a, b]), square, column),
    "cross": (linalg.cross, vector, other),
    "vecdot": (linalg.vecdot, vector, other),
    "kron": (torch.kron, wide, column),
    "trace": (torch.trace, square),
    "einsum": (lambda a, b: torch.einsum("...ij,...jk->...ki", a, b), square, column),
    "einsum_repeated": (lambda a: torch.einsum("...ii,...ij->...j", a, a), square),
    "tensordot": (lambda a, b: torch.tensordot(a, b, 1), square, column),
    "matmul": (torch.matmul, square, column),
    "mv": (torch.mv, square, vector),
    "dot": (torch.dot, vector, other),
    "vdot": (torch.vdot, vector, other),
    "outer": (torch.outer, vector, other),
    "inner": (torch.inner, vector, other),
    "linear": (torch.nn.functional.linear, wide, lambda k, batch=(): wide(k + "w", 3, 4), vector),
    "bilinear": (
        torch.nn.functional.bilinear,
        wide,
        lambda k, batch=(): wide(k + "2", 2, 3, batch),
        lambda k, batch=(): numbers(k, 2, 4, 3),
    ),
    "addmm": (
        lambda c, a, b: torch.addmm(c, a, b, beta=0.5 - 1j, alpha=2j),
        column,
        square,
        lambda k, batch=(): column(k + "b", 3, 2, batch),
    ),
    "addmv": (lambda c, a, b: torch.addmv(c, a, b, beta=0.5 - 1j, alpha=2j), vector, square, other),
    "addr": (lambda c, a, b: torch.addr(c, a, b, beta=0.5 - 1j, alpha=2j), square, vector, other),
}
# Samples without batch dims: these ops do not support any.
UNBATCHED = {
    "trace",
    "tensordot",
    "mv",
    "dot",
    "vdot",
    "outer",
    "inner",
    "kron",
    "linear",
    "bilinear",
    "addmm",
    "addmv",
    "addr",
    "dist",
    "norm",
    "renorm",
    "multi_dot",
    "lstsq_residuals",
    "solve_vector",
}


def as_tuple(x):
    return tuple(x) if isinstance(x, tuple | list) else (x,)


def arrays(name, batch=()):
    return [make(name, batch=batch) for make in CASES[name][1:]]


def tensors(name, batch=(), dtype=C16):
    return [torch.tensor(a, dtype=dtype) for a in arrays(name, batch)]


def weighted(f):
    """Reduces f's results to one real number that depends on all of their parts."""

    def loss(*inputs):
        total = 0
        for i, y in enumerate(as_tuple(f(*inputs))):
            w = numbers(("weights", i), *y.shape)
            w = torch.tensor(w if y.is_complex() else w.real)
            total = total + (w.conj() * y).real.sum()
        return total

    return loss


def gradients(f, inputs, create_graph=False):
    inputs = [x.detach().requires_grad_() for x in inputs]
    return inputs, torch.autograd.grad(f(*inputs), inputs, create_graph=create_graph)


def differences(f, inputs, eps=1e-6):
    """Returns the gradient of a real f, d/dre + i d/dim of each element."""
    results = []
    for x in inputs:
        flat, g = x.view(-1), np.zeros(x.numel(), complex)
        for i in range(x.numel()):
            before = flat[i].item()
            for direction in (1, 1j) if x.is_complex() else (1,):
                ends = []
                for step in (eps, -eps):
                    flat[i] = before + step * direction
                    ends.append(f(*inputs).item())
                g[i] += direction * (ends[0] - ends[1]) / (2 * eps)
            flat[i] = before
        results.append(g.reshape(x.shape))
    return results


def close(a, b, tol=2e-6):
    a, b = (x.detach().resolve_conj().numpy() if isinstance(x, torch.Tensor) else x for x in (a, b))
    np.testing.assert_allclose(a, b, rtol=tol, atol=tol)


@each_cell("name", CASES)
def test_gradient_is_that_of_central_differences(name):
    f = weighted(CASES[name][0])
    inputs, got = gradients(f, tensors(name))
    for g, want in zip(got, differences(f, [x.detach().clone() for x in inputs]), strict=True):
        close(g, want)


@each_cell("name", CASES)
def test_gradient_of_the_gradient(name):
    f = weighted(CASES[name][0])

    def of_gradient(*inputs):
        inputs = [x if x.requires_grad else x.detach().requires_grad_() for x in inputs]
        with torch.enable_grad():
            grads = torch.autograd.grad(f(*inputs), inputs, create_graph=True)
        total = 0
        for i, g in enumerate(grads):
            w = torch.tensor(numbers(("second", i), *g.shape))
            total = total + (w.conj() * g).real.sum()
        return total

    inputs = [x.requires_grad_() for x in tensors(name)]
    value = of_gradient(*inputs)
    if not value.requires_grad:
        pytest.skip("linear")
    got = torch.autograd.grad(value, inputs, allow_unused=True, materialize_grads=True)
    plain = [x.detach().clone() for x in inputs]
    for g, want in zip(got, differences(of_gradient, plain), strict=True):
        close(g, want, 2e-5)


@each_cell("name", CASES)
def test_tangent_is_that_of_central_differences(name):
    f, inputs = CASES[name][0], tensors(name)
    tangents = [torch.tensor(numbers(("tangent", i), *x.shape)) for i, x in enumerate(inputs)]
    eps = 1e-6
    got = func.jvp(f, tuple(inputs), tuple(tangents))[1]
    ends = [
        as_tuple(f(*(x + step * t for x, t in zip(inputs, tangents, strict=True))))
        for step in (eps, -eps)
    ]
    for g, above, below in zip(as_tuple(got), *ends, strict=True):
        close(g, (above - below) / (2 * eps))


@each_cell("name", [name for name in CASES if name != "lstsq_residuals"])
def test_vmap_gives_what_a_loop_gives(name):
    f = CASES[name][0]
    batch = [torch.stack([x, 2 * x]) for x in tensors(name)]
    loop = [as_tuple(f(*(x[i] for x in batch))) for i in range(2)]
    for got, want in zip(as_tuple(func.vmap(f)(*batch)), zip(*loop, strict=True), strict=True):
        close(got, torch.stack(want))


@each_cell("name", sorted(set(CASES) - UNBATCHED))
def test_batches_and_strides(name):
    f, inputs = CASES[name][0], tensors(name, (2,))
    strided = [x.transpose(-1, -2).contiguous().transpose(-1, -2) for x in inputs]
    loop = [as_tuple(f(*(x[i] for x in inputs))) for i in range(2)]
    for variant in (inputs, strided, [torch.stack([x, x], -1)[..., 0] for x in inputs]):
        for got, want in zip(as_tuple(f(*variant)), zip(*loop, strict=True), strict=True):
            close(got, torch.stack(want))


@each_cell("name", CASES)
def test_complex64_is_near_complex128(name):
    f = CASES[name][0]
    narrow = as_tuple(f(*tensors(name, dtype=C8)))
    for got, want in zip(narrow, as_tuple(f(*tensors(name))), strict=True):
        assert got.dtype == {C16: C8, torch.float64: torch.float32}[want.dtype]
        close(got, want, 2e-3)


def real_eig(f):
    return lambda a: f(*linalg.eig(a))


# Cases of real matrices.
REAL_CASES = {
    "eigvals": linalg.eigvals,
    "eig_spectrum": real_eig(lambda w, v: (v * w.exp().unsqueeze(-2)) @ linalg.inv(v)),
    "eig_sizes": real_eig(lambda w, v: v.abs()),
    "eigh": lambda a: (lambda w, v: (v * w.sin().unsqueeze(-2)) @ v.mH)(*linalg.eigh(a + a.mT)),
    "matrix_exp": linalg.matrix_exp,
}


@pytest.mark.parametrize("name", REAL_CASES)
def test_gradient_of_real_matrices(name):
    f = weighted(REAL_CASES[name])
    for batch in ((), (2,)):
        inputs = [torch.tensor(square(name, 3, batch).real)]
        leaves, got = gradients(f, inputs)
        assert got[0].dtype == torch.float64
        close(got[0], differences(f, [inputs[0].clone()])[0].real)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, C8, C16])
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4), (0, 3, 3), (0, 0), (2, 0, 0)])
def test_eig_solves_the_eigenvalue_problem(shape, dtype):
    a = torch.tensor(
        numbers("eig", *shape) if dtype.is_complex else numbers("eig", *shape).real, dtype=dtype
    )
    values, vectors = linalg.eig(a)
    assert values.dtype == vectors.dtype == dtype.to_complex()
    assert values.shape == shape[:-1] and vectors.shape == shape
    tol = 1e-4 if values.dtype == C8 else 1e-10
    close(a.to(values.dtype) @ vectors, vectors * values.unsqueeze(-2), tol)
    close(linalg.vector_norm(vectors, dim=-2), np.ones(shape[:-1]), tol)
    close(linalg.eigvals(a).sum(-1), np.trace(a.numpy(), axis1=-2, axis2=-1), tol)


@pytest.mark.parametrize("batch", [(), (2,), (0,)])
@pytest.mark.parametrize(
    "name",
    [
        "inv",
        "det",
        "cholesky",
        "eigvalsh",
        "svdvals",
        "pinv",
        "slogdet",
        "matrix_rank",
        "cond",
        "norm",
    ],
)
def test_values_are_those_of_numpy(name, batch):
    if name == "cond" and batch == (0,):
        pytest.skip("NumPy wants elements")
    a = hermitian(name, 4, batch)
    options = {"norm": {"axis": (-2, -1)}}.get(name, {})
    want = getattr(np.linalg, name, None) or (lambda x: np.linalg.svd(x, compute_uv=False))
    got = getattr(linalg, name)(torch.tensor(a), **options)
    for x, y in zip(as_tuple(got), as_tuple(want(a, **options)), strict=True):
        close(x, y)


def test_matrix_exp():
    a = np.diag(numbers("exp", 4)) * np.array([0.001, 1, 10, 100j])
    basis = linalg.qr(torch.tensor(numbers("basis", 4, 4)))[0].numpy()
    for x in (a, np.stack([a, a / 100])):
        whole = basis @ x @ basis.conj().T
        exact = basis @ (np.exp(np.diagonal(x, 0, -2, -1))[..., None] * basis.conj().T)
        np.testing.assert_allclose(
            linalg.matrix_exp(torch.tensor(whole)).numpy(),
            exact,
            rtol=1e-9,
            atol=1e-11 * np.abs(exact).max(),
        )
    assert torch.matrix_exp(torch.zeros(2, 0, 0)).shape == (2, 0, 0)
    close(torch.matrix_exp(torch.zeros(2, 2)), np.eye(2))
    assert torch.matrix_exp(torch.full((2, 2), float("nan"))).isnan().all()
    with pytest.raises(RuntimeError, match="square"):
        torch.matrix_exp(torch.zeros(2, 3))


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("shape", [(4, 2), (2, 4), (3, 3), (2, 3, 2), (0, 3, 2), (3, 0), (0, 3)])
def test_factors_multiply_to_the_matrix(shape, full):
    a = torch.tensor(numbers("factors", *shape))
    u, s, vh = linalg.svd(a, full)
    k = min(shape[-2:])
    close((u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :], a)
    close(u.mH @ u, np.broadcast_to(np.eye(u.shape[-1]), u.mH.shape[:-1] + u.shape[-1:]))
    close(vh @ vh.mH, np.broadcast_to(np.eye(vh.shape[-2]), vh.shape[:-1] + vh.shape[-2:-1]))
    q, r = linalg.qr(a, "complete" if full else "reduced")
    close(q @ r, a)
    close(r.tril(-1), np.zeros(r.shape))
    assert (r.diagonal(0, -2, -1).imag == 0).all()
    assert s.dtype == torch.float64


@pytest.mark.parametrize(
    "f",
    [
        lambda a: linalg.eigh(a)[1],
        lambda a: linalg.eig(a)[1],
        lambda a: linalg.svd(a)[0],
        lambda a: linalg.svd(a)[2],
        lambda a: (lambda u, s, vh: (u, vh))(*linalg.svd(a)),
    ],
)
def test_a_gradient_that_depends_on_phases_is_refused(f):
    leaf = torch.tensor(hermitian("phases"), requires_grad=True)
    with pytest.raises(RuntimeError, match="ill-defined"):
        weighted(f)(leaf).backward()


def test_singular_matrices():
    zero = torch.zeros(2, 2, 2, dtype=C16)
    for f in (
        linalg.inv,
        lambda a: linalg.solve(a, a),
        linalg.cholesky,
        lambda a: linalg.matrix_power(a, -1),
    ):
        with pytest.raises(linalg.LinAlgError, match="Batch element 0"):
            f(zero)
    assert linalg.inv_ex(zero)[1].tolist() == [1, 1]
    assert linalg.solve_ex(zero, zero)[1].tolist() == [1, 1]
    assert linalg.cholesky_ex(zero)[1].tolist() == [1, 1]
    assert linalg.det(zero).tolist() == [0, 0]
    sign, logabs = linalg.slogdet(zero)
    assert sign.tolist() == [0, 0] and logabs.tolist() == [float("-inf")] * 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, C8, C16])
def test_nan_is_refused(dtype):
    nan = torch.full((2, 2), float("nan"), dtype=dtype)
    for f in (linalg.cholesky, linalg.svd, linalg.svdvals):
        with pytest.raises(linalg.LinAlgError):
            f(nan)
    for f in (linalg.eig, linalg.eigvals):
        with pytest.raises(RuntimeError, match="infs or NaNs"):
            f(nan)


@pytest.mark.parametrize("rank", [1, 2])
def test_gradient_of_the_determinant_of_a_singular_matrix(rank):
    """The matrix has integers, so that elimination leaves an exact zero."""
    rows = torch.tensor([[1, 2j, 3], [2j, 4, 1 + 1j], [1 + 2j, 4 + 2j, 4 + 1j]], dtype=C16)
    a = rows if rank == 2 else torch.stack([rows[0], rows[0], -rows[0]])
    f = weighted(linalg.det)
    assert abs(linalg.det(a).item()) < 1e-12
    close(gradients(f, [a])[1][0], differences(f, [a.clone()])[0])


@pytest.mark.parametrize("p", [0, 0.5, 1, 2, 3, float("inf")])
def test_gradient_of_the_norm_of_nothing_is_zero(p):
    x = torch.zeros(3, dtype=C16, requires_grad=True)
    linalg.vector_norm(x, p).backward() if p else None
    assert x.grad is None or x.grad.tolist() == [0, 0, 0]


def test_norms_of_numbers_and_of_no_elements():
    for p in (0, 0.5, 1, 2, 3):
        assert linalg.vector_norm(torch.zeros(2, 0, dtype=C8), p, 1).tolist() == [0, 0]
        close(linalg.vector_norm(torch.tensor(3 + 4j), p, 0), 5.0 if p else 1.0)
    with pytest.raises(RuntimeError, match="does not have an identity"):
        linalg.vector_norm(torch.zeros(0, dtype=C8), float("inf"))
    with pytest.raises(IndexError):
        linalg.vector_norm(torch.zeros(2, dtype=C8), 2, 1)


def test_a_norms_dtype_is_of_the_inputs_kind():
    z, x = torch.ones(2, 2, dtype=C8), torch.ones(2, 2)
    for f in (linalg.vector_norm, linalg.matrix_norm, torch.norm):
        assert f(z, dtype=C16).dtype == torch.float64
        with pytest.raises(RuntimeError, match="complex for complex inputs"):
            f(z, dtype=torch.float64)
        with pytest.raises(RuntimeError, match="real for real inputs"):
            f(x, dtype=C16)
    with pytest.raises(RuntimeError, match="without narrowing"):
        linalg.vector_norm(z.to(C16), dtype=C8)
    with pytest.raises(RuntimeError, match="complex for complex inputs"):
        linalg.matrix_norm(z, "nuc", dtype=torch.float64)


def test_ranks_and_tolerances_are_real():
    a = torch.tensor(tall("rank") @ numbers("rank", 2, 5))
    assert linalg.matrix_rank(a).item() == 2
    assert linalg.matrix_rank(a @ a.mH, hermitian=True).item() == 2
    assert linalg.matrix_rank(a, atol=torch.tensor(100.0)).item() == 0
    close(linalg.pinv(a), np.linalg.pinv(a.numpy()))
    result = linalg.lstsq(a.mH, torch.tensor(numbers("lstsq", 5, 2)), driver="gelsd")
    assert result.residuals.dtype == result.singular_values.dtype == torch.float64


@pytest.mark.parametrize("name", ["addmm", "addmv", "addr"])
@pytest.mark.parametrize("factors", [(1, 1), (0.5 - 1j, 2j), (0, 1j), (1j, 0)])
def test_products_are_added_in_all_forms(name, factors):
    beta, alpha = factors
    c, a, b = tensors(name)
    product = np.outer(a, b) if name == "addr" else a.numpy() @ b.numpy()
    want = beta * c.numpy() + alpha * product
    out = torch.empty_like(c)
    getattr(torch, name)(c, a, b, beta=beta, alpha=alpha, out=out)
    close(out, want)
    close(getattr(c, name + "_")(a, b, beta=beta, alpha=alpha), want)
    with pytest.raises(RuntimeError):
        getattr(torch, name)(c.real, a.real, b.real, alpha=1j)


def test_results_are_written_to_out():
    a, b = tensors("solve")
    for f, inputs in (
        (linalg.solve, (a, b)),
        (linalg.inv, (a,)),
        (linalg.det, (a,)),
        (linalg.eigvals, (a,)),
        (torch.matmul, (a, b)),
        (torch.vdot, (a[0], a[1])),
    ):
        want = f(*inputs)
        out = torch.empty(0, dtype=want.dtype)
        assert f(*inputs, out=out) is out
        close(out, want)
    with pytest.raises(RuntimeError):
        linalg.eigvals(a.real, out=torch.empty(0, dtype=torch.float64))


def test_what_torch_has_for_real_numbers_only_raises():
    z = torch.ones(2, 2, dtype=C8)
    for f in (torch.cdist, torch.nn.functional.cosine_similarity):
        with pytest.raises(NotImplementedError):
            f(z, z)
    for f in (linalg.solve, torch.mm, lambda a, b: torch.dot(a[0], b[0])):
        with pytest.raises(RuntimeError, match="dtype"):
            f(z, z.real)
