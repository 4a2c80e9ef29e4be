# SPDX-License-Identifier: BSD-3-Clause
"""Functions and modules whose traces are compared with torch's.

    python tests/fx/fx_cases.py FILE                   # with torch: records its graphs
    python -m cograd run tests/fx/fx_cases.py FILE     # under the alias: writes ours

Each case has a function or a module, the arguments of a call, and perhaps concrete arguments.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import math
import operator
import re
import sys
from collections import namedtuple
from dataclasses import dataclass
from math import sqrt
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import fx, nn
from torch.fx import wrap

CASES = {}
Pair = namedtuple("Pair", "first second")


def case(*args, **options):
    """Registers what it decorates, with the arguments of a call."""

    def register(made):
        CASES[made.__name__] = (made, args, options)
        return made

    return register


def x(*shape):
    """Returns a tensor with fixed numbers."""
    n = math.prod(shape)
    return torch.linspace(-1, 1, n).mul(3).sin().reshape(shape) if n else torch.empty(shape)


def settled(module):
    """Gives a module's parameters and buffers fixed numbers, and evaluation mode."""
    with torch.no_grad():
        for i, value in enumerate(module.state_dict().values()):
            if value.is_floating_point():
                value.copy_(x(*value.shape).mul(0.5).abs().add(0.1 + i / 100))
    return module.eval()


@dataclass
class Options:
    scale: object
    shift: int = 3


@wrap
def helper(a, b=2):
    return a * b if b > 1 else a


def plain(a, b):
    return a - b


wrap("plain")
wrap("len")
wrap("sqrt")


@case(x(2, 3))
def operators(a):
    return [
        2 % a, 2 // a, 3 - a, 2 / a, 2**a, a % 2, a // 2, a**2, abs(a), +a, -a, a == 1, a != 1,
        a < 1, a <= 1, a > 1, a >= 1, a @ a.t(), a.t() @ a,
    ]  # fmt: skip


@case(torch.arange(6).reshape(2, 3))
def bits(a):
    return [2 & a, 2 | a, 2 ^ a, a & 2, a | 2, a ^ 2, ~a, a << 1, a >> 1, 2 << a, 64 >> a]


@case(x(2, 3))
def in_place_operator(a):
    a += 1
    a *= 2
    return a


@case(x(4, 5))
def slices(a):
    return a[0], a[:, 1], a[1:3, ..., None], a[-1, ::2], a[a > 0], a[[0, 2]]


@case(x(2, 3, 4))
def shapes(a):
    n, m = a.shape[0], a.size(1)
    return a.view(n * m, -1).reshape(n, m, 4).permute(0, 2, 1).flatten(1), a.size()


@case(x(4, 6))
def unpacking(a):
    first, second = a.chunk(2, 1)
    values, places = a.max(dim=1)
    return first + second, values, places


@case(x(4, 6))
def joined(a):
    return torch.cat([a, a * 2], dim=0), torch.stack((a, -a)), torch.cat([a, torch.ones(1, 6)])


@case(x(3, 3))
def constants(a):
    k = torch.arange(3.0)
    return k + a, k * a, 1 + a, k[0] * a, a + k, torch.eye(3) - a


@case(x(3), torch.tensor(1))
def constant_indexed(a, i):
    k = torch.arange(3.0)
    return k[i] + a, k[None, i]


@case(x(2, 3))
def functionals(a):
    a = F.relu(a)
    a = F.gelu(a) + F.silu(a) + F.elu(a) + F.leaky_relu(a, 0.1) + F.softplus(a)
    a = F.dropout(a, 0.5, training=False)
    return F.softmax(a, dim=-1), F.log_softmax(a, 1), F.normalize(a), F.hardtanh(a, -1, 1)


@case(x(1, 2, 8, 8), x(3, 2, 3, 3))
def images(a, w):
    a = F.conv2d(a, w, padding=1)
    a = F.max_pool2d(a, 2) + F.avg_pool2d(a, 2) + F.adaptive_avg_pool2d(a, 4)
    return F.interpolate(a, scale_factor=2, mode="nearest")


@case(x(4, 3), torch.tensor([0, 2, 1, 1]))
def losses(a, t):
    return F.cross_entropy(a, t), F.mse_loss(a, a * 2), F.nll_loss(F.log_softmax(a, 1), t)


@case(x(2, 3), x(3, 4))
def contractions(a, b):
    return (
        torch.einsum("ij,jk->ik", a, b),
        torch.matmul(a, b),
        torch.mm(a, b),
        torch.tensordot(a, b, 1),
    )


@case(x(2, 3))
def created(a):
    zeros = torch.zeros((2, 3))
    return zeros + torch.ones_like(a) + torch.full_like(a, 2.0) + torch.arange(3)


