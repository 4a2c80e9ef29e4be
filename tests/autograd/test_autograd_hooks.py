# SPDX-License-Identifier: BSD-3-Clause
"""Tensor hooks, retain_grad and the attributes of grad_fn."""

import pytest
from conftest import leaf, ones, same

import cograd as torch
from cograd import autograd

# ---- register_hook -------------------------------------------------------------------------------


def test_hook_sees_the_gradient_and_none_leaves_it():
    seen = []
    x = leaf([1.0, 2.0])
    y = x * 3
    y.register_hook(lambda g: seen.append(g.tolist()))
    (y * y).sum().backward()
    assert seen == [[6.0, 12.0]] and same(x.grad, [18, 36])


def test_hook_replacement_flows_on():
    x = leaf([1.0, 2.0])
    y = x * 3
    y.register_hook(lambda g: g * 10)
    y.sum().backward()
    assert same(x.grad, [30, 30])


def test_hook_on_leaf_changes_what_is_accumulated():
    x = leaf([1.0, 2.0])
    x.register_hook(lambda g: g * 10)
    (x * x).sum().backward()
    (x * x).sum().backward()
    assert same(x.grad, [40, 80])


def test_hook_is_called_once_with_the_full_sum():
    seen = []
    x = leaf(3.0)
    y = x * 1
    y.register_hook(lambda g: seen.append(g.item()))
    (y * y + y * 2 + y).backward()
    assert seen == [9.0]


def test_hooks_run_in_order_of_registration_each_on_the_last_result():
    order = []
    x = leaf(1.0)
    y = x * 1

    def first(g):
        order.append(("first", g.item()))
        return g + 1

    def second(g):
        order.append(("second", g.item()))
        return g * 10

    y.register_hook(first)
    y.register_hook(second)
    y.register_hook(lambda g: order.append(("third", g.item())))
    y.backward()
    assert order == [("first", 1.0), ("second", 2.0), ("third", 20.0)]
    assert same(x.grad, 20.0)


def test_removed_hook_does_not_run():
    x = leaf(1.0)
    y = x * 1
    keep = y.register_hook(lambda g: g * 2)
    drop = y.register_hook(lambda g: g * 100)
    drop.remove()
    drop.remove()
    y.backward(retain_graph=True)
    assert same(x.grad, 2.0)
    keep.remove()
    y.backward()
    assert same(x.grad, 3.0)


def test_handle_is_a_context_manager():
    x = leaf(1.0)
    with x.register_hook(lambda g: g * 5):
        (x * 1).backward()
    (x * 1).backward()
    assert same(x.grad, 6.0)


def test_hook_may_remove_itself_while_it_runs():
    x = leaf(1.0)
    y = x * 1
    calls = []
    handles = []

    def once(g):
        calls.append(1)
        handles[0].remove()

    handles.append(y.register_hook(once))
    y.register_hook(lambda g: g * 3)
    y.backward(retain_graph=True)
    y.backward()
    assert calls == [1] and same(x.grad, 6.0)


def test_hook_as_decorator_keeps_any_callable():
    class Scale:
        def __init__(self, factor):
            self.factor = factor

        def __call__(self, grad):
            return grad * self.factor

    x = leaf(1.0)
    x.register_hook(Scale(4))
    (x * 1).backward()
    assert same(x.grad, 4.0)


def test_hook_on_tensor_without_grad_raises():
    with pytest.raises(RuntimeError, match="cannot register a hook on a tensor that doesn't"):
        torch.ones(2).register_hook(lambda g: g)


def test_hook_returning_another_type_raises():
    x = leaf(1.0)
    x.register_hook(lambda g: 3)
    with pytest.raises(TypeError, match="hook returned 'int'"):
        (x * 2).backward()
    assert x.grad is None


def test_hook_returning_another_shape_raises():
    x = leaf([1.0, 2.0])
    x.register_hook(lambda g: g[:1])
    with pytest.raises(RuntimeError, match="has changed the size of value"):
        (x * 2).sum().backward()


def test_hook_returning_another_dtype_raises():
    x = leaf([1.0, 2.0])
    x.register_hook(lambda g: g.float())
    with pytest.raises(RuntimeError, match="has changed the type of value"):
        (x * 2).sum().backward()


def test_hook_exception_travels_unchanged():
    class Mine(Exception):
        pass

    x = leaf(1.0)

    def hook(g):
        raise Mine("from the hook")

    y = x * 2
    y.register_hook(hook)
    with pytest.raises(Mine, match="from the hook") as info:
        y.backward()
    assert any(entry.name == "hook" for entry in info.traceback)


