# SPDX-License-Identifier: BSD-3-Clause
"""KL divergences between distributions of different families."""

from __future__ import annotations

import math
from typing import Any

import cograd
from cograd import Tensor

from ._kl_same import _infinite_where
from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .continuous_bernoulli import ContinuousBernoulli
from .exponential import Exponential
from .gamma import Gamma
from .gumbel import Gumbel
from .kl import register_kl
from .laplace import Laplace
from .normal import Normal
from .pareto import Pareto
from .poisson import Poisson
from .uniform import Uniform
from .utils import euler_constant

# p has values outside of q's support, whatever the parameters: the divergence is infinite.
_OUTSIDE: dict[Any, tuple[Any, ...]] = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}


def _infinite(p: Any, q: Any) -> Tensor:
    shape = cograd.broadcast_shapes(p.batch_shape, q.batch_shape)
    return cograd.full(shape, math.inf, dtype=p.mean.dtype, device=p.mean.device)


for _kind, _others in _OUTSIDE.items():
    for _other in _others:
        register_kl(_kind, _other)(_infinite)
del _kind, _others, _other


# For these q, the mean of log q(x) follows from a few moments of p: of x, x^2 and log(x).


def _to_normal(p: Any, q: Any, mean: Tensor, variance: Tensor) -> Tensor:
    square = variance + (mean - q.loc).square()
    cross = 0.5 * square / q.scale.square() + q.scale.log() + 0.5 * math.log(2 * math.pi)
    return cross - p.entropy()


def _to_exponential(p: Any, q: Any, mean: Tensor) -> Tensor:
    return q.rate * mean - q.rate.log() - p.entropy()


def _to_gamma(p: Any, q: Any, mean: Tensor, mean_log: Tensor) -> Tensor:
    a = q.concentration
    scale = cograd.lgamma(a) - a * q.rate.log()
    return scale - (a - 1) * mean_log + q.rate * mean - p.entropy()


def _to_gumbel(p: Any, q: Any, mean: Tensor, mean_exp: Tensor) -> Tensor:
    """Returns the KL divergence to a Gumbel q, given the mean of ``exp((loc - x) / scale)``."""
    return q.scale.log() + (mean - q.loc) / q.scale + mean_exp - p.entropy()


def _to_continuous_bernoulli(p: Any, q: Any, mean: Tensor) -> Tensor:
    return -p.entropy() - mean * q.logits - cograd.log1p(-q.probs) - q._log_norm()


def _to_uniform(p: Any, q: Any) -> Tensor:
    """Returns the KL divergence of p, whose support is the unit interval, to a uniform q."""
    result = -p.entropy() + (q.high - q.low).log()
    return _infinite_where((q.low > 0) | (q.high < 1), result)


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Tensor:
    return q.rate - p.probs * q.rate.log() - p.entropy()


@register_kl(Beta, ContinuousBernoulli)
def _beta_continuous_bernoulli(p: Any, q: Any) -> Tensor:
    return _to_continuous_bernoulli(p, q, p.mean)


@register_kl(Beta, Exponential)
@register_kl(ContinuousBernoulli, Exponential)
@register_kl(Gamma, Exponential)
def _any_exponential(p: Any, q: Any) -> Tensor:
    return _to_exponential(p, q, p.mean)


@register_kl(Beta, Gamma)
def _beta_gamma(p: Any, q: Any) -> Tensor:
    a, total = p.concentration1, p.concentration1 + p.concentration0
    return _to_gamma(p, q, p.mean, a.digamma() - total.digamma())


@register_kl(Beta, Normal)
@register_kl(ContinuousBernoulli, Normal)
@register_kl(Exponential, Normal)
@register_kl(Gamma, Normal)
@register_kl(Gumbel, Normal)
@register_kl(Laplace, Normal)
@register_kl(Uniform, Normal)
def _any_normal(p: Any, q: Any) -> Tensor:
    return _to_normal(p, q, p.mean, p.variance)


