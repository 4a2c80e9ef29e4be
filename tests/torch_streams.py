# SPDX-License-Identifier: BSD-3-Clause
"""Cases with torch's random numbers under set_rng("torch"): name to f(torch), after a seed."""

import hashlib
import json


def inits(torch):
    init, e = torch.nn.init, torch.empty
    return [
        init.xavier_uniform_(e(5, 7)),
        init.xavier_normal_(e(5, 7)),
        init.kaiming_uniform_(e(5, 7)),
        init.kaiming_normal_(e(5, 7)),
        init.trunc_normal_(e(5, 7)),
        init.trunc_normal_(e(5, 7), 0.0, 1.0, 0.5, 1.0),
        init.normal_(e(3), 1.0, 2.0),
    ]


def mix(torch):
    """Runs kinds of draws one after another: each starts with the state that the last one left."""
    return [
        torch.randn(3),
        torch.rand(5),
        torch.randn(1),
        torch.randn(40),
        torch.randn(1),
        torch.randint(0, 9, (4,)),
        torch.randperm(7),
        torch.rand(2, dtype=torch.float64),
    ]


def seeds(torch):
    out = []
    for seed in (0, 1, 2**32 + 5, 2**63 + 9, -3):
        torch.manual_seed(seed)
        out.append(torch.rand(3))
    return out


def orders(torch, make):
    """Returns the order in which samplers or loaders of 23 samples visit them, in two epochs."""
    data = torch.utils.data
    visits = make(data, data.TensorDataset(torch.arange(23)))
    found = []
    for _ in range(2):
        for item in visits:
            item = item[0] if isinstance(item, (list, tuple)) else item
            found.extend(item.tolist() if isinstance(item, torch.Tensor) else [item])
    return torch.tensor(found)


def splits(torch):
    data = list(range(23))
    parts = [
        *torch.utils.data.random_split(data, [3, 20]),
        *torch.utils.data.random_split(data, [0.5, 0.3, 0.2]),
        *torch.utils.data.random_split(data, [11, 12], torch.Generator().manual_seed(3)),
    ]
    return [torch.tensor(list(part)) for part in parts]


def worker_draws(torch):
    """Returns a dataset's random numbers in workers, of cograd or torch, NumPy and Python."""
    import random

    import numpy

    class Draws(torch.utils.data.Dataset):
        def __len__(self):
            return 6

        def __getitem__(self, i):
            return torch.rand(1).item(), numpy.random.rand(), random.random()

    rows = torch.utils.data.DataLoader(Draws(), 2, shuffle=True, num_workers=2)
    return [column for batch in rows for column in batch]


def rates(torch, dtype):
    return torch.tensor([0.0, 0.3, 4.0, 9.99, 30.0, 2000.0], dtype=dtype).repeat(20)


def trials(torch, dtype):
    count = torch.tensor([0.0, 1.0, 5.0, 40.0, 1000.0], dtype=dtype).repeat(20)
    chance = torch.tensor([0.0, 0.05, 0.5, 0.8, 1.0], dtype=dtype)
    return count[:, None].expand(100, 5).contiguous(), chance.expand(100, 5).contiguous()


def sampled(torch, make):
    """Returns samples of two dtypes from distributions with two parameters each."""
    drawn = []
    for dtype in (torch.float32, torch.float64):
        a = torch.tensor([0.5, 2.0, 9.0], dtype=dtype)
        b = torch.tensor([0.4, 0.7, 0.2], dtype=dtype)
        drawn.append(make(torch.distributions, a, b).sample((30,)))
    return drawn


def attended(torch, heads=4, **options):
    """Returns attention with dropout and its gradients, in double."""
    base = torch.arange(2 * 4 * 7 * 6, dtype=torch.float64).reshape(2, 4, 7, 6)
    q, k, v = base[:, :, :5].sin(), base.cos(), (base * 0.7).sin()
    leaves = [x.requires_grad_() for x in (q.clone(), k[:, :heads].clone(), v[:, :heads].clone())]
    out = torch.nn.functional.scaled_dot_product_attention(*leaves, dropout_p=0.4, **options)
    (out * (1 + torch.arange(6, dtype=torch.float64))).sum().backward()
    return [out, *(x.grad for x in leaves)]


def trained(torch, make, inputs):
    """Returns a training module's results for the same input twice, in double; then gradients."""
    module = make(torch.nn).double()
    given = [torch.rand(size).double() for size in inputs]
    first, second = (module(*given) for _ in range(2))
    pick = (lambda y: y[0]) if isinstance(first, tuple) else (lambda y: y)
    (pick(first) * pick(second)).sum().backward()
    weights = [p.grad for p in module.parameters() if p.dim() == 2]
    return [pick(first), pick(second), *weights]


