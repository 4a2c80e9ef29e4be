# SPDX-License-Identifier: BSD-3-Clause
"""utils.checkpoint: both forms, determinism check, early stop, nesting, selective contexts."""

import contextlib
import functools
import gc
import itertools
import sys
import weakref

import pytest
from conftest import leaf, ones, same

import cograd as torch
from cograd import autograd, nn
from cograd.utils import checkpoint as module
from cograd.utils.checkpoint import (
    CheckpointError,
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)

pytestmark = pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
FORMS = pytest.mark.parametrize("reentrant", [True, False], ids=["reentrant", "hooks"])


def curve(x, k=2.0):
    return (x * x).sin() * k


def expected(x, k=2.0):
    return torch.autograd.grad(curve(x, k).sum(), x)[0]


# ---- values and gradients ------------------------------------------------------------------------


@FORMS
def test_gradient_is_the_same(reentrant):
    x = leaf([1.0, 2.0])
    y = checkpoint(curve, x, use_reentrant=reentrant)
    y.sum().backward()
    assert same(y, curve(x).tolist()) and same(x.grad, expected(x).tolist())


@FORMS
def test_function_runs_once_more_in_the_backward(reentrant):
    calls = []

    def f(x):
        calls.append(1)
        return x.exp().exp()

    y = checkpoint(f, leaf([1.0]), use_reentrant=reentrant)
    assert len(calls) == 1
    y.backward()
    assert len(calls) == 2


def test_nothing_is_kept_between():
    kept = []

    def f(x):
        middle = x.sin()
        kept.append(weakref.ref(middle))
        return middle.sin()

    y = checkpoint(f, leaf([1.0]), use_reentrant=False)
    gc.collect()
    assert kept[0]() is None
    y.backward()


def test_keyword_arguments():
    x = leaf([1.0, 2.0])
    checkpoint(curve, x, k=3.0, use_reentrant=False).sum().backward()
    assert same(x.grad, expected(x, 3.0).tolist())
    with pytest.raises(ValueError, match="Unexpected keyword arguments: k"):
        checkpoint(curve, x, k=3.0, use_reentrant=True)


@FORMS
def test_arguments_that_are_no_tensors(reentrant):
    x = leaf([1.0])
    f = lambda a, n, d: a * n * d["k"]
    checkpoint(f, x, 3, {"k": 2}, use_reentrant=reentrant).backward()
    assert same(x.grad, [6])


@FORMS
def test_several_results(reentrant):
    x = leaf([1.0, 2.0])
    a, b, c = checkpoint(lambda x: (x * 2, None, x**2), x, use_reentrant=reentrant)
    assert b is None
    (a.sum() + c.sum()).backward()
    assert same(x.grad, [4, 6])


@FORMS
def test_unused_argument(reentrant):
    x, w = leaf([1.0]), leaf([1.0])
    checkpoint(lambda a, b: a * 2, x, w, use_reentrant=reentrant).backward()
    assert same(x.grad, [2]) and w.grad is None


@FORMS
def test_module(reentrant):
    m, x = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)), torch.ones(1, 2)
    x.requires_grad_()
    m(x).sum().backward()
    want = [p.grad.clone() for p in m.parameters()] + [x.grad.clone()]
    m.zero_grad()
    x.grad = None
    checkpoint(m, x, use_reentrant=reentrant).sum().backward()
    got = [p.grad for p in m.parameters()] + [x.grad]
    assert all(torch.equal(a, b) for a, b in zip(want, got))


@FORMS
def test_in_place_ops_in_the_function(reentrant):
    def f(a):
        b = a * 2
        b.mul_(3)
        return b.relu_()

    x = leaf([1.0, -2.0])
    checkpoint(f, x, use_reentrant=reentrant).sum().backward()
    assert same(x.grad, [6, 0])


def test_second_derivative():
    x, y = leaf([1.0]), leaf([1.0])
    (g,) = autograd.grad(checkpoint(curve, x, use_reentrant=False), x, create_graph=True)
    (want,) = autograd.grad(curve(y), y, create_graph=True)
    assert same(g, want.tolist())
    assert same(autograd.grad(g, x)[0], autograd.grad(want, y)[0].tolist())


def test_parameters_that_are_no_arguments():
    w, x = leaf([3.0]), ones(1)
    checkpoint(lambda a: a * w, x, use_reentrant=False).backward()
    assert same(w.grad, [1])
    assert not checkpoint(lambda a: a * w, x, use_reentrant=True).requires_grad


