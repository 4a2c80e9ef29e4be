# SPDX-License-Identifier: BSD-3-Clause
"""In-place writes and views: histories, shared storage, the rules and their errors."""

import gc

import numpy as np
import pytest
from conftest import arr, leaf, ones, same

import cograd as torch
from cograd import autograd
from cograd.autograd import Function, gradcheck, gradgradcheck

MULTI_VIEW = "is the output of a function that returns multiple views"
NO_GRAD_VIEW = "A view was created in no_grad mode and is being modified inplace with grad mode"
VIEW_OF_LEAF = "a view of a leaf Variable that requires grad is being used in an in-place operation"
INTERNAL_OVERLAP = "more than one element of the written-to tensor refers to a single memory"
PARTIAL_OVERLAP = "some elements of the input tensor and the written-to tensor refer to a single"

# ---- views ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.view(3, 2),
        lambda x: x.reshape(6),
        lambda x: x.t(),
        lambda x: x.transpose(0, 1),
        lambda x: x.permute(1, 0),
        lambda x: x[0],
        lambda x: x[:, 1:],
        lambda x: x[::2],
        lambda x: x[None],
        lambda x: x[..., -1],
        lambda x: x.unsqueeze(1),
        lambda x: x.unsqueeze(0).squeeze(0),
        lambda x: x.expand(4, 2, 3),
        lambda x: x.narrow(1, 0, 2),
        lambda x: x.select(0, 1),
        lambda x: x.diagonal(),
        lambda x: x.as_strided((2, 2), (3, 1), 1),
        lambda x: x.flatten(),
        lambda x: x.unflatten(1, (3, 1)),
        lambda x: x.movedim(0, 1),
        lambda x: x.unbind(1)[1],
        lambda x: x.split(2, 1)[0],
        lambda x: x.chunk(2, 1)[1],
        lambda x: x.detach(),
        lambda x: x.view_as(x),
    ],
)
def test_views_share_memory_with_their_base(view):
    x = torch.tensor(np.arange(6.0).reshape(2, 3).tolist(), dtype=torch.float64)
    v = view(x)
    x.add_(100)
    assert v.sum().item() >= 100 * v.numel()
    assert v._version == x._version == 1


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.view(3, 2),
        lambda x: x.t(),
        lambda x: x.permute(1, 0).unsqueeze(0),
        lambda x: x[1],
        lambda x: x[:, 1:],
        lambda x: x[:, ::2],
        lambda x: x.t()[1:].t(),
        lambda x: x.expand(4, 2, 3),
        lambda x: x.narrow(1, 1, 2),
        lambda x: x.diagonal(),
        lambda x: x.as_strided((2, 2), (3, 1), 1),
        lambda x: x.as_strided((2, 3), (1, 1), 0),
        lambda x: x.unbind(0)[1],
        lambda x: torch.stack(x.unbind(1)),
        lambda x: torch.cat(x.split(2, 1), 1),
    ],
)
def test_gradients_through_views(view):
    x = leaf(np.linspace(0.1, 1.3, 6).reshape(2, 3))
    assert gradcheck(lambda v: view(v).sin(), (x,))
    assert gradgradcheck(lambda v: view(v).sin(), (x,))


def test_is_view_and_base():
    x = leaf([[1.0, 2.0], [3.0, 4.0]]) * 1
    v = x[0]
    w = v[1:]
    assert v._is_view() and v._base is x
    assert w._is_view() and w._base is x, "the base of a view of a view is the root"
    assert not x._is_view() and x._base is None


def test_expanded_gradient_is_summed():
    x = leaf([[1.0], [2.0]])
    (x.expand(2, 5) * torch.arange(5, dtype=torch.float64)).sum().backward()
    assert same(x.grad, [[10], [10]])


def test_as_strided_with_overlap_sums_gradients():
    x = leaf([1.0, 2.0, 3.0])
    x.as_strided((2, 2), (1, 1)).sum().backward()
    assert same(x.grad, [1, 2, 1])


# ---- in-place rewrites the history of the base ---------------------------------------------------


def test_write_to_a_view_shows_in_the_bases_gradient():
    x = leaf([1.0, 2.0, 3.0])
    base = x * 1
    base[:2].mul_(10)
    base.sum().backward()
    assert same(base, [10, 20, 3]) and same(x.grad, [10, 10, 1])


