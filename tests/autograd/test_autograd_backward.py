# SPDX-License-Identifier: BSD-3-Clause
"""Tensor.backward, autograd.backward and autograd.grad, argument by argument."""

import numpy as np
import pytest
from conftest import arr, leaf, ones, same

import cograd as torch
from cograd import autograd
from cograd.autograd import gradcheck, gradgradcheck

SCALAR_ONLY = "grad can be implicitly created only for scalar outputs"
SECOND_TIME = "Trying to backward through the graph a second time"


# ---- Tensor.backward -----------------------------------------------------------------------------


def test_backward_of_scalar_returns_none_and_fills_leaf_grads():
    x, w = leaf([1.0, 2.0, 3.0]), leaf([4.0, 5.0, 6.0])
    assert (x * w).sum().backward() is None
    assert same(x.grad, [4, 5, 6]) and same(w.grad, [1, 2, 3])
    assert not x.grad.requires_grad and x.grad.grad_fn is None and x.grad.is_leaf


def test_backward_of_one_element_tensor_needs_no_gradient():
    x = leaf([[3.0]])
    (x * x).backward()
    assert same(x.grad, [[6.0]])


@pytest.mark.parametrize("shape", [(3,), (2, 3), (0,)])
def test_backward_of_non_scalar_without_gradient_raises(shape):
    x = leaf(np.ones(shape))
    with pytest.raises(RuntimeError, match=SCALAR_ONLY):
        (x * 2).backward()
    assert x.grad is None


def test_backward_gradient_is_the_vector_of_the_product():
    x = leaf([1.0, 2.0, 3.0])
    (x * x).backward(torch.tensor([1.0, 10.0, 100.0], dtype=torch.float64))
    assert same(x.grad, [2, 40, 600])


def test_backward_gradient_is_accepted_by_keyword_and_left_unchanged():
    x = leaf([1.0, 2.0])
    g = ones(2)
    y = x * 3
    y.backward(gradient=g)
    assert same(g, [1, 1]) and g._version == 0
    assert same(x.grad, [3, 3])


def test_backward_gradient_for_scalar_root_scales():
    x = leaf([1.0, 2.0])
    (x * x).sum().backward(torch.tensor(0.5, dtype=torch.float64))
    assert same(x.grad, [1, 2])


def test_backward_gradient_of_wrong_shape_names_both_shapes():
    x = leaf([1.0, 2.0, 3.0])
    message = r"Mismatch in shape: grad_output\[0\] has a shape of .*\[2\].* output\[0\] .*\[3\]"
    with pytest.raises(RuntimeError, match=message):
        (x * x).backward(ones(2))
    assert x.grad is None


def test_backward_gradient_does_not_broadcast():
    x = leaf([[1.0, 2.0, 3.0]])
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        (x * x).backward(ones(3))
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        (x * x).sum().backward(ones(1))


def test_backward_gradient_of_wrong_type_is_a_type_error():
    x = leaf([1.0])
    with pytest.raises(TypeError, match="gradients can be either Tensors or None, but got"):
        (x * x).backward("one")


def test_backward_gradient_of_other_float_dtype_is_cast_to_the_leaf_dtype():
    x = leaf([1.0, 2.0])
    (x * x).backward(torch.ones(2, dtype=torch.float32))
    assert x.grad.dtype == torch.float64 and same(x.grad, [2, 4])


def test_backward_on_tensor_without_history_raises():
    message = "element 0 of tensors does not require grad and does not have a grad_fn"
    with pytest.raises(RuntimeError, match=message):
        torch.ones(1).backward()
    with pytest.raises(RuntimeError, match=message):
        (leaf([1.0]) * 2).detach().sum().backward()


def test_backward_second_root_without_history_is_named_by_index():
    x = leaf([1.0])
    with pytest.raises(RuntimeError, match="element 1 of tensors does not require grad"):
        autograd.backward([x.sum(), torch.ones(())])


def test_backward_on_a_leaf_root_adds_the_gradient_itself():
    x = leaf(2.0)
    x.backward()
    x.backward(torch.tensor(5.0, dtype=torch.float64))
    assert same(x.grad, 6.0)


def test_leaf_root_does_not_alias_the_callers_gradient():
    x = leaf([1.0, 2.0])
    g = ones(2)
    x.backward(g)
    g.fill_(7.0)
    assert same(x.grad, [1, 1])


# ---- retain_graph --------------------------------------------------------------------------------


