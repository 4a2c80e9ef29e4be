# SPDX-License-Identifier: BSD-3-Clause
"""Forms of arguments that torch accepts: broadcast biases, out=, axis=, None, Python types."""

import re

import numpy as np
import pytest

import cograd as torch
import cograd.nn.functional as F
from cograd.autograd import gradcheck

F8 = torch.float64


def rand(*shape, grad=False):
    return torch.tensor(np.random.default_rng(1).normal(size=shape), dtype=F8, requires_grad=grad)


BIASES = [(), (1,), (5,), (1, 5), (3, 5), (3, 1), (1, 1)]


@pytest.mark.parametrize(
    ("lead", "bias"), [(n, b) for n in [(3,), (2, 3)] for b in BIASES] + [((2, 3), (2, 3, 5))]
)
def test_linear_takes_a_bias_that_broadcasts(lead, bias):
    x, w, b = rand(*lead, 4, grad=True), rand(5, 4, grad=True), rand(*bias, grad=True)
    assert np.allclose(F.linear(x, w, b).detach(), x.detach() @ w.detach().T + b.detach())
    assert gradcheck(F.linear, (x, w, b))


def test_linear_of_one_vector_takes_one_row_of_biases():
    assert F.linear(torch.ones(4), torch.ones(5, 4), torch.ones(1, 5)).tolist() == [5] * 5


@pytest.mark.parametrize("bias", [(4,), (2, 5), (1, 3, 5), (5, 1)])
def test_linear_refuses_other_biases(bias):
    with pytest.raises(RuntimeError, match="must match the existing size"):
        F.linear(torch.ones(3, 4), torch.ones(5, 4), torch.ones(bias))


@pytest.mark.parametrize("bias", [(1, 5), (3, 5), (1,), ()])
def test_bilinear_takes_one_bias_per_feature(bias):
    with pytest.raises(RuntimeError, match="bias size does not match weight size"):
        F.bilinear(torch.ones(3, 2), torch.ones(3, 4), torch.ones(5, 2, 4), torch.ones(bias))


def test_prelu_keeps_the_shape():
    for weight in (torch.tensor([0.5]), torch.tensor(0.5)):
        y = F.prelu(torch.tensor(-2.0), weight)
        assert y.shape == ()
        assert y.item() == -1
        assert F.prelu(torch.tensor([-2.0]), weight).tolist() == [-1]
    x = torch.tensor([[-1.0, 2], [3, -4]])
    assert torch.prelu(x, torch.tensor([2.0, 3])).tolist() == [[-2, 2], [3, -12]]
    with pytest.raises(RuntimeError, match="channel size = 2"):
        x.prelu(torch.ones(3))
    with pytest.raises(RuntimeError, match="zero-dim"):
        F.prelu(torch.tensor(1.0), torch.ones(2))


def test_roll_without_dims():
    x = torch.arange(6).reshape(2, 3)
    flat = [[5, 0, 1], [2, 3, 4]]
    for y in (x.roll(1), x.roll(1, None), torch.roll(x, 1, dims=None), torch.roll(x, 1, dims=())):
        assert y.tolist() == flat
    assert torch.roll(torch.tensor(1.0), 3).item() == 1
    for dims in (0, (0, 0)):
        with pytest.raises(IndexError, match="Dimension specified as 0 but tensor has no dim"):
            torch.roll(torch.tensor(1.0), (1, 1) if dims else 1, dims)


def test_norms_take_numpys_names():
    x = rand(2, 3)
    a = x.numpy()
    assert np.allclose(torch.linalg.norm(x, axis=0), np.linalg.norm(a, axis=0))
    got = torch.linalg.vector_norm(x, axis=1, keepdims=True)
    assert np.allclose(got, np.linalg.norm(a, axis=1, keepdims=True))
    got = torch.linalg.matrix_norm(x, axis=(1, 0), keepdims=True)
    assert np.allclose(got, np.linalg.norm(a, axis=(0, 1), keepdims=True))
    with pytest.raises(TypeError, match="both 'axis' and 'dim'"):
        torch.linalg.norm(x, axis=0, dim=0)


def test_norm_writes_to_out():
    x = rand(2, 3)
    out = torch.empty(0, dtype=F8)
    assert torch.norm(x, out=out) is out
    assert np.allclose(out, np.linalg.norm(x.numpy()))
    out = torch.empty(2, dtype=F8)
    torch.norm(x, 1, 1, out=out)
    assert np.allclose(out, np.abs(x.numpy()).sum(1))
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        torch.norm(x, out=torch.empty(()))


