# SPDX-License-Identifier: BSD-3-Clause
"""GradientEdge, dict inputs, batched grads, node attributes, multi-tensor hooks, callbacks."""

import gc
import pickle
import threading
import weakref

import pytest
from conftest import leaf, ones, same

import cograd as torch
from cograd import autograd
from cograd.autograd import Function, Variable, graph

# ---- edges ---------------------------------------------------------------------------------------


def test_edge_of_a_result_and_of_a_leaf():
    x = leaf([1.0])
    y = x * 2
    assert graph.get_gradient_edge(y) == (y.grad_fn, 0, None)
    edge = graph.get_gradient_edge(x)
    assert edge.node.variable is x and edge.output_nr == 0
    first, second = leaf([[1.0], [2.0]]).unbind(0)
    assert graph.get_gradient_edge(second).output_nr == 1


def test_edge_of_a_leaf_under_no_grad():
    x = leaf([1.0])
    with torch.no_grad():
        assert graph.get_gradient_edge(x).node.variable is x


def test_edge_needs_requires_grad():
    with pytest.raises(RuntimeError, match="Tensor that does not require gradients"):
        graph.get_gradient_edge(ones(2))


def test_grad_to_an_edge():
    x = leaf([1.0, 2.0])
    y = x * 2
    z = (y * y).sum()
    edge = graph.get_gradient_edge(y)
    gy, gx = autograd.grad(z, (edge, x))
    assert same(gy, [4, 8]) and same(gx, [8, 16])


def test_edge_keeps_what_it_needs_alive():
    x = leaf([1.0, 2.0])
    y = x * 2
    z = y * 3
    edge = graph.get_gradient_edge(y)
    del y
    gc.collect()
    assert same(autograd.grad(z.sum(), edge)[0], [3, 3])


def test_edge_owns_its_leaf():
    x = leaf([1.0, 2.0])
    edge = graph.get_gradient_edge(x)
    alive = weakref.ref(x)
    del x
    gc.collect()
    assert alive() is not None and same(edge.node.variable, [1, 2])
    del edge
    gc.collect()
    assert alive() is None


def test_backward_and_grad_from_an_edge():
    x = leaf([1.0, 2.0])
    edge = graph.get_gradient_edge(x * 2)
    assert same(autograd.grad(edge, x, ones(2), retain_graph=True)[0], [2, 2])
    autograd.backward(edge, ones(2))
    assert same(x.grad, [2, 2])


def test_roots_of_both_kinds():
    x = leaf([1.0, 2.0])
    edge = graph.get_gradient_edge(x * 2)
    autograd.backward([edge, (x * x).sum()], [ones(2), None])
    assert same(x.grad, [4, 6])


def test_implicit_gradient_of_an_edge():
    x = leaf(3.0)
    assert same(autograd.grad(graph.get_gradient_edge(x * 2), x)[0], 2.0)
    wide = graph.get_gradient_edge(leaf([1.0, 2.0]) * 2)
    with pytest.raises(RuntimeError, match="implicitly created only for scalar"):
        autograd.backward(wide)


def test_gradient_of_another_shape_for_an_edge():
    edge = graph.get_gradient_edge(leaf([1.0, 2.0]) * 2)
    with pytest.raises(RuntimeError, match="Mismatch in shape: grad_output"):
        autograd.backward(edge, ones(3))


def test_edge_with_a_wrong_output_number():
    y = leaf([1.0]) * 2
    with pytest.raises(RuntimeError, match="output_nr 3 of MulBackward0"):
        autograd.backward(graph.GradientEdge(y.grad_fn, 3), ones(1))


@pytest.mark.parametrize("listed", [True, False])
def test_backward_into_the_edge_of_a_leaf_only(listed):
    x, w = leaf([1.0, 2.0]), leaf([2.0, 2.0])
    edge = graph.get_gradient_edge(x)
    (x * x * w).sum().backward(inputs=[edge] if listed else edge)
    assert same(x.grad, [4, 8]) and w.grad is None


def test_backward_into_the_edge_of_a_result_gives_nothing():
    x = leaf([1.0, 2.0])
    y = x * 2
    (y * y).sum().backward(inputs=graph.get_gradient_edge(y))
    assert x.grad is None


def test_edge_of_a_function_output():
    class Twice(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, b):
            return a * 2 + b * 3

    x = leaf([1.0])
    _, second = Twice.apply(x)
    edge = graph.get_gradient_edge(second)
    assert edge.output_nr == 1
    assert same(autograd.grad(edge, x, ones(1))[0], [3])


