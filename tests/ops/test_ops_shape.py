# SPDX-License-Identifier: BSD-3-Clause
"""Shape ops: reshaping, moving and repeating dims, joining, splitting; values, views, errors."""

import math

import numpy as np
import pytest
from op_items import each_cell

import cograd as torch
from cograd.autograd import gradcheck, gradgradcheck

F8 = torch.float64


def arange(*shape):
    return torch.arange(math.prod(shape), dtype=F8).reshape(shape)


# (label, function on tensors, function on arrays)
PAIRS = [
    ("reshape", lambda t: t.reshape(4, 6), lambda a: a.reshape(4, 6)),
    ("view", lambda t: t.contiguous().view(6, -1), lambda a: a.reshape(6, -1)),
    ("flatten", torch.flatten, np.ravel),
    ("flatten 0 1", lambda t: t.flatten(0, 1), lambda a: a.reshape(-1, 4)),
    ("flatten -2", lambda t: torch.flatten(t, start_dim=-2), lambda a: a.reshape(2, 12)),
    ("unflatten", lambda t: t.unflatten(-1, (2, 2)), lambda a: a.reshape(2, 3, 2, 2)),
    ("unflatten -1", lambda t: torch.unflatten(t, 1, (3, -1)), lambda a: a.reshape(2, 3, 1, 4)),
    ("squeeze", lambda t: t[:, :1].squeeze(), lambda a: a[:, :1].squeeze()),
    ("squeeze dim", lambda t: t[:1].squeeze(0), lambda a: a[0]),
    ("squeeze no-op", lambda t: t.squeeze(1), lambda a: a),
    ("squeeze dims", lambda t: t[:1, :, :1].squeeze((0, 2)), lambda a: a[0, :, 0]),
    ("unsqueeze", lambda t: torch.unsqueeze(t, 1), lambda a: a[:, None]),
    ("unsqueeze -1", lambda t: t.unsqueeze(-1), lambda a: a[..., None]),
    ("expand", lambda t: t[:, :1].expand(-1, 5, 4), lambda a: np.broadcast_to(a[:, :1], (2, 5, 4))),
    ("expand new", lambda t: t.expand(3, 2, 3, 4), lambda a: np.broadcast_to(a, (3, 2, 3, 4))),
    ("expand_as", lambda t: t[:1].expand_as(t), lambda a: np.broadcast_to(a[:1], a.shape)),
    (
        "broadcast_to",
        lambda t: torch.broadcast_to(t, (2, 2, 3, 4)),
        lambda a: np.broadcast_to(a, (2, 2, 3, 4)),
    ),
    ("permute", lambda t: torch.permute(t, (2, 0, 1)), lambda a: a.transpose(2, 0, 1)),
    ("permute negative", lambda t: t.permute(-1, 0, 1), lambda a: a.transpose(2, 0, 1)),
    ("transpose", lambda t: torch.transpose(t, 0, -1), lambda a: a.swapaxes(0, -1)),
    ("swapaxes", lambda t: t.swapaxes(0, 1), lambda a: a.swapaxes(0, 1)),
    ("t", lambda t: t[0].t(), lambda a: a[0].T),
    ("movedim", lambda t: torch.movedim(t, 0, 2), lambda a: np.moveaxis(a, 0, 2)),
    (
        "movedim tuple",
        lambda t: t.movedim((0, 1), (1, 2)),
        lambda a: np.moveaxis(a, (0, 1), (1, 2)),
    ),
    ("moveaxis", lambda t: torch.moveaxis(t, -1, 0), lambda a: np.moveaxis(a, -1, 0)),
    ("flip", lambda t: torch.flip(t, (0, 2)), lambda a: np.flip(a, (0, 2))),
    ("flip varargs", lambda t: t.flip(0, 1), lambda a: np.flip(a, (0, 1))),
    ("fliplr", torch.fliplr, np.fliplr),
    ("flipud", torch.flipud, np.flipud),
    ("roll", lambda t: torch.roll(t, 5), lambda a: np.roll(a, 5)),
    ("roll dim", lambda t: t.roll(-1, 1), lambda a: np.roll(a, -1, 1)),
    ("roll dims", lambda t: torch.roll(t, (1, 7), (0, 2)), lambda a: np.roll(a, (1, 7), (0, 2))),
    ("repeat", lambda t: t.repeat(2, 1, 3), lambda a: np.tile(a, (2, 1, 3))),
    ("repeat new", lambda t: t.repeat(2, 1, 1, 2), lambda a: np.tile(a, (2, 1, 1, 2))),
    ("repeat zero", lambda t: t.repeat(1, 0, 1), lambda a: np.tile(a, (1, 0, 1))),
    ("tile", lambda t: torch.tile(t, (2,)), lambda a: np.tile(a, 2)),
    ("tile more", lambda t: t.tile(2, 1, 1, 3), lambda a: np.tile(a, (2, 1, 1, 3))),
    ("repeat_interleave", lambda t: torch.repeat_interleave(t, 2), lambda a: np.repeat(a, 2)),
    ("repeat_interleave dim", lambda t: t.repeat_interleave(3, 1), lambda a: np.repeat(a, 3, 1)),
    (
        "repeat_interleave tensor",
        lambda t: t.repeat_interleave(torch.tensor([1, 0, 2]), dim=1),
        lambda a: np.repeat(a, [1, 0, 2], 1),
    ),
    ("narrow", lambda t: torch.narrow(t, 1, 1, 2), lambda a: a[:, 1:3]),
    ("narrow negative", lambda t: t.narrow(-1, -2, 2), lambda a: a[..., -2:]),
    ("select", lambda t: torch.select(t, 1, -1), lambda a: a[:, -1]),
    ("diagonal", lambda t: torch.diagonal(t, 0, 1, 2), lambda a: np.diagonal(a, 0, 1, 2)),
    ("diagonal offset", lambda t: t.diagonal(-1, 0, 2), lambda a: np.diagonal(a, -1, 0, 2)),
    ("diagonal empty", lambda t: t.diagonal(9), lambda a: np.diagonal(a, 9)),
    ("diag", lambda t: torch.diag(t[0, 0], 1), lambda a: np.diag(a[0, 0], 1)),
    ("diag matrix", lambda t: torch.diag(t[0]), lambda a: np.diag(a[0])),
    (
        "as_strided",
        lambda t: torch.as_strided(t.contiguous(), (3, 2), (2, 3), 1),
        lambda a: np.lib.stride_tricks.as_strided(
            np.ascontiguousarray(a).ravel()[1:], (3, 2), (16, 24)
        ),
    ),
    ("tril", lambda t: t.tril(1), lambda a: np.tril(a, 1)),
    ("cat", lambda t: torch.cat([t, t[:, :1]], 1), lambda a: np.concatenate([a, a[:, :1]], 1)),
    ("cat -1", lambda t: torch.concat((t, t), dim=-1), lambda a: np.concatenate((a, a), -1)),
    ("stack", lambda t: torch.stack([t, t + 1], 1), lambda a: np.stack([a, a + 1], 1)),
    ("stack -1", lambda t: torch.stack((t, t), -1), lambda a: np.stack((a, a), -1)),
    ("hstack", lambda t: torch.hstack([t, t]), lambda a: np.hstack([a, a])),
    ("vstack", lambda t: torch.vstack([t, t]), lambda a: np.vstack([a, a])),
    ("atleast_2d", lambda t: torch.atleast_2d(t[0, 0]), lambda a: np.atleast_2d(a[0, 0])),
]


