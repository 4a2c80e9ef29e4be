# SPDX-License-Identifier: BSD-3-Clause
"""Reductions, cumulative ops, sorting, counting: every dims form, dtype, NaN, empty, 0-dim."""

import math

import numpy as np
import pytest
from op_items import each_cell

import cograd as torch
from cograd.autograd import gradcheck, gradgradcheck

F8 = torch.float64
INF, NAN = math.inf, math.nan


def rand(*shape, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, shape)


def logsumexp(x, axis=None, keepdims=False):
    return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims))


# name: (numpy function, accepts a tuple of dims, works without dim)
REDUCTIONS = {
    "sum": (np.sum, True, True),
    "mean": (np.mean, True, True),
    "prod": (np.prod, False, True),
    "var": (lambda x, **k: np.var(x, ddof=1, **k), True, True),
    "std": (lambda x, **k: np.std(x, ddof=1, **k), True, True),
    "amin": (np.min, True, True),
    "amax": (np.max, True, True),
    "logsumexp": (logsumexp, True, False),
    "norm": (lambda x, **k: np.sqrt(np.sum(x * x, **k)), True, True),
    "nansum": (np.nansum, True, True),
}
DIMS = [0, 1, 2, -1, -3, (0,), (0, 1), (0, 2), (2, 0), (-1, -2), (0, 1, 2)]


@each_cell("name", REDUCTIONS)
@each_cell("dim", DIMS, ids=str)
@each_cell("keepdim", [False, True])
def test_dims(name, dim, keepdim):
    f, many, _ = REDUCTIONS[name]
    if isinstance(dim, tuple) and not many:
        with pytest.raises(TypeError):
            getattr(torch, name)(torch.ones(2, 3, 4), dim)
        return
    if name == "norm" and isinstance(dim, tuple) and len(dim) > 2:
        return  # torch refuses p="fro" over three dims
    x = rand(2, 3, 4)
    for dtype, rtol in ((F8, 1e-12), (torch.float32, 1e-5)):
        t = torch.tensor(x, dtype=dtype)
        want = f(x, axis=dim, keepdims=keepdim)
        for got in (
            getattr(torch, name)(t, dim=dim, keepdim=keepdim),
            getattr(t, name)(dim=dim, keepdim=keepdim),
        ):
            assert got.shape == want.shape and got.dtype is dtype
            np.testing.assert_allclose(got.numpy(), want, rtol=rtol)


@each_cell("name", [n for n, r in REDUCTIONS.items() if r[2]])
@each_cell("shape", [(5,), (2, 3), (2, 3, 4), (1, 1), (3000,), (40, 50)])
def test_full(name, shape):
    if math.prod(shape) == 1 and name in ("var", "std"):
        return
    f = REDUCTIONS[name][0]
    x = rand(*shape) + (1 if name == "prod" else 0)
    got = getattr(torch, name)(torch.tensor(x))
    assert got.shape == ()
    np.testing.assert_allclose(got.numpy(), f(x), rtol=1e-10)


@each_cell("name", REDUCTIONS)
@each_cell(
    "view",
    [
        lambda t: t.permute(2, 0, 1),
        lambda t: t[::2, 1:, ::3],
        lambda t: t[:1].expand(3, 5, 7),
        lambda t: t[..., 0],
    ],
)
def test_strided(name, view):
    f = REDUCTIONS[name][0]
    t = view(torch.tensor(rand(4, 5, 7)))
    for d in range(t.ndim):
        np.testing.assert_allclose(
            getattr(t, name)(dim=d).numpy(), f(t.numpy(), axis=d), rtol=1e-12, atol=1e-14
        )


@pytest.mark.parametrize("name", REDUCTIONS)
def test_gradients(name):
    x = torch.tensor(rand(2, 3), requires_grad=True)
    f = getattr(torch, name)
    forms = [lambda t: f(t, dim=1), lambda t: f(t, dim=0, keepdim=True)]
    if REDUCTIONS[name][2]:
        forms.append(f)
    if REDUCTIONS[name][1]:
        forms.append(lambda t: f(t, dim=(0, 1)))
    for g in forms:
        assert gradcheck(g, (x,)) and gradgradcheck(g, (x,))


