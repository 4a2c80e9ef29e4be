# SPDX-License-Identifier: BSD-3-Clause
"""Hooks of modules: forward, backward, global; in-place writes around full backward hooks."""

import copy
import gc
import pickle
import weakref

import pytest
from conftest import leaf, ones, same

import cograd as torch
from cograd import autograd, nn
from cograd.nn.modules import module as registry


class Scale(nn.Module):
    """Returns x * k * z, and with y also y * 3."""

    def __init__(self, k=2.0):
        super().__init__()
        self.k = k

    def forward(self, x, y=None, *, z=1):
        scaled = x * self.k * z
        return scaled if y is None else (scaled, y * 3)


def record(seen):
    return lambda module, grad_input, grad_output: seen.append((grad_input, grad_output))


# ---- forward hooks -------------------------------------------------------------------------------


def test_forward_pre_hooks_replace_arguments_in_order():
    m = Scale()
    m.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    m.register_forward_pre_hook(lambda m, args: args[0] * 10, prepend=True)
    assert same(m(ones(1)), [22])


def test_forward_pre_hook_with_kwargs():
    m, seen = Scale(), []
    m.register_forward_pre_hook(lambda m, a, k: (a, {"z": 5}), with_kwargs=True)
    m.register_forward_pre_hook(lambda m, a, k: seen.append(k), with_kwargs=True)
    assert same(m(ones(1), z=3), [10]) and seen == [{"z": 5}]


@pytest.mark.parametrize("result", [3, (ones(1),), [1, 2]])
def test_forward_pre_hook_with_kwargs_must_return_both(result):
    m = Scale()
    m.register_forward_pre_hook(lambda m, a, k: result, with_kwargs=True)
    with pytest.raises(RuntimeError, match=r"None or a tuple of \(new_args, new_kwargs\)"):
        m(ones(1))


def test_forward_hooks_replace_the_output_in_order():
    m = Scale()
    m.register_forward_hook(lambda m, a, out: out + 1)
    m.register_forward_hook(lambda m, a, out: out * 100, prepend=True)
    assert same(m(ones(1)), [201])


def test_forward_hook_with_kwargs():
    m, seen = Scale(), []
    m.register_forward_hook(lambda m, a, k, out: seen.append((k, out.item())), with_kwargs=True)
    m(ones(1), z=4)
    assert seen == [({"z": 4}, 8.0)]


def test_always_called_hook_runs_when_forward_raises():
    m, seen = Scale(), []
    m.register_forward_hook(lambda m, a, out: seen.append(("always", out)), always_call=True)
    m.register_forward_hook(lambda m, a, out: seen.append("not"))
    with pytest.raises(TypeError):
        m(None)
    assert seen == [("always", None)]


def test_always_called_hook_runs_when_another_hook_raises():
    m, seen = Scale(), []

    def fail(m, a, out):
        raise LookupError

    m.register_forward_hook(fail)
    m.register_forward_hook(lambda m, a, out: seen.append("always"), always_call=True)
    with pytest.raises(LookupError):
        m(ones(1))
    assert seen == ["always"]


def test_error_of_an_always_called_hook_does_not_hide_the_first():
    m = Scale()

    def fail(m, a, out):
        raise LookupError("second")

    m.register_forward_hook(fail, always_call=True)
    with pytest.warns(UserWarning, match="silenced"), pytest.raises(TypeError):
        m(None)


def test_hook_may_remove_itself_and_handles_are_context_managers():
    m, seen = Scale(), []
    handle = m.register_forward_hook(lambda m, a, out: (seen.append(1), handle.remove())[0])
    m(ones(1))
    m(ones(1))
    with m.register_forward_hook(lambda m, a, out: seen.append(2)):
        m(ones(1))
    m(ones(1))
    assert seen == [1, 2]


def negate(module, args, out):
    return -out


def test_pickled_handle_belongs_to_the_pickled_module():
    m = nn.Linear(1, 1)
    handle = m.register_forward_hook(negate)
    m2, handle2 = pickle.loads(pickle.dumps((m, handle)))
    x = torch.ones(1, 1)
    assert torch.equal(m2(x), m(x))
    handle2.remove()
    assert torch.equal(m2(x), -m(x)), "removed from the copy, not from the original"


def test_copied_module_keeps_its_hooks():
    m = Scale()
    m.register_forward_hook(negate)
    assert same(copy.deepcopy(m)(ones(1)), [-2])


# ---- full backward hooks -------------------------------------------------------------------------


