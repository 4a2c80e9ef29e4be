# SPDX-License-Identifier: BSD-3-Clause
"""In-place writes and views, rule by rule; the answers of torch 2.13 are pinned.

``tried(f, ...)`` returns f's value, or a short name of the rule whose error it raised.
"""

import pytest
from conftest import leaf, ones
from view_rules import gradient, name, plain, tried

import cograd as torch

# ---- views of one base ---------------------------------------------------------------------------


def test_write_to_a_view_rewrites_its_base():
    x = leaf([1.0, 2.0, 3.0])
    b = x * 1
    v = b[:2]
    v.mul_(2)
    assert plain((name(b), name(v), v._base is b, b._version, gradient(b.sum(), x))) == [
        "CopySlices",
        "AsStrided",
        True,
        1,
        [2.0, 2.0, 1.0],
    ]


def test_write_to_a_view_of_a_view():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    b = x * 1
    v = b[0]
    w = v[1:]
    w.mul_(5)
    assert plain((name(v), name(w), name(b), w._base is b, gradient(b.sum() + v.sum(), x))) == [
        "AsStrided",
        "AsStrided",
        "CopySlices",
        True,
        [[2.0, 10.0], [1.0, 1.0]],
    ]


def test_views_follow_a_write_to_their_base():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    b = x * 1
    v = b.t()
    w = v.view_as(v)
    b.mul_(3)
    assert plain((name(v), name(w), gradient(w.sum() * 2, x))) == [
        "AsStrided",
        "AsStrided",
        [[6.0, 6.0], [6.0, 6.0]],
    ]


def test_base_and_view_written_in_turn():
    x = leaf([1.0, 2.0])
    b = x * 1
    v = b.view(2, 1)
    b.mul_(2)
    v.mul_(3)
    b.mul_(5)
    assert plain((name(b), name(v), gradient(v.sum(), x))) == ["Mul", "AsStrided", [30.0, 30.0]]


def test_view_cannot_be_detached_in_place():
    x = leaf([1.0, 2.0])
    b = x * 1
    v = b.view(2, 1)
    assert plain(tried(v.detach_)) == "detach_ of a view"


def test_view_of_a_leaf_cannot_be_written():
    x = leaf([1.0, 2.0])
    v = x.view(2, 1)
    assert plain(
        (v._is_view(), tried(v.mul_, 2), tried(v.zero_), tried(v.requires_grad_, False))
    ) == [True, "view of a leaf", "view of a leaf", "not a leaf"]


def test_detached_alias_shares_memory_and_version():
    x = leaf([1.0, 2.0])
    v = x.detach()
    v.mul_(3)
    assert plain((x, x._version, v._is_view(), v._base is None)) == [[3.0, 6.0], 1, False, True]


def test_write_to_a_detached_alias_is_noticed():
    x = leaf([1.0, 2.0])
    y = x * x
    d = y.detach()
    d.mul_(2)
    e = x.exp()
    e.detach().zero_()
    assert plain(tried(e.sum().backward)) == "saved tensor was written"


def test_view_of_a_constant_that_becomes_a_leaf():
    x = ones(3)
    v = x[1:]
    x.requires_grad_()
    assert plain((v.requires_grad, v.is_leaf, tried(lambda: v.mul(2).requires_grad))) == [
        True,
        True,
        True,
    ]


def test_constant_base_takes_history_from_its_view():
    x = ones(3)
    v = x[1:]
    w = leaf([2.0, 3.0])
    v.mul_(w)
    assert plain((x.requires_grad, name(x), name(v), gradient(x.sum(), w))) == [
        True,
        "CopySlices",
        "AsStrided",
        [1.0, 1.0],
    ]


def test_view_written_with_its_own_copy():
    x = leaf([1.0, 2.0, 3.0])
    b = x * 1
    v = b[0:2]
    c = v.clone()
    v.add_(c)
    assert plain(gradient(b.sum(), x)) == [2.0, 2.0, 1.0]