def test_positional_and_negative_forms():
    t = torch.arange(6.0).reshape(2, 3)
    assert t.sum(0).tolist() == t.sum(-2).tolist() == torch.sum(t, [0]).tolist() == [3, 5, 7]
    assert t.sum(0, True).shape == (1, 3)
    assert t.mean((0, 1)).item() == t.mean().item() == 2.5
    assert t.sum(()).item() == 15 and t.sum(None).item() == 15


@pytest.mark.parametrize(
    "name", list(REDUCTIONS) + ["argmax", "argmin", "all", "any", "cumsum", "cumprod", "max", "min"]
)
def test_dim_errors(name):
    f = getattr(torch, name)
    with pytest.raises(IndexError, match=r"expected to be in range of \[-2, 1\], but got 2"):
        f(torch.ones(2, 3), dim=2)
    with pytest.raises(IndexError, match="got -3"):
        f(torch.ones(2, 3), dim=-3)
    with pytest.raises(IndexError, match=r"range of \[-1, 0\], but got 1"):
        f(torch.ones(()), dim=1)
    if name in REDUCTIONS and REDUCTIONS[name][1]:
        for dims in ((0, 0), (0, -2)):
            with pytest.raises(
                RuntimeError, match="dim 0 appears multiple times in the list of dims"
            ):
                f(torch.ones(2, 3), dim=dims)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "amax", "amin", "logsumexp", "norm"])
def test_zero_dim_tensors_reduce_over_dim_0(name):
    t = torch.tensor(2.0)
    for d in (0, -1):
        assert getattr(t, name)(dim=d).shape == ()
        assert abs(getattr(t, name)(dim=d).item() - 2.0) < 1e-6


def test_dtype_argument():
    t = torch.tensor([1.5, 2.5])
    assert t.sum(dtype=F8).dtype is F8
    assert t.sum(dtype=torch.int64).item() == 3, "the elements are cast first"
    assert t.mean(dtype=F8).item() == 2
    assert t.prod(dtype=F8).item() == 3.75
    assert t.cumsum(0, dtype=F8).dtype is F8
    assert torch.sum(torch.tensor([True, True]), dtype=torch.int32).dtype is torch.int32
    assert torch.norm(t, dtype=F8).dtype is F8
    big = torch.full((70000,), 1.0, dtype=torch.float16)
    assert big.sum().item() == INF and big.sum(dtype=torch.float32).item() == 70000
    assert torch.full((3000,), 1.0, dtype=torch.float16).sum().item() == 3000, (
        "float16 sums in float32"
    )