def test_second_backward_raises_with_the_known_text():
    x = leaf([1.0, 2.0])
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match=SECOND_TIME) as info:
        y.backward()
    assert "retain_graph=True" in str(info.value)
    assert same(x.grad, [2, 4]), "the failing run must not accumulate"


def test_second_backward_through_a_shared_part_raises():
    x = leaf([1.0, 2.0])
    shared = x.exp()
    a, b = shared.sum(), (shared * 2).sum()
    a.backward()
    with pytest.raises(RuntimeError, match=SECOND_TIME):
        b.backward()


def test_second_backward_is_fine_where_nothing_was_saved():
    x = leaf([1.0, 2.0])
    y = (x + 1).sum()
    y.backward()
    y.backward()
    assert same(x.grad, [2, 2])


def test_retain_graph_allows_any_number_of_runs():
    x = leaf([1.0, 2.0])
    y = (x * x).sum()
    for _ in range(4):
        y.backward(retain_graph=True)
    y.backward()
    assert same(x.grad, [10, 20])
    with pytest.raises(RuntimeError, match=SECOND_TIME):
        y.backward()


def test_create_graph_implies_retain_graph_unless_told_otherwise():
    x = leaf([3.0])
    y = (x * x * x).sum()
    (g,) = autograd.grad(y, x, create_graph=True)
    (again,) = autograd.grad(y, x, create_graph=True, retain_graph=False)
    assert same(g, [27]) and same(again, [27])
    with pytest.raises(RuntimeError, match=SECOND_TIME):
        y.backward()


def test_grad_frees_the_graph_like_backward():
    x = leaf([3.0])
    y = (x * x).sum()
    autograd.grad(y, x)
    with pytest.raises(RuntimeError, match=SECOND_TIME):
        autograd.grad(y, x)


def test_retained_run_then_other_root_over_shared_part():
    x = leaf([1.0, 2.0])
    shared = x * x
    shared.sum().backward(retain_graph=True)
    (shared * shared).sum().backward()
    assert same(x.grad, [2 + 4, 4 + 32])


# ---- inputs= -------------------------------------------------------------------------------------


def test_backward_inputs_limits_accumulation():
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    (x * w).sum().backward(inputs=[w])
    assert x.grad is None and same(w.grad, [1, 2])


def test_backward_inputs_takes_a_single_tensor():
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    (x * w).sum().backward(inputs=x)
    assert w.grad is None and same(x.grad, [3, 4])


def test_backward_inputs_may_be_an_intermediate():
    x = leaf([2.0])
    mid = x * x
    (mid * mid).sum().backward(inputs=[mid])
    assert x.grad is None
    assert same(mid.grad, [8.0])


def test_backward_inputs_intermediate_and_leaf_together():
    x = leaf([2.0])
    mid = x * x
    (mid * mid).sum().backward(inputs=[mid, x])
    assert same(mid.grad, [8.0]) and same(x.grad, [32.0])


def test_backward_inputs_empty_raises():
    with pytest.raises(RuntimeError, match="`inputs` argument to `backward\\(\\)` cannot be empty"):
        autograd.backward(leaf(1.0) * 2, inputs=[])


def test_backward_inputs_outside_the_graph_stay_without_grad():
    x, other = leaf(2.0), leaf(3.0)
    (x * x).backward(inputs=[other])
    assert x.grad is None and other.grad is None


def test_backward_inputs_skips_work_that_is_not_needed():
    ran = []
    x, w = leaf(2.0), leaf(3.0)
    branch = w * 2
    branch.register_hook(lambda g: ran.append("w"))
    (x * branch).backward(inputs=[x])
    assert ran == [] and same(x.grad, 6.0) and w.grad is None


# ---- autograd.backward ---------------------------------------------------------------------------


def test_autograd_backward_takes_one_tensor_or_a_sequence():
    x = leaf(2.0)
    autograd.backward(x * x)
    autograd.backward([x * 3])
    autograd.backward((x * 5,))
    assert same(x.grad, 4 + 3 + 5)


def test_autograd_backward_several_roots_with_mixed_gradients():
    x = leaf([1.0, 2.0])
    scalar, vector = (x * x).sum(), x * 3
    autograd.backward([scalar, vector], grad_tensors=[None, ones(2)])
    assert same(x.grad, [5, 7])


def test_autograd_backward_single_gradient_without_sequence():
    x = leaf([1.0, 2.0])
    autograd.backward(x * 3, ones(2))
    assert same(x.grad, [3, 3])


def test_autograd_backward_same_root_twice_counts_twice():
    x = leaf(3.0)
    y = x * x
    autograd.backward([y, y])
    assert same(x.grad, 12.0)