def test_write_to_a_view_changes_the_bases_grad_fn():
    base = leaf([1.0, 2.0]) * 1
    before = base.grad_fn
    base[:1].add_(1)
    assert base.grad_fn is not before


def test_write_to_the_base_is_seen_by_a_view():
    x = leaf([1.0, 2.0, 3.0])
    base = x * 1
    view = base[1:]
    base.mul_(5)
    view.sum().backward()
    assert same(view, [10, 15]) and same(x.grad, [0, 5, 5])


def test_write_to_one_view_is_seen_by_another():
    x = leaf([1.0, 2.0, 3.0, 4.0])
    base = x * 1
    left, middle = base[:3], base[1:]
    left.mul_(10)
    middle.sum().backward()
    assert same(middle, [20, 30, 4]) and same(x.grad, [0, 10, 10, 1])


def test_write_to_a_view_of_a_view():
    x = leaf(np.arange(1.0, 7.0).reshape(2, 3))
    base = x * 1
    base[0][1:].mul_(7)
    base.sum().backward()
    assert same(x.grad, [[1, 7, 7], [1, 1, 1]])


def test_write_to_a_transposed_view():
    x = leaf(np.arange(1.0, 7.0).reshape(2, 3))
    base = x * 1
    base.t()[0].mul_(torch.tensor([2.0, 3.0], dtype=torch.float64))
    base.sum().backward()
    assert same(x.grad, [[2, 1, 1], [3, 1, 1]])


def test_write_to_diagonal_and_as_strided_views():
    x = leaf(np.ones((3, 3)))
    base = x * 1
    base.diagonal().mul_(4)
    base.as_strided((3,), (1,), 0).mul_(2)
    base.sum().backward()
    assert same(x.grad, [[8, 2, 2], [1, 4, 1], [1, 1, 4]])


def test_view_written_with_another_tensor_gives_both_gradients():
    x, v = leaf([1.0, 2.0, 3.0]), leaf([5.0, 6.0])
    base = x * 1
    base[:2].mul_(v)
    base.sum().backward()
    assert same(x.grad, [5, 6, 1]) and same(v.grad, [1, 2])


def test_constant_base_takes_history_from_a_write_to_its_view():
    base, v = ones(3), leaf([5.0, 6.0])
    view = base[1:]
    assert not base.requires_grad
    view.mul_(v)
    assert base.requires_grad and view.requires_grad and not base.is_leaf
    (base * torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)).sum().backward()
    assert same(v.grad, [2, 3])


def test_other_view_of_constant_base_requires_grad_after_the_write():
    base, v = ones(3), leaf(5.0)
    first, second = base[:2], base[1:]
    first.mul_(v)
    assert second.requires_grad
    second.sum().backward()
    assert same(v.grad, 1.0)


def test_old_history_stays_for_results_made_before_the_write():
    x = leaf([1.0, 2.0])
    base = x * 1
    before = base * 3
    base[0] = 9.0
    (before.sum() + base.sum()).backward()
    assert same(x.grad, [3, 4])


def test_view_made_before_and_after_a_write_agree():
    x = leaf([1.0, 2.0, 3.0])
    base = x * 1
    early = base[1:]
    base.mul_(base.detach().clone())
    late = base[1:]
    ge = autograd.grad(early.sum(), x, retain_graph=True)[0]
    gl = autograd.grad(late.sum(), x)[0]
    assert same(ge, [0, 2, 3]) and same(gl, [0, 2, 3])


def test_many_writes_to_many_views():
    x = leaf(np.ones(10))
    base = x * 1
    for k in range(10):
        base[k : k + 3].mul_(2)
    base.sum().backward()
    assert same(x.grad, [2, 4] + [8] * 8)


def test_view_regenerates_its_grad_fn():
    base = leaf([1.0, 2.0]) * 1
    view = base[:1]
    before = view.grad_fn.name()
    base.mul_(2)
    assert before == "SliceBackward0"
    view.sum().backward()
    assert view.grad_fn is not None


