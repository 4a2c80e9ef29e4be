# SPDX-License-Identifier: BSD-3-Clause
"""The gate: every call of an op, by whatever path, passes the stages exactly once."""

import shutil

import pytest

import cograd as torch
import cograd.nn.functional as F
from cograd.utils import cpp_extension

calls = torch._C._observed_calls


def tensor():
    return torch.tensor([1.0, 2.0, 3.0])


X, Y, OUT = tensor(), tensor(), torch.empty(3)
PATHS = {
    "function": (lambda: torch.mul(X, Y), "mul"),
    "method": (lambda: X.mul(Y), "mul"),
    "operator": (lambda: X * Y, "mul"),
    "operator with a number": (lambda: 2 * X, "mul"),
    "augmented operator": (lambda: tensor().__imul__(Y), "mul_"),
    "in place": (lambda: tensor().mul_(Y), "mul_"),
    "out=": (lambda: torch.mul(X, Y, out=OUT), "mul.out"),
    "functional": (lambda: F.silu(X), "silu"),
    "internal": (lambda: torch._C._ops.mul(X, Y), "mul"),
    "a choice of ops": (lambda: torch.clamp(X, 0, 1), "clamp"),
    "view": (lambda: X.view(3, 1), "view"),
    "index": (lambda: X[torch.tensor([0, 2])], "index"),
    "several results": (lambda: X.max(0), "max"),
    "several results, out=": (
        lambda: torch.sort(X, out=(torch.empty(3), torch.empty(3, dtype=torch.int64))),
        "sort",
    ),
    "factory": (lambda: torch.zeros(3), "zeros"),
    "random": (lambda: torch.rand(3), "rand"),
    "module": (lambda: torch.nn.LayerNorm(3)(X), "layer_norm"),
    "under no_grad": (torch.no_grad()(lambda: X.mul(Y)), "mul"),
}


@pytest.mark.parametrize("path", PATHS)
def test_every_path_passes_once(path):
    f, name = PATHS[path]
    found = calls(f)
    count = sum(c == name or c.startswith((f"{name}_", f"_{name}")) for c in found)
    assert count == 1, found


def test_recording_changes_nothing():
    x = tensor().requires_grad_()
    assert calls(lambda: x * x) == ["mul"]
    assert calls(lambda: x.exp().sin()) == ["exp", "sin"]


def test_formulas_of_backward_pass():
    a = torch.ones(2, 3, requires_grad=True)
    b = torch.ones(3, 4, requires_grad=True)
    y = (a @ b).sum()
    found = calls(y.backward)
    assert sum(name in ("mm", "matmul", "_matmul", "linear") for name in found) == 2, found


def test_optimizer_steps_pass():
    p = tensor().requires_grad_()
    p.grad = tensor()
    opt = torch.optim.SGD([p], lr=0.1, momentum=0.9)
    found = calls(opt.step)
    assert sum("sgd" in name for name in found) == 1, found


def test_transforms_pass_what_runs():
    from cograd.func import jvp, vmap

    found = calls(lambda: vmap(torch.sin)(torch.ones(5, 3)))
    assert found.count("sin") == 1
    found = calls(lambda: jvp(torch.sin, (X,), (Y,)))
    assert found.count("sin") == 1
    assert "mul" in found


def test_nobody_observes_afterwards():
    with pytest.raises(ValueError, match="inside"):
        calls(lambda: int("inside"))
    assert calls(lambda: None) == []


SOURCE = """
#include <cograd/extension.h>
cograd::Tensor twice(const cograd::Tensor& x) { return cograd::mul(x, 2.0); }
COGRAD_LIBRARY(gate_test, m) { m.def("twice", &twice); }
"""


@pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="there is no C++ compiler"
)
def test_ops_of_extensions_pass():
    cpp_extension.load_inline("t_gate", SOURCE, is_python_module=False)
    found = calls(lambda: torch.ops.gate_test.twice(X))
    assert found.count("twice") == 1 or found.count("gate_test::twice") == 1, found
    assert found.count("mul") == 1
    with pytest.raises(NotImplementedError, match="CPU only"):
        torch.ops.gate_test.twice(torch.ones(3, device="meta"))
