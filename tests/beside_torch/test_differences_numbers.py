# SPDX-License-Identifier: BSD-3-Clause
"""docs/differences.md: numbers, modules, files and names; see test_differences.py."""

import inspect
import io
import math

import numpy as np
import pytest
from conftest import same
from differences import D, leaf, shows, slope

import cograd as torch
import cograd.nn.functional as F
from cograd import distributions, func, nn, special

inf, nan = math.inf, math.nan


def T(*values, dtype=D):
    return torch.tensor(values, dtype=dtype)


@shows(
    "`full((1,), 1e6, dtype=float16)`, `fill_` of one element",
    "`randperm(300, dtype=bfloat16)`",
    "`gelu(-12, approximate='tanh')` of float64",
)
def test_numbers_of_a_dtype():
    for n in (1, 2):
        for f in (
            lambda n=n: torch.full((n,), 1e6, dtype=torch.float16),
            lambda n=n: torch.zeros(n, dtype=torch.float16).fill_(1e6),
        ):
            with pytest.raises(RuntimeError, match="without overflow"):
                f()
    with pytest.raises(RuntimeError, match="n <= 2"):
        torch.randperm(300, dtype=torch.bfloat16)
    assert F.gelu(T(-12.0), approximate="tanh").item() == pytest.approx(-1.5e-61, rel=0.05)


@shows("`logspace(3, 20, 2, dtype=int8)`", "`linspace(1e6, 0, 1, dtype=float16)`")
def test_values_of_a_range_beyond_its_dtype():
    for n in (2, 3):
        with pytest.raises(RuntimeError, match=r"logspace\(\): value 1000.0 .* without overflow"):
            torch.logspace(3, 20, n, dtype=torch.int8)
    with pytest.raises(RuntimeError, match="value nan"):
        torch.logspace(1, 4, 4, base=math.nan, dtype=torch.int64)
    with pytest.raises(RuntimeError, match=r"start 1e\+06 .* without overflow"):
        torch.linspace(1e6, 0, 1, dtype=torch.float16)


@shows("`LSTMCell` of a 1-d input and 2-d states")
def test_states_of_a_cell_have_the_dims_of_the_input():
    x = torch.ones(3)
    for rows in (1, 2):
        h = torch.ones(rows, 2)
        for m, state in ((nn.LSTMCell(3, 2), (h, h)), (nn.GRUCell(3, 2), h), (nn.RNNCell(3, 2), h)):
            with pytest.raises(RuntimeError, match="each state must have one"):
                m(x, state)


@shows(
    "`sigmoid` of -800 + i",
    "`reciprocal` of 1e-320",
    "gradients of `acos`, `asinh`, `atan` at 1e200 + 1e200i",
)
def test_complex():
    assert T(-800 + 1j, dtype=torch.complex128).sigmoid().tolist() == [0]
    assert T(1e-320, dtype=torch.complex128).reciprocal().tolist() == [complex(inf, 0)]
    for f in (torch.acos, torch.asinh, torch.atan):
        got = slope(lambda z, f=f: f(z).abs(), [1e200 + 1e200j], dtype=torch.complex128)
        assert abs(got[0]) < 1e-150


@shows(
    "gradient of `linalg.det` at a singular matrix", "second derivative of `linalg.det` at rank 1"
)
def test_det():
    got = slope(torch.linalg.det, [[1.0, 2.0], [2.0, 4.0]])
    assert torch.allclose(T(*got), T([4.0, -2.0], [-2.0, 1.0]))
    got = slope(
        lambda x: torch.autograd.grad(torch.linalg.det(x), x, create_graph=True)[0][0, 0],
        [[1.0] * 3] * 3,
    )
    assert torch.allclose(T(*got), T([0.0, 0.0, 0.0], [0.0, 1.0, -1.0], [0.0, -1.0, 1.0]))


