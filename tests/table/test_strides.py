# SPDX-License-Identifier: BSD-3-Clause
"""The order of dims in the memory of results, as recorded from torch 2.13.

A dim of size 1 is written "-": its stride is unused. Contiguous inputs give contiguous results.
"""

import pytest
from op_items import each_cell

import cograd as torch
from cograd import nn

# Sizes and strides of inputs.
LAYOUTS = {
    "c34": ((3, 4), (4, 1)),
    "t34": ((3, 4), (1, 3)),
    "s34": ((3, 4), (8, 2)),
    "row14": ((1, 4), (4, 1)),
    "col31": ((3, 1), (1, 1)),
    "v4": ((4,), (1,)),
    "e34": ((3, 4), (1, 0)),
    "e34b": ((3, 4), (0, 1)),
    "z": ((), ()),
    "c234": ((2, 3, 4), (12, 4, 1)),
    "p234": ((2, 3, 4), (3, 1, 6)),
    "q234": ((2, 3, 4), (4, 8, 1)),
    "r234": ((2, 3, 4), (1, 2, 6)),
    "w234": ((2, 3, 4), (1, 2, 0)),
    "p134": ((1, 3, 4), (3, 1, 3)),
    "cl": ((2, 3, 4, 5), (60, 1, 15, 3)),
    "n4": ((2, 3, 4, 5), (60, 20, 5, 1)),
    "cl1": ((2, 1, 4, 5), (20, 1, 5, 1)),
    "clhw1": ((2, 3, 1, 1), (3, 1, 3, 3)),
    "b1311": ((1, 3, 1, 1), (3, 1, 1, 1)),
    "cl3": ((2, 3, 4, 5, 6), (360, 1, 90, 18, 3)),
    "sl": ((2, 3, 4, 5), (120, 1, 30, 6)),
    "o3": ((1, 3, 4), (4, 4, 1)),
    "d1": ((3, 1, 1), (1, 3, 3)),
    "ss": ((2, 3, 5, 4), (1, 8, 24, 2)),
}