def test_zeroing_a_view_cuts_its_gradient():
    x = leaf([1.0, 2.0, 3.0])
    base = x * 1
    base[1].zero_()
    (base * base).sum().backward()
    assert same(x.grad, [2, 0, 6])


# ---- x[...] = v ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "shape"),
    [
        (0, (3,)),
        (-1, (3,)),
        ((1, 2), ()),
        (slice(None), (2, 3)),
        (slice(0, 1), (1, 3)),
        ((slice(None), slice(None, None, 2)), (2, 2)),
        (Ellipsis, (2, 3)),
        ((Ellipsis, 1), (2,)),
        ((None, 0), (1, 3)),
        ((slice(None), [0, 2]), (2, 2)),
        (([0, 1], [2, 0]), (2,)),
        ([1], (1, 3)),
        ([1, 0], (2, 3)),
    ],
)
def test_setitem_gives_gradients_to_both(index, shape):
    x, v = leaf(np.linspace(0.2, 1.2, 6).reshape(2, 3)), leaf(np.full(shape, 0.7))

    def function(a, b):
        y = a * 1
        y[index] = b * b
        return y.sin()

    assert gradcheck(function, (x, v))
    assert gradgradcheck(function, (x, v))


def test_setitem_broadcasts_the_value():
    x, v = leaf(np.ones((2, 3))), leaf(4.0)
    y = x * 1
    y[:, 1:] = v
    y.sum().backward()
    assert same(x.grad, [[1, 0, 0], [1, 0, 0]]) and same(v.grad, 4.0)


def test_setitem_with_a_number_cuts():
    x = leaf(np.ones((2, 3)))
    y = x * 2
    y[0, 1] = 5
    y.sum().backward()
    assert same(y, [[2, 5, 2], [2, 2, 2]]) and same(x.grad, [[2, 0, 2], [2, 2, 2]])


def test_setitem_with_bool_mask_and_number():
    x = leaf([1.0, -2.0, 3.0])
    y = x * 2
    y[y < 0] = 0
    y.sum().backward()
    assert same(y, [2, 0, 6]) and same(x.grad, [2, 0, 2])


def test_setitem_with_bool_mask_and_tensor():
    x, v = leaf([1.0, -2.0, -3.0]), leaf([10.0, 20.0])
    y = x * 2
    y[y < 0] = v
    (y * torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)).sum().backward()
    assert same(y, [2, 10, 20]) and same(x.grad, [2, 0, 0]) and same(v.grad, [2, 3])


def test_setitem_into_constant_gives_it_history():
    y, v = torch.zeros(3, dtype=torch.float64), leaf([1.0, 2.0])
    y[1:] = v * 3
    assert y.requires_grad
    y.sum().backward()
    assert same(v.grad, [3, 3])


def test_setitem_shape_mismatch_writes_nothing():
    y = ones(2, 3)
    with pytest.raises(RuntimeError, match="expand|shape|size"):
        y[:, :2] = ones(3)
    assert same(y, np.ones((2, 3)))


def test_setitem_result_casts_the_value_to_the_targets_dtype():
    y = torch.zeros(2, dtype=torch.int64)
    y[0] = 2.7
    y[1] = torch.tensor(3.9)
    assert y.tolist() == [2, 3]


def test_getitem_then_iadd_writes_through():
    x = leaf([1.0, 2.0, 3.0])
    y = x * 1
    y[0] += 10
    y[1:] *= 2
    y.sum().backward()
    assert same(y, [11, 4, 6]) and same(x.grad, [1, 2, 2])


# ---- rules about leaves --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "view",
    [lambda x: x[0], lambda x: x[:1], lambda x: x.view(2, 1), lambda x: x.t(), lambda x: x[:1][0]],
)
def test_write_to_view_of_leaf_raises(view):
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match=VIEW_OF_LEAF):
        view(x).mul_(2)
    assert same(x, [1, 2]) and x._version == 0


def test_write_to_view_of_leaf_under_no_grad():
    x = leaf([1.0, 2.0])
    with torch.no_grad():
        x[0].mul_(10)
        x.view(2, 1).add_(1)
    assert same(x, [11, 3]) and x.is_leaf and x.requires_grad


