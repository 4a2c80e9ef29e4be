# SPDX-License-Identifier: BSD-3-Clause
"""Nothing stays behind: graphs, contexts, saved tensors, hooks and cycles that users create."""

import gc
import weakref

import numpy as np
import pytest
from conftest import leaf, live_tensors, ones, resident_mb, same

import cograd as torch
from cograd import autograd
from cograd.autograd import Function

MIB = 2**20
REPEATS = 100


def big(requires_grad=True):
    """Returns a leaf of 4 MiB whose pages have all been touched."""
    return torch.ones(MIB, dtype=torch.float32, requires_grad=requires_grad)


def grows_by(step, repeats=REPEATS):
    """Returns (more live tensors, more resident MiB) after many steps and a collection."""
    for _ in range(3):
        step()
    tensors, memory = live_tensors(), resident_mb()
    for _ in range(repeats):
        step()
    return live_tensors() - tensors, resident_mb() - memory


def assert_no_growth(step, repeats=REPEATS):
    tensors, memory = grows_by(step, repeats)
    assert tensors <= 0, f"{tensors} tensors more after {repeats} repeats"
    assert memory < 40, f"{memory:.0f} MiB more after {repeats} repeats of 4 MiB tensors"


class Collector:
    """Switches Python's cycle collector off: objects that die now die by reference count."""

    def __enter__(self):
        gc.collect()
        gc.disable()

    def __exit__(self, *error):
        gc.enable()


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * g * x


class Product(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y, g * x


class Exp(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


# ---- by reference count, where the user made no cycle --------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x * x,
        lambda x: x.exp(),
        lambda x: x.tanh().sigmoid(),
        lambda x: x.view(1, 2)[0],
        lambda x: torch.softmax(x, 0),
        lambda x: (x * 1).add_(1),
        lambda x: Square.apply(x),
        lambda x: Exp.apply(x),
        lambda x: Exp.apply(x)[0],
    ],
)
@pytest.mark.parametrize("run", [False, True], ids=["unused", "after_backward"])
def test_result_dies_without_the_collector(make, run):
    with Collector():
        x = leaf([1.0, 2.0])
        y = make(x)
        if run:
            y.sum().backward()
        alive = weakref.ref(y)
        del y
        assert alive() is None


def test_leaf_dies_with_the_last_graph_that_uses_it():
    with Collector():
        x = leaf([1.0, 2.0])
        alive = weakref.ref(x)
        y = (x * x).sum()
        del x
        assert alive() is not None
        y.backward()
        del y
        assert alive() is None


def test_grad_dies_with_its_leaf():
    with Collector():
        x = leaf([1.0, 2.0])
        (x * x).sum().backward()
        grad = weakref.ref(x.grad)
        del x
        assert grad() is None


def test_intermediates_die_when_backward_passes_them():
    with Collector():
        x = leaf([1.0, 2.0])
        middle = x * 3
        y = (middle * middle).sum()
        alive = weakref.ref(middle)
        del middle
        y.backward()
        assert alive() is None
        assert y is not None