# The strides of an elementwise result of one input, of two (their sum) and of three (addcmul).
UNARY = {
    "c34": "4 1",
    "t34": "1 3",
    "s34": "4 1",
    "row14": "- 1",
    "col31": "1 -",
    "v4": "1",
    "e34": "4 1",
    "e34b": "4 1",
    "z": ".",
    "c234": "12 4 1",
    "p234": "3 1 6",
    "q234": "4 8 1",
    "r234": "1 2 6",
    "w234": "4 8 1",
    "p134": "- 1 3",
    "cl": "60 1 15 3",
    "n4": "60 20 5 1",
    "cl1": "20 - 5 1",
    "clhw1": "3 1 - -",
    "b1311": "- 1 - -",
    "cl3": "360 1 90 18 3",
    "sl": "60 1 15 3",
    "o3": "- 4 1",
    "d1": "1 - -",
    "ss": "1 8 24 2",
}
BINARY = """
row14 e34: 4 1; col31 r234: 1 2 6; b1311 sl: 60 1 15 3; w234 w234: 4 8 1; row14 q234: 4 8 1
b1311 cl: 60 1 15 3; q234 w234: 4 8 1; s34 b1311: - 12 4 1; cl1 sl: 60 1 15 3; c234 e34b: 12 4 1
c234 p134: 12 4 1; c34 p234: 12 4 1; z t34: 1 3; col31 p134: - 1 3; clhw1 cl: 60 1 15 3
p234 row14: 3 1 6; w234 p234: 1 2 6; w234 z: 4 8 1; t34 b1311: - 12 1 3; t34 v4: 1 3
q234 r234: 4 8 1; col31 p234: 3 1 6; cl z: 60 1 15 3; clhw1 sl: 60 1 15 3; q234 col31: 4 8 1
p134 z: - 1 3; ss clhw1: 1 8 24 2; e34b z: 4 1; o3 t34: - 4 1; c34 t34: 4 1; ss row14: 1 8 24 2
q234 p134: 4 8 1; e34 e34: 4 1; d1 s34: 12 4 1; e34b o3: - 4 1; z s34: 4 1; e34 c234: 12 4 1
p134 c234: 12 1 3; e34b c34: 4 1; s34 t34: 4 1; v4 p234: 3 1 6; o3 p134: - 4 1; t34 c234: 12 1 3
p234 e34: 3 1 6; q234 e34b: 4 8 1; s34 c234: 12 4 1; c234 t34: 12 4 1; p134 col31: - 1 3
c234 s34: 12 4 1; v4 w234: 4 8 1; p234 col31: 3 1 6; w234 col31: 4 8 1; p134 r234: 1 2 6
s34 z: 4 1; e34 clhw1: 36 12 4 1; row14 r234: 1 2 6; row14 p234: 3 1 6; t34 q234: 12 1 3
sl cl: 60 1 15 3; b1311 e34: - 12 4 1; sl clhw1: 60 1 15 3; clhw1 ss: 12 4 24 1; q234 e34: 4 8 1
r234 t34: 1 2 6; e34b e34b: 4 1; col31 t34: 1 3; w234 r234: 1 2 6; s34 clhw1: 36 12 4 1
q234 c234: 4 8 1; o3 e34: - 4 1; row14 ss: 1 8 24 2; ss ss: 1 8 24 2; d1 cl: 60 1 15 3
clhw1 e34: 36 12 4 1; e34 q234: 4 8 1; t34 row14: 1 3; clhw1 s34: 36 12 4 1; cl d1: 60 1 15 3
p134 e34: - 1 3; d1 e34: 12 4 1; clhw1 e34b: 36 12 4 1; s34 c34: 4 1; col31 w234: 4 8 1
r234 z: 1 2 6; w234 e34b: 4 8 1; w234 c234: 4 8 1; c34 e34b: 4 1; t34 col31: 1 3; row14 s34: 4 1
e34b v4: 4 1
"""
TERNARY = """
o3 row14 e34: - 4 1; c234 o3 e34b: 12 4 1; c34 w234 s34: 4 8 1; p234 s34 t34: 3 1 6
o3 w234 s34: 4 8 1; col31 e34 p134: - 1 3; e34 s34 t34: 4 1; s34 c234 v4: 12 4 1
clhw1 t34 b1311: 36 12 1 3; v4 z e34: 4 1; row14 o3 w234: 4 8 1; col31 e34b e34: 4 1
q234 e34 c234: 4 8 1; c34 p134 r234: 1 8 2; c234 v4 e34b: 12 4 1; z e34b t34: 1 3
e34 r234 col31: 1 2 6; cl1 cl d1: 60 1 15 3; w234 col31 e34b: 4 8 1; s34 p234 col31: 12 4 1
p134 w234 v4: 1 8 2; t34 v4 o3: - 1 3; b1311 clhw1 ss: 12 4 24 1; c34 e34b w234: 4 8 1
p134 clhw1 e34: 36 12 1 3; p134 z e34: - 1 3; r234 z t34: 1 2 6; d1 v4 ss: 1 8 24 2
s34 row14 clhw1: 36 12 4 1; z p134 r234: 1 2 6; t34 row14 clhw1: 36 12 1 3; e34b p234 r234: 3 1 6
v4 row14 q234: 4 8 1; z t34 o3: - 1 3; q234 o3 v4: 4 8 1; q234 e34b p134: 4 8 1
z b1311 e34: - 12 4 1; r234 e34 w234: 1 2 6; e34 c34 t34: 4 1; p134 p234 r234: 3 1 6
p134 e34 p234: 3 1 6; e34 c34 e34b: 4 1; b1311 col31 p134: - 12 1 3; q234 s34 row14: 4 8 1
o3 t34 q234: 4 8 1; d1 e34 p134: 12 1 3; v4 c234 w234: 12 4 1; o3 e34 p134: - 4 1
e34b col31 o3: - 4 1; n4 sl cl1: 60 20 5 1; c234 s34 t34: 12 4 1; e34 c34 c234: 12 4 1
c234 row14 w234: 12 4 1; p234 z o3: 3 1 6; s34 v4 c34: 4 1; z r234 v4: 1 2 6
e34 row14 c234: 12 4 1; p234 e34b p134: 3 1 6; r234 t34 z: 1 2 6; e34b t34 clhw1: 36 12 1 3
"""


def make(name, dtype=torch.float32):
    sizes, strides = LAYOUTS[name]
    room = 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    return torch.arange(room).to(dtype).as_strided(sizes, strides)


def strides(t):
    got = ("-" if n == 1 else str(s) for n, s in zip(t.shape, t.stride(), strict=True))
    return " ".join(got) or "."


def recorded(text):
    items = (item.split(": ") for line in text.strip().split("\n") for item in line.split("; "))
    return [pytest.param(names.split(), want, id=names) for names, want in items]


