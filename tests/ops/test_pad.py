# SPDX-License-Identifier: BSD-3-Clause
"""F.pad in every mode: values compared with NumPy's, gradients to second order, errors."""

import numpy as np
import pytest

import cograd as torch
import cograd.nn.functional as F
from cograd.autograd import gradcheck, gradgradcheck

F8 = torch.float64
NUMPY = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
CASES = [
    ((2, 4), (1, 2)),
    ((2, 3, 4), (3, 0)),
    ((2, 3, 4), (1, 2, 2, 1)),
    ((1, 2, 3, 4), (2, 1, 0, 2)),
    ((1, 2, 3, 3, 3), (1, 2, 2, 0, 1, 1)),
]


def widths(ndim, pad):
    pairs = [(pad[2 * k], pad[2 * k + 1]) for k in range(len(pad) // 2)]
    return [(0, 0)] * (ndim - len(pairs)) + pairs[::-1]


def rand(*shape):
    return torch.tensor(np.random.default_rng(3).normal(size=shape), dtype=F8)


@pytest.mark.parametrize("mode", NUMPY)
@pytest.mark.parametrize(("shape", "pad"), CASES)
def test_pad_is_numpys(mode, shape, pad):
    x = rand(*shape)
    want = np.pad(x.numpy(), widths(len(shape), pad), NUMPY[mode])
    assert np.array_equal(F.pad(x, pad, mode=mode), want)
    turned = rand(*shape[::-1]).permute(*range(len(shape) - 1, -1, -1))
    want = np.pad(turned.numpy(), widths(len(shape), pad), NUMPY[mode])
    assert np.array_equal(F.pad(turned, pad, mode=mode), want)
    whole = torch.arange(x.numel()).reshape(shape)
    padded = F.pad(whole, pad, mode=mode)
    assert padded.dtype == torch.int64
    assert np.array_equal(padded, np.pad(whole.numpy(), widths(len(shape), pad), NUMPY[mode]))


@pytest.mark.parametrize("mode", NUMPY)
@pytest.mark.parametrize(("shape", "pad"), CASES)
def test_pad_has_gradients_to_second_order(mode, shape, pad):
    x = rand(*shape[::-1]).permute(*range(len(shape) - 1, -1, -1)).requires_grad_()
    assert gradcheck(lambda t: F.pad(t, pad, mode=mode), (x,))
    assert gradgradcheck(lambda t: F.pad(t, pad, mode=mode).pow(3), (x,))


@pytest.mark.parametrize("mode", NUMPY)
def test_negative_padding_cuts(mode):
    x = rand(2, 3, 5).requires_grad_()
    got = F.pad(x, (-1, 2), mode=mode)
    assert got.shape == (2, 3, 6)
    assert torch.equal(got[..., :4], x[..., 1:])
    assert torch.equal(F.pad(x, (-2, -1), mode=mode), x[..., 2:4])
    assert gradcheck(lambda t: F.pad(t, (-1, 2), mode=mode), (x,))


def test_constant_padding_takes_a_value_and_any_dims():
    assert F.pad(torch.ones(1), (1, 2), value=3).tolist() == [3, 1, 3, 3]
    assert F.pad(torch.ones(2, 3), (2, -4)).tolist() == [[0.0], [0.0]]
    x = torch.ones(2)
    same = F.pad(x, (0, 0))
    assert same is not x
    assert same.data_ptr() != x.data_ptr()


@pytest.mark.parametrize(
    ("shape", "pad", "mode", "kind", "text"),
    [
        ((2, 3), (3, 0), "reflect", RuntimeError, "less than the corresponding input dimension"),
        ((2, 3), (4, 0), "circular", RuntimeError, "wrapping around more than once"),
        ((2, 0), (1, 0), "replicate", RuntimeError, "nothing to pad with"),
        ((2, 3), (1, 0, 0), "reflect", RuntimeError, "divisible by 2"),
        ((2, 3), (-4, 0), "constant", RuntimeError, "negative output size"),
        ((2, 3), (-4, 0), "replicate", RuntimeError, "negative output size"),
        ((3,), (1, 1), "reflect", NotImplementedError, "Only 2D, 3D, 4D, 5D"),
        ((2, 2, 2, 2), (1, 1), "reflect", NotImplementedError, "Only 2D, 3D, 4D, 5D"),
        ((2, 3), (1, 1), "mirror", NotImplementedError, "Unrecognised padding mode mirror"),
        ((3,), (1, 1, 1, 1), "constant", RuntimeError, "twice the number of dimensions"),
    ],
)
def test_bad_padding_is_refused(shape, pad, mode, kind, text):
    with pytest.raises(kind, match=text):
        F.pad(torch.ones(shape), pad, mode=mode)


def test_a_value_is_for_constant_padding_only():
    with pytest.raises(RuntimeError, match="doesn't take in value"):
        F.pad(torch.ones(2, 3), (1, 1), mode="reflect", value=1.0)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.uint64])
def test_unsigned_elements_take_no_value_below_zero(dtype):
    x = torch.zeros(1, dtype=dtype)
    with pytest.raises(RuntimeError, match=r"pad\(\): value -1 cannot be converted to type uint"):
        F.pad(x, (1, 0), value=-1)
    most = torch.iinfo(dtype).max
    assert F.pad(x, (1, 0), value=most).tolist() == [most, 0]
