# SPDX-License-Identifier: BSD-3-Clause
"""Tensors that a call uses keep memory and geometry, whatever code runs meanwhile."""

import contextlib
import gc
import signal
import sys
import threading

import pytest
from op_items import each_cell

import cograd as torch
import cograd.nn.functional as F
from cograd.autograd import forward_ad as fw
from cograd.autograd.graph import saved_tensors_hooks


def other_data(t):
    t.data = torch.zeros(2, 2)


# --- hooks that pack and unpack -----------------------------------------------------------------

FORWARDS = {
    "mm": (lambda a, b: a.mm(b), (40, 40), (40, 4)),
    "matmul": (lambda a, b: a @ b, (3, 40, 40), (40, 4)),
    "einsum": (lambda a, b: torch.einsum("ij,jk->ik", a, b), (40, 40), (40, 4)),
    "tensordot": (lambda a, b: torch.tensordot(a, b, 1), (40, 40), (40, 4)),
    "mul": (lambda a, b: a * b, (40, 40), (40, 40)),
    "conv2d": (lambda a, b: F.conv2d(a, b), (2, 3, 9, 9), (4, 3, 3, 3)),
    "linear": (lambda a, b: F.linear(a, b), (5, 40), (4, 40)),
    "layer_norm": (lambda a, b: F.layer_norm(a, (40,), b), (40, 40), (40,)),
    "solve_triangular": (
        lambda a, b: torch.linalg.solve_triangular(a, b, upper=True, unitriangular=True),
        (40, 40),
        (40, 4),
    ),
}


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("name", FORWARDS)
def test_a_pack_hook_leaves_the_arguments_as_they_are(name, which):
    f, *shapes = FORWARDS[name]
    given = [torch.rand(*s).requires_grad_() for s in shapes]
    refused = []

    def pack(t):
        try:
            other_data(given[which])
        except RuntimeError as e:
            refused.append(str(e))
        return t

    with saved_tensors_hooks(pack, lambda t: t):
        y = f(*given)
    assert refused and all("argument of" in text for text in refused)
    assert given[which].shape == shapes[which]
    y.sum().backward()


def test_what_a_pack_hook_makes_is_its_own():
    def pack(t):
        copy = torch.empty(0)
        copy.resize_(t.numel())
        copy.copy_(t.detach().reshape(-1))
        copy.data = copy.view(t.shape)
        return copy.unsqueeze_(0)

    x = torch.rand(3, 4).requires_grad_()
    with saved_tensors_hooks(pack, lambda t: t.squeeze(0)):
        (x * x).sum().backward()
    assert torch.equal(x.grad, 2 * x.detach())


def test_what_only_ops_know_may_be_changed_by_the_hook_that_saw_it():
    seen = []

    def pack(t):
        for old in seen:
            with contextlib.suppress(RuntimeError):  # an argument of the op, or memory of an op
                other_data(old)
        seen.append(t)
        return t.detach().clone()

    x = torch.rand(40, 40).requires_grad_()
    with saved_tensors_hooks(pack, lambda t: t):
        y = ((x * 2) @ (x * 3)).sum()
    y.backward()
    assert torch.isfinite(x.grad).all() and len(seen) >= 2


BACKWARDS = {
    "batch_norm": lambda x, w: F.batch_norm(x, None, None, w, torch.zeros(40), True),
    "layer_norm": lambda x, w: F.layer_norm(x, (40,), w),
    "mul": lambda x, w: x * w,
    "solve": lambda x, w: torch.linalg.solve(x.detach() + 40 * torch.eye(40) + 0 * x, w),
}


@pytest.mark.parametrize("name", BACKWARDS)
def test_an_unpack_hook_cannot_change_what_else_was_saved(name):
    x, w = torch.rand(40, 40).requires_grad_(), torch.rand(40).requires_grad_()
    ran = []

    def unpack(t):
        for other in (x, w):
            if t is not other:
                ran.append(1)
                with contextlib.suppress(RuntimeError):
                    other_data(other)
        return t

    with saved_tensors_hooks(lambda t: t, unpack):
        y = BACKWARDS[name](x, w)
    try:
        y.sum().backward()
    except RuntimeError as e:
        assert "shape" in str(e)
    assert ran


