# SPDX-License-Identifier: BSD-3-Clause
"""Every module on the meta device: the shapes, dtypes and strides of the CPU."""

import inspect
import warnings

import nn_rows
import pytest

import cograd as torch
from cograd import nn


def forms(tensors):
    return [(tuple(t.shape), t.dtype, t.stride()) for t in tensors]


def names_of(row):
    _, names = nn_rows.makers(torch, row)
    return names


def run(module, args):
    """Returns the forms of results, gradients and state after a call."""
    if any(nn.parameter.is_lazy(p) for p in module.parameters()):
        with torch.no_grad():
            module(*args)
    inputs = nn_rows.tensors_in(torch, args)
    for t in inputs:
        t.requires_grad_(t.dtype.is_floating_point)
    results = nn_rows.tensors_in(torch, module(*args))
    roots = [t for t in results if t.requires_grad]
    if roots:
        torch.autograd.backward(roots, [torch.ones_like(t) for t in roots])
    leaves = [*inputs, *module.parameters()]
    grads = [t.grad for t in leaves if t.grad is not None]
    return forms(results), forms(grads), forms(module.state_dict().values()), [*results, *grads]


@pytest.mark.parametrize("row", nn_rows.ROWS)
def test_modules_have_the_cpus_forms(row):
    constructor, inputs = (part.strip() for part in row.split("|"))
    args = eval(f"[{inputs}]", names_of(row))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = run(eval(constructor, names_of(row)).double(), args)
        with torch.device("meta"):
            module = eval(constructor, names_of(row)).double().to("meta")  # weights of losses, too
        there = [t.detach().to("meta") if isinstance(t, torch.Tensor) else t for t in args]
        found = run(module, there)
    assert found[:3] == wanted[:3]
    assert all(t.is_meta for t in found[3])


@pytest.mark.parametrize("row", nn_rows.ROWS)
def test_the_argument_device_decides(row):
    constructor = row.split("|")[0].strip().removesuffix(".eval()")
    kind = getattr(nn, constructor.partition("(")[0].removeprefix("nn."))
    if "device" not in inspect.signature(kind).parameters:
        return
    text = constructor[:-1] + (", " if constructor[-2] != "(" else "") + "device='meta')"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = eval(text, names_of(row))
    assert all(t.is_meta for t in (*module.parameters(), *module.buffers()))


MASKED = {
    "encoder": lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 1),
    "decoder": lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 8), 1),
}


@pytest.mark.parametrize("name", MASKED)
def test_transformers_look_at_their_mask(name):
    with torch.device("meta"):
        module, x = MASKED[name](), torch.empty(5, 2, 4)
        mask = nn.Transformer.generate_square_subsequent_mask(5)
    assert module(*((x,) if name == "encoder" else (x, x)), mask).shape == (5, 2, 4)


def test_values_that_only_checks_and_limits_read():
    with torch.device("meta"):
        table, index = nn.Embedding(5, 3, max_norm=1.0), torch.zeros(2, dtype=torch.int64)
        x = torch.empty(40)
        window = torch.hann_window(8)
    version = table.weight._version
    assert table(index).shape == (2, 3) and table.weight._version > version
    spectrum = torch.stft(x, 8, window=window, return_complex=True)
    assert spectrum.shape == (5, 21)
    assert torch.istft(spectrum, 8, window=window).shape == (40,)
    wanted = torch.fft.irfft2(torch.fft.rfft2(torch.ones(4, 5)), (4, 5))
    found = torch.fft.irfft2(torch.fft.rfft2(torch.empty(4, 5, device="meta")), (4, 5))
    assert (found.shape, found.dtype, found.stride()) == ((4, 5), wanted.dtype, wanted.stride())