@FORMS
def test_under_no_grad(reentrant):
    with torch.no_grad():
        assert not checkpoint(curve, leaf([1.0]), use_reentrant=reentrant).requires_grad


@FORMS
def test_nested(reentrant):
    calls = []

    def inner(x):
        calls.append(1)
        return x.sin()

    def outer(x):
        first = checkpoint(inner, x, use_reentrant=reentrant) * 2
        return checkpoint(inner, first, use_reentrant=reentrant)

    x, y = leaf([1.0]), leaf([1.0])
    checkpoint(outer, x, use_reentrant=reentrant).backward()
    (y.sin() * 2).sin().backward()
    assert same(x.grad, y.grad.tolist())
    assert len(calls) == (6 if reentrant else 5)


@FORMS
def test_two_backwards(reentrant):
    x = leaf([1.0])
    y = checkpoint(curve, x, use_reentrant=reentrant)
    y.backward(retain_graph=True)
    y.backward()
    assert same(x.grad, (2 * expected(x)).tolist())
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()


# ---- the re-entrant form's limits ----------------------------------------------------------------


def test_grad_and_inputs():
    x = leaf([1.0, 2.0])
    y = checkpoint(curve, x, use_reentrant=False)
    assert same(autograd.grad(y.sum(), x)[0], expected(x).tolist())
    y = checkpoint(curve, x, use_reentrant=False)
    y.sum().backward(inputs=[x])
    y = checkpoint(curve, x, use_reentrant=True)
    with pytest.raises(RuntimeError, match=r"incompatible with .grad\(\) or passing an `inputs`"):
        autograd.grad(y.sum(), x)
    with pytest.raises(RuntimeError, match=r"incompatible with .grad\(\) or passing an `inputs`"):
        y.sum().backward(inputs=[x])


def test_reentrant_warnings_and_errors():
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        checkpoint(curve, leaf([1.0]))
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        checkpoint(curve, ones(1), use_reentrant=True)
    for options in ({"context_fn": lambda: None}, {"debug": True}):
        with pytest.raises(ValueError, match="only supported when use_reentrant=False"):
            checkpoint(curve, leaf([1.0]), use_reentrant=True, **options)
    y = checkpoint(lambda a: a.detach() * 1, leaf([1.0]), use_reentrant=True)
    with pytest.raises(RuntimeError, match="none of output has requires_grad=True"):
        y.backward()


# ---- random numbers ------------------------------------------------------------------------------


def noisy(x):
    return x * torch.rand(1000, dtype=torch.float64)


@FORMS
def test_random_numbers_are_repeated(reentrant):
    x = torch.ones(1000, dtype=torch.float64).requires_grad_()
    y = checkpoint(noisy, x, use_reentrant=reentrant)
    state = torch.get_rng_state()
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())
    assert torch.equal(state, torch.get_rng_state()), "the generator goes on as if nothing ran"


@FORMS
def test_random_numbers_are_new_on_request(reentrant):
    x = torch.ones(1000, dtype=torch.float64).requires_grad_()
    y = checkpoint(noisy, x, use_reentrant=reentrant, preserve_rng_state=False)
    y.sum().backward()
    assert not torch.equal(x.grad, y.detach())


# ---- determinism ---------------------------------------------------------------------------------


def changing(first, later):
    """Returns a function that acts as ``first`` in its first call and as ``later`` afterwards."""
    calls = []

    def f(x):
        calls.append(1)
        return first(x) if len(calls) == 1 else later(x)

    return f


def test_fewer_saved_tensors():
    y = checkpoint(changing(torch.sin, lambda x: x + 2), leaf([1.0]), use_reentrant=False)
    with pytest.raises(CheckpointError, match="(?s)forward: 1.*recomputation: 0"):
        y.backward()


def test_more_saved_tensors():
    f = changing(torch.sin, lambda x: x.sin().exp().sin())
    with set_checkpoint_early_stop(False):
        y = checkpoint(f, leaf([1.0]), use_reentrant=False)
    with pytest.raises(CheckpointError, match="trying to save more tensors during recomputation"):
        y.backward()


def test_saved_tensors_of_another_shape():
    f = changing(torch.sin, lambda x: x[:1].sin())
    y = checkpoint(f, leaf([1.0, 2.0]), use_reentrant=False)
    with pytest.raises(CheckpointError, match=r"(?s)different metadata.*position 0.*\[2\].*\[1\]"):
        y.sum().backward()