@shows("gradients of a full `svd`'s extra vectors")
def test_extra_vectors():
    x = torch.tensor([[1.0], [2.0]], dtype=D, requires_grad=True)
    extra = torch.linalg.svd(x, full_matrices=True)[0][:, 1:]
    (extra @ extra.T)[0, 0].backward()  # 1 - x0^2 / (x0^2 + x1^2)
    assert torch.allclose(x.grad, T([-2 * 4 / 25], [2 * 2 / 25]))
    two = torch.linalg.svd(leaf(1.0, 2.0, 3.0)[:, None], full_matrices=True)[0][:, 1:]
    with pytest.raises(RuntimeError, match="rotation"):
        two.sum().backward()


@shows("`var_mean` of infinite elements")
def test_var_mean():
    assert torch.var_mean(T(inf, 1.0))[1].item() == inf


@shows(
    "gradient of `logcumsumexp` at -inf",
    "gradient of `cumprod` at infinite factors",
    "gradient of `copysign` at infinity",
    "gradient of `acosh` below 1, where the value is NaN",
    "gradient of `addcdiv` with respect to a divisor of 1e200",
    "gradient of `clamp(x, low, high)`, `low == high > x`",
    "gradient of `kl_div` with respect to targets of 0",
    "gradient of `soft_margin_loss` with respect to its target",
    "gradient of `tanhshrink(1e-10)` in float64",
)
def test_gradients():
    assert slope(lambda x: x.logcumsumexp(0), [-inf, 0.0]) == [0, 1]
    assert slope(lambda x: x.cumprod(0)[-1], [2.0, inf]) == [inf, 2]
    assert slope(torch.copysign, [inf, inf], [1.0, -1.0])[0] == [1, -1]
    assert math.isnan(slope(torch.acosh, -2.0))
    got = slope(lambda a, b: torch.addcdiv(T(0.0), a, b), 1e200, 1e200)[1]
    assert math.isclose(got, -1e-200)
    assert slope(torch.clamp, 0.0, 1.0, 1.0) == [0, 0, 1]
    assert slope(lambda t: F.kl_div(T(3.0), t, reduction="sum"), [0.0]) == [-3]
    assert slope(lambda t: F.soft_margin_loss(T(1.0), t), [0.0]) == [-0.5]
    assert math.isclose(slope(F.tanhshrink, 1e-10), 1e-20)


@shows("NaN in margin losses of classes")
def test_nan_in_margin_losses():
    x = T(0.0, nan)
    assert F.multi_margin_loss(x, torch.tensor(0)).isnan()
    assert F.multilabel_margin_loss(x, torch.tensor([0, -1])).isnan()


@shows(
    "`special.ndtr(-20.5)`, gradient of `log_ndtr(-inf)`",
    "`i0(inf)`, `i1(inf)`, `bessel_y0(inf)`",
    "`hermite_polynomial_h(1e300, 5)` and similar polynomials",
    "`gammainc(nan, 0)`",
    "`zeta(2, inf)`",
    "Bessel functions of float16",
)
def test_special():
    assert math.isclose(special.ndtr(T(-20.5)).item(), 1.0764673258790459e-93, rel_tol=1e-12)
    assert slope(special.log_ndtr, -inf) == inf
    ends = [special.i0(T(inf)), special.i1(T(inf)), special.bessel_y0(T(inf))]
    assert [v.item() for v in ends] == [inf, inf, 0]
    assert special.hermite_polynomial_h(T(1e300), 5).item() == inf
    assert special.gammainc(T(nan), T(0.0)).isnan()
    assert special.zeta(T(2.0), T(inf)).item() == 0
    half = special.bessel_j0(torch.ones(1, dtype=torch.float16))
    assert half.dtype is torch.float16 and half.item() == pytest.approx(0.7651977, rel=5e-4)


@shows("`kthvalue` of equal elements: which one gets the gradient")
def test_kthvalue():
    got = slope(lambda x: x.kthvalue(2).values, [1.0, 1.0, 1.0])
    assert sorted(got) == [0, 0, 1] and got[0] == 0