def test_autograd_backward_root_inside_the_graph_of_another_root():
    x = leaf(3.0)
    inner = x * x
    outer = inner * inner
    autograd.backward([outer, inner])
    assert same(x.grad, 4 * 27.0 + 6.0)


def test_autograd_backward_wrong_number_of_gradients():
    x = leaf(3.0)
    with pytest.raises(RuntimeError, match="got 2 tensors and 1 gradients"):
        autograd.backward([x * 1, x * 2], [torch.tensor(1.0, dtype=torch.float64)])


def test_autograd_backward_non_scalar_root_among_several():
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        autograd.backward([x.sum(), x * 2])
    assert x.grad is None


# ---- autograd.grad -------------------------------------------------------------------------------


def test_grad_returns_a_tuple_and_touches_no_grad_field():
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    result = autograd.grad((x * w).sum(), [x, w])
    assert isinstance(result, tuple) and len(result) == 2
    assert same(result[0], [3, 4]) and same(result[1], [1, 2])
    assert x.grad is None and w.grad is None


def test_grad_takes_a_single_input_tensor_and_still_returns_a_tuple():
    x = leaf(3.0)
    result = autograd.grad(x * x, x)
    assert isinstance(result, tuple) and same(result[0], 6.0)


def test_grad_leaves_existing_grad_alone():
    x = leaf(3.0)
    (x * x).backward()
    (g,) = autograd.grad(x * x * x, x)
    assert same(g, 27.0) and same(x.grad, 6.0)


def test_grad_of_an_intermediate():
    x = leaf(3.0)
    mid = x * x
    (g,) = autograd.grad(mid * mid, mid)
    assert same(g, 18.0)


def test_grad_of_intermediate_and_its_ancestor_in_one_call():
    x = leaf(3.0)
    mid = x * x
    out = mid * mid + x
    g_x, g_mid = autograd.grad(out, [x, mid])
    assert same(g_mid, 18.0) and same(g_x, 18.0 * 6 + 1)


def test_grad_input_listed_twice_is_answered_twice():
    x = leaf(3.0)
    a, b = autograd.grad(x * x, [x, x])
    assert same(a, 6.0) and same(b, 6.0)


def test_grad_of_root_with_respect_to_itself_is_the_seed():
    x = leaf([1.0, 2.0])
    y = x * 2
    (g,) = autograd.grad(y, y, grad_outputs=torch.tensor([3.0, 4.0], dtype=torch.float64))
    assert same(g, [3, 4])


def test_grad_output_of_multi_output_op_as_input():
    x = leaf([3.0, 1.0, 2.0])
    values, _ = torch.sort(x)
    (g,) = autograd.grad((values * values).sum(), values)
    assert same(g, [2, 4, 6])


def test_grad_with_grad_outputs_of_several_roots():
    x = leaf([1.0, 2.0])
    seeds = [ones(2), torch.tensor(2.0, dtype=torch.float64)]
    (g,) = autograd.grad([x * x, x.sum()], x, grad_outputs=seeds)
    assert same(g, [4, 6])


def test_grad_outputs_none_entry_means_one_for_scalars():
    x = leaf([1.0, 2.0])
    (g,) = autograd.grad([(x * x).sum(), x * 3], x, grad_outputs=[None, ones(2)])
    assert same(g, [5, 7])


@pytest.mark.beyond_torch
def test_grad_outputs_of_wrong_shape_names_the_index():
    # torch compares the gradients with == to find the index, and fails there
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match=r"grad_output\[1\].*output\[1\]"):
        autograd.grad([x * x, x * 2], x, grad_outputs=[ones(2), ones(3)])


def test_grad_outputs_wrong_count():
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match="got 2 tensors and 1 gradients"):
        autograd.grad([x * x, x * 2], x, grad_outputs=[ones(2)])


def test_grad_non_scalar_without_grad_outputs_raises():
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match=SCALAR_ONLY):
        autograd.grad(x * x, x)


def test_grad_outputs_that_require_grad_take_part_when_a_graph_is_made():
    x, v = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    (g,) = autograd.grad(x * x, x, grad_outputs=v, create_graph=True)
    (dv,) = autograd.grad(g.sum(), v)
    assert same(g, [6, 16]) and same(dv, [2, 4])


def test_grad_of_unused_input_raises():
    x, other = leaf(2.0), leaf(3.0)
    message = "appears to not have been used in the graph. Set allow_unused=True"
    with pytest.raises(RuntimeError, match=message):
        autograd.grad(x * x, other)


