# SPDX-License-Identifier: BSD-3-Clause
"""Prints a table of host and device times of both libraries, taken in turns in one process.

`python -m benchmarks.gpu [--seconds 0.2] [--json FILE]`; cases that torch or the GPU cannot run are
named with the reason.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Case = Callable[[Any], Callable[[], Any]]
CASES: dict[str, tuple[str, Case]] = {}


def case(kind: str) -> Callable[[Case], Case]:
    """Registers a case; kind is "host" (the time until calls return) or "device"."""

    def register(f: Case) -> Case:
        CASES[f.__name__] = (kind, f)
        return f

    return register


@case("host")
def add_4(torch: Any) -> Callable[[], Any]:
    """The host's time of one small op."""
    x, y = torch.ones(4, device="cuda"), torch.ones(4, device="cuda")
    return lambda: x + y


@case("host")
def chain_20_backward(torch: Any) -> Callable[[], Any]:
    """The host's time of 20 small ops, forward and backward."""
    x = torch.ones(4, device="cuda", requires_grad=True)

    def run() -> None:
        y = x
        for _ in range(10):
            y = y.sin() * 1.5
        y.backward(y.detach())

    return run


@case("host")
def python_function(torch: Any) -> Callable[[], Any]:
    """The host's time of a Function written in Python, forward and backward."""

    class Twice(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    x = torch.ones(4, device="cuda", requires_grad=True)
    g = torch.ones(4, device="cuda")
    return lambda: Twice.apply(x).backward(g)


def training_step(torch: Any, **options: Any) -> Callable[[], Any]:
    """Returns a training step of an MLP with Adam."""
    nn = torch.nn
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU())
    net = net.append(nn.Linear(256, 10)).cuda()
    x, y = torch.randn(128, 64).cuda(), torch.randint(10, (128,)).cuda()
    adam = torch.optim.Adam(net.parameters(), **options)

    def step() -> None:
        adam.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        adam.step()

    return step


@case("host")
def mlp_step(torch: Any) -> Callable[[], Any]:
    """One training step of an MLP with Adam."""
    return training_step(torch)


@case("host")
def mlp_step_graph(torch: Any) -> Callable[[], Any]:
    """Runs the same step as a CUDA graph."""
    step = training_step(torch, capturable=True)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def elementwise(name: str, call: Callable[[Any, Any], Any]) -> None:
    """Registers an op over 256 MB of float32."""

    def build(torch: Any) -> Callable[[], Any]:
        x = torch.rand(1 << 26, device="cuda")
        return lambda: call(torch, x)

    build.__name__ = name
    case("device")(build)


elementwise("copy_256mb", lambda torch, x: x.clone())
elementwise("add_256mb", lambda torch, x: x + x)
elementwise("gelu_256mb", lambda torch, x: torch.nn.functional.gelu(x))
elementwise("sum_256mb", lambda torch, x: x.sum())
elementwise("sum_rows_256mb", lambda torch, x: x.view(8192, 8192).sum(1))
elementwise("softmax_256mb", lambda torch, x: x.view(8192, 8192).softmax(1))


def product(name: str, dtype: str, n: int) -> None:
    """Registers a product of two n x n matrices."""

    def build(torch: Any) -> Callable[[], Any]:
        x = torch.rand(n, n, device="cuda").to(getattr(torch, dtype))
        return lambda: x @ x

    build.__name__ = name
    case("device")(build)


product("matmul_4096_float32", "float32", 4096)
product("matmul_8192_bfloat16", "bfloat16", 8192)


def of_random(name: str, sizes: tuple[int, ...], call: Callable[[Any, Any], Any]) -> None:
    """Registers an op over normal numbers; over positive matrices if the last dims are equal."""

    def build(torch: Any) -> Callable[[], Any]:
        x = torch.randn(sizes, device="cuda")
        if sizes[-1] == sizes[-2]:
            x = x @ x.mT / sizes[-1] + torch.eye(sizes[-1], device="cuda")  # well conditioned
        return lambda: call(torch, x)

    build.__name__ = name
    case("device")(build)


of_random("rfft_4096x8192", (4096, 8192), lambda torch, x: torch.fft.rfft(x))
of_random("fft2_64x512x500", (64, 512, 500), lambda torch, x: torch.fft.fft2(x))
of_random("rfft_dim1_64x512x511", (64, 512, 511), lambda torch, x: torch.fft.rfft(x, dim=1))
of_random("cholesky_4096", (4096, 4096), lambda torch, x: torch.linalg.cholesky(x))
of_random("cholesky_1000x32x32", (1000, 32, 32), lambda torch, x: torch.linalg.cholesky(x))
of_random("inv_4096", (4096, 4096), lambda torch, x: torch.linalg.inv(x))
of_random("inv_1000x32x32", (1000, 32, 32), lambda torch, x: torch.linalg.inv(x))
of_random("qr_2048", (2048, 2048), lambda torch, x: torch.linalg.qr(x))
of_random("eigh_1024", (1024, 1024), lambda torch, x: torch.linalg.eigh(x))
of_random("svd_1024", (1024, 1024), lambda torch, x: torch.linalg.svd(x))


def sample(torch: Any, run: Callable[[], Any], kind: str, seconds: float) -> float:
    """Returns the microseconds of one call: of the host alone, or until the device is done."""
    torch.cuda.synchronize()
    calls, begun = 0, time.perf_counter()
    while (now := time.perf_counter()) - begun < seconds and calls < 1000:
        run()
        calls += 1
        if kind == "device" and calls % 8 == 0:
            torch.cuda.synchronize()
    if kind == "device":
        torch.cuda.synchronize()
        now = time.perf_counter()
    torch.cuda.synchronize()
    return (now - begun) / calls * 1e6


def main() -> None:
    """Runs all cases and prints the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.gpu", description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.1, help="length of one sample")
    parser.add_argument("--json", type=Path, help="also write the samples to this file")
    args = parser.parse_args()
    libraries = {}
    for name in ("cograd", "torch"):
        try:
            libraries[name] = importlib.import_module(name)
        except ImportError as e:
            print(f"{name} is not installed: {e}")
    print(f"{'case':24}{'cograd us':>12}{'torch us':>12}{'ratio':>8}")
    found: dict[str, dict[str, list[float]]] = {}
    for key, (kind, build) in CASES.items():
        try:
            runs = {name: build(library) for name, library in libraries.items()}
            for name, run in runs.items():
                sample(libraries[name], run, kind, args.seconds)  # compiles and warms up
            times: dict[str, list[float]] = {name: [] for name in runs}
            for _ in range(5):
                for name, run in runs.items():
                    times[name].append(sample(libraries[name], run, kind, args.seconds))
        except Exception as e:
            print(f"{key:24}{type(e).__name__}: {e}")
            continue
        found[key] = times
        best = {name: statistics.median(t) for name, t in times.items()}
        row = "".join(f"{best.get(name, float('nan')):12.2f}" for name in ("cograd", "torch"))
        ratio = best["cograd"] / best["torch"] if len(best) == 2 else float("nan")
        print(f"{key:24}{row}{ratio:8.2f}")
    if args.json:
        args.json.write_text(json.dumps(found, indent=1))
    stats = libraries["cograd"].cuda.fallback_stats()
    print("fell back to the CPU:", ", ".join(stats) or "nothing")


if __name__ == "__main__":
    main()
