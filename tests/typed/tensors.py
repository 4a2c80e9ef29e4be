# SPDX-License-Identifier: BSD-3-Clause
"""Shows type checkers tensors, ops and autograd: for `tools/lint.py typing`, never run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from typing_extensions import assert_type

import cograd as torch
from cograd import Tensor
from cograd._C import DisableTorchFunctionSubclass

x = torch.randn(4, 2, requires_grad=True)
assert_type(x, Tensor)

# numbers and arrays out of a tensor
assert_type(x.item(), int | float | bool)
assert_type(x.numpy(), np.ndarray[Any, Any])
assert_type(x.shape, torch.Size)
assert_type(x.size(), torch.Size)
assert_type(x.size(0), int)
assert_type(x.stride(), tuple[int, ...])
assert_type(len(x), int)
assert_type(float(x.sum()), float)
assert_type(x.dtype, torch.dtype)
assert_type(x.device, torch.device)
assert_type(x.requires_grad, bool)
assert_type(x.is_cuda, bool)
assert_type(x.grad, Tensor | None)
assert_type(x.backward(), None)

# operators and ops
assert_type(1 + x * 2 - x / 3 @ x, Tensor)
assert_type(x * 1j, Tensor)
assert_type(x == 2, Tensor)
assert_type(x[0], Tensor)
assert_type(x.T.imag, Tensor)
assert_type(x.add_(1), Tensor)
assert_type(x.max(), Tensor)
assert_type(x.max(0).indices, Tensor)
assert_type(torch.max(x, 0).values, Tensor)
assert_type(torch.topk(x, 2).values, Tensor)
assert_type(torch.split(x, 2), tuple[Tensor, ...])
assert_type(torch.where(x > 0, x, 0.0), Tensor)
assert_type(torch.cat([x, x]), Tensor)
assert_type(torch.cartesian_prod(x, x), Tensor)
assert_type(torch.allclose(x, x), bool)
assert_type(torch.linalg.norm(x), Tensor)
assert_type(torch.linalg.svd(x).S, Tensor)
assert_type(torch.linalg.eigh(x)[0], Tensor)
assert_type(torch.fft.fft(x), Tensor)
assert_type(torch.special.erf(x), Tensor)
assert_type(torch.zeros(2, 3, dtype=torch.float64), Tensor)
assert_type(torch.finfo(torch.float32).eps, float)
assert_type(torch.manual_seed(0), torch.Generator)

# files
torch.save({"x": x}, "x.safetensors")
assert_type(torch.load("x.safetensors"), Any)

# autograd
assert_type(torch.autograd.grad(x.sum(), x), tuple[Tensor, ...])
assert_type(torch.autograd.grad([x.sum()], [x, x]), tuple[Tensor, ...])
assert_type(torch.autograd.grad(x.sum(), {"x": x}), dict[str, Tensor])
assert_type(torch.autograd.gradcheck(torch.sin, (x,)), bool)
x.register_hook(lambda g: g * 2).remove()
node = x.grad_fn
if node is not None:
    assert_type(node.name(), str)


class Cube(torch.autograd.Function):
    """A Function's methods have parameters of their own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, n: int = 3) -> Tensor:
        ctx.save_for_backward(x)
        return x**n

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g, None

    @staticmethod
    def jvp(ctx: Any, dx: Tensor, dn: None) -> Tensor:
        return dx


assert_type(Cube.apply(x), Any)


@torch.no_grad()
def plain(a: int) -> str:
    return str(a)


assert_type(plain(1), str)
assert_type(torch.compile(plain)(1), str)
assert_type(torch.func.grad(torch.sin), Callable[..., Any])
assert_type(torch.vmap(torch.sin), Callable[..., Any])
assert_type(torch.device("cpu")(plain)(1), str)


class Watch(torch.overrides.TorchFunctionMode):
    """A with block of a subclass has the type of the subclass."""


with torch.autocast("cpu") as autocast, Watch() as watch, torch.device("cpu") as device:
    assert_type(autocast, torch.autocast)
    assert_type(watch, Watch)
    assert_type(device, torch.device)
with torch.autograd.profiler.profile() as timed, torch.profiler.profile() as profile:
    assert_type(timed, torch.autograd.profiler.profile)
    assert_type(profile, torch.profiler.profile)
with torch.autograd.forward_ad.dual_level() as level:
    assert_type(level, int)
with torch.autograd.graph.allow_mutation_on_saved_tensors() as context:
    assert_type(list(context.cloned.values()), list[Tensor])
assert_type(torch.no_grad().__enter__(), None)
assert_type(torch.no_grad().__exit__(None, None, None), None)
with torch.inference_mode(), DisableTorchFunctionSubclass():
    pass

# sequences, and the classes of results
storage = x.untyped_storage()
assert_type(storage[0], int)
assert_type(storage[:4], torch.UntypedStorage)
assert_type(len(storage), int)
storage[:4] = 0
assert_type(x.shape[:1], torch.Size)
assert_type(x.shape[0], int)
assert_type(x.shape + (1,), torch.Size)
assert_type(x.max(0), torch.return_types.max)
assert_type(torch.return_types.max((x, x)).indices, Tensor)
assert_type(torch.return_types.max.n_fields, int)
assert_type(torch.return_types.histogram(x, x).bin_edges, Tensor)
