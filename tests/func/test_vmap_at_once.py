# SPDX-License-Identifier: BSD-3-Clause
"""Checks that vmap runs these ops for the whole batch at once: no warning of a loop, its values."""

import warnings

import pytest
from conftest import same

import cograd as torch
from cograd.autograd import grad
from cograd.func import vmap
from cograd.linalg import lstsq, lu, lu_factor, lu_solve

D = torch.float64


def values(*shape):
    n = int(torch.tensor(shape).prod())
    return torch.linspace(0.3, 7.0, n, dtype=D).sin().reshape(shape)


def regular(*batch, n=3):
    return values(*batch, n, n) + 2 * torch.eye(n, dtype=D)


def stacked(f, *args):
    """Returns f of each sample, with the results stacked."""
    rows = [f(*sample) for sample in zip(*args, strict=True)]
    if isinstance(rows[0], torch.Tensor):
        return (torch.stack(rows),)
    return tuple(torch.stack(parts) for parts in zip(*rows, strict=True))


def as_tuple(y):
    return (y,) if isinstance(y, torch.Tensor) else tuple(y)


INDEX = torch.tensor([[2, 0, 0], [1, 2, 1]])
Q = torch.tensor([0.3, 0.9], dtype=D)
CASES = {
    "block_diag": (lambda a, b: torch.block_diag(a, b), values(2, 2, 3), values(2, 4)),
    "block_diag of scalars": (lambda a: torch.block_diag(a, a, torch.ones(1, 2)), values(2)),
    "block_diag of two dtypes": (lambda a, i: torch.block_diag(a, i), values(2, 3), INDEX),
    "rot90": (lambda x: torch.rot90(x, 1, (0, 2)), values(2, 2, 3, 4)),
    "rot90 back": (lambda x: torch.rot90(x, -1, (-1, 0)), values(2, 2, 3)),
    "rot90 twice": (lambda x: torch.rot90(x, 2), values(2, 2, 3)),
    "index_select": (lambda i: torch.index_select(values(4, 3), 1, i), INDEX),
    "index_select of samples": (lambda x, i: torch.index_select(x, 0, i), values(2, 3, 4), INDEX),
    "index_select by a scalar": (lambda x, i: x.index_select(-1, i), values(2, 2, 3), INDEX[:, 0]),
    "quantile": (lambda x: torch.quantile(x, 0.3), values(2, 3, 4)),
    "quantile of a dim": (lambda x: torch.quantile(x, 0.3, -1, True), values(2, 3, 4)),
    "quantile, keepdim": (lambda x: torch.quantile(x, 0.3, keepdim=True), values(2, 3, 4)),
    "quantiles": (lambda x: torch.quantile(x, Q, 0), values(2, 3, 4)),
    "quantiles, keepdim": (lambda x: torch.quantile(x, Q, keepdim=True), values(2, 3, 4)),
    "quantile of scalars": (lambda x: torch.quantile(x, Q), values(2)),
    "nanquantile": (
        lambda x: torch.nanquantile(x, 0.3, 1),
        torch.where(values(2, 3, 4) > 0.9, torch.nan, values(2, 3, 4)),
    ),
    "nearest quantile": (lambda x: torch.quantile(x, 0.3, interpolation="nearest"), values(2, 5)),
    "lu": (lu, regular(2)),
    "lu, high": (lu, values(2, 4, 3)),
    "lu_solve": (lambda a, b: lu_solve(*lu_factor(a), b), regular(2), values(2, 3, 2)),
    "lu_unpack": (lambda a: torch.lu_unpack(*lu_factor(a)), regular(2)),
    "lstsq": (lambda a, b: lstsq(a, b).solution, values(2, 4, 3), values(2, 4, 2)),
}
at_once = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@at_once
def test_values(case):
    f, *args = case
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = as_tuple(vmap(f)(*args))
    for a, b in zip(got, stacked(f, *args), strict=True):
        assert a.dtype is b.dtype
        assert torch.equal(a, b) or same(a, b)


@at_once
def test_derivatives(case):
    f, *args = case
    args = [a.clone().requires_grad_() if a.is_floating_point() else a for a in args]
    leaves = [a for a in args if a.requires_grad]
    found = []
    for ys in (as_tuple(vmap(f)(*args)), stacked(f, *args)):
        ys = [y for y in ys if y.requires_grad]
        if not leaves or not ys:
            return
        found.append(grad([(y * y).nansum() for y in ys], leaves))
    for a, b in zip(*found, strict=True):
        assert same(a.nan_to_num(), b.nan_to_num(), tol=1e-10)


@pytest.mark.parametrize("op", [torch.linspace, torch.logspace])
def test_ranges_between_tensors(op):
    a, b = torch.tensor([0.0, 1.0, -2.0], dtype=D), torch.tensor([1.0, 3.0, 2.5], dtype=D)
    want = torch.stack([op(s, e, 5, dtype=D) for s, e in zip(a.tolist(), b.tolist(), strict=True)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the loop over the batch warns
        assert torch.equal(vmap(lambda s, e: op(s, e, 5, dtype=D))(a, b), want)
        assert torch.equal(vmap(lambda s: op(s, 1.0, 5, dtype=D))(a)[0], op(0.0, 1.0, 5, dtype=D))
        assert torch.equal(vmap(lambda e: op(0, e, 5, dtype=D))(b)[0], want[0])
    assert torch.equal(op(a[1], b[1], 5), op(1.0, 3.0, 5))
    assert not op(a[1].clone().requires_grad_(), 2, 3).requires_grad
    with pytest.raises(RuntimeError, match="0-dimensional start and end tensors, but got end"):
        op(0, b, 5)


def test_fractions_of_each_sample():
    x, q = values(2, 5), torch.tensor([0.25, 0.5], dtype=D)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the loop over the batch warns
        got = vmap(torch.quantile)(x, q)
    assert same(got, [torch.quantile(x[i], q[i].item()).item() for i in range(2)])


@pytest.mark.parametrize(
    "f,error",
    [
        (lambda x: torch.rot90(x, 1, (0, 3)), IndexError),
        (lambda x: torch.rot90(x, 1, (0, 0)), RuntimeError),
        (lambda x: torch.block_diag(x.unsqueeze(0)), RuntimeError),
        (lambda x: torch.quantile(x, 0.5, 2), IndexError),
        (lambda x: torch.quantile(x, 1.5), RuntimeError),
    ],
)
def test_refusals_are_those_of_one_sample(f, error):
    x = values(3, 2, 4)
    with pytest.raises(error) as one:
        f(x[0])
    with pytest.raises(error) as all_of_them, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        vmap(f)(x)
    assert str(one.value).splitlines()[0] in str(all_of_them.value)