def test_sum_is_accurate():
    x = np.full(10_000_000 // 20, 0.1, dtype=np.float32)
    assert abs(torch.from_numpy(x).sum().item() - 50000) < 0.5
    ramp = torch.arange(100000, dtype=torch.float32)
    assert abs(ramp.mean().item() - 49999.5) < 0.05


# ---------------------------------------------------------------- empty and NaN


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "amax", "amin", "norm"])
@pytest.mark.parametrize("dtype", [torch.float32, F8, torch.int64, torch.bfloat16])
def test_rows_have_the_bits_of_a_single_row(name, dtype):
    if not dtype.is_floating_point and name in ("mean", "norm"):
        pytest.skip("a floating-point op")
    op = getattr(torch, name)
    for size in (1, 3, 4, 7, 8, 15, 16, 17, 33, 63, 64, 65, 196, 1000, 4096, 4100):
        x = torch.from_numpy(rand(7, size + 3, seed=size) * 40).to(dtype)
        if dtype.is_floating_point:
            x[2, size // 2] = NAN
            x[5] = -0.0
        for rows in (x[:, :size], x[:, :size].contiguous()):
            each = [op(rows[i].clone()) for i in range(7)]
            got = op(rows, dim=1)
            same = torch.stack(each)
            # NaN is compared as NaN, and zeros with their signs.
            assert got.isnan().tolist() == same.isnan().tolist()
            assert torch.equal(got.nan_to_num(), same.nan_to_num()), (size, got, same)
            assert torch.equal(got.signbit(), same.signbit()) or got.isnan().any()


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("n", [1, 2, 5, 8, 1000, 4099, 16_384, 16_385, 300_001])
def test_complex_sums_are_those_of_their_parts(dtype, n):
    x = torch.from_numpy(rand(n, seed=1) + 1j * rand(n, seed=2)).to(dtype)
    exact = x.to(torch.complex128).numpy()
    want = complex(math.fsum(exact.real), math.fsum(exact.imag))
    # Blocks of 4096 numbers are added in the dtype, the rest in float64.
    bound = n * torch.finfo(dtype).eps / (8 if n > 64 else 1)
    got = x.sum().item()
    assert abs(got - want) <= max(bound, abs(want) * torch.finfo(dtype).eps), (got, want)
    assert abs(x.mean().item() - want / n) <= bound / n + torch.finfo(dtype).eps
    x[n // 2] = complex(INF, 1)
    assert x.sum().item().real == INF
    assert math.isfinite(x.sum().item().imag)


def test_empty():
    e = torch.zeros(0)
    assert e.sum().item() == 0 and e.prod().item() == 1
    assert math.isnan(e.mean().item())
    assert torch.all(e).item() is True and torch.any(e).item() is False
    assert torch.logsumexp(e, 0).item() == -INF
    assert e.norm().item() == 0 and torch.count_nonzero(e).item() == 0
    m = torch.zeros(0, 3)
    assert m.sum(0).tolist() == [0, 0, 0] and m.sum(1).shape == (0,)
    assert m.prod(0).tolist() == [1, 1, 1]
    assert m.mean(0).isnan().all().item()
    assert m.cumsum(0).shape == (0, 3) and m.amax(1).shape == (0,)
    assert m.max(1).values.shape == (0,) and m.argmax(1).shape == (0,)


def test_empty_extrema_are_errors():
    m = torch.zeros(0, 3)
    for f in (torch.max, torch.min, torch.amax, torch.amin):
        with pytest.raises(RuntimeError, match=r"numel\(\) == 0"):
            f(m)
    for f in (torch.argmax, torch.argmin):
        with pytest.raises(IndexError, match=r"numel\(\) == 0"):
            f(m)
    for f in (torch.max, torch.min, torch.argmax, torch.amax):
        with pytest.raises(IndexError, match="non-zero size"):
            f(m, dim=0)


def test_var_of_too_few_warns():
    for t in (torch.ones(1), torch.zeros(0)):
        with pytest.warns(UserWarning, match="degrees of freedom"):
            assert math.isnan(t.var().item())
    assert torch.ones(1).var(correction=0).item() == 0


def test_nan_propagates():
    t = torch.tensor([1.0, NAN, 3.0])
    for name in ("sum", "mean", "prod", "amax", "amin", "max", "min", "var", "norm"):
        assert math.isnan(getattr(t, name)().item()), name
    assert t.argmax().item() == t.argmin().item() == 1
    v, i = t.max(0)
    assert math.isnan(v.item()) and i.item() == 1
    m = torch.tensor([[1.0, NAN], [2.0, 3.0]])
    assert m.amax(1).isnan().tolist() == [True, False]
    assert m.max(dim=1).indices.tolist() == [1, 1]
    assert torch.nansum(t).item() == 4
    assert t.cumsum(0).isnan().tolist() == [False, True, True]


def test_infinities():
    assert torch.logsumexp(torch.tensor([-INF, -INF]), 0).item() == -INF
    assert torch.logsumexp(torch.tensor([INF, 1.0]), 0).item() == INF
    assert torch.logsumexp(torch.tensor([1000.0, 1000.0]), 0).item() == pytest.approx(
        1000 + math.log(2)
    )
    assert math.isnan(torch.tensor([INF, -INF]).sum().item())


@pytest.mark.parametrize("at", [0, 2500, 4999])
@pytest.mark.parametrize("other", [1000.0, -1000.0, 3e38])
def test_logsumexp_of_an_infinite_term_is_infinite(at, other):
    """The kernel scales the sums of blocks; a scale of 0 must not meet an infinite sum."""
    x = torch.full((2, 5000), other)
    x[1, at] = INF
    for rows in (x.logsumexp(1), x.t().contiguous().logsumexp(0), x.double().logsumexp(1)):
        assert rows[0].item() == pytest.approx(other + math.log(5000))
        assert rows[1].item() == INF
    assert x.logsumexp((0, 1)).item() == INF
    x[0, 10] = NAN
    assert math.isnan(x.logsumexp(1)[0].item())


# ---------------------------------------------------------------- var, std, norm


def test_var_std_forms():
    x = rand(3, 4)
    t = torch.tensor(x)
    for f, g in ((torch.var, np.var), (torch.std, np.std)):
        for ddof in (0, 1, 2):
            np.testing.assert_allclose(
                f(t, dim=1, correction=ddof).numpy(), g(x, axis=1, ddof=ddof), rtol=1e-12
            )
        np.testing.assert_allclose(f(t, unbiased=False).numpy(), g(x), rtol=1e-12)
        np.testing.assert_allclose(f(t, 1, False).numpy(), g(x, axis=1), rtol=1e-12)
        np.testing.assert_allclose(
            f(t, (0, 1), keepdim=True).numpy(), g(x, ddof=1, keepdims=True), rtol=1e-12
        )
    v, m = torch.var_mean(t, dim=0)
    np.testing.assert_allclose(v.numpy(), x.var(0, ddof=1), rtol=1e-12)
    np.testing.assert_allclose(m.numpy(), x.mean(0), rtol=1e-12)
    s, m = torch.std_mean(t)
    assert s.shape == m.shape == ()


def test_var_is_stable():
    t = torch.tensor([1e8 + 1, 1e8 + 2, 1e8 + 3], dtype=F8)
    assert t.var().item() == pytest.approx(1.0)


@pytest.mark.parametrize("repeat", [1, 700])
@pytest.mark.parametrize("transposed", [False, True])
def test_var_of_values_whose_squares_overflow(repeat, transposed):
    # Rows with squares beyond float32's range, with sums beyond it, and with one such large value.
    for rows in ([[0, 1e25, 1]], [[0, 3e38, -3e38]], [[3e38, 3e38, 3e38]], [[1, 2, 2e19]]):
        x = np.repeat(np.array(rows * 19, np.float32), repeat, axis=1)
        t = torch.tensor(np.ascontiguousarray(x.T)).T if transposed else torch.tensor(x)
        std, mean = torch.std_mean(t, 1)
        wide = x.astype(np.float64)
        near = {"rtol": 2e-6, "atol": wide.max() * 1e-7}
        np.testing.assert_allclose(std.numpy(), wide.std(1, ddof=1), **near)
        np.testing.assert_allclose(mean.numpy(), wide.mean(1), **near)


def test_var_that_overflows_is_infinite_and_of_infinite_values_nan():
    for x in ([0, 1e155, 1], [1.7e308, -1.7e308], [1e200] * 1500 + [-1e200] * 1500):
        t = torch.tensor(x, dtype=F8)
        assert t.var().item() == INF == torch.stack([t, t], 1).std(0)[1].item()
    for x in ([INF, 1], [INF, -INF], [NAN, 1], [1, 2] * 1000 + [INF]):
        for dtype in (torch.float32, F8):
            var, mean = torch.var_mean(torch.tensor(x, dtype=dtype))
            assert math.isnan(var.item())
            assert str(mean.item()) == str(sum(x) / len(x))


@pytest.mark.parametrize("p", [0, 0.5, 1, 2, 3, INF, -INF, -1, "fro"])
def test_norm_orders(p):
    x = rand(2, 3) + 2
    t = torch.tensor(x)
    q = 2 if p == "fro" else p

    def vector_norm(a, axis):
        if q == 0:
            return (a != 0).sum(axis).astype(float)
        if abs(q) == INF:
            return (np.max if q > 0 else np.min)(np.abs(a), axis=axis)
        return (np.abs(a) ** q).sum(axis) ** (1 / q)

    np.testing.assert_allclose(torch.norm(t, p).numpy(), vector_norm(x, None), rtol=1e-12)
    np.testing.assert_allclose(t.norm(p=p, dim=1).numpy(), vector_norm(x, 1), rtol=1e-12)
    np.testing.assert_allclose(t.norm(p, (0, 1)).numpy(), vector_norm(x, None), rtol=1e-12)
    assert t.norm(p, 1, True).shape == (2, 1)


def test_norm_gradient_at_zero():
    t = torch.zeros(3, dtype=F8, requires_grad=True)
    t.norm().backward()
    assert t.grad.tolist() == [0, 0, 0], "the subgradient torch takes"


def test_prod_gradient_with_zeros():
    for values in ([2.0, 0.0, 3.0], [0.0, 0.0, 3.0], [1.0, 2.0, 3.0]):
        x = torch.tensor(values, dtype=F8, requires_grad=True)
        x.prod().backward()
        want = [np.prod(values[:i] + values[i + 1 :]) for i in range(3)]
        assert x.grad.tolist() == want
        assert gradgradcheck(torch.prod, (x,))


# ---------------------------------------------------------------- extrema


@pytest.mark.parametrize("name", ["max", "min"])
def test_max_min_with_dim(name):
    x = rand(3, 4, 5)
    t = torch.tensor(x)
    for d in (0, 1, 2, -1):
        for keepdim in (False, True):
            r = getattr(torch, name)(t, d, keepdim)
            arg = getattr(np, "arg" + name)(x, axis=d, keepdims=keepdim)
            np.testing.assert_array_equal(
                r.values.numpy(), getattr(np, name)(x, axis=d, keepdims=keepdim)
            )
            np.testing.assert_array_equal(r.indices.numpy(), arg)
            values, indices = r
            assert values is r[0] and torch.equal(indices, r[1]) and len(r) == 2
    assert torch.tensor(3.0).max(0).indices.item() == 0


def test_named_tuple_results():
    t = torch.tensor([[3, 1], [2, 5]])
    for r, fields in [
        (t.max(1), ("values", "indices")),
        (t.sort(1), ("values", "indices")),
        (t.topk(1), ("values", "indices")),
    ]:
        assert isinstance(r, tuple) and all(hasattr(r, f) for f in fields)
        assert "max" in repr(t.max(1)) and "values=" in repr(r)


def test_extrema_of_integers_and_bools():
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        t = torch.tensor([3, 1, 2], dtype=dtype)
        assert (t.max().item(), t.min().item(), t.argmax().item(), t.argmin().item()) == (
            3,
            1,
            0,
            1,
        )
        assert t.amax(0).dtype is dtype
    b = torch.tensor([True, False])
    assert b.max().item() is True and b.amin(0).item() is False


def test_argmax_forms():
    t = torch.tensor([[1, 5, 2], [7, 0, 7]])
    assert t.argmax().item() == 3 and t.argmin().item() == 4
    assert t.argmax(1).tolist() == t.argmax(dim=-1).tolist() == [1, 0]
    assert t.argmax(1, keepdim=True).shape == (2, 1) and t.argmax(keepdim=True).shape == (1, 1)
    assert torch.tensor(5).argmax().item() == 0


def test_extrema_gradients():
    x = torch.tensor([1.0, 3.0, 3.0, 2.0], dtype=F8, requires_grad=True)
    (g,) = torch.autograd.grad(x.amax(), x)
    assert g.tolist() == [0, 0.5, 0.5, 0], "amax shares among ties"
    (g,) = torch.autograd.grad(x.max(), x)
    assert g.tolist() == [0, 0.5, 0.5, 0]
    (g,) = torch.autograd.grad(x.max(0).values, x)
    assert g.sum().item() == 1 and g.max().item() == 1, "max over a dim picks one"
    y = torch.tensor(rand(3, 4), requires_grad=True)
    assert gradcheck(lambda t: t.max(1).values, (y,)) and gradgradcheck(lambda t: t.min(0)[0], (y,))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize(
    ("shape", "dims"),
    [
        ((70_001,), None),
        ((3, 40_000), 1),
        ((3, 40_000), 0),
        ((700, 600), (0, 1)),
        ((300, 1100), 0),
        ((2, 300, 515), 1),
        ((2, 300, 515), (0, 2)),
        ((40, 5, 3), (1, 2)),
        ((4, 1, 5), 1),
        ((6,), None),
        ((), None),
    ],
)
def test_ties_share_the_gradient_alike_with_and_without_a_graph(shape, dims, dtype):
    rng = np.random.default_rng(0)
    for special in (0.0, math.nan, math.inf):
        a = np.asarray(rng.integers(0, 5, shape), dtype=np.float64)
        if special != 0.0 and a.size:
            a.flat[a.size // 2] = a.flat[-1] = special
        for transposed in (False, True):
            x = torch.tensor(a, dtype=dtype)
            x = x.t().contiguous().t() if transposed and x.dim() == 2 else x
            x.requires_grad_()
            y = x.amax() if dims is None else x.amax(dims)
            g = torch.tensor(rng.standard_normal(y.shape), dtype=dtype)
            (fused,) = torch.autograd.grad(y, x, g, retain_graph=True)
            (formula,) = torch.autograd.grad(y, x, g, create_graph=True)
            assert torch.isnan(fused).any() == math.isnan(special), "a NaN extreme gives NaN"
            fused, formula = (torch.nan_to_num(v.detach(), nan=7.0) for v in (fused, formula))
            assert torch.equal(fused, formula), (special, transposed)
            assert fused.shape == x.shape


def test_elements_beside_the_extreme_get_zero_whatever_the_gradient():
    x = torch.tensor([[1.0, 3.0], [3.0, 2.0]], requires_grad=True)
    (g,) = torch.autograd.grad(x.max(), x, torch.tensor(math.inf))
    assert g.tolist() == [[0, math.inf], [math.inf, 0]]
    (g,) = torch.autograd.grad(x.amax(1), x, torch.tensor([math.nan, 1.0]))
    assert g[0, 0].item() == 0 and math.isnan(g[0, 1].item()) and g[1].tolist() == [1, 0]


def test_aminmax():
    r = torch.aminmax(torch.tensor([[1, 2], [3, 0]]))
    assert (r.min.item(), r.max.item()) == (0, 3)


# ---------------------------------------------------------------- all, any, count, cumulative


@pytest.mark.parametrize("name", ["all", "any"])
def test_all_any(name):
    x = np.array([[True, False, True], [True, True, True]])
    f, g = getattr(torch, name), getattr(np, name)
    for source in (torch.tensor(x), torch.tensor(x.astype(float)), torch.tensor(x.astype(int))):
        assert f(source).item() == g(x) and f(source).dtype is torch.bool
        for d in (0, 1, -1):
            assert f(source, d).tolist() == g(x, axis=d).tolist()
        assert f(source, dim=1, keepdim=True).shape == (2, 1)
        assert f(source, dim=(0, 1)).item() == g(x)
    assert f(torch.tensor([NAN])).item() is True


def test_count_nonzero():
    t = torch.tensor([[1.0, 0.0, NAN], [0.0, 0.0, -2.0]])
    assert torch.count_nonzero(t).item() == t.count_nonzero().item() == 3
    assert torch.count_nonzero(t, dim=0).tolist() == [1, 0, 2]
    assert torch.count_nonzero(t, dim=(0, 1)).item() == 3
    assert torch.count_nonzero(t).dtype is torch.int64


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize("shape", [(5,), (2, 3), (2, 3, 4), (0, 3), (3, 0)])
def test_cumulative(name, shape):
    x = rand(*shape)
    t = torch.tensor(x)
    for d in range(-len(shape), len(shape)):
        np.testing.assert_allclose(
            getattr(torch, name)(t, d).numpy(), getattr(np, name)(x, axis=d), rtol=1e-12
        )
        np.testing.assert_allclose(
            getattr(t, name)(dim=d).numpy(), getattr(np, name)(x, axis=d), rtol=1e-12
        )
    assert getattr(torch.tensor(2.0), name)(0).item() == 2


def test_cumulative_gradients():
    x = torch.tensor(rand(3, 4), requires_grad=True)
    for f in (torch.cumsum, torch.cumprod):
        for d in (0, 1):
            assert gradcheck(lambda t, f=f, d=d: f(t, d), (x,)) and gradgradcheck(
                lambda t, f=f, d=d: f(t, d), (x,)
            )
    z = torch.tensor([1.0, 0.0, 2.0, 0.0, 3.0], dtype=F8, requires_grad=True)
    assert gradcheck(lambda t: torch.cumprod(t, 0), (z,))


# ---------------------------------------------------------------- sorting and searching


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 4), (1,), (0,), (0, 3), (1000,)])
def test_sort(shape, descending):
    x = np.random.default_rng(0).permutation(math.prod(shape)).reshape(shape).astype(float)
    t = torch.tensor(x)
    for d in range(-len(shape), len(shape)):
        r = torch.sort(t, dim=d, descending=descending)
        order = np.argsort(-x if descending else x, axis=d)
        np.testing.assert_array_equal(r.values.numpy(), np.take_along_axis(x, order, d))
        np.testing.assert_array_equal(r.indices.numpy(), order)
        np.testing.assert_array_equal(torch.argsort(t, d, descending).numpy(), order)
    assert r.indices.dtype is torch.int64


