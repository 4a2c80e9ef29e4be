# SPDX-License-Identifier: BSD-3-Clause
"""cograd.fft beside torch.fft: names, values for all arguments, kinds of errors."""

import inspect
import itertools

import numpy as np
import pytest
from op_items import each_cell
from reference import needed

import cograd

torch = needed(allow_module_level=True)
ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
REAL_INPUT = ("rfft", "ihfft")
NORMS = (None, "backward", "ortho", "forward")


def sample(name, shape, dtype="f8"):
    rng = np.random.default_rng(3)
    x = rng.standard_normal(shape).astype(dtype)
    if name.rstrip("2n") in REAL_INPUT:
        return x
    return x + x.dtype.type(1) * 1j * rng.standard_normal(shape).astype(dtype)


def both(name, x, *args, **options):
    """Returns the results of the two libraries, each as an array or an exception."""
    found = []
    for library in (cograd, torch):
        try:
            function = getattr(library.fft, name)
            found.append(
                function(library.from_numpy(x.copy()), *args, **options).resolve_conj().numpy()
            )
        except (RuntimeError, IndexError, TypeError, ValueError) as e:
            found.append(e)
    return found


def assert_same(name, x, *args, **options):
    got, want = both(name, x, *args, **options)
    assert not isinstance(want, Exception), want
    assert not isinstance(got, Exception), got
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    limit = 1e-5 if got.dtype in (np.dtype("f4"), np.dtype("c8")) else 1e-13
    error, size = np.linalg.norm(got - want), np.linalg.norm(want)
    assert error <= limit * size, (error, size)


def test_names_and_parameters():
    public = {n for n in dir(torch.fft) if n[0] != "_" and callable(getattr(torch.fft, n))}
    public -= {"Tensor", "factory_common_args"}
    assert public == set(cograd.fft.__all__)
    for name in ONE:
        for kind in ("", "2", "n"):
            described = getattr(torch.fft, name + kind).__doc__.strip().split("->")[0]
            for parameter in inspect.signature(getattr(cograd.fft, name + kind)).parameters:
                assert f"{parameter}" in described, (name + kind, parameter)


@each_cell("name", ONE)
def test_one_dim(name):
    for shape, dtype in itertools.product([(12,), (5, 7), (3, 16, 4)], ("f4", "f8")):
        x = sample(name, shape, dtype)
        for dim, norm, n in itertools.product(range(-len(shape), len(shape)), NORMS, (None, 3, 9)):
            assert_same(name, x, n=n, dim=dim, norm=norm)


@pytest.mark.parametrize("name", [f + kind for f in ONE for kind in ("2", "n")])
def test_several_dims(name):
    for shape in [(6, 5), (3, 4, 8), (2, 3, 4, 5)]:
        x = sample(name, shape)
        for norm, s, dim in itertools.product(NORMS, (None, (4, 3)), ((-2, -1), (0, 1), (1, 0))):
            assert_same(name, x, s=s, dim=dim, norm=norm)
    assert_same(name, sample(name, (3, 4, 8)))


@each_cell("n", [1, 2, 16, 31, 48, 61, 67, 100, 128, 211, 320, 1000, 1024, 1155, 2048, 4099, 20000])
def test_lengths(n):
    for name, dtype in itertools.product(ONE, ("f4", "f8")):
        if n > 1 or name not in ("irfft", "hfft"):
            assert_same(name, sample(name, (3, n), dtype))
            assert_same(name, sample(name, (n, 3), dtype), dim=0)


@each_cell(
    "call",
    [
        ("fft", (4,), {"n": 0}),
        ("fft", (4,), {"n": -2}),
        ("fft", (4,), {"dim": 1}),
        ("fft", (4,), {"norm": "other"}),
        ("fft", (4,), {"n": 2.5}),
        ("rfft", (4,), {"n": 0}),
        ("irfft", (4, 1), {}),
        ("fft2", (4,), {}),
        ("fft2", (4, 4), {"dim": (0, 0)}),
        ("fft2", (4, 4), {"s": (2,)}),
        ("fftn", (4, 4), {"s": (2, 2, 2)}),
        ("fftn", (4, 4), {"s": (0, 2)}),
        ("irfftn", (4, 4), {"dim": ()}),
        ("rfftn", (), {}),
    ],
)
def test_errors(call):
    name, shape, options = call
    got, want = both(name, np.asarray(sample(name, shape)), **options)
    assert isinstance(want, Exception), want
    assert isinstance(got, type(want)), (got, want)


def test_a_real_transform_refuses_complex_numbers():
    for name in ("rfft", "ihfft", "rfft2", "ihfftn"):
        got, want = both(name, sample("fft", (4, 4)))
        assert type(got) is type(want) is RuntimeError