@shows("`topk`, and `sort` without `stable=True`, of equal elements", "`@` of bools")
def test_equal_elements_and_bools():
    x = torch.ones(1000)
    assert x.sort()[1].tolist() == list(range(1000)) and x.topk(3)[1].tolist() == [0, 1, 2]
    row = torch.tensor([[True, False]])
    assert (row @ row.T).tolist() == [[True]]


@shows("`1e6 / x` of float16")
def test_a_quotient_of_halves_is_rounded_once():
    got = 1e6 / torch.tensor([60000.0], dtype=torch.float16)
    assert got.item() == torch.tensor(1e6 / 60000.0, dtype=torch.float16).item() == 16.671875


@shows("`linspace(-3e38, 3e38, 5)`")
def test_linspace_over_all_numbers():
    got = torch.linspace(-3e38, 3e38, 5)
    assert got.tolist() == pytest.approx([-3e38, -1.5e38, 0, 1.5e38, 3e38], rel=1e-6)


@shows("`uint16 + 1`, `uint16 + int32`, `uint64` sums")
def test_unsigned():
    x = torch.tensor([65535], dtype=torch.uint16)
    assert (x + 1).tolist() == [0]
    assert (x + torch.tensor([1], dtype=torch.int32)).dtype is torch.int32
    assert (torch.tensor([1], dtype=torch.uint64) + 2**63).tolist() == [2**63 + 1]


@shows("`SobolEngine(2).fast_forward(-1)`")
def test_sobol_goes_forward():
    pytest.importorskip("scipy", reason="SciPy has the direction numbers")
    with pytest.raises(RuntimeError, match=r"fast_forward\(\): n must be at least 0, got -1"):
        torch.quasirandom.SobolEngine(2).fast_forward(-1)


@shows("random numbers of a seed", "generator states")
def test_random_numbers():
    g = torch.Generator()
    torch.manual_seed(0)
    philox = torch.rand(1).item()
    torch.set_rng("torch")
    try:
        torch.manual_seed(0)
        assert torch.rand(1).item() == pytest.approx(0.49625659) != philox
        assert torch.Generator().get_state().numel() == 5056
    finally:
        torch.set_rng("philox")
    assert g.get_state().numel() == 16


@shows(
    "`Weibull(1, 0.5).mode`",
    "`Pareto.cdf` below the support, unchecked",
    "gradient of ContinuousBernoulli samples at 1/2",
    "`kl_divergence(ContinuousBernoulli, Uniform(0, 1))`",
    "`GeneralizedPareto.log_prob` in float64",
    "`Normal.cdf(-20)`, `Laplace.cdf(-50)` in float64",
)
def test_distributions():
    d, zero, one = distributions, T(0.0), T(1.0)
    assert d.Weibull(1.0, 0.5).mode.item() == 0
    assert d.Pareto(1.0, 1.0, validate_args=False).cdf(T(0.5)).item() == 0
    p = leaf(0.5)
    d.ContinuousBernoulli(p).rsample().backward()
    assert p.grad.item() > 0
    divergence = d.kl_divergence(d.ContinuousBernoulli(T(0.3)), d.Uniform(zero, one))
    assert 0 < divergence.item() < 0.1
    got = d.GeneralizedPareto(zero, one, T(0.5)).log_prob(one).item()
    assert math.isclose(got, -3 * math.log(1.5))
    assert math.isclose(d.Normal(zero, one).cdf(T(-20.0)).item(), 2.7536241e-89, rel_tol=1e-5)
    assert math.isclose(d.Laplace(zero, one).cdf(T(-50.0)).item(), math.exp(-50) / 2)


# modules, optimizers