def attend(torch, **options):
    """Runs MultiheadAttention without weights, as the layers of transformers use it."""

    class Attend(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.MultiheadAttention(8, 2, dropout=0.3, **options)

        def forward(self, x):
            return self.inner(x, x, x, need_weights=False)[0]

    return trained(torch, lambda nn: Attend(), [(5, 3, 8)])


TRAINED = {
    "TransformerEncoderLayer": (lambda nn: nn.TransformerEncoderLayer(8, 2, 16, 0.2), [(5, 3, 8)]),
    "TransformerDecoderLayer": (
        lambda nn: nn.TransformerDecoderLayer(8, 2, 16, 0.2, norm_first=True),
        [(5, 3, 8), (6, 3, 8)],
    ),
    "Transformer": (
        lambda nn: nn.Transformer(8, 2, 1, 1, 16, 0.2, batch_first=True),
        [(3, 5, 8), (3, 6, 8)],
    ),
    "LSTM dropout": (lambda nn: nn.LSTM(4, 3, 2, dropout=0.5), [(5, 2, 4)]),
    "GRU dropout": (lambda nn: nn.GRU(4, 3, 2, dropout=0.5), [(5, 2, 4)]),
}


def gumbel(torch, dtype=None, **options):
    logits = torch.arange(60, dtype=dtype or torch.float32).reshape(5, 12).t().sin()
    return torch.nn.functional.gumbel_softmax(logits, 0.7, **options)


def sloped(torch, dtype, inplace=False):
    """Runs rrelu on numbers of both signs, some of which draw a random slope."""
    x = torch.arange(-20.0, 20.0).to(dtype).reshape(5, 8).t()
    y = torch.nn.functional.rrelu(x, 0.1, 0.9, True, inplace)
    return [x, y]


SAMPLED = {
    "Gamma": lambda d, a, b: d.Gamma(a / 4, b),
    "InverseGamma": lambda d, a, b: d.InverseGamma(a, b),
    "Beta": lambda d, a, b: d.Beta(a, b),
    "Dirichlet": lambda d, a, b: d.Dirichlet(a),
    "Chi2": lambda d, a, b: d.Chi2(a),
    "StudentT": lambda d, a, b: d.StudentT(a, 0.0, b),
    "FisherSnedecor": lambda d, a, b: d.FisherSnedecor(a, b),
    "VonMises": lambda d, a, b: d.VonMises(a, 20 * b),
    "LogisticNormal": lambda d, a, b: d.LogisticNormal(a, b),
    "Gumbel": lambda d, a, b: d.Gumbel(a, b),
    "Kumaraswamy": lambda d, a, b: d.Kumaraswamy(a, b),
    "ContinuousBernoulli": lambda d, a, b: d.ContinuousBernoulli(b.double()),
}

ORDERS = {
    "random": lambda d, x: d.RandomSampler(x),
    "replacement": lambda d, x: d.RandomSampler(x, replacement=True, num_samples=70),
    "more samples": lambda d, x: d.RandomSampler(x, num_samples=50),
    "subset": lambda d, x: d.SubsetRandomSampler(range(5, 20)),
    "weighted": lambda d, x: d.WeightedRandomSampler(range(1, 24), 40),
    "weighted distinct": lambda d, x: d.WeightedRandomSampler(range(1, 24), 20, False),
    "distributed": lambda d, x: d.DistributedSampler(x, 4, 1, seed=5),
    "loader": lambda d, x: d.DataLoader(x, 4, shuffle=True),
    "loader workers": lambda d, x: d.DataLoader(x, 4, shuffle=True, num_workers=2),
    "loader persistent": lambda d, x: d.DataLoader(
        x, 4, shuffle=True, num_workers=1, persistent_workers=True
    ),
}

EXACT = {
    "random_split": splits,
    "worker draws": worker_draws,
    **{f"order {name}": lambda t, make=make: orders(t, make) for name, make in ORDERS.items()},
    "rand": lambda t: t.rand(700),
    "rand64": lambda t: t.rand(700, dtype=t.float64),
    "rand16": lambda t: t.rand(700, dtype=t.float16),
    "randbf16": lambda t: t.rand(700, dtype=t.bfloat16),
    "rand complex": lambda t: t.rand(50, dtype=t.complex64),
    "rand_like transposed": lambda t: t.rand_like(t.zeros(5, 6).t()),
    "uniform_": lambda t: t.empty(700).uniform_(-0.3, 0.77),
    "uniform_64": lambda t: t.empty(700, dtype=t.float64).uniform_(-0.3, 0.77),
    "uniform_16": lambda t: t.empty(700, dtype=t.float16).uniform_(-0.3, 0.77),
    "uniform_bf16": lambda t: t.empty(700, dtype=t.bfloat16).uniform_(-0.3, 0.77),
    "uniform_ transposed": lambda t: t.empty(4, 5).t().uniform_(),
    "uniform_ strided": lambda t: t.zeros(6, 8)[:, ::2].uniform_(),
    "uniform_ permuted": lambda t: t.zeros(3, 4, 5).permute(1, 2, 0).uniform_(),
    "randint": lambda t: t.randint(0, 100, (700,)),
    "randint low": lambda t: t.randint(-7, 9, (50,)),
    "randint 2**28-1": lambda t: t.randint(0, 2**28 - 1, (50,)),
    "randint 2**28": lambda t: t.randint(0, 2**28, (50,)),
    "randint 2**40": lambda t: t.randint(0, 2**40, (50,)),
    "randint all": lambda t: t.randint(-(2**63), 2**63 - 1, (50,)),
    "randint float": lambda t: t.randint(0, 100, (50,), dtype=t.float32),
    "randint uint8": lambda t: t.randint(0, 256, (50,), dtype=t.uint8),
    "randint_like": lambda t: t.randint_like(t.zeros(9), 5),
    **{
        f"random_ {name}": lambda t, name=name: t.zeros(50, dtype=getattr(t, name)).random_()
        for name in ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16",
                     "float32", "float64")
    },
    "random_ to": lambda t: t.zeros(50).random_(33),
    "randperm": lambda t: t.randperm(1000),
    "randperm small": lambda t: [t.randperm(n) for n in (0, 1, 2, 3)],
    "randperm int32": lambda t: t.randperm(100, dtype=t.int32),
    "bernoulli_": lambda t: t.empty(700).bernoulli_(0.3),
    "bernoulli_ int": lambda t: t.zeros(50, dtype=t.int64).bernoulli_(0.5),
    "bernoulli_ transposed": lambda t: t.empty(7, 9).t().bernoulli_(0.3),
    "bernoulli": lambda t: t.bernoulli(t.arange(100) / 100.0),
    "bernoulli64": lambda t: t.bernoulli(t.arange(100, dtype=t.float64) / 100.0),
    "bernoulli p": lambda t: t.bernoulli(t.zeros(50), 0.4),
    "bernoulli_ tensor": lambda t: t.empty(100).bernoulli_(t.arange(100) / 100.0),
    "dropout": lambda t: t.nn.functional.dropout(t.ones(700), 0.3),
    "dropout transposed": lambda t: t.nn.functional.dropout(t.ones(10, 50).t(), 0.3),
    **{
        f"dropout {name}": lambda t, name=name: [
            t.nn.functional.dropout(t.rand(99).to(getattr(t, name)), p, True, inplace)
            for p in (0.1, 0.3, 0.77)
            for inplace in (False, True)
        ]
        for name in ("float16", "bfloat16", "float64")
    },
    "dropout in place": lambda t: t.nn.functional.dropout(t.ones(700), 0.3, True, True),
    "dropout in place transposed": lambda t: t.dropout_(t.ones(10, 50).t(), 0.3, True),
    **{
        f"dropout p={p}": lambda t, p=p: [
            t.nn.functional.dropout(t.ones(50), p),
            t.nn.functional.dropout(t.ones(50), p, True, True),
            t.feature_dropout(t.ones(4, 5, 3), p, True),
            t.alpha_dropout(t.ones(50), p, True),
            t.nn.functional.dropout2d(t.ones(4, 5, 3, 3), p, True, True),
            t.nn.functional.scaled_dot_product_attention(*[t.ones(2, 3, 4)] * 3, dropout_p=p),
        ]
        for p in (0.0, 1.0)
    },
    **{
        f"native_dropout p={p}": lambda t, p=p: list(t.native_dropout(t.ones(10, 50).t(), p, True))
        for p in (0.0, 0.3, 1.0)
    },
    "rrelu": lambda t: sloped(t, t.float32),
    "rrelu64": lambda t: sloped(t, t.float64),
    "rrelu bf16": lambda t: sloped(t, t.bfloat16),
    "rrelu in place": lambda t: sloped(t, t.float32, True),
    "feature_dropout": lambda t: t.feature_dropout(t.ones(4, 5, 3), 0.5, True),
    "multinomial": lambda t: t.multinomial(t.tensor([[0.1, 0.2, 0.7], [1, 0, 5]]), 20, True),
    "multinomial distinct": lambda t: t.multinomial(t.arange(1.0, 50.0), 20),
    "multinomial one": lambda t: t.multinomial(t.arange(1.0, 50.0), 1, True),
    "multinomial 64": lambda t: t.multinomial(t.arange(1, 50, dtype=t.float64), 20),
    "poisson": lambda t: t.poisson(rates(t, t.float32)),
    "poisson64": lambda t: t.poisson(rates(t, t.float64)),
    "binomial": lambda t: t.binomial(*trials(t, t.float32)),
    "binomial64": lambda t: t.binomial(*trials(t, t.float64)),
    "NegativeBinomial": lambda t: sampled(t, lambda d, a, b: d.NegativeBinomial(a, b)),
    "seeds": seeds,
}  # fmt: skip

