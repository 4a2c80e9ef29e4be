# SPDX-License-Identifier: BSD-3-Clause
"""Values and gradients where inputs are NaN, infinite, empty, or extreme for a dtype."""

import math

import pytest
from op_items import each_cell

import cograd as torch
from cograd.nn import functional as F

F8 = torch.float64
INF, NAN = math.inf, math.nan


def leaf(values, dtype=F8):
    return torch.tensor(values, dtype=dtype, requires_grad=True)


def same(got, want):
    got = got.tolist() if isinstance(got, torch.Tensor) else got
    assert got == pytest.approx(want, nan_ok=True), (got, want)


def gradients(f, *values, dtype=F8):
    """Returns the gradients of the sum of f, from fused kernels and from the recorded formula."""
    for create_graph in (False, True):
        xs = [leaf(v, dtype) for v in values]
        grads = torch.autograd.grad(f(*xs).sum(), xs, create_graph=create_graph)
        yield tuple(g.detach().tolist() for g in grads)


# --- selection ---------------------------------------------------------------------------------


@pytest.mark.parametrize("largest", [True, False])
def test_topk_of_no_dims_has_its_element(largest):
    x = leaf(3.5)
    values, indices = torch.topk(x, 0, largest=largest)
    assert (values.item(), indices.item()) == (3.5, 0)
    assert torch.autograd.grad(values, x)[0].item() == 1
    assert torch.topk(torch.ones(3), 0).values.shape == (0,)


# --- shifts ------------------------------------------------------------------------------------

BITS = {torch.uint8: 8, torch.int8: 8, torch.int16: 16, torch.int32: 32, torch.int64: 64}


@pytest.mark.parametrize("dtype", BITS)
def test_shifts_past_the_width_leave_the_sign(dtype):
    bits, signed = BITS[dtype], dtype is not torch.uint8
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 255)
    values = [v for v in (low, -5, -1, 0, 1, 5, 127, 128, 200, high) if low <= v <= high]
    past = [bits, bits + 1, 100] + ([-1, -bits, -100] if signed else [128, 255])
    for n in past:
        x, count = torch.tensor(values, dtype=dtype), torch.tensor([n], dtype=dtype)
        for right in (x >> count, x >> n):
            assert right.tolist() == [-1 if v < 0 else 0 for v in values]
        for left in (x << count, x << n):
            assert left.tolist() == [0] * len(values)
    for n in range(bits):
        x = torch.tensor(values, dtype=dtype)
        assert (x >> torch.tensor([n], dtype=dtype)).tolist() == [v >> n for v in values]


# --- quantiles ---------------------------------------------------------------------------------

QUANTILES = [torch.quantile, torch.nanquantile]


@pytest.mark.parametrize("f", QUANTILES)
@pytest.mark.parametrize("row", [[1, 2, INF], [-INF, 1, 2], [-INF, INF], [-INF, 1, INF]])
@pytest.mark.parametrize("mode", ["lower", "higher", "nearest"])
def test_quantiles_that_pick_an_element_return_it(f, row, mode):
    choose = {"lower": math.floor, "higher": math.ceil, "nearest": round}[mode]
    for q in (0, 0.25, 0.3, 0.5, 0.6, 0.75, 1):
        got = f(torch.tensor(row, dtype=F8), q, interpolation=mode).item()
        assert got == row[choose(q * (len(row) - 1))]


@pytest.mark.parametrize("f", QUANTILES)
@pytest.mark.parametrize(
    ("row", "q", "value"),
    [
        ([-INF, 1, 2], 0.3, -INF),
        ([-INF, 1, 2], 0.2, NAN),
        ([-INF, 1, 2], 0.5, 1),
        ([-INF, -INF, 1], 0.75, -INF),
        ([1, 2, INF], 0.6, INF),
        ([1, 2, INF], 0.8, NAN),
        ([1, 2, INF], 0.5, 2),
    ],
)
def test_interpolated_quantiles_step_from_the_nearer_end(f, row, q, value):
    # As in torch, the step starts at the nearer end, and from infinity it leads nowhere.
    same(f(torch.tensor(row, dtype=F8), q).item(), value)


def test_fractions_of_rows_of_nan_have_no_slope():
    for f, row in ((torch.quantile, [NAN, INF, 1, 2]), (torch.quantile, [NAN, NAN])):
        q = leaf([0.0, 0.3, 1.0])
        x = leaf(row)
        gx, gq = torch.autograd.grad(f(x, q).sum(), (x, q))
        assert gq.tolist() == [0, 0, 0]
        assert gx.sum().item() == 3
    x = leaf([NAN, NAN])
    (gx,) = torch.autograd.grad(torch.nanquantile(x, 0.5), x)
    assert gx.tolist() == [1, 0]


