# SPDX-License-Identifier: BSD-3-Clause
"""A row writes a gradient over the gradient that it uses, unless anyone else can see that."""

from __future__ import annotations

import threading
import weakref

import numpy as np
import pytest

import cograd as torch

# name, function of two operands: one step, a fused loop, and unary rows after one another.
PAIRS = {
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "maximum": torch.maximum,
    "hypot": torch.hypot,
    "exp": lambda a, b: (a * b).exp().tanh(),
}
SHAPES = {
    "equal": ((3, 4), (3, 4)),
    "row": ((3, 4), (4,)),
    "column": ((3, 1), (3, 4)),
    "both": ((3, 1), (1, 4)),
    "0-dim": ((3, 4), ()),
    "scalars": ((), ()),
    "one": ((1,), (1,)),
    "empty": ((0, 4), (4,)),
    "large": ((200, 100), (200, 100)),
    "large row": ((200, 100), (100,)),
}


def operand(*shape: int, dtype=torch.float32) -> torch.Tensor:
    return torch.rand(*shape).add(0.5).to(dtype).requires_grad_()


def same_bits(x: torch.Tensor, y: torch.Tensor) -> bool:
    return x.shape == y.shape and x.dtype == y.dtype and x.tolist() == y.tolist()


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_are_those_of_a_recorded_backward(name, shape):
    f = PAIRS[name]
    a, b = (operand(*s, dtype=torch.float64) for s in SHAPES[shape])
    g = torch.rand_like(f(a, b))
    before = g.clone()
    got = torch.autograd.grad(f(a, b), (a, b), g)
    want = torch.autograd.grad(f(a, b), (a, b), g, create_graph=True)
    for x, y in zip(got, want, strict=True):
        assert torch.allclose(x, y, rtol=1e-13, atol=1e-13) and not x.requires_grad
    for i, x in enumerate((a, b)):  # with a gradient of one operand
        (one,) = torch.autograd.grad(f(a, b), x, g)
        assert same_bits(one, got[i])
    assert same_bits(g, before)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.complex64, torch.float64])
@pytest.mark.parametrize("shape", ["equal", "row", "0-dim"])
def test_products_and_quotients_have_the_bits_of_ops(dtype, shape):
    a, b = (operand(*s, dtype=dtype) for s in SHAPES[shape])
    g = torch.rand_like(a * b)
    conj = torch.conj
    ga, gb = torch.autograd.grad(a * b, (a, b), g)
    with torch.no_grad():
        assert same_bits(ga, (g * conj(b)).sum_to_size(a.shape))
        assert same_bits(gb, (g * conj(a)).sum_to_size(b.shape))
    (ga,) = torch.autograd.grad(a / b, a, g)
    with torch.no_grad():
        assert same_bits(ga, conj(conj(g) / b).sum_to_size(a.shape))


@pytest.mark.parametrize("number", [2, 0.5, True])
def test_a_number_beside_a_tensor(number):
    a, g = operand(4), torch.rand(4)
    assert same_bits(torch.autograd.grad(a * number, a, g)[0], g * number)
    assert same_bits(torch.autograd.grad(a / number, a, g)[0], g / number)
    (got,) = torch.autograd.grad(number / a, a, g)
    assert torch.allclose(got, -g * number / (a.detach() * a.detach()))


def test_an_operand_of_another_dtype():
    a, b, g = operand(4, dtype=torch.float64), operand(4), torch.rand(4, dtype=torch.float64)
    ga, gb = torch.autograd.grad(a * b, (a, b), g)
    assert ga.dtype == torch.float64 and gb.dtype == torch.float32
    assert same_bits(ga, g * b.detach()) and same_bits(gb, (g * a.detach()).float())


def test_both_operands_are_one_tensor():
    x, g = operand(4), torch.rand(4)
    y = x * x
    (twice,) = torch.autograd.grad(y, x, g, retain_graph=True)
    assert same_bits(twice, g * x.detach() + g * x.detach())
    (again,) = torch.autograd.grad(y * y, x, g)
    assert torch.allclose(again, g * 4 * x.detach() ** 3)


def test_a_gradient_that_two_nodes_get():
    x, y, u, v, g = (operand(4) for _ in range(5))
    g = g.detach()
    ((x * y) + (u * v)).backward(g)  # add passes one tensor to both products
    for t, other in ((x, y), (y, x), (u, v), (v, u)):
        assert same_bits(t.grad, g * other.detach())


def test_gradients_that_hooks_retain_grad_and_grad_see_do_not_change():
    x, y, g = operand(4), operand(4), torch.rand(4)
    kept, seen = [], []
    h = x * 2.0
    z = h * y
    z.register_hook(kept.append)
    z.retain_grad()
    z.grad_fn.register_hook(lambda _inputs, outputs: seen.append(outputs[0]))
    z.grad_fn.register_prehook(lambda outputs: seen.append(outputs[0]))
    (z * 3.0).backward(g)
    for t in (*kept, *seen, z.grad):
        assert same_bits(t, g * 3.0)
    assert same_bits(y.grad, g * 3.0 * (x.detach() * 2.0))
    z = x * y
    of_z, of_x = torch.autograd.grad(z * 3.0, (z, x), g)
    assert same_bits(of_z, g * 3.0) and same_bits(of_x, g * 3.0 * y.detach())