CLOSE = {
    **{f"randn {n}": lambda t, n=n: t.randn(n) for n in (1, 2, 15, 16, 17, 31, 32, 1000)},
    **{f"randn64 {n}": lambda t, n=n: t.randn(n, dtype=t.float64) for n in (1, 15, 16, 17, 1000)},
    **{
        f"randn {name} {n}": lambda t, name=name, n=n: [
            t.randn(n, dtype=getattr(t, name)), t.randn(3)
        ]
        for name in ("float16", "bfloat16")
        for n in (15, 16, 17, 31, 32, 1000, 1030, 2053)
    },
    "randn complex": lambda t: [t.randn(n, dtype=t.complex64) for n in (4, 8, 50)],
    "normal_": lambda t: t.empty(100).normal_(2.0, 0.5),
    "normal_ transposed": lambda t: t.empty(8, 9).t().normal_(),
    "normal tensor": lambda t: t.normal(t.zeros(20), t.arange(1.0, 21.0)),
    "normal size": lambda t: t.normal(1.0, 2.0, (3, 7)),
    "randn_like": lambda t: t.randn_like(t.zeros(5, 6).t()),
    "exponential_": lambda t: t.empty(700).exponential_(1.5),
    "exponential_64": lambda t: t.empty(700, dtype=t.float64).exponential_(),
    "cauchy_": lambda t: t.empty(50).cauchy_(1.0, 2.0),
    "log_normal_": lambda t: t.empty(50).log_normal_(0.3, 0.5),
    "geometric_": lambda t: t.empty(50).geometric_(0.3),
    "alpha_dropout": lambda t: t.alpha_dropout(t.ones(50), 0.3, True),
    "gumbel_softmax": gumbel,
    "gumbel_softmax 64": lambda t: gumbel(t, t.float64),
    "gumbel_softmax hard": lambda t: gumbel(t, hard=True, dim=0),
    "attention": attended,
    "attention causal": lambda t: attended(t, is_causal=True),
    "attention grouped": lambda t: attended(t, heads=2, enable_gqa=True),
    "attention mask": lambda t: attended(t, attn_mask=t.arange(35).reshape(5, 7) % 3 > 0),
    "MultiheadAttention": attend,
    "MultiheadAttention batch_first": lambda t: attend(t, batch_first=True),
    **{name: lambda t, case=case: trained(t, *case) for name, case in TRAINED.items()},
    "init": inits,
    "linear": lambda t: list(t.nn.Linear(20, 30).parameters()),
    "embedding": lambda t: list(t.nn.Embedding(11, 5).parameters()),
    "mix": mix,
    **{name: lambda t, make=make: sampled(t, make) for name, make in SAMPLED.items()},
}  # fmt: skip


