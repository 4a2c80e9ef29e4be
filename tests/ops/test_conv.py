# SPDX-License-Identifier: BSD-3-Clause
"""Convolutions compared with explicit sums, their errors, and batch norm under transforms."""

import copy
import itertools

import numpy as np
import pytest

import cograd as torch
from cograd import nn
from cograd.func import functional_call, grad, replace_all_batch_norm_modules_, vmap
from cograd.nn import functional as F


def written_out(x, w, stride, padding, dilation, groups):
    """Computes a convolution over two dims by its definition, in float64."""
    x = np.pad(x, [(0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2])
    rows, columns, kh, kw = w.shape
    out = [
        (x.shape[i + 2] - dilation[i] * (w.shape[i + 2] - 1) - 1) // stride[i] + 1 for i in (0, 1)
    ]
    y = np.zeros((x.shape[0], rows, *out))
    for o, i, j, c, a, b in itertools.product(*map(range, (rows, *out, columns, kh, kw))):
        channel = o // (rows // groups) * columns + c
        row, column = i * stride[0] + a * dilation[0], j * stride[1] + b * dilation[1]
        y[:, o, i, j] += x[:, channel, row, column] * w[o, c, a, b]
    return y


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
@pytest.mark.parametrize(
    "size,kernel,stride,padding,dilation,groups",
    [
        ((2, 3, 9, 10), (5, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),
        ((1, 4, 12, 7), (6, 2, 3, 2), (2, 3), (2, 0), (1, 2), 2),
        ((3, 6, 5, 8), (6, 1, 3, 3), (1, 1), (1, 1), (1, 1), 6),
        ((2, 5, 2, 2), (9, 5, 3, 3), (1, 1), (1, 1), (1, 1), 1),
        ((2, 5, 6, 6), (3, 5, 1, 1), (1, 1), (0, 0), (1, 1), 1),
        # Small images: the vector lanes are channels.
        ((3, 5, 4, 5), (37, 5, 3, 3), (1, 1), (1, 1), (1, 1), 1),
        ((2, 4, 7, 8), (34, 2, 3, 2), (2, 1), (1, 1), (1, 2), 2),
    ],
)
def test_the_definition(dtype, size, kernel, stride, padding, dilation, groups):
    rng = np.random.default_rng(0)
    x, w = rng.integers(-3, 4, size).astype(float), rng.integers(-3, 4, kernel).astype(float)
    got = torch.conv2d(
        torch.tensor(x).to(dtype),
        torch.tensor(w).to(dtype),
        None,
        stride,
        padding,
        dilation,
        groups,
    )
    want = written_out(x, w, stride, padding, dilation, groups)
    assert got.dtype is dtype
    np.testing.assert_allclose(got.double().numpy(), want, rtol=2e-2 if got.itemsize == 2 else 1e-6)


# Few positions and many weights: one product of the whole batch; a stride makes positions few.
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "size,kernel,options",
    [
        ((2, 24, 5, 4), (31, 24, 3, 3), {"padding": 1}),
        ((8, 24, 9, 8), (17, 24, 3, 2), {"stride": 2, "padding": (1, 0)}),
        ((1, 96, 7, 7), (64, 96, 1, 1), {"stride": (3, 2)}),
        ((5, 32, 6), (33, 32, 4), {"padding": 3, "dilation": 2}),
        ((3, 16, 4, 3, 5), (16, 16, 2, 2, 2), {"stride": (1, 2, 1), "padding": (0, 1, 1)}),
        ((256, 64, 1, 1), (80, 64, 1, 1), {}),
    ],
)
def test_few_positions(dtype, size, kernel, options):
    x, w, b = (torch.randn(s, dtype=dtype) for s in (size, kernel, kernel[:1]))
    f = (F.conv1d, F.conv2d, F.conv3d)[x.dim() - 3]
    y = f(x, w, b, **options)
    times = 1025 // (y.numel() // len(w)) + 1  # enough repeats for the other algorithm
    many = f(x.repeat(times, *(1,) * (x.dim() - 1)), w, **options)[: len(x)]
    many = many + b.reshape(-1, *(1,) * (x.dim() - 2))
    tolerance = {"atol": 1e-4, "rtol": 1e-4} if dtype == torch.float32 else {}
    torch.testing.assert_close(y, many, **tolerance)
    assert f(x[:0], w, b, **options).shape == (0, *y.shape[1:])


@pytest.mark.parametrize(
    "size,kernel,stride",
    [
        ((2, 16, 40, 40), (48, 16, 3, 3), 1),
        ((2, 3, 150, 150), (32, 3, 7, 7), 2),
        ((3, 32, 600), (64, 32, 3), 1),
        ((2, 24, 9, 40), (24, 1, 3, 3), 1),
        ((2, 40, 30, 30), (24, 40, 1, 1), 1),
    ],
)
def test_the_cuts_for_many_threads_change_no_bits(size, kernel, stride):
    torch.manual_seed(2)
    x, w = torch.randn(size, requires_grad=True), torch.randn(kernel, requires_grad=True)
    f, groups = (F.conv1d if len(size) == 3 else F.conv2d), size[1] // kernel[1]
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 5, 16, 64):
            torch.set_num_threads(threads)
            y = f(x, w, None, stride, kernel[-1] // 2, 1, groups)
            g = torch.linspace(-1, 1, y.numel()).view(y.shape)
            found.append((y.detach(), *torch.autograd.grad(y, (x, w), g)))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        for one, same in zip(found[0], other, strict=True):
            assert torch.equal(one, same)


@pytest.mark.parametrize("size", [(1, 3, 99, 120), (3, 2, 130, 110)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("stride,padding", [(1, 2), (2, 3), (2, 0)])
def test_weight_gradients_of_large_images(size, dtype, stride, padding):
    torch.manual_seed(7)
    x, w = torch.randn(size, dtype=dtype), torch.randn(9, size[1], 5, 7, dtype=dtype)
    y = F.conv2d(x, w.requires_grad_(), None, stride, padding)
    g = torch.randn_like(y)
    (got,) = torch.autograd.grad(y, w, g)
    columns = F.unfold(x.double(), (5, 7), 1, padding, stride)
    want = (g.double().flatten(2) @ columns.mT).sum(0).view(w.shape)
    rtol = 1e-4 if dtype == torch.float32 else 1e-11
    torch.testing.assert_close(got.double(), want, rtol=rtol, atol=100 * rtol)


def test_transposed_view_and_expanded_operands():
    x = torch.randn(2, 8, 7, 3, dtype=torch.float64).transpose(1, 3)
    w = torch.randn(3, 1, 1, dtype=torch.float64).expand(4, 3, 3, 3)
    want = torch.conv2d(x.contiguous(), w.contiguous())
    assert torch.allclose(torch.conv2d(x, w), want, rtol=1e-12)
    into = torch.zeros(2, 4, 5, 6, dtype=torch.float64)[:, :, ::1]
    assert into.copy_(torch.conv2d(x, w)).shape == want.shape


@pytest.mark.parametrize("stride,groups", [(1, 1), (2, 2)])
def test_second_derivatives(stride, groups):
    x = torch.randn(2, 4, 9, 8, dtype=torch.float64, requires_grad=True)
    w = torch.randn(4, 4 // groups, 3, 3, dtype=torch.float64, requires_grad=True)
    b = torch.randn(4, dtype=torch.float64, requires_grad=True)

    def f(x, w, b):
        return torch.conv2d(x, w, b, stride, 1, 1, groups).tanh()

    torch.autograd.gradgradcheck(f, (x, w, b), fast_mode=True)


def test_gradients_per_sample():
    model = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.Tanh(), nn.Conv2d(4, 3, 3)).double()
    params = {k: v.detach() for k, v in model.named_parameters()}
    x = torch.randn(3, 2, 6, 6, dtype=torch.float64)

    def loss(params, sample):
        return functional_call(model, params, (sample.unsqueeze(0),)).square().sum()

    found = vmap(grad(loss), (None, 0))(params, x)
    for i in range(3):
        for name, g in grad(loss)(params, x[i]).items():
            assert torch.allclose(found[name][i], g, rtol=1e-10), name


@pytest.mark.parametrize(
    "call,error,text",
    [
        (lambda x, w: torch.conv2d(x[0, 0], w), RuntimeError, "Expected 3D .* or 4D"),
        (lambda x, w: torch.conv2d(x[:, :1], w), RuntimeError, "to have 2 channels, but got 1"),
        (lambda x, w: torch.conv2d(x[..., :2], w), RuntimeError, "Kernel size can't be greater"),
        (lambda x, w: torch.conv2d(x, w, torch.ones(3)), RuntimeError, "with 4 elements"),
        (lambda x, w: torch.conv2d(x, w, None, 0), RuntimeError, "non-positive stride"),
        (lambda x, w: torch.conv2d(x, w, None, 1, -1), RuntimeError, "negative padding"),
        (lambda x, w: torch.conv2d(x, w, None, 1, 0, 0), RuntimeError, "dilation should be"),
        (lambda x, w: torch.conv2d(x, w, None, 1, 0, 1, 0), RuntimeError, "non-positive groups"),
        (lambda x, w: torch.conv2d(x, w, padding="x"), RuntimeError, "Invalid padding string"),
        (lambda x, w: torch.conv2d(x, w, None, 2, "same"), RuntimeError, "strided"),
        (lambda x, w: torch.conv2d(x, w.double()), RuntimeError, "expected scalar type"),
        (lambda x, w: torch.conv2d(x, w, None, 1, 2**62), RuntimeError, "too large|overflow"),
        (
            lambda x, w: torch.conv_transpose2d(x, w.transpose(0, 1), None, 2**61),
            RuntimeError,
            "overflow",
        ),
        (lambda x, w: F.max_pool2d(x, 2, padding=2), RuntimeError, "at most half"),
        (lambda x, w: F.max_pool2d(x, 9), RuntimeError, "Output size is too small"),
        (lambda x, w: F.max_unpool2d(x, torch.full(x.shape, 999), 2), RuntimeError, "invalid max"),
        (lambda x, w: F.interpolate(x), ValueError, "either size or scale_factor"),
        (lambda x, w: F.interpolate(x, 0), RuntimeError, "greater than 0"),
        (lambda x, w: F.batch_norm(x, None, None), RuntimeError, "must be defined"),
        (lambda x, w: F.group_norm(x, 3), RuntimeError, "divisible by num_groups"),
        (lambda x, w: nn.Conv2d(2, 3, 3, groups=2), ValueError, "divisible by groups"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call(torch.ones(1, 2, 5, 5), torch.ones(4, 2, 3, 3))


def test_running_statistics():
    m = nn.BatchNorm2d(3, momentum=None)
    batches = [torch.randn(4, 3, 2, 5) for _ in range(3)]
    for x in batches:
        m(x)
    means = torch.stack([x.mean((0, 2, 3)) for x in batches]).mean(0)
    variances = torch.stack([x.var((0, 2, 3)) for x in batches]).mean(0)
    assert torch.allclose(m.running_mean, means, atol=1e-6)
    assert torch.allclose(m.running_var, variances, atol=1e-6)
    assert m.num_batches_tracked == 3


def test_batch_norm_without_statistics_under_vmap():
    model = nn.Sequential(nn.Conv1d(2, 3, 2), nn.BatchNorm1d(3))
    replace_all_batch_norm_modules_(model)
    x = torch.randn(4, 5, 2, 6)
    got = vmap(model)(x)
    assert torch.allclose(got, torch.stack([model(v) for v in x]), atol=1e-5)


def test_a_lazy_module_takes_a_state():
    known = nn.Linear(5, 4)
    lazy = nn.LazyLinear(4)
    lazy.load_state_dict(known.state_dict())
    assert lazy.weight.shape == (4, 5)
    fresh = copy.deepcopy(nn.LazyConv2d(3, 2))
    assert fresh(torch.ones(1, 2, 3, 3)).shape == (1, 3, 2, 2)
    assert type(fresh) is nn.Conv2d


def test_cross_map_lrn_of_few_channels():
    """All windows contain all channels, so each sum is the sum of all squares."""
    x = torch.randn(2, 2, 3, 4, dtype=torch.float64)
    want = x / (1 + 0.5 / 3 * x.square().sum(1, keepdim=True)) ** 0.75
    assert torch.allclose(nn.CrossMapLRN2d(3, 0.5)(x), want)