@pytest.mark.parametrize("kind", ["any", "one group", "groups", "pairs", "equal", "int64"])
@pytest.mark.parametrize("n", [127, 128, 1000, 5000])
def test_sort_of_keys_that_share_digits(kind, n):
    rng = np.random.default_rng(n)
    bits = {
        "any": rng.integers(0, 2**62, n),
        "one group": (1 << 60) + rng.integers(0, 300, n) * 257,
        "groups": rng.integers(0, 3, n) * 0x01010101_00000000 + rng.integers(0, 2**31, n),
        "pairs": rng.integers(0, n, n) * 0x00010001_00000000 + rng.integers(0, 2, n),
        "equal": np.full(n, 5 << 50),
        "int64": rng.integers(-(2**63), 2**63 - 1, n),
    }[kind]
    x = bits if kind == "int64" else bits.view(np.float64) * rng.choice([-1, 1], n)
    order = np.argsort(x, kind="stable")
    values, indices = torch.from_numpy(x).sort(stable=True)
    np.testing.assert_array_equal(indices.numpy(), order)
    np.testing.assert_array_equal(values.numpy(), x[order])


def test_sort_details():
    assert torch.tensor([1.0, NAN, 3.0]).sort().indices.tolist() == [0, 2, 1], "NaN sorts last"
    assert torch.tensor([1.0, NAN, 3.0]).sort(descending=True).indices.tolist() == [1, 2, 0]
    assert torch.tensor(3.0).sort().values.item() == 3
    assert torch.tensor([True, False]).sort().values.tolist() == [False, True]
    t = torch.arange(200) % 3
    for descending in (False, True):
        want = sorted(range(200), key=lambda i: -t[i].item() if descending else t[i].item())
        assert torch.sort(t, stable=True, descending=descending).indices.tolist() == want
        assert torch.argsort(t, stable=True, descending=descending).tolist() == want
    x = torch.tensor(rand(3, 4), requires_grad=True)
    assert gradcheck(lambda v: v.sort(0).values, (x,)) and gradgradcheck(
        lambda v: v.sort(1, True)[0], (x,)
    )
    with pytest.raises(IndexError):
        torch.sort(t, 1)


