# SPDX-License-Identifier: BSD-3-Clause
"""Libraries written for the array API standard accept tensors, and gradients flow through."""

import os
import subprocess
import sys

import numpy as np
import pytest

import cograd

HEAD = """
import warnings
warnings.simplefilter("ignore")
import numpy as np
import cograd as torch

rng = np.random.default_rng(0)
x, y = torch.tensor(rng.random((20, 3))), torch.tensor(rng.random((20, 3)))


def agree(f, *args):
    compare(f(*args), f(*[a.numpy() if isinstance(a, torch.Tensor) else a for a in args]))


def compare(mine, theirs):
    if hasattr(theirs, "pvalue"):
        mine, theirs = (mine.statistic, mine.pvalue), (theirs.statistic, theirs.pvalue)
    if isinstance(theirs, tuple):
        for a, b in zip(mine, theirs):
            compare(a, b)
        return
    assert isinstance(mine, torch.Tensor), type(mine)
    np.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-8, atol=1e-10)
"""


def run(code):
    """Runs code after HEAD, with which SciPy uses the namespaces of arrays."""
    env = {**os.environ, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run(
        [sys.executable, "-c", HEAD + code], env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_scipy():
    pytest.importorskip("scipy", minversion="1.15")
    run(
        """
import scipy.cluster.vq as vq, scipy.fft, scipy.signal, scipy.special as sp, scipy.stats as ss
for f in (ss.zscore, ss.skew, ss.kurtosis, ss.sem, ss.gmean, ss.variation, ss.entropy, ss.tstd,
          ss.skewtest, ss.normaltest, vq.whiten, sp.logsumexp, sp.softmax, sp.log_softmax,
          scipy.fft.fft, scipy.fft.rfftn, scipy.fft.dct, scipy.signal.detrend, scipy.signal.hilbert,
          ss.rankdata, ss.iqr, ss.lmoment, sp.expit, sp.ndtri, vq.whiten):
    agree(f, x)
for f in (ss.ttest_ind, ss.ttest_rel, scipy.signal.fftconvolve):
    agree(f, x, y)
for f in (ss.pearsonr, ss.mannwhitneyu, ss.wilcoxon, ss.bartlett, ss.kruskal):
    agree(f, x[:, 0], y[:, 0])
z = x.clone().requires_grad_()
sp.logsumexp(z).backward()
assert torch.allclose(z.grad, torch.softmax(x.reshape(-1), 0).reshape(20, 3))
z = x.clone().requires_grad_()
ss.zscore(z).pow(3).sum().backward()
assert z.grad.abs().sum() > 0
"""
    )


def test_scikit_learn():
    pytest.importorskip("sklearn", minversion="1.5")
    run(
        """
import sklearn
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.metrics import accuracy_score, f1_score, pairwise, r2_score
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, StandardScaler
label = torch.tensor(rng.integers(0, 2, 20))
with sklearn.config_context(array_api_dispatch=True):
    for scaler in (StandardScaler, MinMaxScaler, MaxAbsScaler, Normalizer):
        agree(lambda a: scaler().fit_transform(a), x)
    agree(lambda a: PCA(2, svd_solver="full").fit(a).explained_variance_, x)
    agree(lambda a, b: Ridge(solver="svd").fit(a, b).coef_, x, y[:, 0])
    agree(lambda a, b: LinearDiscriminantAnalysis().fit(a, b).predict(a), x, label)
    agree(lambda a, b: RidgeCV().fit(a, b).predict(a), x, y[:, 0])
    if sklearn.__version__ >= "1.8":
        agree(lambda a, b: GaussianNB().fit(a, b).predict_proba(a), x, label)
        agree(lambda a, b: LogisticRegression().fit(a, b).predict_proba(a), x, label)
    for score, truth, guess in ((f1_score, label, label), (r2_score, y[:, 0], x[:, 0])):
        assert np.isclose(score(truth, guess), score(truth.numpy(), guess.numpy()))
    agree(pairwise.cosine_similarity, x)
    agree(pairwise.rbf_kernel, x)
    assert accuracy_score(label, label) == 1
"""
    )


def test_einops_of_the_standard():
    einops = pytest.importorskip("einops.array_api")
    x = cograd.arange(24.0).reshape(4, 6).requires_grad_()
    y = einops.rearrange(x, "a (b c) -> c b a", b=2)
    np.testing.assert_array_equal(
        y.detach().numpy(), x.detach().numpy().reshape(4, 2, 3).transpose(2, 1, 0)
    )
    mean = einops.reduce(y, "c b a -> b", "mean")
    mean.sum().backward()
    assert x.grad.tolist() == [[pytest.approx(1 / 12)] * 6] * 4


@pytest.mark.parametrize("first", ["einops", "cograd"])
def test_einops(first):
    pytest.importorskip("einops")
    code = f"""
import {first}, einops, cograd, sys, numpy as np
a = np.arange(24.0).reshape(4, 6)
x = cograd.tensor(a, requires_grad=True)
pattern = "a (b c) -> c b a"
assert np.array_equal(einops.rearrange(x, pattern, b=2).detach(), einops.rearrange(a, pattern, b=2))
for op in ("min", "max", "sum", "mean", "prod"):
    mine = einops.reduce(x, "a (b c) -> b", op, b=2).detach()
    assert np.allclose(mine, einops.reduce(a, "a (b c) -> b", op, b=2)), op
assert np.array_equal(einops.repeat(x, "a b -> b k a", k=3).detach(),
                      einops.repeat(a, "a b -> b k a", k=3))
assert np.allclose(einops.einsum(x, x, "a b, c b -> a c").detach(), a @ a.T)
packed, shapes = einops.pack([x, x.reshape(2, 2, 6)], "* b")
assert packed.shape == (8, 6) and [p.shape for p in einops.unpack(packed, shapes, "* b")] == [
    (4, 6), (2, 2, 6)]
assert einops.asnumpy(x).shape == (4, 6) and einops.parse_shape(x, "a _") == {{"a": 4}}
einops.reduce(x, "a b -> a", "mean").sum().backward()
assert np.allclose(x.grad, 1 / 6)
parameter = cograd.nn.Parameter(cograd.ones(2, 3))
einops.rearrange(parameter, "a b -> (b a)").sum().backward()
assert parameter.grad.tolist() == [[1.0] * 3] * 2
assert not any(getattr(f, "package", "") == "einops" for f in sys.meta_path)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def test_opt_einsum():
    opt_einsum = pytest.importorskip("opt_einsum")
    rng = np.random.default_rng(0)
    for equation, shapes in (
        ("ij,jk,kil->l", ((3, 4), (4, 5), (5, 3, 6))),
        ("ab,bc,cd->da", ((2, 3), (3, 4), (4, 5))),
        ("abc,cd->dba", ((2, 3, 4), (4, 5))),
        ("ab,cd->cbad", ((2, 3), (4, 5))),
        ("aab->b", ((3, 3, 2),)),
    ):
        arrays = [rng.random(s) for s in shapes]
        mine = [cograd.tensor(a, requires_grad=True) for a in arrays]
        result = opt_einsum.contract(equation, *mine)
        plain = cograd.einsum(equation, *mine)
        assert isinstance(result, cograd.Tensor)
        np.testing.assert_allclose(result.detach().numpy(), np.einsum(equation, *arrays))
        weight = cograd.tensor(rng.random(tuple(plain.shape)))
        for a, b in zip(
            cograd.autograd.grad((result * weight).sum(), mine),
            cograd.autograd.grad((plain * weight).sum(), mine),
        ):
            np.testing.assert_allclose(a.numpy(), b.numpy())
    expression = opt_einsum.contract_expression("ij,jk->ki", (3, 4), (4, 5))
    assert expression(cograd.rand(3, 4), cograd.rand(4, 5)).shape == (5, 3)


def test_array_api_compat():
    compat = pytest.importorskip("array_api_compat")
    x = cograd.ones(2, 3)
    assert compat.is_array_api_obj(x)
    assert compat.array_namespace(x, cograd.zeros(1)) is cograd.array_api
    assert compat.size(x) == 6
    assert compat.device(x) == cograd.device("cpu")
    assert compat.to_device(x, "cpu") is x
