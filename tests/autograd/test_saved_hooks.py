# SPDX-License-Identifier: BSD-3-Clause
"""Hooks on saved tensors, the slots of nodes, and writes to saved tensors."""

import gc
import weakref

import pytest
from conftest import leaf, ones, same

import cograd as torch
from cograd.autograd import Function, graph
from cograd.autograd.graph import saved_tensors_hooks


def identity(x):
    return x


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g


class Exp(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return y * g


# --- pack and unpack ---------------------------------------------------------------------------


@pytest.mark.parametrize("op", [lambda x: x * x, Square.apply, torch.square, lambda x: x**2])
def test_unpack_decides_what_backward_sees(op):
    x = leaf([1.0, 2.0])
    with saved_tensors_hooks(lambda t: t, lambda t: t * 10):
        y = op(x)
    y.sum().backward()
    assert same(x.grad, [20.0, 40.0])


@pytest.mark.parametrize("op", [torch.exp, torch.sigmoid, torch.tanh, Exp.apply])
def test_outputs_go_through_the_hooks_too(op):
    x = leaf([0.5, -0.5])
    expected = torch.autograd.grad(op(x).sum(), x)[0]
    seen = []

    def pack(t):
        seen.append(t)
        return t.tolist()

    with saved_tensors_hooks(pack, lambda v: torch.tensor(v, dtype=torch.float64)):
        y = op(x)
    assert len(seen) == 1
    y.sum().backward()
    assert same(x.grad, expected.tolist())


def test_any_object_may_be_packed():
    x = leaf([3.0])
    store = {}

    def pack(t):
        store[len(store)] = t.detach().clone()
        return f"key{len(store) - 1}"

    with saved_tensors_hooks(pack, lambda key: store[int(key[3:])]):
        y = x * x
    (g,) = torch.autograd.grad(y.sum(), x)
    assert same(g, [6.0])


def test_pack_sees_the_original_and_recording_is_off():
    x = leaf([1.0])
    seen = []

    def pack(t):
        seen.append((t is x, t.requires_grad, torch.is_grad_enabled()))
        return t

    with saved_tensors_hooks(pack, identity):
        x * x
    assert seen == [(True, True, False)] * 2


def test_second_derivatives_go_through_the_hooks():
    x = leaf([0.3, 2.0])
    with saved_tensors_hooks(lambda t: t.detach().clone(), identity):
        y = x**3
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        (gg,) = torch.autograd.grad(g.sum(), x)
    assert same(gg, [1.8, 12.0])


def test_history_of_an_intermediate_survives_packing():
    x = leaf([2.0])
    a = x * 3
    with saved_tensors_hooks(lambda t: t.detach().clone(), identity):
        y = a * a
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    assert same(g, [36.0])
    assert same(torch.autograd.grad(g.sum(), x)[0], [18.0])


def test_inplace_op_under_hooks():
    x = leaf([1.0, 2.0])
    with saved_tensors_hooks(lambda t: t.clone(), identity):
        y = x * 1
        y.exp_()
    y.sum().backward()
    assert same(x.grad, [2.718281828459045, 7.38905609893065])


def test_versions_are_not_checked_under_hooks():
    x = leaf([1.0])
    y = x * 2
    with saved_tensors_hooks(lambda t: t.clone(), identity):
        z = y * y
    y.add_(1)
    z.sum().backward()
    assert same(x.grad, [8.0])


def test_hooks_end_with_the_block_and_are_per_thread():
    import threading

    x = leaf([1.0])
    calls = []
    with saved_tensors_hooks(lambda t: calls.append(1) or t, identity):
        worker = threading.Thread(target=lambda: x * x)
        worker.start()
        worker.join()
    x * x
    assert calls == []


# --- errors ------------------------------------------------------------------------------------


def test_pack_must_not_write_its_argument():
    x = leaf([1.0])
    with saved_tensors_hooks(lambda t: t.add_(1), identity):
        with pytest.raises(RuntimeError, match="pack hook is modifying its input in place"):
            torch.exp(x)


def test_unpack_must_return_a_tensor():
    x = leaf([1.0])
    with saved_tensors_hooks(lambda t: 1, identity):
        y = x * x
    with pytest.raises(TypeError, match="Output of saved tensor unpack_hook expected to be a Ten"):
        y.sum().backward()


def test_unpack_must_keep_the_shape():
    x = leaf([1.0, 2.0])
    with saved_tensors_hooks(identity, lambda t: t.new_zeros(7)):
        y = x * x
    with pytest.raises(RuntimeError, match=r"shape \[7\] for one of shape \[2\] that MulBackward0"):
        y.sum().backward()


def test_unpack_of_another_dtype_or_layout_is_brought_back():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    with saved_tensors_hooks(lambda t: t.float().t().contiguous(), lambda t: t.t()):
        y = x * x
    y.sum().backward()
    assert same(x.grad, [[2.0, 4.0], [6.0, 8.0]])


@pytest.mark.parametrize("where", ["pack", "unpack"])
def test_errors_of_hooks_travel_unchanged(where):
    class Special(Exception):
        pass

    def fail(_):
        raise Special("here")

    x = leaf([1.0])
    pack, unpack = (fail, identity) if where == "pack" else (identity, fail)
    with pytest.raises(Special, match="here"):
        with saved_tensors_hooks(pack, unpack):
            y = x * x
        y.sum().backward()
    assert x.grad is None
    (x * x).sum().backward()
    assert same(x.grad, [2.0])


def test_arguments_must_be_callable():
    with pytest.raises(TypeError):
        saved_tensors_hooks(1, 2).__enter__()


# --- nesting -----------------------------------------------------------------------------------


def noted(calls, name, up, down, **options):
    """Returns hooks that append what they do to `calls`."""
    return saved_tensors_hooks(
        lambda t: (calls.append(f"pack {name}"), up(t))[1],
        lambda t: (calls.append(f"unpack {name}"), down(t))[1],
        **options,
    )


def test_of_nested_hooks_the_innermost_applies():
    x = leaf([5.0])
    calls = []
    with (
        noted(calls, "outer", lambda t: t * 2, lambda t: t / 2),
        noted(calls, "inner", lambda t: t + 1, lambda t: t - 1),
    ):
        y = Square.apply(x)
    y.sum().backward()
    assert calls == ["pack inner", "unpack inner"]
    assert same(x.grad, [10.0])


@pytest.mark.beyond_torch
@pytest.mark.parametrize("op", [Square.apply, torch.square])
def test_hooks_that_compose_hand_on_to_those_around_them(op):
    x = leaf([5.0])
    calls = []
    with (
        noted(calls, "outermost", identity, identity),
        noted(calls, "outer", lambda t: t * 2, lambda t: t / 2),
        noted(calls, "inner", lambda t: t + 1, lambda t: t - 1, compose=True),
    ):
        y = op(x)
    y.sum().backward()
    assert calls == ["pack inner", "pack outer", "unpack outer", "unpack inner"]
    assert same(x.grad, [10.0])


@pytest.mark.beyond_torch
def test_composition_stops_at_what_is_no_tensor():
    x = leaf([5.0])
    calls = []
    with (
        saved_tensors_hooks(lambda t: calls.append("outer") or t, identity),
        saved_tensors_hooks(lambda t: t.item(), lambda v: ones(1) * v, compose=True),
    ):
        y = Square.apply(x)
    y.sum().backward()
    assert calls == []
    assert same(x.grad, [10.0])


def test_ops_recorded_inside_pack_do_not_recurse():
    x = leaf([2.0])
    depth = []

    def pack(t):
        depth.append(1)
        assert len(depth) < 10
        with torch.enable_grad():
            return (t * t) / t

    with saved_tensors_hooks(pack, lambda t: t.detach()):
        y = Square.apply(x)
    y.sum().backward()
    assert len(depth) == 1
    assert same(x.grad, [4.0])


# --- disabling ---------------------------------------------------------------------------------


def test_disable_saved_tensors_hooks():
    with graph.disable_saved_tensors_hooks("not here"):
        with pytest.raises(RuntimeError, match="not here"):
            with saved_tensors_hooks(identity, identity):
                pass
        with graph.disable_saved_tensors_hooks("inner"):
            with pytest.raises(RuntimeError, match="inner"):
                with graph.save_on_cpu():
                    pass
        with pytest.raises(RuntimeError, match="not here"):
            with saved_tensors_hooks(identity, identity):
                pass
    with saved_tensors_hooks(identity, identity):
        with pytest.raises(RuntimeError, match="too late"):
            with graph.disable_saved_tensors_hooks("too late"):
                pass
    with saved_tensors_hooks(identity, identity):
        pass


# --- save_on_cpu, allow_mutation ---------------------------------------------------------------


@pytest.mark.parametrize("pin", [False, True])
def test_save_on_cpu(pin):
    x = leaf([1.0, 2.0])
    with graph.save_on_cpu(pin_memory=pin):
        y = (x * x).exp()
    y.sum().backward()
    assert same(x.grad, [2 * 2.718281828459045, 4 * 54.598150033144236])


def test_allow_mutation_clones_on_write():
    with graph.allow_mutation_on_saved_tensors() as ctx:
        a = leaf([[1.0, 2.0]])
        b = a.clone()
        out = (b**2).sum()
        assert len(ctx.original) > 0 and len(ctx.cloned) == 0
        b.sin_()
        assert len(ctx.cloned) == 1
        out.backward()
    assert same(a.grad, [[2.0, 4.0]])


def test_allow_mutation_through_views_bases_and_out():
    with graph.allow_mutation_on_saved_tensors():
        a = leaf([1.0, 2.0, 3.0])
        b = a.clone()
        y = (b * b).sum()
        b[0].fill_(100.0)
        z = b.detach()
        torch.add(z, 1, out=z)
        y.backward()
    assert same(a.grad, [2.0, 4.0, 6.0])


@pytest.mark.parametrize(
    ("alias", "apart"),
    [
        (lambda x: x, torch.clone),
        (lambda x: x.view(-1), torch.clone),
        (torch.detach, lambda x: x.detach().clone()),
    ],
)
@pytest.mark.parametrize("name", ["mul_", "addcmul_", "atan2_", "pow_"])
def test_allow_mutation_of_an_alias_that_the_write_itself_saves(name, alias, apart):
    found = []
    for make in alias, apart:
        a = leaf([0.3, 0.7])
        with graph.allow_mutation_on_saved_tensors():
            x = a * 1
            getattr(x, name)(*[make(x)] * (2 if name == "addcmul_" else 1))
            found += torch.autograd.grad(x.sum(), a)
    assert torch.allclose(*found)


@pytest.mark.parametrize(
    "write",
    [
        lambda x, w: x.addcmul_(x.view(-1), w),
        lambda x, w: x.mul_(x.view(-1) * w),
        lambda x, w: x.view(-1).addcmul_(x, w),
    ],
)
def test_graphs_end_where_hooks_keep_views_of_what_is_written(write):
    gc.collect()
    before = torch._C._live_nodes()
    with saved_tensors_hooks(lambda t: (t,), lambda packed: packed[0]):
        write(torch.ones(2, dtype=torch.float64), leaf([3.0, 4.0]))
    gc.collect()
    assert torch._C._live_nodes() == before


def test_allow_mutation_saves_the_state_of_each_time():
    with graph.allow_mutation_on_saved_tensors() as ctx:
        a = leaf([2.0])
        b = a.clone()
        first = b * b
        b.mul_(3)
        second = b * b
        b.mul_(3)
        (first + second).sum().backward()
        assert same(a.grad, [4.0 + 36.0])
        ctx.clear()


def test_allow_mutation_rules():
    with graph.allow_mutation_on_saved_tensors():
        a = leaf([2.0])
        y = a * a
        with pytest.raises(RuntimeError, match="cannot be nested"):
            with graph.allow_mutation_on_saved_tensors():
                pass
    with pytest.raises(AssertionError, match="outside of the 'allow_mutation_on_saved_tensors'"):
        y.backward()
    b = leaf([2.0]).clone()
    z = (b * b).sum()
    b.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


# --- slots -------------------------------------------------------------------------------------


def test_saved_values_by_name():
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    y = x * w
    assert y.grad_fn._saved_self is x
    assert y.grad_fn._saved_other is w
    assert same(y.grad_fn._raw_saved_self.unpack(), [1.0, 2.0])
    names = [n for n in dir(y.grad_fn) if "saved" in n]
    assert sorted(names) == ["_raw_saved_other", "_raw_saved_self", "_saved_other", "_saved_self"]
    e = x.exp()
    assert e.grad_fn._saved_result.grad_fn is e.grad_fn
    assert same(e.grad_fn._saved_result, e.tolist())
    assert not hasattr(x.sum().grad_fn, "_saved_nothing")


def test_names_when_one_side_needs_no_gradient():
    x, c = leaf([1.0]), ones(1) * 7
    y = x * c
    assert same(y.grad_fn._saved_other, [7.0])
    assert y.grad_fn._saved_self is None
    z = c / x
    assert z.grad_fn._saved_other is x
    w = c.lerp(c, x)
    assert w.grad_fn._saved_weight is None
    assert same(w.grad_fn._saved_end, [7.0])


def test_slots_are_saved_tensors():
    x = leaf([1.0])
    y = x * x
    assert type(y.grad_fn._raw_saved_self) is torch.autograd.SavedTensor
    assert not isinstance(x, torch.autograd.SavedTensor)


def test_slots_after_release():
    x = leaf([1.0])
    y = x * x
    raw = y.grad_fn._raw_saved_self
    y.sum().backward()
    with pytest.raises(RuntimeError, match="directly access saved tensors after they have already"):
        y.grad_fn._saved_self
    with pytest.raises(RuntimeError, match="register_hooks on a saved tensor after it has been fr"):
        raw.register_hooks(identity, identity)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.sum().backward()


def test_register_hooks_on_a_slot():
    x = leaf([3.0])
    y = x * x
    seen = []

    def pack(t):
        seen.append(t.requires_grad)
        return t * 10

    y.grad_fn._raw_saved_self.register_hooks(pack, lambda t: t + 1)
    assert seen == [False]
    assert same(y.grad_fn._saved_self, [31.0])
    assert same(y.grad_fn._raw_saved_self.data, [30.0])
    with pytest.raises(RuntimeError, match="hooks have already been set"):
        y.grad_fn._raw_saved_self.register_hooks(identity, identity)
    y.sum().backward()
    assert same(x.grad, [3.0 + 31.0])


def test_register_hooks_argument_errors():
    x = leaf([3.0])
    y = x * x
    with pytest.raises(TypeError):
        y.grad_fn._raw_saved_self.register_hooks(identity)
    with pytest.raises(TypeError):
        y.grad_fn._raw_saved_self.register_hooks(identity, 1)
    z = x * 2
    with pytest.raises(RuntimeError, match="with value None is forbidden"):
        z.grad_fn._raw_saved_self.register_hooks(identity, identity)
    with pytest.raises(RuntimeError, match="pack hook is modifying its input in place"):
        y.grad_fn._raw_saved_self.register_hooks(lambda t: t.mul_(2), identity)


def test_slots_of_functions():
    class Three(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, None, x * 2)
            return x * 3

        @staticmethod
        def backward(ctx, g):
            a, none, b = ctx.saved_tensors
            assert none is None
            return g * a * b.detach()

    x = leaf([1.0, 2.0])
    y = Three.apply(x)
    raw = y.grad_fn._raw_saved_tensors
    assert len(raw) == 3
    with pytest.raises(RuntimeError, match="with value None is forbidden"):
        raw[1].register_hooks(identity, identity)
    raw[2].register_hooks(lambda t: t, lambda t: t * 0 + 1)
    y.sum().backward()
    assert same(x.grad, [1.0, 2.0])
    with pytest.raises(RuntimeError, match="a second time"):
        y.grad_fn._raw_saved_tensors
    with pytest.raises(RuntimeError, match="a second time"):
        y.grad_fn.saved_tensors


def test_unpacked_leaf_collects_the_leafs_gradient():
    x = leaf([3.0])
    with saved_tensors_hooks(lambda t: t.detach().clone(), identity):
        y = x * x * x
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    g.sum().backward()
    assert same(x.grad, [18.0])


# --- memory ------------------------------------------------------------------------------------


def test_backward_releases_what_hooks_packed():
    class Held:
        pass

    x = leaf([1.0])
    refs = []

    def pack(t):
        h = Held()
        h.t = t.detach()
        refs.append(weakref.ref(h))
        return h

    with saved_tensors_hooks(pack, lambda h: h.t):
        y = x * x
    assert all(r() is not None for r in refs) and refs
    y.sum().backward()
    assert all(r() is None for r in refs)


def test_a_cycle_through_a_packed_value_is_collected():
    gc.collect()
    before = torch._C._live_nodes()
    x = leaf([1.0])
    holder = {}
    with saved_tensors_hooks(lambda t: holder, lambda h: h["x"].detach()):
        y = Square.apply(x) * x
    holder.update(x=x, y=y)
    gone = weakref.ref(y)
    del x, y
    holder = None
    gc.collect()
    assert gone() is None
    assert torch._C._live_nodes() == before


def test_identity_hooks_on_outputs_make_no_cycle():
    x = leaf([1.0])
    with saved_tensors_hooks(identity, identity):
        y = x.exp()
    gone = weakref.ref(y)
    gc.disable()
    try:
        del y
        assert gone() is None
    finally:
        gc.enable()


class Weighted(Function):
    """Returns a saved tensor unchanged as the gradient."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(w)
        return x * w

    @staticmethod
    def backward(ctx, g):
        return ctx.saved_tensors[0], None


def test_hook_that_raises_leaves_the_history_of_what_was_written():
    def refuse(t):
        raise ValueError("no")

    y = torch.tensor([1.0, 2.0], requires_grad=True) * 1
    with graph.saved_tensors_hooks(refuse, lambda t: t), pytest.raises(ValueError, match="no"):
        y.sigmoid_()
    assert y.grad_fn.name() == "SigmoidBackward0" and y._version == 1


def test_slot_hook_may_release_the_graph():
    x = torch.ones(3, requires_grad=True)
    y = Weighted.apply(x, torch.ones(3))
    s = y.sum()

    def pack(t):
        s.backward()
        return t

    with pytest.raises(RuntimeError, match="after it has been freed"):
        y.grad_fn._raw_saved_tensors[0].register_hooks(pack, lambda t: t)