def test_write_under_no_grad_to_a_view_made_outside():
    x = leaf([1.0, 2.0])
    view = x[:1]
    with torch.no_grad():
        view.mul_(10)
    assert same(x, [10, 2]) and x.is_leaf


# ---- views made in no_grad -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "base", [lambda: leaf([1.0, 2.0]), lambda: leaf([1.0, 2.0]) * 1], ids=["leaf", "result"]
)
def test_view_made_in_no_grad_cannot_be_written_with_grad(base):
    x = base()
    with torch.no_grad():
        view = x[:1]
    with pytest.raises(RuntimeError, match=NO_GRAD_VIEW):
        view.mul_(2)
    assert same(x, [1, 2])


def test_view_made_in_no_grad_may_be_written_in_no_grad():
    x = leaf([1.0, 2.0])
    with torch.no_grad():
        view = x[:1]
        view.mul_(10)
    assert same(x, [10, 2])


def test_view_of_constant_made_in_no_grad_written_with_constant():
    x = ones(2)
    with torch.no_grad():
        view = x[:1]
    view.mul_(3)
    assert same(x, [3, 1]) and not x.requires_grad


def test_view_of_constant_made_in_no_grad_cannot_take_history():
    x = ones(2)
    with torch.no_grad():
        view = x[:1]
    with pytest.raises(RuntimeError, match=NO_GRAD_VIEW):
        view.mul_(leaf([3.0]))


def test_no_grad_write_to_tracked_tensor_keeps_the_old_history():
    x = leaf([1.0, 2.0])
    y = x * 3
    with torch.no_grad():
        y.mul_(10)
    y.sum().backward()
    assert same(y, [30, 60]) and same(x.grad, [3, 3])


# ---- views from multi-output ops -----------------------------------------------------------------


@pytest.mark.parametrize(
    "split",
    [lambda x: x.unbind(0), lambda x: x.split(1), lambda x: x.chunk(2), lambda x: x.split([1, 1])],
    ids=["unbind", "split", "chunk", "split_sizes"],
)
def test_multi_output_views_cannot_be_written(split):
    x = leaf([[1.0, 2.0], [3.0, 4.0]]) * 1
    first, second = split(x)
    with pytest.raises(RuntimeError, match=MULTI_VIEW) as info:
        second.mul_(2)
    assert "Output 1 of" in str(info.value)
    (first.sum() + 2 * second.sum()).backward()
    assert same(x, [[1, 2], [3, 4]])


def test_iterating_gives_views_that_cannot_be_written():
    x = leaf([[1.0, 2.0], [3.0, 4.0]]) * 1
    for row in x:
        with pytest.raises(RuntimeError, match=MULTI_VIEW):
            row += 1


def test_multi_output_views_may_be_written_under_no_grad():
    x = leaf([1.0, 2.0]) * 1
    first, _ = x.unbind(0)
    with torch.no_grad():
        first.mul_(10)
    assert same(x, [10, 2])


def test_multi_output_views_of_constants_may_be_written():
    x = ones(2, 2)
    first, second = x.unbind(0)
    first.mul_(3)
    second.add_(1)
    assert same(x, [[3, 3], [2, 2]])


def test_view_of_multi_output_view_cannot_be_written():
    x = leaf([[1.0, 2.0], [3.0, 4.0]]) * 1
    with pytest.raises(RuntimeError, match="multiple views|multi-output view"):
        x.unbind(0)[0][:1].mul_(2)


# ---- memory overlap ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "write",
    [lambda x: x.add_(1), lambda x: x.copy_(ones(2, 3)), lambda x: x.mul_(ones(3))],
    ids=["add_", "copy_", "mul_"],
)
def test_write_to_expanded_tensor_raises(write):
    x = ones(1, 3)
    wide = x.expand(2, 3)
    with pytest.raises(RuntimeError, match=INTERNAL_OVERLAP):
        write(wide)
    assert same(x, [[1, 1, 1]])


