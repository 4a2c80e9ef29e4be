# SPDX-License-Identifier: BSD-3-Clause
"""Runs exports by onnxruntime; the tests of this folder use it."""

import warnings

import pytest

import cograd as torch

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
ort = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
ort.set_default_logger_severity(4)


class Call(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args, **kwargs):
        return self.function(*args, **kwargs)


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for v in value for t in tensors_in(v)] if isinstance(value, (list, tuple)) else []


def copied(value):
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return type(value)(copied(v) for v in value) if isinstance(value, (list, tuple)) else value


def compare(program, model, args, kwargs=None):
    """Compares the outputs of an exported model with the model's own."""
    kwargs = kwargs or {}
    with torch.no_grad():
        wanted = tensors_in(model(*copied(args), **copied(kwargs)))
    found = program(*args, **kwargs)
    assert len(found) == len(wanted) > 0
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4, equal_nan=True)


def check(model, args, axes=None, others=(), kwargs=None, **options):
    """Exports a model or function and compares it at the example's sizes and at others."""
    model = model if isinstance(model, torch.nn.Module) else Call(model)
    model.eval()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = torch.onnx.export(model, args, kwargs=kwargs, dynamic_axes=axes, **options)
    for given in (args, *others):
        compare(program, model, given if isinstance(given, tuple) else (given,), kwargs)
    return program