def test_full_backward_hook_sees_and_replaces():
    m, x, seen = Scale(), leaf([1.0, 2.0]), []
    m.register_full_backward_hook(record(seen))
    m.register_full_backward_hook(lambda m, gi, go: (gi[0] * 7,))
    m(x).sum().backward()
    ((gi,), (go,)) = seen[0]
    assert same(gi, [2, 2]) and same(go, [1, 1]) and same(x.grad, [14, 14])


def test_full_backward_pre_hook_replaces_the_output_gradient():
    m, x, seen = Scale(), leaf([1.0, 2.0]), []
    m.register_full_backward_pre_hook(lambda m, go: (go[0] * 3,))
    m.register_full_backward_hook(record(seen))
    m(x).sum().backward()
    assert same(seen[0][1][0], [3, 3]) and same(x.grad, [6, 6])


class Pair(nn.Module):
    def forward(self, a, b):
        return a * 2, b * 3


class NoGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return None


def hooked(module, use, replace=None, replace_output=None):
    """Returns (grad_input, grad_output), the pre-hook's gradients, and those of the two inputs."""
    seen = []
    module.register_full_backward_pre_hook(lambda m, go: (seen.append(go), replace_output)[1])
    module.register_full_backward_hook(lambda m, gi, go: (seen.append((gi, go)), replace)[1])
    a, b = leaf([1.0]), leaf([1.0])
    use(*module(a, b)).backward()
    plain = [[None if g is None else g.item() for g in part] for part in (*seen[1], seen[0])]
    return *plain, [None if t.grad is None else t.grad.item() for t in (a, b)]


def test_gradients_that_do_not_arrive_at_a_module():
    assert hooked(Pair(), lambda y, z: y) == ([2, 0], [1, None], [1, None], [2, 0])
    assert hooked(Pair(), lambda y, z: z) == ([0, 3], [None, 1], [None, 1], [0, 3])
    nothing = hooked(Pair(), lambda y, z: NoGradient.apply(y))
    assert nothing == ([0, 0], [None, None], [None, None], [0, 0])


def test_full_backward_hooks_may_give_gradients_where_none_arrived():
    ones = torch.ones(1, dtype=torch.float64)
    only_b = hooked(Pair(), lambda y, z: y, replace=(None, ones * 7))
    assert only_b == ([2, 0], [1, None], [1, None], [None, 7])
    both = hooked(Pair(), lambda y, z: y, replace_output=(ones * 7, ones * 5))
    assert both == ([14, 15], [7, 5], [1, None], [14, 15])
    dropped = hooked(Pair(), lambda y, z: y, replace_output=(None, ones * 5))
    assert dropped == ([0, 15], [None, 5], [1, None], [0, 15])


def test_order_of_full_backward_hooks():
    m, order = Scale(), []
    m.register_full_backward_pre_hook(lambda m, go: order.append("pre"))
    m.register_full_backward_pre_hook(lambda m, go: order.append("pre first"), prepend=True)
    m.register_full_backward_hook(lambda m, gi, go: order.append("hook"))
    m.register_full_backward_hook(lambda m, gi, go: order.append("hook first"), prepend=True)
    m(leaf([1.0])).backward()
    assert order == ["pre first", "pre", "hook first", "hook"]


def test_wrong_number_of_gradients():
    m = Scale()
    handle = m.register_full_backward_hook(lambda m, gi, go: (gi[0], gi[0]))
    with pytest.raises(RuntimeError, match="invalid number of grad_input, got 2, but expected 1"):
        m(leaf([1.0])).backward()
    handle.remove()
    m.register_full_backward_pre_hook(lambda m, go: (go[0], go[0]))
    with pytest.raises(RuntimeError, match="invalid number of grad_output, got 2, but expected 1"):
        m(leaf([1.0])).backward()


def test_module_without_gradients_to_its_inputs():
    m, seen = nn.Linear(2, 1), []
    handle = m.register_full_backward_hook(record(seen))
    with pytest.warns(UserWarning, match="no inputs require gradients"):
        m(torch.ones(1, 2)).sum().backward()
    assert seen[0][0] == (None,) and same(seen[0][1][0], [[1]])
    handle.remove()
    m.register_full_backward_hook(lambda m, gi, go: (torch.ones(1, 2),))
    y = m(torch.ones(1, 2)).sum()
    with pytest.warns(UserWarning, match="no inputs require"):
        with pytest.raises(RuntimeError, match="None for all gradients"):
            y.backward()


