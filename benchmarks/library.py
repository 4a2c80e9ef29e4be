# SPDX-License-Identifier: BSD-3-Clause
"""Measures the cost per call of ops registered from Python with library.custom_op."""

# mypy: ignore-errors
from __future__ import annotations

from .case import bench, group

group("library", "Ops registered from Python (library.custom_op), 4 elements")


def ops(torch):
    """Registers the ops and returns them by name."""
    library = torch.library

    def scale(x, a):
        return x * a

    def setup_context(ctx, inputs, output):
        ctx.a = inputs[1]

    schema = "(Tensor x, float a) -> Tensor"
    scale = library.custom_op("bench::scale", scale, mutates_args=(), schema=schema)
    scale.register_autograd(lambda ctx, g: (g * ctx.a, None), setup_context=setup_context)

    def add_one(x):
        x.add_(1.0)

    schema = "(Tensor(a!) x) -> ()"
    add_one = library.custom_op("bench::add_one", add_one, mutates_args=("x",), schema=schema)
    return {"scale": scale, "add_one": add_one}


def case(name: str, statement: str, target: float) -> None:
    """Registers a statement over the ops, x, w (which requires grad) and g."""

    @bench("library", name=name, target=target)
    def _(torch):
        names = {"x": torch.ones(4), "w": torch.ones(4, requires_grad=True), "g": torch.ones(4)}
        return statement, {**ops(torch), **names}


case("call without gradient", "scale(x, 2.0)", 10.0)
case("call with gradient", "scale(w, 2.0)", 10.0)
case("call and backward", "scale(w, 2.0).backward(g)", 6.0)
case("call of an op that writes", "add_one(x)", 10.0)
