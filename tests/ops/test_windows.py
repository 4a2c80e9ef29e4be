# SPDX-License-Identifier: BSD-3-Clause
"""Window functions of the top level and of cograd.signal.windows."""

import math

import numpy as np
import pytest

import cograd as torch
from cograd.signal import windows

TOP = ["bartlett", "blackman", "hamming", "hann", "kaiser"]
NUMPYS = {
    "bartlett": np.bartlett,
    "blackman": np.blackman,
    "hamming": np.hamming,
    "hann": np.hanning,
    "kaiser": lambda n: np.kaiser(n, 12.0),
}
NAMES = sorted(windows.__all__)
EXTRA = {"general_cosine": {"a": [0.4, 0.3, 0.2, 0.1]}}


def top(name):
    return getattr(torch, f"{name}_window")


def close(got, want, atol=1e-14):
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(got.numpy(), want, rtol=0, atol=atol)


@pytest.mark.parametrize("name", TOP)
@pytest.mark.parametrize("n", [1, 2, 3, 8, 9, 64])
def test_symmetric_and_periodic_windows_are_numpys(name, n):
    f, g = top(name), NUMPYS[name]
    close(f(n, False, dtype=torch.float64), g(n))
    close(f(n, dtype=torch.float64), g(n + 1)[:-1] if n > 1 else [1.0])
    close(getattr(windows, name)(n, dtype=torch.float64), g(n))
    close(f(n, periodic=False), g(n).astype("f4"), 1e-7)


def test_other_coefficients():
    t = 2 * np.pi * np.arange(5) / 4
    close(torch.hamming_window(5, False, 0.3, dtype=torch.float64), 0.3 - 0.46 * np.cos(t))
    close(torch.hamming_window(5, False, 0.3, 0.6, dtype=torch.float64), 0.3 - 0.6 * np.cos(t))
    close(torch.kaiser_window(5, False, 3.5, dtype=torch.float64), np.kaiser(5, 3.5))


def test_other_shapes():
    k = np.arange(6.0)
    f8 = {"dtype": torch.float64}
    close(windows.cosine(6, **f8), np.sin(np.pi * (k + 0.5) / 6))
    close(windows.gaussian(6, std=2.0, **f8), np.exp(-((k - 2.5) ** 2) / 8))
    close(windows.exponential(6, tau=2.0, **f8), np.exp(-abs(k - 2.5) / 2))
    close(windows.exponential(6, center=1.0, sym=False, **f8), np.exp(-abs(k - 1)))
    close(windows.general_hamming(6, alpha=0.7, **f8), 0.7 - 0.3 * np.cos(2 * np.pi * k / 5))
    t = 2 * np.pi * k / 5
    close(windows.general_cosine(6, a=[0.5, 0.3, 0.2], **f8),
          0.5 - 0.3 * np.cos(t) + 0.2 * np.cos(2 * t))  # fmt: skip
    close(windows.nuttall(6, **f8),
          0.3635819 - 0.4891775 * np.cos(t) + 0.1365995 * np.cos(2 * t)
          - 0.0106411 * np.cos(3 * t))  # fmt: skip


# Values of torch 2.13.
KNOWN = {
    "cosine": [0.3090169943749474, 0.8090169943749475, 1.0, 0.8090169943749475],
    "exponential": [0.1353352832366127, 0.36787944117144233, 1.0, 0.36787944117144233],
    "gaussian": [0.13533528323661276, 0.6065306597126335, 1.0, 0.6065306597126335],
    "kaiser": [5.2773441320097665e-05, 0.2156727447589671, 1.0, 0.2156727447589671],
    "nuttall": [0.0003628000000000381, 0.22698239999999995, 1.0, 0.2269824000000001],
}


@pytest.mark.parametrize("name", KNOWN)
def test_periodic_windows_have_known_values(name):
    close(getattr(windows, name)(4, sym=False, dtype=torch.float64), KNOWN[name])


@pytest.mark.parametrize("name", NAMES)
def test_periodic_windows_are_longer_ones_cut(name):
    f = getattr(windows, name)
    options = {**EXTRA.get(name, {}), "dtype": torch.float64}
    for n in (2, 5, 8):
        long = f(n + 1, **options)
        close(f(n, sym=False, **options), long[:-1].numpy())
        close(long.flip(0), long.numpy())


@pytest.mark.parametrize("name", NAMES)
def test_options_of_signal_windows(name):
    f, extra = getattr(windows, name), EXTRA.get(name, {})
    assert f(0, **extra).shape == (0,)
    assert f(1, **extra).tolist() == [1.0]
    assert f(4, **extra).dtype == torch.float32
    window = f(4, requires_grad=True, **extra)
    assert window.requires_grad
    assert window.is_leaf
    with pytest.raises(ValueError, match=f"{name} requires non-negative window length, got M=-1"):
        f(-1, **extra)
    with pytest.raises(ValueError, match="expects float32 or float64 dtypes"):
        f(4, dtype=torch.float16, **extra)
    with pytest.raises(ValueError, match="strided tensors only"):
        f(4, layout="sparse", **extra)
    with pytest.raises(TypeError):
        f(4, True)


@pytest.mark.parametrize("name", TOP)
def test_options_of_the_top_level(name):
    f = top(name)
    assert f(0).shape == (0,)
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        assert f(5, dtype=dtype).dtype == dtype
    window = f(4, requires_grad=True)
    assert window.requires_grad
    assert window.is_leaf
    torch.set_default_dtype(torch.float64)
    try:
        assert f(3).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    with pytest.raises(RuntimeError, match=f"{name}_window expects floating point dtypes"):
        f(5, dtype=torch.int64)
    with pytest.raises(RuntimeError, match=f"{name}_window requires non-negative window_length"):
        f(-1)
    for wrong in (2.5, True):
        with pytest.raises(TypeError, match="argument 'window_length' .* must be int"):
            f(wrong)
    with pytest.raises(TypeError, match="argument 'periodic' .* must be bool"):
        f(5, 0)


def test_wrong_parameters():
    with pytest.raises(ValueError, match="beta must be non-negative, got: -1"):
        windows.kaiser(5, beta=-1)
    with pytest.raises(ValueError, match="Standard deviation must be positive, got: 0"):
        windows.gaussian(5, std=0)
    with pytest.raises(ValueError, match="Tau must be positive, got: 0"):
        windows.exponential(5, tau=0)
    with pytest.raises(ValueError, match="Center must be None for symmetric windows"):
        windows.exponential(5, center=2)
    with pytest.raises(TypeError, match="Coefficients must be a list/tuple"):
        windows.general_cosine(5, a=3)
    with pytest.raises(ValueError, match="Coefficients cannot be empty"):
        windows.general_cosine(5, a=[])


def test_shifted_windows_add_up():
    """istft relies on this: periodic Hann windows half a length apart sum to 1."""
    w = torch.hann_window(16, dtype=torch.float64)
    close(w[:8] + w[8:], np.ones(8))
    assert math.isclose(w.sum().item(), 8.0)
