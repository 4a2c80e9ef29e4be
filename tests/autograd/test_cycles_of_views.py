# SPDX-License-Identifier: BSD-3-Clause
"""Constants that get a history by a write to a view of theirs are seen by Python's collector."""

import gc
import weakref

import numpy as np
import pytest

import cograd as torch
from cograd.autograd import Function


def leaf(*shape):
    return torch.ones(*shape, requires_grad=True)


def hooked(node, *held):
    """Makes the node hold the tensors; returns a weak reference to what it holds with them."""
    mark = type("Mark", (), {})()
    held = (*held, mark)
    node.register_hook(lambda *_: held and None)
    return weakref.ref(mark)


VIEWS = {
    "slice": lambda b: b[0:1],
    "select": lambda b: b[0],
    "view": lambda b: b.view(3),
    "view of a view": lambda b: b[0:2][0:1],
    "view_as": lambda b: b.view_as(b),
    "unsqueeze": lambda b: b.unsqueeze(0),
}
WRITES = {
    "copy_": lambda v: v.copy_(leaf(v.shape)),
    "mul_": lambda v: v.mul_(leaf(v.shape)),
    "*=": lambda v: v.__imul__(leaf(v.shape)),
    "[...] =": lambda v: v.__setitem__(..., leaf(v.shape)),
    "twice": lambda v: v.add_(leaf(v.shape)).exp_(),
    "foreach": lambda v: torch._foreach_mul_([v], [leaf(v.shape)]),
    "Function": lambda v: Doubled.apply(v, leaf(v.shape)),
}
HOLDERS = {
    "grad_fn": lambda base, v, held: hooked(base.grad_fn, *held),
    "what the view's grad_fn leads to": lambda base, v, held: hooked(
        v.grad_fn.next_functions[0][0], *held
    ),
}


class Doubled(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.mark_dirty(x)
        return x.mul_(2).add_(y)

    @staticmethod
    def backward(ctx, g):
        return 2 * g, g


def freed(make, *args):
    ref = make(*args)
    assert ref() is not None
    gc.collect()
    return ref() is None


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("view", VIEWS)
def test_a_hook_that_holds_a_written_constant_is_freed(view, write):
    def cycle(holder, held):
        base = torch.zeros(3)
        v = VIEWS[view](base)
        WRITES[write](v)
        return HOLDERS[holder](base, v, {"base": (base,), "view": (v,), "both": (base, v)}[held])

    for holder in HOLDERS:
        for held in ("base", "view", "both"):
            assert freed(cycle, holder, held), (holder, held)


def test_a_view_that_was_not_written():
    def cycle():
        base = torch.zeros(3)
        v, u = base[:1], base[1:]
        v.mul_(leaf(1))
        return hooked(base.grad_fn, u)

    assert freed(cycle)


def test_a_view_of_a_base_that_was_written():
    def cycle():
        base = torch.zeros(4)
        u, _ = base.chunk(2)
        base.mul_(leaf(4))
        return hooked(base.grad_fn, u)

    assert freed(cycle)


def test_a_base_whose_object_is_younger_than_the_view():
    def cycle():
        v = torch.zeros(3)[:1]
        base = v._base
        v.mul_(leaf(1))
        return hooked(base.grad_fn, base)

    assert freed(cycle)


@pytest.mark.parametrize("make", [np.zeros, lambda n: torch.nn.Parameter(torch.zeros(n)).detach()])
def test_memory_of_others(make):
    def cycle():
        base = torch.as_tensor(make(3))
        base[0][...] = leaf().to(base.dtype)
        return hooked(base.grad_fn, base)

    assert freed(cycle)


def test_nothing_is_freed_that_is_used():
    base = torch.zeros(3)
    base[:1].mul_(x := leaf(1))
    seen = []
    base.grad_fn.register_hook(lambda *_: seen.append(base.shape))
    gc.collect()
    base.sum().backward()
    assert seen == [(3,)] and x.grad.tolist() == [0]