def test_expanded_view_follows_its_base():
    x = leaf([1.0, 2.0, 3.0])
    b = x * 1
    v = b.expand(2, 3)
    b.mul_(2)
    assert plain(gradient(v.sum(), x)) == [4.0, 4.0, 4.0]


def test_expanded_view_cannot_be_written():
    x = leaf([1.0, 2.0, 3.0])
    b = x * 1
    v = b.expand(2, 3)
    assert plain(tried(v.mul_, 2)) == "overlapping memory"


def test_write_to_a_view_of_an_as_strided_view():
    x = leaf([1.0, 2.0, 3.0, 4.0])
    b = x * 1
    v = b.as_strided((2, 2), (2, 1))
    v[0].mul_(3)
    assert plain((name(v), name(b), gradient(b.sum(), x))) == [
        "AsStrided",
        "CopySlices",
        [3.0, 3.0, 1.0, 1.0],
    ]


def test_as_strided_view_follows_its_base():
    x = leaf([1.0, 2.0, 3.0, 4.0])
    b = x * 1
    v = b.as_strided((3,), (1,), 1)
    b.mul_(2)
    assert plain((name(v), gradient(v.sum(), x))) == ["AsStrided", [0.0, 2.0, 2.0, 2.0]]


def test_as_strided_of_a_transposed_view():
    x = leaf([1.0, 2.0, 3.0, 4.0])
    b = (x * 1).view(2, 2).t()
    v = b.as_strided((3,), (1,), 1)
    v.mul_(2)
    assert plain((gradient(b.sum(), x), b)) == [[1.0, 2.0, 2.0, 2.0], [[1.0, 6.0], [4.0, 8.0]]]


def test_overlapping_as_strided():
    x = leaf([1.0, 2.0, 3.0, 4.0])
    b = x.as_strided((3, 2), (1, 1))
    assert plain(gradient((b * b).sum(), x)) == [2.0, 8.0, 12.0, 8.0]


def test_as_strided_keeps_the_offset_of_its_base():
    x = leaf([1.0, 2.0, 3.0, 4.0])
    b = (x * 1)[1:]
    c = b.as_strided((2,), (1,))
    assert plain((c, gradient(c.sum(), x))) == [[2.0, 3.0], [0.0, 1.0, 1.0, 0.0]]


def test_as_strided_may_leave_its_base():
    x = leaf([1.0, 2.0, 3.0, 4.0])
    b = (x * 1)[1:]
    c = b.as_strided((2,), (1,), 0)
    c.mul_(3)
    assert plain((c, b, gradient(b.sum(), x))) == [
        [3.0, 6.0],
        [6.0, 3.0, 4.0],
        [0.0, 3.0, 1.0, 1.0],
    ]


@pytest.mark.beyond_torch
def test_two_views_of_a_constant_base():
    x = ones(3)
    v = x[1:]
    u = x[:2]
    w = leaf([2.0, 3.0])
    v.mul_(w)
    u.mul_(10)
    assert plain((x, name(x), name(v), name(u), gradient(x.sum(), w))) == [
        [10.0, 20.0, 3.0],
        "CopySlices",
        "AsStrided",
        "AsStrided",
        [10.0, 1.0],
    ]


@pytest.mark.beyond_torch
def test_view_that_is_a_leaf():
    x = ones(3)
    v = x[1:]
    v.requires_grad_()
    assert plain(
        (
            v.is_leaf,
            v.requires_grad,
            x.requires_grad,
            tried(v.mul_, 2),
            tried(x.mul_, 2),
            v._version,
        )
    ) == [True, True, False, "leaf", [2.0, 2.0, 2.0], 1]


# ---- views from ops with several results ---------------------------------------------------------


def test_unbind_cannot_be_written():
    b = leaf([[1.0, 2.0], [3.0, 4.0]]) * 1
    a, c = b.unbind(0)
    assert plain(tried(a.mul_, 2)) == "multi-output view"


def test_unbind_cannot_follow_its_base():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    b = x * 1
    a, c = b.unbind(0)
    b.mul_(2)
    assert plain((tried(lambda: a.grad_fn), tried(lambda: a * 1))) == [
        "multi-output view, base written",
        "multi-output view, base written",
    ]