@pytest.mark.parametrize("largest", [False, True])
def test_topk(largest):
    x = np.random.default_rng(0).permutation(60).reshape(3, 4, 5).astype(float)
    t = torch.tensor(x)
    for d in (0, 1, 2, -1):
        for k in range(x.shape[d] + 1):
            r = torch.topk(t, k, dim=d, largest=largest)
            order = np.take(np.argsort(-x if largest else x, axis=d), range(k), axis=d)
            np.testing.assert_array_equal(r.indices.numpy(), order)
            np.testing.assert_array_equal(r.values.numpy(), np.take_along_axis(x, order, d))
    values = t.flatten().topk(7, largest=largest, sorted=False).values
    assert sorted(values.tolist()) == sorted(sorted(x.ravel().tolist(), reverse=largest)[:7])


def test_topk_details():
    for k in (4, -1):
        with pytest.raises(RuntimeError, match="out of range"):
            torch.topk(torch.ones(3), k)
    assert torch.tensor(2.0).topk(1).values.item() == 2
    assert torch.tensor([1.0, NAN, 3.0]).topk(2).indices.tolist() == [1, 2], "NaN counts as largest"
    x = torch.tensor(rand(2, 5), requires_grad=True)
    assert gradcheck(lambda v: v.topk(2).values, (x,))