UNARY_OPS = {
    "exp": torch.exp,
    "add a number": lambda x: x + 1,
    "compare": lambda x: x > 1,
    "cast": lambda x: x.double(),
    "int": lambda x: x.int(),
    "round": lambda x: x.round(decimals=1),
    "pow": lambda x: x**3,
    "clamp": lambda x: x.clamp(0, 2),
    "where": lambda x: torch.where(x > 1, x, 0.0),
    "dropout": lambda x: nn.functional.dropout(x, 0.5),
    "clone": lambda x: x.clone(),
    "empty_like": torch.empty_like,
    "zeros_like": torch.zeros_like,
    "full_like": lambda x: torch.full_like(x, 2),
    "randn_like": torch.randn_like,
    "same strides": lambda x: x + x,
}


@each_cell("op", UNARY_OPS)
@each_cell("name", UNARY)
def test_one_input(name, op):
    assert strides(UNARY_OPS[op](make(name))) == UNARY[name]


@pytest.mark.parametrize("name", UNARY)
def test_one_integer_input_of_a_float_op(name):
    assert strides(make(name, torch.int32).exp()) == UNARY[name]


@each_cell(("names", "want"), recorded(BINARY))
def test_two_inputs(names, want):
    a, b = (make(n) for n in names)
    assert strides(a + b) == want
    assert strides(a < b) == want
    assert strides(make(names[0], torch.int64) * b) == want
    got, flat = a * b, a.contiguous() * b.contiguous()
    assert torch.equal(got, flat)


@each_cell(("names", "want"), recorded(TERNARY))
def test_three_inputs(names, want):
    a, b, c = (make(n) for n in names)
    got = torch.addcmul(a, b, c)
    assert strides(got) == want
    assert torch.equal(got, torch.addcmul(a.contiguous(), b.contiguous(), c.contiguous()))


def test_a_view_of_a_transposed_product():
    x = torch.randn(3, 4, requires_grad=True)
    (x.t() * 2).t().view(12).sum().backward()
    assert torch.equal(x.grad, torch.full((3, 4), 2.0))


@pytest.mark.parametrize("fused", [True, False])
def test_gradients_keep_the_order_too(fused):
    x = torch.randn(4, 3).t().requires_grad_()
    (g,) = torch.autograd.grad(x.tanh(), x, torch.ones(4, 3).t(), create_graph=not fused)
    assert g.stride() == (1, 3)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0, 2)])
def test_empty_tensors(shape):
    x = torch.ones(shape).transpose(0, -1)
    assert (x + 1).shape == x.shape
    assert torch.empty_like(x).is_contiguous()


def test_out_of_place_in_place_and_out_agree():
    x = torch.randn(4, 3).t()
    want = x.exp()
    out = torch.empty(3, 4)
    assert torch.equal(torch.exp(x, out=out), want)
    assert out.stride() == (4, 1)
    assert torch.equal(x.clone().exp_(), want)


# memory_format

LAST, LAST3D = torch.channels_last, torch.channels_last_3d


def test_formats_are_of_one_type():
    for name in ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d"):
        assert isinstance(getattr(torch, name), torch.memory_format)


@pytest.mark.parametrize(
    "convert",
    [
        lambda x, f: x.contiguous(memory_format=f),
        lambda x, f: x.clone(memory_format=f),
        lambda x, f: x.to(memory_format=f),
        lambda x, f: x.to(torch.float64, memory_format=f),
        lambda x, f: x.double(memory_format=f),
        lambda x, f: torch.empty_like(x, memory_format=f),
        lambda x, f: torch.zeros_like(x, memory_format=f),
        lambda x, f: torch.ones_like(x, memory_format=f),
        lambda x, f: torch.full_like(x, 1.5, memory_format=f),
        lambda x, f: torch.rand_like(x, memory_format=f),
        lambda x, f: torch.randn_like(x, memory_format=f),
        lambda x, f: torch.randint_like(x, 3, memory_format=f),
        lambda x, f: torch.empty(x.shape, memory_format=f),
        lambda x, f: torch.ones(7).resize_(x.shape, memory_format=f),
        lambda x, f: torch.ones(7).resize_as_(x, memory_format=f),
    ],
)
def test_every_way_to_a_format(convert):
    x = torch.randn(2, 3, 4, 5)
    y = convert(x, LAST)
    assert y.stride() == (60, 1, 15, 3)
    assert y.is_contiguous(memory_format=LAST)
    assert not y.is_contiguous()
    assert convert(y, torch.contiguous_format).stride() == (60, 20, 5, 1)
    z = convert(torch.randn(2, 3, 4, 5, 6), LAST3D)
    assert z.stride() == (360, 1, 90, 18, 3)
    assert z.is_contiguous(memory_format=LAST3D)
    with pytest.raises(RuntimeError, match="required rank 4 tensor to use channels_last format"):
        convert(torch.randn(2, 3), LAST)


