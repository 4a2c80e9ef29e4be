# SPDX-License-Identifier: BSD-3-Clause
"""Saved-tensor hooks get final values, once per call; unpacking restores layout and tangents."""

import pytest

import cograd as torch
from cograd import func, nn
from cograd.autograd import functional as AF
from cograd.autograd.graph import save_on_cpu, saved_tensors_hooks
from cograd.testing import assert_close
from cograd.utils.checkpoint import checkpoint

F8 = torch.float64
WITH_STATISTICS = {
    "LayerNorm": (lambda: nn.LayerNorm(4), (3, 4)),
    "RMSNorm": (lambda: nn.RMSNorm(4), (3, 4)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), (3, 4)),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(4), (3, 4)),
    "InstanceNorm1d": (lambda: nn.InstanceNorm1d(4), (3, 4, 5)),
    "TransformerEncoderLayer": (
        lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0),
        (3, 2, 4),
    ),
}


def gradients(module, x, weight, y):
    return torch.autograd.grad((y * weight).sum(), (x, *module.parameters()))


def copies():
    return saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t)


def lists():
    """Keeps only the values of a tensor."""
    return saved_tensors_hooks(
        lambda t: (t.tolist(), t.dtype, t.shape),
        lambda kept: torch.tensor(kept[0], dtype=kept[1]).reshape(kept[2]),
    )


def other_strides(t):
    """Returns equal values in another layout."""
    t = t.detach()
    if t.dim() > 1:
        return t.mT.contiguous().mT
    return torch.stack([t, t], -1)[..., 0]


def transposed():
    return saved_tensors_hooks(other_strides, lambda t: t)


@pytest.mark.parametrize("name", WITH_STATISTICS)
def test_statistics_of_a_norm_are_computed_before_hooks_see_them(name):
    make, shape = WITH_STATISTICS[name]
    module = make().to(F8)
    x = torch.randn(*shape, dtype=F8, requires_grad=True)
    weight = torch.randn(*shape, dtype=F8)
    expected = gradients(module, x, weight, module(x))
    assert_close(gradients(module, x, weight, checkpoint(module, x, use_reentrant=False)), expected)
    for hooks in (save_on_cpu, copies, lists):
        with hooks():
            y = module(x)
        assert_close(gradients(module, x, weight, y), expected)


def test_a_saved_tensor_is_unpacked_once_in_a_call_of_backward():
    count = {}

    def unpack(key):
        count[key] = count.get(key, 0) + 1
        return kept[key]

    kept = []

    def pack(t):
        kept.append(t.detach().clone())
        return len(kept) - 1

    x = torch.randn(3, 4, 5, dtype=F8, requires_grad=True)
    target = torch.rand(3, 4, 5, dtype=F8)
    loss = nn.functional.binary_cross_entropy_with_logits
    for f in (nn.BatchNorm1d(4).to(F8), nn.GroupNorm(2, 4).to(F8), lambda x: loss(x, target)):
        for create_graph in (False, True):
            count.clear()
            kept.clear()
            with saved_tensors_hooks(pack, unpack):
                y = f(x)
            torch.autograd.grad(y.sum(), x, create_graph=create_graph)
            assert set(count.values()) == {1}


def test_a_convolutional_net_with_batch_norm_under_a_checkpoint():
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 3))
    net = net.to(F8)
    x = torch.randn(2, 1, 6, 6, dtype=F8, requires_grad=True)
    weight = torch.randn(2, 2, 2, 2, dtype=F8)
    expected = gradients(net, x, weight, net(x))
    y = checkpoint(net, x, use_reentrant=False)
    assert_close(gradients(net, x, weight, y), expected)


def test_arguments_are_packed_before_the_op_computes():
    """A checkpoint that has all it needs does not compute the op that saves the last of it."""
    ran = []

    class Last(nn.Linear):
        def forward(self, x):
            y = super().forward(x)
            ran.append(y)
            return y

    x = torch.randn(2, 3, requires_grad=True)
    checkpoint(Last(3, 3), x, use_reentrant=False).sum().backward()
    assert len(ran) == 1