def test_write_to_overlapping_as_strided_raises():
    x = ones(4)
    with pytest.raises(RuntimeError, match=INTERNAL_OVERLAP):
        x.as_strided((3, 2), (0, 1)).add_(1)


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x[1:].add_(x[:-1]),
        lambda x: x[1:].copy_(x[:-1]),
        lambda x: x[:-1].mul_(x[1:]),
        lambda x: torch.exp(x[:-1], out=x[1:]),
    ],
    ids=["add_", "copy_", "mul_", "out"],
)
def test_partial_overlap_of_input_and_target_raises(write):
    x = torch.arange(5, dtype=torch.float64)
    with pytest.raises(RuntimeError, match=PARTIAL_OVERLAP):
        write(x)
    assert same(x, [0, 1, 2, 3, 4])


def test_full_overlap_is_fine():
    x = torch.arange(4, dtype=torch.float64)
    x.add_(x)
    x[:2].mul_(x[:2])
    torch.exp(x[2:], out=x[2:])
    assert same(x, [0, 4, np.exp(4.0), np.exp(6.0)], tol=1e-10)


def test_copy_to_itself_is_fine():
    x = leaf([1.0, 2.0]) * 1
    x.copy_(x)
    assert same(x, [1, 2])


# ---- shapes and dtypes ---------------------------------------------------------------------------


def test_target_is_not_broadcast():
    x = ones(5)
    with pytest.raises(RuntimeError, match=r"output with shape \[5\] doesn't match the broadcast"):
        x.add_(ones(2, 5))
    assert same(x, np.ones(5)) and x._version == 0


def test_operand_is_broadcast_to_the_target():
    x, v, s = leaf(np.ones((2, 3))), leaf([1.0, 2.0, 3.0]), leaf(2.0)
    y = x * 1
    y.mul_(v)
    y.add_(s)
    y.sum().backward()
    assert same(x.grad, [[1, 2, 3]] * 2) and same(v.grad, [2, 2, 2]) and same(s.grad, 6.0)


def test_incompatible_shapes_raise_and_write_nothing():
    x = ones(3)
    with pytest.raises(RuntimeError, match=r"size of tensor a \(3\) must match .* b \(2\)"):
        x.add_(ones(2))
    assert same(x, [1, 1, 1])


@pytest.mark.parametrize(
    ("dtype", "write", "text"),
    [
        ("int64", lambda x: x.add_(1.5), "result type Float can't be cast.*Long"),
        ("int64", lambda x: x.div_(2), "result type Float can't be cast.*Long"),
        ("int32", lambda x: x.mul_(torch.ones(3)), "result type Float can't be cast.*Int"),
        ("bool", lambda x: x.add_(1), "result type Long can't be cast.*Bool"),
    ],
)
def test_result_that_does_not_fit_the_targets_kind_raises(dtype, write, text):
    x = torch.ones(3, dtype=getattr(torch, dtype))
    with pytest.raises(RuntimeError, match=text):
        write(x)
    assert x.tolist() == [1, 1, 1]


def test_narrower_float_target_takes_wider_values():
    x = torch.ones(2, dtype=torch.float32)
    x.add_(leaf([1.0, 2.0]).detach())
    assert x.dtype == torch.float32 and x.tolist() == [2, 3]


def test_mixed_float_dtypes_in_place_cast_the_gradient_back():
    x, v = torch.ones(2, dtype=torch.float32, requires_grad=True), leaf([3.0, 4.0])
    y = x * 1
    y.mul_(v)
    y.sum().backward()
    assert x.grad.dtype == torch.float32 and x.grad.tolist() == [3, 4]
    assert v.grad.dtype == torch.float64 and same(v.grad, [1, 1])


def test_copy_converts_dtype_and_gradient():
    x = torch.ones(2, dtype=torch.float32, requires_grad=True)
    y = torch.zeros(2, dtype=torch.float64)
    y.copy_(x)
    (y * 3).sum().backward()
    assert y.dtype == torch.float64 and x.grad.dtype == torch.float32 and x.grad.tolist() == [3, 3]


# ---- chains of in-place ops ----------------------------------------------------------------------


def chain_plain(a, b):
    y = a * 1
    y.add_(b)
    y.mul_(a)
    y.sub_(0.5)
    y.div_(b + 3)
    return y


def chain_unary(a, b):
    y = a * b
    y.sin_()
    y.neg_()
    y.cos_()
    y.exp_()
    return y