@register_kl(Beta, Uniform)
@register_kl(ContinuousBernoulli, Uniform)
def _any_uniform(p: Any, q: Any) -> Tensor:
    return _to_uniform(p, q)


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Any, q: Any) -> Tensor:
    return _to_gamma(p, q, p.mean, -euler_constant - p.rate.log())


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Any, q: Any) -> Tensor:
    product = p.rate * q.scale
    return _to_gumbel(p, q, p.mean, (q.loc / q.scale).exp() * product / (product + 1))


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Any, q: Any) -> Tensor:
    moment = (1 + 1 / (p.rate * q.scale)) ** -p.concentration
    return _to_gumbel(p, q, p.mean, (q.loc / q.scale).exp() * moment)


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Any, q: Any) -> Tensor:
    power = (q.loc - p.loc) / q.scale + 0.5 * (p.scale / q.scale).square()
    return _to_gumbel(p, q, p.mean, power.exp())


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Any, q: Any) -> Tensor:
    low, high = (q.loc - p.low) / q.scale, (q.loc - p.high) / q.scale
    return _to_gumbel(p, q, p.mean, (low.exp() - high.exp()) * q.scale / (p.high - p.low))


@register_kl(Normal, Laplace)
def _normal_laplace(p: Any, q: Any) -> Tensor:
    shift = p.loc - q.loc
    z = shift / p.scale
    spread = math.sqrt(2 / math.pi) * p.scale * cograd.exp(-0.5 * z.square())
    distance = spread + shift * cograd.erf(z * math.sqrt(0.5))
    return distance / q.scale + (2 * q.scale).log() - p.entropy()


def _heavy(p: Any, moments: int, divergence: Any) -> Tensor:
    """Returns ``divergence(p)``, or infinity where a Pareto variable lacks the moment."""
    none = p.alpha <= moments
    light = Pareto(p.scale, p.alpha.masked_fill(none, moments + 1.0), validate_args=False)
    return _infinite_where(none, divergence(light))


@register_kl(Pareto, Exponential)
def _pareto_exponential(p: Any, q: Any) -> Tensor:
    return _heavy(p, 1, lambda r: _to_exponential(r, q, r.mean))


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Any, q: Any) -> Tensor:
    return _heavy(p, 1, lambda r: _to_gamma(r, q, r.mean, r.scale.log() + r.alpha.reciprocal()))


@register_kl(Pareto, Normal)
def _pareto_normal(p: Any, q: Any) -> Tensor:
    return _heavy(p, 2, lambda r: _to_normal(r, q, r.mean, r.variance))


def _mean_log(low: Tensor, high: Tensor) -> Tensor:
    """Returns the mean of log(x) for uniform x."""
    return (cograd.xlogy(high, high) - cograd.xlogy(low, low)) / (high - low) - 1


@register_kl(Uniform, Beta)
def _uniform_beta(p: Any, q: Any) -> Tensor:
    a, b = q.concentration1, q.concentration0
    scale = a.lgamma() + b.lgamma() - (a + b).lgamma()
    logs = (a - 1) * _mean_log(p.low, p.high) + (b - 1) * _mean_log(1 - p.high, 1 - p.low)
    return _infinite_where((p.high > 1) | (p.low < 0), scale - logs - p.entropy())


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p: Any, q: Any) -> Tensor:
    result = _to_continuous_bernoulli(p, q, p.mean)
    return _infinite_where((p.high > 1) | (p.low < 0), result)


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Any, q: Any) -> Tensor:
    return _infinite_where(p.low < 0, _to_exponential(p, q, p.mean))


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Any, q: Any) -> Tensor:
    result = _to_gamma(p, q, p.mean, _mean_log(p.low, p.high))
    return _infinite_where(p.low < 0, result)


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Any, q: Any) -> Tensor:
    logs = (q.alpha + 1) * _mean_log(p.low, p.high)
    result = logs - q.alpha.log() - q.alpha * q.scale.log() - p.entropy()
    return _infinite_where(p.low < q.scale, result)