@case(x(2, 3))
def typed(a):
    return a.to(torch.float64), a.to(device="cpu", dtype=torch.float32), a.type(torch.int64)


@case(x(2, 3))
def attributes(a):
    return a.T, a.mT, a.ndim, a.shape, a.dtype


@case(x(2, 3))
def wrapped(a):
    return helper(a, b=3) + helper(a) + plain(a, 1) + len(a)


@case(4.0)
def math_functions(a):
    return sqrt(a) + math.floor(a) + math.cos(a)


@case(x(2, 3))
def dict_output(a):
    return {"sum": a.sum(), "nested": {"list": [a, 1], "pair": (a, None)}}


@case(x(2, 3))
def tuple_output(a):
    return a, a + 1, "text", 3, None


@case(x(2, 3))
def named_output(a):
    return Pair(a, a + 1)


@case(x(2, 3))
def dataclass_output(a):
    return Options(a).scale * 2


@case(x(2, 3), x(2, 3))
def star_arguments(*args):
    return args[0] + args[1]


@case(x(2, 3), k=x(2, 3))
def star_keywords(a, **kwargs):
    return a + kwargs["k"]


@case(x(2, 3))
def defaults(a, b=2, *, c=None, d: float = 0.5):
    return a * b + d


@case(x(2, 3))
def annotated(a: torch.Tensor, n: int = 2) -> torch.Tensor:
    return a * n


@case(x(2, 3))
def shadowed(input, sum=2, torch_=1):
    max = input.max()
    return max + input * sum


@case(x(2, 3))
def nothing(a):
    return None


@case(x(2, 3))
def same(a):
    return a


@case(x(2, 3), True, concrete_args={"flag": True})
def concrete_flag(a, flag):
    return a + 1 if flag else a - 1


@case(x(2, 3), 3, concrete_args={"n": 3})
def concrete_number(a, n, m=2):
    for _ in range(n):
        a = a * m
    return a


@case(x(2, 3), None, concrete_args={"b": None})
def concrete_none(a, b):
    return a if b is None else a + b


@case(1.0, {"k": 2.0}, [3.0, 4], concrete_args={"d": {"k": fx.PH}, "l": [fx.PH, 4]})
def concrete_trees(a, d, l):
    return {"out": a + d["k"] + l[0] + l[1]}


@case(x(2, 3))
def chained(a):
    return a.relu().sum(dim=1, keepdim=True).mul(2).clamp(min=0.0)


@case(x(2, 3))
def infinite(a):
    return a.masked_fill(a > 0, float("-inf")), a.clamp(max=math.inf)


@case(x(2, 3))
def in_place_methods(a):
    b = a.clone()
    b.add_(1)
    b[0].mul_(2)
    return b


@case(x(2, 3))
def calls_itself(a):
    return operator.add(a, 1), operator.getitem(a, 0), copy.copy(a)


@case(x(3, 3))
def linear_algebra(a):
    a = a @ a.T + 4 * torch.eye(3)
    return torch.linalg.inv(a), torch.linalg.norm(a), torch.det(a), torch.linalg.cholesky(a)


@case(x(2, 3))
def grads_off(a):
    with torch.no_grad():
        return a * 2


@case(x(2, 3), error=True)
def condition(a):
    return a if a.sum() > 0 else -a


@case(x(2, 3), error=True)
def loop(a):
    return [row + 1 for row in a]


@case(x(2, 3), error=True)
def loop_while(a):
    while a.sum() > 0:
        a = a - 1
    return a


@case(x(2, 3), error=True)
def both(a):
    return a and a


@case(x(2, 3), error=True)
def between(a):
    return 0 < a < 1


@case(x(2, 3), error=True)
def starred(a):
    return torch.add(*a)


@case(x(2, 3), error=True)
def keywords(a):
    return dict(**a)


@case(x(2, 3), error=True)
def integer(a):
    return int(a)


@case(x(2, 3), error=True)
def counted(a):
    return list(range(a.size(0)))


@case(x(2, 3), error=True)
def listed(a):
    return [1, 2][a]


@case(x(2, 3), error=True)
def contained(a):
    return a in [1, 2]


@case(x(2, 3), error=True)
def assigned(a):
    a[0] = 1
    return a


@case(x(2, 3), error=True)
def a_set(a):
    return {1, 2}


@case(x(2, 3), error=True)
def node_as_key(a):
    return {a: 1}


@case(x(2, 3), error=True)
def asserted(a):
    assert a.sum() > 0
    return a


@case(x(2, 3), error=True)
def foreign_module(a):
    return nn.ReLU()(a)


@case(x(4, 5))
class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 2))

    def forward(self, x):
        return self.net(x)