@shows("`Adam` of float16 parameters, small gradients")
def test_adam_of_halves():
    p = nn.Parameter(torch.ones(1, dtype=torch.float16))
    p.grad = torch.full_like(p, 1e-4)
    torch.optim.Adam([p], lr=0.1).step()
    assert p.item() == pytest.approx(0.9, abs=1e-3)


@shows("`SGD(differentiable=True)`: first momentum buffer")
def test_momentum_keeps_its_history():
    w = leaf(1.0)
    p = leaf(1.0).clone()
    optimizer = torch.optim.SGD([p], lr=0.1, momentum=0.9, differentiable=True)
    p.grad = 2 * w
    optimizer.step()
    assert optimizer.state[p]["momentum_buffer"].requires_grad


@shows("gradient of `as_strided` of a view, at elements that are not in the view")
def test_as_strided_beside_a_view():
    x = leaf(*range(6))
    y = x[::2].as_strided((2,), (1,))
    assert y.tolist() == [0, 1]
    with pytest.raises(RuntimeError, match="elements that are not in the input"):
        y.sum().backward()  # torch: the gradient of x is 1, 0, 0, 0, 0, 0


@shows("gradient of `as_strided_scatter` with respect to its input")
def test_what_src_replaced_has_no_gradient():
    x, src = leaf(*range(6)), leaf(7.0, 8.0, 9.0, 10.0)
    weights = torch.arange(1.0, 7.0, dtype=D)
    y = torch.as_strided_scatter(x, src, (4,), (1,), 1) * weights
    by_x, by_src = torch.autograd.grad(y.sum(), (x, src))
    assert by_x.tolist() == [1, 0, 0, 0, 0, 6]  # torch: 0, 2, 3, 4, 5, 0
    assert by_src.tolist() == [2, 3, 4, 5]


@shows("`multi_margin_loss` of no samples, mean")
def test_the_mean_of_no_margin_losses():
    assert F.multi_margin_loss(torch.zeros(0, 4), torch.zeros(0, dtype=torch.int64)).isnan()


@shows("`conv_tbc` of a kernel one step longer than the input")
def test_a_kernel_longer_than_the_input():
    weight, bias = torch.ones(3, 2, 2), torch.zeros(2)
    with pytest.raises(RuntimeError, match="greater than actual input size"):
        torch.conv_tbc(torch.zeros(2, 1, 2), weight, bias)


@shows(
    "autocast: `GRU`, `GRUCell`",
    "autocast: `TransformerEncoderLayer` in evaluation, no gradients",
    "autocast: `pad`, `index_copy`, `matrix_power`",
)
def test_autocast():
    x = torch.rand(1, 2, 2)
    layer = nn.TransformerEncoderLayer(2, 1, 3, batch_first=True).eval()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert nn.GRU(2, 2)(x)[0].dtype is torch.bfloat16
        assert nn.GRUCell(2, 2)(x[0]).dtype is torch.bfloat16
        with torch.no_grad():
            assert layer(x).dtype is torch.float32
        assert F.pad(x.half(), (1, 1), mode="reflect").dtype is torch.float16
        assert torch.linalg.matrix_power(x[0], 2).dtype is torch.float32
        with pytest.raises(RuntimeError, match="dtype"):
            torch.index_copy(x[0, 0], 0, torch.tensor([0]), torch.ones(1, dtype=torch.bfloat16))


# files, interop, names


@shows("`save` without a suffix, or to a stream", "damaged files")
def test_files(tmp_path):
    for place in (io.BytesIO(), tmp_path / "weights"):
        torch.save({"a": torch.ones(1)}, place)
        data = place.getvalue() if isinstance(place, io.BytesIO) else place.read_bytes()
        assert data[8:9] == b"{"  # a safetensors header after its length
    bad = tmp_path / "weights.pt"
    bad.write_bytes(b"hello")
    with pytest.raises(torch.serialization.FileError, match="weights.pt"):
        torch.load(bad)


@shows("`tensor(array[::-1])`")
def test_arrays_with_negative_strides():
    assert torch.tensor(np.arange(3)[::-1]).tolist() == [2, 1, 0]


