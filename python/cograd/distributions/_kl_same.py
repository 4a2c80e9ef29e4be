# SPDX-License-Identifier: BSD-3-Clause
"""KL divergences between distributions of one family."""

from __future__ import annotations

import math
from typing import Any

import cograd
from cograd import Tensor
from cograd.nn import functional as F

from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .categorical import Categorical
from .cauchy import Cauchy
from .continuous_bernoulli import ContinuousBernoulli
from .dirichlet import Dirichlet
from .exp_family import ExponentialFamily
from .exponential import Exponential
from .gamma import Gamma
from .geometric import Geometric
from .gumbel import Gumbel
from .half_normal import HalfNormal
from .independent import Independent
from .kl import kl_divergence, register_kl
from .laplace import Laplace
from .lowrank_multivariate_normal import LowRankMultivariateNormal, _batch_lowrank_mahalanobis
from .multivariate_normal import MultivariateNormal, _batch_mahalanobis
from .normal import Normal
from .one_hot_categorical import OneHotCategorical
from .pareto import Pareto
from .poisson import Poisson
from .transformed_distribution import TransformedDistribution
from .uniform import Uniform
from .utils import _sum_rightmost, euler_constant, holds


def _infinite_where(mask: Tensor, value: Tensor) -> Tensor:
    return cograd.where(mask, math.inf, value)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Tensor:
    ones = p.probs * (F.softplus(-q.logits) - F.softplus(-p.logits))
    ones = cograd.where(p.probs == 0, 0.0, _infinite_where(q.probs == 0, ones))
    zeros = (1 - p.probs) * (F.softplus(q.logits) - F.softplus(p.logits))
    return ones + cograd.where(p.probs == 1, 0.0, _infinite_where(q.probs == 1, zeros))


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Tensor:
    if not holds(p.total_count >= q.total_count):
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    one = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return _infinite_where(p.total_count > q.total_count, p.total_count * one)


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Tensor:
    terms = _infinite_where(q.probs == 0, p.probs * (p.logits - q.logits))
    return cograd.where(p.probs == 0, 0.0, terms).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: Any, q: Any) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: Any) -> Tensor:
    own = p._log_norm() + cograd.log1p(-p.probs)
    other = q._log_norm() + cograd.log1p(-q.probs)
    return p.mean * (p.logits - q.logits) + own - other


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Tensor:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    scale = cograd.lgamma(total) - cograd.lgamma(b.sum(-1))
    each = cograd.lgamma(b) - cograd.lgamma(a)
    logs = a.digamma() - total.digamma().unsqueeze(-1)
    return scale + (each + (a - b) * logs).sum(-1)


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    return (
        b * cograd.log(p.rate / q.rate)
        + cograd.lgamma(b)
        - cograd.lgamma(a)
        + (a - b) * cograd.digamma(a)
        + (q.rate - p.rate) * (a / p.rate)
    )


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Tensor:
    return -p.entropy() - cograd.log1p(-q.probs) / p.probs - q.logits


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Any, q: Any) -> Tensor:
    ratio, shift = p.scale / q.scale, (p.loc - q.loc) / q.scale
    growth = cograd.exp(cograd.lgamma(1 + ratio) - shift)
    return shift - ratio.log() + ratio * euler_constant + growth - (1 + euler_constant)


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: Any, q: Any) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Tensor:
    ratio = (p.scale / q.scale).square()
    shift = ((p.loc - q.loc) / q.scale).square()
    return 0.5 * (ratio + shift - 1 - ratio.log())


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return distance / q.scale + ratio * cograd.exp(-distance / p.scale) - ratio.log() - 1


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Tensor:
    squares = (p.scale + q.scale).square() + (p.loc - q.loc).square()
    return squares.log() - (4 * p.scale * q.scale).log()