# ---- dict inputs ---------------------------------------------------------------------------------


def test_grad_of_a_dict_is_a_dict():
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    got = autograd.grad((x * w).sum(), {"x": x, "w": w})
    assert list(got) == ["x", "w"] and same(got["x"], [3, 4]) and same(got["w"], [1, 2])


def test_unused_inputs_of_a_dict():
    x, w = leaf([1.0, 2.0]), leaf([3.0])
    inputs = {"x": x, "w": w}
    assert autograd.grad(x.sum(), inputs, allow_unused=True)["w"] is None
    assert same(autograd.grad(x.sum(), inputs, materialize_grads=True)["w"], [0])
    with pytest.raises(RuntimeError, match="Tensor at index 1 appears to not have been used"):
        autograd.grad(x.sum(), inputs)


def test_backward_into_the_values_of_a_dict():
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    autograd.backward((x * w).sum(), inputs={"x": x})
    (x * w).sum().backward(inputs={"x": x})
    assert same(x.grad, [6, 8]) and w.grad is None


def test_empty_dict_of_inputs():
    y = leaf([1.0]) * 2
    with pytest.raises(RuntimeError, match="`inputs` argument to `backward"):
        y.backward(inputs={})
    with pytest.raises(RuntimeError, match="`inputs` argument to `grad"):
        autograd.grad(y, {})


# ---- is_grads_batched ----------------------------------------------------------------------------


def test_batched_grads_are_the_jacobian():
    x = leaf([1.0, 2.0])
    (got,) = autograd.grad(x**2, x, torch.eye(2, dtype=torch.float64), is_grads_batched=True)
    assert same(got, [[2, 0], [0, 4]])


def test_batched_grads_of_two_outputs():
    x = leaf([1.0, 2.0])
    seeds = (torch.eye(2, dtype=torch.float64), ones(2, 2))
    (got,) = autograd.grad((x**2, x * 3), x, seeds, is_grads_batched=True)
    assert same(got, [[5, 3], [3, 7]])


def test_batched_grads_and_unused_inputs():
    x, w = leaf([1.0, 2.0]), leaf([1.0])
    eye = torch.eye(2, dtype=torch.float64)
    got = autograd.grad(x**2, (x, w), eye, is_grads_batched=True, allow_unused=True)
    assert got[1] is None
    with pytest.raises(RuntimeError, match="Tensor at index 1 appears"):
        autograd.grad(x**2, (x, w), eye, is_grads_batched=True)


def test_batched_grads_have_a_graph():
    x = leaf([1.0, 2.0])
    eye = torch.eye(2, dtype=torch.float64)
    (got,) = autograd.grad(x**3, x, eye, is_grads_batched=True, create_graph=True)
    assert same(autograd.grad(got.sum(), x)[0], [6, 12])


def test_batched_grads_release_the_graph():
    x = leaf([1.0, 2.0])
    y = x**2
    eye = torch.eye(2, dtype=torch.float64)
    autograd.grad(y, x, eye, is_grads_batched=True)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        autograd.grad(y, x, eye, is_grads_batched=True)


def test_batched_grads_check_their_shapes():
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match=r"first dimension of each grad_output"):
        autograd.grad(x**2, x, ones(2), is_grads_batched=True)
    with pytest.raises(ValueError, match=r"grad_outputs\[0\] is NoneType"):
        autograd.grad((x**2).sum(), x, is_grads_batched=True)
    with pytest.raises(ValueError, match=r"batch sizes of the grad_outputs differ: \[2, 3\]"):
        autograd.grad((x, x * 1), x, (ones(2, 2), ones(3, 2)), is_grads_batched=True)


# ---- nodes ---------------------------------------------------------------------------------------


