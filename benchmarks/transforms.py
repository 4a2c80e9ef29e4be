# SPDX-License-Identifier: BSD-3-Clause
"""Measures forward mode, vmap and the transforms of functions."""

# mypy: ignore-errors
from __future__ import annotations

import importlib
import warnings

from .case import bench, group

group("transforms", "Forward mode, vmap and func")


def parts(torch):
    """Returns the module's `func` and `autograd.forward_ad`."""
    name = torch.__name__
    return importlib.import_module(f"{name}.func"), importlib.import_module(
        f"{name}.autograd.forward_ad"
    )


@bench("transforms", name="jvp of 1000 small operations, per operation", per=1000, target=6.0)
def jvp_chain(torch):
    _, fwd = parts(torch)
    x, t = torch.rand(4), torch.rand(4)

    def run():
        with fwd.dual_level():
            d = fwd.make_dual(x, t)
            for _ in range(250):
                d = d * 1.01
                d = d + 0.1
                d = torch.tanh(d)
                d = d - 0.1
            return fwd.unpack_dual(d)

    return "run()", vars()


@bench("transforms", name="jvp of an MLP of 3 layers, batch 64", target=2.0)
def jvp_mlp(torch):
    func, _ = parts(torch)
    torch.manual_seed(0)
    nn = torch.nn
    model = nn.Sequential(
        nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10)
    )
    params = {k: p.detach() for k, p in model.named_parameters()}
    directions = {k: torch.randn(p.shape) for k, p in params.items()}
    x = torch.randn(64, 64)

    def run():
        def f(p):
            return func.functional_call(model, p, (x,))

        return func.jvp(f, (params,), (directions,))

    return "run()", vars()


@bench("transforms", name="per-sample gradients of an MLP, batch", batch=(64, 512), target=1.5)
def per_sample(torch, batch):
    func, _ = parts(torch)
    torch.manual_seed(0)
    nn, F = torch.nn, torch.nn.functional
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))
    params = {k: p.detach() for k, p in model.named_parameters()}
    x, y = torch.randn(batch, 16), torch.randn(batch, 4)

    def loss(p, x, y):
        return F.mse_loss(func.functional_call(model, p, (x,)), y)

    run = func.vmap(func.grad(loss), (None, 0, 0))
    return "run(params, x, y)", vars()


@bench("transforms", name="Hessian of a function of 100 numbers", target=3.0)
def hessian(torch):
    func, _ = parts(torch)
    torch.manual_seed(0)
    a, x = torch.randn(100, 100) * 0.1, torch.randn(100)
    run = func.hessian(lambda x: (torch.tanh(a @ x) ** 2).sum() + (x**4).sum())
    return "run(x)", vars()


@bench(
    "transforms",
    name="Jacobian of an MLP 100 -> 100 by",
    how=("jacrev", "jacfwd"),
    target=3.0,
)
def jacobian(torch, how):
    func, _ = parts(torch)
    torch.manual_seed(0)
    w1, w2 = torch.randn(100, 100) * 0.1, torch.randn(100, 100) * 0.1
    x = torch.randn(100)
    run = getattr(func, how)(lambda x: torch.tanh(torch.tanh(x @ w1) @ w2))
    return "run(x)", vars()


@bench("transforms", name="ensemble of 10 MLPs by vmap of functional_call", target=2.0)
def ensemble(torch):
    func, _ = parts(torch)
    torch.manual_seed(0)
    nn = torch.nn
    models = [nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4)) for _ in range(10)]
    params, buffers = func.stack_module_state(models)
    params = {k: p.detach() for k, p in params.items()}
    base, x = models[0], torch.randn(8, 16)

    def call(p, b, x):
        return func.functional_call(base, (p, b), (x,))

    run = func.vmap(call, (0, 0, None))
    return "run(params, buffers, x)", vars()


@bench("transforms", name="Function without a rule, 100 samples (torch: a loop)", target=3.0)
def plain_function(torch):
    func, _ = parts(torch)

    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return g * y

    x = torch.randn(100, 8)
    if torch.__name__ == "torch":  # vmap raises in torch

        def run(x):
            return torch.stack([Exp.apply(row) for row in x.unbind(0)])
    else:
        run = func.vmap(Exp.apply)
        warnings.simplefilter("ignore")  # warns that it runs sample by sample
    return "run(x)", vars()
