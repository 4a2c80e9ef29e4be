# SPDX-License-Identifier: BSD-3-Clause
"""Saves a training run, resumes it in a new process' state, and gets the same bits.

A run is resumed exactly if the file has everything that the next step depends on: parameters, the
optimizer's state, the schedule, the generator's state, and how far the run has come. The program
trains 200 steps at once, then 90 steps, saves, forgets everything, loads, and trains the other 110.
Usage: python examples/resume.py [--out FILE]
"""

import argparse
import os
import tempfile
from typing import Any

import cograd as torch
from cograd import nn

STEPS = 200


class Run:
    """A model with all that its training depends on."""

    def __init__(self) -> None:
        self.model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Dropout(0.1), nn.Linear(32, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.02)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, STEPS)
        self.done = 0

    def train(self, until: int) -> list[float]:
        """Trains on random batches and returns the losses."""
        losses = []
        for _ in range(self.done, until):
            x = 6 * torch.rand(64, 1) - 3
            self.optimizer.zero_grad()
            loss = nn.functional.mse_loss(self.model(x), x.sin())
            loss.backward()
            self.optimizer.step()
            self.schedule.step()
            losses.append(loss.item())
        self.done = until
        return losses

    def save(self, path: str) -> None:
        """Writes a new file, then renames it: a crash leaves the old one or the new one."""
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "generator": torch.get_rng_state(),
            "done": self.done,
        }
        torch.save(state, path + ".new", format="torch")
        os.replace(path + ".new", path)

    def load(self, path: str) -> None:
        """Continues where the file was written."""
        state: dict[str, Any] = torch.load(path)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        torch.set_rng_state(state["generator"])
        self.done = state["done"]


def draw(whole: list[float], parts: list[list[float]], path: str) -> None:
    """Draws the losses of both runs."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(8, 2.8), layout="constrained")
    axis.semilogy(whole, color="0.8", lw=5, label="without a break")
    cut = len(parts[0])
    axis.semilogy(parts[0], color="#3b6ea5", lw=1.2, label="until it was saved")
    axis.semilogy(range(cut, STEPS), parts[1], color="#c8442f", lw=1.2, label="resumed")
    axis.axvline(cut, color="0.4", ls=":", lw=1)
    axis.set(xlabel="step", ylabel="loss")
    axis.legend(frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=100)


def main() -> None:
    """Trains with and without a break and compares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", help="file of the picture; needs matplotlib")
    options = parser.parse_args()
    torch.manual_seed(0)
    run = Run()
    whole = run.train(STEPS)
    last = [p.detach().clone() for p in run.model.parameters()]
    torch.manual_seed(0)
    run = Run()
    first = run.train(90)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.pt")
        run.save(path)
        torch.manual_seed(1)  # another process would have another state
        run = Run()
        run.load(path)
    second = run.train(STEPS)
    same = [torch.equal(a, b) for a, b in zip(last, run.model.parameters(), strict=True)]
    print(f"resumed at step 90; loss at the end: {second[-1]:.5f}")
    print(f"same losses: {whole == first + second}, same parameters: {all(same)}")
    if options.out:
        draw(whole, [first, second], options.out)


if __name__ == "__main__":
    main()
