# SPDX-License-Identifier: BSD-3-Clause
"""Values in which a call-by-call comparison with torch 2.13 found differences; the numbers are
torch's, or the mathematical ones where torch's are rounded.
"""

from __future__ import annotations

import math

import mpmath
import pytest
from op_items import each_cell

import cograd
import cograd.nn.functional as F
from cograd import Tensor, float16, float32, float64, tensor


def leaf(*values: float, dtype: object = float32) -> Tensor:
    return tensor(values, dtype=dtype, requires_grad=True)


def gradients(f, x: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the first and the second derivative of an elementwise function."""
    (first,) = cograd.autograd.grad(f(x).sum(), x, create_graph=True)
    (second,) = cograd.autograd.grad(first.sum(), x)
    return first.detach(), second


@pytest.mark.parametrize("base", [-2, -2.0, tensor(-2.0), tensor([-2.0])])
def test_exponent_gradient_of_a_negative_base_with_a_complex_exponent(base):
    z = tensor(1 + 1j, requires_grad=True)
    (g,) = cograd.autograd.grad(cograd.view_as_real(cograd.pow(base, z)).sum(), z)
    assert abs(complex(g) - (-0.1197 + 0.3746j)) < 1e-4
    z = tensor([1 + 1j, -0.3 + 0.2j], dtype=cograd.complex128, requires_grad=True)
    assert cograd.autograd.gradgradcheck(lambda z: cograd.pow(-2, z), (z,))
    assert cograd.autograd.gradcheck(lambda z: cograd.float_power(-2, z), (z,))


def test_one_to_a_complex_power_is_one():
    for z in (complex(math.inf, math.nan), complex(math.inf, 1), 2 + 1j):
        w = tensor([z], requires_grad=True)
        y = cograd.pow(1, w)
        assert y.dtype == cograd.complex64 and complex(y) == 1
        (g,) = cograd.autograd.grad(y.real.sum(), w)
        assert complex(g) == 0


def test_power_with_an_odd_exponent_that_float32_lacks():
    x = leaf(-1.0, -1.0)
    assert (x.detach() ** 16777217).tolist() == [-1, -1]
    assert (x.detach() ** 16777218).tolist() == [1, 1]
    for again in (False, True):
        (g,) = cograd.autograd.grad((x**16777218).sum(), x, create_graph=again)
        assert g.tolist() == [-16777218.0] * 2


def test_mixed_dtypes_are_promoted_before_a_gradient_is_computed():
    b = leaf(1.3)
    (g,) = cograd.autograd.grad((tensor([0.7]).bfloat16() ** b).sum(), b)
    base = float(tensor(0.7).bfloat16())
    assert g.item() == pytest.approx(math.log(base) * base**1.3, rel=1e-6)
    c = tensor([3], dtype=cograd.int64)
    b = leaf(0.5, dtype=float64)
    (g,) = cograd.autograd.grad((c**b).sum(), b)
    assert g.item() == pytest.approx(math.log(3) * 3**0.5, rel=1e-14)
    y = cograd.ldexp(tensor([1 + 1j]), tensor([0.3]).bfloat16())
    assert y.real.item() == pytest.approx(2 ** float(tensor(0.3).bfloat16()), rel=1e-6)


IMAGE = cograd.arange(16.0).reshape(1, 1, 4, 4)


@pytest.mark.parametrize(
    "shape, mode, options",
    [
        ((4,), "linear", {}),
        ((4, 4), "bilinear", {}),
        ((4, 4), "bilinear", {"antialias": True}),
        ((4, 4), "bicubic", {"antialias": True}),
        ((4, 4), "nearest", {}),
        ((4, 4, 4), "trilinear", {}),
    ],
)
def test_interpolate_copies_along_a_dim_that_keeps_its_size(shape, mode, options):
    x = cograd.arange(float(math.prod(shape))).reshape(1, 1, *shape)
    assert F.interpolate(x, scale_factor=1.2, mode=mode, **options).equal(x)
    if len(shape) == 2:
        wide = F.interpolate(x, scale_factor=(1.2, 2.0), mode=mode, **options)
        assert wide.equal(F.interpolate(x, scale_factor=(1.0, 2.0), mode=mode, **options))


def test_interpolate_uses_the_factor_where_torch_does():
    row = cograd.arange(4.0).reshape(1, 1, 4)
    assert F.interpolate(row, scale_factor=1.2).flatten().tolist() == [0, 0, 1, 2]
    exact = F.interpolate(IMAGE, scale_factor=1.2, mode="nearest-exact")
    assert exact[0, 0, 0].tolist() == [0, 1, 2, 2]
    cubic = F.interpolate(IMAGE, scale_factor=1.2, mode="bicubic")
    assert cubic[0, 0, 0].tolist() == pytest.approx([-0.263, 0.458, 1.353, 2.303], abs=1e-3)


def byte() -> Tensor:
    return tensor([1, 5], dtype=cograd.uint8)


FIRST = tensor([0])
DOUBLE = tensor(1e39, dtype=float64)
MATRIX = cograd.ones(2, 2)
TOO_LARGE = {
    "clamp max": lambda x: x.clamp(max=300),
    "clamp min": lambda x: x.clamp(min=-300),
    "clamp": lambda x: x.clamp(0, 300),
    "clamp_": lambda x: x.clamp_(max=300),
    "clamp_min": lambda x: cograd.clamp_min(x, 300),
    "where": lambda x: cograd.where(x > 3, x, 300),
    "where first": lambda x: cograd.where(x > 3, 300, x),
    "masked_fill": lambda x: x.masked_fill(x > 3, 300),
    "masked_fill_": lambda x: x.masked_fill_(x > 3, 300),
    "masked_fill nan": lambda x: x.masked_fill(x > 3, math.nan),
    "pad": lambda x: F.pad(x, (1, 1), value=300),
    "addcmul": lambda x: cograd.addcmul(x, x, x, value=300),
    "sub": lambda x: cograd.sub(x, x, alpha=300),
    "add": lambda x: cograd.add(x, 1, alpha=300),
    "add_": lambda x: x.add_(x, alpha=300),
    "threshold": lambda x: F.threshold(x, 3, 300),
    "threshold from": lambda x: F.threshold(x, 300, 3),
    "hardtanh": lambda x: F.hardtanh(x, 0, 300),
    "hardtanh below": lambda x: F.hardtanh(x, -5, 300),
    "index_fill": lambda x: x.index_fill(0, FIRST, 300),
    "index_fill_": lambda x: x.index_fill_(0, FIRST, 300),
    "scatter": lambda x: x.scatter(0, FIRST, 300),
    "scatter_": lambda x: x.scatter_(0, FIRST, 300),
    "masked_fill of a tensor": lambda x: x.masked_fill(x > 3, tensor(300)),
    "index_fill of a tensor": lambda x: x.index_fill(0, FIRST, tensor(300)),
    "index_add": lambda x: x.index_add(0, FIRST, x[:1], alpha=300),
    "x[mask] =": lambda x: x.__setitem__(x > 3, 300),
    "x[mask] = a tensor": lambda x: x.__setitem__(x > 3, tensor(300)),
    "x[index] =": lambda x: x.__setitem__(FIRST, 300),
    "addmm alpha": lambda x: cograd.addmm(x, x[None], cograd.stack([x, x]), alpha=300),
    "addmm beta": lambda x: cograd.addmm(x, x[None], cograd.stack([x, x]), beta=300),
    "addmv": lambda x: cograd.addmv(x, cograd.stack([x, x]), x, alpha=300),
    "addr": lambda x: cograd.addr(x, x, x, alpha=300),
    "baddbmm": lambda x: cograd.baddbmm(x, x[None, None], cograd.stack([x, x])[None], beta=300),
    "fill_ float": lambda x: x.fill_(-1.0),
    "full": lambda x: cograd.full((2,), 255.9, dtype=x.dtype),
    "full below": lambda x: cograd.full((2,), -0.5, dtype=x.dtype),
    "float32 clamp": lambda x: x.float().clamp(max=1e300),
    "float32 where": lambda x: cograd.where(x > 3, x.float(), 1e300),
    "float32 leaky_relu": lambda x: F.leaky_relu(x.float(), 1e300),
    "float32 masked_fill": lambda x: x.float().masked_fill(x > 3, -1e39),
    "float32 masked_fill of a tensor": lambda x: x.float().masked_fill(x > 3, DOUBLE),
    "float32 index_fill": lambda x: x.float().index_fill(0, FIRST, 1e39),
    "float32 scatter": lambda x: x.float().scatter(0, FIRST, 1e39),
    "float32 x[mask] =": lambda x: x.float().__setitem__(x > 3, 1e39),
    "float32 addmm": lambda x: cograd.addmm(x.float(), x.float()[None], MATRIX, beta=1e39),
    "float16 masked_fill": lambda x: x.half().masked_fill(x > 3, -1e9),
    "float16 index_fill": lambda x: x.half().index_fill(0, FIRST, 65505),
    "float16 scatter": lambda x: x.half().scatter(0, FIRST, 1e6),
    "bfloat16 masked_fill": lambda x: x.bfloat16().masked_fill(x > 3, 3.4e38),
    "complex64 masked_fill": lambda x: x.cfloat().masked_fill(x > 3, 1e39j),
    "float16 full": lambda x: cograd.full((2,), 1e6, dtype=float16),
    "float16 full of none": lambda x: cograd.full((0,), 65505, dtype=float16),
    "float16 full_like": lambda x: cograd.full_like(x.half(), -65505),
    "float16 new_full": lambda x: x.half().new_full((2,), 1e6),
    "float16 fill_": lambda x: x.half().fill_(1e6),
    "float16 fill_diagonal_": lambda x: x.half().expand(2, 2).clone().fill_diagonal_(1e6),
    "float16 pad": lambda x: F.pad(x.half(), (1, 1), value=1e6),
    "float16 constant_": lambda x: cograd.nn.init.constant_(x.half(), 1e6),
    "float16 linspace": lambda x: cograd.linspace(0, 1e6, 3, dtype=float16),
    "float16 linspace of one": lambda x: cograd.linspace(-1e6, 1e6, 1, dtype=float16),
    "float16 logspace": lambda x: cograd.logspace(0, 1e6, 3, dtype=float16),
    "bfloat16 full": lambda x: cograd.full((2,), 3.4e38, dtype=cograd.bfloat16),
    "bfloat16 elu": lambda x: F.elu(x.bfloat16(), 1e39),
    "float32 linspace": lambda x: cograd.linspace(0, 1e39, 3),
    "float32 logspace": lambda x: cograd.logspace(-1e39, 0, 3),
    "complex64 full": lambda x: cograd.full((2,), 1e39, dtype=cograd.complex64),
    "complex64 full imaginary": lambda x: cograd.full((2,), 1e39j, dtype=cograd.complex64),
    "complex64 fill_": lambda x: x.cfloat().fill_(1e39 + 1j),
    "complex64 where": lambda x: cograd.where(x > 3, x.cfloat(), 1e39),
    "complex64 where imaginary": lambda x: cograd.where(x > 3, x.float(), 1e39j),
    "uint64 full": lambda x: cograd.full((1,), -1.5, dtype=cograd.uint64),
    "uint64 fill_": lambda x: x.to(cograd.uint64).fill_(-1e19),
    "uint64 x[0] =": lambda x: x.to(cograd.uint64).__setitem__(0, -0.5),
    "int64 full": lambda x: cograd.full((1,), -(2**63) - 1, dtype=cograd.int64),
    "int64 fill_": lambda x: x.long().fill_(-(2**63) - 1000),
    "int64 x[0] =": lambda x: x.long().__setitem__(0, -(2**63) - 1),
    "int64 masked_fill": lambda x: x.long().masked_fill(x > 3, -(2**63) - 1),
    "complex64 x[0] =": lambda x: x.cfloat().__setitem__(0, 1e39),
    "complex64 x[mask] =": lambda x: x.cfloat().__setitem__(x > 3, 1e39),
    "x[0] =": lambda x: x.__setitem__(0, 300),
    "complex64 add": lambda x: cograd.add(x.cfloat(), x.cfloat(), alpha=1e39),
    "complex64 linspace": lambda x: cograd.linspace(0, 1e39j, 3, dtype=cograd.complex64),
}


@each_cell("call", TOO_LARGE.values(), ids=TOO_LARGE.keys())
def test_numbers_that_the_dtype_has_not_raise(call):
    x = byte()
    with pytest.raises(RuntimeError, match="without overflow|unsigned type"):
        call(x)
    assert x.tolist() == [1, 5]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cograd.full((2,), 300, dtype=cograd.uint8), "full.*: fill_value 300 .* uint8"),
        (lambda: byte().fill_(-1.5), r"fill_\(\): value -1.5 .* uint8"),
        (lambda: cograd.add(byte(), 1, alpha=300), r"add\(\): alpha 300 .* uint8"),
        (lambda: F.pad(byte(), (1, 1), value=-1.0), r"pad\(\): value -1.0 "),
        (lambda: byte().to(cograd.uint16).clamp_min(70000), r"clamp_min\(\): min 70000 .* uint16"),
        (lambda: byte().to(cograd.uint16).clamp(0, 70000), r"clamp\(\): max 70000 .* uint16"),
        (lambda: byte().half().clamp(max=1e6), r"clamp_max\(\): max 1e\+06 .* float16"),
        (lambda: byte().half().clamp_min_(1e6), r"clamp_min\(\): min 1e\+06 .* float16"),
        (lambda: byte().half().clamp(-1e6, 1), r"clamp\(\): min -1e\+06 .* float16"),
        (lambda: byte().bfloat16().clamp(0, 3.395e38), r"clamp\(\): max 3.395e\+38 .* bfloat16"),
        (lambda: F.hardtanh(byte().half(), -1, 7e4), r"hardtanh\(\): max_val 70000.0 .* float16"),
        (lambda: F.hardtanh(byte().half(), -7e4, 1), r"hardtanh\(\): min_val -70000.0 .* float16"),
        (lambda: F.threshold_(byte().half(), 3, 1e6), r"threshold\(\): value 1e\+06 .* float16"),
        (lambda: F.softshrink(byte().half(), 1e6), r"softshrink\(\): .* but found 1000000.0"),
        (lambda: F.softshrink(byte().float(), math.nan), r"softshrink\(\): .* but found nan"),
        (lambda: F.threshold(byte(), 3, 300), r"threshold\(\): value 300.* uint8"),
        (lambda: F.hardtanh(byte().float(), -1e39, 0), r"hardtanh\(\): min_val -1e\+39 .* float32"),
        (lambda: F.pad(byte(), (1, 1), value=2**70), "pad.*: value .* uint8"),
        (lambda: cograd.linspace(0, 300, 2, dtype=cograd.uint8), r"linspace\(\): end 300 .* uint8"),
        (lambda: cograd.arange(0, 1e30, dtype=cograd.int64), r"arange\(\): end 1e\+30 .* int64"),
    ],
)
def test_messages_name_op_and_argument(call, message):
    with pytest.raises((RuntimeError, OverflowError), match=message):
        call()


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        (float16, -1e6, 0),
        (float16, 0, 65505),
        (float16, -60000, 60000),
        (cograd.bfloat16, 0, 3.4e38),
        (cograd.float32, -3e38, 3e38),
        (cograd.float64, -1e308, 1e308),
        (cograd.float64, 0, math.inf),
    ],
)
def test_uniform_of_ranges_that_the_dtype_has_not(dtype, low, high):
    x = cograd.zeros(4, dtype=dtype)
    with pytest.raises(RuntimeError, match=r"uniform_\(\): .* out of bounds"):
        x.uniform_(low, high)
    assert x.tolist() == [0] * 4
    bound = cograd.finfo(dtype).max / 2.01
    assert x.uniform_(-bound, bound).isfinite().all()
    assert x.unique().numel() > 1


@pytest.mark.parametrize(
    ("dtype", "most"), [(float16, 2049), (cograd.bfloat16, 257), (cograd.uint8, 256)]
)
def test_permutations_hold_each_number_once(dtype, most):
    assert sorted(cograd.randperm(most, dtype=dtype).tolist()) == list(range(most))
    with pytest.raises(RuntimeError, match=r"randperm\(\): "):
        cograd.randperm(most + 1, dtype=dtype)
    with pytest.raises(RuntimeError, match=r"randperm\(\): "):
        cograd.randperm(2**24 + 2, dtype=cograd.float32)


@pytest.mark.parametrize("dtype", [float16, cograd.bfloat16, float32, float64])
@pytest.mark.parametrize("power", [2, 4, 6, 9, 12, 15, 18, 102, 152])
def test_gelu_by_tanh_has_a_gradient_wherever_squares_are_finite(dtype, power):
    for x in (-(10.0**power), 10.0**power):
        most = cograd.finfo(dtype).max
        if abs(x) > most or (x * x > most and dtype != float16):
            continue
        v = leaf(x, dtype=dtype)
        for graph in (False, True):
            y = F.gelu(v, approximate="tanh")
            (g,) = cograd.autograd.grad(y, v, create_graph=graph)
            assert g.item() == float(x > 0)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.clamp(max=2),
        lambda x: x.clamp(0, 2),
        lambda x: x.clamp(-0.5, 1.5),
        lambda x: x.clone().clamp_(1),
        lambda x: cograd.clamp_min(x, 1),
        lambda x: x**2,
        lambda x: x**2.5,
    ],
)
@pytest.mark.parametrize("dtype", [cograd.int64, cograd.uint8, cograd.uint32, cograd.bool])
def test_vmap_of_integers_and_numbers(f, dtype):
    x = tensor([[0, 1], [3, 5]]).to(dtype)
    try:
        expected = f(x)
    except (RuntimeError, NotImplementedError) as error:
        with pytest.raises(type(error)):
            cograd.vmap(f)(x)
        return
    got = cograd.vmap(f)(x)
    assert got.dtype == expected.dtype
    assert got.tolist() == expected.tolist()


WIDE = 2**53 + 1


@pytest.mark.parametrize(
    "f",
    [
        lambda one: one.index_add(0, tensor([0]), one, alpha=WIDE) - 1,
        lambda one: cograd.addmm(one[None], one[None], one[None], alpha=WIDE)[0] - 1,
        lambda one: cograd.addmm(one[None], one[None], one[None], beta=WIDE)[0] - 1,
        lambda one: cograd.baddbmm(*[one[None, None]] * 3, alpha=WIDE)[0, 0] - 1,
        lambda one: cograd.baddbmm(*[one[None, None]] * 3, beta=WIDE)[0, 0] - 1,
        lambda one: cograd.addmv(one, one[None], one, alpha=WIDE) - 1,
        lambda one: cograd.addr(one[None], one, one, alpha=WIDE)[0] - 1,
        lambda one: cograd.add(one, one, alpha=WIDE) - 1,
    ],
)
def test_whole_factors_beyond_doubles_are_exact(f):
    assert f(tensor([1])).tolist() == [WIDE]


@pytest.mark.parametrize(
    "call",
    [
        lambda x: F.elu(x, 2 + 5j),
        lambda x: F.threshold(x, 1, 5 + 1j),
        lambda x: F.leaky_relu(x, 1j),
        lambda x: x.uniform_(0, 1 + 5j),
        lambda x: x.normal_(0, 1j),
        lambda x: cograd.nan_to_num(x, 1j),
        lambda x: cograd.cdist(x[None], x[None], p=2j),
        lambda x: cograd.logspace(0, 1, 2, base=2 + 1j),
        lambda x: F.layer_norm(x, (2,), eps=1j),
    ],
)
def test_parameters_that_are_real_refuse_imaginary_parts(call):
    with pytest.raises((TypeError, RuntimeError)):
        call(byte().float())
    assert F.elu(-byte().float(), 2 + 0j).isfinite().all()


@pytest.mark.parametrize("at", [-12.0, -7.0, -4.5, -1.0, 0.0, 2.0, 9.0])
def test_gelu_by_tanh_loses_no_digits_far_below_zero(at):
    # v sigmoid(2 u) and its derivative, where u = sqrt(2 / pi) (v + 0.044715 v^3), in 60 digits
    with mpmath.workdps(60):
        c = mpmath.sqrt(8 / mpmath.pi)
        value = lambda v: v / (1 + mpmath.exp(-c * (v + mpmath.mpf("0.044715") * v**3)))
        y, slope = float(value(mpmath.mpf(at))), float(mpmath.diff(value, mpmath.mpf(at)))
    for dtype, unit in ((cograd.float64, 1e-14), (cograd.float32, 1e-5)):
        x = leaf(at, dtype=dtype)
        f = F.gelu(x, approximate="tanh")
        (g,) = cograd.autograd.grad(f, x, create_graph=True)
        assert f.item() == pytest.approx(y, rel=unit, abs=1e-37)
        assert g.item() == pytest.approx(slope, rel=unit, abs=1e-37)


def test_a_variance_beyond_float16_is_infinite():
    x = byte().half()
    assert F.gaussian_nll_loss(x, x, 1e6, reduction="none").tolist() == [math.inf] * 2
    assert F.gaussian_nll_loss(x, x, 4, reduction="sum").item() == pytest.approx(
        2 * math.log(2), 1e-3
    )


def test_numbers_that_wrap_in_torch_wrap():
    x = byte()
    assert x.clamp(min=-5).tolist() == [251, 251]
    assert cograd.where(x > 3, x, -1).tolist() == [255, 5]
    assert x.masked_fill(x > 3, -1).tolist() == [1, 255]
    assert (x + 300).tolist() == [45, 49]
    assert (300 - x).tolist() == [43, 39]
    assert x.add(x, alpha=-1).tolist() == [0, 0]
    assert (tensor([1], dtype=cograd.uint16) + 70000).tolist() == [4465]
    assert x.clamp(max=255.9).tolist() == [1, 5]
    assert x.float().clamp(max=math.inf).tolist() == [1, 5]
    assert cograd.pow(x.float(), 1e300).tolist() == [1, math.inf]
    assert cograd.nan_to_num(x.float(), posinf=1e300).tolist() == [1, 5]
    assert x.masked_fill(x > 3, tensor(2.9)).tolist() == [1, 2]
    assert x.half().masked_fill(x > 3, -65504).tolist() == [1, -65504]
    assert x.half().masked_fill(x > 3, -math.inf).tolist() == [1, -math.inf]
    assert x.bfloat16().masked_fill(x > 3, -1e9).tolist()[0] == 1
    half = x.half()
    half[x > 3] = 1e6
    assert half.tolist() == [1, math.inf]
    half[0] = 1e6
    assert half.tolist() == [math.inf] * 2
    half[:] = -1e6
    assert half.tolist() == [-math.inf] * 2
    assert cograd.full((1,), math.inf, dtype=float16).tolist() == [math.inf]
    assert cograd.full((1,), -65504, dtype=float16).tolist() == [-65504]
    assert cograd.where(x > 3, x.half(), 1e6).tolist() == [math.inf, 5]
    assert cograd.add(x.half(), x.half(), alpha=1e6).tolist() == [math.inf] * 2
    assert cograd.add(x.half(), x.half() * 1e-6, alpha=1e6).isfinite().all()


MASK = tensor([True, False])
SAMPLES = tensor([300, 5])
UNDER_VMAP = {
    "value for each sample": (lambda v: byte().masked_fill(MASK, v), SAMPLES),
    "one value": (lambda x: x.masked_fill(MASK, tensor(300)), byte()[None]),
    "mask for each sample": (lambda m: byte().masked_fill(m, tensor(300)), MASK[None]),
    "float16": (lambda v: byte().half().masked_fill(MASK, v), tensor([-1e9, 5])),
    "complex": (lambda x: x.masked_fill(MASK, tensor(1j)), cograd.ones(1, 2)),
    "addmm": (lambda x: cograd.addmm(x, x, x, alpha=300), byte().expand(1, 2, 2)),
    "addmm beta": (lambda x: cograd.addmm(x, x, x, beta=1e39), cograd.ones(1, 2, 2)),
    "baddbmm": (lambda x: cograd.baddbmm(x, x, x, beta=300), byte().expand(1, 1, 2, 2)),
}


@pytest.mark.parametrize(("f", "x"), UNDER_VMAP.values(), ids=UNDER_VMAP.keys())
def test_numbers_that_the_dtype_has_not_raise_under_vmap(f, x):
    with pytest.raises(RuntimeError, match="cannot be converted to type"):
        cograd.vmap(f)(x)


def test_factors_of_integer_products_are_cut_under_vmap_too():
    x = cograd.ones(2, 2, dtype=cograd.int64)
    got = cograd.vmap(lambda x: cograd.addmm(x, x, x, alpha=2.5))(x[None])
    assert got.dtype == cograd.int64 and got[0].tolist() == [[5, 5], [5, 5]]


def test_messages_name_the_op_and_the_argument():
    x, m = byte(), cograd.ones(2, 2)
    for call, text in [
        (lambda: x.masked_fill(MASK, 300), r"masked_fill\(\): value 300 cannot .* uint8"),
        (lambda: x.__setitem__(MASK, 300), r"__setitem__\(\): value 300 cannot .* uint8"),
        (lambda: x.index_add(0, FIRST, x[:1], alpha=300), r"index_add\(\): alpha 300 cannot"),
        (lambda: cograd.addmm(m, m, m, beta=1e39), r"addmm\(\): beta 1e\+39 cannot .* float32"),
        (lambda: x.masked_fill(MASK, tensor(2**53 + 1)), "value 9007199254740993 cannot"),
        (lambda: m.long().masked_fill(m > 0, complex(math.nan, 0)), r"value \(nan, 0\) cannot"),
        (lambda: x.masked_fill(MASK, complex(-0.5, 0)), r"value \(-0.5, 0\) cannot"),
    ]:
        with pytest.raises(RuntimeError, match=text):
            call()


def test_whole_numbers_are_rounded_to_float32_once():
    v = 2**60 + 2**36 + 1
    expected = 1.1529216420458004e18
    zero, first = cograd.zeros(1), tensor([True])
    for value in (v, tensor(v)):
        assert zero.masked_fill(first, value).item() == expected
        assert zero.index_fill(0, FIRST, value).item() == expected
    assert cograd.full((1,), v, dtype=float32).item() == expected
    assert cograd.full((1,), 2**63 + 2**39 + 1, dtype=float32).item() == float(2**63 + 2**40)


def test_any_number_fills_bools():
    x = cograd.zeros(2, dtype=cograd.bool)
    for value in (1j, tensor(1j), tensor(300), 1e300):
        assert x.masked_fill(MASK, value).tolist() == [True, False]


def test_value_of_a_fill_may_lie_in_what_is_filled():
    x = tensor([1.0, 2.0, 3.0])
    x[tensor([True, True, False])] = x[1]
    assert x.tolist() == [2, 2, 3]


def test_alpha_dropout_draws_in_the_order_of_memory():
    cograd.set_rng("torch")
    try:
        cograd.manual_seed(0)
        kept = F.alpha_dropout(cograd.ones(3, 4).t(), 0.5, True) > 0
    finally:
        cograd.set_rng("philox")
    assert kept.tolist() == [[False] * 3, [False, False, True], [True] * 3, [False, True, True]]


def test_trapezoid_of_integers_sums_in_int64():
    trapezoid = cograd.trapezoid
    assert trapezoid(tensor([200] * 3, dtype=cograd.uint8)).item() == 528
    large = tensor([2**31 - 1] * 3, dtype=cograd.int32)
    assert trapezoid(large).item() == pytest.approx(3 * 2.0**31)
    assert trapezoid(tensor([100] * 3, dtype=cograd.int8), dx=2).item() == 656
    none = trapezoid(cograd.empty(0, 2, dtype=cograd.int32), dim=0)
    assert none.dtype == cograd.int32 and none.tolist() == [0, 0]
    assert trapezoid(cograd.empty(2, 0)).tolist() == [0, 0]


@pytest.mark.parametrize("loss", [F.cross_entropy, F.nll_loss])
@pytest.mark.parametrize("weighted", [False, True])
def test_class_loss_without_a_class_has_zero_gradients(loss, weighted):
    x = leaf(0.5, 1.0, -1.0).detach().reshape(1, 3).requires_grad_()
    weight = tensor([0.5, 1.0, 2.0]) if weighted else None
    y = loss(x, tensor([-100]), weight)
    (g,) = cograd.autograd.grad(y, x, create_graph=True)
    assert g.tolist() == [[0, 0, 0]]
    if loss is F.cross_entropy:
        (h,) = cograd.autograd.grad(g.sum(), x)
        assert h.tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("f", [F.elu, F.selu, F.celu])
def test_second_derivative_far_above_zero(f):
    first, second = gradients(f, leaf(89.0, 1e4, 1.0, -1.0))
    assert second[:3].tolist() == [0, 0, 0]
    assert second[3].item() == pytest.approx(first[3].item(), rel=1e-6)


NARROW = {
    "gelu": F.gelu,
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "mish": F.mish,
    "softplus": F.softplus,
    "logsigmoid": F.logsigmoid,
    "elu": F.elu,
    "selu": F.selu,
    "celu": F.celu,
    "hardswish": F.hardswish,
    "softsign": F.softsign,
    "tanhshrink": F.tanhshrink,
    "tanh": cograd.tanh,
    "sigmoid": cograd.sigmoid,
    "erf": cograd.erf,
    "hypot": lambda x: cograd.hypot(x, x + 1),
}


@pytest.mark.parametrize("dtype", [float16, cograd.bfloat16])
@pytest.mark.parametrize("f", NARROW.values(), ids=NARROW.keys())
def test_a_graph_of_the_gradient_does_not_change_it(f, dtype):
    x = cograd.linspace(-8, 8, 65).to(dtype).requires_grad_()
    (plain,) = cograd.autograd.grad(f(x).sum(), x)
    (recorded,) = cograd.autograd.grad(f(x).sum(), x, create_graph=True)
    assert recorded.dtype == dtype and recorded.requires_grad
    unit = cograd.finfo(dtype).eps
    assert bool(((recorded - plain).abs() <= unit * plain.abs() + 1e-7).all())


def test_recorded_gelu_gradients_of_16_bits():
    for dtype, at, expected in ((cograd.bfloat16, -3.0, -0.0116), (float16, 65504.0, 1.0)):
        x = leaf(at, dtype=dtype)
        y = F.gelu(x, approximate="tanh")
        (g,) = cograd.autograd.grad(y.sum(), x, create_graph=True)
        assert g.item() == pytest.approx(expected, rel=1e-2)


def test_autocast_of_contractions():
    a, b = cograd.randn(3, 4), cograd.randn(4, 5)
    with cograd.autocast("cpu", dtype=cograd.bfloat16):
        for y in (
            cograd.tensordot(a, b, 1),
            cograd.tensordot(a, b, ([1], [0])),
            cograd.linalg.vecdot(a, a),
        ):
            assert y.dtype == cograd.bfloat16
        assert cograd.linalg.vecdot(a.double(), a.double()).dtype == float64
        e = cograd.matrix_exp(cograd.eye(3).bfloat16())
        assert e.dtype == float32
        assert e[0, 0].item() == pytest.approx(math.e, rel=1e-5)


def test_log_ndtr_far_above_zero():
    x = leaf(30.0, 100.0, 5.0, 0.0, -5.0, -50.0, dtype=float64)
    first, second = gradients(cograd.special.log_ndtr, x)
    density = [math.exp(-v * v / 2) / math.sqrt(2 * math.pi) for v in x.tolist()]
    below = [math.erfc(-v / math.sqrt(2)) / 2 for v in x.tolist()]
    for i in range(5):
        ratio = density[i] / below[i]
        assert first[i].item() == pytest.approx(ratio, rel=1e-12)
        assert second[i].item() == pytest.approx(-ratio * (x[i].item() + ratio), rel=1e-9)
    assert second[0].item() == pytest.approx(-4.42e-195, rel=1e-2)
    assert second[5].item() == pytest.approx(-0.9996, abs=1e-4)


def test_bessel_gradients_at_subnormal_numbers():
    for dtype, values in ((float64, (1e-310, 5e-324, -1e-310, 1e-200)), (float32, (1e-40, 0.0))):
        for f in (cograd.special.i1, cograd.special.i1e):
            first, second = gradients(f, leaf(*values, dtype=dtype))
            assert first.tolist() == [0.5] * len(values)
            assert not second.isnan().any()
    _, second = gradients(cograd.special.i0e, leaf(5e-324, dtype=float64))
    assert second.item() == pytest.approx(1.5)
    x = leaf(0.3, -2.0, dtype=float64)
    assert cograd.autograd.gradgradcheck(cograd.special.i1e, (x,))


def test_erfcx_derivatives_far_above_zero():
    far = (49.9, 50.1, 200.0, 1e10)
    first, second = gradients(cograd.special.erfcx, leaf(*far, dtype=float64))
    for x, a, b in zip(far, first.tolist(), second.tolist(), strict=True):
        r = 1 / (x * x)
        series = 1 - r * (1.5 - r * (3.75 - r * (13.125 - r * 59.0625)))
        assert a == pytest.approx(-r / math.sqrt(math.pi) * series, rel=1e-10)
        series = 1 - r * (3 - r * (11.25 - r * (52.5 - r * 295.3125)))
        assert b == pytest.approx(2 * r / x / math.sqrt(math.pi) * series, rel=1e-7)


@pytest.mark.parametrize("padding", ["border", "reflection"])
def test_grid_sample_gradient_on_the_border_is_zero(padding):
    image = cograd.arange(9.0).reshape(1, 1, 3, 3)
    grid = tensor([[[[1.0, 0.2], [-1.0, 0.2], [0.3, 1.0]]]], requires_grad=True)
    y = F.grid_sample(image, grid, padding_mode=padding, align_corners=True)
    (g,) = cograd.autograd.grad(y.sum(), grid)
    flat = g.flatten().tolist()
    assert [flat[0], flat[2], flat[5]] == [0, 0, 0]
    assert [flat[1], flat[3], flat[4]] == pytest.approx([3, 3, 1])


@pytest.mark.parametrize("value", [math.inf, math.nan, 2.0, 0.0])
def test_product_of_one_number_has_gradient_one(value):
    x = tensor(value, requires_grad=True)
    (g,) = cograd.autograd.grad(x.prod(), x)
    assert g.item() == 1