@case(x(2, 3, 8, 8))
class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(4)
        self.pool = nn.MaxPool2d(2)
        self.fc = nn.Linear(64, 3)

    def forward(self, x):
        x = self.pool(F.relu(self.bn1(self.conv1(x))))
        x = torch.flatten(x, 1)
        return F.log_softmax(self.fc(x), dim=1)


class Block(nn.Module):
    def __init__(self, inside, out):
        super().__init__()
        self.conv = nn.Conv2d(inside, out, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(out)
        self.down = nn.Conv2d(inside, out, 1) if inside != out else None

    def forward(self, x):
        identity = x if self.down is None else self.down(x)
        out = self.bn(self.conv(x))
        out += identity
        return F.relu(out, inplace=True)


@case(x(1, 3, 6, 6))
class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(Block(3, 4), Block(4, 4), Block(4, 6))
        self.pool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(6, 2)

    def forward(self, x):
        return self.fc(torch.flatten(self.pool(self.layers(x)), 1))


@case(x(3, 2, 4))
class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 5)
        self.head = nn.Linear(5, 1)

    def forward(self, x):
        out, (h, c) = self.lstm(x)
        return self.head(out), h + c


@case(x(2, 3, 8))
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.norm = nn.LayerNorm(8)

    def forward(self, x):
        return self.norm(self.layer(x) + x)


@case(x(2, 3, 8))
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.proj = nn.Linear(8, 8)
        self.heads = 2

    def forward(self, x):
        b, n, c = x.shape
        qkv = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        attn = (q @ k.transpose(-2, -1)) * (c // self.heads) ** -0.5
        x = attn.softmax(dim=-1) @ v
        x = x.transpose(1, 2).reshape(b, n, c)
        return self.proj(x) + F.scaled_dot_product_attention(q, k, v).sum()


@case(x(4, 5))
class Parameters(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(5, 3))
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(3)) for _ in range(2)])
        self.register_buffer("shift", torch.ones(3))
        self.fixed = torch.full((3,), 2.0)
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Tanh()])
        self.named = nn.ModuleDict({"a": nn.Sigmoid()})

    def forward(self, x):
        x = F.linear(x, self.weight.t()) * self.scales[0] + self.shift
        for layer in self.layers:
            x = layer(x)
        return self.named["a"](x) * self.fixed * self.scales[1] + self.weight.shape[0]


@case(x(4, 5))
class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(5, 5)
        self.b = self.a

    def forward(self, x):
        return self.b(self.a(x)) + self.a(x)


@case(torch.tensor([[1, 2, 0]]))
class Embedded(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(4, 3)
        self.gru = nn.GRU(3, 2, batch_first=True)

    def forward(self, ids):
        return self.gru(self.words(ids))[0][:, -1]


@case(x(2, 4), concrete_args={"mask": None})
class Optional_(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x, mask=None):
        x = self.fc(x)
        return x if mask is None else x * mask


@case(x(2, 4))
class Inherited(Mlp):
    def __init__(self):
        nn.Module.__init__(self)
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.Linear(4, 2)))

    def forward(self, x):
        return self.inner[0](x).sum() + self.inner[1][1](x) + self.inner(x)


def numbers(value):
    """Returns a result with tensors as lists of rounded numbers."""
    if isinstance(value, torch.Tensor):
        kind = str(value.dtype).rpartition(".")[2]
        flat = value.detach().double().reshape(-1).tolist()
        return [kind, list(value.shape), [float(f"{v:.4g}") if abs(v) > 1e-6 else 0 for v in flat]]
    if isinstance(value, dict):
        return {k: numbers(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [numbers(v) for v in value]
    return value if isinstance(value, (int, float, str, type(None))) else str(value)


def tabular(graph):
    """Returns what print_tabular prints, without addresses; the names of C functions differ."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        graph.print_tabular()
    rows = [re.split(r" {2,}", line.strip()) for line in out.getvalue().splitlines()[2:]]
    return [[c for c in row if not c.startswith("<")] for row in rows]


def show(name):
    """Returns what a case traces to, or its error."""
    made, args, options = CASES[name]
    options = dict(options)
    error, concrete = options.pop("error", False), options.pop("concrete_args", None)
    root = settled(made()) if isinstance(made, type) else made

    def call(function):
        return function(*copy.deepcopy(args), **options)

    try:
        module = fx.symbolic_trace(root, concrete)
    except Exception as raised:
        assert error, name
        return {"error": [type(raised).__name__, str(raised)]}
    shown = {"code": module.code, "graph": str(module.graph), "table": tabular(module.graph)}
    shown["value"] = numbers(call(module))
    assert shown["value"] == numbers(call(root)), name
    copied = copy.deepcopy(module)
    assert copied.code == module.code and numbers(call(copied)) == shown["value"], name
    return shown


def main(file):
    """Writes what all cases show."""
    shown = {name: show(name) for name in CASES}
    Path(file).write_text(json.dumps(shown, indent=0, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
