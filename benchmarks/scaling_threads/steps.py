# SPDX-License-Identifier: BSD-3-Clause
"""Layers and whole training steps."""

# mypy: ignore-errors
from __future__ import annotations

from ..layers import resnet18, training
from .frame import scaling

STEP = "module.zero_grad(); module(x)[0].sum().backward()"


@scaling("steps", name="transformer layer, 8x128x256")
def transformer_layer(torch):
    module = torch.nn.TransformerEncoderLayer(256, 8, 1024, 0.0, batch_first=True)
    x = torch.randn(8, 128, 256)
    return STEP, vars()


@scaling("steps", name="LSTM, 128 hidden, 64 steps, batch 32")
def lstm(torch):
    module, x = torch.nn.LSTM(128, 128), torch.randn(64, 32, 128)
    return STEP, vars()


@scaling("steps", name="MLP 784-512-512-10, batch 256")
def mlp(torch):
    nn = torch.nn
    model = nn.Sequential(
        *(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    )
    return training(torch, model, torch.randn(256, 784), torch.randint(0, 10, (256,)))


@scaling("steps", name="GPT, 4 layers of 256, batch 8x128")
def gpt(torch):
    nn, F = torch.nn, torch.nn.functional
    layers = [nn.TransformerEncoderLayer(256, 8, 1024, 0.0, batch_first=True) for _ in range(4)]
    embed, layers, head = nn.Embedding(1000, 256), nn.ModuleList(layers), nn.Linear(256, 1000)
    model = nn.ModuleList([embed, layers, head])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    text = torch.randint(0, 1000, (8, 129))
    mask = nn.Transformer.generate_square_subsequent_mask(128)

    def train():
        optimizer.zero_grad()
        x = embed(text[:, :-1])
        for layer in layers:
            x = layer(x, src_mask=mask, is_causal=True)
        F.cross_entropy(head(x).flatten(0, 1), text[:, 1:].flatten()).backward()
        optimizer.step()

    return "train()", vars()


@scaling("steps", name="ResNet-18, batch 8, 64x64")
def resnet(torch):
    x, y = torch.randn(8, 3, 64, 64), torch.randint(0, 1000, (8,))
    return training(torch, resnet18(torch.nn), x, y)