def test_split_and_views_of_it_cannot_be_written():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    b = x * 1
    a, c = b.split(1)
    assert plain((tried(a.mul_, 2), tried(lambda: a[0].mul_(2)))) == [
        "multi-output view",
        "multi-output view",
    ]


def test_chunk_cannot_follow_its_base():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    b = x * 1
    a, c = b.chunk(2)
    b.mul_(2)
    assert plain((tried(lambda: a[0] * 1), tried(lambda: c.sum().backward()))) == [
        "multi-output view, base written",
        "multi-output view, base written",
    ]


def test_unbind_under_no_grad_cannot_be_written_with_grad():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    b = x * 1
    with torch.no_grad():
        a, c = b.unbind(0)
    assert plain(tried(a.mul_, 2)) == "no_grad view"


def test_unbind_of_a_constant_under_no_grad():
    x = ones(2, 2)
    with torch.no_grad():
        a, c = x.unbind(0)
    w = leaf([1.0, 2.0])
    assert plain(tried(a.mul_, w)) == "no_grad view"


def test_unbind_of_a_leaf_written_under_no_grad():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    a, c = x.unbind(0)
    with torch.no_grad():
        a.mul_(2)
    assert plain((x, tried(lambda: name(a)))) == [
        [[2.0, 4.0], [3.0, 4.0]],
        "multi-output view, base written",
    ]


def test_unbind_written_under_no_grad_poisons_its_history():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    b = x * 1
    a, c = b.unbind(0)
    with torch.no_grad():
        a.mul_(2)
    assert plain(
        (b, tried(lambda: name(a)), tried(lambda: name(c)), tried(lambda: c.sum().backward()))
    ) == [
        [[2.0, 4.0], [3.0, 4.0]],
        "multi-output view, base written",
        "multi-output view, base written",
        "multi-output view, base written",
    ]


def test_split_with_one_piece():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    b = x * 1
    (a,) = b.split(2)
    assert plain(tried(a.mul_, 2)) == "multi-output view"


def test_split_with_sizes():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    b = x * 1
    r = torch.split(b, [1, 1])
    assert plain(tried(r[1].add_, 2)) == "multi-output view"


def test_unbind_of_a_constant_takes_no_history():
    x = ones(2, 2)
    a, c = x.unbind(0)
    w = leaf([1.0, 2.0])
    assert plain(tried(a.mul_, w)) == "multi-output view"


# ---- views and writes under no_grad --------------------------------------------------------------


def test_no_grad_view_cannot_be_written_with_grad():
    x = leaf([1.0, 2.0]) * 1
    with torch.no_grad():
        v = x[0]
    assert plain((v.requires_grad, v._is_view(), tried(v.mul_, 2))) == [True, True, "no_grad view"]


def test_no_grad_view_of_a_written_base():
    x = leaf([1.0, 2.0]) * 1
    with torch.no_grad():
        v = x[0]
    x.mul_(2)
    assert plain((v.requires_grad, tried(lambda: v.grad_fn), tried(lambda: v * 1))) == [
        True,
        "no_grad view, base written",
        "no_grad view, base written",
    ]


def test_no_grad_view_written_under_no_grad():
    x = leaf([1.0, 2.0])
    with torch.no_grad():
        v = x[0]
        v.mul_(3)
    assert plain((x, v.requires_grad, x._version)) == [[3.0, 2.0], True, 1]


def test_view_written_under_no_grad_keeps_its_history():
    x = leaf([1.0, 2.0])
    y = x * 1
    v = y[0]
    with torch.no_grad():
        v.mul_(3)
    assert plain((tried(lambda: name(v)), tried(lambda: name(y)), v, gradient(v * 2, x))) == [
        "AsStrided",
        "Mul",
        3.0,
        [2.0, 0.0],
    ]