def test_grad_error_for_unused_input_names_its_index():
    x, other = leaf(2.0), leaf(3.0)
    with pytest.raises(RuntimeError, match="index 1"):
        autograd.grad(x * x, [x, other])


def test_grad_allow_unused_gives_none():
    x, other = leaf(2.0), leaf(3.0)
    g, none = autograd.grad(x * x, [x, other], allow_unused=True)
    assert same(g, 4.0) and none is None


def test_grad_materialize_grads_gives_zeros():
    x, other = leaf(2.0), leaf([3.0, 4.0])
    g, zeros = autograd.grad(x * x, [x, other], materialize_grads=True)
    assert same(g, 4.0) and same(zeros, [0, 0]) and zeros.dtype == torch.float64


def test_grad_materialize_grads_contradicts_allow_unused_false():
    x = leaf(2.0)
    with pytest.raises(ValueError, match="Expected allow_unused to be True or not passed"):
        autograd.grad(x * x, x, materialize_grads=True, allow_unused=False)


def test_grad_input_that_does_not_require_grad_raises():
    x = leaf(2.0)
    with pytest.raises(RuntimeError, match="differentiated Tensors does not require grad"):
        autograd.grad(x * x, [x, torch.ones(())])


def test_grad_inputs_empty_raises():
    with pytest.raises(RuntimeError, match="`inputs` argument to `grad\\(\\)` cannot be empty"):
        autograd.grad(leaf(1.0) * 2, [])


def test_grad_root_without_history_raises():
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad"):
        autograd.grad(torch.ones(()), x)


@pytest.mark.filterwarnings("ignore:only_inputs argument is deprecated")
def test_grad_only_inputs_true_is_the_behaviour():
    x, w = leaf(2.0), leaf(3.0)
    (g,) = autograd.grad(x * w, x, only_inputs=True)
    assert same(g, 3.0) and w.grad is None


def test_grad_only_inputs_false_warns_and_is_ignored():
    x, w = leaf(2.0), leaf(3.0)
    with pytest.warns(FutureWarning, match="only_inputs argument is deprecated"):
        (g,) = autograd.grad(x * w, x, only_inputs=False)
    assert same(g, 3.0) and w.grad is None


def test_grad_does_not_run_accumulators_of_other_leaves():
    fired = []
    x, w = leaf(2.0), leaf(3.0)
    w.register_hook(lambda g: fired.append("w"))
    autograd.grad(x * w, x)
    assert fired == [] and w.grad is None


def test_grad_may_return_different_tensors_for_shared_buffers():
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    a, b = autograd.grad((x + w).sum(), [x, w])
    a = a.clone()
    a.add_(5.0)
    assert same(b, [1, 1])


def test_grad_of_complicated_expression_matches_numpy():
    values = np.linspace(0.2, 1.4, 7)
    x = leaf(values)
    (g,) = autograd.grad((torch.sin(x) * torch.exp(-x) / (1 + x * x)).sum(), x)
    s, c, e, d = np.sin(values), np.cos(values), np.exp(-values), 1 + values**2
    assert same(g, (c * e - s * e) / d - s * e * 2 * values / d**2)


def test_grad_of_a_tensor_written_after_its_use_is_unused():
    x = leaf([1.0, 2.0])
    y = x * 1
    z = (y + 1).sum()
    y.add_(1)
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        autograd.grad(z, y)


def test_grad_of_a_view_made_after_the_use_of_its_base_is_unused():
    x = leaf([1.0, 2.0])
    view = x[0]
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        autograd.grad((x * x).sum(), view)


# ---- higher derivatives --------------------------------------------------------------------------


def test_third_derivative_of_a_power():
    x = leaf([1.0, 2.0, -3.0])
    g = (x**4).sum()
    expected = [4 * arr(x) ** 3, 12 * arr(x) ** 2, 24 * arr(x)]
    for value in expected:
        (g_next,) = autograd.grad(g.sum(), x, create_graph=True)
        assert same(g_next, value)
        g = g_next


def test_fifth_derivative_of_sin():
    x = leaf([0.3, 1.1])
    g = torch.sin(x)
    for k in range(5):
        (g,) = autograd.grad(g.sum(), x, create_graph=True)
        assert same(g, np.sin(arr(x) + (k + 1) * np.pi / 2), tol=1e-10)


def test_hessian_vector_product_and_backward_into_grad():
    x = leaf([1.0, 2.0, 3.0])
    v = torch.tensor([1.0, -1.0, 2.0], dtype=torch.float64)
    (g,) = autograd.grad((x**3).sum(), x, create_graph=True)
    (g * v).sum().backward()
    assert same(x.grad, 6 * arr(x) * arr(v))


