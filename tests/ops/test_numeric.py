# SPDX-License-Identifier: BSD-3-Clause
"""torch's top-level composed functions compared with NumPy, and the global switches."""

import math

import numpy as np
import pytest

import cograd as torch

F8 = torch.float64


def rand(*shape, dtype=F8):
    return torch.rand(*shape, dtype=dtype)


# ---- gradient and integrals ---------------------------------------------------------------------


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("shape", [(3,), (7,), (4, 5), (3, 4, 5)])
def test_gradient_is_numpys(shape, order):
    x = rand(*shape)
    want = np.gradient(x.numpy(), edge_order=order)
    want = want if isinstance(want, (list, tuple)) else [want]
    for got, w in zip(torch.gradient(x, edge_order=order), want, strict=True):
        np.testing.assert_allclose(got.numpy(), w, rtol=1e-12, atol=1e-12)
    points = [torch.rand(n, dtype=F8).cumsum(0) for n in shape]
    want = np.gradient(x.numpy(), *(p.numpy() for p in points), edge_order=order)
    want = want if isinstance(want, (list, tuple)) else [want]
    for got, w in zip(torch.gradient(x, spacing=points, edge_order=order), want, strict=True):
        np.testing.assert_allclose(got.numpy(), w, rtol=1e-10, atol=1e-10)


def test_gradient_of_some_dims_at_a_distance():
    x = rand(3, 4, 5)
    (got,) = torch.gradient(x, spacing=0.5, dim=-2)
    np.testing.assert_allclose(got.numpy(), np.gradient(x.numpy(), 0.5, axis=1), rtol=1e-12)
    a, b = torch.gradient(x, spacing=[2.0, 3.0], dim=(0, 2))
    np.testing.assert_allclose(a.numpy(), np.gradient(x.numpy(), 2.0, axis=0), rtol=1e-12)
    np.testing.assert_allclose(b.numpy(), np.gradient(x.numpy(), 3.0, axis=2), rtol=1e-12)
    assert torch.gradient(torch.tensor([1, 2, 4]))[0].tolist() == [1, 1.5, 2]


def test_gradient_is_differentiable():
    x = rand(3, 4).requires_grad_()
    points = [torch.tensor([0.0, 1, 3], dtype=F8), torch.tensor([0.0, 0.5, 2, 3], dtype=F8)]
    assert torch.autograd.gradcheck(lambda v: torch.gradient(v, edge_order=2), (x,))
    assert torch.autograd.gradcheck(lambda v: torch.gradient(v, spacing=points), (x,))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"edge_order": 3}, "edge_order=1 and edge_order=2"),
        ({"spacing": [1.0, 2.0], "dim": 0}, "same length"),
        ({"dim": (0, -2)}, "multiple times"),
        ({"spacing": [torch.ones(2), torch.ones(4)]}, "3 coordinates"),
    ],
)
def test_gradient_refuses(args, message):
    with pytest.raises(RuntimeError, match=message):
        torch.gradient(rand(3, 4), **args)


def test_gradient_refuses_short_dims_and_uint8():
    with pytest.raises(RuntimeError, match="edge_order"):
        torch.gradient(rand(1))
    with pytest.raises(RuntimeError, match="uint8"):
        torch.gradient(torch.ones(3, dtype=torch.uint8))
    with pytest.raises(IndexError):
        torch.gradient(rand(3), dim=1)


def test_integrals_over_points():
    y, x = rand(3, 4), rand(4).cumsum(0)
    want = np.trapezoid(y.numpy(), x.numpy())
    np.testing.assert_allclose(torch.trapezoid(y, x).numpy(), want, rtol=1e-12)
    np.testing.assert_allclose(torch.trapz(y, x).numpy(), want, rtol=1e-12)
    running = torch.cumulative_trapezoid(y, x)
    assert running.shape == (3, 3)
    np.testing.assert_allclose(running[:, -1].numpy(), want, rtol=1e-12)
    steps = torch.trapezoid(y[:, 1:3], x[1:3])
    np.testing.assert_allclose((running[:, 1] - running[:, 0]).numpy(), steps.numpy(), rtol=1e-9)
    assert torch.trapezoid(torch.tensor([1, 2, 4])).item() == 4.5
    assert torch.trapezoid(rand(1)).item() == 0 and torch.trapezoid(rand(0)).item() == 0