def test_hook_runs_for_grad_with_that_tensor_as_input():
    x = leaf(3.0)
    mid = x * x
    mid.register_hook(lambda g: g * 10)
    (g,) = autograd.grad(mid * 2, mid)
    assert same(g, 20.0)
    x.register_hook(lambda g: g + 1)
    (g,) = autograd.grad(x * 2, x)
    assert same(g, 3.0) and x.grad is None


def test_hook_is_differentiated_through_with_create_graph():
    x = leaf(3.0)
    y = x * x
    y.register_hook(lambda g: g * x)
    (g,) = autograd.grad(y, x, create_graph=True)
    assert same(g, 18.0)
    (second,) = autograd.grad(g, x)
    assert same(second, 12.0)


def test_hook_registered_before_an_in_place_write_stays_with_the_old_value():
    seen = []
    x = leaf(2.0)
    y = x * 1
    y.register_hook(lambda g: seen.append(("before", g.item())))
    y.mul_(5)
    y.register_hook(lambda g: seen.append(("after", g.item())))
    y.backward()
    assert seen == [("after", 1.0), ("before", 5.0)]


def test_hook_does_not_run_when_another_input_is_asked():
    seen = []
    x, w = leaf(2.0), leaf(3.0)
    x.register_hook(lambda g: seen.append(g))
    autograd.grad(x * w, w)
    assert seen == []


def test_gradient_given_to_hook_can_be_kept():
    kept = []
    x = leaf([1.0, 2.0])
    y = x * 2
    y.register_hook(kept.append)
    (y * y).sum().backward()
    x.grad.fill_(0)
    assert same(kept[0], [4, 8])


# ---- register_post_accumulate_grad_hook, where present -------------------------------------------


@pytest.mark.skipif(
    not hasattr(torch.Tensor, "register_post_accumulate_grad_hook"), reason="not offered yet"
)
def test_post_accumulate_hook_sees_the_leaf_with_its_grad():
    seen = []
    x = leaf(2.0)
    x.register_post_accumulate_grad_hook(lambda p: seen.append((p is x, p.grad.item())))
    (x * x).backward()
    (x * x).backward()
    assert seen == [(True, 4.0), (True, 8.0)]


# ---- retain_grad ---------------------------------------------------------------------------------


def test_retain_grad_keeps_the_gradient_of_an_intermediate():
    x = leaf([1.0, 2.0])
    y = x * 3
    y.retain_grad()
    assert y.retains_grad
    (y * y).sum().backward()
    assert same(y.grad, [6, 12]) and same(x.grad, [18, 36])


def test_retain_grad_twice_is_once_and_accumulates_over_runs():
    x = leaf(1.0)
    y = x * 3
    y.retain_grad()
    y.retain_grad()
    y.backward(retain_graph=True)
    assert same(y.grad, 1.0)
    y.backward()
    assert same(y.grad, 2.0)


def test_retain_grad_sees_the_result_of_hooks_registered_later():
    x = leaf(1.0)
    y = x * 3
    y.retain_grad()
    y.register_hook(lambda g: g * 7)
    y.backward()
    assert same(y.grad, 7.0) and same(x.grad, 21.0)


def test_retain_grad_on_leaf_is_a_no_op():
    x = leaf(1.0)
    x.retain_grad()
    assert not x.retains_grad
    (x * 2).backward()
    assert same(x.grad, 2.0)


def test_retain_grad_without_requires_grad_raises():
    with pytest.raises(RuntimeError, match="retain_grad on Tensor that has requires_grad=False"):
        torch.ones(2).retain_grad()


def test_reading_grad_of_a_non_leaf_warns():
    y = leaf(1.0) * 2
    with pytest.warns(UserWarning, match="that is not a leaf Tensor is being accessed"):
        assert y.grad is None


def test_retained_grad_follows_the_tensor_through_an_in_place_write():
    x = leaf(2.0)
    y = x * 1
    y.retain_grad()
    y.mul_(5)
    (y * 3).backward()
    assert same(y.grad, 3.0) and same(x.grad, 15.0)