def chain_views(a, b):
    y = a * 1
    y[0].mul_(b[1])
    y[:, 1:].add_(b[:, :2])
    y.t()[2].sin_()
    y[1, :2] = b[0, 1:] * 2
    y.view(6)[3:].mul_(y.view(6)[:3].clone())
    return y


def chain_fill(a, b):
    y = a * 1
    y[0].fill_(2.0)
    y[1, 0].zero_()
    y.add_(b, alpha=0.5)
    y.clamp_(min=-10)
    y.pow_(2)
    return y


def chain_masked(a, b):
    y = a * 2
    y.masked_fill_(b > 0.8, 3.0)
    y[b < 0.3] *= 2
    y.copy_(y.clone() * b)
    return y


@pytest.mark.parametrize(
    "function", [chain_plain, chain_unary, chain_views, chain_fill, chain_masked]
)
def test_gradients_of_in_place_chains(function):
    a = leaf(np.linspace(0.2, 1.2, 6).reshape(2, 3))
    b = leaf(np.linspace(1.1, 0.15, 6).reshape(2, 3))
    assert gradcheck(function, (a, b))
    assert gradgradcheck(function, (a, b))


def test_in_place_equals_out_of_place():
    a, b = leaf([0.3, 0.7]), leaf([1.1, -0.4])

    def out_of_place(x, w):
        return torch.sin(torch.exp(x) * w + x)

    def in_place(x, w):
        y = x.exp()
        y = y.clone().mul_(w)
        y += x
        return y.sin_()

    expected = autograd.grad(out_of_place(a, b).sum(), [a, b])
    got = autograd.grad(in_place(a, b).sum(), [a, b])
    assert all(same(g, arr(e)) for g, e in zip(got, expected, strict=True))


def test_operators_with_assignment():
    x, w = leaf([2.0, 3.0]), leaf([4.0, 5.0])
    y = x * 1
    identity = y
    y += w
    y -= 1
    y *= w
    y /= 2
    assert y is identity
    y.sum().backward()
    assert same(x.grad, [2, 2.5]) and same(w.grad, (arr(x) + 2 * arr(w) - 1) / 2)


def test_in_place_returns_its_target():
    x = ones(2)
    for write in (x.add_(1), x.mul_(2), x.zero_(), x.fill_(1), x.copy_(ones(2)), x.exp_()):
        assert write is x


def test_power_of_itself_in_place():
    x = leaf([2.0, 3.0])
    y = x * 1
    y.mul_(y.clone())
    y.sum().backward()
    assert same(x.grad, [4, 6])


@pytest.mark.beyond_torch
def test_writing_what_the_op_itself_needs_keeps_a_copy():
    x = leaf([2.0, 3.0])
    y = x * 1
    y.mul_(y)
    y.sum().backward()
    assert same(x.grad, [4, 6]), "torch raises here; the factors are kept as they were"


def test_in_place_on_both_sides_of_a_function():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            out = x * x
            out += 0
            out[0] -= 0
            return out

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            g = g.clone()
            g *= 2
            g[:] *= x
            return g

    def function(v):
        y = v * 1
        y += 1
        z = Square.apply(y)
        z *= 3
        z[0] += 1
        return z

    assert gradcheck(function, (leaf([0.5, -1.5]),))
    assert gradgradcheck(function, (leaf([0.5, -1.5]),))


def test_out_argument_does_not_support_gradients():
    x = leaf([1.0, 2.0])
    message = "out=... arguments don't support automatic differentiation"
    with pytest.raises(RuntimeError, match=message):
        torch.exp(x, out=ones(2))
    with torch.no_grad():
        out = torch.exp(x, out=ones(2))
    assert same(out, np.exp([1.0, 2.0]), tol=1e-12)


