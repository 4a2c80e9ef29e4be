# SPDX-License-Identifier: BSD-3-Clause
"""Dtypes, rounding and strides of results for extreme arguments of an op."""

import math

import numpy as np
import pytest
from op_items import each_cell

import cograd as torch
from cograd.autograd import gradcheck, gradgradcheck
from cograd.nn import functional as F

F8 = torch.float64
HALVES = [torch.float16, torch.bfloat16]
INF, NAN = math.inf, math.nan


def test_ldexp_in_place_on_a_recorded_tensor():
    x = torch.tensor([1.0, -2.0, 3.3], dtype=F8, requires_grad=True)
    e = torch.tensor([2.0, 3.0, -1.0], dtype=F8, requires_grad=True)
    y = x.clone()
    y.ldexp_(e)
    gx, ge = torch.autograd.grad(y.sum(), (x, e))
    assert gx.tolist() == [4, 8, 0.5]
    assert torch.allclose(ge, y.detach() * math.log(2))
    assert gradcheck(lambda a, b: (a * 1).ldexp_(b), (x, e))
    assert gradgradcheck(torch.ldexp, (x, e))
    assert gradgradcheck(lambda a, b: (a * 1).ldexp_(b), (x, e))


@pytest.mark.parametrize("dtype", [*HALVES, torch.float32, F8])
@pytest.mark.parametrize("exponents", [torch.int8, torch.int32, torch.int64])
def test_ldexp_has_the_dtype_of_the_significand(dtype, exponents):
    x = torch.tensor([1.0, 2.0, 3.3], dtype=dtype, requires_grad=True)
    e = torch.tensor([2, 3, -1], dtype=exponents)
    y = torch.ldexp(x, e)
    assert y.dtype == dtype and y.tolist() == [4, 16, x[2].item() / 2]
    assert torch.autograd.grad(y.sum(), x)[0].tolist() == [4, 8, 0.5]
    assert torch.ldexp(torch.ones((), dtype=dtype), e).dtype == dtype


def test_ldexp_of_integers_is_of_the_default_dtype():
    assert torch.ldexp(torch.tensor([3]), torch.tensor([4])).dtype == torch.float32
    mixed = torch.ldexp(torch.ones(2, dtype=torch.float16), torch.ones(2))
    assert mixed.dtype == torch.float32


@pytest.mark.parametrize(("dtype", "low", "high"), [(torch.float32, -149, 127), (F8, -1074, 1023)])
def test_ldexp_is_exact_and_overflows_late(dtype, low, high):
    numpy = np.float32 if dtype is torch.float32 else np.float64
    n = torch.arange(low - 40, high + 40)
    for v in (1.0, 1.5, -1.9375):
        got = torch.ldexp(torch.full((len(n),), v, dtype=dtype), n)
        with np.errstate(all="ignore"):
            want = np.ldexp(numpy(v), n.numpy())
        normal = n.numpy() > low + 30
        assert (got.numpy() == want)[normal].all()
        assert np.allclose(got.numpy(), want, atol=2.0 ** (low + 1) if dtype is F8 else 1e-44)
    x = torch.tensor([2.0**low, 0.0, INF, NAN, 1.0, 1.0], dtype=dtype)
    n = torch.tensor([high - low, 10**4, -(10**4), 3, 10**4, -(10**4)])
    got = torch.ldexp(x, n).tolist()
    assert got[:3] == [2.0**high, 0, INF] and math.isnan(got[3]) and got[4:] == [INF, 0]


def test_ldexp_of_half_is_rounded_once():
    x = torch.tensor([1e-4, 1e-3], dtype=torch.float16)
    assert torch.ldexp(x, torch.tensor([20, 20])).tolist() == [104.875, 1049.0]
    x = torch.tensor([1e-3], dtype=torch.float16)
    e = torch.tensor(3.5, dtype=F8)
    exact = torch.tensor([x.item() * 2**3.5], dtype=F8).to(torch.float16)
    assert torch.equal(torch.ldexp(x, e), exact)


