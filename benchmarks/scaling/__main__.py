# SPDX-License-Identifier: BSD-3-Clause
"""Measures data-parallel steps on this machine's ranks and predicts those of 8 to 4096.

python -m benchmarks.scaling                  measure on 1, 2 and 4 ranks, check the model, predict
python -m benchmarks.scaling --read FILE      the same from an earlier measurement (--save FILE)
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from .model import NETWORKS, Network, Profile, fit, predict

ROOT = Path(__file__).resolve().parent.parent.parent
MANY = [2**k for k in range(3, 13)]


def mpiexec() -> str:
    """Returns the mpiexec of this Python's environment, or else the one on the path."""
    own = Path(sys.executable).parent / "mpiexec"
    found = str(own) if own.exists() else shutil.which("mpiexec")
    if found is None:
        sys.exit("there is no mpiexec: pip install 'cograd[mpi]'")
    return found


def measure(ranks: int, batch: int, extra: list[str]) -> dict[str, Any]:
    """Runs step.py on so many ranks and returns its JSON."""
    command = [mpiexec(), "-n", str(ranks), sys.executable, "-m", "benchmarks.scaling.step"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    out = subprocess.run(
        [*command, "--batch", str(batch), *extra],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if out.returncode:
        sys.exit(f"{' '.join(command)}: code {out.returncode}\n{out.stderr[-3000:]}")
    lines = [line for line in out.stdout.splitlines() if line.startswith("{")]
    result: dict[str, Any] = json.loads(lines[-1])
    return result


def profile(one: dict[str, Any]) -> Profile:
    """Returns the computation of a rank from a measurement."""
    forward, backward, update = one["parts"]
    scale = one["computing"] / (forward + backward + update)
    last = max(at for at, _ in one["gradients"])
    stretch = scale * backward / max(last, 1e-9)
    return Profile(
        forward * scale,
        backward * scale,
        update * scale,
        [(at * stretch, nbytes) for at, nbytes in one["gradients"]],
        handling=one.get("handling", 0.0),
    )


def ms(seconds: float) -> str:
    """Returns milliseconds as text for a table."""
    return f"{1e3 * seconds:8.1f}"


def table(title: str, runs: list[dict[str, Any]], weak: bool) -> None:
    """Prints the measurements; the first run has one rank."""
    print(f"\n{title} ({runs[0]['parameters'] / 1e6:.1f} million parameters, ms per step)")
    print(
        "ranks  batch    alone  computing      ddp     sums  overhead  hidden  speed-up  efficiency"
    )
    base = runs[0]["ddp"]
    for run in runs:
        n, sums = run["ranks"], run.get("sums", 0.0)
        exposed = run["ddp"] - run["computing"]
        hidden = f"{max(0.0, 1 - exposed / sums):6.0%}" if sums else "     -"
        speed = base / run["ddp"] * (n if weak else 1)
        print(
            f"{n:5d}  {run['batch']:5d} {ms(run['alone'])}   {ms(run['computing'])} "
            f"{ms(run['ddp'])} {ms(sums)}  {exposed / run['computing']:8.1%}  {hidden}"
            f"  {speed:7.2f}x  {speed / n:9.0%}"
        )


def check(runs: list[dict[str, Any]]) -> None:
    """Compares the model with the runs on several ranks."""
    print("\nThe model against these measurements (ms per step)")
    print("ranks  alpha us  beta GB/s  measured  predicted  difference")
    for run in runs:
        if run["ranks"] < 2:
            continue
        network = fit([(n, t) for n, t in run["all_reduce"]], run["ranks"])
        step = predict(profile(run), run["ranks"], network)
        rate = 1e-9 / network.beta if network.beta else float("inf")
        print(
            f"{run['ranks']:5d}  {1e6 * network.alpha:8.1f}  {rate:9.2f}  {ms(run['ddp'])}   "
            f"{ms(step.seconds)}  {step.seconds / run['ddp'] - 1:+9.1%}"
        )


def outlook(one: dict[str, Any], jitter: float) -> None:
    """Prints predicted steps of many ranks, with the measured batch per rank."""
    base = replace(profile(one), jitter=jitter)
    print(
        f"\nPredicted, one rank per node, batch {one['batch']} per rank, {1e3 * base.total:.0f} ms "
        f"of computation, jitter {jitter:.0%}: ms per step (efficiency, hidden)"
    )
    print("ranks " + "".join(f"{name:>28}" for name in NETWORKS))
    for ranks in MANY:
        cells = []
        for network in NETWORKS.values():
            step = predict(base, ranks, network)
            cells.append(
                f"{ms(step.seconds)} ({base.total / step.seconds:4.0%}, {step.hidden:4.0%})".rjust(
                    28
                )
            )
        print(f"{ranks:5d} " + "".join(cells))
    batches(base, one["batch"], NETWORKS["10 Gb/s Ethernet"])


def batches(base: Profile, batch: int, network: Network, ranks: int = 64) -> None:
    """Prints the effect of a larger batch per rank."""
    cells = []
    for factor in (1, 2, 4, 8, 16):
        larger = base.scaled(factor)
        cells.append(
            f"{batch * factor} {larger.total / predict(larger, ranks, network).seconds:.0%}"
        )
    print(f"\nEfficiency by batch per rank, {ranks} ranks, 10 Gb/s Ethernet: {', '.join(cells)}")


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.scaling", description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument(
        "--batch", type=int, default=64, help="per rank (weak); strong uses twice that in all"
    )
    parser.add_argument("--jitter", type=float, default=0.01)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--read", type=Path)
    options, extra = parser.parse_known_args()
    if options.read is not None:
        data = json.loads(options.read.read_text())
    else:
        data = {
            "weak": [measure(n, options.batch, extra) for n in options.ranks],
            "strong": [measure(n, 2 * options.batch // n, extra) for n in options.ranks],
        }
    if options.save is not None:
        options.save.write_text(json.dumps(data))
    table("Weak scaling", data["weak"], weak=True)
    table("Strong scaling", data["strong"], weak=False)
    check(data["weak"] + data["strong"])
    outlook(data["weak"][0] | {"handling": data["weak"][-1].get("handling", 0.0)}, options.jitter)


if __name__ == "__main__":
    main()
