# SPDX-License-Identifier: BSD-3-Clause
"""Leaves: requires_grad, detach, .data, the grad setter and how gradients accumulate."""

import pickle

import numpy as np
import pytest
from conftest import arr, leaf, ones, same

import cograd as torch
from cograd import autograd

FLOATING_ONLY = r"[Oo]nly Tensors of floating point"
IN_PLACE_ON_LEAF = "a leaf Variable that requires grad is being used in an in-place operation"

# ---- requires_grad -------------------------------------------------------------------------------


def test_requires_grad_is_a_settable_flag_of_leaves():
    x = torch.ones(2)
    assert not x.requires_grad
    x.requires_grad = True
    assert x.requires_grad and x.is_leaf
    x.requires_grad = False
    assert not x.requires_grad


def test_requires_grad_method_returns_the_tensor_itself():
    x = torch.ones(2)
    assert x.requires_grad_() is x and x.requires_grad
    assert x.requires_grad_(False) is x and not x.requires_grad


@pytest.mark.parametrize("name", ["int64", "int32", "int16", "int8", "uint8", "bool"])
def test_only_floating_dtypes_can_require_grad(name):
    x = torch.ones(2, dtype=getattr(torch, name))
    with pytest.raises(RuntimeError, match=FLOATING_ONLY):
        x.requires_grad_()
    with pytest.raises(RuntimeError, match=FLOATING_ONLY):
        x.requires_grad = True
    with pytest.raises(RuntimeError, match=FLOATING_ONLY):
        torch.zeros(2, dtype=getattr(torch, name), requires_grad=True)
    assert not x.requires_grad


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_every_floating_dtype_can_require_grad(name):
    x = torch.ones(2, dtype=getattr(torch, name), requires_grad=True)
    (x * 2).sum().backward()
    assert x.grad.dtype == getattr(torch, name) and arr(x.grad).tolist() == [2, 2]


def test_tensor_from_int_list_cannot_require_grad():
    with pytest.raises(RuntimeError, match=FLOATING_ONLY):
        torch.tensor([1, 2], requires_grad=True)


def test_requires_grad_of_a_non_leaf_cannot_be_cleared():
    y = leaf(1.0) * 2
    message = "you can only change requires_grad flags of leaf variables.*detach"
    with pytest.raises(RuntimeError, match=message):
        y.requires_grad = False
    with pytest.raises(RuntimeError, match=message):
        y.requires_grad_(False)
    assert y.requires_grad_(True) is y and not y.is_leaf


def test_is_leaf_cannot_be_set():
    with pytest.raises(AttributeError):
        leaf(1.0).is_leaf = False


def test_leaf_whose_flag_was_cleared_after_recording_gets_no_grad():
    x, w = leaf(3.0), leaf(2.0)
    y = x * x * w
    x.requires_grad_(False)
    y.backward()
    assert x.grad is None and same(w.grad, 9.0)


# ---- in-place on leaves --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.add_(1),
        lambda x: x.mul_(2),
        lambda x: x.zero_(),
        lambda x: x.fill_(3.0),
        lambda x: x.copy_(ones(2)),
        lambda x: x.uniform_(),
        lambda x: x.normal_(),
        lambda x: x.clamp_(0, 1),
    ],
)
def test_in_place_on_leaf_raises_and_writes_nothing(write):
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match=IN_PLACE_ON_LEAF):
        write(x)
    assert same(x, [1, 2]) and x._version == 0 and x.is_leaf


def test_in_place_operator_on_leaf_raises():
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match=IN_PLACE_ON_LEAF):
        x += 1
    with pytest.raises(RuntimeError, match=IN_PLACE_ON_LEAF):
        x *= 2


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.__setitem__(0, 5.0),
        lambda x: x[0].fill_(5.0),
        lambda x: x[:1].mul_(5.0),
        lambda x: x.view(2, 1).add_(5.0),
    ],
)
def test_in_place_on_view_of_leaf_raises_and_writes_nothing(write):
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        write(x)
    assert same(x, [1, 2])


def test_in_place_on_leaf_is_fine_under_no_grad():
    x = leaf([1.0, 2.0])
    with torch.no_grad():
        x -= 0.5
        x[0] = 7.0
        x.view(2)[1] = 8.0
    assert same(x, [7, 8]) and x.is_leaf and x.requires_grad and x._version >= 3