@each_cell("label,f,g", PAIRS, ids=[p[0] for p in PAIRS])
@each_cell("layout", ["contiguous", "permuted", "spaced"])
def test_values(label, f, g, layout):
    a = np.arange(24.0).reshape(2, 3, 4)
    t = torch.tensor(a)
    if layout == "permuted":
        t = torch.tensor(a.transpose(2, 0, 1).copy()).permute(1, 2, 0)
    elif layout == "spaced":
        t = torch.zeros(2, 3, 9, dtype=F8)[..., 1::2].copy_(t)
    got = f(t)
    assert tuple(got.shape) == g(a).shape
    np.testing.assert_array_equal(got.numpy(), g(a))


@each_cell("label,f,g", PAIRS, ids=[p[0] for p in PAIRS])
def test_gradients(label, f, g):
    x = torch.tensor(np.random.default_rng(0).uniform(-1, 1, (2, 3, 4)), requires_grad=True)
    if f(x).numel():
        assert gradcheck(f, (x,)) and gradgradcheck(f, (x,))


@each_cell(
    "call,error,match",
    [
        (
            lambda: arange(2, 3).expand(4, 3),
            RuntimeError,
            r"expanded size .*\(4\) must match the existing size \(2\)",
        ),
        (lambda: arange(3).expand(-1, 3), RuntimeError, "leading, non-existing dimension 0"),
        (lambda: arange(2, 3).expand(3), RuntimeError, "must be greater or equal"),
        (lambda: arange(2, 3).permute(0, 0), RuntimeError, "duplicate dims are not allowed"),
        (lambda: arange(2, 3).permute(0), RuntimeError, "number of dimensions"),
        (lambda: arange(2, 3).permute(0, 2), IndexError, "Dimension out of range"),
        (lambda: arange(2, 3).transpose(0, 2), IndexError, r"range of \[-2, 1\], but got 2"),
        (lambda: arange(2, 3).squeeze(5), IndexError, r"range of \[-2, 1\], but got 5"),
        (lambda: arange(2, 3).unsqueeze(4), IndexError, r"range of \[-3, 2\], but got 4"),
        (
            lambda: arange(2, 3, 4).flatten(2, 1),
            RuntimeError,
            "start_dim cannot come after end_dim",
        ),
        (
            lambda: arange(2, 3).unflatten(1, (2, 2)),
            RuntimeError,
            r"\[2, 2\] don't multiply up to the size of dim 1 \(3\)",
        ),
        (lambda: arange(2, 4).unflatten(1, ()), RuntimeError, "non-empty"),
        (lambda: arange(2, 3).movedim((0, 0), (0, 1)), RuntimeError, "repeated dim in `source`"),
        (lambda: arange(2, 3).movedim((0,), (0, 1)), RuntimeError, "same number of dims"),
        (lambda: arange(4).flip((0, 0)), RuntimeError, "dim 0 appears multiple times"),
        (lambda: arange(4).flip((1,)), IndexError, "Dimension out of range"),
        (lambda: arange(2, 3).roll((1, 1), (0,)), RuntimeError, "shifts and dimensions must align"),
        (lambda: arange(2, 3).repeat(2), RuntimeError, "[Nn]umber of dimensions of repeat dims"),
        (lambda: arange(3).repeat(-1), RuntimeError, "negative"),
        (lambda: arange(2).repeat_interleave(-1), RuntimeError, "non-negative"),
        (
            lambda: arange(2).repeat_interleave(torch.tensor([1, 2, 3])),
            RuntimeError,
            "same size as input",
        ),
        (
            lambda: arange(5).narrow(0, 3, 3),
            RuntimeError,
            r"start \(3\) \+ length \(3\) exceeds dimension size \(5\)",
        ),
        (lambda: arange(5).narrow(0, 0, -1), RuntimeError, "length must be non-negative"),
        (lambda: arange(5).select(0, 5), IndexError, "index 5 out of range"),
        (lambda: torch.ones(()).select(0, 0), IndexError, "0-dim"),
        (lambda: arange(3).diagonal(), IndexError, "Dimension out of range"),
        (lambda: arange(3, 3).diagonal(0, 1, 1), RuntimeError, "cannot be identical"),
        (lambda: torch.cat([]), (ValueError, RuntimeError), "non-empty"),
        (
            lambda: torch.cat([arange(2), arange(2, 2)]),
            RuntimeError,
            "same number of dimensions: got 1 and 2",
        ),
        (
            lambda: torch.cat([arange(2, 2), arange(2, 3)]),
            RuntimeError,
            "Expected size 2 but got size 3 for tensor number 1",
        ),
        (lambda: torch.cat([torch.tensor(1.0)]), RuntimeError, "zero-dimensional"),
        (lambda: torch.cat([arange(2), 1]), TypeError, "element 1"),
        (lambda: torch.cat([arange(2)], 3), IndexError, "Dimension out of range"),
        (lambda: torch.cat(arange(2, 3)), TypeError, None),
        (lambda: torch.stack([]), RuntimeError, "non-empty"),
        (
            lambda: torch.stack([arange(2), arange(3)]),
            RuntimeError,
            r"\[2\] at entry 0 and \[3\] at entry 1",
        ),
        (lambda: torch.stack([arange(2)], 5), IndexError, r"range of \[-2, 1\], but got 5"),
        (lambda: torch.split(arange(5), [2, 2]), RuntimeError, "sum exactly to 5"),
        (lambda: torch.split(arange(5), 0), RuntimeError, "split_size can only be 0"),
        (lambda: torch.split(arange(5), -1), RuntimeError, "non-negative"),
        (lambda: torch.split(arange(5), [6, -1]), RuntimeError, "non-negative"),
        (lambda: torch.split(arange(5), 2, 1), IndexError, "Dimension out of range"),
        (lambda: torch.split(torch.ones(()), 2), RuntimeError, "at least a 1-dim"),
        (lambda: torch.chunk(arange(5), 0), RuntimeError, "greater than 0"),
        (lambda: torch.ones(()).unbind(), IndexError, None),
        (lambda: torch.broadcast_shapes((2,), (3,)), RuntimeError, None),
        (lambda: torch.broadcast_tensors(arange(2), arange(3)), RuntimeError, "must match"),
    ],
)
def test_errors(call, error, match):
    with pytest.raises(error, match=match):
        call()