@shows("`__array_namespace__`")
def test_array_namespace():
    assert torch.ones(1).__array_namespace__().__name__ == "cograd.array_api"


@shows("the node name of a C++ Function")
def test_name_of_a_compiled_function():
    source = (
        "struct Cube : cograd::autograd::Function<Cube> {"
        "static cograd::Tensor forward(cograd::autograd::AutogradContext* ctx,"
        " const cograd::Tensor& x) { return x * x * x; }"
        "static cograd::autograd::tensor_list backward(cograd::autograd::AutogradContext* ctx,"
        " cograd::autograd::tensor_list g) { return g; } };"
    )
    ops = torch.utils.cpp_extension.load_inline("differences_cube", source, functions="Cube")
    assert ops.Cube(leaf(1.0)).grad_fn.name() == "CubeBackward"


@shows("`repr` of dtypes, sizes and named results", "`repr` of classes")
def test_names_in_texts():
    assert repr(torch.float32) == "cograd.float32" and repr(torch.Size([2])) == "cograd.Size([2])"
    assert repr(torch.ones(1).max(0)).startswith("cograd.return_types.max(")
    assert repr(nn.Linear) == "<class 'cograd.nn.modules.linear.Linear'>"


@shows("a misspelt name")
def test_neighbours_of_a_name():
    with pytest.raises(AttributeError, match="did you mean 'zeros'"):
        _ = torch.zeroes


@shows("`inspect.signature(add)`")
def test_signature():
    found = inspect.signature(torch.add)
    assert list(found.parameters) == ["input", "other", "alpha", "out"]
    assert found.parameters["alpha"].default == 1 and found.return_annotation is torch.Tensor


@shows("names of ops in a profile")
def test_names_in_a_profile():
    with torch.autograd.profiler.profile() as profile:
        torch.add(torch.ones(1), 1)
    assert "add" in {event.key for event in profile.key_averages()}


@shows("second derivatives of `weight_norm`", "second derivatives of `CrossMapLRN2d`")
def test_second_derivatives_of_norms():
    x = torch.tensor([[0.3, -0.7, 1.1], [0.2, 0.9, -0.4]], dtype=D)
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2).double())
    norm = layer.parametrizations.weight[0]
    g, v = (p.detach().requires_grad_() for p in layer.parametrizations.weight.parameters())
    assert torch.autograd.gradgradcheck(lambda g, v: (x @ norm(g, v).T) ** 3, (g, v))
    response = nn.CrossMapLRN2d(3, alpha=0.5)
    image = torch.linspace(-1, 1, 16, dtype=D).reshape(1, 4, 2, 2).requires_grad_()
    assert torch.autograd.gradcheck(response, image)
    assert torch.autograd.gradgradcheck(response, image)


@shows("`soft_margin_loss` of -100 in float32")
def test_soft_margin_loss_does_not_overflow():
    x = leaf(-100.0, dtype=torch.float32)
    loss = F.soft_margin_loss(x, torch.ones(1))
    loss.backward()
    assert (loss.item(), x.grad.item()) == (100.0, -1.0)


@shows("`conv2d` of images without channels")
def test_convolution_of_no_channels():
    weight, bias = torch.zeros(4, 0, 2, 2), torch.arange(4.0)
    out = F.conv2d(torch.zeros(2, 0, 3, 3), weight, bias)
    assert torch.equal(out, bias.reshape(1, 4, 1, 1).expand(2, 4, 2, 2))


DERIVED = torch.tensor([[2.0, 1.0, 0.5], [0.3, 3.0, -1.0], [-0.5, 0.2, 1.5]], dtype=D)
TURN = torch.tensor([[0.3, -1.0, 2.0], [0.5, 0.7, -0.2], [1.0, 0.4, -0.6]], dtype=D)


