# SPDX-License-Identifier: BSD-3-Clause
"""addmm and its family: a factor of 0 means that values are not read, in every form of the call."""

import itertools
import math

import pytest

import cograd as torch
from cograd import func

SHAPES = {
    "addmv": ((3,), (3, 4), (4,)),
    "addmm": ((3, 2), (3, 4), (4, 2)),
    "addbmm": ((3, 2), (2, 3, 4), (2, 4, 2)),
    "baddbmm": ((2, 3, 2), (2, 3, 4), (2, 4, 2)),
    "addr": ((3, 4), (3,), (4,)),
}
UNREAD = [name for name in SHAPES if name != "addr"]
DTYPES = ["float32", "float64", "bfloat16", "float16", "complex64"]


def operands(name, dtype="float64", poor=None, value=math.nan, shapes=None):
    """Arguments of small numbers; the one of index `poor` begins with `value`."""
    made = []
    for i, shape in enumerate(shapes or SHAPES[name]):
        x = torch.arange(1.0, 1 + math.prod(shape)).reshape(shape) / 4
        if i == poor:
            x.view(-1)[0] = value
        made.append(x.to(getattr(torch, dtype)))
    return made


def forms(name, args, **factors):
    """Results of the function, the in-place and the out= form, and of vmap over each argument."""
    op = getattr(torch, name)
    out = torch.full_like(args[0], math.nan)
    op(*args, **factors, out=out)
    yield "out", out
    yield "function", op(*args, **factors)
    yield "in place", getattr(args[0].clone(), f"{name}_")(*args[1:], **factors)
    for i in range(3):
        dims = tuple(0 if i == j else None for j in range(3))
        batch = [torch.stack([x, x]) if i == j else x for j, x in enumerate(args)]
        both = func.vmap(lambda *a: op(*a, **factors), in_dims=dims)(*batch)
        yield f"vmap {i}", both[1]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNREAD)
def test_alpha_0_reads_no_operands(name, dtype):
    for poor, value, beta in itertools.product((1, 2), (math.nan, math.inf), (0, 1, 2)):
        args = operands(name, dtype, poor, value)
        for form, y in forms(name, args, beta=beta, alpha=0):
            assert torch.equal(y, args[0] * beta), (form, poor, value, beta)


@pytest.mark.parametrize("name", ["addmm", "baddbmm", "addmv", "addbmm"])
def test_alpha_0_reads_no_operands_of_any_size(name):
    shapes = {
        "addmv": ((40,), (40, 70), (70,)),
        "addmm": ((40, 50), (40, 70), (70, 50)),
        "addbmm": ((40, 50), (3, 40, 70), (3, 70, 50)),
        "baddbmm": ((3, 40, 50), (3, 40, 70), (3, 70, 50)),
    }
    args = operands(name, "float32", 2, shapes=shapes[name])
    assert torch.equal(getattr(torch, name)(*args, alpha=0), args[0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SHAPES)
def test_beta_0_does_not_read_the_input(name, dtype):
    for value, alpha in itertools.product((math.nan, math.inf), (0, 1, 2)):
        args = operands(name, dtype, 0, value)
        want = getattr(torch, name)(torch.zeros_like(args[0]), *args[1:], alpha=alpha)
        assert bool(torch.isfinite(want).all())
        for form, y in forms(name, args, beta=0, alpha=alpha):
            assert torch.equal(y, want), (form, value, alpha)


def test_addr_multiplies_by_alpha_0():
    args = operands("addr", poor=1)
    for form, y in forms("addr", args, alpha=0):
        assert bool(y[0].isnan().all()) and torch.equal(y[1:], args[0][1:]), form


@pytest.mark.parametrize("name", SHAPES)
def test_the_input_of_beta_0_has_zeros_for_its_gradient(name):
    for poor, alpha in itertools.product((None, 0), (0, 1)):
        leaves = [x.requires_grad_() for x in operands(name, poor=poor)]
        y = getattr(torch, name)(*leaves, beta=0, alpha=alpha)
        grads = torch.autograd.grad(y.sum(), leaves, allow_unused=True)
        assert torch.equal(grads[0], torch.zeros_like(leaves[0]))
        ones = [torch.ones_like(x) for x in leaves[1:]]
        row = leaves[2].expand_as(leaves[1]) if name == "addmv" else None
        if row is not None:
            assert torch.equal(grads[1], row * alpha)
        assert all(g.shape == x.shape and bool(g.isfinite().all()) for g, x in zip(grads[1:], ones))


@pytest.mark.parametrize("name", SHAPES)
def test_gradients_of_operands_at_alpha_0_are_their_products_by_0(name):
    """As in torch: 0 for finite operands, and NaN where the other operand is NaN."""
    for poor in (None, 1, 2):
        leaves = [x.requires_grad_() for x in operands(name, poor=poor)]
        grads = torch.autograd.grad(getattr(torch, name)(*leaves, alpha=0).sum(), leaves)
        assert torch.equal(grads[0], torch.ones_like(leaves[0]))
        for i in (1, 2):
            assert (
                bool((grads[i] == 0).all()) if poor in (None, i) else bool(grads[i].isnan().any())
            )


@pytest.mark.parametrize("name", UNREAD)
def test_forward_mode_reads_no_values_that_the_result_does_not(name):
    op = getattr(torch, name)
    for poor, beta in itertools.product((1, 2), (0, 1, 2)):
        args = operands(name, poor=poor)
        tangent = torch.full_like(args[0], 3.0)
        y, t = func.jvp(lambda x: op(x, *args[1:], beta=beta, alpha=0), (args[0],), (tangent,))
        assert torch.equal(y, args[0] * beta) and torch.equal(t, tangent * beta)
        dual = torch.ones_like(args[poor])

        def of(x, args=args, poor=poor, beta=beta):
            return op(*[x if i == poor else a for i, a in enumerate(args)], beta=beta, alpha=0)

        y, t = func.jvp(of, (args[poor],), (dual,))
        assert torch.equal(y, args[0] * beta) and bool((t == 0).all())


@pytest.mark.parametrize("name", SHAPES)
def test_second_derivatives_with_factors_of_0(name):
    for beta, alpha in ((0, 1), (1, 0), (0, 0), (0, 2)):
        leaves = [x.requires_grad_() for x in operands(name)]

        def f(*a, beta=beta, alpha=alpha):
            return getattr(torch, name)(*a, beta=beta, alpha=alpha)

        assert torch.autograd.gradcheck(f, leaves, check_forward_ad=True)
        assert torch.autograd.gradgradcheck(f, leaves)