def test_base_written_under_no_grad_keeps_history_of_views():
    x = leaf([1.0, 2.0])
    y = x * 1
    v = y[0]
    with torch.no_grad():
        y.mul_(3)
    assert plain((tried(lambda: name(v)), tried(lambda: name(y)), v, gradient(v * 2, x))) == [
        "AsStrided",
        "Mul",
        3.0,
        [2.0, 0.0],
    ]


def test_no_grad_view_of_a_constant_that_becomes_a_leaf():
    x = ones(2)
    with torch.no_grad():
        v = x[0]
    x.requires_grad_()
    assert plain((v.requires_grad, tried(v.mul_, 2))) == [True, "no_grad view"]


def test_no_grad_view_of_a_constant_takes_no_history():
    x = ones(2)
    with torch.no_grad():
        v = x[:1]
    w = leaf([2.0])
    assert plain((tried(v.mul_, w), x)) == ["no_grad view", [1.0, 1.0]]


def test_result_under_no_grad_can_be_a_leaf():
    x = leaf([1.0, 2.0])
    with torch.no_grad():
        y = x * 2
        y.requires_grad_()
    assert plain((y.is_leaf, tried(y.mul_, 2))) == [True, "leaf"]


def test_leaf_written_under_no_grad_and_its_view():
    x = leaf([1.0, 2.0])
    v = x[0]
    with torch.no_grad():
        x.mul_(2)
    assert plain((v, name(v), gradient(v * 1, x))) == [2.0, "AsStrided", [1.0, 0.0]]


def test_view_of_a_no_grad_view():
    x = leaf([1.0, 2.0])
    with torch.no_grad():
        v = x.view(2, 1)
        w = v[0]
    assert plain((tried(w.mul_, 2), tried(lambda: v[0].mul_(2)), v[0].requires_grad)) == [
        "no_grad view",
        "view of a no_grad view",
        True,
    ]


def test_view_of_a_no_grad_view_of_a_leaf():
    x = leaf([1.0, 2.0])
    with torch.no_grad():
        v = x[0]
    v2 = v.view(1)
    assert plain((v2.requires_grad, tried(v2.mul_, 3))) == [True, "view of a no_grad view"]


# ---- inference mode ------------------------------------------------------------------------------


def test_inference_tensor_outside():
    with torch.inference_mode():
        x = ones(2)
    assert plain(
        (
            tried(x.mul_, 2),
            x.is_inference(),
            tried(lambda: x._version),
            tried(x.requires_grad_),
            tried(lambda: x[0].is_inference()),
            tried(lambda: (x + 1).is_inference()),
        )
    ) == ["inference tensor", True, "no version", "inference leaf", True, False]


def test_normal_tensor_in_inference_mode():
    x = ones(2)
    with torch.inference_mode():
        v = x[0]
        x.mul_(2)
        y = x * 1
    assert plain(
        (v.is_inference(), v._is_view(), y.is_inference(), x.is_inference(), tried(v.mul_, 2), x)
    ) == [False, True, True, False, 4.0, [4.0, 2.0]]


def test_tracked_tensor_written_in_inference_mode():
    x = leaf([1.0, 2.0]) * 1
    with torch.inference_mode():
        x.mul_(2)
    assert plain((x, name(x), tried(lambda: x.sum().backward()))) == [[2.0, 4.0], "Mul", None]


def test_saved_tensor_written_in_inference_mode():
    x = leaf([1.0, 2.0])
    y = x * x
    with torch.inference_mode():
        y.mul_(2)
    assert plain((y._version, tried(lambda: y.sum().backward()))) == [1, None]


def test_clone_of_an_inference_tensor():
    with torch.inference_mode():
        x = ones(2)
    y = x.clone()
    assert plain((y.is_inference(), tried(y.mul_, 2))) == [False, [2.0, 2.0]]


def test_detach_and_results_in_inference_mode():
    x = leaf([1.0, 2.0])
    with torch.inference_mode():
        d = x.detach()
        s = x * 2
    assert plain((d.is_inference(), s.requires_grad, tried(lambda: s.requires_grad_()))) == [
        False,
        False,
        "inference leaf",
    ]