@register_kl(Pareto, Pareto)
def _pareto(p: Any, q: Any) -> Tensor:
    ratio = q.alpha / p.alpha
    result = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return _infinite_where(p.scale < q.scale, result)


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Tensor:
    return cograd.xlogy(p.rate, p.rate / q.rate) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Tensor:
    result = cograd.log((q.high - q.low) / (p.high - p.low))
    return _infinite_where((q.low > p.low) | (q.high < p.high), result)


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p: Any, q: Any) -> Tensor:
    """Returns the Bregman divergence of the log normaliser."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed "
            "using Bregman divergences"
        )
    mine = [t if t.requires_grad else t.detach().requires_grad_() for t in p._natural_params]
    theirs = q._natural_params
    with cograd.enable_grad():
        own = p._log_normalizer(*mine)
        slopes = cograd.autograd.grad(own.sum(), mine, create_graph=True)
    result = q._log_normalizer(*theirs) - own
    for a, b, slope in zip(mine, theirs, slopes):
        result = result - _sum_rightmost((b - a) * slope, a.dim() - len(p.batch_shape))
    return result


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    extra = len(p.event_shape) - len(p.base_dist.event_shape)
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), extra)


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


def _check_dims(p: Any, q: Any, names: str) -> None:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL-divergence between {names} with different event shapes cannot be computed"
        )


def _trace_of_solve(factor: Tensor, matrix: Tensor) -> Tensor:
    """Returns ``trace((L L^T)^-1 M M^T)``."""
    batch = cograd.broadcast_shapes(factor.shape[:-2], matrix.shape[:-2])
    factor = factor.expand((*batch, *factor.shape[-2:]))
    matrix = matrix.expand((*batch, *matrix.shape[-2:]))
    return cograd.linalg.solve_triangular(factor, matrix, upper=False).square().sum((-2, -1))


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate(p: Any, q: Any) -> Tensor:
    _check_dims(p, q, "two Multivariate Normals")
    own, other = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    logs = q._half_log_det() - p._half_log_det()
    distance = _batch_mahalanobis(other, q.loc - p.loc)
    return logs + 0.5 * (_trace_of_solve(other, own) + distance - p.event_shape[0])


def _trace_by_woodbury(q: Any, matrix: Tensor) -> Tensor:
    """Returns ``trace(S^-1 M M^T)``, where S = W W^T + D is the covariance of q."""
    D = q._unbroadcasted_cov_diag.unsqueeze(-1)
    scaled = matrix / D
    inner = q._unbroadcasted_cov_factor.mT @ scaled
    return (matrix * scaled).sum((-2, -1)) - _trace_of_solve(q._capacitance_tril, inner)


def _to_low_rank(p: Any, q: Any, log_det: Tensor, *roots: Tensor) -> Tensor:
    """Returns the KL divergence of p, with covariance sum(M M^T), to q of low rank."""
    trace: Any = sum(_trace_by_woodbury(q, root) for root in roots)
    distance = _batch_lowrank_mahalanobis(
        q._unbroadcasted_cov_factor,
        q._unbroadcasted_cov_diag,
        q.loc - p.loc,
        q._capacitance_tril,
    )
    return 0.5 * (q._log_det() - log_det + trace + distance - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _low_rank(p: Any, q: Any) -> Tensor:
    _check_dims(p, q, "two Low Rank Multivariate Normals")
    diagonal = p._unbroadcasted_cov_diag.sqrt().diag_embed()
    return _to_low_rank(p, q, p._log_det(), p._unbroadcasted_cov_factor, diagonal)


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _multivariate_low_rank(p: Any, q: Any) -> Tensor:
    _check_dims(p, q, "two (Low Rank) Multivariate Normals")
    return _to_low_rank(p, q, 2 * p._half_log_det(), p._unbroadcasted_scale_tril)


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _low_rank_multivariate(p: Any, q: Any) -> Tensor:
    _check_dims(p, q, "two (Low Rank) Multivariate Normals")
    other = q._unbroadcasted_scale_tril
    diagonal = p._unbroadcasted_cov_diag.sqrt().diag_embed()
    trace = _trace_of_solve(other, p._unbroadcasted_cov_factor) + _trace_of_solve(other, diagonal)
    distance = _batch_mahalanobis(other, q.loc - p.loc)
    logs = 2 * q._half_log_det() - p._log_det()
    return 0.5 * (logs + trace + distance - p.event_shape[0])
