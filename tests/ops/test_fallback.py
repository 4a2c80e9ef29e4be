# SPDX-License-Identifier: BSD-3-Clause
"""The fallback: what an op without a kernel on its device does, on the fake device.

The tests run in one process, where the device is enabled; they are functions of this file.
"""

import os
import shutil
import subprocess
import sys
import warnings

import pytest

import cograd as torch
from cograd import nn
from cograd.utils import cpp_extension

FAKE = os.environ.get("COGRAD_FAKE_DEVICE") == "1"
on_device = pytest.mark.skipif(not FAKE, reason="runs in the process of test_on_the_fake_device")


@pytest.mark.skipif(FAKE, reason="this is that process")
def test_on_the_fake_device():
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__],
        env=os.environ | {"COGRAD_FAKE_DEVICE": "1", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed, 1 skipped" in done.stdout, done.stdout[-300:]


@pytest.fixture
def forced():
    torch._C._set_fallback("silent")
    torch._C._clear_fallbacks()
    torch._C._force_fallback(True)
    yield
    torch._C._force_fallback(False)
    torch._C._set_fallback("warn")


@on_device
def test_policies():
    x = torch.ones(3, device="fake")
    torch._C._clear_fallbacks()
    torch._C._force_fallback(True)
    try:
        with pytest.warns(UserWarning, match=r"exp\(\): there is no kernel for fake.*24 bytes"):
            x.exp()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            x.exp()
        assert torch._C._fallbacks() == {"exp": (2, 48)}
        torch._C._set_fallback("error")
        assert torch._C._get_fallback() == "error"
        with pytest.raises(NotImplementedError, match=r"sin\(\): there is no kernel for fake"):
            x.sin()
        with pytest.raises(ValueError, match="'policy' is 'loud'; expected 'warn'"):
            torch._C._set_fallback("loud")
    finally:
        torch._C._force_fallback(False)
        torch._C._set_fallback("warn")


@on_device
def test_arguments_that_an_op_writes_are_written(forced):
    mean, var = torch.zeros(2, device="fake"), torch.ones(2, device="fake")
    x = torch.randn(8, 2)
    nn.functional.batch_norm(x.to("fake"), mean, var, training=True)
    wanted = torch.zeros(2), torch.ones(2)
    nn.functional.batch_norm(x, *wanted, training=True)
    assert torch.equal(mean.cpu(), wanted[0])
    assert torch.equal(var.cpu(), wanted[1])


@on_device
def test_one_tensor_in_two_arguments_remains_one(forced):
    x = torch.arange(3.0).to("fake")
    x.add_(x)
    assert x.tolist() == [0, 2, 4]
    torch.mul(x, x, out=x)
    assert x.tolist() == [0, 4, 16]
    w = torch.ones(3, device="fake", requires_grad=True)
    (w * w).sum().backward()
    assert w.grad.tolist() == [2, 2, 2]


@on_device
def test_writes_are_checked_as_on_the_host(forced):
    x = torch.arange(4.0).to("fake")
    with pytest.raises(RuntimeError, match="single memory location"):
        x[1:].add_(x[:-1])
    with pytest.raises(RuntimeError, match="leaf Variable"):
        x.clone().requires_grad_().exp_()
    with pytest.raises(RuntimeError, match="expanded|more than one element"):
        x[:1].expand(3).exp_()
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        x.mul_(torch.ones(2, 4, device="fake"))
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.ones(2, dtype=torch.int64, device="fake").mul_(1.5)
    assert x.tolist() == [0, 1, 2, 3]


@on_device
def test_views_and_out_have_histories(forced):
    x = torch.ones(2, 3, device="fake", requires_grad=True)
    y = x * 1
    y[0].mul_(3)
    y.sum().backward()
    assert x.grad.tolist() == [[3, 3, 3], [1, 1, 1]]
    out = torch.empty(0, device="fake")
    torch.exp(torch.zeros(2, device="fake"), out=out)
    assert out.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        torch.exp(x, out=torch.empty(2, 3, device="fake"))


@on_device
def test_training_has_the_cpus_parameters(forced):
    def train(device):
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)
        )
        x, y = torch.randn(6, 1, 8, 8), torch.tensor([0, 1, 2, 0, 1, 2])
        model, x, y = model.to(device), x.to(device), y.to(device)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        return [t.cpu() for t in model.state_dict().values()]

    for a, b in zip(train("fake"), train("cpu"), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7)
    fallen = torch._C._fallbacks()
    assert {"_conv", "_batch_norm", "relu", "_adam_step"} <= set(fallen), fallen


@on_device
def test_a_factory_returns_a_leaf(forced):
    x = torch.rand(3, device="fake", requires_grad=True)
    assert x.is_leaf
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


SOURCE = """
#include <cograd/extension.h>
cograd::Tensor twice(const cograd::Tensor& x) { return cograd::mul(x, 2.0); }
void both(cograd::Tensor& x, cograd::Tensor& y) {
  x.copy_(cograd::add(x, 1.0));
  y.copy_(cograd::add(y, 1.0));
}
cograd::Tensor sly(const cograd::Tensor& x) {
  static_cast<float*>(x.data_ptr())[x.numel() - 1] = 7;
  return cograd::mul(x, 2.0);
}
COGRAD_LIBRARY(fallback_ops, m) {
  m.def("twice", &twice);
  m.def("both", &both);
  m.def("sly", &sly);
}
"""


@on_device
@pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="there is no C++ compiler"
)
def test_an_op_of_an_extension_falls_back():
    cpp_extension.load_inline("t_fallback", SOURCE, is_python_module=False)
    x = torch.ones(2, device="fake", requires_grad=True)
    torch._C._set_fallback("silent")
    torch._C._clear_fallbacks()
    y = torch.ops.fallback_ops.twice(x)
    assert y.device.type == "fake"
    y.sum().backward()
    assert (y.tolist(), x.grad.tolist()) == ([2, 2], [2, 2])
    assert list(torch._C._fallbacks()) == ["fallback_ops::twice"]

    x, y = torch.zeros(3, device="fake"), torch.zeros(3, device="fake")
    torch.ops.fallback_ops.both(x, y)
    assert (x.tolist(), y.tolist()) == ([1, 1, 1], [1, 1, 1])
    with pytest.raises(NotImplementedError, match="shares memory with another one"):
        torch.ops.fallback_ops.both(x, x[1:])
    with pytest.raises(RuntimeError, match="writes it|leaf"):
        torch.ops.fallback_ops.both(x, y.requires_grad_())
    assert (x.tolist(), y.tolist()) == ([1, 1, 1], [1, 1, 1])
    torch._C._set_fallback("warn")
    with pytest.raises(
        RuntimeError, match=r"fallback_ops::sly\(\): it has written into a tensor of"
    ):
        torch.ops.fallback_ops.sly(torch.ones(3, device="fake"))
    torch._C._clear_fallbacks()
    with pytest.warns(UserWarning, match=r"fallback_ops::twice\(\): there is no kernel for fake"):
        torch.ops.fallback_ops.twice(x)
    torch._C._set_fallback("error")
    with pytest.raises(NotImplementedError, match=r"fallback_ops::twice\(\): there is no kernel"):
        torch.ops.fallback_ops.twice(x)
    torch._C._set_fallback("warn")