def flat(torch, result):
    """Returns the tensors of a result as flat lists of doubles."""
    tensors = result if isinstance(result, list) else [result]
    lists = []
    for t in tensors:
        t = t.detach()
        t = torch.view_as_real(t) if t.is_complex() else t
        t = t.to(torch.float64) if t.is_floating_point() else t.to(torch.int64)
        lists.append(t.contiguous().reshape(-1).tolist())
    return lists


def place(state):
    """Returns a generator's state: seed, words left, next, and the words themselves."""
    return bytes(state.tolist())[: 24 + 624 * 8]


def draw(torch, name):
    """Returns the result of a case after manual_seed(7), and the generator's state after it."""
    torch.manual_seed(7)
    values = flat(torch, {**EXACT, **CLOSE}[name](torch))
    return values, place(torch.get_rng_state())


def record(torch, name):
    """Returns the record of a case: a digest of exact results, or some of the numbers."""
    values, end = draw(torch, name)
    digest = hashlib.sha256(end)
    if name in EXACT:
        digest.update(repr(values).encode())
    some = [[v[i] for i in range(0, len(v), max(1, len(v) // 8))] for v in values]
    return {"digest": digest.hexdigest(), "values": some}


if __name__ == "__main__":  # with torch 2.13: writes the file that the tests read
    import torch as reference
    import torch.utils.data

    with open(__file__.replace(".py", ".json"), "w") as file:
        json.dump({name: record(reference, name) for name in {**EXACT, **CLOSE}}, file, indent=0)
