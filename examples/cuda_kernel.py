# SPDX-License-Identifier: BSD-3-Clause
"""Writes an activation as two kernels in CUDA C++, checks its derivative, and trains with it.

The activation is x + sin(a x)^2 / a, which lets a network continue a periodic curve. It needs an
NVIDIA GPU, but no CUDA toolkit. Usage: python examples/cuda_kernel.py [--steps N]
"""

import argparse
from typing import Any

import cograd as torch

TEXT = r"""
#include <cograd/kernel.h>

template <class T>
__global__ void snake(T* y, const T* x, T a, int64_t n) {
  const int64_t i = cograd::grid_index();
  if (i >= n) return;
  const T s = sin(a * x[i]);
  y[i] = x[i] + s * s / a;
}

template <class T>
__global__ void snake_grad(T* gx, const T* g, const T* x, T a, int64_t n) {
  const int64_t i = cograd::grid_index();
  if (i < n) gx[i] = g[i] * (1 + sin(2 * a * x[i]));
}
"""
C_TYPES = {torch.float32: "float", torch.float64: "double"}
FORWARD = {t: torch.cuda.kernel(TEXT, f"snake<{name}>") for t, name in C_TYPES.items()}
BACKWARD = {t: torch.cuda.kernel(TEXT, f"snake_grad<{name}>") for t, name in C_TYPES.items()}


class Snake(torch.autograd.Function):
    """x + sin(a x)^2 / a."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, a: float) -> torch.Tensor:
        """Runs the first kernel."""
        x = x.contiguous()
        ctx.save_for_backward(x)
        ctx.a = a
        y = torch.empty_like(x)
        FORWARD[x.dtype](y, x, a, x.numel(), threads=x.numel())
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        """Runs the second kernel."""
        (x,) = ctx.saved_tensors
        gx = torch.empty_like(x)
        BACKWARD[x.dtype](gx, g.contiguous(), x, ctx.a, x.numel(), threads=x.numel())
        return gx, None


class Network(torch.nn.Module):
    """Two layers with the activation between them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = torch.nn.Linear(1, width)
        self.last = torch.nn.Linear(width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the curve at x."""
        return self.last(Snake.apply(self.first(x), 5.0))


def main() -> None:
    """Checks the derivative, trains, and tells how well the curve continues."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("this example needs an NVIDIA GPU; see `python -m cograd doctor`")
    torch.manual_seed(0)
    x = torch.randn(6, dtype=torch.float64, device="cuda", requires_grad=True)
    print("derivative:", torch.autograd.gradcheck(Snake.apply, (x, 0.7)))

    network = Network(32).cuda()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    x = torch.linspace(-1, 1, 64, device="cuda").unsqueeze(1)
    loss = torch.zeros(())
    for step in range(options.steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(network(x), torch.sin(4 * x))
        loss.backward()
        optimizer.step()
        if step % max(options.steps // 5, 1) == 0:
            print(f"step {step:4}: loss {loss.item():.5f}")
    print(f"last loss: {loss.item():.5f}")


if __name__ == "__main__":
    main()