def test_leaf_that_does_not_require_grad_takes_history_by_in_place():
    x, w = ones(2), leaf([3.0, 4.0])
    assert x.is_leaf
    x.mul_(w)
    assert not x.is_leaf and x.requires_grad
    x.sum().backward()
    assert same(w.grad, [1, 1])


# ---- detach and data -----------------------------------------------------------------------------


def test_detach_shares_memory_and_version_but_no_history():
    x = leaf([1.0, 2.0])
    y = x * 2
    d = y.detach()
    assert not d.requires_grad and d.grad_fn is None and d.is_leaf
    assert d.data_ptr() == y.data_ptr()
    d.add_(1)
    assert same(y, [3, 5]) and y._version == 1


def test_detach_cuts_the_gradient():
    x = leaf(3.0)
    (x * x.detach()).backward()
    assert same(x.grad, 3.0)


def test_write_through_detach_of_saved_tensor_is_noticed():
    x = leaf([1.0, 2.0])
    y = x.exp()
    y.detach().zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_write_through_data_is_not_noticed():
    x = leaf([1.0, 2.0])
    y = x.exp()
    y.data.zero_()
    assert y._version == 0
    y.sum().backward()
    assert same(x.grad, [0, 0])


def test_detach_in_place():
    x = leaf(3.0)
    y = x * x
    assert y.detach_() is y
    assert y.is_leaf and not y.requires_grad and y.grad_fn is None
    x.detach_()
    assert not x.requires_grad


def test_detach_in_place_of_a_view_raises():
    y = (leaf([1.0, 2.0]) * 1).view(2, 1)
    with pytest.raises(RuntimeError, match="Can't detach views in-place. Use detach\\(\\) instead"):
        y.detach_()


def test_data_is_a_detached_alias():
    x = leaf([1.0, 2.0])
    d = x.data
    assert not d.requires_grad and d.data_ptr() == x.data_ptr() and d is not x
    d.mul_(10)
    assert same(x, [10, 20]) and x._version == 0


def test_data_can_be_assigned():
    x = leaf([1.0, 2.0])
    x.data = torch.tensor([5.0, 6.0, 7.0], dtype=torch.float64)
    assert same(x, [5, 6, 7]) and x.requires_grad and x.is_leaf
    (x * x).sum().backward()
    assert same(x.grad, [10, 12, 14])


def test_data_assigned_from_another_type_raises():
    with pytest.raises(TypeError):
        leaf([1.0]).data = 3


def test_clone_keeps_history_detach_clone_does_not():
    x = leaf([1.0, 2.0])
    c = x.clone()
    c.add_(1)
    assert c.requires_grad and same(x, [1, 2])
    (c * c).sum().backward()
    assert same(x.grad, [4, 6])
    assert not x.detach().clone().requires_grad


def test_numpy_of_a_tensor_that_requires_grad_raises():
    x = leaf([1.0])
    with pytest.raises(RuntimeError, match="requires grad. Use tensor.detach\\(\\).numpy\\(\\)"):
        x.numpy()
    assert x.detach().numpy().tolist() == [1.0]


def test_item_and_tolist_ignore_history():
    x = leaf([1.5])
    assert (x * 2).sum().item() == 3.0 and (x * 2).tolist() == [3.0]


# ---- grad setter ---------------------------------------------------------------------------------


def test_grad_starts_none_and_can_be_reset():
    x = leaf(3.0)
    assert x.grad is None
    (x * x).backward()
    x.grad = None
    (x * x).backward()
    assert same(x.grad, 6.0)
    del x.grad
    assert x.grad is None


def test_grad_can_be_assigned_and_is_added_to():
    x = leaf([1.0, 2.0])
    g = ones(2) * 10
    x.grad = g
    assert x.grad is g
    (x * 3).sum().backward()
    assert same(x.grad, [13, 13])
    assert x.grad is g, "accumulation without create_graph is in place"


def test_grad_of_wrong_shape_raises():
    x = leaf([1.0, 2.0, 3.0])
    with pytest.raises(RuntimeError, match=r"gradient of size '\[2\]' to a tensor of size '\[3\]'"):
        x.grad = ones(2)
    assert x.grad is None


