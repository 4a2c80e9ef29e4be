# SPDX-License-Identifier: BSD-3-Clause
"""Custom Functions that return views or inputs, and mark_dirty; torch 2.13's answers are pinned.

``tried(f, ...)`` returns f's value, or a short name of the rule whose error it raised.
"""

from conftest import leaf, ones
from view_rules import gradient, name, plain, tried

import cograd as torch
from cograd.autograd import Function


class Same(Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 10


class FlatView(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x.view(-1)

    @staticmethod
    def backward(ctx, g):
        return (g * 10).view(ctx.shape)


class ViewAs(Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return g * 10


class TwoRows(Function):
    @staticmethod
    def forward(ctx, x):
        return x[0], x[1]

    @staticmethod
    def backward(ctx, a, b):
        return torch.stack([a, b]) * 10


class Detached(Function):
    @staticmethod
    def forward(ctx, x):
        return x.detach()

    @staticmethod
    def backward(ctx, g):
        return g * 10


class NotDifferentiable(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_non_differentiable(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 10


class BaseAndView(Function):
    @staticmethod
    def forward(ctx, x):
        base = x.clone()
        return base, base.view(-1)

    @staticmethod
    def backward(ctx, g, h):
        return g * 10 + h.view(g.shape) * 10


class Doubles(Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 2


class DoublesAndTriples(Function):
    @staticmethod
    def forward(ctx, x, y):
        x.mul_(2)
        y.mul_(3)
        ctx.mark_dirty(x, y)
        return x, y

    @staticmethod
    def backward(ctx, g, h):
        return g * 2, h * 3


class DoublesAndCopies(Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x, x.clone()

    @staticmethod
    def backward(ctx, g, h):
        return g * 2 + h * 2


# ---- custom Functions that return views or inputs ------------------------------------------------


def test_function_that_returns_a_leaf():
    x = leaf([1.0, 2.0])
    y = Same.apply(x)
    assert plain((y is x, y._is_view(), name(y), tried(y.mul_, 2), y.is_leaf)) == [
        False,
        True,
        "Same",
        "custom Function view",
        False,
    ]


def test_function_that_returns_its_input():
    x = leaf([1.0, 2.0]) * 1
    y = Same.apply(x)
    assert plain((y is x, y._is_view(), name(y), tried(y.mul_, 2))) == [
        False,
        True,
        "Same",
        "custom Function view",
    ]


def test_function_that_returns_a_view():
    x = leaf([[1.0, 2.0]]) * 1
    y = FlatView.apply(x)
    assert plain((y._is_view(), y._base is x, name(y), tried(y.mul_, 2))) == [
        True,
        True,
        "FlatView",
        "custom Function view",
    ]


def test_function_view_cannot_follow_its_base():
    x = leaf([[1.0, 2.0]])
    b = x * 1
    y = FlatView.apply(b)
    b.mul_(2)
    assert plain((tried(lambda: name(y)), tried(lambda: y.sum().backward()))) == [
        "custom Function view, base written",
        "custom Function view, base written",
    ]


def test_gradient_through_a_function_view():
    x = leaf([[1.0, 2.0]])
    y = FlatView.apply(x)
    assert plain(gradient(y.sum(), x)) == [[10.0, 10.0]]


def test_function_with_several_views():
    x = leaf([[1.0, 2.0], [3.0, 4.0]]) * 1
    a, b = TwoRows.apply(x)
    assert plain((a._is_view(), name(a), tried(a.mul_, 2))) == [
        True,
        "TwoRows",
        "multi-output view",
    ]


def test_function_with_several_views_and_its_base():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    y = x * 1
    a, b = TwoRows.apply(y)
    y.mul_(2)
    assert plain((tried(lambda: name(a)), tried(lambda: a.sum().backward()))) == [
        "multi-output view, base written",
        "multi-output view, base written",
    ]


def test_view_of_a_function_view():
    x = leaf([[1.0, 2.0]])
    b = x * 1
    y = FlatView.apply(b)
    v = y[0:1]
    assert plain(tried(v.mul_, 2)) == "custom Function view"


def test_function_that_returns_view_as():
    x = leaf([[1.0, 2.0]])
    b = x * 1
    y = ViewAs.apply(b)
    assert plain((y._is_view(), tried(y.mul_, 2))) == [True, "custom Function view"]


def test_function_that_returns_a_detached_alias():
    x = leaf([[1.0, 2.0]]) * 1
    y = Detached.apply(x)
    assert plain((y._is_view(), name(y), tried(y.mul_, 2), y.requires_grad)) == [
        False,
        "Detached",
        [[2.0, 4.0]],
        True,
    ]


def test_function_whose_input_is_marked_non_differentiable():
    x = leaf([1.0, 2.0]) * 1
    y = NotDifferentiable.apply(x)
    assert plain((y is x, y.requires_grad, y._is_view(), name(y))) == [False, False, False, None]


def test_function_view_of_a_constant():
    x = ones(1, 2)
    y = FlatView.apply(x)
    assert plain(
        (y.requires_grad, y._is_view(), tried(y.mul_, 2), tried(y.mul_, leaf([1.0, 2.0])))
    ) == [False, True, [2.0, 2.0], "custom Function view"]


def test_function_with_a_base_and_its_view():
    x = leaf([[1.0, 2.0]])
    a, b = BaseAndView.apply(x)
    assert plain(
        (a._is_view(), b._is_view(), tried(b.mul_, 2), tried(a.mul_, 2), tried(lambda: name(b)))
    ) == [False, True, "multi-output view", [[2.0, 4.0]], "multi-output view, base written"]


# ---- mark_dirty ----------------------------------------------------------------------------------


def test_dirty_view():
    x = leaf([1.0, 2.0, 3.0])
    b = x * 1
    v = b[:2]
    y = Doubles.apply(v)
    assert plain((y is v, name(v), name(b), tried(lambda: gradient(b.sum(), x)), b)) == [
        True,
        "AsStrided",
        "CopySlices",
        [2.0, 2.0, 1.0],
        [2.0, 4.0, 3.0],
    ]


def test_two_dirty_inputs():
    x, w = (leaf([1.0, 2.0]), leaf([1.0, 2.0]))
    a, b = (x * 1, w * 1)
    r = DoublesAndTriples.apply(a, b)
    assert plain((r[0] is a, r[1] is b, name(a), gradient(a.sum() + b.sum(), x), w.grad)) == [
        True,
        True,
        "DoublesAndTriples",
        [2.0, 2.0],
        [3.0, 3.0],
    ]


def test_dirty_input_and_another_result():
    x = leaf([1.0, 2.0])
    b = x * 1
    r = tried(DoublesAndCopies.apply, b)
    assert plain(
        r if isinstance(r, str) else (r[0] is b, name(b), gradient(b.sum() + r[1].sum(), x))
    ) == [True, "DoublesAndCopies", [4.0, 4.0]]


def test_dirty_view_of_a_constant():
    x = ones(3)
    v = x[:2]
    y = Doubles.apply(v)
    assert plain((y is v, x, x.requires_grad)) == [True, [2.0, 2.0, 1.0], False]


def test_views_of_a_dirty_base():
    x = leaf([1.0, 2.0])
    b = x * 1
    v = b.view(2, 1)
    Doubles.apply(b)
    assert plain((name(v), gradient(v.sum(), x))) == ["AsStrided", [2.0, 2.0]]


def test_hooks_and_retain_grad_across_a_dirty_function():
    x = leaf([1.0, 2.0])
    b = x * 1
    b.retain_grad()
    b.register_hook(lambda g: g * 100)
    Doubles.apply(b)
    b.sum().backward()
    assert plain((b.grad, x.grad)) == [[1.0, 1.0], [200.0, 200.0]]


def test_dirty_view_of_a_leaf():
    x = leaf([1.0, 2.0])
    assert plain(tried(Doubles.apply, x[:1])) == "view of a leaf"


def test_two_dirty_inputs_one_a_view():
    x, w = (leaf([1.0, 2.0, 3.0]), leaf([1.0, 2.0]))
    a, b = (x * 1, w * 1)
    v = a[:2]
    assert plain((tried(lambda: DoublesAndTriples.apply(v, b)),)) == ["dirty view, several results"]


def test_dirty_multi_output_view():
    x = leaf([[1.0, 2.0]])
    b = x * 1
    (v,) = b.unbind(0)
    assert plain(tried(Doubles.apply, v)) == "multi-output view"


def test_dirty_view_and_another_result():
    x = leaf([1.0, 2.0, 3.0])
    b = x * 1
    v = b[:2]
    assert plain(tried(DoublesAndCopies.apply, v)) == "dirty view, several results"
