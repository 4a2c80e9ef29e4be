# SPDX-License-Identifier: BSD-3-Clause
"""What the docs draw as curves: activations, losses, schedulers, windows, distributions.

A series is (label, xs, ys); `None` among ys breaks the curve. The keys are names below cograd.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import cograd as torch
from cograd import distributions as D
from cograd import nn, optim
from cograd.signal import windows

Series = tuple[str, list[float], list[Any]]
Call = Callable[[torch.Tensor], torch.Tensor]


def grid(low: float, high: float, n: int = 97) -> torch.Tensor:
    """Returns equally spaced float64 numbers; none of them is at a corner like 0."""
    return torch.linspace(low, high, n, dtype=torch.float64) + 1e-9


def sampled(label: str, f: Call, x: torch.Tensor) -> Series:
    """Returns the values of a function."""
    with torch.no_grad():
        return label, x.tolist(), f(x).tolist()


def with_slope(f: Call, x: torch.Tensor) -> list[Series]:
    """Returns an elementwise function and its derivative."""
    t = x.clone().requires_grad_()
    y = f(t)
    (slope,) = torch.autograd.grad(y.sum(), t)
    return [("value", x.tolist(), y.tolist()), ("derivative", x.tolist(), slope.tolist())]


ACTIVATIONS: dict[str, Callable[[], Any]] = {
    name: getattr(nn, name)
    for name in (
        "CELU ELU GELU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid Mish ReLU "
        "ReLU6 SELU SiLU Sigmoid Softplus Softshrink Softsign Tanh Tanhshrink"
    ).split()
} | {
    "PReLU": lambda: nn.PReLU(dtype=torch.float64),
    "RReLU": lambda: nn.RReLU().eval(),
    "Threshold": lambda: nn.Threshold(0.5, -0.5),
}


def activation(name: str) -> list[Series]:
    """Returns an activation's value and derivative."""
    wide = name in ("ReLU6", "Hardswish", "Hardsigmoid")
    return with_slope(ACTIVATIONS[name](), grid(-8, 8) if wide else grid(-4, 4))


def pair(x: torch.Tensor) -> torch.Tensor:
    """Returns the scores (x, 0) of two classes."""
    return torch.stack([x, torch.zeros_like(x)], -1)


def whole(x: torch.Tensor, value: float) -> torch.Tensor:
    """Returns a tensor of one value."""
    return torch.full_like(x, value)


def _losses() -> dict[str, list[tuple[str, torch.Tensor, Call]]]:
    each = {"reduction": "none"}
    x, p, apart = grid(-3, 3), grid(0.004, 0.996), grid(-2, 2)
    zero = torch.zeros(97, dtype=torch.long)
    residual = "error (target 0)"
    plain = [nn.L1Loss(**each), nn.MSELoss(**each), nn.HuberLoss(**each), nn.SmoothL1Loss(**each)]
    found: dict[str, list[tuple[str, torch.Tensor, Call]]] = {
        type(f).__name__: [(residual, x, lambda x, f=f: f(x, whole(x, 0.0)))] for f in plain
    }
    for name, f, values in (
        ("BCEWithLogitsLoss", nn.BCEWithLogitsLoss(**each), (1.0, 0.0)),
        ("SoftMarginLoss", nn.SoftMarginLoss(**each), (1.0, -1.0)),
        ("HingeEmbeddingLoss", nn.HingeEmbeddingLoss(**each), (1.0, -1.0)),
    ):
        found[name] = [(f"target {v:g}", x, lambda x, f=f, v=v: f(x, whole(x, v))) for v in values]
    f = nn.BCELoss(**each)
    found["BCELoss"] = [(f"target {v:g}", p, lambda p, v=v: f(p, whole(p, v))) for v in (1.0, 0.0)]
    found["CrossEntropyLoss"] = [
        (
            f"label_smoothing={s:g}",
            x,
            lambda x, s=s: nn.CrossEntropyLoss(label_smoothing=s, **each)(pair(x), zero),
        )
        for s in (0.0, 0.2)
    ]
    found["NLLLoss"] = [
        ("score (x, 0)", x, lambda x: nn.NLLLoss(**each)(pair(x).log_softmax(-1), zero))
    ]
    found["MultiMarginLoss"] = [
        (f"p={k}", x, lambda x, k=k: nn.MultiMarginLoss(p=k, **each)(pair(x), zero)) for k in (1, 2)
    ]
    found["PoissonNLLLoss"] = [
        (f"target {v:g}", x, lambda x, v=v: nn.PoissonNLLLoss(**each)(x, whole(x, v)))
        for v in (1.0, 4.0)
    ]
    found["GaussianNLLLoss"] = [
        (
            f"var {v:g}",
            x,
            lambda x, v=v: nn.GaussianNLLLoss(**each)(x, whole(x, 0.0), whole(x, v)),
        )
        for v in (0.25, 1.0, 4.0)
    ]
    found["KLDivLoss"] = [
        (f"target {v:g}", p, lambda p, v=v: nn.KLDivLoss(**each)(p.log(), whole(p, v)))
        for v in (0.2, 0.6)
    ]
    found["MarginRankingLoss"] = [
        (
            f"margin={m:g}",
            apart,
            lambda x, m=m: nn.MarginRankingLoss(margin=m, **each)(x, whole(x, 0), whole(x, 1)),
        )
        for m in (0.0, 0.5)
    ]
    return found