def test_outputs_without_gradients_are_none():
    m, seen = Scale(), []
    m.register_full_backward_hook(record(seen))
    first, _ = m(leaf([1.0]), ones(1))
    first.backward()
    assert same(seen[0][0][1], [0.0])
    assert seen[0][1][1] is None


def test_call_of_a_module_twice_in_one_graph():
    m, seen = Scale(), []
    m.register_full_backward_hook(record(seen))
    m(m(leaf([1.0]))).backward()
    assert [go[0].item() for _, go in seen] == [1.0, 2.0]


def test_nested_modules():
    m = nn.Sequential(Scale(2.0), Scale(3.0))
    order = []
    for name, k in (("all", m), ("first", m[0]), ("second", m[1])):
        k.register_full_backward_hook(lambda m, gi, go, n=name: order.append((n, gi[0].item())))
    m(leaf([1.0])).backward()
    assert order == [("second", 3.0), ("first", 6.0), ("all", 6.0)]


def test_output_that_is_a_dict_warns():
    class Named(nn.Module):
        def forward(self, x):
            return {"out": x * 2}

    m = Named()
    m.register_full_backward_hook(record([]))
    with pytest.warns(UserWarning, match="should be a Tensor or a tuple of Tensors"):
        m(leaf([1.0]))


def test_removed_full_backward_hook_runs_for_calls_made_before():
    m, seen = Scale(), []
    handle = m.register_full_backward_hook(record(seen))
    y = m(leaf([1.0]))
    handle.remove()
    y.backward()
    m(leaf([1.0])).backward()
    assert len(seen) == 1


def test_full_backward_hook_and_second_derivatives():
    m, x, recorded = Scale(), leaf([2.0]), []
    m.register_full_backward_hook(lambda m, gi, go: recorded.append(gi[0].requires_grad))
    (g,) = autograd.grad(m(x) ** 3, x, create_graph=True)
    assert recorded == [True] and same(g, [96])
    assert same(autograd.grad(g, x)[0], [96])


def test_full_backward_hook_that_raises():
    m, x = Scale(), leaf([1.0])

    def fail(m, gi, go):
        raise LookupError("hook")

    m.register_full_backward_hook(fail)
    with pytest.raises(LookupError, match="hook"):
        m(x).backward()
    assert x.grad is None


def test_hooked_call_is_freed():
    m = Scale()
    m.register_full_backward_hook(record([]))
    x = leaf([1.0]) * 1
    y = m(x)
    alive = weakref.ref(y)
    del y
    gc.collect()
    assert alive() is None


# ---- in-place writes around full backward hooks (torch forbids them) ---------------------------


def both(build, seen=None):
    """Returns the input's gradient with and without full backward hooks on modules of ``build``."""
    results = []
    for hooked in (False, True):
        modules, run = build()
        for m in modules if hooked else ():
            m.register_full_backward_hook(record([] if seen is None else seen))
        x = leaf([1.0, -1.0, 2.0])
        out = run(x)
        out.backward()
        results.append((out, x.grad))
    (plain, plain_grad), (hooked, hooked_grad) = results
    assert torch.equal(plain, hooked) and torch.equal(plain_grad, hooked_grad)


@pytest.mark.beyond_torch
def test_in_place_activation_under_a_full_backward_hook():
    seen = []

    def build():
        m = nn.Sequential(Scale(), nn.ReLU(inplace=True), Scale(3.0))
        return list(m), lambda x: m(x).sum()

    both(build, seen)
    relu = seen[1]
    assert same(relu[0][0], [3, 0, 3]) and same(relu[1][0], [3, 3, 3])


@pytest.mark.beyond_torch
def test_input_that_the_module_wrote_has_the_modules_history():
    def build():
        relu = nn.ReLU(inplace=True)

        def run(x):
            y = x * 2
            out = relu(y)
            assert out is y
            return (y * y).sum() + out.sum()

        return [relu], run

    both(build)


@pytest.mark.beyond_torch
def test_input_that_the_module_wrote_but_does_not_return():
    class Writes(nn.Module):
        def forward(self, x):
            x.mul_(5)
            return x.sum()

    def build():
        m = Writes()

        def run(x):
            y = x * 2
            total = m(y)
            return total * 3 + (y * y).sum()

        return [m], run

    both(build)


@pytest.mark.beyond_torch
def test_output_may_be_written():
    def build():
        m = Scale()

        def run(x):
            y = m(x)
            y += x
            y.mul_(y.detach().clone())
            return y.sum()

        return [m], run

    both(build)


