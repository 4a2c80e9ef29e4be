# SPDX-License-Identifier: BSD-3-Clause
"""_foreach_*: an op on each tensor of a list, and the grouping that external optimizers use."""

import pytest

import cograd as torch
from cograd._functions import foreach as _foreach
from cograd.utils import _foreach_utils

UNARY = _foreach._UNARY
BINARY = sorted(_foreach._BINARY)


def lists(dtype=torch.float64):
    torch.manual_seed(0)
    return [torch.rand(3, dtype=dtype) + 0.1, torch.rand(2, 2, dtype=dtype).t() + 0.1]


def same(found, wanted):
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert torch.equal(a, b) and a.dtype == b.dtype


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    xs = lists()
    wanted = [getattr(x, name)() for x in xs]
    found = getattr(torch, f"_foreach_{name}")(xs)
    assert isinstance(found, tuple)
    same(found, wanted)
    assert getattr(torch, f"_foreach_{name}_")(xs) is xs
    same(xs, wanted)


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    method = {"maximum": "clamp_min", "minimum": "clamp_max"}.get(name, name)
    f, g = getattr(torch, f"_foreach_{name}"), getattr(torch, f"_foreach_{name}_")
    ys = [y + 0.5 for y in lists()]
    for others, each in [(ys, ys), (0.5, [0.5] * 2), ([2, 0.5], [2, 0.5])]:
        xs = lists()
        wanted = [getattr(x, method)(y) for x, y in zip(xs, each, strict=True)]
        same(f(xs, others), wanted)
        assert g(xs, others) is xs
        same(xs, wanted)
    for a, b in zip(f(lists(), torch.tensor(2.0)), f(lists(), 2.0), strict=True):
        torch.testing.assert_close(a, b)  # pow of a tensor rounds differently
    with pytest.raises(RuntimeError, match="0 dim but it has 1 dimensions"):
        f(lists(), torch.ones(2))


def test_the_others():
    xs, ys, ws = lists(), [y + 1 for y in lists()], [w / 2 for w in lists()]
    rows = list(zip(xs, ys, ws, strict=True))
    same(torch._foreach_add(xs, ys, alpha=2), [x + 2 * y for x, y, _ in rows])
    same(torch._foreach_sub(xs, ys, alpha=2), [x - 2 * y for x, y, _ in rows])
    same(torch._foreach_pow(2, xs), [2**x for x in xs])
    same(torch._foreach_lerp(xs, ys, ws), [x.lerp(y, w) for x, y, w in rows])
    same(torch._foreach_lerp(xs, ys, 0.25), [x.lerp(y, 0.25) for x, y, _ in rows])
    same(torch._foreach_lerp(xs, ys, [0.25, 1]), [xs[0].lerp(ys[0], 0.25), xs[1].lerp(ys[1], 1)])
    same(torch._foreach_addcmul(xs, ys, ws), [x.addcmul(y, w) for x, y, w in rows])
    by = [xs[0].addcdiv(ys[0], ws[0], value=2), xs[1].addcdiv(ys[1], ws[1], value=3)]
    for scalars in ([2, 3], torch.tensor([2.0, 3.0])):
        same(torch._foreach_addcdiv(xs, ys, ws, scalars), by)
        same(torch._foreach_addcdiv(xs, ys, ws, scalars=scalars), by)
    same(torch._foreach_norm(xs, 1), [x.abs().sum() for x in xs])
    same(torch._foreach_norm(xs, ord=float("inf"), dtype=torch.float64), [x.max() for x in xs])
    same(torch._foreach_powsum(xs, 3), [x.pow(3).sum() for x in xs])
    same(torch._foreach_max(xs), [x.max() for x in xs])
    same(torch._foreach_mm([ys[1]], [ws[1]]), [ys[1] @ ws[1]])
    copies = torch._foreach_clone(xs)
    assert torch._foreach_copy_(copies, ys) is copies
    same(copies, ys)
    assert torch._foreach_zero_(copies) is copies and not any(c.any() for c in copies)


def test_derivatives_and_modes():
    xs = [x.requires_grad_() for x in lists()]
    sum(y.sum() for y in torch._foreach_exp(torch._foreach_mul(xs, 2))).backward()
    same([x.grad for x in xs], [2 * (2 * x).exp() for x in xs])
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        torch._foreach_add_(xs, 1)
    with torch.no_grad():
        torch._foreach_add_(xs, 1)
    assert all(x._version == 1 for x in xs)


def test_bad_input_is_refused_before_anything_is_written():
    xs = lists()
    before = [x.clone() for x in xs]
    for call, error, match in [
        (lambda: torch._foreach_add_(xs, xs[:1]), RuntimeError, "got 2 and 1"),
        (lambda: torch._foreach_add_(xs, [1.0]), RuntimeError, "same number of elements"),
        (lambda: torch._foreach_add_([], 1), RuntimeError, "at least one tensor"),
        (lambda: torch._foreach_abs_(xs[0]), TypeError, "list or tuple of Tensors, not Tensor"),
        (lambda: torch._foreach_abs_([xs[0], 1.0]), TypeError, "element 1 of 'self'.* float"),
        (lambda: torch._foreach_mul_(xs, 2, alpha=2), TypeError, "'alpha'"),
        (lambda: torch._foreach_add_(xs, 2, alpha=2), TypeError, "'alpha'"),
        (lambda: torch._foreach_add_(xs), TypeError, "expected one of the arguments"),
        (lambda: torch._foreach_lerp_(xs, xs[:1], 0.5), RuntimeError, "got 2 and 1"),
        (
            lambda: torch._foreach_addcmul_(xs, xs, xs, torch.tensor(1.0)),
            RuntimeError,
            "dimension 1",
        ),
        (lambda: torch._foreach_copy_(xs, xs[:1]), RuntimeError, "got 2 and 1"),
    ]:
        with pytest.raises(error, match=match):
            call()
    same(xs, before)
    assert not hasattr(torch, "_foreach_of_nothing")


def test_groups_by_dtype():
    a, b, c = torch.ones(1), torch.ones(2, dtype=torch.float64), torch.ones(3)
    group = _foreach_utils._group_tensors_by_device_and_dtype
    groups = group([[a, b, c], [None, b, None], []], with_indices=True)
    cpu = torch.device("cpu")
    assert set(groups) == {(cpu, torch.float32), (cpu, torch.float64)}
    (first, nothing, empty), indices = groups[cpu, torch.float32]
    assert first[0] is a and first[1] is c and nothing == [None, None]
    assert empty == [] and indices == [0, 2]
    assert group([[a]])[cpu, torch.float32][1] == [] and group([[]]) == {}
    with pytest.raises(RuntimeError, match="lists of 2 and 1 elements"):
        group([[a, c], [a]])
    assert _foreach_utils._has_foreach_support([a, None], cpu)
    assert not _foreach_utils._has_foreach_support([torch.nn.Parameter(a)], cpu)