def test_backward_in_inference_mode():
    x = leaf([1.0, 2.0])
    with torch.inference_mode():
        assert plain((tried(x.mul_, 2), x.requires_grad, tried((x * 2).backward))) == [
            [2.0, 4.0],
            True,
            "no grad_fn",
        ]


def test_inference_tensor_cannot_be_saved():
    with torch.inference_mode():
        x = ones(2)
    w = leaf([1.0, 2.0])
    assert plain((tried(lambda: x * w), tried(lambda: x + w))) == [
        "inference tensor saved",
        [2.0, 3.0],
    ]


def test_view_made_in_inference_mode():
    x = leaf([1.0, 2.0]) * 1
    with torch.inference_mode():
        v = x[0]
    assert plain((v.is_inference(), v.requires_grad, tried(v.mul_, 2), tried(lambda: v * 1))) == [
        False,
        True,
        "inference view",
        1.0,
    ]


def test_out_into_an_inference_tensor():
    with torch.inference_mode():
        x = ones(2)
    y = ones(2)
    y.copy_(x)
    z = ones(2)
    assert plain((y.is_inference(), tried(lambda: torch.add(z, 1, out=x)))) == [
        False,
        "inference tensor",
    ]


# ---- hooks and retain_grad across writes ---------------------------------------------------------


def test_retain_grad_moves_along():
    x = leaf([1.0, 2.0])
    b = x * 1
    b.retain_grad()
    b.mul_(2)
    b.mul_(3)
    b.sum().backward()
    assert plain((b.grad, x.grad, b.retains_grad)) == [[1.0, 1.0], [6.0, 6.0], True]


def test_hooks_stay_with_the_value():
    x = leaf([1.0, 2.0])
    b = x * 1
    o = []
    b.register_hook(lambda g: o.append(g))
    b.mul_(2)
    b.register_hook(lambda g: o.append(g))
    b.mul_(3)
    b.sum().backward()
    assert plain(o) == [[3.0, 3.0], [6.0, 6.0]]


def test_retain_grad_of_a_view_across_a_write_to_its_base():
    x = leaf([1.0, 2.0])
    b = x * 1
    v = b[:1]
    v.retain_grad()
    b.mul_(3)
    (v * 1).sum().backward()
    assert plain((v.grad, v.retains_grad)) == [[1.0], True]


def test_hook_of_a_view_across_a_write_to_its_base():
    x = leaf([1.0, 2.0])
    b = x * 1
    v = b[:1]
    o = []
    v.register_hook(lambda g: o.append(g))
    b.mul_(3)
    (v * 1).sum().backward()
    assert plain(o) == []


def test_retain_grad_of_a_base_across_a_write_to_its_view():
    x = leaf([1.0, 2.0])
    b = x * 1
    v = b[:1]
    b.retain_grad()
    v.mul_(3)
    (b * 1).sum().backward()
    assert plain((b.grad, x.grad)) == [[1.0, 1.0], [3.0, 1.0]]


def test_retain_grad_of_a_written_view():
    x = leaf([1.0, 2.0])
    b = x * 1
    v = b[:1]
    v.retain_grad()
    v.mul_(3)
    (b * 1).sum().backward()
    assert plain((v.grad, x.grad)) == [None, [3.0, 1.0]]


def test_hook_of_a_base_across_a_write_to_its_view():
    x = leaf([1.0, 2.0])
    b = x * 1
    o = []
    b.register_hook(lambda g: o.append(("b", g)))
    v = b[:1]
    v.mul_(3)
    (b * 1).sum().backward()
    assert plain(o) == [["b", [3.0, 1.0]]]


def test_retain_grad_across_a_no_grad_write():
    x = leaf([1.0, 2.0])
    b = x * 1
    b.retain_grad()
    with torch.no_grad():
        b.mul_(3)
    b.sum().backward()
    assert plain(b.grad) == [1.0, 1.0]