def test_cat_rules():
    assert torch.cat([torch.ones(0), torch.ones(2, 3)]).shape == (2, 3), (
        "the legacy empty tensor is skipped"
    )
    assert torch.cat([torch.ones(2, 3), torch.ones(0)], 1).shape == (2, 3)
    assert torch.cat(tensors=[torch.ones(1)], dim=0).shape == (1,)
    assert torch.cat([torch.tensor([1]), torch.tensor([2.5])]).tolist() == [1, 2.5]
    assert torch.cat([torch.zeros(0, 3), torch.zeros(0, 3)]).shape == (0, 3)
    a = torch.arange(3)
    b = torch.cat([a])
    b[0] = 9
    assert a[0].item() == 0
    w = torch.ones(2, requires_grad=True)
    torch.cat([w, w * 2, torch.zeros(1)]).sum().backward()
    assert w.grad.tolist() == [3, 3]
    assert torch.cat([arange(2, 3).t(), arange(1, 2)]).shape == (4, 2)


@pytest.mark.parametrize("n", [1, 5, 6, 7])
@pytest.mark.parametrize("size", [1, 2, 3, 10])
def test_split_and_chunk(n, size):
    t = arange(n, 2)
    parts = torch.split(t, size)
    assert isinstance(parts, tuple)
    assert [p.shape[0] for p in parts] == [min(size, n - i) for i in range(0, n, size)]
    assert torch.equal(torch.cat(parts), t) and all(
        p.data_ptr() == t[i * size].data_ptr() for i, p in enumerate(parts)
    )
    chunks = t.chunk(size)
    step = -(-n // size)
    assert [c.shape[0] for c in chunks] == [min(step, n - i) for i in range(0, n, step)]
    assert torch.equal(torch.cat(chunks), t)


def test_split_forms():
    t = arange(2, 5)
    assert [p.shape[1] for p in t.split([1, 4], dim=1)] == [1, 4]
    assert [p.shape[1] for p in t.split((0, 5), -1)] == [0, 5]
    assert [p.shape[0] for p in torch.split(torch.zeros(0, 2), 3)] == [0]
    assert [p.tolist() for p in torch.tensor_split(torch.arange(7), 3)] == [
        [0, 1, 2],
        [3, 4],
        [5, 6],
    ]
    assert [u.tolist() for u in torch.unbind(torch.arange(4).reshape(2, 2), 1)] == [[0, 2], [1, 3]]
    assert torch.unbind(torch.zeros(0, 2)) == ()
    x = torch.ones(4, requires_grad=True)
    a, b = x.split(2)
    (a * 2 + b * 3).sum().backward()
    assert x.grad.tolist() == [2, 2, 3, 3]


def test_broadcast_helpers():
    a, b = torch.broadcast_tensors(arange(2, 1), arange(3))
    assert a.shape == b.shape == (2, 3) and a.stride() == (1, 0)
    assert torch.broadcast_shapes((2, 1), (3,), (1, 1, 1)) == (1, 2, 3)


def test_repeat_interleave_counts():
    assert torch.repeat_interleave(torch.tensor([2, 0, 1])).tolist() == [0, 0, 2]
    assert arange(2, 2).repeat_interleave(torch.tensor([1, 2]), dim=0, output_size=3).shape == (
        3,
        2,
    )


def test_zero_dim_cases():
    s = torch.tensor(5.0)
    assert s.flatten().shape == (1,) and s.reshape(1, 1).shape == (1, 1) and s.view(()).shape == ()
    assert s.unsqueeze(0).shape == (1,) and s.squeeze().shape == () and s.squeeze(0).shape == ()
    assert s.expand(3).tolist() == [5, 5, 5] and s.repeat(2).tolist() == [5, 5]
    assert (
        s.transpose(0, 0).shape == () and s.permute(()).shape == () and s.movedim(0, 0).shape == ()
    )
    assert s.flip(0).item() == 5 and s.roll(1).item() == 5


def test_every_dtype_moves():
    for dtype in (torch.bool, torch.uint8, torch.int16, torch.float16, torch.bfloat16, torch.int64):
        t = torch.tensor([[0, 1], [1, 1]], dtype=dtype)
        for r in (
            t.flip(0),
            t.roll(1),
            t.repeat(1, 2),
            torch.cat([t, t]),
            torch.stack([t, t]),
            t.t().contiguous(),
        ):
            assert r.dtype is dtype
        assert t.flip(1).tolist() == [[1, 0], [1, 1]] and torch.cat([t, t], 1).tolist() == [
            [0, 1, 0, 1],
            [1, 1, 1, 1],
        ]


def test_tensor_split_and_stride_by_keyword():
    x = torch.arange(24).view(4, 6)
    cut = [x[:1], x[1:2], x[2:]]
    for parts in (
        torch.tensor_split(x, indices=(1, 2), dim=0),
        x.tensor_split(indices=(1, 2)),
        torch.tensor_split(x, tensor_indices_or_sections=torch.tensor([1, 2])),
    ):
        assert all(torch.equal(a, b) for a, b in zip(parts, cut, strict=True))
    assert [p.shape for p in torch.tensor_split(x, sections=2, dim=1)] == [(4, 3)] * 2
    assert x.stride(dim=0) == 6 and x.stride(dim=-1) == x.stride(1) == 1
    for wrong in ({"axis": 0}, {"dim": 0, "axis": 0}):
        with pytest.raises(TypeError, match="stride"):
            x.stride(**wrong)
    with pytest.raises(TypeError, match="at most 1"):
        x.stride(0, 1)


@pytest.mark.parametrize(
    "expand,sizes,strides,want",
    [
        (lambda x: x[:1].expand(3), (3,), (0,), [3.0, 0.0]),
        (lambda x: x.unsqueeze(1).expand(2, 3), (2, 3), (1, 0), [3.0, 12.0]),
        (lambda x: x.unsqueeze(1).expand(2, 3), (2,), (1,), [0.0, 1.0]),
        (lambda x: x.unsqueeze(1).expand(2, 3), (2, 2), (1, 0), [1.0, 5.0]),
        (lambda x: x.as_strided((2, 2), (1, 0)), (2, 2), (1, 0), [1.0, 5.0]),
    ],
)
def test_as_strided_of_elements_that_share_memory(expand, sizes, strides, want):
    """Each element gets an equal part of the gradient, as in torch; the sum reaches memory."""
    x = torch.ones(2, dtype=F8, requires_grad=True)
    weights = arange(*sizes)
    (expand(x).as_strided(sizes, strides) * weights).sum().backward()
    assert x.grad.tolist() == want

    def cubed(x):
        return expand(x).as_strided(sizes, strides) ** 3 * (weights + 1)

    assert gradcheck(cubed, (x,), check_forward_ad=True) and gradgradcheck(cubed, (x,))


def test_as_strided_beside_the_elements_of_a_view_raises_in_backward():
    x = torch.arange(12.0, dtype=F8).requires_grad_()
    part = (x * 2).reshape(3, 4)[:, 1:]
    inside = part.as_strided((2, 2), (4, 1))
    assert torch.autograd.grad(inside.sum(), x)[0].nonzero().flatten().tolist() == [1, 2, 5, 6]
    outside = part.as_strided((2, 3), (1, 2))
    assert outside.tolist() == [[2, 6, 10], [4, 8, 12]]
    with pytest.raises(RuntimeError, match=r"the result of size \[2, 3\] and stride \[1, 2\] has"):
        outside.sum().backward()


def test_write_through_as_strided_beside_the_elements_of_a_view():
    x = torch.arange(12.0, dtype=F8).requires_grad_()
    y = (x * 2).reshape(3, 4)
    y[:, 1:].as_strided((2, 3), (1, 2)).mul_(3)
    y.sum().backward()
    assert x.grad.tolist() == [2] + [6] * 6 + [2] * 5


def test_as_strided_in_forward_mode_reads_and_writes_the_memory_of_the_tangent():
    x, t = torch.arange(12.0, dtype=F8).view(3, 4), torch.arange(12.0, dtype=F8).view(3, 4) + 1
    read = torch.func.jvp(lambda x: (x * 2)[:, 1:].as_strided((2, 3), (1, 2)), (x,), (t,))[1]
    assert read.tolist() == [[4, 8, 12], [6, 10, 14]]

    def write(x):
        y = x * 1
        y.as_strided((2, 3), (1, 2)).mul_(2)
        return y

    assert torch.func.jvp(write, (x,), (t,))[1].flatten().tolist() == [
        2, 4, 6, 8, 10, 12, 7, 8, 9, 10, 11, 12,
    ]  # fmt: skip
    transposed = torch.func.jvp(
        lambda x: (x * 2).as_strided((3,), (1,)), (x,), (t.t().clone().t(),)
    )
    assert transposed[1].tolist() == [2, 4, 6]


def test_as_strided_of_windows():
    x = torch.arange(5, dtype=F8).requires_grad_()
    windows = x.as_strided((4, 2), (1, 1))
    shared = windows.detach().as_strided((4, 2), (1, 1)).requires_grad_()
    y = shared.as_strided((5,), (1,)) * torch.arange(1, 6, dtype=F8)
    (g,) = torch.autograd.grad(y.sum(), shared)
    assert g.tolist() == [[1.0, 1.0], [1.0, 1.5], [1.5, 2.0], [2.0, 5.0]]
    (windows.as_strided((5,), (1,)) * torch.arange(1, 6, dtype=F8)).sum().backward()
    assert x.grad.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_sum_to_size_of_integers():
    one, row = torch.ones((), dtype=torch.int8), torch.ones(1, 3, dtype=torch.int8)
    assert one.sum_to_size(()).dtype is torch.int64, "as sum() gives"
    assert row.sum_to_size(1, 3).dtype is torch.int8, "where nothing is summed"
    assert row.sum_to_size(3).dtype is row.sum_to_size(1, 1).dtype is torch.int64


def test_results_may_be_detached_in_place():
    """No op returns a view of a hidden tensor; torch refuses to detach a real view in place."""
    x, v = arange(2, 3, 4).requires_grad_(), arange(4).requires_grad_()
    a = torch.eye(3, dtype=F8).requires_grad_()
    nn = torch.nn.functional
    made = {
        "matmul": lambda: x @ v,
        "vector @ matrices": lambda: arange(3) @ x,
        "solve": lambda: torch.linalg.solve(a, arange(3)),
        "cdist": lambda: torch.cdist(x, x),
        "combinations": lambda: torch.combinations(v),
        "quantile": lambda: torch.quantile(x, 0.3),
        "quantile of dim 0": lambda: torch.quantile(x, 0.3, 0, keepdim=True),
        "quantiles": lambda: torch.quantile(x, torch.tensor([0.1, 0.2], dtype=F8), 1),
        "nanquantile": lambda: torch.nanquantile(x, 0.3, 1, interpolation="nearest"),
        "unfold": lambda: nn.unfold(x, 2),
        "fold": lambda: nn.fold(arange(4, 6).requires_grad_(), (3, 4), 2),
        "conv_tbc": lambda: nn.conv_tbc(x, arange(1, 4, 2), arange(2)),
        "grid_sample": lambda: nn.grid_sample(x[None], arange(1, 2, 2, 2), align_corners=True),
        "affine_grid": lambda: nn.affine_grid(x[:1, :2, :3], (1, 1, 2, 2), align_corners=True),
        "matrix_norm 1": lambda: torch.linalg.matrix_norm(x, 1),
        "matrix_norm -1": lambda: torch.linalg.matrix_norm(x, -1, (0, 2)),
        "matrix_norm inf": lambda: torch.linalg.matrix_norm(x, math.inf, (2, 0)),
        "norm -inf": lambda: torch.linalg.norm(x[0], -math.inf),
        "einsum, outer": lambda: torch.einsum("i,j->ji", v, v),
        "einsum, three": lambda: torch.einsum("i,j,k->kij", v, v, arange(2)),
        "einsum, products": lambda: torch.einsum("ij,j->ji", x[0], v),
    }
    for name, make in made.items():
        y = make()
        assert y.requires_grad, name
        values = y.detach().clone()
        y.detach_()
        assert not y.requires_grad and torch.equal(y, values), name
    with pytest.raises(RuntimeError, match="Can't detach views in-place"):
        x[0].detach_()
