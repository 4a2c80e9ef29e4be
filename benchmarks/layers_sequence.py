# SPDX-License-Identifier: BSD-3-Clause
"""Measures training steps of recurrent layers and attention, embedding bags and distances."""

# mypy: ignore-errors
from __future__ import annotations

from .case import bench, group

group("layers-sequence", "Recurrent layers, attention, bags, distances (float32)", each=1.0)

STEP = "module.zero_grad(); module(x)[0].sum().backward()"


@bench("layers-sequence", name="LSTM, 128 hidden, 64 steps, batch 32", rounds=7, target=1.5)
def lstm(torch):
    module, x = torch.nn.LSTM(128, 128), torch.randn(64, 32, 128)
    return STEP, vars()


@bench("layers-sequence", name="LSTM, 128 hidden, 64 steps, batch 1", rounds=7, target=4.0)
def lstm_single(torch):
    module, x = torch.nn.LSTM(128, 128), torch.randn(64, 1, 128)
    return STEP, vars()


@bench("layers-sequence", name="GRU, 128 hidden, 64 steps, batch 32", rounds=7, target=1.5)
def gru(torch):
    module, x = torch.nn.GRU(128, 128), torch.randn(64, 32, 128)
    return STEP, vars()


@bench("layers-sequence", name="GRU, 128 hidden, 64 steps, batch 1", rounds=7, target=4.0)
def gru_single(torch):
    module, x = torch.nn.GRU(128, 128), torch.randn(64, 1, 128)
    return STEP, vars()


@bench("layers-sequence", rounds=7, causal=(False, True), grad=(False, True), target=1.0)
def attention(torch, causal, grad):
    shape = (1, 8, 1024, 64)
    q, k, v = (torch.randn(shape, requires_grad=grad) for _ in range(3))
    f = torch.nn.functional.scaled_dot_product_attention
    g = torch.ones(shape)
    call = f"f(q, k, v, is_causal={causal})"
    return f"torch.autograd.grad({call}, (q, k, v), g)" if grad else call, vars()


@bench("layers-sequence", rounds=7, grad=(False, True), target=0.9)
def attention_with_weights(torch, grad):
    module = torch.nn.MultiheadAttention(256, 8, batch_first=True)
    x = torch.randn(8, 128, 256)
    if grad:
        return "module.zero_grad(); module(x, x, x)[0].sum().backward()", vars()
    return "with torch.no_grad(): module(x, x, x)", vars()


@bench("layers-sequence", name="step of", rounds=7, cell=("LSTMCell", "GRUCell"), target=1.0)
def cell_step(torch, cell):
    module, x = getattr(torch.nn, cell)(128, 128), torch.randn(32, 128)
    return "module(x)", vars()


@bench(
    "layers-sequence",
    name="TransformerEncoderLayer, d=256 h=8 L=128 batch 8",
    rounds=7,
    dropout=(0.0, 0.1),
    target=1.0,
)
def encoder_layer(torch, dropout):
    module = torch.nn.TransformerEncoderLayer(256, 8, 1024, dropout, batch_first=True)
    x = torch.randn(8, 128, 256)
    return STEP, vars()


@bench("layers-sequence", rounds=7, mode=("sum", "mean", "max"), target=1.0)
def embedding_bag(torch, mode):
    weight = torch.randn(10_000, 64, requires_grad=True)
    index = torch.randint(0, 10_000, (512, 20))
    f = torch.nn.functional.embedding_bag
    g = torch.ones(512, 64)
    return "torch.autograd.grad(f(index, weight, mode=mode), weight, g)", vars()


@bench("layers-sequence", rounds=7, grad=(False, True), target=1.2)
def cdist(torch, grad):
    a, b = (torch.randn(1000, 64, requires_grad=grad) for _ in range(2))
    g = torch.ones(1000, 1000)
    return (
        "torch.autograd.grad(torch.cdist(a, b), (a, b), g)" if grad else "torch.cdist(a, b)",
        vars(),
    )


@bench("layers-sequence", rounds=7)
def ctc_loss(torch):
    x = torch.randn(100, 32, 30).log_softmax(-1).requires_grad_()
    labels = torch.randint(1, 30, (32, 20))
    steps, lengths = torch.full((32,), 100), torch.full((32,), 20)
    f = torch.nn.functional.ctc_loss
    return "torch.autograd.grad(f(x, labels, steps, lengths), x)", vars()
