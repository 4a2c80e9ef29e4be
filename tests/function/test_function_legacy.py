# SPDX-License-Identifier: BSD-3-Clause
"""The older instance style: `class F(Function)` with plain methods, used as `F()(x)`."""

import numpy as np
import pytest
from conftest import arr, leaf, ones, same

import cograd as torch
from cograd import autograd
from cograd.autograd import Function, gradcheck, gradgradcheck

pytestmark = pytest.mark.beyond_torch


class Linear(Function):
    def forward(self, input, weight, bias=None):
        self.save_for_backward(input, weight, bias)
        output = input.mm(weight.t())
        if bias is not None:
            output += bias.unsqueeze(0).expand_as(output)
        return output

    def backward(self, grad_output):
        input, weight, bias = self.saved_tensors
        grad_input = grad_weight = grad_bias = None
        if self.needs_input_grad[0]:
            grad_input = grad_output.mm(weight)
        if self.needs_input_grad[1]:
            grad_weight = grad_output.t().mm(input)
        if bias is not None and self.needs_input_grad[2]:
            grad_bias = grad_output.sum(0)
        return grad_input, grad_weight, grad_bias


class Power(Function):
    """Has state that is set in __init__ and read in forward and backward."""

    def __init__(self, exponent, scale=1.0):
        super().__init__()
        self.exponent = exponent
        self.scale = scale

    def forward(self, x):
        self.save_for_backward(x)
        return self.scale * x**self.exponent

    def backward(self, grad_output):
        (x,) = self.saved_tensors
        return grad_output * self.scale * self.exponent * x ** (self.exponent - 1)


def inputs():
    rng = np.random.default_rng(0)
    return [leaf(rng.standard_normal(s)) for s in [(4, 3), (2, 3), (2,)]]


@pytest.mark.parametrize("count", [2, 3])
def test_forward_and_backward(count):
    x, w, b = inputs()
    args = [x, w, b][:count]
    y = Linear()(*args)
    assert same(y, arr(x) @ arr(w).T + (arr(b) if count == 3 else 0), tol=1e-10)
    y.sum().backward()
    assert same(x.grad, np.tile(arr(w).sum(0), (4, 1)), tol=1e-10)
    assert same(w.grad, np.tile(arr(x).sum(0), (2, 1)), tol=1e-10)
    assert (b.grad is None) == (count == 2)


def test_gradcheck_first_and_second_order():
    assert gradcheck(lambda *args: Linear()(*args), tuple(inputs()))
    assert gradgradcheck(lambda *args: Linear()(*args), tuple(inputs()))


def test_constructor_arguments():
    x = leaf([2.0, 3.0])
    Power(3, scale=0.5)(x).sum().backward()
    assert same(x.grad, 1.5 * arr(x) ** 2)
    assert gradcheck(lambda v: Power(4)(v), (x,)) and gradgradcheck(lambda v: Power(4)(v), (x,))


def test_constructor_that_does_not_call_super():
    class Shift(Function):
        def __init__(self, by):
            self.by = by

        def forward(self, x):
            return x + self.by

        def backward(self, g):
            return g

    x = leaf(1.0)
    y = Shift(4.0)(x)
    y.backward()
    assert same(y, 5.0) and same(x.grad, 1.0)


def test_two_instances_are_separate():
    x = leaf(2.0)
    (Power(2)(x) + Power(3)(x)).backward()
    assert same(x.grad, 4.0 + 12.0)


def test_one_instance_called_twice_keeps_both_calls_apart():
    x, w = leaf(2.0), leaf(5.0)
    square = Power(2)
    a, b = square(x), square(w)
    (a + b).backward()
    assert same(x.grad, 4.0) and same(w.grad, 10.0)


def test_keywords_and_defaults():
    x, w, b = inputs()
    y = Linear()(x, weight=w, bias=b)
    y.sum().backward()
    assert same(b.grad, [4, 4])


def test_node_name_and_apply():
    x, w, _ = inputs()
    y = Linear()(x, w)
    assert "Linear" in y.grad_fn.name()
    gx, gw = y.grad_fn.apply(torch.ones(4, 2, dtype=torch.float64))[:2]
    assert same(gx, np.tile(arr(w).sum(0), (4, 1)), tol=1e-10) and tuple(gw.shape) == (2, 3)


def test_forward_does_not_record_and_needs_grad_flags():
    seen = []

    class Probe(Function):
        def forward(self, x, constant, k):
            seen.append((torch.is_grad_enabled(), self.needs_input_grad))
            return x * constant * k

        def backward(self, g):
            seen.append((torch.is_grad_enabled(), self.needs_input_grad))
            return g * 3, None, None

    Probe()(leaf(1.0), ones(), 3).backward()
    assert seen == [(False, (True, False, False))] * 2


def test_no_grad_and_constants_make_no_node():
    with torch.no_grad():
        assert not Power(2)(leaf(1.0)).requires_grad
    assert not Power(2)(ones(2)).requires_grad


def test_several_outputs_and_marks():
    class Parts(Function):
        def forward(self, x):
            sign = x.sign()
            self.mark_non_differentiable(sign)
            return x.abs(), sign

        def backward(self, g, g_sign):
            return g

    value, sign = Parts()(leaf([1.0, -2.0]))
    assert value.requires_grad and not sign.requires_grad


def test_mark_dirty():
    class Double(Function):
        def forward(self, x):
            self.mark_dirty(x)
            return x.mul_(2)

        def backward(self, g):
            return g * 2

    x = leaf([1.0, 2.0])
    h = x * 1
    assert Double()(h) is h
    (h * h).sum().backward()
    assert same(x.grad, [8, 16])


def test_wrong_count_names_the_class():
    class Bad(Function):
        def forward(self, x, w):
            return x * w

        def backward(self, g):
            return g

    with pytest.raises(RuntimeError, match="Bad.*incorrect number of gradients.*expected 2, got 1"):
        Bad()(leaf(1.0), leaf(2.0)).backward()


def test_second_backward_raises():
    y = Power(2)(leaf(3.0))
    y.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()


def test_saved_tensors_are_version_checked():
    x = leaf([1.0, 2.0])
    h = x * 1
    y = Power(2)(h)
    h.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_mixes_with_the_static_style():
    class Static(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 3

        @staticmethod
        def backward(ctx, g):
            return g * 3

    x = leaf(2.0)
    y = Static.apply(Power(2)(Static.apply(x)))
    (g,) = autograd.grad(y, x, create_graph=True)
    (h,) = autograd.grad(g, x)
    assert same(g, 3 * 2 * 6.0 * 3) and same(h, 3 * 2 * 9.0)


def test_missing_forward():
    class Empty(Function):
        pass

    with pytest.raises((NotImplementedError, RuntimeError), match="forward"):
        Empty()(leaf(1.0))
