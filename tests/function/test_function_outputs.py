# SPDX-License-Identifier: BSD-3-Clause
"""What forward may return and declare: tuples, views, inputs, dirty and non-differentiable."""

import numpy as np
import pytest
from conftest import arr, leaf, ones, same

import cograd as torch
from cograd import autograd
from cograd.autograd import Function, gradcheck, gradgradcheck

VIEW_IN_FUNCTION = "view was created inside a custom Function"

# ---- kinds of outputs ----------------------------------------------------------------------------


class SumDiff(Function):
    @staticmethod
    def forward(ctx, a, b):
        return a + b, a - b

    @staticmethod
    def backward(ctx, g_sum, g_diff):
        return g_sum + g_diff, g_sum - g_diff


def test_tuple_of_tensors():
    a, b = leaf([1.0, 2.0]), leaf([3.0, 5.0])
    result = SumDiff.apply(a, b)
    assert isinstance(result, tuple) and len(result) == 2
    assert result[0].grad_fn is result[1].grad_fn
    assert (result[0].output_nr, result[1].output_nr) == (0, 1)
    (result[0] * 2 + result[1] * 3).sum().backward()
    assert same(a.grad, [5, 5]) and same(b.grad, [-1, -1])


def test_tuple_outputs_pass_gradcheck():
    inputs = (leaf([1.0, 2.0]), leaf([3.0, 5.0]))
    assert gradcheck(SumDiff.apply, inputs) and gradgradcheck(SumDiff.apply, inputs)


def test_one_tuple_stays_a_tuple_and_single_tensor_a_tensor():
    class One(Function):
        @staticmethod
        def forward(ctx, x, as_tuple):
            return (x * 2,) if as_tuple else x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2, None

    x = leaf(1.0)
    assert isinstance(One.apply(x, False), torch.Tensor)
    result = One.apply(x, True)
    assert isinstance(result, tuple) and len(result) == 1
    result[0].backward()
    assert same(x.grad, 2.0)


