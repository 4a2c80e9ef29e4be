# SPDX-License-Identifier: BSD-3-Clause
"""Small programs that the hunters interrupt, fork and run without memory. Each returns a number."""

import io
import math
import pickle
import warnings

import numpy as np

import cograd as torch
from cograd import nn
from cograd.autograd import Function

F = nn.functional


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        y = x * x
        ctx.save_for_backward(x, y)
        ctx.mark_non_differentiable()
        return y

    @staticmethod
    def backward(ctx, g):
        x, _ = ctx.saved_tensors
        return 2 * g * x


class Pair(Function):
    @staticmethod
    def forward(x, k):
        return x * k, x + k

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.k = inputs[1]

    @staticmethod
    def backward(ctx, a, b):
        return a * ctx.k + b, None


def leaf(*shape):
    return torch.arange(1.0, 1 + math.prod(shape)).reshape(shape).requires_grad_()


def small_ops():
    x = torch.ones(4)
    return float(((x + 1) * x - x / 2).exp().sum())


def backward():
    x = leaf(3, 4)
    ((x * 2).tanh() @ x.t()).sum().backward()
    return float(x.grad.sum())


def double_backward():
    x = leaf(3)
    (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    return float(h.sum())


def functions():
    x = leaf(3)
    a, b = Pair.apply(Square.apply(x), 3.0)
    (a * b).sum().backward()
    return float(x.grad.sum())


def inplace_views():
    x = leaf(4, 4)
    y = x * 1
    y[1:3].mul_(2)
    y.t()[0].add_(1)
    y.sum().backward()
    return float(x.grad.sum())


def indexing():
    x = leaf(5, 4)
    y = x[[0, 2]] + x[torch.tensor([True, False, True, False, False])] + x[1:3, [0, 1, 2, 3]]
    y[torch.tensor([0])] = 1.0
    y.sum().backward()
    return float(x.grad.sum())


def hooks():
    x = leaf(3)
    seen = []
    x.register_hook(lambda g: seen.append(g) or g * 2)
    y = x * 3
    y.grad_fn.register_hook(lambda gi, go: None)
    y.register_hook(lambda g: g + 1)
    y.sum().backward()
    return float(x.grad.sum()) + len(seen)


def saved_hooks():
    x = leaf(3)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.numpy().copy(), torch.from_numpy):
        y = (x * x).exp().sum()
    (y * 0).backward()
    return float(x.grad.sum())


def transforms():
    x = torch.arange(6.0).reshape(2, 3)
    f = lambda v: (v * v).sin().sum()
    got = torch.func.vmap(torch.func.grad(f))(x)
    out, tangent = torch.func.jvp(f, (x,), (torch.ones_like(x),))
    return float(got.sum() + out + tangent)


def jacobians():
    x = torch.arange(3.0)
    f = lambda v: v[:2] * v.sum()
    return float(torch.func.jacrev(f)(x).sum() + torch.func.hessian(lambda v: f(v).sum())(x).sum())


def layers():
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2)
    )
    optimizer = torch.optim.Adam(net.parameters())
    loss = F.cross_entropy(net(torch.ones(2, 1, 4, 4)), torch.tensor([0, 1]))
    loss.backward()
    optimizer.step()
    return round(float(loss.detach()), 4)


def decompositions():
    a = (torch.eye(3) * 2 + 1).requires_grad_()
    (torch.linalg.inv(a).sum() + torch.linalg.svd(a)[1].sum() + torch.linalg.det(a)).backward()
    return round(float(a.grad.sum()), 3)


def joins():
    x = leaf(6)
    parts = x.split(2)
    y = torch.cat([torch.stack(parts).flatten(), x]).sort()[0].cumsum(0)
    y.sum().backward()
    return float(x.grad.sum())


def interop():
    x = torch.ones(3)
    a = x.numpy()
    y = torch.from_dlpack(np.from_dlpack(x)) + torch.from_numpy(a) + torch.tensor(a.tolist())
    return float(y.sum()) + float(np.asarray(memoryview(y)).sum())


def files():
    room = io.BytesIO()
    torch.save({"a": torch.ones(3), "b": [1, 2.5, "x"]}, room)
    room.seek(0)
    back = torch.load(room)
    return float(back["a"].sum() + pickle.loads(pickle.dumps(back["a"])).sum())


def printing():
    return float(len(repr(torch.arange(5.0)))) + len(str(torch.ones(2, 2, dtype=torch.complex64)))


def random_numbers():
    torch.manual_seed(1)
    return round(float(torch.rand(3).sum() + torch.randn(3).sum() + torch.randperm(4).sum()), 4)


def spectra():
    x = leaf(8)
    torch.fft.rfft(x).abs().sum().backward()
    return round(float(x.grad.sum()), 3)


def failures():
    count = 0
    for bad in (
        lambda: torch.ones(2) + torch.ones(3),
        lambda: torch.ones(2)[5],
        lambda: torch.ones(2).view(3),
    ):
        try:
            bad()
        except (RuntimeError, IndexError) as e:
            if isinstance(e, MemoryError):
                raise
            count += 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.ones(3, out=torch.ones(2))
    return float(count)


def long_chain():
    x = leaf(2)
    y = x
    for _ in range(40):
        y = y + 1
    y.sum().backward()
    return float(x.grad.sum())


PROGRAMS = [
    small_ops, backward, double_backward, functions, inplace_views, indexing, hooks, saved_hooks,
    transforms, jacobians, layers, decompositions, joins, interop, files, printing, random_numbers,
    spectra, failures, long_chain,
]  # fmt: skip
# safetensors and SciPy release the interpreter lock. Before 3.14, Python ends threads that acquire
# it again at exit, and in their code this ends the process.
OF_OTHERS = (files, spectra)
