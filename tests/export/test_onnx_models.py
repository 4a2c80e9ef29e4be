# SPDX-License-Identifier: BSD-3-Clause
"""Whole models and uses of ops, by onnxruntime beside eager, at other sizes too."""

import pytest
from onnx_runs import check

import cograd as torch
import cograd.nn.functional as F
from cograd import nn


def T(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


class Block(nn.Module):
    def __init__(self, i, o, stride=1):
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
        self.c2, self.b2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
        self.relu = nn.ReLU(inplace=True)
        self.down = None
        if i != o:
            self.down = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        kept = x if self.down is None else self.down(x)
        out = self.b2(self.c2(self.relu(self.b1(self.c1(x)))))
        out += kept
        return self.relu(out)


def test_resnet():
    start = [nn.Conv2d(3, 8, 7, 2, 3), nn.BatchNorm2d(8), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)]
    end = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5)]
    model = nn.Sequential(*start, Block(8, 8), Block(8, 16, 2), *end)
    check(model, T(2, 3, 32, 32), {"input": [0, 2, 3]}, [T(5, 3, 40, 48), T(1, 3, 33, 39)])


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda **k: nn.LSTM(3, 4, 2, bidirectional=True, **k),
        lambda **k: nn.LSTM(3, 4, bias=False, **k),
        lambda **k: nn.GRU(3, 4, 2, bidirectional=True, **k),
        lambda **k: nn.RNN(3, 4, 2, nonlinearity="relu", **k),
        lambda **k: nn.RNN(3, 4, bidirectional=True, **k),
    ],
)
def test_recurrent(make, batch_first):
    model = make(batch_first=batch_first)
    check(model, T(2, 5, 3), {"input": [0, 1]}, [T(3, 7, 3), T(1, 1, 3)])
    check(model, T(5, 3))


def test_lstm_with_states():
    state = (T(4, 2, 4), T(4, 2, 4))
    check(nn.LSTM(3, 4, 2, bidirectional=True, batch_first=True), (T(2, 5, 3), state))


@pytest.mark.parametrize("cell", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_cells(cell):
    check(cell(3, 4), T(2, 3), {"input": [0]}, [T(4, 3)])


HIDDEN = torch.tensor([[False, False, False, True], [False, False, True, True]])


def test_transformers():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2)
    check(encoder, T(2, 4, 8), {"src": [0, 1]}, [T(3, 6, 8)])
    check(lambda x, m: encoder(x, src_key_padding_mask=m), (T(2, 4, 8), HIDDEN))
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    check(lambda x: encoder(x, mask=mask, is_causal=True), T(2, 4, 8))
    both = nn.Transformer(8, 2, 1, 1, 16)
    axes = {"src": {1: "batch"}, "tgt": {1: "batch"}}
    check(both, (T(4, 2, 8), T(3, 2, 8)), axes, [(T(4, 3, 8), T(3, 3, 8))])


def test_multihead_attention():
    attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    axes = {name: {0: "batch"} for name in ("query", "key", "value")}
    check(attention, (T(2, 4, 8),) * 3, axes, [(T(3, 4, 8),) * 3])
    options = {"need_weights": True, "average_attn_weights": False}
    call = lambda q, k, m: attention(q, k, k, key_padding_mask=m, **options)
    check(call, (T(2, 3, 8), T(2, 4, 8), HIDDEN))


def test_attention():
    call = lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True)
    check(call, T(2, 2, 4, 8), {"args_0": [0, 2]}, [T(3, 2, 7, 8)])
    nothing = torch.zeros(4, 4, dtype=torch.bool)
    check(lambda q: F.scaled_dot_product_attention(q, q, q, nothing), T(2, 4, 8))


def shared():
    layer = nn.Linear(3, 3)
    return nn.Sequential(layer, nn.ReLU(), layer)