LOSSES = _losses()


def loss(name: str) -> list[Series]:
    """Returns a loss as a function of its input."""
    return [sampled(label, f, x) for label, x, f in LOSSES[name]]


S = optim.lr_scheduler
SCHEDULERS: dict[str, Callable[[Any], Any]] = {
    "ChainedScheduler": lambda o: S.ChainedScheduler(
        [S.ConstantLR(o, 0.3, 20), S.ExponentialLR(o, 0.97)]
    ),
    "ConstantLR": lambda o: S.ConstantLR(o, 0.3, 40),
    "CosineAnnealingLR": lambda o: S.CosineAnnealingLR(o, 100),
    "CosineAnnealingWarmRestarts": lambda o: S.CosineAnnealingWarmRestarts(o, 15, 2),
    "CyclicLR": lambda o: S.CyclicLR(o, 0.1, 1.0, 15, mode="triangular2"),
    "ExponentialLR": lambda o: S.ExponentialLR(o, 0.96),
    "LambdaLR": lambda o: S.LambdaLR(o, lambda n: 1 / (1 + n / 10)),
    "LinearLR": lambda o: S.LinearLR(o, 0.1, 1.0, 60),
    "MultiStepLR": lambda o: S.MultiStepLR(o, [30, 80], 0.3),
    "MultiplicativeLR": lambda o: S.MultiplicativeLR(o, lambda n: 0.96),
    "OneCycleLR": lambda o: S.OneCycleLR(o, 1.0, 100),
    "PolynomialLR": lambda o: S.PolynomialLR(o, 100, 2.0),
    "ReduceLROnPlateau": lambda o: S.ReduceLROnPlateau(o, factor=0.5),
    "SequentialLR": lambda o: S.SequentialLR(
        o, [S.LinearLR(o, 0.1, 1.0, 20), S.CosineAnnealingLR(o, 80)], [20]
    ),
    "StepLR": lambda o: S.StepLR(o, 25, 0.5),
}


def scheduler(name: str, steps: int = 100) -> list[Series]:
    """Returns the learning rate of each step; the loss that a plateau sees does not fall."""
    optimizer = optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0, momentum=0.9)
    schedule = SCHEDULERS[name](optimizer)
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step(*([1.0] if name == "ReduceLROnPlateau" else []))
    return [("rate", [float(i) for i in range(steps)], [float(r) for r in rates])]


def _window(label: str, make: Callable[[int], torch.Tensor]) -> Series:
    y = make(101)
    return label, [float(i) for i in range(len(y))], y.tolist()


def _windows() -> dict[str, list[tuple[str, Callable[[int], torch.Tensor]]]]:
    w = windows
    found: dict[str, list[tuple[str, Callable[[int], torch.Tensor]]]] = {
        f"signal.windows.{n}": [("window", getattr(w, n))]
        for n in ("bartlett", "blackman", "cosine", "hamming", "hann", "nuttall")
    }
    options: dict[str, list[dict[str, Any]]] = {
        "exponential": [{"tau": t} for t in (5.0, 20.0)],
        "gaussian": [{"std": s} for s in (7.0, 20.0)],
        "general_cosine": [{"a": [0.46, 0.23, 0.31]}],
        "general_hamming": [{"alpha": a} for a in (0.54, 0.7)],
        "kaiser": [{"beta": b} for b in (4.0, 12.0)],
    }
    for name, sets in options.items():
        f = getattr(w, name)
        found[f"signal.windows.{name}"] = [(_text(o), lambda n, f=f, o=o: f(n, **o)) for o in sets]
    for name in ("bartlett", "blackman", "hamming", "hann", "kaiser"):
        name = f"{name}_window"
        found[name] = [("window", getattr(torch, name))]
    return found