def test_hook_and_retain_grad_after_a_write():
    x = leaf([1.0, 2.0])
    b = x * 1
    b.mul_(2)
    b.register_hook(lambda g: g * 10)
    b.retain_grad()
    b.add_(1)
    b.sum().backward()
    assert plain((b.grad, x.grad)) == [[1.0, 1.0], [20.0, 20.0]]


def test_hook_of_a_leaf_across_a_no_grad_write():
    x = leaf([1.0, 2.0])
    x.register_hook(lambda g: g * 10)
    with torch.no_grad():
        x.mul_(2)
    (x * 1).sum().backward()
    assert plain(x.grad) == [10.0, 10.0]


def test_retain_grad_of_a_base_that_took_history():
    x = ones(2)
    v = x[:1]
    w = leaf([1.0])
    v.mul_(w)
    x.retain_grad()
    v.retain_grad()
    (x * 2).sum().backward()
    assert plain((x.grad, v.grad, w.grad)) == [[2.0, 2.0], None, [2.0]]


# ---- saved tensors -------------------------------------------------------------------------------


def test_saved_input_written():
    x = leaf([1.0, 2.0])
    y = x * 1
    z = y * y
    y.mul_(2)
    assert plain(tried(z.sum().backward)) == "saved tensor was written"


def test_saved_input_written_through_a_view():
    x = leaf([1.0, 2.0])
    y = x * 1
    z = y * y
    y[0].mul_(2)
    assert plain(tried(z.sum().backward)) == "saved tensor was written"


def test_saved_view_and_a_write_beside_it():
    x = leaf([1.0, 2.0])
    y = x * 1
    v = y[0]
    z = v * v
    y[1].mul_(2)
    assert plain(tried(z.sum().backward)) == "saved tensor was written"


def test_write_to_what_was_not_saved():
    x = leaf([1.0, 2.0])
    y = x * 1
    z = y + 1
    y.mul_(2)
    assert plain(tried(z.sum().backward)) is None


def test_saved_result_written():
    x = leaf([1.0, 2.0])
    y = x.exp()
    y.mul_(2)
    assert plain(tried(y.sum().backward)) == "saved tensor was written"


def test_saved_result_written_through_detach():
    x = leaf([1.0, 2.0])
    y = x.exp()
    y.detach().mul_(2)
    assert plain(tried(y.sum().backward)) == "saved tensor was written"


def test_saved_leaf_written_under_no_grad():
    x = leaf([1.0, 2.0])
    z = x * x
    with torch.no_grad():
        x.mul_(2)
    assert plain(tried(z.sum().backward)) == "saved tensor was written"


def test_saved_leaf_given_new_data():
    x = leaf([1.0, 2.0])
    z = x * x
    x.data = ones(2) * 5
    assert plain((tried(z.sum().backward), x.grad)) == [None, [10.0, 10.0]]


# ---- histories -----------------------------------------------------------------------------------


def test_constant_takes_history():
    x = ones(2)
    w = leaf([1.0, 2.0])
    x.add_(w)
    assert plain((x.requires_grad, name(x), x.is_leaf)) == [True, "Add", False]


def test_zero_cuts_the_history():
    x = leaf([1.0, 2.0])
    y = x * 1
    y.zero_()
    assert plain((name(y), y.requires_grad, gradient(y.sum(), x))) == ["Zero", True, [0.0, 0.0]]


def test_copy_of_a_constant_cuts_the_history():
    x = leaf([1.0, 2.0])
    y = x * 1
    y.copy_(ones(2))
    assert plain((name(y), gradient(y.sum(), x))) == ["CopyBackwards", [0.0, 0.0]]


def test_requires_grad_of_a_result():
    x = leaf([1.0, 2.0])
    y = x * 1
    y.requires_grad_()
    assert plain(tried(y.requires_grad_, False)) == "not a leaf"


def test_write_through_data():
    x = leaf([1.0, 2.0])
    x.data[0] = 5
    assert plain((x, x._version)) == [[5.0, 2.0], 0]


def test_out_and_gradients():
    x = ones(3)
    w = leaf([1.0, 2.0, 3.0])
    assert plain((tried(torch.add, x, w, out=x), tried(torch.add, x, 1, out=w))) == [
        "out= with gradients",
        "out= with gradients",
    ]