@pytest.mark.beyond_torch
def test_output_that_the_module_kept_follows_writes():
    class Keeps(nn.Module):
        def forward(self, x):
            self.kept = x * 3
            return self.kept

    def build():
        m = Keeps()

        def run(x):
            before = m(x)
            early = m.kept * 2
            before.mul_(7)
            return (m.kept * m.kept).sum() + early.sum()

        return [m], run

    both(build)


@pytest.mark.beyond_torch
def test_write_to_an_output_after_it_was_saved_is_noticed():
    class Exp(nn.Module):
        def forward(self, x):
            return x.exp()

    m = Exp()
    m.register_full_backward_hook(record([]))
    y = m(leaf([1.0]))
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_leaf_input_cannot_be_written():
    m = nn.ReLU(inplace=True)
    m.register_full_backward_hook(record([]))
    x = leaf([1.0, -1.0])
    with pytest.raises(RuntimeError, match="custom Function"):
        m(x)
    assert same(x, [1, -1])


def test_view_input_cannot_be_written():
    m = nn.ReLU(inplace=True)
    m.register_full_backward_hook(record([]))
    base = leaf([1.0, -1.0]) * 1
    with pytest.raises(RuntimeError, match="custom Function"):
        m(base[:1])
    assert same(base, [1, -1])


@pytest.mark.parametrize("make", [nn.Identity, nn.Flatten], ids=["input", "view"])
def test_output_that_is_the_input_or_a_view_cannot_be_written(make):
    m = make()
    m.register_full_backward_hook(record([]))
    y = leaf([[1.0, -1.0]]) * 1
    out = m(y)
    with pytest.raises(RuntimeError, match="custom Function"):
        out.mul_(2)
    assert same(y, [[1, -1]])


def test_same_tensor_as_both_inputs_cannot_be_written():
    class Adds(nn.Module):
        def forward(self, a, b):
            a.add_(1)
            return a * b

    m = Adds()
    m.register_full_backward_hook(record([]))
    y = leaf([1.0]) * 1
    with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
        m(y, y)
    assert same(y, [1])


# ---- backward hooks of the old kind --------------------------------------------------------------


def test_old_backward_hook_sees_the_last_op():
    m, x, seen = Scale(), leaf([1.0, 2.0]), []
    m.register_backward_hook(record(seen))
    with pytest.warns(FutureWarning, match="multiple autograd Nodes"):
        y = m(x)
    y.sum().backward()
    (gi, go) = seen[0]
    assert same(gi[0], [1, 1]) and gi[1] is None and same(go[0], [1, 1])


def test_old_and_full_backward_hooks_do_not_mix():
    for first, second in (("", "full_"), ("full_", "")):
        m = Scale()
        getattr(m, f"register_{first}backward_hook")(print)
        with pytest.raises(RuntimeError, match="Cannot use both regular backward hooks and full"):
            getattr(m, f"register_{second}backward_hook")(print)


# ---- hooks of all modules ------------------------------------------------------------------------


@pytest.fixture
def everywhere():
    """Registers a global hook for the test: everywhere("forward", hook)."""
    handles = []

    def register(kind, hook, **options):
        handle = getattr(registry, f"register_module_{kind}_hook")(hook, **options)
        handles.append(handle)
        return handle

    yield register
    for handle in handles:
        handle.remove()


def test_global_forward_hooks_come_first(everywhere):
    order, m = [], Scale()
    everywhere("forward", lambda m, a, out: (order.append("global"), out * 2)[1])
    everywhere("forward_pre", lambda m, a: (order.append("global pre"), (a[0] + 1,))[1])
    m.register_forward_hook(lambda m, a, out: order.append("own"))
    m.register_forward_pre_hook(lambda m, a: order.append("own pre"))
    assert same(m(ones(1)), [8])
    assert order == ["global pre", "own pre", "global", "own"]


def test_global_forward_hook_options(everywhere):
    seen, m = [], Scale()
    everywhere("forward", lambda m, a, k, out: seen.append(k), with_kwargs=True)
    everywhere("forward", lambda m, a, out: seen.append("always"), always_call=True)
    m(ones(1), z=3)
    with pytest.raises(TypeError):
        m(None)
    assert seen == [{"z": 3}, "always", "always"]


def test_global_full_backward_hooks(everywhere):
    order, m = [], Scale()
    everywhere("full_backward", lambda m, gi, go: order.append("global"))
    everywhere("full_backward_pre", lambda m, go: order.append("global pre"))
    m.register_full_backward_hook(lambda m, gi, go: order.append("own"))
    m.register_full_backward_pre_hook(lambda m, go: order.append("own pre"))
    m(leaf([1.0])).backward()
    assert order == ["global pre", "own pre", "global", "own"]