def test_check_may_be_left_out():
    x = leaf([1.0, 2.0])
    f = changing(torch.sin, lambda x: x.float().sin())
    checkpoint(f, x, use_reentrant=False, determinism_check="none").sum().backward()
    assert same(x.grad, x.cos().tolist(), tol=1e-6)
    with pytest.raises(ValueError, match="determinism_check should be one of"):
        checkpoint(f, x, use_reentrant=False, determinism_check="some")


@pytest.mark.parametrize("everywhere", [True, False])
def test_debug_tells_where(everywhere):
    f = changing(torch.sin, lambda x: x[:1].sin())
    with set_checkpoint_debug_enabled(True if everywhere else None):
        y = checkpoint(f, leaf([1.0, 2.0]), use_reentrant=False, debug=not everywhere)
    with pytest.raises(CheckpointError, match="(?s)original forward:.*test_checkpoint.py:.*recomp"):
        y.sum().backward()


@FORMS
def test_errors_of_the_function(reentrant):
    def fail(x):
        raise LookupError("inside")

    with pytest.raises(LookupError, match="inside"):
        checkpoint(fail, leaf([1.0]), use_reentrant=reentrant)
    y = checkpoint(changing(torch.sin, fail), leaf([1.0]), use_reentrant=reentrant)
    with pytest.raises(LookupError, match="inside"):
        y.backward()


# ---- early stop, contexts ------------------------------------------------------------------------


def test_early_stop():
    ends = []

    def f(x):
        y = x.sin()
        ends.append(1)
        return y

    checkpoint(f, leaf([1.0]), use_reentrant=False).backward()
    assert len(ends) == 1, "the recomputation ended inside sin"
    checkpoint(f, leaf([1.0]), use_reentrant=False, early_stop=False).backward()
    assert len(ends) == 3
    with set_checkpoint_early_stop(False):
        y = checkpoint(f, leaf([1.0]), use_reentrant=False)
    y.backward()
    assert len(ends) == 5


@pytest.mark.parametrize(
    "last",
    [
        lambda x: x * x,
        lambda x: x.exp(),
        lambda x: torch.exp(x),
        lambda x: nn.functional.linear(x, x.reshape(1, 1)),
        lambda x: x.clone().mul_(x),
        lambda x: abs(x),
    ],
)
def test_every_way_to_call_the_last_op_ends_there(last):
    ends = []

    def f(x):
        y = last(x)
        ends.append(1)
        return y

    x = leaf([2.0])
    want = torch.autograd.grad(last(x), x)[0]
    y = checkpoint(f, x, use_reentrant=False)
    y.backward()
    assert len(ends) == 1
    assert torch.equal(x.grad, want)


def test_a_stop_during_a_function_ends_there_and_not_later():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * g * x

    order = []

    def f(x):
        y = Square.apply(x)
        order.append("function")
        y = y + 1
        order.append("op")
        return y

    x = leaf([3.0])
    checkpoint(f, x, use_reentrant=False).backward()
    assert order == ["function", "op"]
    assert x.grad.item() == 6
    y = checkpoint(Square.apply, x, use_reentrant=False)
    y.backward()  # no op follows the stop
    assert (torch.ones(1) + 1).exp().item() > 7, "the stop ended with the recomputation"


def test_a_stop_that_a_nested_recomputation_takes_back():
    def inner(x):
        return checkpoint(lambda t: t.sin().cos(), x, use_reentrant=False)

    def outer(x):
        y = inner(x.exp())
        with torch.enable_grad():
            z = x.detach().requires_grad_()
            (g,) = torch.autograd.grad(inner(z), z)
        return y * g

    x = leaf([0.3])
    want = torch.autograd.grad(outer(x), x)[0]
    checkpoint(outer, x, use_reentrant=False).backward()
    assert torch.equal(x.grad, want)


def test_context_fn():
    order = []

    @contextlib.contextmanager
    def note(name):
        order.append("in " + name)
        try:
            yield
        finally:
            order.append("out " + name)

    contexts = lambda: (note("forward"), note("recompute"))
    checkpoint(curve, leaf([1.0]), use_reentrant=False, context_fn=contexts).backward()
    assert order == ["in forward", "out forward", "in recompute", "out recompute"]


