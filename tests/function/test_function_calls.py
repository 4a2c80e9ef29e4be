# SPDX-License-Identifier: BSD-3-Clause
"""One call of a custom Function: in-place writes, results, and threads."""

import gc
import threading
import warnings

import pytest
from conftest import leaf, ones, same

import cograd as torch
from cograd.autograd import Function, GradcheckError, gradcheck, gradgradcheck


class Triple(Function):
    @staticmethod
    def forward(ctx, a):
        a.mul_(3)
        ctx.mark_dirty(a)
        return a

    @staticmethod
    def backward(ctx, g):
        return g * 3


class ScaleInPlace(Function):
    """Writes its second argument."""

    @staticmethod
    def forward(ctx, factor, a):
        ctx.save_for_backward(factor, a.clone())
        a.mul_(factor)
        ctx.mark_dirty(a)
        return a

    @staticmethod
    def backward(ctx, g):
        factor, before = ctx.saved_tensors
        return g * before, g * factor


class Returns(Function):
    """Returns the result of `made` for the argument."""

    made = None

    @staticmethod
    def forward(ctx, x):
        return Returns.made(x)

    @staticmethod
    def backward(ctx, *grads):
        Returns.grads = grads
        return sum(g for g in grads if g is not None)


def returned(made, x=None):
    Returns.made = staticmethod(made)
    return Returns.apply(leaf([1.0, 1.0]) if x is None else x)


# ---- threads -------------------------------------------------------------------------------------