@pytest.mark.parametrize("dtype", HALVES)
def test_nextafter_of_halves(dtype):
    smallest = 2.0**-24 if dtype is torch.float16 else 2.0**-133
    step = 2.0**-10 if dtype is torch.float16 else 2.0**-7
    largest = torch.finfo(dtype).max
    a = [1, 1, 1, -1, -1, 0, 0, -0.0, smallest, -smallest, largest, INF, -INF, 2, NAN, 1, 0]
    b = [2, 0, 1, 0, -2, 1, -1, 0.0, -1, 1, INF, 0, -INF, -INF, 1, NAN, -0.0]
    want = [1 + step, 1 - step / 2, 1, step / 2 - 1, -1 - step, smallest, -smallest, 0, 0, 0]
    want += [INF, largest, -INF, 2 - step, NAN, NAN, 0]
    x, y = torch.tensor(a, dtype=dtype), torch.tensor(b, dtype=dtype)
    for got in (torch.nextafter(x, y), x.clone().nextafter_(y)):
        assert got.dtype == dtype and got.tolist() == pytest.approx(want, rel=0, nan_ok=True)
    apart = torch.stack([x, y], 1)  # strides of two
    assert torch.equal(torch.nextafter(apart[:-3, 0], apart[:-3, 1]), torch.nextafter(x, y)[:-3])
    x = torch.ones(3, dtype=dtype, requires_grad=True)
    assert torch.autograd.grad(torch.nextafter(x, x * 2).sum(), x)[0].tolist() == [1, 1, 1]


def test_heaviside_of_bools():
    x, v = torch.tensor([True, False, False]), torch.tensor([False, True, False])
    assert torch.heaviside(x, v).tolist() == [True, True, False]
    assert torch.heaviside(x, v).dtype == torch.bool


def test_a_bool_to_the_power_of_a_bool():
    x = torch.tensor([True, False])
    assert (x**True).dtype == torch.bool and (x**True).tolist() == [True, False]
    assert (x**False).dtype == torch.bool and (x**False).tolist() == [True, True]
    assert x.clone().pow_(True).tolist() == [True, False]
    assert (x**2).dtype == torch.int64


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_exponents_that_an_integer_dtype_cannot_hold_raise(dtype):
    largest = torch.iinfo(dtype).max
    x = torch.tensor([1, 0], dtype=dtype)
    assert (x**largest).tolist() == [1, 0]
    for e in (largest + 1, 2**40, 2**63 - 1):
        for f in (torch.pow, torch.Tensor.pow_):
            with pytest.raises(RuntimeError, match=f"exponent {e} .*without overflow"):
                f(x.clone(), e)
    assert (x.to(torch.int64) ** (2**63 - 1)).tolist() == [1, 0]


@pytest.mark.parametrize("dtype", [*HALVES, torch.float32, F8])
@pytest.mark.parametrize("weight", [torch.bool, torch.int64, torch.float16, torch.float32, F8])
def test_lerp_takes_a_weight_of_no_dims_of_any_dtype(dtype, weight):
    a, b = torch.tensor([1.0, 0], dtype=dtype), torch.tensor([3.0, 2], dtype=dtype)
    w = torch.tensor(1, dtype=weight)
    for got in (torch.lerp(a, b, w), a.clone().lerp_(b, w)):
        assert got.dtype == dtype and got.tolist() == [3, 2]
    if weight.is_floating_point:
        w.requires_grad_()
        (g,) = torch.autograd.grad(torch.lerp(a, b, w).sum(), w)
        assert g.dtype == weight and g.item() == 4
        if weight is not dtype:
            with pytest.raises(RuntimeError, match="for `weight`"):
                torch.lerp(a, b, w.expand(2))