def test_context_and_its_attributes_die_with_the_output():
    class Payload:
        pass

    class Keeps(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.payload = payloads.pop()
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    for run in (False, True):
        with Collector():
            payloads = [Payload()]
            alive = weakref.ref(payloads[0])
            y = Keeps.apply(leaf(1.0))
            assert alive() is not None
            if run:
                y.backward()
            del y
            assert alive() is None


def test_node_object_dies_with_the_output():
    with Collector():
        y = Square.apply(leaf([1.0]))
        node = weakref.ref(y.grad_fn)
        del y
        assert node() is None


def test_hook_closure_dies_with_its_tensor():
    class Payload:
        pass

    with Collector():
        payload = Payload()
        alive = weakref.ref(payload)
        y = leaf(1.0) * 1
        y.register_hook(lambda g, payload=payload: None)
        del payload
        y.backward()
        del y
        assert alive() is None


def test_removed_hook_is_released_at_once():
    class Payload:
        pass

    with Collector():
        payload = Payload()
        alive = weakref.ref(payload)
        y = leaf(1.0) * 1
        handle = y.register_hook(lambda g, payload=payload: None)
        del payload
        handle.remove()
        assert alive() is None
        assert y is not None


def test_dropping_the_handle_does_not_drop_the_hook():
    x = leaf(1.0)
    x.register_hook(lambda g: g * 3)
    gc.collect()
    (x * 1).backward()
    assert same(x.grad, 3.0)


def test_hooks_outlive_the_tensor_object_while_the_graph_lives():
    seen = []
    x = leaf(1.0)
    middle = x * 2
    middle.register_hook(lambda g: seen.append(g.item()))
    y = middle * 5
    del middle
    gc.collect()
    y.backward()
    assert seen == [5.0]


def test_arguments_of_a_function_are_not_kept():
    class Payload:
        pass

    with Collector():
        payload = Payload()
        alive = weakref.ref(payload)

        class Ignores(Function):
            @staticmethod
            def forward(ctx, x, thing):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return g * 2, None

        y = Ignores.apply(leaf(1.0), payload)
        del payload
        assert alive() is None
        y.backward()


def test_failed_forward_keeps_nothing():
    class Fails(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            raise LookupError

        @staticmethod
        def backward(ctx, g):
            return g

    x = leaf([1.0])
    alive = weakref.ref(x)
    with pytest.raises(LookupError):
        Fails.apply(x)
    del x
    gc.collect()
    assert alive() is None


def test_higher_order_graph_dies_without_the_collector():
    with Collector():
        x = leaf([1.0, 2.0])
        y = (x**3).sum()
        (g,) = autograd.grad(y, x, create_graph=True)
        (h,) = autograd.grad(g.sum(), x, create_graph=True)
        refs = [weakref.ref(v) for v in (y, g, h)]
        del y, g, h
        assert [ref() for ref in refs] == [None] * 3


def test_view_keeps_storage_not_the_object():
    with Collector():
        base = ones(4)
        view = base[1:]
        alive = weakref.ref(base)
        del base
        assert same(view, [1, 1, 1])
        assert alive() is None or same(alive(), [1, 1, 1, 1])
        del view
        assert alive() is None


# ---- 100 repeats -------------------------------------------------------------------------------


def test_training_step_does_not_grow():
    weight = big()

    def step():
        ((weight * 2).exp().sum() * 1e-9).backward()
        with torch.no_grad():
            weight.sub_(weight.grad * 0)
        weight.grad = None

    assert_no_growth(step)


def test_graph_that_never_runs_does_not_grow():
    x = big()
    assert_no_growth(lambda: (x * x).exp().sum())


def test_function_does_not_grow():
    x = big()

    def step():
        Square.apply(Exp.apply(x * 1e-3)).sum().backward()
        x.grad = None

    assert_no_growth(step)


def test_output_kept_as_ctx_attribute_does_not_grow():
    class KeepsOutput(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.y = y
            return y

        @staticmethod
        def backward(ctx, g):
            return g * ctx.y

    x = big()

    def step():
        KeepsOutput.apply(x)

    def step_with_backward():
        KeepsOutput.apply(x).sum().backward()
        x.grad = None

    assert_no_growth(step)
    assert_no_growth(step_with_backward)


def test_input_kept_as_ctx_attribute_does_not_grow():
    class KeepsInput(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.x = x
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2 + 0 * ctx.x

    x = big()

    def step():
        KeepsInput.apply(x * 1).sum().backward()
        x.grad = None

    assert_no_growth(step)


@pytest.mark.beyond_torch
def test_hook_that_closes_over_its_own_tensor_does_not_grow():
    x = big()

    def step():
        y = x * 2
        y.register_hook(lambda g: g + 0 * y)
        y.sum().backward()
        x.grad = None

    def without_backward():
        y = x * 2
        y.register_hook(lambda g: g + 0 * y)

    assert_no_growth(step)
    assert_no_growth(without_backward)


def test_hook_on_leaf_that_closes_over_it_does_not_grow():
    def step():
        x = big()
        x.register_hook(lambda g: g + 0 * x)
        (x * 2).sum().backward()

    assert_no_growth(step)


@pytest.mark.beyond_torch
def test_node_metadata_that_holds_the_output_does_not_grow():
    x = big()

    def step():
        y = x * 2
        y.grad_fn.metadata["output"] = y

    assert_no_growth(step)


@pytest.mark.beyond_torch
@pytest.mark.filterwarnings("ignore:Using backward")
def test_create_graph_grad_cycle_does_not_grow():
    def step():
        x = big()
        (x * x * x).sum().backward(create_graph=True)

    assert_no_growth(step)


@pytest.mark.beyond_torch
def test_tensor_attribute_cycle_through_the_graph_does_not_grow():
    def step():
        x = big()
        y = x * 2
        x.result = y

    assert_no_growth(step)


@pytest.mark.beyond_torch
def test_context_that_holds_the_final_result_does_not_grow():
    class Holder(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = big()

    def step():
        y = Holder.apply(x)
        z = y.exp()
        y.grad_fn.later = z

    assert_no_growth(step)


@pytest.mark.beyond_torch
@pytest.mark.parametrize(
    "write",
    [
        lambda a, b: a.add_(b * a),
        lambda a, b: a.mul_((a * b).exp()),
        lambda a, b: a[: MIB // 2].add_(b[: MIB // 2] * a[: MIB // 2]),
        lambda a, b: a.view(4, -1).mul_(b.view(4, -1) * a.view(4, -1)),
        lambda a, b: a.copy_(Product.apply(a, b)),
    ],
    ids=["itself", "two ops", "slice", "views", "copy of a Function"],
)
def test_write_by_an_op_that_saved_the_tensor_does_not_grow(write):
    b = big()

    def step():
        a = torch.ones(MIB)
        write(a, b)
        assert a.requires_grad

    assert_no_growth(step)


@pytest.mark.beyond_torch
def test_write_to_a_temporary_by_an_op_that_saved_it_does_not_grow():
    b = big()

    def step():
        half = (b * 2)[: MIB // 2]
        half.add_(half * half)
        del half

    assert_no_growth(step)


@pytest.mark.beyond_torch
def test_write_through_another_view_of_a_temporary_does_not_grow():
    """The base has no Python object when it is written, nor when its last view dies."""
    b = big()

    def step():
        a = b * 2
        v, w = a[None], a[None]
        del a
        w.add_(v * v)

    def slices():
        v = (b * 2)[: MIB // 2]
        w = v[: MIB // 4]
        v.mul_((w * w).sum())

    assert_no_growth(step)
    assert_no_growth(slices)


def test_tensor_that_was_written_dies_with_its_graph():
    with Collector():
        x = leaf([1.0, 1.0, 1.0])
        y = x * 2
        y.mul_(3)
        z = y * y
        seen = weakref.ref(y.grad_fn)
        before = live_tensors()
        del y
        z.sum().backward()
        assert same(x.grad, [72, 72, 72])
        del z
        assert seen() is None
        assert live_tensors() < before


def test_plain_python_cycle_with_a_graph_does_not_grow():
    x = big()

    def step():
        holder = {"y": Square.apply(x)}
        holder["self"] = holder

    assert_no_growth(step)


def test_retain_grad_does_not_grow():
    x = big()

    def step():
        y = x * 2
        y.retain_grad()
        y.sum().backward()
        x.grad = None

    assert_no_growth(step)


def test_exception_in_backward_does_not_grow():
    class Fails(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise LookupError

    x = big()

    def step():
        try:
            (Fails.apply(x * 1) * 2).sum().backward()
        except LookupError:
            pass

    assert_no_growth(step)


def test_in_place_on_views_does_not_grow():
    x = big()

    def step():
        base = x * 1
        base[:10].mul_(2)
        base.view(2, -1)[0].add_(1)
        base.sum().backward()
        x.grad = None

    assert_no_growth(step)


def test_reentrant_backward_does_not_grow():
    class Inner(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            with torch.enable_grad():
                copy = ctx.saved_tensors[0].detach().requires_grad_()
                (copy * copy).sum().backward()
            return g * copy.grad

    x = big()

    def step():
        Inner.apply(x).sum().backward()
        x.grad = None

    assert_no_growth(step)


def test_ten_thousand_small_iterations_return_to_the_start():
    x, w = leaf([1.0, 2.0, 3.0]), leaf([0.1, 0.2, 0.3])

    def step():
        y = Square.apply(x * w).exp().sum()
        y.register_hook(lambda g: g * 1)
        y.backward()
        x.grad = w.grad = None

    for _ in range(500):
        step()
    tensors, memory, objects = live_tensors(), resident_mb(), len(gc.get_objects())
    for _ in range(10_000):
        step()
    assert live_tensors() - tensors <= 0
    assert resident_mb() - memory < 8
    assert len(gc.get_objects()) - objects < 200


def test_saved_results_are_freed_as_backward_passes_them():
    # Six saved results have 64 MiB; when the leaf is reached, five of them must be freed.
    x = torch.ones(16 * MIB, requires_grad=True)
    y = x
    for _ in range(6):
        y = y.exp() * 1e-3
    y = y.sum()
    before, held = resident_mb(), []

    def hook(g):
        held.append(resident_mb())

    x.register_hook(hook)
    y.backward()
    assert held[0] < before - 4 * 64


# ---- the collector sees everything ---------------------------------------------------------------


@pytest.mark.beyond_torch
def test_cycle_through_a_hook_is_collected():
    def build():
        y = leaf([1.0]) * 2
        y.register_hook(lambda g: y)
        return weakref.ref(y)

    alive = build()
    gc.collect()
    assert alive() is None


def test_a_result_that_dies_in_a_cycle_leaves_the_graph_to_the_others():
    x = leaf([1.0, 2.0])

    def forward():
        holder = {"hidden": x.exp() * 3}
        holder["self"] = holder
        holder["hidden"].owner = holder
        return (holder["hidden"] * 1).sum()

    z = forward()
    gc.collect()
    z.backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * np.exp([1.0, 2.0]))


class Reviving:
    """Is in a cycle with a tensor, from which its finalizer makes something new."""

    def __init__(self, tensor, make, kept):
        self.tensor, self.make, self.kept, self.me = tensor, make, kept, self
        tensor.owner = self

    def __del__(self):
        self.kept.append(self.make(self.tensor))


def test_a_finalizer_may_revive_the_graph():
    kept, x, calls = [], leaf([1.0, 2.0]), []
    Reviving(x.exp() * 3, lambda y: (y * 1).sum(), kept)
    hidden = leaf([1.0, 1.0])
    hidden.grad = ones(2)
    hidden.register_hook(lambda g: calls.append(1))
    Reviving(hidden, lambda t: (t * 2).sum(), kept)
    del hidden
    gc.collect()
    kept[0].backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * np.exp([1.0, 2.0]))
    kept[1].backward()
    variable = kept[1].grad_fn.next_functions[0][0].next_functions[0][0].variable
    assert same(variable.grad, [3, 3]) and calls == [1]


@pytest.mark.parametrize("older", [False, True])
def test_a_graph_that_an_older_finalizer_revives_is_whole(older):
    """Finalizers of generation 1 run after those of the collector's own proxies."""
    kept = []

    class Squares:
        def __del__(self):
            kept.append((self.t * self.t).sum())

    gc.disable()
    try:
        reviver = Squares()
        if older:
            gc.collect(0)
        x = leaf([2.0, 2.0])
        t = x * 3
        reviver.t, t.reviver = t, reviver
        del reviver, t
        gc.collect()
    finally:
        gc.enable()
    kept[0].backward()
    assert same(x.grad, [36, 36])
    kept.clear()
    gc.collect()


def make_cycle(x):
    a = x * 1
    holder = [a]
    holder.append(holder)
    a.holder = holder
    a.add_(x * a)


@pytest.mark.parametrize("way", ["garbage", "finalizer", "callback"])
def test_objects_of_a_collection_may_be_kept_beyond_it(way):
    """DEBUG_SAVEALL, or get_objects() in a finalizer or a callback, keep them to find leaks."""
    x, kept = leaf([1.0, 2.0]), []

    class Looks:
        def __del__(self):
            kept.extend(gc.get_objects())

    def look(phase, info):
        kept.extend(gc.get_objects())

    try:
        if way == "garbage":
            gc.set_debug(gc.DEBUG_SAVEALL)
        if way == "callback":
            gc.callbacks.append(look)
        for _ in range(5):
            make_cycle(x)
        if way == "finalizer":
            looks = Looks()
            looks.me, looks.y = looks, x * 2
            del looks
        z = (x * x).sum()
        gc.collect()
        kept.extend(gc.garbage)
        other = [bytes(48) for _ in range(10_000)]  # memory of the freed ones
        assert {type(o).__name__ for o in kept} >= {"Tensor", "_GraphProxy"} and other
    finally:
        gc.set_debug(0)
        if look in gc.callbacks:
            gc.callbacks.remove(look)
        kept.clear()
        gc.garbage.clear()
    gc.collect()
    z.backward()
    assert same(x.grad, [2, 4])


def test_cycle_that_is_still_reachable_is_not_collected():
    calls = []

    def build(x):
        middle = x * 2
        middle.register_hook(lambda g: calls.append(middle.tolist()))
        return middle * 3

    x = leaf([1.0])
    y = build(x)
    for _ in range(3):
        gc.collect()
    y.sum().backward()
    assert calls == [[2.0]] and same(x.grad, [6.0])


def test_context_reachable_only_through_the_graph_survives_collection():
    class Payload:
        value = 7.0

    class Keeps(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.payload = Payload()
            ctx.me = ctx
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * ctx.payload.value

    x = leaf(1.0)
    y = Keeps.apply(x) + 1
    gc.collect()
    y.backward()
    assert same(x.grad, 7.0)


def test_saved_tensor_reachable_only_through_the_graph_survives_collection():
    x = leaf([1.0, 2.0])
    y = Square.apply(x * 3).sum()
    gc.collect()
    y.backward()
    assert same(x.grad, [18, 36])


def test_collection_in_the_middle_of_backward():
    def collect(g):
        gc.collect()

    x = leaf([1.0, 2.0])
    middle = x * 3
    middle.register_hook(collect)
    y = Exp.apply(Square.apply(middle) * 1e-3)
    y.register_hook(collect)
    y.sum().backward()
    assert x.grad is not None


def test_many_dead_cycles_at_once():
    class Keeps(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.me = ctx
            y = x * 2
            ctx.y = y
            return y

        @staticmethod
        def backward(ctx, g):
            return g

    x = leaf([1.0])
    start = live_tensors()
    kept = [Keeps.apply(x) for _ in range(1000)]
    assert len(kept) == 1000
    del kept
    assert live_tensors() <= start


def test_a_collection_in_a_frame_without_builtins():
    """Where the constructor of a named tuple triggers the collector, there is no __import__."""

    class Marker:
        pass

    x = torch.ones(2, requires_grad=True) * 2
    marker = Marker()
    x.register_hook(lambda g, x=x, marker=marker: g)
    died = weakref.ref(marker)
    del x, marker
    eval("lambda collect: collect()", {"__builtins__": {}})(gc.collect)
    assert died() is None


def written_by_a_view_of_itself(x):
    x = x * 1
    x.mul_(x.view(-1))
    return x.sum()


def written_through_a_view(x):
    x = x * 1
    x[:2].mul_(x[1:])
    return x.sum()


@pytest.mark.parametrize("f", [written_by_a_view_of_itself, written_through_a_view])
@pytest.mark.parametrize(
    "transform",
    [
        lambda f, x: torch.func.vmap(torch.func.grad(f))(x),
        lambda f, x: torch.func.vmap(torch.func.jacrev(f), in_dims=1)(x.mT),
        lambda f, x: torch.func.vmap(torch.func.vmap(torch.func.grad(f)))(x[None]),
        lambda f, x: torch.func.vmap(f)(x.clone().requires_grad_()).sum().backward(),
    ],
    ids=["vmap(grad)", "vmap(jacrev)", "vmap(vmap(grad))", "backward"],
)
def test_graphs_whose_backward_raised_inside_of_vmap_are_freed(f, transform):
    """Something saved was written, so that the graph references itself through its batch."""
    x = torch.arange(6.0).reshape(2, 3)

    def step():
        with pytest.raises(RuntimeError):
            transform(f, x)

    step()
    gc.collect()
    nodes = torch._C._live_nodes()
    for _ in range(5):
        step()
    gc.collect()
    assert torch._C._live_nodes() == nodes


def dual_backward(f, x):
    x = x.clone().requires_grad_()
    with torch.autograd.forward_ad.dual_level():
        f(torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))).backward()


@pytest.mark.parametrize("f", [written_by_a_view_of_itself, written_through_a_view])
@pytest.mark.parametrize(
    "transform",
    [
        lambda f, x: torch.func.hessian(f)(x),
        lambda f, x: torch.func.jvp(torch.func.grad(f), (x,), (x,)),
        lambda f, x: torch.func.grad(lambda x: torch.func.jvp(f, (x,), (x,))[1])(x),
        dual_backward,
    ],
    ids=["hessian", "jvp(grad)", "grad(jvp)", "dual_level"],
)
def test_graphs_of_tangents_whose_backward_raised_are_freed(f, transform):
    """A tangent that is written reaches itself too, and no Python object stands for it."""
    x = torch.arange(3.0)

    def step():
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            transform(f, x)

    step()
    gc.collect()
    nodes = torch._C._live_nodes()
    for _ in range(5):
        step()
    gc.collect()
    assert torch._C._live_nodes() == nodes