def _text(options: dict[str, Any]) -> str:
    return ", ".join(f"{k}={v}" for k, v in options.items())


WINDOWS = _windows()


def window(name: str) -> list[Series]:
    """Returns a window of 101 samples for each set of options."""
    return [_window(label, make) for label, make in WINDOWS[name]]


# Name -> low and high end of the axis, and options; counts are drawn as bars.
DISTRIBUTIONS: dict[str, tuple[float, float, list[dict[str, float]]]] = {
    "Beta": (0, 1, [{"concentration1": a, "concentration0": b} for a, b in ((2, 5), (0.5, 0.5))]),
    "Cauchy": (-6, 6, [{"loc": 0, "scale": s} for s in (0.5, 2)]),
    "Chi2": (0, 12, [{"df": k} for k in (2, 5)]),
    "ContinuousBernoulli": (0, 1, [{"probs": p} for p in (0.2, 0.7)]),
    "Exponential": (0, 5, [{"rate": r} for r in (0.5, 1.5)]),
    "FisherSnedecor": (0, 4, [{"df1": a, "df2": b} for a, b in ((3, 8), (20, 20))]),
    "Gamma": (0, 10, [{"concentration": a, "rate": 1} for a in (1, 4)]),
    "GeneralizedPareto": (0, 5, [{"loc": 0, "scale": 1, "concentration": c} for c in (0, 0.8)]),
    "Gumbel": (-4, 8, [{"loc": 0, "scale": s} for s in (1, 2)]),
    "HalfCauchy": (0, 6, [{"scale": s} for s in (0.5, 2)]),
    "HalfNormal": (0, 6, [{"scale": s} for s in (1, 2)]),
    "InverseGamma": (0, 4, [{"concentration": a, "rate": 1} for a in (1, 3)]),
    "Kumaraswamy": (
        0,
        1,
        [{"concentration1": a, "concentration0": b} for a, b in ((2, 5), (5, 1))],
    ),
    "Laplace": (-6, 6, [{"loc": 0, "scale": s} for s in (0.7, 2)]),
    "LogNormal": (0, 5, [{"loc": 0, "scale": s} for s in (0.5, 1)]),
    "Normal": (-6, 6, [{"loc": 0, "scale": 1}, {"loc": 1, "scale": 2}]),
    "Pareto": (0.5, 5, [{"scale": 1, "alpha": a} for a in (1, 3)]),
    "RelaxedBernoulli": (0, 1, [{"temperature": t, "probs": 0.6} for t in (0.5, 2)]),
    "StudentT": (-6, 6, [{"df": k} for k in (1, 10)]),
    "Uniform": (-1, 4, [{"low": 0, "high": h} for h in (1, 3)]),
    "VonMises": (-math.pi, math.pi, [{"loc": 0, "concentration": c} for c in (0.7, 4)]),
    "Weibull": (0, 4, [{"scale": 1, "concentration": c} for c in (0.8, 3)]),
    "Bernoulli": (0, 1, [{"probs": 0.3}]),
    "Binomial": (0, 12, [{"total_count": 12, "probs": p} for p in (0.2, 0.6)]),
    "Geometric": (0, 12, [{"probs": p} for p in (0.2, 0.5)]),
    "NegativeBinomial": (0, 16, [{"total_count": 4, "probs": p} for p in (0.3, 0.6)]),
    "Poisson": (0, 14, [{"rate": r} for r in (2, 7)]),
}


def counts(name: str) -> bool:
    """Says whether a distribution has whole numbers as values."""
    return name in ("Bernoulli", "Binomial", "Geometric", "NegativeBinomial", "Poisson")


def distribution(name: str) -> list[Series]:
    """Returns the density, or mass, for each set of parameters; 0 outside of the support."""
    low, high, options = DISTRIBUTIONS[name]
    x = grid(low, high, int(high - low) + 1 if counts(name) else 121)
    x = x.round() if counts(name) else x.clamp(low + 1e-6, high - 1e-6)
    found = []
    for given in options:
        parameters = {k: torch.tensor(float(v), dtype=torch.float64) for k, v in given.items()}
        if "total_count" in given:
            parameters["total_count"] = torch.tensor(float(given["total_count"]))
        d = getattr(D, name)(**parameters, validate_args=False)
        inside = d.support.check(x)
        some = x[inside]
        y = torch.zeros_like(x).masked_scatter(inside, d.log_prob(some).exp().to(x.dtype))
        label = ", ".join(f"{k}={v:g}" for k, v in given.items())
        found.append((label, x.tolist(), y.tolist()))
    return found