def test_random_writes_match_a_slow_oracle():
    rng = np.random.default_rng(11)
    plan = []
    for _ in range(25):
        row = sorted(rng.integers(0, 5, 2).tolist())
        col = sorted(rng.integers(0, 5, 2).tolist())
        window = (slice(row[0], row[1] + 1), slice(col[0], col[1] + 1))
        plan.append((window, int(rng.integers(0, 3)), float(rng.uniform(0.5, 1.5))))

    def in_place(x):
        y = x * 1
        for window, kind, value in plan:
            view = y[window]
            if kind == 0:
                view.mul_(value)
            elif kind == 1:
                view.add_(value)
            else:
                y[window] = torch.tanh(view.t().t() * value)
        return y

    def with_masks(x):
        y = x
        for window, kind, value in plan:
            mask = np.zeros((5, 5))
            mask[window] = 1
            mask = torch.tensor(mask.tolist(), dtype=torch.float64)
            if kind == 0:
                new = y * value
            elif kind == 1:
                new = y + value
            else:
                new = torch.tanh(y * value)
            y = new * mask + y * (1 - mask)
        return y

    x = leaf(rng.uniform(-1, 1, (5, 5)))
    weights = torch.tensor(rng.uniform(-1, 1, (5, 5)).tolist(), dtype=torch.float64)
    (got,) = autograd.grad((in_place(x) * weights).sum(), x)
    (expected,) = autograd.grad((with_masks(x) * weights).sum(), x)
    assert same(in_place(x), arr(with_masks(x))) and same(got, arr(expected))


def test_disjoint_slices_of_one_tensor_may_be_source_and_target():
    b = torch.arange(12.0).view(3, 4)
    b[:, 2:] += b[:, :2]
    assert b.tolist() == [[0, 1, 2, 4], [4, 5, 10, 12], [8, 9, 18, 20]]
    c = torch.arange(6.0)
    c[::2].add_(c[1::2])
    assert c.tolist() == [1, 1, 5, 3, 9, 5]


@pytest.mark.parametrize(
    ("target", "source"),
    [
        (lambda b: b[:, 1:], lambda b: b[:, :-1]),
        (lambda b: b[1:], lambda b: b[:-1]),
        (lambda b: b.view(-1)[1:], lambda b: b.view(-1)[:-1]),
        (lambda b: b[:2].t()[:2], lambda b: b[:2, :2]),
    ],
)
def test_overlapping_source_and_target_raise(target, source):
    b = torch.arange(12.0).view(3, 4)
    with pytest.raises(RuntimeError, match="single memory location"):
        target(b).add_(source(b))


@pytest.mark.parametrize("name", ["exp_", "tanh_", "sigmoid_", "sqrt_"])
@pytest.mark.parametrize("region", [lambda y: y[0], lambda y: y[:, 1::2], lambda y: y.t()[1:]])
def test_second_derivatives_of_a_result_kept_in_a_view(name, region):
    def of_views(x):
        y = x * 1
        getattr(region(y), name)()
        return (y * y).sum()

    def of_copies(x):
        mask = region_mask(region)
        return torch.where(mask, getattr(x, name[:-1])(), x).square().sum()

    x = leaf([[0.3, 0.7, 0.2], [0.9, 0.5, 0.4]])
    found = []
    for f in of_views, of_copies:
        (g,) = torch.autograd.grad(f(x), x, create_graph=True)
        found += [*torch.autograd.grad(g.pow(2).sum(), x)]  # the graph is freed
        twice = torch.func.grad(lambda v: torch.func.grad(f)(v).pow(2).sum())(x.detach())
        found += [twice, torch.func.hessian(f)(x.detach())]
    for got, want in zip(found[:3], found[3:]):
        assert torch.allclose(got, want)
    assert gradgradcheck(of_views, (x,))


def twice_derived(x, y):
    """Sums squares: 16 exp(4 x) where exp_() wrote, 8 x elsewhere."""
    (g,) = torch.autograd.grad((y * y).sum(), x, create_graph=True)
    return torch.autograd.grad((g * g).sum(), x)[0]


@pytest.mark.parametrize(
    "parts",
    [
        lambda z: z.real,
        lambda z: torch.view_as_real(z)[..., 0],
        lambda z: (1j * z).imag,
    ],
)
def test_second_derivatives_of_a_result_kept_in_parts_of_complex_numbers(parts):
    x = leaf([[0.3, 0.7], [0.4, 0.9]])
    y = parts(torch.complex(x, x * 0))
    y[0].exp_()
    want = torch.stack([16 * (4 * x[0]).exp(), 8 * x[1]])
    assert torch.allclose(twice_derived(x, y), want)


