# SPDX-License-Identifier: BSD-3-Clause
"""Measures custom Functions in Python, and the Legendre program."""

# mypy: ignore-errors
from __future__ import annotations

import math

from .case import bench, group

group("function", "Python Function, 4 elements")


def functions(torch):
    """Returns the custom Functions by name."""
    Function = torch.autograd.Function

    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return g * y

    class Scale(Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx, g):
            return g * ctx.factor, None

    class ExpSetup(Function):
        @staticmethod
        def forward(x):
            return x.exp()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(output)

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return g * y

    class Legendre(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return 0.5 * (5 * x**3 - 3 * x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 1.5 * (5 * x**2 - 1)

    return {"Exp": Exp, "Scale": Scale, "ExpSetup": ExpSetup, "Legendre": Legendre}


def function(name: str, statement: str, target: float | None, prepare: str = "", per: int = 1):
    """Registers a statement over x, g and the `apply` of the classes above."""

    @bench("function", name=name, target=target, per=per)
    def case(torch):
        x, g = torch.rand(4, requires_grad=True), torch.ones(4)
        names = {key: cls.apply for key, cls in functions(torch).items()}
        return statement, {**names, "x": x, "g": g}, prepare


function("forward, saves one tensor", "Exp(x)", 5.0)
function("forward, keeps a float", "Scale(x, 2.0)", 5.0)
function("forward, setup_context", "ExpSetup(x)", 5.0)
function("forward + backward", "Exp(x).backward(g)", 6.0)
function("forward + backward, setup_context", "ExpSetup(x).backward(g)", 6.0)
CHAIN = "z = x\nfor _ in range(1000): z = Scale(z, 1.0001)"
function("chain of 1000, forward", CHAIN, 5.0, per=1000)
function("chain of 1000, backward", "z.backward(g)", 5.0, prepare=CHAIN, per=1000)

group("program", "Programs")


@bench("program", name="Legendre fit, 2000 steps", rounds=5, target=3.0)
def legendre(torch):
    P3 = functions(torch)["Legendre"].apply

    def fit():
        x = torch.linspace(-math.pi, math.pi, 2000, dtype=torch.float)
        y = torch.sin(x)
        a = torch.full((), 0.0, requires_grad=True)
        b = torch.full((), -1.0, requires_grad=True)
        c = torch.full((), 0.0, requires_grad=True)
        d = torch.full((), 0.3, requires_grad=True)
        for _ in range(2000):
            y_pred = a + b * P3(c + d * x)
            loss = (y_pred - y).pow(2).sum()
            loss.backward()
            with torch.no_grad():
                for p in (a, b, c, d):
                    p -= p.grad * 5e-6
                    p.grad = None

    return "fit()", vars()


def mlp(torch):
    """Returns a two-layer network, a batch with the size of the digits, and its labels."""
    nn = torch.nn
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    return model, torch.rand(32, 64), torch.randint(0, 10, (32,))


@bench("program", name="MLP 64-64-10, batch 32, step of SGD")
def mlp_sgd(torch):
    model, x, y = mlp(torch)
    loss = torch.nn.functional.cross_entropy
    step = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    return "step.zero_grad()\nloss(model(x), y).backward()\nstep.step()", vars()


@bench("program", name="MLP 64-64-10, batch 32, inference")
def mlp_inference(torch):
    model, x, _ = mlp(torch)
    return "with torch.no_grad(): model(x)", vars()


@bench("program", name="gradcheck of x * exp(x), 4 elements", target=10.0)
def gradcheck(torch):
    x = torch.rand(4, dtype=torch.float64, requires_grad=True)
    check = torch.autograd.gradcheck
    return "check(lambda x: x * x.exp(), x)", vars()


@bench("program", name="gradcheck of a Function", target=10.0)
def gradcheck_function(torch):
    x = torch.rand(4, dtype=torch.float64, requires_grad=True)
    check, Exp = torch.autograd.gradcheck, functions(torch)["Exp"].apply
    return "check(Exp, x)", vars()


@bench("program", name="checkpoint of 10 layers", target=6.0, reentrant=(False, True))
def checkpoint_layers(torch, reentrant):
    import importlib

    checkpoint = importlib.import_module(f"{torch.__name__}.utils.checkpoint").checkpoint
    nn = torch.nn
    layers = [nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(10)]
    x = torch.rand(4, 16, requires_grad=True)

    def run():
        y = x
        for layer in layers:
            y = checkpoint(layer, y, use_reentrant=reentrant)
        y.sum().backward()

    return "run()", vars()


@bench("program", name="Adam, 4 parameters, step alone")
def adam(torch):
    model, x, y = mlp(torch)
    torch.nn.functional.cross_entropy(model(x), y).backward()
    step = torch.optim.Adam(model.parameters(), lr=1e-6)
    return "step.step()", vars()


@bench("program", name="transformer block, 8 x 16 x 64, forward + backward")
def transformer(torch):
    torch.manual_seed(0)
    nn, F = torch.nn, torch.nn.functional
    x = torch.randn(8, 16, 64, requires_grad=True)
    norm1, norm2 = nn.LayerNorm(64), nn.LayerNorm(64)
    qkv, out = nn.Linear(64, 192), nn.Linear(64, 64)
    up, down = nn.Linear(64, 256), nn.Linear(256, 64)

    def block(x):
        q, k, v = qkv(norm1(x)).view(8, 16, 3, 4, 16).permute(2, 0, 3, 1, 4).unbind(0)
        weights = torch.softmax(q @ k.transpose(-2, -1) * 0.25, -1)
        x = x + out((weights @ v).transpose(1, 2).reshape(8, 16, 64))
        return x + down(F.gelu(up(norm2(x))))

    return "block(x).sum().backward()", vars()