def test_an_unpack_hook_of_one_slot_cannot_change_another_slots_tensor():
    x, w = torch.rand(40, 40).requires_grad_(), torch.rand(40).requires_grad_()
    y = F.layer_norm(x, (40,), w)
    y.grad_fn._raw_saved_weight.register_hooks(lambda t: t, lambda t: (other_data(x), t)[1])
    with pytest.raises(RuntimeError, match=r"x\.data = y: the tensor was saved by"):
        y.sum().backward()


# --- hooks that see gradients -------------------------------------------------------------------

NODES = {
    "softmax": lambda x: x.softmax(0),
    "log_softmax": lambda x: x.log_softmax(1),
    "layer_norm": lambda x: F.layer_norm(x, (40,)),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "cummax": lambda x: x.cummax(0).values,
    "index_select": lambda x: x.index_select(0, torch.arange(30)),
    "take": lambda x: x.take(torch.arange(90)),
    "avg_pool2d": lambda x: F.avg_pool2d(x[None], 2),
    "interpolate": lambda x: F.interpolate(x[None, None], (50, 50), mode="bilinear"),
    "mul": lambda x: x * 2,
}


@each_cell("create_graph", [False, True])
@each_cell("where", ["tensor", "node"])
@each_cell("name", NODES)
def test_a_gradient_of_another_geometry_is_told(name, where, create_graph):
    x = torch.rand(40, 40).requires_grad_()
    y = NODES[name](x)
    if where == "tensor":
        y.register_hook(other_data)
    else:
        y.grad_fn.register_prehook(lambda gs: other_data(gs[0]))
    with pytest.raises(RuntimeError, match=r"gradient of output 0 of \w+ has become a tensor"):
        y.backward(torch.ones_like(y), create_graph=create_graph)


def test_a_hook_of_a_leaf_keeps_the_geometry_and_dtype():
    x = torch.rand(3).requires_grad_()
    x.register_hook(lambda g: setattr(g, "data", torch.zeros(5, dtype=torch.int32)))
    with pytest.raises(RuntimeError, match="gradient of output 0"):
        (x * 2).sum().backward()
    assert x.grad is None


def test_a_hook_may_give_a_gradient_new_data_of_its_kind():
    x = torch.rand(3).requires_grad_()
    y = x * 2
    y.register_hook(lambda g: setattr(g, "data", torch.full((3,), 5.0)))
    y.backward(torch.ones(3))
    assert x.grad.tolist() == [10.0, 10.0, 10.0]


def test_the_gradient_that_is_passed_stays_the_callers():
    x, given = torch.rand(40, 40).requires_grad_(), torch.ones(40, 40)
    with saved_tensors_hooks(lambda t: t, lambda t: (other_data(given), t)[1]):
        y = x.exp()
    y.backward(given)
    assert torch.equal(x.grad, x.detach().exp()) and given.shape == (2, 2)


def test_a_hook_on_the_probe_of_a_backward():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            if g.requires_grad:
                g.register_hook(lambda h: setattr(g, "data", torch.zeros(5000)))
            return g * 2

    with pytest.raises(RuntimeError, match="has become a tensor"):
        torch.func.jvp(Twice.apply, (torch.ones(3),), (torch.ones(3),))


# --- finalizers, signals, other threads ---------------------------------------------------------


@pytest.mark.parametrize(
    "call", [lambda x: x.unbind(), lambda x: x.split(1), lambda x: x.chunk(10**6), list]
)
def test_a_signal_handler_leaves_what_is_split(call):
    x = torch.rand(200_000, 4)
    refused = []

    def handler(*_):
        try:
            x.data = torch.zeros(())
        except RuntimeError as e:
            refused.append(str(e))

    before = signal.signal(signal.SIGALRM, handler)
    try:
        for _ in range(20):
            signal.setitimer(signal.ITIMER_REAL, 0.003)
            parts = call(x)
            signal.setitimer(signal.ITIMER_REAL, 0)
            if x.dim() == 0:  # it came before or after the call
                x = torch.rand(200_000, 4)
                continue
            assert len(parts) == 200_000 and parts[-1].untyped_storage().nbytes() == 3_200_000
            if refused:
                break
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert all("argument of" in text for text in refused)