def test_nuclear_norm():
    x = rand(2, 3, grad=True)
    want = np.linalg.norm(x.detach().numpy(), "nuc")
    assert torch.norm(x, p="nuc").item() == pytest.approx(want)
    assert x.norm("nuc").item() == pytest.approx(want)
    many = rand(2, 3, 4)
    got = torch.norm(many, p="nuc", dim=(0, 2))
    assert np.allclose(got, np.linalg.norm(many.numpy(), "nuc", axis=(0, 2)))
    assert torch.norm(many, p="nuc", dim=(2, 0), keepdim=True).shape == (1, 3, 1)
    assert np.allclose(torch.linalg.matrix_norm(many, "nuc", (0, 2)), got)
    assert gradcheck(lambda t: torch.norm(t, "nuc"), (x,))
    with pytest.raises(RuntimeError, match="dim must be a 2-tuple"):
        torch.norm(many, p="nuc")
    with pytest.raises(RuntimeError, match="dims must be different"):
        torch.norm(many, p="nuc", dim=(0, 0))


def test_aminmax_writes_to_out():
    x = torch.arange(6.0).reshape(2, 3)
    low, high = torch.empty(0), torch.empty(0)
    result = torch.aminmax(x, dim=1, out=(low, high))
    assert low.tolist() == [0, 3]
    assert high.tolist() == [2, 5]
    assert result.min is low


def test_take_along_dim_counts_from_the_end():
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.take_along_dim(x, torch.tensor([[0], [1]]), -1).tolist() == [[0], [4]]
    assert torch.take_along_dim(x, torch.tensor([[-1], [-3]]), 1).tolist() == [[2], [3]]
    with pytest.raises(RuntimeError, match="out of bounds"):
        torch.take_along_dim(x, torch.tensor([[-4], [1]]), 1)


def test_limits_of_python_types():
    assert torch.finfo(float) == torch.finfo(torch.float64)
    assert torch.iinfo(int) == torch.iinfo(torch.int64)
    for f, bad in [(torch.finfo, int), (torch.iinfo, bool), (torch.iinfo, float)]:
        with pytest.raises(TypeError, match="requires"):
            f(bad)
    with pytest.raises(TypeError, match=r"must be cograd.dtype"):
        torch.finfo(str)


def test_matrix_power_of_integers():
    a = torch.tensor([[1, 2], [3, 4]])
    assert torch.linalg.matrix_power(a, 3).tolist() == [[37, 54], [81, 118]]
    assert torch.linalg.matrix_power(a.to(torch.uint8), 0).tolist() == [[1, 0], [0, 1]]
    with pytest.raises(RuntimeError, match="Expected a floating point"):
        torch.linalg.matrix_power(a, -1)
    with pytest.raises(RuntimeError, match="square matrices"):
        torch.linalg.matrix_power(a[:1], 2)


def test_negative_matrix_powers():
    a = (torch.randn(2, 3, 3, dtype=torch.float64) + 4 * torch.eye(3)).requires_grad_()
    torch.testing.assert_close(torch.matrix_power(a, -2), torch.inverse(a @ a))
    assert torch.autograd.gradcheck(lambda a: torch.matrix_power(a, -2), (a,))
    assert torch.autograd.gradgradcheck(lambda a: torch.matrix_power(a, -2), (a,))


def test_matrix_power_zero_and_empty_residuals_keep_the_graph():
    x = torch.full((2, 2), float("nan"), requires_grad=True)
    y = torch.matrix_power(x, 0)
    assert y.tolist() == [[1, 0], [0, 1]]
    (y * 2).sum().backward()
    assert x.grad.tolist() == [[0, 0], [0, 0]]
    assert torch.linalg.matrix_power(torch.ones(3, 2, 2), 0).tolist() == [[[1, 0], [0, 1]]] * 3
    a = torch.eye(3, dtype=F8, requires_grad=True)
    empty = torch.linalg.lstsq(a, torch.ones(3, 1, dtype=F8)).residuals
    assert empty.shape == (0,)
    assert empty.requires_grad
    empty.sum().backward()
    assert not a.grad.any()


