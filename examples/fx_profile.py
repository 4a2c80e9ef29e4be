# SPDX-License-Identifier: BSD-3-Clause
"""Traces a network with fx, times each node, and fuses its convolutions and batch norms.

Usage: python examples/fx_profile.py [--out profile.png]
"""

import argparse
import time
from collections import defaultdict
from typing import Any

import cograd as torch
from cograd import fx, nn
from cograd.fx.experimental.optimization import fuse


class Block(nn.Module):
    """A convolution with a batch norm, beside the input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.relu(self.norm(self.conv(x)) + x)


class Timer(fx.Interpreter):
    """Runs a graph and notes the shortest time of each node in microseconds."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.times: dict[str, float] = defaultdict(lambda: float("inf"))

    def run_node(self, n: fx.Node) -> Any:
        start = time.perf_counter()
        value = super().run_node(n)
        took = 1e6 * (time.perf_counter() - start)
        self.times[n.name] = min(took, self.times[n.name])
        return value


def timed(module: fx.GraphModule, x: torch.Tensor) -> dict[str, float]:
    """Returns the times of the nodes that compute."""
    timer = Timer(module)
    with torch.no_grad():
        for _ in range(20):
            timer.run(x)
    calls = [n.name for n in module.graph.nodes if n.op.startswith("call_")]
    return {name: timer.times[name] for name in calls}


def draw(plots: dict[str, dict[str, float]], file: str) -> None:
    """Draws a bar for each node."""
    from matplotlib import pyplot as plt

    fig, axes = plt.subplots(1, len(plots), figsize=(10, 4), sharex=True)
    for axis, (title, times) in zip(axes, plots.items(), strict=True):
        axis.barh(list(times), list(times.values()), color="tab:blue")
        axis.invert_yaxis()
        axis.set(title=f"{title}: {sum(times.values()):.0f} us", xlabel="us")
    fig.tight_layout()
    fig.savefig(file, dpi=90)


def main() -> None:
    """Traces, times and fuses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", help="writes a picture")
    out = parser.parse_args().out
    torch.manual_seed(0)
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)]
    model = nn.Sequential(nn.Conv2d(3, 16, 3), Block(16), Block(16), *head).eval()
    x = torch.randn(4, 3, 32, 32)

    traced = fx.symbolic_trace(model)
    print(traced.code)
    fused = fuse(traced)
    assert isinstance(fused, fx.GraphModule)
    plots = {"traced": timed(traced, x), "fused": timed(fused, x)}
    for name, module in (("traced", traced), ("fused", fused)):
        calls = len(module.graph.find_nodes(op="call_module"))
        print(f"{name}: {calls} modules, {sum(plots[name].values()):.0f} us")
    print(f"largest difference: {(fused(x) - model(x)).abs().max().item():.1e}")
    if out:
        draw(plots, out)


if __name__ == "__main__":
    main()