# ---- grad_fn -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("MulBackward0", lambda x: x * x),
        ("AddBackward0", lambda x: x + x),
        ("SubBackward0", lambda x: x - 1),
        ("DivBackward0", lambda x: x / 2),
        ("NegBackward0", lambda x: -x),
        ("ExpBackward0", lambda x: x.exp()),
        ("SinBackward0", lambda x: x.sin()),
        ("PowBackward0", lambda x: x**2),
        ("SumBackward0", lambda x: x.sum()),
        ("SumBackward1", lambda x: x.sum(0)),
        ("MeanBackward0", lambda x: x.mean()),
        ("MmBackward0", lambda x: x.mm(x)),
        ("TBackward0", lambda x: x.t()),
        ("ViewBackward0", lambda x: x.view(4)),
        ("TransposeBackward0", lambda x: x.transpose(0, 1)),
        ("ExpandBackward0", lambda x: x.expand(3, 2, 2)),
        ("UnsqueezeBackward0", lambda x: x.unsqueeze(0)),
        ("SelectBackward0", lambda x: x[0]),
        ("SliceBackward0", lambda x: x[0:1]),
        ("CloneBackward0", lambda x: x.clone()),
        ("UnbindBackward0", lambda x: x.unbind(0)[0]),
        ("CatBackward0", lambda x: torch.cat([x, x])),
        ("TanhBackward0", lambda x: x.tanh()),
        ("ReluBackward0", lambda x: x.relu()),
    ],
)
def test_grad_fn_name(name, make):
    y = make(leaf([[1.0, 2.0], [3.0, 4.0]]))
    assert y.grad_fn.name() == name
    assert type(y.grad_fn).__name__ == name
    assert name in repr(y.grad_fn)


def test_next_functions_lead_to_the_inputs():
    x, w = leaf(2.0), leaf(3.0)
    inner = x.exp()
    y = inner * w
    edges = y.grad_fn.next_functions
    assert isinstance(edges, tuple) and len(edges) == 2
    assert edges[0][0] is inner.grad_fn and edges[0][1] == 0
    accumulate, number = edges[1]
    assert number == 0 and accumulate.variable is w
    assert "AccumulateGrad" in accumulate.name() and accumulate.next_functions == ()


def test_next_functions_of_constants_are_none():
    x = leaf([2.0])
    y = x * torch.ones(1, dtype=torch.float64)
    assert y.grad_fn.next_functions[1] == (None, 0)


def test_next_functions_carry_output_numbers():
    a, b = leaf([[1.0, 2.0], [3.0, 4.0]]).unbind(0)
    y = b * a
    (first, first_nr), (second, second_nr) = y.grad_fn.next_functions
    assert first is second and (first_nr, second_nr) == (1, 0)
    assert (a.output_nr, b.output_nr) == (0, 1)


def test_grad_fn_is_the_same_object_each_time():
    y = leaf(2.0) * 2
    assert y.grad_fn is y.grad_fn
    node = y.grad_fn
    node.metadata["note"] = "kept"
    del node
    assert y.grad_fn.metadata == {"note": "kept"}


def test_accumulate_grad_is_shared_by_all_users_of_a_leaf():
    x = leaf(2.0)
    a, b = x * 2, x.exp()
    assert a.grad_fn.next_functions[0][0] is b.grad_fn.next_functions[0][0]


def test_metadata_is_a_dict_of_the_node():
    y = leaf(2.0) * 2
    assert y.grad_fn.metadata == {}


def test_grad_fn_is_callable():
    x, w = leaf([2.0, 3.0]), leaf([5.0, 7.0])
    y = x * w
    gx, gw = y.grad_fn(ones(2))
    assert same(gx, [5, 7]) and same(gw, [2, 3])
    assert x.grad is None, "calling one node runs only this node"


def test_grad_fn_call_of_single_input_node():
    x = leaf([2.0, 3.0])
    result = x.exp().grad_fn(ones(2))
    result = result[0] if isinstance(result, tuple) else result
    assert same(result, [7.38905609893065, 20.085536923187668])


def test_whole_graph_can_be_walked_by_hand():
    x = leaf(1.5)
    y = x.sin().exp() * 3
    node, gradient, names = y.grad_fn, torch.ones((), dtype=torch.float64), []
    while not hasattr(node, "variable"):
        names.append(node.name())
        gradient = node(gradient)
        gradient = gradient[0] if isinstance(gradient, tuple) else gradient
        node = node.next_functions[0][0]
    assert names == ["MulBackward0", "ExpBackward0", "SinBackward0"]
    (expected,) = autograd.grad(x.sin().exp() * 3, x)
    assert same(gradient, expected.item()) and node.variable is x


@pytest.mark.beyond_torch
def test_grad_fn_apply_works_on_built_in_nodes():
    x, w = leaf([2.0, 3.0]), leaf([5.0, 7.0])
    gx, gw = (x * w).grad_fn.apply(ones(2))
    assert same(gx, [5, 7]) and same(gw, [2, 3])