def written_views(x):
    y = x.clone()
    flat = y.view(-1)
    flat[2:5] = 7
    y[0].mul_(2)
    a, b = y.chunk(2, 1)
    a.add_(b[:, :1])
    turned = y.t()
    turned[0] = -1
    return y, flat, turned, a


def written_in_turn(x):
    x[:, 0] = x[:, 1]
    x[x > 0] = 0
    x[torch.tensor([0, 1]), torch.tensor([1, 2])] = 5
    x += 1
    x.clamp_(min=0.5)
    x[..., -1] *= 3
    return x


def written_elsewhere(x):
    made = torch.zeros(x.shape[0], 4)
    made[:, :2] = x[:, :2]
    made.index_fill_(1, torch.tensor([3]), 9.0)
    out = torch.empty_like(x)
    torch.add(x, 1, out=out)
    return made, out


def masks(x, m):
    return (
        x[m],
        x.masked_fill(m, 0),
        torch.where(m, x, -x),
        m.sum(),
        m.any(1),
        m.all(),
        (~m).float(),
        x.where(m, 2.0),
    )


def integers(x):
    return (
        x // 2,
        x % 3,
        x / 2,
        x**2,
        -x // 3,
        x.float().mean(),
        x & 1,
        ~x,
        x.floor_divide(-2),
        torch.remainder(x, -3),
        torch.fmod(x, 3),
        x.sum(),
        x.max(),
    )


def negative_dims(x):
    return (
        x.sum(-1, keepdim=True),
        x.mean((-1, -2)),
        x.transpose(-1, -3),
        x.unsqueeze(-1),
        x.flatten(-2),
        x.softmax(-2),
        x.argmax(-1, keepdim=True),
        x.max(-1)[1],
        x.squeeze(-3),
        x.std(-1),
        x.var(dim=(0, 1), unbiased=False),
        x.norm(dim=-1),
    )


def advanced(x, i):
    return (
        x[i],
        x[:, i],
        x[i, :, i],
        x[i, i],
        x[..., i],
        x[None, i, 1:, ::2],
        x[:, i[:, None], i],
        x[1:, i],
        x[0, i],
        x[i, 0],
    )


def mixed(x, i):
    return x + i, i / 2, i + 1.5, torch.cat([x, i]), torch.stack([x, i.float()]), x > i, i == 2


def padded(x):
    return (
        F.pad(x, (1, 2)),
        F.pad(x, (1, 1, 2, 0), value=3.0),
        F.pad(x, (1, 1), mode="reflect"),
        F.pad(x, (1, 1), mode="circular"),
        F.pad(x, (-1, 1)),
        F.pad(x, (2, 1), mode="replicate"),
    )


def pooled(x):
    return (
        F.adaptive_avg_pool2d(x, (3, 5)),
        F.adaptive_max_pool2d(x, (2, 1)),
        F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
        F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
        F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        F.max_pool2d(x, 2, dilation=2),
    )


def activations(x):
    return (
        F.gelu(x),
        F.gelu(x, approximate="tanh"),
        F.silu(x),
        F.hardswish(x),
        F.mish(x),
        F.softplus(x, beta=2, threshold=3),
        F.prelu(x, torch.tensor([0.1])),
        F.elu(x, 0.5),
        x.clamp(min=0),
        x.clamp(max=0.5),
        F.hardsigmoid(x),
        F.softsign(x),
    )