def test_lstsq_gives_residuals_for_the_drivers_that_compute_them():
    a, b = rand(4, 2), rand(4, 1)
    want = np.linalg.lstsq(a.numpy(), b.numpy(), rcond=None)[1]
    for driver in ("gels", "gelsd", "gelss"):
        assert np.allclose(torch.linalg.lstsq(a, b, driver=driver).residuals, want)
    assert torch.linalg.lstsq(a, b, driver="gelsy").residuals.numel() == 0


@pytest.mark.parametrize("f", [F.nll_loss, F.cross_entropy])
@pytest.mark.parametrize(
    ("x", "target", "kind", "text"),
    [
        ((3, 4, 5), (3,), RuntimeError, "Expected target size [3, 5], got [3]"),
        ((3, 4, 5), (3, 4), RuntimeError, "Expected target size [3, 5], got [3, 4]"),
        ((3, 5), (2,), ValueError, "Expected input batch_size (3) to match target batch_size (2)"),
        ((3, 5), (), ValueError, "Expected input batch_size (3) to match target batch_size (0)"),
        ((3, 5), (3, 1), RuntimeError, "0D or 1D target tensor expected"),
        ((5,), (3,), ValueError, "1D target must have size 1, but got target size: 3"),
        ((3, 5, 2, 2), (3, 2), RuntimeError, "targets of dimension: 2"),
        ((3, 5, 2, 2), (3, 2, 3), RuntimeError, "size mismatch (got input: [3, 5, 2, 2]"),
        ((3, 5, 2, 2, 2), (3, 2, 2), RuntimeError, "Expected target size [3, 2, 2, 2], got"),
    ],
)
def test_class_targets_of_a_wrong_shape_are_told(f, x, target, kind, text):
    with pytest.raises(kind, match=re.escape(text)):
        f(torch.zeros(x), torch.zeros(target, dtype=torch.int64))


@pytest.mark.parametrize("f", [F.nll_loss, F.cross_entropy])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_one_sample_takes_a_target_of_one_element(f, reduction):
    x = rand(5, grad=True)
    plain = f(x, torch.tensor(2), reduction=reduction)
    vector = f(x, torch.tensor([2]), reduction=reduction)
    assert vector.shape == plain.shape == ()
    assert vector.item() == plain.item()
    (plain_grad,) = torch.autograd.grad(plain, x)
    (vector_grad,) = torch.autograd.grad(vector, x)
    assert torch.equal(plain_grad, vector_grad)
    assert gradcheck(lambda t: f(t, torch.tensor([2]), reduction=reduction), (x,))


def functions():
    for space in (torch, torch.Tensor, torch._C._nn):
        for name in dir(space):
            f = getattr(space, name)
            if type(f).__name__ in ("function", "method") or "built-in" in repr(f):
                yield name, f


def test_signatures_are_python():
    seen = 0
    for name, f in functions():
        for line in (f.__doc__ or "").splitlines():
            if re.fullmatch(rf"{re.escape(name)}\(.*\)( -> .+)?", line) and "..." not in line:
                future = "from __future__ import annotations\n"
                exec(f"{future}def f{line[len(name) :]}: pass", {"inf": 0, "cograd": torch})
                seen += 1
        text = getattr(f, "__text_signature__", None)
        if text is not None and type(f).__module__ == "cograd._C":
            exec(f"def f{text}: pass", {})
    assert seen > 500
    assert torch.acos.__doc__.startswith(
        "acos(input: Tensor, *, out: Tensor | None = None) -> Tensor\n"
    )
    assert torch.aminmax.__doc__.startswith(
        "aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False, "
        "out: Sequence[Tensor] | None = None) -> tuple[Tensor, Tensor]\n"
    )
    assert torch.acos.__text_signature__ == "(input, *, out=None)"


def test_a_number_in_front_as_programs_once_wrote_it():
    x, y, z = torch.ones(2), torch.full((2,), 3.0), torch.full((2,), 2.0)
    for old, new in (
        (lambda: x.clone().add_(2, y), x + 2 * y),
        (lambda: torch.sub(x, 2, y), x - 2 * y),
        (lambda: x.addcmul(0.5, y, z), x + 0.5 * y * z),
        (lambda: x.clone().addcdiv_(-1.0, y, z), x - y / z),
    ):
        with pytest.warns(UserWarning, match="is deprecated; pass it as"):
            got = old()
        assert torch.equal(got, new)
    for wrong in (lambda: x.add_(2, 3), lambda: x.add(y, 2), lambda: x.mul(2, y)):
        with pytest.raises(TypeError):
            wrong()
