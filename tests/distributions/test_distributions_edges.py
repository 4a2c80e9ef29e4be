# SPDX-License-Identifier: BSD-3-Clause
"""Distributions where formulas cancel or overflow, or outside of the support."""

import math

import pytest

import cograd as torch
from cograd import distributions as D


def test_continuous_bernoulli_keeps_its_digits_near_one_half():
    logits = torch.tensor([-0.004, -1e-6, 0.0, 0.01, 0.1], requires_grad=True)
    d = D.ContinuousBernoulli(logits=logits)
    mean = 0.5 + logits / 12 - logits**3 / 720
    torch.testing.assert_close(d.mean, mean, rtol=1e-6, atol=0)
    torch.testing.assert_close(d.variance, 1 / 12 - logits**2 / 240, rtol=1e-5, atol=0)
    (slope,) = torch.autograd.grad(d.log_prob(torch.zeros(5)).sum(), logits, create_graph=True)
    torch.testing.assert_close(slope, -mean, rtol=1e-5, atol=0)
    (curve,) = torch.autograd.grad(slope.sum(), logits)
    torch.testing.assert_close(curve, -d.variance, rtol=1e-4, atol=0)


def test_continuous_bernoulli_samples_follow_the_logits_at_zero():
    logits = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    level = torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)
    x = D.ContinuousBernoulli(logits=logits).icdf(level)
    (slope,) = torch.autograd.grad(x.sum(), logits)
    assert torch.equal(x, level)
    torch.testing.assert_close(slope, level * (1 - level) / 2)


@pytest.mark.parametrize("logit", [-60.0, -3.0, -1e-5, 1e-5, 2.0, 60.0])
def test_continuous_bernoulli_levels_and_values_invert_each_other(logit):
    d = D.ContinuousBernoulli(logits=torch.tensor(logit, dtype=torch.float64))
    level = torch.tensor([0.0, 1e-3, 0.4, 0.999, 1.0], dtype=torch.float64)
    torch.testing.assert_close(d.cdf(d.icdf(level)), level, rtol=1e-9, atol=1e-12)


def test_student_t_of_many_degrees_is_normal():
    normal, value = D.Normal(0.0, 1.0), torch.tensor([0.0, 1.5])
    d = D.StudentT(torch.tensor(1e8))
    torch.testing.assert_close(d.log_prob(value), normal.log_prob(value), rtol=1e-6, atol=0)
    torch.testing.assert_close(d.entropy(), normal.entropy(), rtol=1e-6, atol=0)


def test_student_t_has_no_step_where_its_series_begins():
    df = torch.tensor([40 - 1e-9, 40 + 1e-9], dtype=torch.float64, requires_grad=True)
    for result in (D.StudentT(df).entropy(), D.StudentT(df).log_prob(torch.tensor(1.3))):
        (slope,) = torch.autograd.grad(result.sum(), df)
        torch.testing.assert_close(result[0], result[1], rtol=1e-11, atol=0)
        torch.testing.assert_close(slope[0], slope[1], rtol=1e-6, atol=0)


def test_outside_of_the_support_levels_are_0_or_1():
    value = torch.tensor([-2.0, 0.5, 9.0])
    pareto = D.Pareto(1.0, 2.0, validate_args=False)
    torch.testing.assert_close(pareto.cdf(value), torch.tensor([0.0, 0.0, 80 / 81]))
    bounded = D.GeneralizedPareto(0.0, 1.0, -0.5, validate_args=False)  # the support ends at 2
    torch.testing.assert_close(bounded.cdf(value), torch.tensor([0.0, 0.4375, 1.0]))
    density = D.Kumaraswamy(2.0, 3.0, validate_args=False).log_prob(value)
    assert density.isinf().tolist() == [True, False, True] and density[0] < 0


def test_stick_breaking_of_large_numbers_has_a_finite_jacobian():
    t = D.StickBreakingTransform()
    x = torch.tensor([-200.0, -20.0, 0.0, 20.0, 200.0], requires_grad=True)
    y = t(x)
    volume = t.log_abs_det_jacobian(x, y)
    (slope,) = torch.autograd.grad(volume, x)
    assert volume.isfinite() and slope.isfinite().all()
    assert (y > 0).all() and math.isclose(y.sum().item(), 1, rel_tol=1e-6)


def test_an_infinite_divergence_has_gradients_without_nan():
    alpha = torch.tensor([1.5, 3.0], requires_grad=True)
    result = D.kl_divergence(D.Pareto(1.0, alpha), D.Normal(0.0, 1.0))
    (slope,) = torch.autograd.grad(result.sum(), alpha)
    assert result[0] == math.inf and slope.isfinite().all() and slope[1] != 0


def test_a_negative_number_of_dims_is_refused():
    with pytest.raises(ValueError, match="actual -1 vs 1"):
        D.Independent(D.Normal(torch.zeros(2), 1.0), -1)


def test_names_of_arguments():
    half = torch.tensor(0.5)
    assert (
        D.HalfNormal(1.0).icdf(prob=half) > 0 and abs(D.HalfCauchy(1.0).icdf(prob=half) - 1) < 1e-6
    )
    mixture = D.MixtureSameFamily(D.Categorical(torch.ones(2)), D.Normal(torch.zeros(2), 1.0))
    assert mixture.cdf(x=torch.tensor(0.0)) == 0.5 and mixture.log_prob(x=half) < 0
    wishart = D.Wishart(torch.tensor(3.0), torch.eye(2))
    assert wishart.rsample((4,), max_try_correction=2).shape == (4, 2, 2)


@pytest.mark.parametrize("make", [D.Laplace, D.Cauchy, D.Normal], ids=lambda d: d.__name__)
def test_tails_keep_their_digits(make):
    level = torch.tensor([1e-30, 1e-9, 0.2, 0.25, 0.5, 0.8, 1 - 1e-6])
    d = make(torch.zeros(7), 1.0)
    exact = make(torch.zeros(7, dtype=torch.float64), 1.0)
    value = d.icdf(level)
    assert value[4] == 0 and value.isfinite().all()
    torch.testing.assert_close(value.double(), exact.icdf(level.double()), rtol=1e-5, atol=1e-6)
    if make is D.Normal:
        return
    torch.testing.assert_close(d.cdf(value), level, rtol=1e-4, atol=0)
    loc = torch.zeros(7, requires_grad=True)
    (slope,) = torch.autograd.grad(make(loc, 1.0).cdf(value).sum(), loc)
    torch.testing.assert_close(-slope, d.log_prob(value).exp(), rtol=1e-4, atol=0)
