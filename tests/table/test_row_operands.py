# SPDX-License-Identifier: BSD-3-Clause
"""Rows of elementwise.def whose operands are tensors or scalars; ops that choose among rows."""

import math

import pytest

import cograd as torch
from cograd import _C
from cograd.autograd import gradcheck, gradgradcheck

BINARY = sorted(
    r["name"]
    for r in _C._op_table()
    if r["differentiable"]
    and not r["constants"]
    and r["function"]
    and not r["internal"]
    and not r["samples"].startswith("none: random")
    and [a["kind"] for a in r["args"][:2]] == ["TensorOrScalar"] * 2
)


def inputs(*sizes):
    return torch.rand(*sizes, dtype=torch.float64).add(0.3).requires_grad_()


def test_the_table_has_binary_ops():
    assert {"add", "mul", "pow", "xlogy", "maximum", "hypot"} <= set(BINARY)


@pytest.mark.parametrize("name", BINARY)
def test_a_number_on_either_side(name):
    op, x = getattr(torch, name), inputs(4)
    for number in (0.71, 2):
        other = torch.tensor(float(number), dtype=torch.float64)
        for f, with_tensor in (
            (lambda x, n=number: op(x, n), lambda x, n=other: op(x, n)),
            (lambda x, n=number: op(n, x), lambda x, n=other: op(n, x)),
        ):
            y = f(x)
            assert torch.allclose(y, with_tensor(x))
            gradcheck(f, (x,))
            gradgradcheck(f, (x,))
            # The fused gradient is that of the formula.
            (fused,) = torch.autograd.grad(f(x).sum(), x)
            (formula,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
            assert torch.allclose(fused, formula, atol=1e-12)


@pytest.mark.parametrize("name", BINARY)
def test_fused_gradients_are_the_formulas(name):
    op = getattr(torch, name)
    for x, y in ((inputs(3, 4), inputs(3, 4)), (inputs(4, 3).t(), inputs(4))):
        cotangent = torch.rand(3, 4, dtype=torch.float64)
        a, b = x.detach().requires_grad_(), y.detach().requires_grad_()
        fused = torch.autograd.grad(op(a, b), (a, b), cotangent)
        formula = torch.autograd.grad(op(a, b), (a, b), cotangent, create_graph=True)
        for got, want in zip(fused, formula, strict=True):
            assert torch.allclose(got, want, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda x: x + x, "AddBackward0"),
        (lambda x: torch.add(x, x, alpha=2), "AddBackward0"),
        (lambda x: x - 1, "SubBackward0"),
        (lambda x: torch.sub(x, x, alpha=2), "SubBackward0"),
        (lambda x: x * 2, "MulBackward0"),
        (lambda x: x / 2, "DivBackward0"),
        (lambda x: torch.div(x, 2, rounding_mode="floor"), "DivBackward1"),
        (lambda x: x**3, "PowBackward0"),
        (lambda x: x**x, "PowBackward1"),
        (lambda x: 2**x, "PowBackward2"),
        (lambda x: torch.where(x > 0, x, 0.0), "WhereBackward0"),
        (lambda x: x.lerp(x, 0.5), "LerpBackward0"),
        (lambda x: x.lerp(x, x), "LerpBackward1"),
        (lambda x: x.addcmul(x, x), "AddcmulBackward0"),
        (lambda x: x.addcdiv(x, x), "AddcdivBackward0"),
        (lambda x: x.clamp(0, 1), "ClampBackward1"),
        (lambda x: x.clamp(x, x), "ClampBackward0"),
        (lambda x: x.clamp_min(0), "ClampMinBackward0"),
        (lambda x: x.clamp_min(x), "ClampMinBackward1"),
        (lambda x: x.clamp_max(0), "ClampMaxBackward0"),
        (lambda x: x.clamp_max(x), "ClampMaxBackward1"),
        (lambda x: x.nan_to_num(), "NanToNumBackward0"),
        (lambda x: x.logit(), "LogitBackward0"),
        (lambda x: x.logit(0.1), "LogitBackward0"),
        (lambda x: x.round(), "RoundBackward0"),
        (lambda x: x.round(decimals=2), "RoundBackward1"),
        (lambda x: torch.nn.functional.gelu(x), "GeluBackward0"),
        (lambda x: torch.polygamma(2, x), "PolygammaBackward0"),
        (lambda x: torch.nextafter(x, x), "NextafterBackward0"),
    ],
)
def test_names_of_nodes(make, name):
    assert make(inputs(3)).grad_fn.name() == name


def test_messages_name_the_public_op():
    with pytest.raises(RuntimeError, match=r"^addcmul\(\)|; addcmul\(\) got shapes"):
        torch.ones(2).addcmul(torch.ones(3), torch.ones(2))
    with pytest.raises(RuntimeError, match=r"; clamp_min\(\) got shapes"):
        torch.ones(2).clamp_min(torch.ones(3))
    with pytest.raises(RuntimeError, match=r"; sub\(\) got shapes"):
        torch.sub(torch.ones(2), torch.ones(3), alpha=2)


def test_operands_may_broadcast_and_mix_with_numbers():
    x, lo = inputs(3, 4), inputs(4)
    gradcheck(lambda x, lo: x.clamp(lo, 1.1), (x, lo))
    gradcheck(lambda x, lo: x.clamp(0.5, lo), (x, lo))
    gradcheck(lambda x, w: x.lerp(x * 2, w), (x, inputs(3, 4)))
    gradcheck(lambda x, a: x.addcdiv(a, x, value=0.7), (x, lo))
    gradcheck(lambda x, a: torch.where(a > 0.8, x, 2.0), (x, lo))