def test_a_gradient_whose_object_is_watched_weakly_does_not_change():
    x, y, g = operand(4), operand(4), torch.rand(4)
    z, watched, found = x * y, [], []

    def hook(grad):
        grad.note = "an attribute keeps the object while the tensor lives"
        watched.append(weakref.ref(grad))

    def look(_):
        grad = watched[0]()
        found.append("gone" if grad is None else grad.tolist())

    z.register_hook(hook)
    x.register_hook(look)
    (z * 3.0).backward(g)
    assert found[0] in ("gone", (g * 3.0).tolist())


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
@pytest.mark.parametrize("of", ["numpy", "a tensor", "a view", "read-only"])
def test_memory_that_a_hook_returns_does_not_change(of):
    x, y = operand(4), operand(4)
    array = np.arange(4, dtype=np.float32)
    if of == "read-only":
        array.setflags(write=False)
    own = torch.arange(4.0)
    z = x * y
    z.register_hook(
        lambda _: {
            "numpy": lambda: torch.from_numpy(array),
            "read-only": lambda: torch.as_tensor(array),
            "a tensor": lambda: own,
            "a view": lambda: own[:],
        }[of]()
    )
    (z * 3.0).backward(torch.rand(4))
    assert array.tolist() == own.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert same_bits(y.grad, own * x.detach())


def test_what_a_function_keeps_does_not_change():
    class Keeps(torch.autograd.Function):
        kept = None

        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            Keeps.kept = g * 2.0
            return Keeps.kept

    x, y, g = operand(4), operand(4), torch.rand(4)
    Keeps.apply(x * y).backward(g)
    assert same_bits(Keeps.kept, g * 2.0)
    assert same_bits(x.grad, g * 2.0 * y.detach())


def test_calls_of_a_node_do_not_change_their_argument():
    x, y, g = operand(4), operand(4), torch.rand(4)
    before = g.clone()
    node = (x * y).grad_fn
    with torch.no_grad():
        first, second = node(g), node(g)
    assert all(same_bits(p, q) for p, q in zip(first, second, strict=True))
    assert same_bits(g, before) and same_bits(first[0], g * y.detach())


def test_a_graph_that_is_kept_gives_the_same_gradients_again():
    x, y, g = operand(4), operand(4), torch.rand(4)
    z = (x * y / (y * 2.0)).exp() * x
    first = torch.autograd.grad(z, (x, y), g, retain_graph=True)
    second = torch.autograd.grad(z, (x, y), g)
    assert all(same_bits(p, q) for p, q in zip(first, second, strict=True))


def test_the_leaf_gets_a_gradient_of_its_own():
    x, y, w = operand(4), operand(4), operand(4)
    (x * y * w).sum().backward()
    first = x.grad.clone()
    assert len({t.grad.data_ptr() for t in (x, y, w)}) == 3
    y.grad.zero_()
    assert same_bits(x.grad, first)


def test_transforms_use_a_gradient_more_than_once():
    x, y = torch.rand(3, 4) + 0.5, torch.rand(3, 4) + 0.5
    f = lambda a, b: (a * b / (a + b)).exp().sum()
    per_sample = torch.func.vmap(torch.func.grad(f, argnums=(0, 1)))(x, y)
    for i in range(3):
        one = torch.func.grad(f, argnums=(0, 1))(x[i], y[i])
        assert all(torch.allclose(p[i], q) for p, q in zip(per_sample, one, strict=True))
    t = torch.rand(3, 4)
    _, tangent = torch.func.jvp(lambda a: a * a, (x,), (t,))
    assert torch.allclose(tangent, 2 * x * t)
    hessian = torch.func.hessian(lambda a: (a * a * a).sum())(x[0])
    assert torch.allclose(hessian, torch.diag(6 * x[0]))


def test_undefined_gradients_stay_undefined():
    x, y = operand(4), operand(4)
    a, b = x.split(2)
    assert (a * y[:2]).grad_fn is not None
    (a * y[:2]).sum().backward()
    assert x.grad[2:].tolist() == [0.0, 0.0] and b.grad_fn is not None


def test_backwards_of_several_threads():
    x, y, g = operand(20000), operand(20000), torch.rand(20000)
    want = torch.autograd.grad(((x * y).exp() / y) * x, (x, y), g)
    found = []

    def run():
        z = ((x * y).exp() / y) * x
        found.append(torch.autograd.grad(z, (x, y), g))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 4
    assert all(torch.equal(p, q) for one in found for p, q in zip(one, want, strict=True))
