# SPDX-License-Identifier: BSD-3-Clause
"""An LSTM learns to write like this project's documentation, character by character.

The program prints generated text, and draws the loss and the state of some cells along a sentence.
Usage: python examples/char_lstm.py [--steps N] [--out lstm.png]
"""

import argparse

from characters import Text, draw, train

import cograd as torch
from cograd import nn

SENTENCE = "`backward` is written in terms of operations, so higher derivatives need nothing more."


class Writer(nn.Module):
    """Maps characters (N, L) to scores of the next ones (N, L, V)."""

    def __init__(self, alphabet: int, size: int = 128) -> None:
        super().__init__()
        self.embed = nn.Embedding(alphabet, 48)
        self.lstm = nn.LSTM(48, size, batch_first=True)
        self.out = nn.Linear(size, alphabet)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.lstm(self.embed(x))[0])

    def cells(self, codes: torch.Tensor) -> torch.Tensor:
        """Returns the cell state (L, H) after each of the characters (L)."""
        state, rows = None, []
        for code in codes:
            _, state = self.lstm(self.embed(code.reshape(1, 1)), state)
            rows.append(state[1].flatten())
        return torch.stack(rows)

    def write(self, text: Text, begin: str, length: int) -> str:
        """Continues the text ``begin``."""
        codes, state = text.encode(begin), None
        out, state = self.lstm(self.embed(torch.tensor([codes])))
        for _ in range(length):
            codes.append(draw(self.out(out[0, -1])))
            out, state = self.lstm(self.embed(torch.tensor([[codes[-1]]])), state)
        return text.decode(codes)


def picture(path: str, losses: list[float], cells: torch.Tensor, sentence: str) -> None:
    """Draws the loss, and the cells that change most along the sentence."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, (left, right) = plt.subplots(
        1, 2, figsize=(15, 4.2), gridspec_kw={"width_ratios": [1, 3]}, layout="constrained"
    )
    left.plot(losses)
    left.set(title="loss, nats a character", xlabel="step")
    held = cells.tanh().T
    busy = (held[:, 1:] - held[:, :-1]).abs().sum(1).topk(24).indices

    right.imshow(held[busy].numpy(), aspect="auto", cmap="RdBu", vmin=-1, vmax=1)
    right.set_xticks(range(len(sentence)), list(sentence), fontsize=7, family="monospace")
    right.set(title="what cells hold after each character", ylabel="cell", yticks=[])
    fig.savefig(path, dpi=110)


def main() -> None:
    """Trains the model, prints text and draws the picture."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--out")
    options = parser.parse_args()
    torch.manual_seed(0)
    text = Text()
    model = Writer(len(text.alphabet))
    losses = train(model, text, options.steps, length=64, count=32, rate=5e-3)
    print(f"by frequency alone: {text.entropy():.3f}")
    print(f"last losses: {sum(losses[-10:]) / len(losses[-10:]):.3f}")
    with torch.no_grad():
        print(model.write(text, "The ", 200))
        if options.out:
            cells = model.cells(torch.tensor(text.encode(SENTENCE)))
            picture(options.out, losses, cells, SENTENCE)


if __name__ == "__main__":
    main()