def test_in_place_and_out_forms_of_a_choice():
    x = inputs(4)
    for f, g in (
        (lambda t: t.clamp_(0.5, 1), lambda t: t.clamp(0.5, 1)),
        (lambda t: t.clamp_(t.detach() * 0.9, 1), lambda t: t.clamp(t.detach() * 0.9, 1)),
        (lambda t: t.pow_(3), lambda t: t.pow(3)),
        (lambda t: t.logit_(0.4), lambda t: t.logit(0.4)),
        (lambda t: t.div_(2, rounding_mode="floor"), lambda t: t.div(2, rounding_mode="floor")),
        (lambda t: t.lerp_(torch.ones(4, dtype=torch.float64), 0.3),
         lambda t: t.lerp(torch.ones(4, dtype=torch.float64), 0.3)),
        (lambda t: t.nan_to_num_(), lambda t: t.nan_to_num()),
        (lambda t: t.polygamma_(2), lambda t: t.polygamma(2)),
        (lambda t: t.round_(decimals=1), lambda t: t.round(decimals=1)),
        (lambda t: t.ldexp_(torch.tensor(2)), lambda t: t.ldexp(torch.tensor(2))),
    ):  # fmt: skip
        copy = x.clone()
        assert f(copy) is copy
        assert torch.equal(copy, g(x))
        (got,) = torch.autograd.grad(copy.sum(), x)
        (want,) = torch.autograd.grad(g(x).sum(), x)
        assert torch.equal(got, want)
    with torch.no_grad():
        out = torch.empty(4, dtype=torch.float64)
        assert torch.pow(x, 3, out=out) is out
        assert torch.equal(out, x**3)
        assert torch.equal(torch.nan_to_num(torch.arange(3), out=torch.empty(0).long()),
                           torch.arange(3))  # fmt: skip


def test_integers_stay_exact():
    big = 2**53 + 1
    x = torch.tensor([big, -big])
    assert x.clamp(min=-5, max=big).tolist() == [big, -5]
    assert torch.add(x, x, alpha=3).tolist() == [4 * big, -4 * big]
    assert torch.sub(x, 1, alpha=big).tolist() == [0, -2 * big]
    assert (torch.tensor([3, -2]) ** 3).tolist() == [27, -8]
    assert (torch.tensor([True, False]) ** 2).dtype == torch.int64
    assert torch.tensor([2**62 + 1]).nan_to_num().tolist() == [2**62 + 1]
    assert torch.tensor([True]).nan_to_num().dtype == torch.bool


def test_logit_outside_its_domain():
    x = torch.tensor([-0.5, 0.0, 0.05, 0.5, 1.0, math.nan], requires_grad=True)
    plain = x.logit()
    assert plain.isnan().tolist() == [True, False, False, False, False, True]
    assert plain[1].item() == -math.inf
    assert plain[4].item() == math.inf
    (g,) = torch.autograd.grad(x.logit(0.1).sum(), x)
    assert g[:3].tolist() == [0, 0, 0]
    assert g[3].item() == pytest.approx(4)
    assert math.isnan(g[5])


def test_bounds_that_are_nan():
    x = torch.ones(3, requires_grad=True)
    y = x.clamp(max=math.nan)
    assert y.isnan().all()
    assert torch.autograd.grad(y.sum(), x)[0].tolist() == [0, 0, 0]


def test_nextafter_keeps_its_graph():
    x, y = inputs(3), inputs(3)
    gx, gy = torch.autograd.grad(torch.nextafter(x, y).sum(), (x, y))
    assert gx.tolist() == [1, 1, 1]
    assert gy.tolist() == [0, 0, 0]


@pytest.mark.parametrize("name", ["floor_divide", "heaviside"])
def test_a_graph_without_a_derivative(name):
    x = inputs(3)
    y = getattr(torch, name)(x, x.detach())
    assert y.requires_grad
    with pytest.raises(RuntimeError, match=f"derivative for {name} is not implemented"):
        y.sum().backward()


def test_integer_products_take_whole_factors():
    a = torch.full((2, 2), 2)
    batch = a[None]
    assert torch.addmm(a, a, a, beta=0.5).tolist() == [[8, 8], [8, 8]]
    assert torch.addmm(a, a, a, beta=1.0, alpha=1.5).tolist() == [[10, 10], [10, 10]]
    assert torch.baddbmm(batch, batch, batch, beta=1.5).tolist() == [[[10, 10], [10, 10]]]
    assert torch.addmv(a[0], a, a[0], beta=1.5).tolist() == [10, 10]
    assert torch.addbmm(a, batch, batch, alpha=1.5).tolist() == [[10, 10], [10, 10]]
    for factor in ("beta", "alpha"):
        with pytest.raises(RuntimeError, match=f"argument {factor} must not be a floating point"):
            torch.addr(a, a[0], a[0], **{factor: 1.5})


def test_one_value_into_shared_elements():
    x = torch.zeros(1)
    assert x.expand(3).fill_(2).tolist() == [2, 2, 2]
    assert x.tolist() == [2]
    assert x.expand(3).zero_().tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="single memory location"):
        x.expand(3).add_(1)


def test_in_place_functions_of_torch():
    x = torch.ones(2)
    assert torch.zero_(x) is x
    assert x.tolist() == [0, 0]
    assert torch.resize_as_(x, torch.ones(3, 1)) is x
    assert x.shape == (3, 1)
    y = torch.ones(2)
    assert torch.ldexp_(y, torch.tensor([1, 2])) is y
    assert y.tolist() == [2, 4]