def test_unused_output_has_zero_gradient_by_default():
    seen = []

    class Two(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, torch.zeros(3, 2, dtype=torch.float32) + x.sum().float()

        @staticmethod
        def backward(ctx, g, h):
            seen.append((h.tolist(), h.dtype, tuple(h.shape)))
            return g * 2

    x = leaf([1.0, 2.0])
    Two.apply(x)[0].sum().backward()
    assert seen == [([[0, 0], [0, 0], [0, 0]], torch.float32, (3, 2))]


def test_set_materialize_grads_false_gives_none():
    seen = []

    class Two(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            seen.append((g is None, h is None))
            return (g * 2 if g is not None else 0) + (h * 3 if h is not None else 0)

    x = leaf(1.0)
    Two.apply(x)[0].backward()
    Two.apply(x)[1].backward()
    a, b = Two.apply(x)
    (a + b).backward()
    assert seen == [(False, True), (True, False), (False, False)] and same(x.grad, 10.0)


def test_set_materialize_grads_in_setup_context():
    seen = []

    class Two(Function):
        @staticmethod
        def forward(x):
            return x * 2, x * 3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.set_materialize_grads(False)

        @staticmethod
        def backward(ctx, g, h):
            seen.append(g)
            return h * 3

    Two.apply(leaf(1.0))[1].backward()
    assert seen == [None]


def test_set_materialize_grads_wants_a_bool():
    class Bad(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(3)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(TypeError, match="set_materialize_grads"):
        Bad.apply(leaf(1.0))


def test_non_tensor_outputs_pass_through_with_none_gradients():
    seen = []

    class Mixed(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, 3, "s", None, x * 5

        @staticmethod
        def backward(ctx, *grads):
            seen.append([g if g is None else g.item() for g in grads])
            return grads[0] * 2 + grads[4] * 5

    x = leaf(1.0)
    a, three, s, none, b = Mixed.apply(x)
    assert (three, s, none) == (3, "s", None)
    (a + b * 10).backward()
    assert seen == [[1.0, None, None, None, 10.0]] and same(x.grad, 52.0)


def test_only_non_tensor_output():
    class Count(Function):
        @staticmethod
        def forward(ctx, x):
            return 5

        @staticmethod
        def backward(ctx, g):
            raise AssertionError("never runs")

    assert Count.apply(leaf(1.0)) == 5


def test_integer_outputs_are_not_differentiable():
    class TopOne(Function):
        @staticmethod
        def forward(ctx, x):
            index = x.argmax()
            ctx.save_for_backward(index)
            ctx.shape = x.shape
            return x.max(), index

        @staticmethod
        def backward(ctx, g, g_index):
            (index,) = ctx.saved_tensors
            out = torch.zeros(ctx.shape, dtype=torch.float64)
            out[index] = g
            return out

    x = leaf([1.0, 5.0, 2.0])
    value, index = TopOne.apply(x)
    assert value.requires_grad and not index.requires_grad and index.grad_fn is None
    value.backward()
    assert same(x.grad, [0, 1, 0])


# ---- mark_non_differentiable ---------------------------------------------------------------------


def test_mark_non_differentiable():
    seen = []

    class WithMask(Function):
        @staticmethod
        def forward(ctx, x):
            mask = (x > 1).to(x.dtype)
            ctx.mark_non_differentiable(mask)
            return x * 2, mask

        @staticmethod
        def backward(ctx, g, g_mask):
            seen.append(g_mask.tolist())
            return g * 2

    x = leaf([1.0, 2.0])
    y, mask = WithMask.apply(x)
    assert y.requires_grad and not mask.requires_grad and mask.grad_fn is None and mask.is_leaf
    assert same(mask, [0, 1])
    (y * mask).sum().backward()
    assert same(x.grad, [0, 2]) and seen == [[0, 0]]


def test_mark_non_differentiable_wants_tensors():
    class Bad(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_non_differentiable(3)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(RuntimeError, match="mark_non_differentiable: expected Tensors"):
        Bad.apply(leaf(1.0))


def test_all_outputs_non_differentiable():
    class Sign(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.sign()
            ctx.mark_non_differentiable(y)
            return y

        @staticmethod
        def backward(ctx, g):
            raise AssertionError("never runs")

    y = Sign.apply(leaf([1.0, -2.0]))
    assert not y.requires_grad and same(y, [1, -1])


# ---- inputs and views as outputs -----------------------------------------------------------------


class Triple(Function):
    """Returns its input unchanged and triples the gradient."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 3


def test_input_returned_as_is_becomes_a_new_tensor():
    x = leaf([1.0, 2.0])
    y = Triple.apply(x)
    assert y is not x and y.data_ptr() == x.data_ptr()
    assert y.grad_fn.name() == "TripleBackward" and x.is_leaf
    y.sum().backward()
    assert same(x.grad, [3, 3])


def test_input_returned_as_is_cannot_be_written():
    y = Triple.apply(leaf([1.0, 2.0]) * 1)
    with pytest.raises(RuntimeError, match=VIEW_IN_FUNCTION):
        y.add_(1)


def test_constant_input_returned_as_is_stays_constant():
    class Second(Function):
        @staticmethod
        def forward(ctx, x, w):
            return w

        @staticmethod
        def backward(ctx, g):
            return g * 2, None

    x, w = leaf([1.0, 2.0]), ones(2)
    y = Second.apply(x, w)
    assert y is not w and y.requires_grad and not w.requires_grad
    y.sum().backward()
    assert same(x.grad, [2, 2])


def test_input_and_result_both_returned():
    class Both(Function):
        @staticmethod
        def forward(ctx, x):
            return x, x * 2

        @staticmethod
        def backward(ctx, g, h):
            return g + 2 * h

    x = leaf([1.0, 2.0])
    same_x, double = Both.apply(x)
    (same_x * 10 + double).sum().backward()
    assert same(x.grad, [12, 12])


class View(Function):
    @staticmethod
    def forward(ctx, x):
        return x.view(2, 2)

    @staticmethod
    def backward(ctx, g):
        return g.reshape(4) * 3


def test_view_of_input_as_output():
    x = leaf([1.0, 2.0, 3.0, 4.0])
    y = View.apply(x)
    assert y.data_ptr() == x.data_ptr() and tuple(y.shape) == (2, 2)
    y.sum().backward()
    assert same(x.grad, [3, 3, 3, 3])


def test_view_of_input_as_output_cannot_be_written():
    y = View.apply(leaf([1.0, 2.0, 3.0, 4.0]) * 1)
    with pytest.raises(RuntimeError, match=VIEW_IN_FUNCTION):
        y.mul_(2)
    y.clone().mul_(2)


def test_several_views_as_outputs_cannot_be_written():
    class Halves(Function):
        @staticmethod
        def forward(ctx, x):
            return x[:2], x[2:]

        @staticmethod
        def backward(ctx, g, h):
            return torch.cat([g, h]) * 3

    x = leaf([1.0, 2.0, 3.0, 4.0])
    a, b = Halves.apply(x * 1)
    with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
        a.add_(1)
    (a.sum() + b.sum() * 2).backward()
    assert same(x.grad, [3, 3, 6, 6])


def test_detached_input_as_output():
    class Detached(Function):
        @staticmethod
        def forward(ctx, x):
            return x.detach()

        @staticmethod
        def backward(ctx, g):
            return g * 3

    x = leaf([1.0, 2.0])
    Detached.apply(x).sum().backward()
    assert same(x.grad, [3, 3])


def test_fresh_outputs_may_be_written_in_place():
    x = leaf([1.0, 2.0])
    a, b = SumDiff.apply(x, x * 1)
    a.mul_(5)
    (a + b).sum().backward()
    assert same(x.grad, [10, 10])


def test_output_viewed_and_written_outside():
    x = leaf([1.0, 2.0])
    a, _ = SumDiff.apply(x, x * 1)
    a[0].mul_(5)
    a.sum().backward()
    assert same(x.grad, [10, 2])


# ---- mark_dirty ----------------------------------------------------------------------------------


class Doubled(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_dirty_input_is_returned_and_gets_the_new_history():
    leaf_x = leaf([1.0, 2.0])
    x = leaf_x * 1
    y = Doubled.apply(x)
    assert y is x and same(x, [2, 4])
    assert x.grad_fn.name() == "DoubledBackward" and x._version >= 1
    (x * x).sum().backward()
    assert same(leaf_x.grad, [8, 16])


def test_dirty_leaf_raises():
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        Doubled.apply(x)


def test_dirty_leaf_under_no_grad_is_fine():
    x = leaf([1.0, 2.0])
    with torch.no_grad():
        y = Doubled.apply(x)
    assert same(x, [2, 4]) and x.is_leaf and x.requires_grad and same(y, [2, 4])


def test_dirty_constant_takes_history_of_the_other_input():
    class AddInto(Function):
        @staticmethod
        def forward(ctx, target, x):
            ctx.mark_dirty(target)
            return target.add_(x)

        @staticmethod
        def backward(ctx, g):
            return g, g

    target, x = ones(2), leaf([3.0, 4.0])
    out = AddInto.apply(target, x)
    assert out is target and target.requires_grad and not target.is_leaf
    (target * target).sum().backward()
    assert same(x.grad, [8, 10])


def test_dirty_view_rewrites_the_history_of_its_base():
    x = leaf([1.0, 2.0, 3.0, 4.0])
    base = x * 1
    view = base[:2]
    assert Doubled.apply(view) is view
    base.sum().backward()
    assert same(base, [2, 4, 3, 4]) and same(x.grad, [2, 2, 1, 1])


def test_dirty_base_is_seen_by_its_views():
    x = leaf([1.0, 2.0])
    base = x * 1
    view = base[1:]
    Doubled.apply(base)
    assert same(view, [4])
    view.sum().backward()
    assert same(x.grad, [0, 2])


def test_dirty_input_that_was_saved_elsewhere_is_noticed():
    x = leaf([1.0, 2.0])
    h = x * 1
    y = h * h
    Doubled.apply(h)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_dirty_input_must_be_returned():
    class Forgets(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2) * 1

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with pytest.raises(RuntimeError, match="marked as dirty.*returned as output"):
        Forgets.apply(leaf([1.0]) * 1)


def test_dirty_next_to_another_output():
    class DoubleAndCube(Function):
        @staticmethod
        def forward(ctx, x):
            old = x.clone()
            ctx.save_for_backward(old)
            ctx.mark_dirty(x)
            return x.mul_(2), old**3

        @staticmethod
        def backward(ctx, g, h):
            (old,) = ctx.saved_tensors
            return g * 2 + h * 3 * old * old

    x = leaf([1.0, 2.0])
    a, b = DoubleAndCube.apply(x * 1)
    (a + b).sum().backward()
    assert same(x.grad, 2 + 3 * np.array([1.0, 4.0]))


def test_mark_dirty_wants_tensors():
    class Bad(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(3)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(RuntimeError, match="mark_dirty: expected Tensors"):
        Bad.apply(leaf(1.0))


class DirtyConstant(Function):
    """Counts in place, in a tensor through which no gradient flows."""

    @staticmethod
    def forward(ctx, x, count):
        count.add_(1)
        ctx.mark_dirty(count)
        ctx.mark_non_differentiable(count)
        ctx.save_for_backward(count)
        return x * 2, count

    @staticmethod
    def backward(ctx, g, _):
        return g * 2 * ctx.saved_tensors[0], None


def test_dirty_and_non_differentiable_is_not_differentiable():
    x, count = leaf([1.0, 2.0]), torch.zeros(1)
    y, counted = DirtyConstant.apply(x, count)
    assert counted is count and count.tolist() == [1]
    assert not count.requires_grad and count.grad_fn is None and y.requires_grad
    y.sum().backward()
    assert same(x.grad, [2, 2])


@pytest.mark.parametrize("view", [False, True])
def test_dirty_and_non_differentiable_input_with_a_history_keeps_it(view):
    class Doubled(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_non_differentiable(x)
            ctx.mark_dirty(x.mul_(2))
            return x

        @staticmethod
        def backward(ctx, g):
            raise AssertionError("no gradient flows here")

    x = leaf([1.0, 1.0])
    whole = x * 3
    y = whole[:1] if view else whole
    out = Doubled.apply(y)
    assert out is not y and out.data_ptr() == y.data_ptr() and not out.requires_grad
    assert y.requires_grad and whole.grad_fn.name() == "MulBackward0" and same(y, [6, 6][: len(y)])
    whole.sum().backward()
    assert same(x.grad, [3, 3])
    w = leaf([1.0])
    out = Doubled.apply(w)
    assert out is not w and not out.requires_grad and w.requires_grad and same(w, [2])


def test_dirty_passes_gradcheck_on_a_wrapper():
    x = leaf([0.3, -1.2])
    assert gradcheck(lambda v: Doubled.apply(v * 1).sin(), (x,))
    assert gradgradcheck(lambda v: Doubled.apply(v * 1).sin(), (x,))


# ---- in-place and views inside forward -----------------------------------------------------------


def test_in_place_on_temporaries_inside_forward():
    class Linear(Function):
        @staticmethod
        def forward(ctx, x, weight, bias):
            ctx.save_for_backward(x, weight)
            out = x.mm(weight.t())
            out += bias.unsqueeze(0).expand_as(out)
            out[0] *= 1.0
            return out

        @staticmethod
        def backward(ctx, g):
            x, weight = ctx.saved_tensors
            return g.mm(weight), g.t().mm(x), g.sum(0)

    inputs = (leaf(np.arange(6.0).reshape(2, 3)), leaf(np.ones((4, 3))), leaf(np.ones(4)))
    assert gradcheck(Linear.apply, inputs)


def test_view_of_a_temporary_as_output_may_be_written():
    class Temporary(Function):
        @staticmethod
        def forward(ctx, x):
            return (x * 2).view(2, 2)

        @staticmethod
        def backward(ctx, g):
            return g.reshape(4) * 2

    x = leaf([1.0, 2.0, 3.0, 4.0])
    y = Temporary.apply(x)
    y.sum().backward()
    assert same(x.grad, [2, 2, 2, 2])


def test_second_order_of_tuple_outputs_with_partly_used_results():
    class SinCos(Function):
        @staticmethod
        def forward(ctx, x):
            s, c = x.sin(), x.cos()
            ctx.save_for_backward(s, c)
            return s, c

        @staticmethod
        def backward(ctx, gs, gc):
            s, c = ctx.saved_tensors
            return gs * c - gc * s

    x = leaf([0.2, 1.3])
    assert gradgradcheck(SinCos.apply, (x,))
    (g,) = autograd.grad(SinCos.apply(x)[0].sum(), x, create_graph=True)
    (h,) = autograd.grad(g.sum(), x)
    assert same(h, -np.sin(arr(x)), tol=1e-10)
