# SPDX-License-Identifier: BSD-3-Clause
"""Distributions with parameters and values, as text over ``D`` and ``T``; several tests use it.

``T(list)`` is a float64 tensor. The file imports neither cograd nor torch; both can evaluate it.
"""

E2 = "T([[2.0, 0.3], [0.3, 1.0]])"
TRIL = "T([[1.0, 0.0], [0.5, 2.0]])"

# Name: (parameters, values in the support that broadcast with the batch shape)
CASES = {
    "Bernoulli": [
        ("probs=T([0.2, 0.7, 0.5])", "T([0., 1., 1.])"),
        ("logits=T(-1.5)", "T([0., 1.])"),
    ],
    "Beta": [("T([0.5, 2., 1., 9.]), T([0.5, 3., 2., 0.7])", "T([0.1, 0.5, 0.9, 0.99])")],
    "Binomial": [
        ("5, T([0.2, 0.7])", "T([1., 5.])"),
        ("T([4., 4.]), logits=T([0.3, -2.])", "T([0., 3.])"),
    ],
    "Categorical": [
        ("T([[0.2, 0.5, 0.3], [1., 1., 2.]])", "T([2., 0.])"),
        ("logits=T([0.1, -1., 2.])", "T([0., 1., 2.])"),
    ],
    "Cauchy": [("T([0., -3.]), T([1., 0.4])", "T([0.5, -30.])")],
    "Chi2": [("T([1., 3.5, 40.])", "T([0.3, 3., 50.])")],
    "ContinuousBernoulli": [
        ("T([0.1, 0.5, 0.4995, 0.93])", "T([0.2, 0.7, 0.4, 0.95])"),
        ("logits=T([-1., 2.])", "T([0.3, 0.6])"),
    ],
    "Dirichlet": [("T([[0.5, 2., 3.], [1., 1., 1.]])", "T([[0.2, 0.3, 0.5], [0.7, 0.2, 0.1]])")],
    "Exponential": [("T([0.5, 3.])", "T([0.1, 2.])")],
    "FisherSnedecor": [("T([1., 3., 12.]), T([1., 7., 9.])", "T([0.2, 1., 3.])")],
    "Gamma": [("T([0.3, 2., 50.]), T([1., 0.5, 3.])", "T([0.01, 3., 15.])")],
    "GeneralizedPareto": [
        ("T([0., 1., 0.]), T([1., 2., 1.]), T([0.3, -0.4, 0.])", "T([0.5, 3., 2.])")
    ],
    "Geometric": [("T([0.2, 0.9])", "T([3., 0.])"), ("logits=T(-1.)", "T([0., 4.])")],
    "Gumbel": [("T([0., -2.]), T([1., 3.])", "T([0.5, -6.])")],
    "HalfCauchy": [("T([1., 0.3])", "T([0.5, 4.])")],
    "HalfNormal": [("T([1., 0.3])", "T([0.5, 1.])")],
    "Independent": [("D.Normal(T([[0., 1.], [2., 3.]]), 1.5), 1", "T([[0.3, 0.6], [1., 4.]])")],
    "InverseGamma": [("T([0.5, 3.]), T([1., 2.])", "T([0.3, 0.8])")],
    "Kumaraswamy": [("T([0.5, 2.]), T([0.8, 3.])", "T([0.3, 0.6])")],
    "LKJCholesky": [
        ("3, T([0.5, 2.])", "T([[1., 0., 0.], [0.6, 0.8, 0.], [0.0, 0.6, 0.8]])"),
        ("2, T(1.)", "T([[1., 0.], [0.6, 0.8]])"),
    ],
    "Laplace": [("T([0., -3.]), T([1., 0.4])", "T([0.5, -3.3])")],
    "LogNormal": [("T([0., 1.]), T([1., 0.3])", "T([0.5, 3.])")],
    "LogisticNormal": [("T([0.2, -0.4]), T([1., 0.5])", "T([0.2, 0.5, 0.3])")],
    "LowRankMultivariateNormal": [
        ("T([0., 1.]), T([[0.5], [1.]]), T([1., 0.4])", "T([[0.1, 0.2], [3., -1.]])"),
        ("T([[0., 1.], [2., 2.]]), T([[0.5], [1.]]), T([1., 0.4])", "T([0.1, 0.2])"),
    ],
    "MixtureSameFamily": [
        (
            "D.Categorical(T([0.3, 0.7])), D.Normal(T([[0., 2.], [1., 5.]]), T([1., 0.5]))",
            "T([0.5, 4.])",
        ),
        (
            "D.Categorical(T([0.3, 0.7])), D.Independent(D.Normal(T([[0., 2.], [1., 5.]]), 1.), 1)",
            "T([[0.5, 4.], [1., 1.]])",
        ),
    ],
    "Multinomial": [("4, T([[0.2, 0.5, 0.3], [1., 1., 2.]])", "T([[1., 3., 0.], [2., 1., 1.]])")],
    "MultivariateNormal": [
        (f"T([0., 1.]), {E2}", "T([[0.1, 0.2], [3., -1.]])"),
        (f"T([[0., 1.], [2., 2.]]), precision_matrix={E2}", "T([0.1, 0.2])"),
        (f"T([0., 1.]), scale_tril={TRIL}", "T([0.1, 0.2])"),
    ],
    "NegativeBinomial": [("T([0.5, 3.]), T([0.2, 0.6])", "T([0., 5.])")],
    "Normal": [("T([0., -3.]), T([1., 0.4])", "T([0.5, -5.])")],
    "OneHotCategorical": [("T([0.2, 0.5, 0.3])", "T([[0., 1., 0.], [1., 0., 0.]])")],
    "OneHotCategoricalStraightThrough": [("T([0.2, 0.5, 0.3])", "T([0., 1., 0.])")],
    "Pareto": [("T([1., 2.]), T([0.7, 3.])", "T([1.5, 2.2])")],
    "Poisson": [("T([0.5, 3., 20.])", "T([0., 4., 17.])")],
    "RelaxedBernoulli": [("T(0.7), T([0.2, 0.6])", "T([0.1, 0.8])")],
    "RelaxedOneHotCategorical": [("T(0.7), T([0.2, 0.6, 0.2])", "T([0.1, 0.8, 0.1])")],
    "StudentT": [("T([0.8, 1.5, 3., 30.]), T([0., 1., -2., 0.]), T([1., 2., 0.5, 1.])", "T(0.6)")],
    "TransformedDistribution": [
        ("D.Normal(T([0., 1.]), T([1., 0.3])), [D.AffineTransform(1., -2.)]", "T([0.5, 3.])"),
        ("D.Normal(T([0., 1.]), 1.), [D.SigmoidTransform(), D.ExpTransform()]", "T([1.5, 2.])"),
        ("D.Normal(T([0., 1.]), 1.), D.StickBreakingTransform()", "T([0.2, 0.5, 0.3])"),
    ],
    "Uniform": [("T([0., -1.]), T([1., 4.])", "T([0.5, 3.])")],
    "VonMises": [("T([0., 1.]), T([0.5, 30.])", "T([0.5, 1.2])")],
    "Weibull": [("T([1., 2.]), T([0.7, 3.])", "T([0.5, 2.2])")],
    "Wishart": [
        (f"T([4., 2.5]), {E2}", E2),
        (f"T(4.), scale_tril={TRIL}", E2),
        (f"T(4.), precision_matrix={TRIL} @ {TRIL}.mT", E2),
    ],
}
ALL = [(name, params, value) for name, cases in CASES.items() for params, value in cases]


def built(D, T, name, params, **options):
    """Builds the distribution of a case."""
    return eval(f"D.{name}({params}, **options)", {"D": D, "T": T, "options": options})