def test_saved_values_can_be_read_again():
    y = checkpoint(torch.exp, leaf([1.0]), use_reentrant=False)
    first, second = y.grad_fn._saved_result, y.grad_fn._saved_result
    assert torch.equal(first, second) and torch.equal(first, y)


def test_tensor_unpacked_twice_in_one_backward():
    class Twice(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            ctx.saved_tensors
            ctx.saved_tensors
            return g * 2

    y = checkpoint(Twice.apply, leaf([1.0]), use_reentrant=False)
    with pytest.raises(CheckpointError, match="already unpacked once"):
        y.backward()


def test_hooks_around_a_checkpoint_see_its_inputs_only():
    packed = []

    def pack(t):
        packed.append(tuple(t.shape))
        return t

    x = leaf([1.0, 2.0])
    with autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        y = checkpoint(lambda a: a.sin().exp().sum(), x, use_reentrant=False)
    assert packed == [(2,)]
    y.backward()
    assert same(x.grad, (x.sin().exp() * x.cos()).tolist())


# ---- checkpoint_sequential -----------------------------------------------------------------------


@FORMS
@pytest.mark.parametrize("segments", [1, 2, 3, 4])
def test_sequential(reentrant, segments):
    layers = [nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3), nn.Tanh()]
    x, y = torch.ones(1, 3).requires_grad_(), torch.ones(1, 3).requires_grad_()
    nn.Sequential(*layers)(x).sum().backward()
    checkpoint_sequential(layers, segments, y, use_reentrant=reentrant).sum().backward()
    assert torch.equal(x.grad, y.grad)


def test_sequential_of_wrong_arguments():
    x = torch.ones(1).requires_grad_()
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        checkpoint_sequential([nn.Identity()], 1, x)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: foo"):
        checkpoint_sequential([nn.Identity()], 1, x, use_reentrant=False, foo=1)
    with pytest.raises(ValueError, match="between 1 and the number of functions"):
        checkpoint_sequential([nn.Identity()], 2, x, use_reentrant=False)


def test_helpers():
    a, b = module.detach_variable((leaf([1.0]) * 1, 3))
    assert a.is_leaf and a.requires_grad and b == 3
    with pytest.raises(RuntimeError, match="Unsupported input type: list"):
        module.detach_variable([1])
    assert module.get_device_states(a) == ([], [])


# ---- selective checkpointing ---------------------------------------------------------------------


def product(x, w):
    h = torch.mm(x, w).sin()
    h = torch.mm(h, w)
    return (h.exp() * h).relu().sum()


def matrices():
    x = torch.arange(1, 5, dtype=torch.float64).reshape(2, 2).div(7)
    return x.requires_grad_(), x.detach().clone().requires_grad_()


def contexts(*args, **kwargs):
    return functools.partial(create_selective_checkpoint_contexts, *args, **kwargs)


@pytest.mark.parametrize(
    "ops",
    [
        ["mm"],
        [torch.mm],
        ["mm", "exp"],
        ["sin", "exp", "mm", "mul", "relu", "sum"],
        ["relu"],
        [],
    ],
)
def test_selective_gives_the_same_gradients(ops):
    x, w = matrices()
    a, b = matrices()
    product(x, w).backward()
    checkpoint(product, a, b, use_reentrant=False, context_fn=contexts(ops)).backward()
    assert torch.equal(a.grad, x.grad) and torch.equal(b.grad, w.grad)