def along(f, x, t, eps=1e-6):
    """Returns the derivative of f at x in the direction t, by differences."""
    return (f(x + eps * t) - f(x - eps * t)) / (2 * eps)


@shows("gradient of `func.jvp` of `det`, `slogdet`, `logdet`")
@pytest.mark.parametrize(
    "f", [torch.linalg.det, lambda a: torch.linalg.slogdet(a)[1], lambda a: torch.logdet(a @ a.T)]
)
def test_gradient_of_the_jvp_of_a_determinant(f):
    found = func.grad(lambda a: func.jvp(f, (a,), (TURN,))[1])(DERIVED)
    assert same(found, along(func.grad(f), DERIVED, TURN), tol=1e-7)


@shows("`jacrev` of a norm's `hessian`")
@pytest.mark.parametrize("p", [2.0, 3.0, 1.5])
def test_third_derivative_of_a_norm(p):
    x, t, u = T(1.0, 2.0, -3.0), T(0.3, -1.0, 2.0), T(-0.5, 0.7, 1.0)

    def norm(v):
        return torch.linalg.vector_norm(v, p)

    def second(v):
        return func.hessian(norm)(v) @ t

    assert same(func.jacrev(second)(x) @ u, along(second, x, u), tol=1e-7)


@shows("third derivative of `logcumsumexp`")
def test_third_derivative_of_logcumsumexp():
    x, t, weights = T(1.0, 2.0, -3.0), T(0.3, -1.0, 2.0), T(1.0, -2.0, 0.5)

    def second(x):
        return func.hessian(lambda v: (torch.logcumsumexp(v, 0) * weights).sum())(x) @ t

    assert same(func.jacrev(second)(x) @ t, along(second, x, t), tol=1e-7)


@shows("`jacrev` of `cdist`")
def test_jacobian_of_cdist():
    x = T((1.0, 2.0), (3.0, 5.0))
    found = func.jacrev(lambda a: torch.cdist(a, torch.eye(2, dtype=D)))(x)
    assert same(found[0, :, 0], [[0.0, 1.0], [0.5**0.5, 0.5**0.5]])  # torch: 0, 1 twice
    assert same(found[1, :, 1], [[2 / 29**0.5, 5 / 29**0.5], [0.6, 0.8]])


@shows("gradient of `polar` with respect to a length of 0")
def test_gradient_of_polar_at_0():
    assert same(slope_of_polar(0.0), [math.cos(0.5) + 2 * math.sin(0.5), 0.0])
    assert same(slope_of_polar(2.0)[0], math.cos(0.5) + 2 * math.sin(0.5))


def slope_of_polar(length):
    r, angle = leaf(length), leaf(0.5)
    z = torch.polar(r, angle)
    return torch.cat(torch.autograd.grad(z.real + 2 * z.imag, (r, angle)))


# From mpmath, with 40 digits; torch is 1e-9 to 2e-5 off where one of its polynomials ends.
BESSEL = {
    special.bessel_j0: {5.5: -0.00684386941781919682, 10.0: -0.245935764451348335},
    special.bessel_j1: {5.5: -0.34143821542904335, 10.0: 0.0434727461688614367},
    special.bessel_y0: {5.5: -0.339480592881911038, 10.0: 0.0556711672835993914},
    special.bessel_y1: {5.5: -0.0237582389563896183, 10.0: 0.249015424206953884},
    special.airy_ai: {-2.5: -0.112325067692966089, -3.0: -0.378814293677658074},
}


@shows("`bessel_j0`, `bessel_j1`, `bessel_y0`, `bessel_y1`, `airy_ai` of float64")
@pytest.mark.parametrize("f", BESSEL, ids=lambda f: f.__name__)
def test_digits_of_bessel_functions(f):
    for x, want in BESSEL[f].items():
        assert f(T(x)).item() == pytest.approx(want, rel=1e-12, abs=0)