def test_values_survive_and_gradients_flow():
    x = torch.randn(2, 3, 4, 5, requires_grad=True)
    y = x.contiguous(memory_format=LAST)
    assert torch.equal(x, y)
    assert y.contiguous(memory_format=LAST) is y
    (y * y).sum().backward()
    assert torch.equal(x.grad, 2 * x.detach())


def test_preserve_format():
    x = torch.randn(2, 3, 4, 5).to(memory_format=LAST)
    assert x.clone(memory_format=torch.preserve_format).stride() == x.stride()
    assert x.double(memory_format=torch.preserve_format).stride() == x.stride()
    assert x.to(memory_format=torch.preserve_format) is x
    with pytest.raises(RuntimeError, match="preserve memory format is unsupported"):
        x.contiguous(memory_format=torch.preserve_format)
    with pytest.raises(RuntimeError, match="unsupported memory format"):
        torch.empty(2, memory_format=torch.preserve_format)
    with pytest.raises(RuntimeError, match="Unsupported memory format"):
        torch.ones(2).resize_(3, memory_format=torch.preserve_format)
    other = torch.ones(1).resize_as_(x, memory_format=torch.preserve_format)
    assert other.stride() == x.stride()


@pytest.mark.parametrize(
    ("sizes", "steps", "last"),
    [
        ((2, 1, 4, 5), (20, 1, 5, 1), True),
        ((2, 3, 1, 1), (3, 1, 1, 1), True),
        ((1, 3, 4, 5), (60, 20, 5, 1), False),
        ((2, 3, 4, 5), (120, 1, 30, 6), False),
    ],
)
def test_is_contiguous_where_sizes_are_one(sizes, steps, last):
    x = torch.empty_strided(sizes, steps)
    assert x.is_contiguous(memory_format=LAST) is last
    assert not x.is_contiguous(memory_format=LAST3D)


def test_is_contiguous_refuses_other_arguments():
    x = torch.ones(2)
    with pytest.raises(TypeError, match="must be torch.memory_format, not int"):
        x.is_contiguous(memory_format=3)
    with pytest.raises(TypeError, match="takes one argument, memory_format"):
        x.is_contiguous(format=LAST)
    with pytest.raises(RuntimeError, match="memory_format upside_down is not supported"):
        x.is_contiguous(memory_format="upside_down")


def test_a_module_moves_its_images_only():
    m = nn.Module()
    m.kernel = nn.Parameter(torch.randn(2, 3, 4, 5))
    m.bias = nn.Parameter(torch.randn(2, 3))
    m.register_buffer("seen", torch.zeros(2, 2, 2, 2))
    assert m.to(memory_format=LAST) is m
    assert m.kernel.stride() == (60, 1, 15, 3)
    assert m.bias.stride() == (3, 1)
    assert m.seen.stride() == (8, 1, 4, 2)
    assert isinstance(m.kernel, nn.Parameter)
    assert m.kernel.requires_grad


@pytest.mark.parametrize(
    ("sizes", "strides"),
    [((0, 3, 2, 2), (12, 1, 6, 3)), ((2, 1, 3, 3), (9, 1, 3, 1)), ((1, 3, 1, 1), (3, 1, 3, 3))],
)
def test_a_format_that_the_sizes_leave_open(sizes, strides):
    x = torch.zeros(sizes)
    assert x.to(memory_format=torch.channels_last).stride() == strides
    if x.numel() > 0:
        assert x.contiguous(memory_format=torch.channels_last) is x


@pytest.mark.parametrize("dims", [(1, 0), (2, 0, 1), (3, 1, 0, 2)])
def test_a_conversion_to_contiguous_format_is_contiguous(dims):
    x = torch.rand(*range(3, 3 + len(dims))).permute(dims)
    rows = x.contiguous().stride()
    assert x.stride() != rows
    for y in (
        x.to(torch.float64, memory_format=torch.contiguous_format),
        x.double(memory_format=torch.contiguous_format),
        x.half(memory_format=torch.contiguous_format),
        x.to(torch.float32, copy=True, memory_format=torch.contiguous_format),
    ):
        assert y.stride() == rows and torch.allclose(y.float(), x, atol=1e-3)


def test_the_gradient_of_instance_norm_lies_in_rows():
    x = torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last).requires_grad_()
    y = torch.nn.InstanceNorm2d(3)(x)
    (g,) = torch.autograd.grad(y.square().sum(), x)
    assert y.stride() == g.stride() == (60, 20, 5, 1)
