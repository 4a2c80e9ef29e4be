# SPDX-License-Identifier: BSD-3-Clause
"""Measures the overhead of operations on four elements."""

# mypy: ignore-errors
from __future__ import annotations

from .case import bench, group

group("small", "Small operations, 4 elements", geomean=6.0, each=3.0)
GRAD = (False, True)


def small(name: str, statement: str) -> None:
    """Registers a statement over x, y (4 elements), m, n (8 x 8) and the index tensor i."""

    @bench("small", name=name, grad=GRAD)
    def case(torch, grad):
        x = torch.rand(4) + 0.5
        y = torch.rand(4) + 0.5
        m = torch.rand(8, 8)
        n = torch.rand(8, 8)
        i = torch.tensor([2, 0, 1])
        mask = torch.tensor([True, False, True, True])
        for t in (x, y, m, n):
            t.requires_grad_(grad)
        return statement, vars()


small("add", "x + y")
small("sub", "x - y")
small("mul", "x * y")
small("div", "x / y")
small("mul by scalar", "x * 2.0")
small("add scalar", "x + 1.0")
small("scalar minus", "1.0 - x")
small("neg", "-x")
small("pow 2", "x ** 2")
small("exp", "x.exp()")
small("tanh", "x.tanh()")
small("relu", "torch.relu(x)")
small("sigmoid", "torch.sigmoid(x)")
small("clamp", "x.clamp(0.2, 0.8)")
small("maximum", "torch.maximum(x, y)")
small("where", "torch.where(mask, x, y)")
small("compare", "x > y")
small("sum", "x.sum()")
small("mean", "x.mean()")
small("sum of rows", "m.sum(1)")
small("max of rows", "m.amax(1)")
small("softmax", "torch.softmax(m, 1)")
small("matmul 8x8", "m @ n")
small("view", "x.view(2, 2)")
small("reshape", "m.reshape(4, 16)")
small("transpose", "m.t()")
small("unsqueeze", "x.unsqueeze(0)")
small("expand", "x.expand(3, 4)")
small("slice", "x[1:3]")
small("select", "x[0]")
small("index tensor", "x[i]")
small("cat", "torch.cat((x, y))")
small("stack", "torch.stack((x, y))")
small("detach", "x.detach()")
small("clone", "x.clone()")


@bench("small", name="add in place")
def add_(torch):
    x, y = torch.rand(4), torch.rand(4)
    return "x.add_(y)", vars()


@bench("small", name="item")
def item(torch):
    x = torch.rand(())
    return "x.item()", vars()


@bench("small", name="zeros")
def zeros(torch):
    return "torch.zeros(4)", vars()


@bench("small", name="tensor from list")
def tensor(torch):
    values = [1.0, 2.0, 3.0, 4.0]
    return "torch.tensor(values)", vars()


group("small-backward", "Small programs, forward and backward", geomean=6.0)


@bench("small-backward", name="exp, backward")
def exp_backward(torch):
    x, g = torch.rand(4, requires_grad=True), torch.ones(4)
    return "x.exp().backward(g)", vars()


@bench("small-backward", name="(x * y).sum(), backward")
def dot_backward(torch):
    x, y = torch.rand(4, requires_grad=True), torch.rand(4)
    return "(x * y).sum().backward()", vars()


@bench("small-backward", name="autograd.grad of x**3")
def grad_cube(torch):
    x = torch.rand((), requires_grad=True)
    grad = torch.autograd.grad
    return "grad(x ** 3, x)", vars()


@bench("small-backward", name="second derivative of x**3")
def grad_grad_cube(torch):
    x = torch.rand((), requires_grad=True)
    grad = torch.autograd.grad
    return "grad(grad(x ** 3, x, create_graph=True)[0], x)", vars()


@bench("small-backward", name="no_grad block")
def no_grad(torch):
    return "with torch.no_grad(): pass", vars()