def test_integrals_refuse():
    with pytest.raises(RuntimeError, match="one `x` value for each sample point"):
        torch.trapezoid(rand(3), rand(4))
    with pytest.raises(RuntimeError, match="bool"):
        torch.trapezoid(torch.tensor([True, False]))
    with pytest.raises(IndexError):
        torch.trapezoid(torch.tensor(1.0))
    with pytest.raises(RuntimeError, match="real number"):
        torch.cumulative_trapezoid(rand(3), dx=1j)


def test_backward_of_running_sums_runs_twice():
    """A running sum saves nothing, so its first backward frees nothing."""
    y = rand(3, 4).requires_grad_()
    out = torch.cumulative_trapezoid(y, dim=0)
    first, second = (torch.autograd.grad(out.sum(), y)[0] for _ in range(2))
    assert torch.equal(first, second) and first[:, 0].tolist() == [1.0, 1.5, 0.5]


def test_diff_refuses():
    with pytest.raises(RuntimeError, match="order must be non-negative"):
        torch.diff(rand(3), -1)
    with pytest.raises(RuntimeError, match="at least one-dimensional"):
        torch.diff(torch.tensor(1.0))
    with pytest.raises(RuntimeError, match="same dimension as input"):
        torch.diff(rand(3), prepend=torch.tensor(1.0))
    with pytest.raises(RuntimeError, match="except along the differencing dimension"):
        torch.diff(rand(3, 4), append=rand(2, 2))


# ---- statistics ---------------------------------------------------------------------------------


def test_covariance_refuses_and_warns():
    x = rand(3, 4)
    for weights, message in (
        ({"fweights": torch.ones(4)}, "integral"),
        ({"aweights": torch.ones(4, dtype=torch.int64)}, "floating"),
        ({"fweights": torch.ones(3, dtype=torch.int64)}, "same numel"),
        ({"fweights": torch.tensor([1, 1, 1, -1])}, "negative"),
        ({"aweights": torch.zeros(4)}, "sum to zero"),
    ):
        with pytest.raises(RuntimeError, match=message):
            torch.cov(x, **weights)
    with pytest.warns(UserWarning, match="degrees of freedom"):
        assert torch.cov(x, correction=4)[0, 0].item() == math.inf
    with pytest.raises(RuntimeError, match="two or fewer dimensions"):
        torch.corrcoef(rand(2, 3, 4))


def test_covariance_of_complex_numbers():
    x = torch.randn(3, 5, dtype=torch.complex128)
    np.testing.assert_allclose(torch.cov(x).numpy(), np.cov(x.numpy()), rtol=1e-12)
    np.testing.assert_allclose(x.corrcoef().numpy(), np.corrcoef(x.numpy()), rtol=1e-12, atol=1e-14)


def test_weighted_covariance():
    x, w = rand(3, 4).requires_grad_(), rand(4).requires_grad_()
    counts = torch.tensor([1, 3, 2, 1])
    for correction in (0, 1):
        got = torch.cov(x, correction=correction, fweights=counts, aweights=w)
        want = np.cov(
            x.detach().numpy(),
            ddof=correction,
            fweights=counts.numpy(),
            aweights=w.detach().numpy(),
        )
        np.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-10)
        f = lambda v, a, c=correction: torch.cov(v, correction=c, fweights=counts, aweights=a)
        assert torch.autograd.gradcheck(f, (x, w)) and torch.autograd.gradgradcheck(f, (x, w))
    z = torch.randn(3, 4, dtype=torch.complex128)
    want = np.cov(z.numpy(), aweights=w.detach().numpy())
    np.testing.assert_allclose(torch.cov(z, aweights=w.detach()).numpy(), want, rtol=1e-10)


# ---- complex numbers ----------------------------------------------------------------------------


def test_sums_of_complex_exponentials():
    z, w = (torch.randn(3, 4, dtype=torch.complex128, requires_grad=True) for _ in range(2))
    want = np.log(np.cumsum(np.exp(z.detach().numpy()), 1))
    np.testing.assert_allclose(torch.logcumsumexp(z, 1).exp().detach().numpy(), np.exp(want))
    big = torch.tensor([[800 + 1j, 799 - 1j, -900 + 2j]], dtype=torch.complex128)
    for f in (lambda v: torch.logsumexp(v, 1), lambda v: torch.logcumsumexp(v, 1)[:, -1]):
        np.testing.assert_allclose(
            (f(big) - 800).exp().numpy(), (big - 800).exp().sum(1).numpy(), rtol=1e-12
        )
    low = torch.full((1, 2), -math.inf, dtype=torch.complex128)
    assert torch.logsumexp(low, 1).real.item() == -math.inf
    for f, values in (
        (lambda v: torch.logsumexp(v, (0, 1)), (z,)),
        (lambda v: torch.logcumsumexp(v, 1), (z,)),
        (torch.logaddexp, (z, w)),
        (torch.nn.functional.softsign, (z,)),
    ):
        assert torch.autograd.gradcheck(f, values, check_forward_ad=True)
        assert torch.autograd.gradgradcheck(f, values)