def test_grad_of_wrong_dtype_raises():
    with pytest.raises(RuntimeError, match="attempting to assign a gradient.*dtype|type"):
        leaf([1.0]).grad = torch.ones(1, dtype=torch.float32)


def test_grad_of_wrong_type_raises():
    with pytest.raises(TypeError, match="expected to be a Tensor or None but got grad of type"):
        leaf([1.0]).grad = 3


def test_tensor_cannot_be_its_own_grad():
    x = leaf([1.0])
    with pytest.raises(RuntimeError, match="can't assign Variable as its own grad"):
        x.grad = x


def test_grad_of_a_constant_may_be_set():
    x = torch.ones(2)
    x.grad = torch.zeros(2)
    assert x.grad.tolist() == [0, 0] and not x.requires_grad


# ---- accumulation --------------------------------------------------------------------------------


def test_gradients_add_up_over_runs():
    x = leaf([1.0, 2.0])
    for _ in range(3):
        (x * x).sum().backward()
    assert same(x.grad, [6, 12])


def test_second_run_adds_in_place_to_the_same_tensor():
    x = leaf([1.0, 2.0])
    (x * x).sum().backward()
    first = x.grad
    pointer = first.data_ptr()
    (x * x).sum().backward()
    assert x.grad is first and first.data_ptr() == pointer and same(first, [4, 8])


def test_first_gradient_is_taken_over_when_nobody_else_holds_it():
    pointers = []
    x = leaf([1.0, 2.0])
    x.register_hook(lambda g: pointers.append(g.data_ptr()))
    (x * x).sum().backward()
    assert x.grad.data_ptr() == pointers[0]


def test_first_gradient_is_copied_when_somebody_holds_it():
    held = []
    x = leaf([1.0, 2.0])
    x.register_hook(held.append)
    (x * x).sum().backward()
    x.grad.zero_()
    assert same(held[0], [2, 4])


def test_two_leaves_of_one_add_do_not_share_a_grad_buffer():
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    (x + w).sum().backward()
    x.grad.add_(100)
    assert same(w.grad, [1, 1])
    (x + w).sum().backward()
    assert same(x.grad, [102, 102]) and same(w.grad, [2, 2])


@pytest.mark.parametrize("join", ["cat", "stack"])
def test_leaves_take_over_their_pieces_of_a_joined_gradient(join):
    n = 10_000
    x, y = (torch.ones(n, requires_grad=True) for _ in range(2))
    w = torch.arange(2.0 * n).reshape((2, n) if join == "stack" else (2 * n,))
    (getattr(torch, join)((x, y)) * w).sum().backward()
    want = w.reshape(2, n)
    assert torch.equal(x.grad, want[0]) and torch.equal(y.grad, want[1])
    assert y.grad.data_ptr() - x.grad.data_ptr() == x.grad.nbytes, "nothing was copied"
    # From here on they are independent of each other.
    x.grad.add_(1)
    assert torch.equal(y.grad, want[1]) and y.grad._version == 0
    assert x.grad.untyped_storage().nbytes() == 4 * n and x.grad._base is None
    (getattr(torch, join)((x, y)) * w).sum().backward()
    assert torch.equal(x.grad, 2 * want[0] + 1) and torch.equal(y.grad, 2 * want[1])
    x.grad = None
    assert torch.equal(y.grad, 2 * want[1]), "a piece keeps the whole alive"


@pytest.mark.parametrize("held", ["argument", "hook", "retained", "input"])
def test_pieces_of_a_joined_gradient_are_copied_when_somebody_holds_it(held):
    n = 10_000
    x, y = (torch.ones(n, requires_grad=True) for _ in range(2))
    z = torch.cat((x, y))
    kept = []
    if held == "hook":
        z.register_hook(lambda g: kept.append(g))
    if held == "retained":
        z.retain_grad()
    if held == "argument":
        kept.append(torch.ones(2 * n))
        z.backward(kept[0])
    elif held == "input":
        (z * 1.0).sum().backward(inputs=[x, y, z])
    else:
        (z * 1.0).sum().backward()
    kept = kept or [z.grad]
    x.grad.add_(5)
    assert torch.equal(kept[0], torch.ones(2 * n))
    assert torch.equal(y.grad, torch.ones(n))