# --- moments -----------------------------------------------------------------------------------


@pytest.mark.parametrize("f", [torch.var_mean, torch.std_mean])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("row", "mean"),
    [([1, INF], INF), ([-INF, 3, -INF], -INF), ([INF, -INF], NAN), ([1, NAN], NAN)],
)
def test_means_beside_a_spread_are_infinite_where_elements_are(f, dtype, row, mean):
    x = torch.tensor(row, dtype=dtype)
    columns = x.reshape(-1, 1).expand(len(row), 40).contiguous()
    for spread, got in (f(x), f(columns, 0), f(columns.t().contiguous(), 1)):
        assert torch.isnan(spread).all()
        same(got.flatten()[:1].tolist(), [mean])
        same(got.flatten()[-1:].tolist(), [mean])


@pytest.mark.parametrize("at", [0, 1500, 4999])
@pytest.mark.parametrize("value", [INF, -INF])
def test_a_mean_of_many_blocks_is_infinite(at, value):
    x = torch.ones(5000)
    x[at] = value
    assert torch.var_mean(x)[1].item() == value
    rows = x.reshape(-1, 1).expand(5000, 20).contiguous()
    assert torch.var_mean(rows, 0)[1].tolist() == [value] * 20


def test_the_mean_of_nothing_but_nan_has_gradient_nan():
    for f in (lambda x: torch.nanmean(x, 1), lambda x: torch.nansum(x, 1) / 0):
        for (g,) in gradients(f, [[NAN, NAN], [1, INF]]):
            assert all(map(math.isnan, g[0]))
    for (g,) in gradients(lambda x: torch.nanmean(x, 1), [[NAN, 1.0, 3.0]]):
        same(g[0], [0, 0.5, 0.5])
    x = torch.tensor([1.0, NAN], dtype=torch.float16, requires_grad=True)
    y = torch.nansum(x, dtype=torch.float32)
    assert y.dtype == torch.float32 and torch.autograd.grad(y, x)[0].tolist() == [1, 0]


# --- extremes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, F8])
def test_either_side_of_a_nan_maximum_gets_the_gradient(dtype):
    a, b = [NAN, 1, NAN, 2, 3], [1, NAN, NAN, 2, 4]
    for f, ga, gb in (
        (torch.maximum, [1, 1, 1, 0.5, 0], [1, 1, 1, 0.5, 1]),
        (torch.minimum, [1, 1, 1, 0.5, 1], [1, 1, 1, 0.5, 0]),
        (torch.fmax, [0, 1, 1, 1, 0], [1, 0, 0, 0, 1]),
        (torch.fmin, [0, 1, 1, 1, 1], [1, 0, 0, 0, 0]),
    ):
        for got in gradients(f, a, b, dtype=dtype):
            assert got == (ga, gb), f


@pytest.mark.parametrize("f", [torch.amax, torch.amin])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, F8])
def test_lines_with_a_nan_extreme_have_gradient_nan(f, dtype):
    rows = [[NAN, 1, 2], [NAN, NAN, 3], [1, 1, 1], [INF, INF, INF]]
    third = pytest.approx([1 / 3] * 3, rel=1e-3)
    for (g,) in gradients(lambda x: f(x, 1), rows, dtype=dtype):
        assert all(map(math.isnan, g[0] + g[1]))
        assert g[2] == g[3] == third
    columns = [list(c) for c in zip(*rows, strict=True)]
    for (g,) in gradients(lambda x: f(x, 0), columns, dtype=dtype):
        assert all(math.isnan(line[0]) and math.isnan(line[1]) for line in g)
        assert [line[2] for line in g] == third
    for (g,) in gradients(f, [NAN, 1.0], dtype=dtype):
        assert all(map(math.isnan, g))


def test_long_lines_with_a_nan_extreme_have_gradient_nan():
    for shape, dim in (((100_000,), 0), ((3, 50_000), 1), ((50_000, 3), 0)):
        x = torch.rand(*shape)
        x.view(-1)[7] = NAN
        x.requires_grad_()
        (g,) = torch.autograd.grad(x.amax(dim).sum(), x)
        nan = torch.isnan(g)
        lines = nan.all(dim, keepdim=True)
        assert torch.equal(nan, lines.expand(shape)) and lines.sum() == 1