def test_unique():
    t = torch.tensor([3, 1, 3, 2, 1])
    assert torch.unique(t).tolist() == t.unique().tolist() == [1, 2, 3]
    u, inverse = torch.unique(t, return_inverse=True)
    assert u[inverse].tolist() == t.tolist()
    u, counts = torch.unique(t, return_counts=True)
    assert counts.tolist() == [2, 1, 2]
    u, inverse, counts = torch.unique(t.reshape(5, 1), True, True, True)
    assert inverse.shape == (5, 1) and counts.sum().item() == 5
    assert sorted(torch.unique(t, sorted=False).tolist()) == [1, 2, 3]
    rows = torch.tensor([[1, 2], [1, 2], [0, 1]])
    assert torch.unique(rows, dim=0).tolist() == [[0, 1], [1, 2]]
    assert torch.unique(rows, dim=1).shape == (3, 2)
    assert torch.unique(torch.zeros(0)).shape == (0,)
    assert torch.unique(torch.tensor([True, False, True])).tolist() == [False, True]
    assert torch.unique(torch.tensor([1.5, -1.0, 1.5])).tolist() == [-1, 1.5]


def test_unique_consecutive():
    u, inverse, counts = torch.unique_consecutive(
        torch.tensor([1, 1, 2, 1]), return_inverse=True, return_counts=True
    )
    assert (u.tolist(), inverse.tolist(), counts.tolist()) == ([1, 2, 1], [0, 0, 1, 2], [2, 1, 1])