@shows(
    "gradient through mean and rstd of `native_layer_norm`, `native_group_norm`, "
    "`native_batch_norm`"
)
def test_gradients_of_the_moments():
    x = T((1.0, 2.0, 4.0, 0.5), (0.0, -1.0, 3.0, 2.0)).reshape(1, 4, 2)
    weights = T((1.0, -2.0), (3.0, 0.5))

    def layers(x):
        _, mean, rstd = torch.native_layer_norm(x.reshape(2, 4), (4,), None, None, 1e-5)
        return torch.cat([mean, rstd], 1).T

    def groups(x):
        return torch.cat(torch.native_group_norm(x, None, None, 1, 4, 2, 2, 1e-5)[1:])

    def channels(x):
        return torch.cat(torch.native_batch_norm(x.mT, *4 * [None], True, 0, 1e-5)[1:]).view(2, 2)

    assert same(channels(x.reshape(1, 2, 4).mT), layers(x).tolist(), tol=1e-12)
    for moments in (layers, groups, lambda x: channels(x.reshape(1, 2, 4).mT)):
        found = func.grad(lambda x, f=moments: (f(x) * weights).sum())(x)
        rows = x.reshape(2, 4)
        center = rows - rows.mean(1, keepdim=True)
        rstd = (center.square().mean(1, keepdim=True) + 1e-5).rsqrt()
        want = weights[0][:, None] / 4 - weights[1][:, None] * rstd**3 * center / 4
        assert same(found.reshape(2, 4), want.tolist(), tol=1e-12)
        leaf = x.clone().requires_grad_()
        assert torch.autograd.gradgradcheck(moments, (leaf,))
        assert torch.autograd.gradcheck(moments, (leaf,), check_forward_ad=True)


@shows("forward mode of `native_layer_norm`, `native_batch_norm`: mean and rstd")
def test_tangents_of_the_moments_of_a_layer():
    x, t = T((1.0, 2.0, 4.0), (0.0, -1.0, 3.0)), T((0.3, -1.0, 2.0), (1.0, 0.0, 0.5))

    def moments(x):
        return torch.cat(torch.native_layer_norm(x, (3,), None, None, 1e-5)[1:])

    found = func.jvp(moments, (x,), (t,))[1]
    assert same(found, along(moments, x, t), tol=1e-8)
    assert same(found[:2].flatten(), [1.3 / 3, 0.5])  # torch: 0

    def channels(x):
        return torch.cat(torch.native_batch_norm(x, *4 * [None], True, 0.1, 1e-5)[1:])

    found = func.jvp(channels, (x,), (t,))[1]
    assert same(found, along(channels, x, t), tol=1e-8)
    assert same(found[:3], [0.65, -0.5, 1.25])  # torch: 0


@shows(
    "`addmm`, `addmv`, `addbmm`, `baddbmm` of NaN with `alpha=0`",
    "`addmm` with `beta=0` of a NaN input under `vmap`",
)
def test_factors_of_0():
    """tests/linalg/test_added_products.py has all forms of the calls."""
    two, poor = torch.ones(2, 2), torch.full((2, 2), nan)
    batch = torch.stack([two, poor])
    for dtype in (torch.float32, torch.bfloat16):
        a, b = two.to(dtype), poor.to(dtype)
        assert torch.equal(torch.addmm(a, b, a, alpha=0), a)
        assert torch.equal(torch.addmv(a[0], b, a[0], alpha=0), a[0])
        assert torch.equal(torch.addbmm(a, b[None], a[None], alpha=0), a)
        assert torch.equal(torch.baddbmm(a[None], b[None], a[None], alpha=0)[0], a)
    assert torch.addr(two, poor[0], two[0], alpha=0).isnan().all()
    assert func.vmap(lambda x: torch.addmm(two, x, two, alpha=0))(batch)[1].equal(two)
    assert func.vmap(lambda x: torch.addmm(x, two, two, beta=0))(batch)[1].equal(two @ two)