def test_scatter_reduce_and_bincount_of_complex_numbers():
    z, w = (torch.randn(3, 4, dtype=torch.complex128) for _ in range(2))
    index = torch.tensor([[0, 1, 1, 2], [0, 0, 0, 0], [3, 2, 1, 0]])
    for reduce in ("sum", "prod", "mean"):
        for include_self in (True, False):
            got = z.scatter_reduce(1, index, w, reduce, include_self=include_self)
            for i in range(3):
                for j in range(4):
                    found = [w[i, k] for k in range(4) if index[i, k] == j]
                    values = torch.stack(([z[i, j]] if include_self or not found else []) + found)
                    want = getattr(values, reduce)()
                    assert torch.allclose(got[i, j], want)
    with pytest.raises(NotImplementedError, match="extremes"):
        z.scatter_reduce(1, index, w, "amax")
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        got = torch.bincount(torch.tensor([0, 2, 2]), w[0, :3])
    assert torch.allclose(got, torch.stack([w[0, 0].real, w.real[0, 0] * 0, w[0, 1:3].real.sum()]))


def test_frexp():
    x = torch.tensor([1.0, -3, 0, 0.15625, 1e300, 5e-324], dtype=F8)
    mantissa, exponent = torch.frexp(x)
    m, e = np.frexp(x.numpy())
    assert np.array_equal(mantissa.numpy(), m) and np.array_equal(exponent.numpy(), e)
    assert exponent.dtype is torch.int32 and torch.equal(mantissa.ldexp(exponent), x)
    special = torch.tensor([math.inf, -math.inf, math.nan])
    assert special.frexp().exponent.tolist() == [0, 0, 0]
    assert special.frexp().mantissa.tolist()[:2] == [math.inf, -math.inf]
    half = torch.tensor([1.5, -0.25], dtype=torch.float16)
    assert half.frexp().mantissa.tolist() == [0.75, -0.5]
    v = torch.tensor([3.0, 0.3], dtype=F8, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: torch.frexp(t).mantissa, (v,))
    with pytest.raises(RuntimeError, match="floating-point"):
        torch.frexp(torch.tensor([1]))


@pytest.mark.parametrize("density", [False, True])
def test_histogramdd_is_numpys(density):
    x, w = rand(50, 3), rand(50)
    cases = [
        {"bins": 3},
        {"bins": [2, 3, 4]},
        {"bins": [2, 3, 4], "range": [0.1, 0.9, 0.0, 1.0, 0.2, 0.5]},
        {"bins": [torch.tensor(e, dtype=F8) for e in ([0, 0.5, 1], [0.2, 0.3], [0, 0.1, 0.9])]},
    ]
    for case in cases:
        for weight in (None, w):
            hist, edges = torch.histogramdd(x, density=density, weight=weight, **case)
            span = case.get("range")
            want, ends = np.histogramdd(
                x.numpy(),
                [b.numpy() for b in case["bins"]]
                if isinstance(case["bins"], list) and isinstance(case["bins"][0], torch.Tensor)
                else case["bins"],
                range=None if span is None else [span[i : i + 2] for i in (0, 2, 4)],
                weights=None if weight is None else weight.numpy(),
                density=density,
            )
            np.testing.assert_allclose(hist.numpy(), want, rtol=1e-9)
            for a, b in zip(edges, ends, strict=True):
                np.testing.assert_allclose(a.numpy(), b, rtol=1e-12)


def test_histogramdd_refuses():
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        torch.histogramdd(rand(5), [2])
    with pytest.raises(RuntimeError, match="innermost dimension"):
        torch.histogramdd(rand(5, 2), [2])
    with pytest.raises(RuntimeError, match="weight"):
        torch.histogramdd(rand(5, 2), 2, weight=rand(4))
    with pytest.raises(RuntimeError, match="not finite"):
        torch.histogramdd(torch.full((3, 1), math.nan), 2)
    with pytest.raises(RuntimeError, match="4 elements"):
        torch.histogramdd(rand(5, 2), 2, range=[0.0, 1.0])