def test_an_extreme_of_all_divides_among_the_nan():
    for f in (torch.max, torch.min, torch.median):
        for (g,) in gradients(f, [NAN, 1.0, NAN]):
            assert g == [0.5, 0, 0.5]


# --- truth over no dims ------------------------------------------------------------------------


@pytest.mark.parametrize("f", [torch.all, torch.any])
@pytest.mark.parametrize("keepdim", [False, True])
def test_all_and_any_over_no_dims_are_truth_values(f, keepdim):
    x = torch.tensor([[1.5, 0.0], [NAN, 0.0], [0.0, 2.0]])
    want = [[True, False], [True, False], [False, True]]
    for y in (x, x.t().contiguous().t()):
        got = f(y, dim=(), keepdim=keepdim)
        assert got.dtype == torch.bool and got.tolist() == want
        assert f(y, dim=(), out=torch.empty(0, dtype=torch.bool)).tolist() == want
    assert f(x.to(torch.bool), dim=()).tolist() == want
    assert f(torch.zeros(0, 3), dim=()).shape == (0, 3)
    byte = f(torch.tensor([3, 0], dtype=torch.uint8), dim=())
    assert byte.dtype == torch.uint8 and byte.tolist() == [1, 0]


# --- scatter_reduce ----------------------------------------------------------------------------


@each_cell("reduce", ["sum", "prod", "mean", "amax", "amin"])
@each_cell("include_self", [True, False])
@each_cell("src", [5.0, [5.0], [5.0, 6.0, 7.0]])
@each_cell("start", [1.0, [1.0, 2.0]])
def test_scattering_nothing_passes_the_gradient_on(reduce, include_self, src, start):
    index = torch.empty(0, dtype=torch.int64)
    for create_graph in (False, True):
        x, s = leaf(start), leaf(src)
        y = x.scatter_reduce(0, index, s, reduce, include_self=include_self)
        gx, gs = torch.autograd.grad(y.sum(), (x, s), create_graph=create_graph)
        assert torch.equal(gx, torch.ones_like(x)) and torch.equal(gs, torch.zeros_like(s))


@pytest.mark.parametrize("reduce", ["amax", "amin"])
def test_slots_with_a_nan_extreme_have_gradient_nan(reduce):
    x, s = leaf([1.0, NAN, 2.0, 3.0]), leaf([NAN, 1.0, 3.0, 3.0])
    y = x.scatter_reduce(0, torch.tensor([0, 0, 1, 3]), s, reduce)
    gx, gs = torch.autograd.grad(y.sum(), (x, s))
    same(gx, [NAN, NAN, 1, 0.5])
    same(gs, [NAN, NAN, NAN, 0.5])


# --- elementwise gradients ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, F8])
def test_activations_pass_the_gradient_on_where_the_input_is_nan(dtype):
    scale = 1.0507009873554805
    for f, want in (
        (F.hardtanh, 1),
        (F.relu6, 1),
        (F.elu, 1),
        (lambda x: F.elu(x, 2.0), 1),
        (F.celu, 1),
        (F.selu, scale),
        (F.relu, 1),
        (F.hardswish, 1),
    ):
        for count in (1, 40):
            x = [NAN] * count
            assert torch.isnan(f(torch.tensor(x, dtype=dtype))).all()
            for (g,) in gradients(f, x, dtype=dtype):
                same(g, [want] * count)


def test_the_gradient_of_logit_outside_its_domain():
    x = [-1.0, -0.5, 0.5, 1.5, 2.0, INF, -INF, NAN]
    for (g,) in gradients(torch.logit, x):
        same(g, [NAN, NAN, 4, NAN, NAN, NAN, NAN, NAN])
    for eps in (0.0, 0.2):
        for (g,) in gradients(lambda x, eps=eps: torch.logit(x, eps), x):
            same(g, [0, 0, 4, 0, 0, 0, 0, NAN])
    for (g,) in gradients(torch.logit, [0.0, 1.0]):
        assert g == [INF, INF]


@pytest.mark.parametrize("dtype", [torch.float32, F8])
def test_the_angle_of_the_origin_has_gradient_zero(dtype):
    a, b = [0.0, -0.0, 0.0, 1.0], [0.0, 0.0, -0.0, 0.0]
    for got in gradients(torch.atan2, a, b, dtype=dtype):
        assert got == ([0, 0, 0, 0], [0, 0, 0, -1])
    for f in (lambda x: torch.atan2(x, 0.0), lambda x: torch.atan2(0.0, x)):
        for (g,) in gradients(f, [0.0], dtype=dtype):
            assert g == [0]