def test_one_leaf_joined_with_itself_gets_the_sum():
    n = 10_000
    x = torch.ones(n, requires_grad=True)
    w = torch.arange(3.0 * n)
    (torch.cat((x, x, x)) * w).sum().backward()
    assert torch.equal(x.grad, w.reshape(3, n).sum(0))
    (torch.stack((x, x)) * w[: 2 * n].reshape(2, n)).sum().backward()
    assert torch.equal(x.grad, w.reshape(3, n).sum(0) + w[: 2 * n].reshape(2, n).sum(0))


def test_a_piece_of_a_joined_gradient_can_be_resized_and_exported():
    n = 10_000
    x, y = (torch.ones(n, requires_grad=True) for _ in range(2))
    (torch.cat((x, y)) * 2.0).sum().backward()
    y.grad.resize_(2 * n)
    assert y.grad[:n].sum().item() == 2 * n and x.grad.sum().item() == 2 * n
    assert pickle.loads(pickle.dumps(x.grad)).sum().item() == 2 * n
    assert x.grad.numpy().sum() == 2 * n


def test_grad_of_sum_is_a_real_buffer_not_an_expanded_scalar():
    x = leaf(np.ones((2, 3)))
    x.sum().backward()
    x.grad[0, 0] = 5.0
    assert same(x.grad, [[5, 1, 1], [1, 1, 1]])


def test_grad_follows_the_layout_of_a_dense_non_contiguous_leaf():
    x = torch.tensor(np.arange(6.0).reshape(2, 3).tolist()).t().requires_grad_()
    assert x.is_leaf and x.stride() == (1, 3)
    (x * x).sum().backward()
    assert x.grad.stride() == (1, 3)
    assert same(x.grad, 2 * arr(x))


def test_grad_of_contiguous_leaf_is_contiguous_even_from_transposed_use():
    x = leaf(np.arange(6.0).reshape(2, 3))
    (x.t() * torch.ones(3, 2, dtype=torch.float64)).sum().backward()
    assert x.grad.is_contiguous() and same(x.grad, np.ones((2, 3)))


def test_grad_of_expanded_leaf_has_its_own_elements():
    x = torch.ones(1, dtype=torch.float64).expand(3).requires_grad_()
    (x * torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)).sum().backward()
    assert same(x.grad, [1, 2, 3])


def test_grad_dtype_is_the_leafs_through_mixed_precision():
    x = torch.ones(2, dtype=torch.float32, requires_grad=True)
    y = x.to(torch.float64) * leaf([2.0, 3.0])
    y.sum().backward()
    assert x.grad.dtype == torch.float32 and x.grad.tolist() == [2, 3]


def test_type_promotion_casts_gradients_back():
    x = torch.ones(2, dtype=torch.float32, requires_grad=True)
    w = leaf([2.0, 3.0])
    (x * w).sum().backward()
    assert x.grad.dtype == torch.float32 and w.grad.dtype == torch.float64


def test_broadcast_gradients_are_summed_to_the_inputs_shape():
    a, b, c = leaf(np.ones((2, 1, 3))), leaf(np.ones((4, 1))), leaf(2.0)
    (a * b * c).sum().backward()
    assert same(a.grad, np.full((2, 1, 3), 8.0))
    assert same(b.grad, np.full((4, 1), 12.0))
    assert same(c.grad, 24.0)


def test_empty_tensors_have_empty_gradients():
    x = leaf(np.ones((0,)))
    x.sum().backward()
    assert tuple(x.grad.shape) == (0,)


def test_leaf_used_a_thousand_times_in_one_graph():
    x = leaf(1.0)
    y = x * 0
    for k in range(1000):
        y = y + x * k
    y.backward()
    assert same(x.grad, 999 * 500.0)


def test_leaf_made_from_detached_result_is_independent():
    x = leaf(2.0)
    middle = (x * x).detach().requires_grad_()
    (middle * 3).backward()
    assert same(middle.grad, 3.0) and x.grad is None


def test_grad_buffer_given_out_by_grad_is_not_the_leafs():
    x = leaf([1.0, 2.0])
    (g,) = autograd.grad((x * x).sum(), x)
    x.grad = g
    (x * x).sum().backward()
    assert same(x.grad, [4, 8])
