# SPDX-License-Identifier: BSD-3-Clause
"""Writes an op in C++, checks its derivatives, and writes a package that can be published.

The op is the soft threshold of sparse regression (ISTA): it moves numbers towards 0 by a width and
keeps 0 in between. Usage: python examples/cpp_op.py [--out FILE] [--package NAME]
"""

import argparse
from typing import Any

import cograd as torch
from cograd import testing
from cograd.utils.cpp_extension import load_inline

SOURCE = """
#include <cograd/extension.h>
using cograd::Tensor;
using cograd::autograd::AutogradContext;
using cograd::autograd::Function;
using cograd::autograd::variable_list;

struct SoftThreshold : Function<SoftThreshold> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, double width) {
    Tensor y = x - x.clamp(-width, width);
    ctx->save_for_backward({y});
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const Tensor y = ctx->get_saved_variables()[0];
    return {grads[0] * y.ne(0.0).to(y.dtype()), Tensor()};
  }
};
COGRAD_LIBRARY(sparse_fit, m) { m.def<SoftThreshold>("soft_threshold", "x, width"); }
"""


def fit(ops: Any, a: torch.Tensor, b: torch.Tensor, width: float) -> torch.Tensor:
    """Returns a sparse x with a @ x close to b: gradient steps, each followed by the op."""
    rate = 1 / torch.linalg.matrix_norm(a, 2).square().item()
    x = torch.zeros(a.shape[1], dtype=a.dtype)
    for _ in range(300):
        x = ops.soft_threshold(x - rate * (a.t() @ (a @ x - b)), rate * width)
    return x


def draw(ops: Any, truth: torch.Tensor, found: torch.Tensor, path: str) -> None:
    """Draws the op with its derivative, and the numbers that it found."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 2.8), layout="constrained")
    x = torch.linspace(-3, 3, 601, dtype=torch.float64, requires_grad=True)
    y = ops.soft_threshold(x, 1.0)
    (slope,) = torch.autograd.grad(y.sum(), x)
    left.plot(x.tolist(), y.tolist(), color="#3b6ea5", label="soft_threshold(x, 1)")
    left.plot(x.tolist(), slope.tolist(), "--", color="#c8442f", lw=1, label="its derivative")
    left.legend(frameon=False)
    right.stem(truth.tolist(), linefmt="0.7", markerfmt="o", basefmt=" ", label="true numbers")
    right.plot(found.tolist(), "x", color="#c8442f", label="found")
    right.legend(frameon=False)
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=100)


def main() -> None:
    """Builds the op, checks it, uses it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", help="file of the picture; needs matplotlib")
    parser.add_argument("--package", help="name of a package with an op that is written here")
    options = parser.parse_args()
    ops = load_inline("sparse_fit", SOURCE)
    torch.manual_seed(0)
    print(testing.check(ops.soft_threshold, (torch.randn(5, dtype=torch.float64) * 3, 1.0)))
    a = torch.randn(40, 60, dtype=torch.float64)
    truth = torch.zeros(60, dtype=torch.float64)
    truth[torch.tensor([5, 17, 33, 50])] = torch.tensor([2.0, -1.5, 1.0, -3.0], dtype=torch.float64)
    found = fit(ops, a, a @ truth + 0.01 * torch.randn(40, dtype=torch.float64), 3.0)
    print(
        f"largest error: {(found - truth).abs().max().item():.3f}, not 0: {int((found != 0).sum())}"
    )
    if options.out:
        draw(ops, truth, found, options.out)
    if options.package:
        from cograd.commands import main as command

        command(["new-extension", options.package])


if __name__ == "__main__":
    main()