def test_each_thread_sees_the_needs_of_its_own_run():
    both_inside = threading.Barrier(2, timeout=60)
    seen = {}

    class Product(Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, g):
            both_inside.wait()
            needs = ctx.needs_input_grad
            seen[threading.current_thread().name] = needs
            x, y = ctx.saved_tensors
            found = g * y if needs[0] else None, g * x if needs[1] else None
            both_inside.wait()
            assert ctx.needs_input_grad == needs
            return found

    x, y = leaf([2.0]), leaf([5.0])
    out = Product.apply(x, y)
    grads = {}

    def run(name, target):
        grads[name] = torch.autograd.grad(out, target, retain_graph=True)[0]

    threads = [
        threading.Thread(target=run, args=(name, t), name=name) for name, t in (("x", x), ("y", y))
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert seen == {"x": (True, False), "y": (False, True)}
    assert same(grads["x"], [5.0]) and same(grads["y"], [2.0])


def test_needs_of_a_run_are_those_of_the_outer_one_again_after_a_nested_backward():
    seen = []

    class Nested(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * y

        @staticmethod
        def backward(ctx, g):
            seen.append(ctx.needs_input_grad)
            if len(seen) == 1:
                torch.autograd.grad(out, y, retain_graph=True)
                seen.append(ctx.needs_input_grad)
            return g, g

    x, y = leaf([2.0]), leaf([5.0])
    out = Nested.apply(x, y)
    torch.autograd.grad(out, x, retain_graph=True)
    assert seen == [(True, False), (False, True), (True, False)]
    assert out.grad_fn.needs_input_grad == (True, True)


# ---- writes in place -----------------------------------------------------------------------------


def test_view_written_in_place_goes_through_backward():
    x = leaf([[1.0, 1.0], [1.0, 1.0]])
    a = x.clone()[0]
    c = Triple.apply(a)
    assert c is a
    c.sum().backward()
    assert same(x.grad, [[3, 3], [0, 0]])


def test_base_of_a_view_written_in_place_has_the_write_in_its_history():
    x = leaf([[1.0, 1.0], [1.0, 1.0]])
    base = x.clone()
    row, other = base[0], base[1]
    c = Triple.apply(row)
    (c.sum() + other.sum() * 2 + base.sum() * 5).backward()
    assert same(x.grad, [[18, 18], [7, 7]])


@pytest.mark.beyond_torch
def test_view_written_in_place_may_be_any_argument():
    x, factor = leaf([[1.0, 2.0], [3.0, 4.0]]), leaf([10.0, 20.0])
    base = x.clone()
    ScaleInPlace.apply(factor, base[0])
    base.sum().backward()
    assert same(x.grad, [[10, 20], [1, 1]]) and same(factor.grad, [1, 2])


@pytest.mark.beyond_torch
def test_writes_to_views_have_right_second_derivatives():
    def f(x):
        base = x.clone()
        Triple.apply(base[1])
        return (base**2).sum()

    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    assert gradcheck(f, (x,)) and gradgradcheck(f, (x,))


def test_only_the_needed_gradients_of_a_written_view_are_asked_for():
    x, factor = leaf([[1.0, 2.0], [3.0, 4.0]]), leaf([10.0, 20.0])
    base = x.clone()
    c = ScaleInPlace.apply(factor, base[0])
    (g,) = torch.autograd.grad(c.sum(), factor)
    assert same(g, [1, 2])


def test_dirty_argument_is_returned_itself():
    x = leaf([1.0, 1.0]) * 1
    assert Triple.apply(x) is x
    plain = ones(2)
    assert Triple.apply(plain) is plain and same(plain, [3, 3])


# ---- what comes back -----------------------------------------------------------------------------


def test_tensor_returned_twice_is_one_object():
    x = leaf([1.0, 1.0])

    def twice(t):
        y = t * 2
        return y, y

    a, b = returned(twice, x)
    assert a is b
    (a * 3 + b * 5).sum().backward()
    assert [g.tolist() for g in Returns.grads] == [[0, 0], [8, 8]]  # as in torch: the last one's
    assert same(x.grad, [8, 8])


def test_argument_returned_twice_gives_two_tensors():
    x = leaf([1.0, 1.0])
    a, b = returned(lambda t: (t, t), x)
    assert a is not b and a is not x
    (a * 3 + b * 5).sum().backward()
    assert same(x.grad, [8, 8])


@pytest.mark.parametrize("beside", [{"u": 3}, [1, 2], [], None, "text", (1, 2)])
def test_what_is_no_tensor_passes_through_untouched(beside):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y, got = returned(lambda t: (t * 2, beside))
    assert got is beside
    y.sum().backward()
    assert Returns.grads[1] is None


@pytest.mark.parametrize("wrap", [lambda t: [t], lambda t: (t,), lambda t: {"a": t}])
def test_container_that_hides_a_tensor_passes_through_with_a_warning(wrap):
    x = leaf([1.0, 1.0])
    for inside in (lambda t: t, lambda t: t * 3):
        with pytest.warns(UserWarning, match="Returns.forward returned a .*gets no gradient"):
            y, got = returned(lambda t, inside=inside: (t * 2, wrap(inside(t))), x)
        (held,) = got.values() if isinstance(got, dict) else got
        assert same(held.detach(), inside(x).detach()) and y.requires_grad
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        returned(lambda t: (t * 2, wrap(t)), x)


class Marked(torch.Tensor):
    pass


@pytest.mark.parametrize(
    "made",
    [
        lambda t: (t * 2).as_subclass(Marked),
        lambda t: t.as_subclass(Marked),
        lambda t: t.detach().as_subclass(Marked),
    ],
)
def test_output_made_a_subclass_stays_one(made):
    x = leaf([1.0, 1.0])
    y = returned(made, x)
    assert type(y) is Marked and y.requires_grad
    y.sum().backward()
    assert same(x.grad, [1, 1]) and type(x.grad) is torch.Tensor


def test_subclass_argument_returned_keeps_its_class_and_a_parameter_does_not():
    assert type(returned(lambda t: t, leaf([1.0]).as_subclass(Marked))) is Marked
    assert type(returned(lambda t: t, torch.nn.Parameter(ones(2)))) is torch.Tensor


# ---- undefined gradients -------------------------------------------------------------------------


def test_gradcheck_finds_a_backward_that_fails_on_none():
    class Fails(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            if g is None:
                raise RuntimeError("no gradient")
            return g * 2

    x = leaf([1.0])
    assert gradcheck(Fails.apply, (x,), check_undefined_grad=False)
    for fast in (False, True):
        with pytest.raises(GradcheckError, match="undefined"):
            gradcheck(Fails.apply, (x,), check_undefined_grad=True, fast_mode=fast)
    assert not gradcheck(Fails.apply, (x,), raise_exception=False)


def test_a_class_at_the_address_of_one_that_is_gone_is_another():
    x = torch.ones(2, requires_grad=True)

    def use_and_drop():
        class Gone(Function):
            @staticmethod
            def forward(ctx, a):
                return a * 2

            @staticmethod
            def backward(ctx, g):
                return g * 2

        Gone.apply(x).sum().backward()
        return id(Gone)

    gone = {use_and_drop() for _ in range(50)}
    gc.collect()
    later = [type("Plain", (torch._C._FunctionBase,), {}) for _ in range(200)]
    assert gone & {id(cls) for cls in later}, "no address was used again"
    for cls in later:
        with pytest.raises(RuntimeError, match="need a subclass of autograd.Function"):
            cls()._call_instance(x)


def test_a_saved_output_without_a_gradient_is_a_constant():
    class Cube(Function):
        @staticmethod
        def forward(ctx, x):
            square, mask = x**2, x > 0
            ctx.mark_non_differentiable(square, mask)
            ctx.save_for_backward(x, square, mask)
            return x**3, square, mask

        @staticmethod
        def backward(ctx, g, of_square, of_mask):
            x, square, mask = ctx.saved_tensors
            assert not square.requires_grad and not mask.requires_grad
            return g * 3 * square * mask

    x = leaf([2.0])
    y, _square, _mask = Cube.apply(x)
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    assert g.tolist() == [12.0]
    assert torch.autograd.grad(g.sum() + 0 * x.sum(), x)[0].tolist() == [0.0]  # as in torch