def test_detach_in_place():
    x = leaf([1.0, 2.0])
    y = x * 1
    y.detach_()
    assert plain((y.is_leaf, y.requires_grad, y.mul_(2))) == [True, False, [2.0, 4.0]]


def test_detach_of_a_base_with_a_view():
    x = leaf([1.0, 2.0])
    y = x * 1
    v = y[:1]
    assert plain(
        (tried(y.detach_), v.requires_grad, name(v), tried(lambda: v.sum().backward()), x.grad)
    ) == [[1.0, 2.0], True, "Slice", None, [1.0, 0.0]]


def test_index_put_into_a_result():
    x = leaf([1.0, 2.0])
    y = x * 1
    y.index_put_((torch.tensor([0]),), leaf([5.0]))
    assert plain((name(y), gradient(y.sum(), x))) == ["IndexPut", [0.0, 1.0]]


def test_augmented_assignment():
    x = leaf([1.0, 2.0])
    y = x * 1
    z = y
    z += 1
    assert plain((z is y, name(y))) == [True, "Add"]


def test_constant_written_under_no_grad():
    a = ones(2)
    b = leaf([1.0, 2.0])
    with torch.no_grad():
        a.add_(b)
    assert not a.requires_grad


def test_result_given_new_data():
    x = leaf([1.0, 2.0])
    y = x * 1
    y.data = ones(2)
    assert plain((name(y), gradient(y.sum(), x))) == ["Mul", [1.0, 1.0]]


def test_base_given_new_data():
    x = leaf([1.0, 2.0])
    y = x * 1
    v = y[:1]
    y.data = ones(2) * 9
    tried(lambda: v.mul_(2))
    assert plain((y, v, tried(lambda: gradient(y.sum(), x)))) == [[9.0, 9.0], [2.0], [2.0, 1.0]]


def test_detached_view_as_leaf():
    x = leaf([1.0, 2.0])
    v = x[:1]
    v2 = v.detach()
    v2.requires_grad_()
    assert plain((v2._is_view(), v2.is_leaf, tried(v2.mul_, 2))) == [False, True, "leaf"]


def test_shifted_copy_of_itself():
    x = leaf([1.0, 2.0, 3.0])
    y = x * 1
    y[1:] = y[:-1].clone()
    assert plain(gradient(y.sum(), x)) == [2.0, 1.0, 0.0]


def test_view_filled_and_written():
    x = leaf([1.0, 2.0, 3.0])
    y = x * 1
    v = y[1:]
    v[:] = 0
    v += x[1:]
    assert plain(gradient((y * y).sum(), x)) == [2.0, 4.0, 6.0]


def test_write_to_a_temporary_view():
    x = leaf([1.0, 2.0, 3.0])
    y = x * 1
    assert plain((tried(lambda: y.view(3).mul_(2).sum().backward()), x.grad)) == [
        None,
        [2.0, 2.0, 2.0],
    ]


def test_write_with_a_view_of_itself():
    x = leaf([1.0, 2.0, 3.0])
    y = x * 1
    y.view(3).retain_grad()
    v = y.view(3)
    y.mul_(v.clone())
    assert plain(gradient(y.sum(), x)) == [2.0, 4.0, 6.0]


@pytest.mark.beyond_torch
def test_views_copied_into_one_after_the_other():
    x = ones(4)
    a = x[:2]
    b = x[2:]
    w = leaf([1.0, 2.0])
    a.copy_(w)
    b.copy_(w * 2)
    assert plain((gradient(x.sum(), w), name(a), name(b), name(x))) == [
        [3.0, 3.0],
        "AsStrided",
        "AsStrided",
        "CopySlices",
    ]


def test_copy_into_integers():
    x = torch.arange(3)
    w = leaf([1.0, 2.0, 3.0])
    assert plain((tried(x.add_, w), tried(x.copy_, w), x.requires_grad)) == [
        "cannot be cast",
        [1, 2, 3],
        False,
    ]