def test_leaf_has_no_grad_fn_and_cannot_be_given_one():
    x = leaf(1.0)
    assert x.grad_fn is None
    with pytest.raises((AttributeError, RuntimeError)):
        x.grad_fn = None


def test_node_register_hook_and_prehook():
    if not hasattr(type((leaf(1.0) * 2).grad_fn), "register_prehook"):
        pytest.skip("not offered yet")
    x, w = leaf(2.0), leaf(3.0)
    y = x * w
    seen = []
    y.grad_fn.register_prehook(lambda go: (go[0] * 10,))
    y.grad_fn.register_hook(lambda gi, go: seen.append((gi[0].item(), gi[1].item(), go[0].item())))
    y.backward()
    assert seen == [(30.0, 20.0, 10.0)]


def test_python_attributes_and_identity_survive_the_core():
    x = leaf(2.0)
    x.note = "kept"
    y = x * 2
    number = id(x)
    del x
    again = y.grad_fn.next_functions[0][0].variable
    assert id(again) == number and again.note == "kept"


# ---- undefined gradients -------------------------------------------------------------------------


class GivesNone(autograd.Function):
    """Returns no gradient."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return None


def test_hooks_are_called_with_none_where_no_gradient_arrives():
    seen = []
    x = leaf([1.0, 2.0])
    y = x * 3
    x.register_hook(lambda g: seen.append(("x", g)))
    x.register_post_accumulate_grad_hook(lambda t: seen.append(("after", t.grad)))
    y.register_hook(lambda g: seen.append(("y", g)))
    y.grad_fn.register_prehook(lambda gs: seen.append(("pre", gs)))
    y.grad_fn.register_hook(lambda out, gs: seen.append(("post", out, gs)))
    y.retain_grad()
    GivesNone.apply(y).sum().backward()
    assert seen == [
        ("y", None),
        ("pre", (None,)),
        ("post", (None, None), (None,)),
        ("x", None),
        ("after", None),
    ]
    assert x.grad is None and y.grad is None


def test_hook_of_an_unused_output_is_called_with_none():
    seen = []
    a, b = leaf([[1.0], [2.0]]).unbind()
    b.register_hook(seen.append)
    a.sum().backward()
    assert seen == [None]


@pytest.mark.parametrize("value", [ones(2), 3])
def test_hook_cannot_make_a_gradient_of_none(value):
    x = leaf([1.0, 2.0])
    for register in (
        lambda y: y.register_hook(lambda g: value),
        lambda y: y.grad_fn.register_prehook(lambda gs: (value,)),
        lambda y: y.grad_fn.register_hook(lambda out, gs: (value, None)),
    ):
        y = x * 3
        register(y)
        with pytest.raises(RuntimeError, match="can't replace a None gradient with a non-None"):
            GivesNone.apply(y).sum().backward()


def test_hook_of_a_tensor_off_the_asked_path_is_not_called():
    seen = []
    x, w = leaf([1.0, 2.0]), leaf([1.0, 2.0])
    y = x * 3
    y.register_hook(seen.append)
    autograd.grad((GivesNone.apply(y) + w).sum(), w)
    assert seen == []


# ---- wording that code written for torch matches -------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "expected 1 arguments, got 0 instead"),
        ((ones(2), ones(2)), "expected 1 arguments, got 2 instead"),
        ((3,), "argument 0 is not a Variable"),
    ],
)
def test_grad_fn_called_with_wrong_arguments(arguments, text):
    with pytest.raises(TypeError, match=text):
        (leaf([1.0, 2.0]) * 3).grad_fn(*arguments)


def test_grad_fn_takes_no_keywords():
    with pytest.raises(TypeError, match="keyword arguments are not supported"):
        (leaf([1.0, 2.0]) * 3).grad_fn(g=ones(2))


def test_node_hook_that_returns_no_tuple():
    y = leaf([1.0, 2.0]) * 3
    y.grad_fn.register_hook(lambda out, gs: 3)
    with pytest.raises(TypeError, match="expected tuple, but hook returned 'int'"):
        y.sum().backward()


def test_tensor_hook_that_returns_no_tensor():
    y = leaf([1.0, 2.0]) * 3
    y.register_hook(lambda g: (g,))
    with pytest.raises(TypeError, match="expected Variable, but hook returned 'tuple'"):
        y.sum().backward()


def test_retained_gradient_is_a_copy():
    x = torch.ones(3, requires_grad=True)
    y = x + 0
    y.retain_grad()
    x.register_hook(lambda g: g.mul_(0.5))
    (y * 2).sum().backward()
    assert y.grad.tolist() == [2, 2, 2] and x.grad.tolist() == [1, 1, 1]