def test_lerp_of_integers_still_raises():
    x = torch.tensor([1, 2])
    with pytest.raises(NotImplementedError, match="int64"):
        torch.lerp(x, x, 0.5)
    with pytest.raises(NotImplementedError, match="int64"):
        torch.lerp(x, x, torch.tensor(1))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_addcmul_of_integers_cuts_the_value(dtype):
    x = torch.tensor([1, 2], dtype=dtype)
    for value, want in ((2.0, [3, 10]), (2.9, [3, 10]), (0.5, [1, 2])):
        assert torch.addcmul(x, x, x, value=value).tolist() == want
        assert x.clone().addcmul_(x, x, value=value).tolist() == want
        assert torch.addcmul(x, x, x, value=value).dtype == dtype


def test_a_number_to_the_power_of_a_tensor_is_contiguous():
    for x in (torch.rand(3, 4).t(), torch.ones(2, 3, 4, 5).permute(0, 2, 3, 1)):
        for y in (2**x, torch.pow(2.0, x), torch.pow(1, x), torch.float_power(2, x)):
            assert y.is_contiguous()
        for y in (x**2, x**0, x**1, torch.float_power(x, 2), x**x, 2 - x):
            assert y.stride() == x.stride()
    x = torch.rand(3, 4).t().requires_grad_()
    (g,) = torch.autograd.grad((2**x).sum(), x)
    assert torch.allclose(g, 2**x * math.log(2))
    assert torch.equal(2 ** x.detach(), 2 ** x.detach().contiguous())


LAST = torch.arange(120.0).reshape(2, 3, 4, 5).permute(0, 3, 1, 2)  # channels last


@pytest.mark.parametrize(
    "pad", [(), (0, 0), (0, 0, 0, 0), (-1, 0), (-1, -1, 0, -1), (1, 0), (-1, 2)]
)
@pytest.mark.parametrize("dim", [2, 4])
def test_constant_pad_keeps_the_memory_format(pad, dim):
    x = LAST if dim == 4 else torch.arange(12.0).reshape(3, 4).t()
    y = F.pad(x, pad, value=7.0)
    assert torch.equal(y, F.pad(x.contiguous(), pad, value=7.0))
    assert y.data_ptr() != x.data_ptr()
    if dim == 4:
        assert y.is_contiguous(memory_format=torch.channels_last)
    elif all(n <= 0 for n in pad):
        assert y.stride(0) == 1
    else:
        assert y.is_contiguous()


def test_circular_pad_of_no_width_is_contiguous():
    y = F.pad(LAST, (0, 0, 0, 0), "circular")
    assert y.is_contiguous() and torch.equal(y, LAST)