def test_bincount():
    assert torch.bincount(torch.tensor([0, 1, 1, 3])).tolist() == [1, 2, 0, 1]
    assert torch.bincount(torch.tensor([0, 1]), minlength=5).tolist() == [1, 1, 0, 0, 0]
    w = torch.bincount(torch.tensor([0, 1, 1]), weights=torch.tensor([0.5, 1, 2]))
    assert w.tolist() == [0.5, 3] and w.dtype is torch.float32
    assert torch.bincount(torch.tensor([0], dtype=torch.uint8)).dtype is torch.int64
    assert torch.zeros(0, dtype=torch.int64).bincount().shape == (0,)
    assert torch.zeros(0, dtype=torch.int64).bincount(minlength=2).tolist() == [0, 0]
    for bad in (torch.tensor([0, -1]), torch.tensor([[0]]), torch.tensor([0.5])):
        with pytest.raises(RuntimeError):
            torch.bincount(bad)
    with pytest.raises(RuntimeError, match="weights"):
        torch.bincount(torch.tensor([0]), weights=torch.ones(2))
    with pytest.raises(RuntimeError, match="minlength"):
        torch.bincount(torch.tensor([0]), minlength=-1)


@pytest.mark.parametrize("right", [False, True])
def test_searchsorted(right):
    edges = np.array([1.0, 3.0, 3.0, 5.0])
    values = np.array([[0.0, 1.0, 3.0], [4.0, 5.0, 9.0]])
    t, v = torch.tensor(edges), torch.tensor(values)
    want = np.searchsorted(edges, values, "right" if right else "left")
    assert torch.searchsorted(t, v, right=right).tolist() == want.tolist()
    assert torch.searchsorted(t, v, side="right" if right else "left").tolist() == want.tolist()
    assert torch.searchsorted(t, 3.0, right=right).item() == (3 if right else 1)
    assert torch.bucketize(v, t, right=right).tolist() == want.tolist()
    rows = torch.stack([t, t + 1])
    got = torch.searchsorted(rows, v, right=right)
    assert got.tolist() == [
        np.searchsorted(e, x, "right" if right else "left").tolist()
        for e, x in zip([edges, edges + 1], values, strict=True)
    ]


def test_searchsorted_details():
    t = torch.tensor([1, 3])
    assert torch.searchsorted(t, 3, out_int32=True).dtype is torch.int32
    assert torch.searchsorted(
        torch.tensor([3, 1]), torch.tensor([2]), sorter=torch.tensor([1, 0])
    ).tolist() == [1]
    assert torch.searchsorted(torch.zeros(0), torch.tensor([1.0])).tolist() == [0]
    with pytest.raises(RuntimeError, match="side"):
        torch.searchsorted(t, 3, side="x")
    with pytest.raises(RuntimeError, match="opposites"):
        torch.searchsorted(t, 3, right=True, side="left")
    with pytest.raises(RuntimeError, match="boundaries"):
        torch.searchsorted(torch.ones(2, 3), torch.ones(3, 2))


def test_median_dist_trace():
    assert torch.tensor([3.0, 1.0, 2.0, 4.0]).median().item() == 2
    assert torch.dist(torch.tensor([1.0, 1.0]), torch.zeros(2)).item() == pytest.approx(
        math.sqrt(2)
    )
    assert torch.trace(torch.arange(6.0).reshape(2, 3)).item() == 4