# ---- indices, ranges, matrices ------------------------------------------------------------------


def test_unravel_index():
    indices = torch.tensor([[5, 11], [0, 23]])
    for shape in ((2, 3, 4), (24,)):
        want = np.unravel_index(indices.numpy(), shape)
        for a, b in zip(torch.unravel_index(indices, shape), want, strict=True):
            assert np.array_equal(a.numpy(), b)
    assert torch.unravel_index(torch.tensor(3), 4)[0].item() == 3
    for dtype in (torch.uint8, torch.int8, torch.int32):
        row, col = torch.unravel_index(torch.tensor([100], dtype=dtype), (20, 30))
        assert row.dtype is col.dtype is torch.int64 and (row.item(), col.item()) == (3, 10)
    with pytest.raises(TypeError, match="integer dtype"):
        torch.unravel_index(torch.tensor([1.0]), (2,))
    with pytest.raises(ValueError, match="negative"):
        torch.unravel_index(torch.tensor([1]), (-1,))


def test_nonzero_static():
    x = torch.tensor([[0, 1, 0], [2, 0, 3]])
    assert torch.nonzero_static(x, size=2).tolist() == [[0, 1], [1, 0]]
    assert x.nonzero_static(size=4, fill_value=9).tolist() == [[0, 1], [1, 0], [1, 2], [9, 9]]
    assert torch.nonzero_static(torch.tensor(3.0), size=2).shape == (2, 0)
    with pytest.raises(RuntimeError, match="non-negative"):
        torch.nonzero_static(x, size=-1)


def test_range_includes_its_end():
    with pytest.warns(UserWarning, match="deprecated"):
        assert torch.range(0, 3).tolist() == [0, 1, 2, 3]
    with pytest.warns(UserWarning, match="deprecated"):
        assert torch.range(3, 1, -0.5, dtype=F8).tolist() == [3, 2.5, 2, 1.5, 1]
    with pytest.warns(UserWarning, match="deprecated"):
        assert torch.range(0, 2, dtype=torch.int64).dtype is torch.int64
    with (
        pytest.warns(UserWarning, match="deprecated"),
        pytest.raises(RuntimeError, match="nonzero"),
    ):
        torch.range(0, 1, 0)
    with (
        pytest.warns(UserWarning, match="deprecated"),
        pytest.raises(RuntimeError, match="inconsistent"),
    ):
        torch.range(3, 0)


@pytest.mark.parametrize("n", [None, 0, 1, 2, 6])
def test_vander_is_numpys(n):
    x = rand(4)
    for increasing in (False, True):
        want = np.vander(x.numpy(), n, increasing)
        np.testing.assert_allclose(torch.vander(x, n, increasing).numpy(), want, rtol=1e-12)
    assert torch.vander(torch.tensor([1, 2]), 3).tolist() == [[1, 1, 1], [4, 2, 1]]


def test_empty_permuted():
    assert torch.empty_permuted((2, 3, 4), (0, 2, 1)).stride() == (12, 1, 3)
    assert torch.empty_permuted((2, 3), (1, 0), dtype=F8, requires_grad=True).requires_grad
    for layout, message in (((0,), "does not match"), ((0, 0), "Duplicate"), ((0, 2), "range")):
        with pytest.raises(RuntimeError, match=message):
            torch.empty_permuted((2, 3), layout)


def test_norms_under_old_names():
    x = rand(3, 4)
    norm = np.linalg.norm(x.numpy())
    assert torch.frobenius_norm(x, [0, 1]).item() == pytest.approx(norm)
    assert torch.nuclear_norm(x).item() == pytest.approx(np.linalg.norm(x.numpy(), "nuc"))
    assert torch.norm_except_dim(x, 2, 1).shape == (1, 4)
    assert torch.norm_except_dim(x, 2, -1).item() == pytest.approx(norm)


def test_cond_runs_one_branch():
    x = rand(3)
    assert torch.equal(torch.cond(torch.tensor(True), lambda v: v + 1, None.__class__, (x,)), x + 1)
    assert torch.cond(False, lambda: 1, lambda: 2) == 2
    with pytest.raises(RuntimeError, match="single-element"):
        torch.cond(x > 0, abs, abs, (x,))