@pytest.mark.parametrize("pad", [(0, 0), (-3, 0), (-1, -2), (-1, 1), (0, 0, -2, 0), (2, -3)])
def test_pads_that_leave_nothing_or_all(pad):
    x = torch.rand(2, 3, dtype=F8, requires_grad=True)
    y = F.pad(x, pad, value=2.0)
    sizes = [2, 3]
    for k in range(len(pad) // 2):
        sizes[1 - k] += pad[2 * k] + pad[2 * k + 1]
    assert list(y.shape) == sizes
    assert gradcheck(lambda x: F.pad(x, pad, value=2.0), (x,))
    assert F.pad(torch.zeros(2, 0, 3), pad[:2]).shape == (2, 0, 3 + sum(pad[:2]))


@pytest.mark.parametrize("byte", [2, 7, 32, 128, 255])
def test_bools_whose_bytes_are_not_0_or_1(byte):
    """Views, files and NumPy can bring such memory: any byte but 0 is true."""
    b = torch.full((4099,), byte, dtype=torch.uint8).view(torch.bool)
    b[5] = False
    x = torch.arange(4099)
    for count in (b.sum(), b.float().sum(), (b + 0).sum(), b.cumsum(0)[-1], b.count_nonzero()):
        assert count.item() == 4098
    assert b.int().max().item() == b.to(torch.uint16).int().max().item() == 1
    assert (b * 3.0).max().item() == 3
    for rows in (b.nonzero()[:, 0], x[b], x.masked_select(b), torch.where(b)[0]):
        assert torch.equal(rows, torch.cat([x[:5], x[6:]]))
    square = b[:4096].view(64, 64)
    assert square.nonzero().min().item() == 0 and square.nonzero().max().item() == 63
    with pytest.raises(RuntimeError, match="got 4 and 4098"):
        torch.zeros(4099).masked_scatter(b, torch.ones(4))
    assert torch.zeros(4099).masked_scatter(b, torch.ones(4098)).sum().item() == 4098
    one = b[:1][0]
    assert (int(one), float(one), one.item(), [5, 6][one]) == (1, 1.0, True, 6)
    assert b[:5].prod().item() == 1 and b[4:7].min(0).indices.item() == 1
    odd = torch.tensor([byte, 1, 0, byte], dtype=torch.uint8).view(torch.bool)
    values, inverse, counts = odd.unique(return_inverse=True, return_counts=True)
    assert values.tolist() == [False, True]
    assert inverse.tolist() == [1, 1, 0, 1] and counts.tolist() == [1, 3]
    assert torch.unique_consecutive(odd).tolist() == [True, False, True]
    assert odd.argsort(stable=True).tolist() == [2, 0, 1, 3]
    assert odd.mode().values.item() is True
    assert torch.isin(odd, torch.tensor([True])).tolist() == [True, True, False, True]
    assert torch.isin(torch.tensor([True, False]), odd[:1]).tolist() == [True, False]
    assert torch.searchsorted(torch.tensor([False, True]), odd).tolist() == [1, 1, 0, 1]


@each_cell("dtype", HALVES)
@each_cell("number", [0.1, 0.7, -1.3, 1e-8, 70000.0, 1e6])
@each_cell("shape", [(5,), (700,), (40, 30), (1,), ()])
def test_a_number_beside_halves_keeps_its_precision(dtype, number, shape):
    """Products and quotients keep it; 1e6 and 1e-8 have no float16 value, 0.1 is rounded."""
    x = (torch.rand(shape) * 3 + 1).to(dtype)
    views = [x, x.movedim(0, -1) if shape else x, x.expand(2, *shape)]
    views.append(x.unsqueeze(0)[..., ::2] if shape else x)
    for view in views:
        wide = view.float()
        single = torch.tensor(number, dtype=torch.float32)
        assert torch.equal(view * number, (wide * single).to(dtype))
        assert torch.equal(number * view, (wide * single).to(dtype))
        assert torch.equal(view / number, (wide / single).to(dtype))
        assert torch.equal(number / view, (single / wide).to(dtype))
        floor = torch.div(view, number, rounding_mode="floor")
        assert torch.equal(floor, torch.div(wide, single, rounding_mode="floor").to(dtype))
        if view.dim() > 0:
            boxed = torch.tensor(number, dtype=F8)
            assert torch.equal(view * boxed, view * number)
            assert torch.equal(boxed / view, number / view)
    assert torch.equal(x.clone().div_(number), x / number)
    assert torch.equal(torch.mul(x, number, out=torch.empty_like(x)), x * number)


@pytest.mark.parametrize("dtype", HALVES)
def test_gradients_beside_a_number_keep_its_precision(dtype):
    x = torch.tensor([60000.0, 2.0], dtype=dtype, requires_grad=True)
    (x / 1e6).sum().backward()
    assert torch.equal(x.grad, torch.full((2,), 1e-6).to(dtype))
    x.grad = None
    (x * 0.7).sum().backward()
    assert torch.equal(x.grad, torch.full((2,), 0.7).to(dtype))
    y = torch.tensor([1e3, 2e3], dtype=dtype, requires_grad=True)
    (1e6 / y).sum().backward()
    torch.testing.assert_close(y.grad.float(), torch.tensor([-1.0, -0.25]), rtol=1e-2, atol=0)
    assert torch.func.vmap(lambda v: v / 1e6)(x.detach()).tolist() == (x.detach() / 1e6).tolist()
