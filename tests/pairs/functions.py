# SPDX-License-Identifier: BSD-3-Clause
"""Functions whose backward reads elements; rows of rows.py call them as `own.NAME`."""

import contextlib

from pairs.package import T


class CubeByElements(T.autograd.Function):
    """x ** 3; its backward reads x as Python numbers, so it has no second derivative."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        slope = T.tensor([3 * v * v for v in x.reshape(-1).tolist()], dtype=x.dtype)
        return g * slope.view(x.shape)

    @staticmethod
    def jvp(ctx, t):
        (x,) = ctx.saved_tensors
        return 3 * x * x * t


class CubeByItem(CubeByElements):
    """The same; reads an element whose value has no effect, so it has a second derivative."""

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        shown = x.reshape(-1)[0].item() if x.numel() else 1.0
        return g * 3 * x * x if shown == shown else g


class CubeOnce(CubeByElements):
    """The same, declared to be once differentiable."""

    @staticmethod
    @T.autograd.function.once_differentiable
    def backward(ctx, g):
        return CubeByElements.backward(ctx, g)


_exact = [False]


@contextlib.contextmanager
def exact():
    """The functions compute x * x * x by ops in the block, which gives the true derivatives."""
    _exact[0] = True
    try:
        yield
    finally:
        _exact[0] = False


def _either(function):
    return lambda x: x * x * x if _exact[0] else function.apply(x)


cube_by_elements, cube_by_item = _either(CubeByElements), _either(CubeByItem)
cube_once = _either(CubeOnce)