def test_global_backward_hooks_of_two_kinds_do_not_mix(everywhere):
    everywhere("backward", lambda m, gi, go: None)
    with pytest.raises(RuntimeError, match="as a global Module hook"):
        registry.register_module_full_backward_hook(print)


def test_global_registration_hooks(everywhere):
    seen = []
    for kind in ("parameter", "buffer", "module"):
        everywhere(f"{kind}_registration", lambda m, n, v, k=kind: seen.append((k, n)))
    m = nn.Sequential(nn.Linear(1, 1))
    m.register_buffer("b", torch.ones(1))
    m.register_parameter("nothing", None)
    m.child = nn.Identity()
    m.p = nn.Parameter(torch.ones(1))
    assert seen == [
        ("parameter", "weight"),
        ("parameter", "bias"),
        ("module", "0"),
        ("buffer", "b"),
        ("module", "child"),
        ("parameter", "p"),
    ]


def test_global_registration_hook_replaces(everywhere):
    everywhere("parameter_registration", lambda m, n, p: nn.Parameter(p.detach() * 0 + 7))
    m = nn.Module()
    m.p = nn.Parameter(torch.ones(1))
    assert same(m.p, [7])


def test_grad_input_is_zeros_for_inputs_without_a_gradient():
    class Product(nn.Module):
        def forward(self, a, n, b, k):
            return a * n * b * k

    module, seen = Product(), []
    module.register_full_backward_hook(lambda m, grad_input, _: seen.append(grad_input))
    a = leaf([1.0, 2.0])
    module(a, torch.tensor([3, 4]), torch.ones(2), 5).sum().backward()
    ((first, second, third, fourth),) = seen
    assert same(first, [15.0, 20.0])
    assert second.dtype == torch.int64
    assert second.tolist() == [0, 0]
    assert third.dtype == torch.float32
    assert third.tolist() == [0.0, 0.0]
    assert fourth is None
    seen.clear()
    module(a.detach(), torch.tensor([3, 4]), torch.ones(2).requires_grad_(), 5).sum().backward()
    assert [None if g is None else g.tolist() for g in seen[0][:2]] == [[0.0, 0.0], [0, 0]]


def test_what_a_hook_returns_for_inputs_without_a_gradient_is_left():
    class Product(nn.Module):
        def forward(self, a, b):
            return a * b

    module = Product()
    module.register_full_backward_hook(lambda m, g, _: (g[0] * 3, torch.ones(2) * 7))
    a, b = leaf([1.0, 2.0]), ones(2)
    module(a, b).sum().backward()
    assert same(a.grad, [3.0, 3.0])
    assert b.grad is None


def test_full_backward_hooks_run_once_for_all_samples_of_a_vmap():
    layer, seen = nn.Linear(3, 2).double(), []

    def doubled(module, grad_input, grad_output):
        seen.append((tuple(grad_input[0].shape), tuple(grad_output[0].shape)))
        return (grad_input[0] * 2,)

    layer.register_full_backward_hook(doubled)
    x = torch.randn(4, 3, dtype=torch.float64)
    want = (2 * layer.weight.detach().sum(0)).expand(4, 3)
    got = torch.func.vmap(torch.func.grad(lambda row: layer(row).sum()))(x)
    torch.testing.assert_close(got, want)
    assert seen == [((3,), (2,))]
    y = x.clone().requires_grad_()
    torch.func.vmap(layer)(y).sum().backward()
    torch.testing.assert_close(y.grad, want)
    torch.testing.assert_close(layer.weight.grad, x.sum(0).expand(2, 3))
    torch.testing.assert_close(torch.func.jacrev(layer)(x[0]), 2 * layer.weight.detach())
    assert seen[1:] == [((3,), (2,))] * 2
    with torch.no_grad():
        torch.testing.assert_close(torch.func.vmap(layer)(x), layer(x))


def test_full_backward_pre_hooks_run_under_vmap():
    layer = nn.Linear(3, 2).double()
    layer.register_full_backward_pre_hook(lambda module, grad_output: (grad_output[0] * 3,))
    x = torch.randn(4, 3, dtype=torch.float64)
    got = torch.func.vmap(torch.func.grad(lambda row: layer(row).sum()))(x)
    torch.testing.assert_close(got, (3 * layer.weight.detach().sum(0)).expand(4, 3))
