# SPDX-License-Identifier: BSD-3-Clause
"""A recorded gradient of 16-bit numbers is as precise as one that is not recorded."""

import pytest

import cograd as torch

F = torch.nn.functional
# Numbers that bfloat16 has, so that float64 starts from the same ones.
X = ((torch.arange(96.0).reshape(4, 6, 4) * 1.7).sin() * 3).bfloat16()
WEIGHT = (torch.arange(6.0).cos() + 1.5).bfloat16()
CLASSES = torch.tensor([1, 0, 5, 3])


def recurrent(cls):
    def run(x):
        module = cls(4, 3, dtype=x.dtype)
        with torch.no_grad():
            for p in module.parameters():
                p.copy_((torch.arange(float(p.numel())).reshape(p.shape) * 2.3).sin().bfloat16())
        return module(x)[0]

    return run


FUNCTIONS = {
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "layer_norm": lambda x: F.layer_norm(x, (6, 4)),
    "layer_norm of a large mean": lambda x: F.layer_norm(x + 64, (4,)),
    "batch_norm": lambda x: F.batch_norm(x, None, None, WEIGHT.to(x.dtype), training=True),
    "group_norm": lambda x: F.group_norm(x, 2, WEIGHT.to(x.dtype)),
    "instance_norm": lambda x: F.instance_norm(x, weight=WEIGHT.to(x.dtype)),
    "cross_entropy": lambda x: F.cross_entropy(x[..., 0], CLASSES, label_smoothing=0.1),
    "rnn": recurrent(torch.nn.RNN),
    "lstm": recurrent(torch.nn.LSTM),
    "gru": recurrent(torch.nn.GRU),
}


def gradient(f, dtype, **options):
    x = X.to(dtype).clone().requires_grad_()
    y = f(x)
    weights = (torch.arange(float(y.numel())).reshape(y.shape) * 3.1).cos().bfloat16()
    (g,) = torch.autograd.grad(y, x, weights.to(dtype), **options)
    assert g.dtype == dtype
    return g.detach().double()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_recorded_gradient_is_as_precise(name):
    f = FUNCTIONS[name]
    exact = gradient(f, torch.float64)
    error = (gradient(f, torch.bfloat16) - exact).abs().max()
    recorded = (gradient(f, torch.bfloat16, create_graph=True) - exact).abs().max()
    assert recorded <= 1.1 * error + 1e-3 * exact.abs().max()