@pytest.mark.parametrize("f", [torch.fmod, torch.remainder])
def test_remainders_have_no_curvature(f):
    a, b = leaf([0.0, 5.0, 1.0, 0.0, -7.0, 2.0]), leaf([0.0, 2.0, 0.0, 3.0, 2.0, INF])
    ga, gb = torch.autograd.grad(f(a, b).sum(), (a, b), create_graph=True)
    for second in torch.autograd.grad(gb.sum(), (a, b)):
        assert second.tolist() == [0] * 6
    assert ga.tolist() == [1] * 6


@pytest.mark.parametrize("dtype", [torch.float32, F8])
def test_the_slope_of_a_remainder_is_the_quotient_that_was_taken(dtype):
    # 1 / 0.1 rounds to 10, but the remainder is nearly 0.1, so the quotient is 9.
    quotient = 9 if dtype is F8 else 10
    for _, gb in gradients(torch.remainder, [1.0, -7.0, 7.0], [0.1, 2.0, -2.0], dtype=dtype):
        assert gb[1:] == [4, 4]
        if dtype is F8:
            assert gb[0] == -quotient
    big = 3e9 if dtype is torch.float32 else 3e19
    for f in (torch.remainder, torch.fmod):
        for _, gb in gradients(f, [big, 5.0], [2.0, INF], dtype=dtype):
            same(gb, [-big / 2, 0])


WIDE = 2**53
BEYOND_DOUBLES = [WIDE - 1, WIDE + 1, WIDE + 2, WIDE + 3, -WIDE - 1, -WIDE - 3, 2**63 - 1, -(2**63)]


def limited(x, low, high):
    return [min(max(v, low), high) for v in x]


def above(x, limit, value):
    return [v if v > limit else value for v in x]


@pytest.mark.parametrize(
    ("name", "args", "want"),
    [
        ("hardtanh", (-WIDE - 1, WIDE + 1), limited),
        ("hardtanh", (WIDE + 1, 2**63 - 1), limited),
        ("clamp", (-WIDE - 1, WIDE + 1), limited),
        ("threshold", (WIDE + 1, WIDE + 3), above),
        ("threshold", (-WIDE - 3, -(2**63) + 1), above),
        ("threshold", (2**63 - 2, -WIDE - 1), above),
    ],
)
def test_limits_that_no_double_has(name, args, want):
    x = torch.tensor(BEYOND_DOUBLES)
    expected = want(BEYOND_DOUBLES, *args)
    op = getattr(torch, name)
    assert op(x, *args).tolist() == expected
    assert getattr(x.clone(), name + "_")(*args).tolist() == expected
    assert op(x, *args, out=torch.empty_like(x)).tolist() == expected
    rows = torch.stack([x, x.flip(0)])
    mapped = torch.func.vmap(lambda row: op(row, *args))(rows)
    assert mapped.tolist() == [expected, expected[::-1]]
    if name != "clamp":
        assert getattr(F, name)(x, *args).tolist() == expected
        assert getattr(F, name + "_")(x.clone(), *args).tolist() == expected
        module = getattr(torch.nn, name.capitalize())(*args)
        assert module(x).tolist() == expected


def test_limits_of_losses_beyond_the_dtype_raise():
    x, zero = torch.tensor([5.0, -3.0]), torch.zeros(2)
    for loss in (
        lambda v: F.huber_loss(x, zero, delta=v),
        lambda v: F.smooth_l1_loss(x, zero, beta=v),
    ):
        with pytest.raises(RuntimeError, match="1e\\+39"):
            loss(1e39)
        with pytest.raises(RuntimeError, match="does not support"):
            loss(NAN)


def test_ends_that_no_element_of_a_range_has():
    for dtype in (torch.uint8, torch.int8, torch.float32):
        assert torch.linspace(0, 1e39, 0, dtype=dtype).tolist() == []
        assert torch.linspace(3, 1e39, 1, dtype=dtype).tolist() == [3]
        assert torch.logspace(1e39, 0, 0, dtype=dtype).tolist() == []
        with pytest.raises(RuntimeError, match="end 1e\\+39 cannot be converted"):
            torch.linspace(0, 1e39, 2, dtype=dtype)
