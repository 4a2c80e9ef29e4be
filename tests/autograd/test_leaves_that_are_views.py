# SPDX-License-Identifier: BSD-3-Clause
"""Second derivatives by leaves whose memory belongs to a constant, or whose elements share it."""

import pytest

import cograd as torch

F8 = torch.float64
FLAT = torch.linspace(-0.6, 0.7, 40, dtype=F8)
X = torch.linspace(-1.0, 1.2, 6, dtype=F8).reshape(2, 3)
EQUAL_ROWS = FLAT[3:6].expand(4, 3)

LEAVES = {
    "a view of a constant": lambda: FLAT[5:17].view(4, 3),
    "a view with other strides": lambda: FLAT[5:17].view(3, 4).t(),
    "an expanded view": lambda: FLAT[3:6].expand(4, 3),
    "expanded": lambda: EQUAL_ROWS.detach(),
}


def rnn(x, w):
    module = torch.nn.RNN(3, 4, bias=False, dtype=F8)
    with torch.no_grad():
        module.weight_hh_l0.copy_(FLAT[:16].view(4, 4))
    return torch.func.functional_call(module, {"weight_ih_l0": w}, (x[:, None],))[0]


def instance_norm(x, w):
    images = x[..., None] * torch.tensor([1.0, 3.0, -2.0], dtype=F8)
    return torch.nn.functional.instance_norm(images, weight=w[0])


FUNCTIONS = {
    "linear": torch.nn.functional.linear,
    "rnn": rnn,
    "instance_norm": instance_norm,
    "matmul": lambda x, w: x @ w.t(),
    "prelu": lambda x, w: torch.nn.functional.prelu(x, w[0]),
}


def second(f, w):
    """The derivative by w of both gradients' products with fixed numbers."""
    x, w = X.clone().requires_grad_(), w.requires_grad_()
    assert w.is_leaf
    y = f(x, w)
    weights = torch.linspace(0.5, 2.0, y.numel(), dtype=F8).reshape(y.shape)
    gx, gw = torch.autograd.grad((y**3 * weights).sum(), [x, w], create_graph=True)
    seeds = torch.linspace(1.0, -1.0, 12, dtype=F8).reshape(4, 3)
    return torch.autograd.grad((gx * X.sin()).sum() + (gw * seeds).sum(), w)[0]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("leaf", LEAVES)
def test_the_second_derivative_is_that_of_a_copy(leaf, function):
    f, make = FUNCTIONS[function], LEAVES[leaf]
    want = second(f, make().clone(memory_format=torch.contiguous_format))
    torch.testing.assert_close(second(f, make()), want, rtol=1e-12, atol=1e-12)
    assert want.count_nonzero() > 0


def test_new_data_with_other_strides_does_not_change_the_second_derivative():
    def of(swap):
        x, w = X.clone().requires_grad_(), FLAT[:12].clone().view(4, 3).requires_grad_()
        y = torch.nn.functional.linear(x, w)
        if swap:
            w.data = FLAT[20:32].view(3, 4).t()
        (gx,) = torch.autograd.grad((y**3).sum(), x, create_graph=True)
        return torch.autograd.grad((gx * X.sin()).sum(), w)[0]

    assert torch.equal(of(True), of(False))