def test_predicates_and_views():
    x, z = rand(2, 3), torch.randn(2, 3, dtype=torch.complex64)
    assert torch.is_same_size(x, z) and not x.is_same_size(rand(3))
    assert torch.is_signed(x) and not torch.is_signed(torch.ones(1, dtype=torch.uint8))
    assert not (torch.is_conj(z) or torch.is_neg(z) or torch.is_distributed(z))
    assert torch.resolve_neg(x) is x and torch.get_device(x) == x.get_device()
    assert torch.equal(torch.adjoint(z), z.mH) and torch.equal(x.adjoint(), x.mT)
    with pytest.raises(RuntimeError, match="only supported on matrices"):
        x[0].adjoint()
    y = x.clone().requires_grad_()
    assert not torch.detach(y * 2).requires_grad and torch.detach_(y * 1).grad_fn is None
    assert torch.as_strided_(x.clone(), (2, 2), (1, 2)).shape == (2, 2)
    whole = torch.arange(6.0)
    assert torch.slice_inverse(whole[0:2], whole, 0, 0, 2).data_ptr() == whole.data_ptr()
    assert torch.equal(whole[0:2].slice_inverse(whole, 0, 0, 2), whole)


def test_methods():
    x = rand(2, 3)
    assert x.cdouble().dtype is torch.complex128 and x.cfloat().dtype is torch.complex64
    with pytest.raises(NotImplementedError, match="complex32"):
        x.chalf()
    assert x.const_data_ptr() == x.data_ptr() and x.grad_dtype is F8
    assert x.dim_order() == (0, 1) and x.t().dim_order() == (1, 0)
    assert x.clone().float_power_(2).allclose(x * x)
    with pytest.raises(RuntimeError, match="float_power_"):
        x.float().float_power_(2)
    assert torch.tensor(3.0).is_nonzero()
    assert x.clone().map2_(x, x, lambda a, b, c: a + b + c).allclose(3 * x)
    with pytest.warns(UserWarning, match="resize is deprecated"):
        assert x.resize(3, 2).shape == (3, 2)
    with pytest.warns(UserWarning, match="resize_as is deprecated"):
        assert x.resize_as(rand(6)).shape == (6,)
    for name in ("indices", "values"):
        with pytest.raises(RuntimeError, match="layout but got Strided"):
            getattr(x, name)()
    with pytest.raises(RuntimeError, match="removed"):
        x.reinforce(1.0)
    target = torch.zeros(2, 3, dtype=F8)
    assert target.module_load(x) is target and torch.equal(target, x)


# ---- randomised decompositions ------------------------------------------------------------------


def low_rank(m, n, rank, dtype=F8):
    return torch.randn(m, rank, dtype=dtype) @ torch.randn(rank, n, dtype=dtype)


@pytest.mark.parametrize(("m", "n"), [(20, 12), (12, 20)])
def test_svd_lowrank(m, n):
    A = low_rank(m, n, 4)
    U, S, V = torch.svd_lowrank(A, q=4)
    assert U.shape == (m, 4) and S.shape == (4,) and V.shape == (n, 4)
    assert torch.allclose(U * S @ V.mT, A, atol=1e-10)
    assert torch.allclose(S, torch.linalg.svdvals(A)[:4], rtol=1e-10)
    M = A.mean(0, keepdim=True)
    U, S, V = torch.svd_lowrank(A, q=5, M=M)
    assert torch.allclose(U * S @ V.mT, A - M, atol=1e-10)


def test_svd_lowrank_of_batches_and_complex_matrices():
    A = low_rank(10, 8, 3, torch.complex128)
    U, S, V = torch.svd_lowrank(torch.stack([A, 2 * A]), q=3)
    assert torch.allclose(U * S.unsqueeze(-2) @ V.mH, torch.stack([A, 2 * A]), atol=1e-9)


def test_pca_lowrank():
    A = low_rank(30, 6, 3) + 5
    U, S, V = torch.pca_lowrank(A, q=3)
    centred = A - A.mean(0)
    assert torch.allclose(U * S @ V.mT, centred, atol=1e-9)
    assert torch.pca_lowrank(A)[1].shape == (6,)
    with pytest.raises(ValueError, match="not greater than"):
        torch.pca_lowrank(A, q=7)
    with pytest.raises(ValueError, match="niter"):
        torch.pca_lowrank(A, niter=-1)


@pytest.mark.parametrize("name", ["svd_lowrank", "pca_lowrank", "lobpcg"])
def test_iterations_that_would_not_end_are_refused(name):
    with pytest.raises(
        ValueError, match=r"\(\): niter must be at most 65536, got 4611686018427387904"
    ):
        getattr(torch, name)(torch.eye(4), niter=2**62)


