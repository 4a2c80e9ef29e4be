# SPDX-License-Identifier: BSD-3-Clause
"""Libraries written for the array API standard take tensors, and gradients flow through."""

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
    """The code after HEAD, where SciPy looks at the namespaces of arrays."""
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
          scipy.fft.fft, scipy.fft.rfftn, scipy.signal.detrend, scipy.signal.hilbert):
    agree(f, x)
for f in (ss.ttest_ind, ss.ttest_rel, scipy.signal.fftconvolve):
    agree(f, x, y)
agree(ss.pearsonr, x[:, 0], y[:, 0])
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
from sklearn.linear_model import Ridge
from sklearn.metrics import accuracy_score, pairwise
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, StandardScaler
label = torch.tensor(rng.integers(0, 2, 20))
with sklearn.config_context(array_api_dispatch=True):
    for scaler in (StandardScaler, MinMaxScaler, MaxAbsScaler, Normalizer):
        agree(lambda a: scaler().fit_transform(a), x)
    agree(lambda a: PCA(2, svd_solver="full").fit(a).explained_variance_, x)
    agree(lambda a, b: Ridge(solver="svd").fit(a, b).coef_, x, y[:, 0])
    agree(lambda a, b: LinearDiscriminantAnalysis().fit(a, b).predict(a), x, label)
    agree(pairwise.cosine_similarity, x)
    agree(pairwise.rbf_kernel, x)
    assert accuracy_score(label, label) == 1
"""
    )


def test_einops():
    einops = pytest.importorskip("einops.array_api")
    x = cograd.arange(24.0).reshape(4, 6).requires_grad_()
    y = einops.rearrange(x, "a (b c) -> c b a", b=2)
    np.testing.assert_array_equal(
        y.detach().numpy(), x.detach().numpy().reshape(4, 2, 3).transpose(2, 1, 0)
    )
    mean = einops.reduce(y, "c b a -> b", "mean")
    mean.sum().backward()
    assert x.grad.tolist() == [[pytest.approx(1 / 12)] * 6] * 4


def test_array_api_compat():
    compat = pytest.importorskip("array_api_compat")
    x = cograd.ones(2, 3)
    assert compat.is_array_api_obj(x)
    assert compat.array_namespace(x, cograd.zeros(1)) is cograd.array_api
    assert compat.size(x) == 6
    assert compat.device(x) == cograd.device("cpu")
    assert compat.to_device(x, "cpu") is x
