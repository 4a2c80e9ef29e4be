# SPDX-License-Identifier: BSD-3-Clause
"""A Transformer learns to write like this project's documentation, character by character.

The program prints generated text, and draws the loss and the attention of its heads in a sentence.
Usage: python examples/char_transformer.py [--steps N] [--out transformer.png] [--device cuda]
"""

import argparse

from characters import Text, draw, train

import cograd as torch
from cograd import nn

LENGTH = 64
SENTENCE = "A node is an operation that was recorded."


class Writer(nn.Module):
    """Maps characters (N, L) to scores of the next ones (N, L, V), with causal attention."""

    def __init__(self, alphabet: int, size: int = 96, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(alphabet, size)
        self.place = nn.Parameter(0.02 * torch.randn(LENGTH, size))
        layer = nn.TransformerEncoderLayer(
            size, heads, 3 * size, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(layer, layers, nn.LayerNorm(size))
        self.out = nn.Linear(size, alphabet)

    def start(self, x: torch.Tensor) -> torch.Tensor:
        return self.embed(x) + self.place[: x.shape[1]]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
        return self.out(self.blocks(self.start(x), mask=mask, is_causal=True))

    def attention(self, codes: torch.Tensor) -> torch.Tensor:
        """Returns the weights (heads, L, L) of the first layer's heads for characters (L)."""
        layer = self.blocks.layers[0]
        x = layer.norm1(self.start(codes.unsqueeze(0)))
        mask = nn.Transformer.generate_square_subsequent_mask(len(codes), device=codes.device)
        return layer.self_attn(x, x, x, attn_mask=mask, average_attn_weights=False)[1][0]

    def write(self, text: Text, begin: str, length: int) -> str:
        """Continues the text ``begin``."""
        codes = text.encode(begin)
        for _ in range(length):
            last = torch.tensor([codes[-LENGTH:]], device=self.place.device)
            codes.append(draw(self(last)[0, -1]))
        return text.decode(codes)


def picture(path: str, losses: list[float], weights: torch.Tensor, sentence: str) -> None:
    """Draws the loss, and each head's weights."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 1 + len(weights), figsize=(18, 4.2), layout="constrained")
    axes[0].plot(losses)
    axes[0].set(title="loss, nats a character", xlabel="step")
    for i, (axis, head) in enumerate(zip(axes[1:], weights)):
        axis.imshow(head.sqrt().cpu().numpy(), cmap="magma", vmin=0, vmax=1)
        axis.set_xticks(range(len(sentence)), list(sentence), fontsize=5, family="monospace")
        axis.set_yticks(range(len(sentence)), list(sentence), fontsize=5, family="monospace")
        axis.set(title=f"head {i}: where a row's character looks")
    fig.savefig(path, dpi=110)


def main() -> None:
    """Trains the model, prints text and draws the picture."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--out")
    parser.add_argument("--device", default="cpu", help='"cpu" or "cuda"')
    options = parser.parse_args()
    torch.manual_seed(0)
    text = Text()
    model = Writer(len(text.alphabet)).to(options.device)
    losses = train(model, text, options.steps, LENGTH, count=32, rate=3e-3)
    print(f"by frequency alone: {text.entropy():.3f}")
    print(f"last losses: {sum(losses[-10:]) / len(losses[-10:]):.3f}")
    model.eval()
    with torch.no_grad():
        print(model.write(text, "The ", 200))
        if options.out:
            weights = model.attention(torch.tensor(text.encode(SENTENCE), device=options.device))
            picture(options.out, losses, weights, SENTENCE)


if __name__ == "__main__":
    main()