@pytest.mark.filterwarnings("ignore:Anomaly")
@pytest.mark.skipif(
    sys.version_info >= (3, 12),
    reason="CPython collects between instructions, not inside of a call",
)
def test_a_collection_while_a_view_is_made():
    x = torch.rand(200, 200).requires_grad_()
    on, refused = [], []

    def callback(phase, info):
        if on:
            try:
                other_data(x)
            except RuntimeError as e:
                refused.append(str(e))

    gc.callbacks.append(callback)
    threshold = gc.get_threshold()
    try:
        with torch.autograd.detect_anomaly(check_nan=False):
            on.append(1)
            gc.set_threshold(1)
            y = x[190:]
            gc.set_threshold(*threshold)
            on.clear()
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(callback)
    assert refused and y.shape == (10, 200) and torch.isfinite(y.sum())


def test_new_data_waits_for_the_op_of_another_thread():
    lin, inp = torch.nn.Linear(400, 2000), torch.rand(256, 400)
    ended, errors = [], []

    def swap():
        try:
            while not ended:
                for p in lin.parameters():
                    p.data = p.data.clone()
        except BaseException as e:
            errors.append(e)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        with torch.no_grad():
            expected = lin(inp)
            for _ in range(50):
                assert torch.equal(lin(inp), expected)
    finally:
        ended.append(1)
        thread.join()
    assert not errors


def test_another_geometry_waits_for_the_op_of_another_thread():
    x = torch.ones(2_000_000)
    ended, errors = [], []

    def swap():
        try:
            while not ended:
                x.data = torch.ones(1)
                x.data = torch.ones(2_000_000)
        except BaseException as e:
            errors.append(e)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(50):
            assert x.sin().numel() in (1, 2_000_000)
            assert x.sum().item() in (1.0, 2e6)
            assert x.cumsum(0).numel() in (1, 2_000_000)
    finally:
        ended.append(1)
        thread.join()
    assert not errors


# --- tangents -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(50,), (2, 2), ()])
def test_a_tensor_with_a_tangent_keeps_its_geometry(shape):
    def f(x):
        x.data = torch.zeros(shape)
        return x[..., :1]

    with pytest.raises(RuntimeError, match=r"forward AD: x\.data = y: x, of shape \[3\]"):
        torch.func.jvp(f, (torch.ones(3),), (torch.ones(3),))


def test_new_data_of_its_geometry_keeps_the_tangent():
    with fw.dual_level():
        x = fw.make_dual(torch.ones(3), torch.ones(3))
        x.data = torch.full((3,), 2.0)
        assert fw.unpack_dual(x * x).tangent.tolist() == [4.0, 4.0, 4.0]
        whole = torch.zeros(3)
        part = whole[:2]
        whole.copy_(x)  # the view's tangent is a part of the base's
        with pytest.raises(RuntimeError, match="is a view of a tensor that has one"):
            part.data = torch.zeros(2)


def test_tangents_of_views_of_the_other_kind_of_numbers():
    tangent = torch.arange(8.0).reshape(4, 2)
    with fw.dual_level():
        x = torch.zeros(4, 2)
        v, whole = torch.view_as_complex(x[1:3]), torch.view_as_complex(x)
        x.copy_(fw.make_dual(torch.ones(4, 2), tangent))
        assert fw.unpack_dual(v * 1).tangent.tolist() == [2 + 3j, 4 + 5j]
        assert fw.unpack_dual(whole * 1).tangent.tolist() == [1j, 2 + 3j, 4 + 5j, 6 + 7j]
        v.mul_(10)
        assert fw.unpack_dual(x).tangent.tolist() == [[0, 1], [20, 30], [40, 50], [6, 7]]
    with fw.dual_level():
        z = torch.zeros(3, dtype=torch.complex64)
        parts, imag = torch.view_as_real(z)[1:], z[1:].imag
        z.copy_(fw.make_dual(torch.ones(3) + 0j, torch.tensor([1 + 2j, 3 + 4j, 5 + 6j])))
        assert fw.unpack_dual(parts * 1).tangent.tolist() == [[3, 4], [5, 6]]
        assert fw.unpack_dual(imag * 1).tangent.tolist() == [4, 6]
        imag.mul_(10)
        assert fw.unpack_dual(z).tangent.tolist() == [1 + 2j, 3 + 40j, 5 + 60j]
