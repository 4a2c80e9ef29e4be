# SPDX-License-Identifier: BSD-3-Clause
"""Converts a text of the repository to numbers, for the examples that learn to write it."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import cograd as torch

PAGES = ("architecture.md", "autograd.md", "transforms.md", "extending.md", "debugging.md")


class Text:
    """Holds the pages of the documentation as indices of their characters."""

    def __init__(self, pages: Sequence[str] = PAGES) -> None:
        folder = Path(__file__).resolve().parent.parent / "docs"
        self.text = "\n".join((folder / page).read_text(encoding="utf-8") for page in pages)
        self.alphabet = sorted(set(self.text))
        self.codes = torch.tensor(self.encode(self.text))

    def encode(self, text: str) -> list[int]:
        """Returns the index of each character."""
        place = {c: i for i, c in enumerate(self.alphabet)}
        return [place[c] for c in text]

    def decode(self, codes: Iterable[int]) -> str:
        """Returns the characters of indices."""
        return "".join(self.alphabet[i] for i in codes)

    def batch(self, length: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns random pieces (count, length), and the same pieces one character later."""
        begin = torch.randint(0, len(self.codes) - length - 1, (count, 1))
        at = begin + torch.arange(length)
        return self.codes[at], self.codes[at + 1]

    def entropy(self) -> float:
        """Returns the loss of guessing by frequency alone, in nats per character."""
        share = torch.bincount(self.codes).double() / len(self.codes)
        return -(share * share.clamp(min=1e-12).log()).sum().item()


def train(
    model: torch.nn.Module, text: Text, steps: int, length: int, count: int, rate: float
) -> list[float]:
    """Runs Adam on the cross entropy and returns the losses."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    losses, device = [], next(model.parameters()).device
    for step in range(steps):
        x, y = (part.to(device) for part in text.batch(length, count))
        scores = model(x)
        loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if step % 50 == 0:
            print(f"step {step}: {losses[-1]:.3f}")
    return losses


def draw(scores: torch.Tensor, warmth: float = 0.7) -> int:
    """Draws an index from softmax(scores / warmth)."""
    return int(torch.multinomial((scores / warmth).softmax(-1), 1))