@pytest.mark.parametrize("hooks", [save_on_cpu, copies, lists, transposed])
def test_formulas_get_the_layout_that_they_saved(hooks):
    a = torch.randn(4, 4, dtype=F8, requires_grad=True)
    b = torch.randn(4, 2, dtype=F8, requires_grad=True)
    c = torch.randn(2, 3, 6, dtype=F8, requires_grad=True)
    functions = (
        lambda: torch.linalg.solve(a, b),
        lambda: torch.linalg.solve(a.mT, b),
        lambda: torch.linalg.tensorsolve(a.reshape(2, 2, 4), b[:, :1].reshape(2, 2)),
        lambda: torch.linalg.lu_factor(a)[0],
        lambda: torch.linalg.inv(a) @ b,
        lambda: torch.cholesky_solve(b, a.tril()),
        lambda: torch.softmax(c.transpose(0, 2), 1),
    )
    for f in functions:
        y = f()
        weight = torch.randn(y.shape, dtype=F8)
        zeros = {"allow_unused": True, "materialize_grads": True}
        expected = torch.autograd.grad((y * weight).sum(), (a, b, c), **zeros)
        with hooks():
            y = f()
        assert_close(torch.autograd.grad((y * weight).sum(), (a, b, c), **zeros), expected)


def test_a_tensor_with_gaps_comes_back_as_the_hook_returns_it():
    x = torch.randn(3, 4, dtype=F8, requires_grad=True)
    with copies():
        y = x[:, ::2] * x[:, 1::2]
    saved = y.grad_fn._saved_self
    assert saved.is_contiguous()
    assert_close(saved, x.detach()[:, ::2], check_stride=False)


class ExpFunction(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y


SAVES_ITS_RESULT = {
    "exp": torch.exp,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "softmax": lambda x: torch.softmax(x, 0),
    "exp_ in place": lambda x: (x * 1).exp_(),
    "exp_ of a view": lambda x: torch.stack([x, x])[0].exp_(),
    "a Function": ExpFunction.apply,
    "an input": lambda x: x * x * x,
    "a linear map": lambda x: x.reshape(1, 3) @ x.reshape(3, 1) + x,
}


@pytest.mark.parametrize("name", SAVES_ITS_RESULT)
@pytest.mark.parametrize("hooks", [save_on_cpu, copies, lists])
def test_hessians_by_forward_over_reverse_under_hooks(name, hooks):
    f = SAVES_ITS_RESULT[name]
    x = torch.randn(3, dtype=F8)
    expected = func.jacrev(func.jacrev(lambda x: f(x).square().sum()))(x)

    def whole(x):
        with hooks():
            return f(x).square().sum()

    def first(x):
        with hooks():
            y = f(x)
        return y.square().sum()

    for g in (whole, first):
        if hooks is not lists:  # tolist() of a batched tensor raises
            assert_close(func.hessian(g)(x), expected)
            by_forward = {"vectorize": True, "outer_jacobian_strategy": "forward-mode"}
            assert_close(AF.hessian(g, x, **by_forward), expected)
        for row, unit in zip(expected, torch.eye(3, dtype=F8), strict=True):
            assert_close(func.jvp(func.grad(g), (x,), (unit,))[1], row)


def test_register_hooks_keeps_the_tangent_of_what_was_saved():
    with torch.autograd.forward_ad.dual_level():
        x = torch.tensor([2.0], dtype=F8, requires_grad=True)
        dual = torch.autograd.forward_ad.make_dual(x, torch.ones(1, dtype=F8))
        y = dual * dual
        for slot in (y.grad_fn._raw_saved_self, y.grad_fn._raw_saved_other):
            slot.register_hooks(lambda t: t.tolist(), lambda v: torch.tensor(v, dtype=F8))
        (g,) = torch.autograd.grad(y, x)
        assert torch.autograd.forward_ad.unpack_dual(g).tangent.tolist() == [2.0]


def test_new_data_of_a_weight_does_not_reach_what_linear_saved_under_hooks():
    linear = nn.Linear(2, 2).to(F8)
    x = torch.randn(3, 2, dtype=F8, requires_grad=True)
    expected = linear.weight.detach().sum(0).expand(3, 2).clone()
    with saved_tensors_hooks(lambda t: t, lambda t: t):
        y = linear(x)
    linear.weight.data = torch.zeros(2, 2, dtype=F8)
    y.sum().backward()
    assert_close(x.grad, expected)


def test_an_error_of_a_pack_hook_leaves_no_node_behind():
    def pack(t):
        raise ValueError("no")

    x = torch.randn(3, requires_grad=True)
    assert (x * x).requires_grad  # creates the node of the leaf
    before = torch._C._live_nodes()
    with saved_tensors_hooks(pack, lambda t: t):
        for f in (torch.exp, lambda x: x * x, lambda x: nn.functional.layer_norm(x, (3,))):
            with pytest.raises(ValueError, match="no"):
                f(x)
    assert torch._C._live_nodes() == before