def test_node_is_what_every_grad_fn_is():
    class Plain(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf([1.0])
    for node in ((x * 2).grad_fn, Plain.apply(x).grad_fn, graph.get_gradient_edge(x).node):
        assert isinstance(node, graph.Node) and isinstance(node._sequence_nr(), int)
        assert node.metadata == {} and isinstance(node.name(), str)
    assert not isinstance(x, graph.Node)


def test_metadata_stays_with_the_node():
    y = leaf([1.0]) * 2
    y.grad_fn.metadata["key"] = 1
    gc.collect()
    assert y.grad_fn.metadata == {"key": 1}


def test_sequence_numbers_grow():
    x = leaf([1.0])
    y = x * 2
    z = y * 3
    assert z.grad_fn._sequence_nr() > y.grad_fn._sequence_nr()


def test_input_metadata():
    first, _ = leaf([[1.0, 2.0], [3.0, 4.0]]).unbind(0)
    meta = first.grad_fn._input_metadata
    assert len(meta) == 2
    assert meta[0].dtype is torch.float64 and meta[0].shape == (2,)
    assert meta[0].device == torch.device("cpu") and not meta[0].is_nested_tensor


# ---- versions ------------------------------------------------------------------------------------


def test_increment_version():
    x = ones(2)
    graph.increment_version(x)
    graph.increment_version([x, x])
    graph.increment_version(t for t in (x,))
    assert x._version == 4


def test_increment_version_is_seen_by_the_engine():
    y = leaf([1.0]) * 2
    z = y * y
    graph.increment_version(y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_increment_version_of_other_things():
    with pytest.raises(TypeError, match="got int"):
        graph.increment_version(3)
    with pytest.raises(TypeError, match="got str"):
        graph.increment_version(["x"])
    with torch.inference_mode():
        x = ones(2)
    graph.increment_version(x)  # has no version


# ---- hooks on several tensors --------------------------------------------------------------------


def test_all_hook_runs_when_the_last_gradient_is_there():
    x, w, seen = leaf([1.0, 2.0]), leaf([3.0, 4.0]), []
    handle = graph.register_multi_grad_hook((x, w), seen.append)
    (x * w).sum().backward()
    assert len(seen) == 1 and same(seen[0][0], [3, 4]) and same(seen[0][1], [1, 2])
    handle.remove()
    (x * w).sum().backward()
    assert len(seen) == 1


def test_all_hook_gets_none_for_what_a_backward_leaves_out():
    x, w, seen = leaf([1.0, 2.0]), leaf([3.0, 4.0]), []
    graph.register_multi_grad_hook((x, w), seen.append)
    (x * 2).sum().backward()
    (x * w).sum().backward(inputs=[w])
    assert same(seen[0][0], [2, 2]) and seen[0][1] is None
    assert seen[1][0] is None and same(seen[1][1], [1, 2])


def test_all_hook_runs_before_the_backward_goes_on():
    order = []
    x = leaf([1.0])
    middle = x * 2
    end = middle * 3
    x.register_hook(lambda g: order.append("leaf"))
    graph.register_multi_grad_hook((middle, end), lambda gs: order.append("both"))
    end.backward()
    assert order == ["both", "leaf"]


def test_all_hook_when_a_node_runs_without_a_gradient():
    class Half(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, a, b):
            return None

    seen = []
    x = leaf([1.0])
    middle = x * 5
    out, _ = Half.apply(middle)
    graph.register_multi_grad_hook((middle, out), seen.append)
    out.backward()
    assert len(seen) == 1 and seen[0][0] is None and same(seen[0][1], [1])


def test_any_hook_runs_once_per_backward():
    x, w, seen = leaf([1.0, 2.0]), leaf([3.0, 4.0]), []
    handle = graph.register_multi_grad_hook((x, w), seen.append, mode="any")
    (x * w).sum().backward()
    assert len(seen) == 1
    (w * 2).sum().backward()
    assert len(seen) == 2 and same(seen[1], [2, 2])
    handle.remove()
    (x * w).sum().backward()
    assert len(seen) == 2


def test_multi_grad_hook_as_context_manager():
    x, seen = leaf([1.0]), []
    with graph.register_multi_grad_hook((x,), seen.append):
        x.sum().backward()
    x.sum().backward()
    assert len(seen) == 1


def test_multi_grad_hook_of_wrong_arguments():
    with pytest.raises(ValueError, match=r"\('all', 'any'\) but got x"):
        graph.register_multi_grad_hook((leaf([1.0]),), print, mode="x")
    with pytest.raises(RuntimeError, match="tensor 1 does not require grad"):
        graph.register_multi_grad_hook((leaf([1.0]), ones(1)), print)


def test_multi_grad_hook_in_two_threads():
    x, w, seen = leaf([1.0]), leaf([2.0]), []
    graph.register_multi_grad_hook((x, w), lambda gs: seen.append([g.item() for g in gs]))
    barrier = threading.Barrier(2)

    def run(k):
        barrier.wait()
        for _ in range(50):
            (x * w * k).sum().backward()

    threads = [threading.Thread(target=run, args=(k,)) for k in (1.0, 10.0)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(seen) == 100 and all(a == 2 * b for a, b in seen)


# ---- callbacks at the end of a backward ----------------------------------------------------------


@pytest.mark.parametrize("queue", [graph.queue_callback, Variable._execution_engine.queue_callback])
def test_callback_runs_when_all_gradients_are_there(queue):
    x, order = leaf([1.0]), []
    y = x * 2
    y.register_hook(lambda g: queue(lambda: order.append(("end", x.grad.item()))))
    x.register_post_accumulate_grad_hook(lambda p: order.append("accumulated"))
    y.backward()
    assert order == ["accumulated", ("end", 2.0)]


def test_callback_may_queue_another():
    order = []
    y = leaf([1.0]) * 2

    def first():
        order.append(1)
        graph.queue_callback(lambda: order.append(2))

    y.register_hook(lambda g: graph.queue_callback(first))
    y.backward()
    assert order == [1, 2]


def test_callback_that_raises():
    x = leaf([1.0])
    y = x * 2

    def fail():
        raise LookupError("callback")

    y.register_hook(lambda g: graph.queue_callback(fail))
    with pytest.raises(LookupError, match="callback"):
        y.backward()
    assert same(x.grad, [2])


def test_callback_belongs_to_the_innermost_backward():
    order = []

    def hook(g):
        with torch.enable_grad():
            inner = leaf([1.0]) * 2
            inner.register_hook(lambda g: graph.queue_callback(lambda: order.append("inner")))
            inner.backward()
        order.append("after inner")

    y = leaf([1.0]) * 2
    y.register_hook(hook)
    y.backward()
    assert order == ["inner", "after inner"]


def test_callback_outside_of_a_backward():
    with pytest.raises(RuntimeError, match="only be installed during backward"):
        graph.queue_callback(lambda: None)
    with pytest.raises(TypeError, match="expected a callable, got int"):
        graph.queue_callback(3)


# ---- what hooks return ---------------------------------------------------------------------------


def test_node_hook_may_drop_gradients():
    x, w = leaf([1.0]), leaf([2.0])
    y = x * w
    y.grad_fn.register_hook(lambda gi, go: (None, gi[1]))
    y.backward()
    assert x.grad is None and same(w.grad, [1])


def test_node_prehook_may_drop_gradients():
    x = leaf([1.0])
    y = x.exp()
    y.grad_fn.register_prehook(lambda go: (None,))
    y.backward()
    assert x.grad is None


@pytest.mark.parametrize("kind", ["register_hook", "register_prehook"])
def test_node_hook_must_return_a_tuple(kind):
    y = leaf([1.0]).exp()
    getattr(y.grad_fn, kind)(lambda *grads: grads[0][0])
    with pytest.raises(TypeError, match="expected tuple, but hook returned .*<lambda>"):
        y.backward()


def test_node_hook_cannot_make_a_gradient_from_none():
    x = leaf([1.0])
    y = x * 2
    y.grad_fn.register_hook(lambda gi, go: (gi[0], gi[0]))
    with pytest.raises(RuntimeError, match="can't replace a None gradient"):
        y.backward()


def test_post_accumulate_hook_returns_nothing():
    x = leaf([1.0])
    x.register_post_accumulate_grad_hook(lambda p: 3)
    with pytest.raises(TypeError, match="returned 'int'"):
        (x * 2).backward()


# ---- handles -------------------------------------------------------------------------------------


def test_handles_of_tensors_and_nodes_can_be_pickled():
    x = leaf([1.0])
    y = x * 2
    for handle in (x.register_hook(print), y.grad_fn.register_hook(print)):
        copy = pickle.loads(pickle.dumps(handle))
        copy.remove()  # the copy of a handle removes nothing
        assert copy.id == handle.id and isinstance(copy, torch.utils.hooks.RemovableHandle)
        handle.remove()
    y.backward()


# ---- Variable ------------------------------------------------------------------------------------


def test_variable_is_a_name_for_tensors():
    t = torch.ones(2)
    v = Variable(t, requires_grad=True)
    assert isinstance(t, Variable) and not isinstance(3, Variable)
    assert type(v) is torch.Tensor and v.requires_grad and not t.requires_grad
    assert v.data_ptr() == t.data_ptr() and Variable().numel() == 0
    assert Variable(leaf([1.0]) * 2).grad_fn is None
    assert autograd.variable.Variable is Variable
    with pytest.raises(TypeError, match="Variable data has to be a tensor, but got int"):
        Variable(3)
    with pytest.warns(UserWarning, match="volatile was removed"):
        Variable(t, volatile=True)


def test_set_grad_enabled_takes_a_bool():
    assert repr(torch.set_grad_enabled(True)) == (
        "cograd.autograd.grad_mode.set_grad_enabled(mode=True)"
    )
    with pytest.raises(TypeError, match="mode must be bool, not int"):
        torch.set_grad_enabled(1)
