# SPDX-License-Identifier: BSD-3-Clause
"""Autograd inside vmap and through it; threads; nothing stays behind."""

import gc
import threading

import pytest
from vmap_checks import X, grid

import cograd as torch
from cograd.autograd import grad
from cograd.func import vmap

# Ops without a rule warn once; which ops these are does not matter here.
pytestmark = pytest.mark.filterwarnings("ignore:vmap")

# --- autograd ----------------------------------------------------------------------------------


def test_gradients_through_vmap():
    t, w = X.clone().requires_grad_(), grid(3).requires_grad_()
    vmap(lambda a: (a * a * w).sum())(t).sum().backward()
    assert torch.equal(t.grad, 2 * X * grid(3))
    assert torch.equal(w.grad, (X * X).sum(0))


def test_backward_inside_of_vmap():
    def leaf(a):
        b = a.detach().clone().requires_grad_()
        (b**3).sum().backward()
        return b.grad

    assert torch.equal(vmap(leaf)(X), 3 * X * X)
    assert torch.equal(vmap(vmap(leaf))(X), 3 * X * X)

    def own(a):
        a.requires_grad_()
        return grad((a**3).sum(), a)[0]

    assert torch.equal(vmap(own)(X.clone()), 3 * X * X)


def test_gradients_of_gradients_inside():
    t = X.clone().requires_grad_()
    inner = vmap(lambda a: grad((a**3).sum(), a, create_graph=True)[0])(t)
    assert torch.equal(inner.detach(), 3 * X * X)
    assert torch.equal(grad(inner.sum(), t)[0], 6 * X)


def test_modes_inside_and_outside():
    t = X.clone().requires_grad_()
    assert vmap(lambda a: a * 2)(t).requires_grad
    with torch.no_grad():
        assert not vmap(lambda a: a * 2)(t).requires_grad
    with torch.inference_mode():
        assert vmap(lambda a: a * 2)(X).is_inference()

    def f(a):
        with torch.no_grad():
            b = a * 2
        return b * a + a.detach()

    assert torch.equal(grad(vmap(f)(t).sum(), t)[0], 2 * X)


def test_vmap_inside_of_hooks():
    t = X.clone().requires_grad_()
    t.register_hook(lambda g: vmap(lambda r: r * 2)(g))
    out = t * t
    out.grad_fn.register_hook(lambda gi, go: tuple(vmap(torch.neg)(g) for g in gi))
    out.sum().backward()
    assert torch.equal(t.grad, -4 * X)


def test_saved_tensor_hooks_and_retain_grad():
    t = X.clone().requires_grad_()
    kept = []

    def f(a):
        b = a * 2
        b.retain_grad()
        return (b.sin() * b).sum()

    with torch.autograd.graph.saved_tensors_hooks(lambda v: kept.append(v) or v, lambda v: v):
        out = vmap(f)(t)
    out.sum().backward()
    want = 2 * ((2 * X).cos() * 2 * X + (2 * X).sin())
    torch.testing.assert_close(t.grad, want)
    assert kept


def test_hooks_of_a_sample_are_refused():
    with pytest.raises(
        RuntimeError, match=r"register_hook\(\) is not possible.*outside of the vmap"
    ):
        vmap(lambda a: a.register_hook(print))(X.clone().requires_grad_())


# --- threads and leaks -------------------------------------------------------------------------


def test_threads_have_vmaps_of_their_own():
    found = {}

    def work(i):
        for _ in range(50):
            found[i] = vmap(lambda a: vmap(lambda b: b * i)(a).sum())(grid(4, 3))

    threads = [threading.Thread(target=work, args=(i,)) for i in (1, 2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(torch.equal(found[i], grid(4, 3).sum(1) * i) for i in (1, 2))


def test_samples_of_another_threads_vmap_raise():
    errors = []

    def use(a):
        try:
            a + 1
        except RuntimeError as e:
            errors.append(str(e))

    def f(a):
        t = threading.Thread(target=use, args=(a,))
        t.start()
        t.join()
        return a

    vmap(f)(X)
    assert len(errors) == 1
    assert "another thread" in errors[0]


def test_calls_leave_nothing_behind():
    t = X.clone().requires_grad_()

    def f(a):
        return vmap(lambda b: (b * a).sin().sum())(X)

    def run(n):
        for _ in range(n):
            vmap(f)(t).sum().backward()
            with pytest.raises(RuntimeError):
                vmap(lambda a: a.item())(t)

    run(5)
    gc.collect()
    nodes, objects = torch._C._live_nodes(), len(gc.get_objects())
    run(300)
    gc.collect()
    assert torch._C._live_nodes() <= nodes
    assert len(gc.get_objects()) < objects + 200
    assert torch._C._vmap_depth() == 0
