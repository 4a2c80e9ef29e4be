# SPDX-License-Identifier: BSD-3-Clause
"""Linear algebra of complex matrices: values by NumPy, derivatives by central differences."""

import zlib

import cograd as torch
import numpy as np
import pytest
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


# What each op makes of matrices, in forms that do not depend on the phases of vectors.
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
    "svd_right": (lambda a: projector(linalg.svd(a, False)[2].mH[..., :1]), wide),
    "svd_pair": (lambda a: (s := linalg.svd(a, False))[0] @ s[2] * s[1].sum(-1)[..., None, None],
                 square),
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
    "addmm": (lambda c, a, b: torch.addmm(c, a, b, beta=0.5 - 1j, alpha=2j), column, square,
              lambda k, batch=(): column(k + "b", 3, 2, batch)),
    "addmv": (lambda c, a, b: torch.addmv(c, a, b, beta=0.5 - 1j, alpha=2j), vector, square, other),
    "addr": (lambda c, a, b: torch.addr(c, a, b, beta=0.5 - 1j, alpha=2j), square, vector, other),
}
# Samples of one batch only: ops without batch dims.
UNBATCHED = {"trace", "tensordot", "mv", "dot", "vdot", "outer", "inner", "kron", "linear",
             "bilinear", "addmm", "addmv", "addr", "dist", "norm", "renorm", "multi_dot",
             "lstsq_residuals", "solve_vector"}


def as_tuple(x):
    return tuple(x) if isinstance(x, tuple | list) else (x,)


def arrays(name, batch=()):
    return [make(name, batch=batch) for make in CASES[name][1:]]


def tensors(name, batch=(), dtype=C16):
    return [torch.tensor(a, dtype=dtype) for a in arrays(name, batch)]


def weighted(f):
    """f's results as one real number that all of their parts enter."""

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
    """The gradient of a real f, d/dre + i d/dim of each element."""
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


@pytest.mark.parametrize("name", CASES)
def test_gradient_is_that_of_central_differences(name):
    f = weighted(CASES[name][0])
    inputs, got = gradients(f, tensors(name))
    for g, want in zip(got, differences(f, [x.detach().clone() for x in inputs]), strict=True):
        close(g, want)


@pytest.mark.parametrize("name", CASES)
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


@pytest.mark.parametrize("name", CASES)
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


@pytest.mark.parametrize("name", CASES)
def test_vmap_gives_what_a_loop_gives(name):
    f = CASES[name][0]
    batch = [torch.stack(x) for x in zip(tensors(name), tensors(name + "2") if name + "2" in CASES
                                         else [2 * t for t in tensors(name)], strict=True)]
    loop = [as_tuple(f(*(x[i] for x in batch))) for i in range(2)]
    for got, want in zip(as_tuple(func.vmap(f)(*batch)), zip(*loop, strict=True), strict=True):
        close(got, torch.stack(want))


@pytest.mark.parametrize("name", sorted(set(CASES) - UNBATCHED))
def test_batches_and_strides(name):
    f, inputs = CASES[name][0], tensors(name, (2,))
    strided = [x.transpose(-1, -2).contiguous().transpose(-1, -2) for x in inputs]
    assert name == "" or len(strided) == len(inputs)
    loop = [as_tuple(f(*(x[i] for x in inputs))) for i in range(2)]
    for variant in (inputs, strided, [torch.stack([x, x], -1)[..., 0] for x in inputs]):
        for got, want in zip(as_tuple(f(*variant)), zip(*loop, strict=True), strict=True):
            close(got, torch.stack(want))


@pytest.mark.parametrize("name", CASES)
def test_complex64_is_near_complex128(name):
    f = CASES[name][0]
    narrow = as_tuple(f(*tensors(name, dtype=C8)))
    for got, want in zip(narrow, as_tuple(f(*tensors(name))), strict=True):
        assert got.dtype == {C16: C8, torch.float64: torch.float32}[want.dtype]
        close(got, want, 2e-3)