@pytest.mark.parametrize("largest", [True, False])
def test_lobpcg(largest):
    A = torch.randn(20, 20, dtype=F8)
    A = A @ A.mT + torch.eye(20, dtype=F8)
    values, vectors = torch.lobpcg(A, 3, largest=largest, tol=1e-10)
    want = torch.linalg.eigvalsh(A)
    want = want.flip(0)[:3] if largest else want[:3]
    assert torch.allclose(values, want, rtol=1e-8)
    assert torch.allclose(A @ vectors, vectors * values, atol=1e-5)
    B = torch.diag(torch.linspace(1, 2, 20, dtype=F8))
    values, vectors = torch.lobpcg(A, 2, B=B, largest=largest, iK=torch.linalg.inv(A), tol=1e-10)
    assert torch.allclose(A @ vectors, B @ vectors * values, atol=1e-5)


def test_lobpcg_eigenvalues_are_differentiable():
    A = torch.randn(9, 9, dtype=F8)
    A = (A + A.mT + 20 * torch.eye(9, dtype=F8)).requires_grad_()
    torch.lobpcg(A, 2, tol=1e-12)[0].sum().backward()
    B = A.detach().clone().requires_grad_()
    torch.linalg.eigvalsh(B)[-2:].sum().backward()
    assert torch.allclose(A.grad, B.grad, atol=1e-6)
    with pytest.raises(ValueError, match="smaller than"):
        torch.lobpcg(A, 4)


# ---- global switches ----------------------------------------------------------------------------


def test_deterministic_algorithms():
    assert not torch.are_deterministic_algorithms_enabled()
    try:
        torch.use_deterministic_algorithms(True, warn_only=True)
        assert torch.is_deterministic_algorithms_warn_only_enabled()
        assert torch.get_deterministic_debug_mode() == 1
        torch.set_deterministic_debug_mode("error")
        assert torch.get_deterministic_debug_mode() == 2
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.get_deterministic_debug_mode() == 0
    with pytest.raises(RuntimeError, match="expected 0, 1, or 2"):
        torch.set_deterministic_debug_mode(5)
    with pytest.raises(TypeError):
        torch.use_deterministic_algorithms(1)


def test_switches_that_change_nothing():
    assert torch.get_float32_matmul_precision() == "highest"
    torch.set_float32_matmul_precision("high")
    assert torch.get_float32_matmul_precision() == "high"
    torch.set_float32_matmul_precision("highest")
    with pytest.warns(UserWarning, match="is not one of"):
        torch.set_float32_matmul_precision("foo")
    assert torch.set_flush_denormal(False) and not torch.set_flush_denormal(True)
    assert torch.get_num_interop_threads() >= 1
    with pytest.raises(RuntimeError, match="positive"):
        torch.set_num_interop_threads(0)


def test_default_device_and_type():
    assert torch.get_default_device() == torch.device("cpu")
    torch.set_default_device("cpu")
    torch.set_default_device(None)
    with pytest.raises(RuntimeError, match="no cuda device to use; pass device='cpu'"):
        torch.set_default_device("cuda")
    assert torch.get_device_module("cpu") is torch and torch.get_device_module("cuda") is torch.cuda
    try:
        torch.set_default_tensor_type("torch.DoubleTensor")
        assert torch.get_default_dtype() is F8
        torch.set_default_tensor_type(torch.FloatTensor)
        assert torch.get_default_dtype() is torch.float32
    finally:
        torch.set_default_dtype(torch.float32)
    with pytest.raises(TypeError, match="floating-point"):
        torch.set_default_tensor_type("torch.LongTensor")
    assert isinstance(torch.strided, torch.layout) and torch.ones(1).layout == torch.strided


def test_names_of_the_functional_at_the_top():
    x, table = torch.randn(4, 3), torch.randn(5, 3)
    functional = torch.nn.functional
    indices = torch.tensor([0, 4, 1])
    assert torch.equal(torch.embedding(table, indices), table[indices])
    assert torch.equal(torch.pdist(x), functional.pdist(x))
    target = torch.ones(4, 3)
    for number, name in enumerate(("none", "mean", "sum")):
        got = torch.binary_cross_entropy_with_logits(x, target, reduction=number)
        wanted = functional.binary_cross_entropy_with_logits(x, target, reduction=name)
        assert torch.equal(got, wanted)
    z = torch.tensor([1 + 2j])
    assert torch.resolve_conj(z) is z and not torch.is_conj(z.conj())