INDEX = torch.tensor([0, 3, 1])
CASES = {
    "views written": (written_views, T(4, 6)),
    "written in turn": (written_in_turn, T(4, 6), {"args_0": [0]}, [T(7, 6)]),
    "written elsewhere": (written_elsewhere, T(3, 6), {"args_0": [0]}, [T(7, 6)]),
    "masks": (masks, (T(3, 4), T(4, 3).t() > 0)),
    "integers": (integers, torch.tensor([-5, -1, 0, 1, 7])),
    "negative dims": (negative_dims, T(1, 3, 4)),
    "advanced": (advanced, (T(4, 4, 4), INDEX)),
    "slices": (lambda x: (x[1:3, ::2], x[-1], x[..., 0], x[:, -3:-1], x[::3, None]), T(5, 6)),
    "mixed dtypes": (mixed, (T(3), torch.tensor([1, 2, 3]))),
    "padded": (padded, T(2, 3, 4)),
    "pooled": (pooled, T(2, 3, 7, 9), {"args_0": [0]}, [T(4, 3, 7, 9)]),
    "activations": (activations, T(3, 4) * 4),
    "einsum": (lambda a, b: torch.einsum("bij,bjk->bik", a, b), (T(2, 3, 4), T(2, 4, 5))),
    "einsum implicit": (lambda a: torch.einsum("...Ij,...kj", a, a), T(2, 3, 4)),
    "cat": (lambda x: torch.cat([x, x * 2, x[:1], x, x, x]), T(2, 3)),
    "top": (lambda x: (*x.topk(2), *x.sort(descending=True), x.argsort(0), x.min()), T(3, 5)),
    "cumsum": (lambda x: (x.cumsum(-1), x.logsumexp(0), x.prod(1)), T(3, 5)),
    "split": (
        lambda x: (*x.split(2, 1), *x.split([1, 4], 1), *x.unbind(1)),
        T(3, 5),
        {"args_0": [0]},
        [T(6, 5)],
    ),
    "roll": (
        lambda x: (x.roll(1), x.roll((1, -2), (0, 1)), x.tile(2, 1)),
        T(3, 5),
        {"args_0": [0]},
        [T(6, 5)],
    ),
    "shuffled pixels": (
        lambda x: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2)),
        T(1, 4, 4, 6),
        {"args_0": [0, 2, 3]},
        [T(2, 4, 6, 8)],
    ),
    "gather": (
        lambda x, i: (x.gather(1, i), x.scatter(1, i, 0.0), x.scatter_add(1, i, x)),
        (T(3, 4), torch.tensor([[0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2]])),
    ),
    "small numbers": (lambda x: (x.log1p() * 1e8, x.expm1() * 1e8), torch.tensor([1e-8, 3e-7])),
    "half": (nn.Linear(3, 4).half(), T(2, 3).half()),
    "double": (
        nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.LayerNorm(4)).double(),
        T(2, 3).double(),
    ),
    "shared weights": (shared(), T(2, 3)),
    "dict": (lambda x: {"a": x, "b": [x + 1, (x * 2,)], "c": x}, T(3, 2)),
    "constant result": (lambda x: (x, torch.ones(2)), T(2)),
    "unused input": (lambda x, y: x + 1, (T(2), T(3))),
    "nested inputs": (lambda d, t: d["u"] + t[0] * t[1][0], ({"u": T(2)}, (T(2), [T(2)]))),
    "plain arguments": (lambda x, n, flag: x * n if flag else x, (T(2), 3, True)),
    "embedding": (
        nn.Embedding(4, 3),
        torch.tensor([[1, 2], [0, 3]]),
        {"input": [0, 1]},
        [torch.tensor([[1, 2, 3]])],
    ),
    "norms": (
        nn.Sequential(nn.GroupNorm(2, 4), nn.InstanceNorm2d(4, affine=True)),
        T(2, 4, 5, 5),
        {"input": [0, 2, 3]},
        [T(3, 4, 6, 7)],
    ),
    "transposed": (
        nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, groups=2),
        T(2, 4, 5, 6),
        {"input": [0, 2, 3]},
        [T(3, 4, 6, 7)],
    ),
    "sampled": (
        lambda x, g: F.grid_sample(x, g, align_corners=False),
        (T(1, 2, 4, 4), T(1, 3, 3, 2)),
    ),
    "sizes of resizing": (lambda x: F.interpolate(x, size=(12, 13)), T(1, 2, 9, 7)),
    "resized": (
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
        T(1, 2, 4, 5),
        {"args_0": [0, 2, 3]},
        [T(2, 2, 7, 6)],
    ),
    "resized nearest": (
        lambda x: F.interpolate(x, scale_factor=1.5),
        T(1, 2, 4, 5),
        {"args_0": [0, 2, 3]},
        [T(2, 2, 7, 6)],
    ),
    "resized cubic": (
        lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"),
        T(1, 2, 4, 5),
        {"args_0": [2, 3]},
        [T(1, 2, 7, 6)],
    ),
    "resized like": (
        lambda x, y: F.interpolate(x, size=y.shape[2:], mode="bilinear", align_corners=True),
        (T(1, 2, 4, 5), T(1, 2, 7, 9)),
        {"args_0": [2, 3], "args_1": [2, 3]},
        [(T(1, 2, 3, 6), T(1, 2, 11, 4))],
    ),
    # Sizes that the program reads.
    "flattened": (
        lambda x: x.view(x.size(0), -1),
        T(2, 3, 4),
        {"args_0": [0]},
        [T(5, 3, 4), T(1, 3, 4)],
    ),
    "product of sizes": (
        lambda x: x.reshape(x.shape[0] * x.shape[1], -1),
        T(2, 3, 4),
        {"args_0": [0, 1]},
        [T(5, 6, 4)],
    ),
    "arange": (lambda x: x + torch.arange(x.shape[1]), T(2, 3), {"args_0": [0, 1]}, [T(4, 7)]),
    "mean": (lambda x: x.sum(0) / x.shape[0], T(2, 3), {"args_0": [0]}, [T(4, 3)]),
    "half of a size": (lambda x: x[: x.shape[0] // 2], T(4, 3), {"args_0": [0]}, [T(9, 3)]),
    "zeros": (
        lambda x: torch.cat([torch.zeros(x.shape[0], 1), x], 1),
        T(4, 3),
        {"args_0": [0]},
        [T(9, 3)],
    ),
    "expand": (
        lambda x: x[:, None].expand(-1, 5, -1) + x.new_ones(x.size(0), 1, 1),
        T(4, 3),
        {"args_0": [0]},
        [T(9, 3)],
    ),
    "repeat": (
        lambda x: torch.ones(1, 3).repeat(x.shape[0], 2),
        T(4, 3),
        {"args_0": [0]},
        [T(9, 3)],
    ),
    "numel": (lambda x: x.sum() / x.numel(), T(4, 3), {"args_0": [0, 1]}, [T(9, 5)]),
    "causal mask": (
        lambda x: x.masked_fill(torch.ones(x.shape[1], x.shape[1]).tril() == 0, -1e9).softmax(-1),
        T(2, 4, 4),
        {"args_0": [1, 2]},
        [T(2, 6, 6)],
    ),
    "grids": (
        lambda x, y: torch.meshgrid(x, y, indexing="ij"),
        (T(3), T(2)),
        {"args_0": [0], "args_1": [0]},
        [(T(5), T(4))],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    check(*CASES[name])


SPECIAL = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, -0.0, 1.0, -1.0, 100.0, -100.0])
FUNCTIONS = """
relu relu6 hardtanh hardswish hardsigmoid silu gelu softplus mish elu selu celu leaky_relu
logsigmoid softsign tanhshrink softshrink hardshrink exp log sqrt rsqrt sin tanh sigmoid
erf log1p expm1 log2
exp2 sign floor round trunc frac reciprocal isnan isinf isfinite nan_to_num atan logit max argmax
""".split()
PAIRS = (
    "maximum minimum atan2 fmod remainder xlogy logaddexp hypot pow div floor_divide eq lt".split()
)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_numbers(name):
    check(getattr(F, name) if hasattr(F, name) else getattr(torch, name), SPECIAL)


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_of_special_numbers(name):
    check(lambda x: getattr(torch, name)(x[:, None], x), SPECIAL)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return grad


def test_function_is_entered():
    check(lambda x: Square.apply(x) + 1, T(3))


def test_data_is_a_view():
    check(lambda x: x.detach().data * 2 + x, T(3))