def test_mixed_second_derivatives_agree():
    x, w = leaf(0.7), leaf(1.3)
    y = torch.sin(x * w) * x
    gx, gw = autograd.grad(y, [x, w], create_graph=True)
    (gxw,) = autograd.grad(gx, w, retain_graph=True)
    (gwx,) = autograd.grad(gw, x)
    assert same(gxw, arr(gwx), tol=1e-10)


def test_gradient_penalty_uses_first_gradient_in_a_loss():
    x, w = leaf([[1.0, 2.0]]), leaf([[0.5], [-0.25]])
    y = torch.tanh(x.mm(w)).sum()
    (g,) = autograd.grad(y, x, create_graph=True)
    (g * g).sum().backward()
    xv, wv = np.array([[1.0, 2.0]]), np.array([[0.5], [-0.25]])
    z = float((xv @ wv).item())
    d1, norm = 1 - np.tanh(z) ** 2, float((wv**2).sum())
    d2 = -2 * np.tanh(z) * d1
    expected = 2 * d1 * d2 * norm * xv.T + 2 * d1 * d1 * wv
    assert same(w.grad, expected, tol=1e-10)


def test_grad_without_create_graph_has_no_history():
    x = leaf(2.0)
    (g,) = autograd.grad(x * x * x, x)
    assert not g.requires_grad and g.grad_fn is None
    with pytest.raises(RuntimeError, match="does not require grad"):
        autograd.grad(g, x)


def test_create_graph_of_linear_function_gives_gradient_without_history():
    x = leaf(2.0)
    (g,) = autograd.grad(x * 3, x, create_graph=True)
    assert same(g, 3.0) and not g.requires_grad


@pytest.mark.filterwarnings("ignore:Using backward")
def test_backward_create_graph_leaves_differentiable_grad():
    x = leaf(3.0)
    (x * x * x).backward(create_graph=True)
    assert same(x.grad, 27.0) and x.grad.requires_grad
    (second,) = autograd.grad(x.grad, x)
    assert same(second, 18.0)
    x.grad = None


@pytest.mark.filterwarnings("ignore:Using backward")
def test_create_graph_accumulates_out_of_place():
    x = leaf(3.0)
    (x * x).backward(create_graph=True)
    first = x.grad
    (x * x).backward(create_graph=True)
    assert same(first, 6.0) and same(x.grad, 12.0)
    (second,) = autograd.grad(x.grad, x)
    assert same(second, 4.0)
    x.grad = None


def test_create_graph_works_inside_no_grad():
    x = leaf(3.0)
    y = x * x * x
    with torch.no_grad():
        (g,) = autograd.grad(y, x, create_graph=True)
    assert g.requires_grad
    (second,) = autograd.grad(g, x)
    assert same(second, 18.0)


def test_backward_runs_inside_no_grad():
    x = leaf(3.0)
    y = x * x
    with torch.no_grad():
        y.backward()
    assert same(x.grad, 6.0)


def test_grad_mode_seen_by_hooks_is_create_graph():
    seen = []
    x = leaf(3.0)
    y = x * x
    y.register_hook(lambda g: seen.append(torch.is_grad_enabled()))
    autograd.grad(y, x, retain_graph=True)
    autograd.grad(y, x, create_graph=True)
    assert seen == [False, True] and torch.is_grad_enabled()


def test_gradcheck_and_gradgradcheck_of_a_composition():
    x, w = leaf(np.linspace(0.3, 1.1, 6).reshape(2, 3)), leaf(np.linspace(-1, 1, 3))

    def function(a, b):
        return (torch.exp(-a) * b).sin().sum(0) + (a * a).mean()

    assert gradcheck(function, (x, w))
    assert gradgradcheck(function, (x, w))


def test_is_leaf_and_requires_grad_of_results():
    x, c = leaf(2.0), torch.ones((), dtype=torch.float64)
    assert x.is_leaf and c.is_leaf and (c * c).is_leaf
    y = x * c
    assert not y.is_leaf and y.requires_grad and not (c * c).requires_grad
    assert (c * c).grad_fn is None and y.grad_fn is not None


def test_int_outputs_never_require_grad():
    x = leaf([1.0, 3.0, 2.0])
    assert not (x > 1).requires_grad
    assert not x.argmax().requires_grad
    values, indices = torch.sort(x)
    assert values.requires_grad and not indices.requires_grad