def test_selective_does_not_compute_saved_ops_again():
    ran = []

    class Runs(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            ran.append(func.__name__)
            return func(*args, **(kwargs or {}))

    x, w = matrices()
    with Runs():
        y = checkpoint(product, x, w, use_reentrant=False, context_fn=contexts(["mm"]))
        y.backward()
    assert ran.count("mm") == 2 and ran.count("exp") == 2


def test_selective_policy_function():
    asked = []

    def policy(ctx, op, *args, **kwargs):
        asked.append((ctx.is_recompute, op.__name__))
        return CheckpointPolicy.MUST_SAVE if op is torch.mm else CheckpointPolicy.PREFER_RECOMPUTE

    x, w = matrices()
    checkpoint(product, x, w, use_reentrant=False, context_fn=contexts(policy)).backward()
    first = [op for again, op in asked if not again]
    assert first == ["mm", "sin", "mm", "exp", "mul", "relu", "sum"]
    assert (True, "mm") in asked


def test_selective_notices_writes_to_what_it_keeps():
    def f(x, w):
        h = torch.mm(x, w)
        out = h.sin().sum()
        h.mul_(2)
        return out

    x, w = matrices()
    y = checkpoint(f, x, w, use_reentrant=False, context_fn=contexts(["mm"]))
    with pytest.raises(RuntimeError, match="checkpointing keeps has been modified"):
        y.backward()


def test_selective_with_wrong_arguments():
    with pytest.raises(TypeError, match="either a function or a list"):
        create_selective_checkpoint_contexts(3)
    with pytest.raises(ValueError, match="Expected an op"):
        create_selective_checkpoint_contexts([3])
    x, w = matrices()
    with pytest.raises(TypeError, match="must return a CheckpointPolicy, got str"):
        checkpoint(product, x, w, use_reentrant=False, context_fn=contexts(lambda *a: "save"))


# ---- interrupts ----------------------------------------------------------------------------------


def test_an_interrupt_leaves_no_hook_on():
    """Ctrl-C may come at the begin or the end of any Python function that a checkpoint runs."""

    class Interrupt(BaseException):
        pass

    x = leaf([0.5, -1.0])
    for countdown in itertools.count(1):
        left = countdown

        def tick(frame, event, arg):
            nonlocal left
            callback = frame.f_code.co_filename == weakref.__file__  # its exceptions are ignored
            left -= event in ("call", "return") and not callback
            if left == 0 and not callback:
                raise Interrupt

        caught = None
        before = sys.getprofile()
        sys.setprofile(tick)
        try:
            checkpoint(curve, x, use_reentrant=False).sum().backward()
        except Interrupt as error:
            caught = error  # its traceback holds the frames
        finally:
            sys.setprofile(before)
        assert (x * x).grad_fn._raw_saved_self.unpack_hook is None, countdown
        assert not module.active.forwards and not module.active.refills, countdown
        if caught is None:
            break
    assert countdown > 20
    assert same(x.grad, expected(x))


def test_a_context_that_swallows_does_not_keep_the_error():
    def fails(x):
        raise KeyError("x")

    def contexts():
        return contextlib.suppress(KeyError), contextlib.nullcontext()

    with pytest.raises(KeyError):
        checkpoint(fails, leaf([1.0]), use_reentrant=False, context_fn=contexts)


HELD = {
    "plain": contextlib.nullcontext,
    "identity": lambda: torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t),
    "save_on_cpu": torch.autograd.graph.save_on_cpu,
    "allow_mutation": torch.autograd.graph.allow_mutation_on_saved_tensors,
}


@pytest.mark.parametrize("held", HELD.values(), ids=HELD)
@pytest.mark.parametrize("size", [3, 2**16])  # larger inputs use kernels with separate tensors
@pytest.mark.parametrize("of_graph", [True, False])
def test_reentrant_whatever_keeps_its_inputs(held, size, of_graph):
    """It also keeps one of two inputs: the gradient of the other must not be all there is."""
    x = torch.linspace(0.5, 1.5, size, dtype=torch.float64).requires_grad_()
    w = torch.tensor([2.0, 3.0], dtype=torch.float64, requires_grad=True)

    with held():
        given = x * 1 if of_graph else x
        out = checkpoint(lambda x, w: x.sin() * w.prod(), given, w, use_reentrant=True)
        out.sum().backward()
    with torch.no_grad():
        torch.testing.assert_close(x.grad, 6 * x.cos())
        torch.testing.assert_close(w.grad, x.sin().sum() * torch.tensor([3.0, 2.0]).double())


def test_a_write_to_what_was_saved_inside_raises_as_without_a_checkpoint():
    def f(x):
        y = x.sin()
        z = y * y
        y.mul_(2)
        return z.exp()

    x = torch.ones(3, requires_grad=True)
    for call in (f, lambda x: checkpoint(f, x, use_reentrant=False)):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            call(x).sum().backward()


def test_a_write_before_a_tensor_is_saved_inside():
    def f(x):
        y = x.sin()
        y.mul_(2)
        return (y * y).exp()

    x = torch.ones(3, requires_grad=True)
    (expected,) = torch.autograd.grad(f(x).sum(), x)
    (found,) = torch.autograd.grad(checkpoint(f, x, use_reentrant=False).sum(), x)
    assert torch.equal(found, expected)