def test_second_derivatives_of_complex_numbers_kept_in_their_parts():
    x = leaf([[0.3, 0.7], [0.4, 0.9]])
    y = torch.stack([x, x * 0], -1)
    torch.view_as_complex(y)[0].exp_()
    want = torch.stack([16 * (4 * x[0]).exp(), 8 * x[1]])
    assert torch.allclose(twice_derived(x, y), want)


def test_second_derivatives_of_a_result_kept_by_hooks():
    x = leaf([[0.3, 0.7], [0.4, 0.9]])
    with torch.autograd.graph.saved_tensors_hooks(torch.clone, lambda t: t):
        y = x * 1
        y[0].exp_()
        found = twice_derived(x, y)
    assert torch.allclose(found, torch.stack([16 * (4 * x[0]).exp(), 8 * x[1]]))


def test_second_derivatives_of_a_result_in_memory_apart_from_the_base():
    x = leaf([0.3, 0.7, 0.4, 0.2])
    y = x * 1
    v = y[1:3]
    y.data = torch.ones(4, dtype=torch.float64)
    v.exp_()
    want = torch.zeros(4, dtype=torch.float64)
    want[1:3] = 16 * (4 * x.detach()[1:3]).exp()
    assert torch.allclose(twice_derived(x, v), want)


class Exp_(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x.exp_())
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


@pytest.mark.parametrize("write", [lambda v: v.exp_(), Exp_.apply])
def test_a_result_kept_in_a_view_is_that_view(write):
    x = leaf([0.3, 0.7, 0.4])
    y = x * 1
    v = y[1:]
    write(v)
    (g,) = torch.autograd.grad(v.sum(), x, create_graph=True)  # v
    at_v, at_y, at_x = torch.autograd.grad((g * g).sum(), [v, y, x], retain_graph=True)
    assert torch.allclose(at_v, 2 * v)
    assert torch.allclose(at_y[1:], 2 * v) and at_y[0] == 0
    assert torch.allclose(at_x[1:], 2 * v * v) and at_x[0] == 0
    calls = []
    v.retain_grad()
    v.register_hook(calls.append)
    (g * g).sum().backward()
    assert len(calls) == 1 and torch.allclose(v.grad, 2 * v)


def region_mask(region):
    mask = torch.zeros(2, 3, dtype=torch.bool)
    region(mask).fill_(True)
    return mask


def test_a_leaf_that_shares_the_base_of_a_target_keeps_its_gradient():
    whole = torch.zeros(4, dtype=torch.float64)
    v = whole[:2].requires_grad_()
    v.data = torch.tensor([5.0, 6.0], dtype=torch.float64)
    u = leaf([2.0, 3.0])
    w = whole[2:]
    w.addcmul_(v, u)
    (g,) = torch.autograd.grad((w * w).sum(), u, create_graph=True)
    assert torch.autograd.grad(g.sum(), v)[0].tolist() == [40, 72]  # 4 u v


def read_history(x, v):
    assert v.grad_fn is not None


def fail_in_backward(x, v):
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        x.sum().backward()


@pytest.mark.parametrize("meet", [read_history, fail_in_backward])
@pytest.mark.parametrize(
    "write",
    [
        lambda x, v, w: x.mul_(v),
        lambda x, v, w: x[:1].mul_(v[1:]),
        lambda x, v, w: x.addcmul_(x, v),
        lambda x, v, w: x.lerp_(v, w),
        lambda x, v, w: x.view(2).addcmul_(v, w),
        lambda x, v, w: v.mul_(x),
    ],
)
def test_saved_view_of_the_target_ends_with_the_graph(write, meet):
    gc.collect()
    before = torch._C._live_nodes()
    x = leaf([1.0, 2.0]) * 1
    v = x.view(-1)
    write(x, v, leaf([3.0, 4.0]) * 1)
    meet(x, v)
    x.detach_()
    del x, v
    gc.collect()
    assert torch._C._live_nodes() == before


def test_saved_view_of_a_target_without_gradient_ends_with_the_graph():
    gc.collect()
    before = torch._C._live_nodes()
    x = torch.ones(2)
    v = x.view(-1)
    x.addcmul_(v, leaf([3.0, 4.0]) * 1)
    read_history(x, v)
    x.detach_()
    del x, v
    gc.collect()
    assert torch._C._live_nodes() == before
