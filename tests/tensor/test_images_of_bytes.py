# SPDX-License-Identifier: BSD-3-Clause
"""Interpolation of uint8 images and means of int64 windows: torch's integers, recorded."""

import pytest

import cograd as torch
from cograd.nn import functional as F

IMAGE = ((torch.arange(30) * 37 + 11) % 256).to(torch.uint8).view(1, 1, 5, 6)
RECORDED = [  # size, mode, antialias, the bytes of torch 2.13
    ((3, 9), "bilinear", False, "553d2b445d758ea7b9c7dac736243c556e808ea1b9d2c191393547"),
    ((3, 9), "bilinear", True, "6a46274059718aa3b5c7bea15c403c556e8092a5bdd6b88038394b"),
    ((3, 9), "bicubic", False, "58311b4161798eacbec4eecf2e0c3e5371838999bce2d991302548"),
    ((3, 9), "bicubic", True, "6e431b3958748da9bad2cba75630305372828da2c4e2c4812e304a"),
    ((3, 9), "lanczos", True, "724214315c798daabbd8d4a857242a4e7581869dcee7cd7c292d4e"),
    ((8, 4), "bilinear", False, "144c83bb593d74acb42c5f97c73f4a82c579346cb0dc1f579bd376428cc4bb33"),
    ((8, 4), "bilinear", True, "194d82b6503e73a79b2e5e92c24e497dca803c67b5c33952a0c7763d91c5a52e"),
    ((8, 4), "bicubic", False, "034e88c0563579b1bf1e6098da1f5085d07f226db0f8005a95ec6c3c87bcd528"),
    ((8, 4), "bicubic", True, "0c4d87bb47367aada11f6095d3404280d8832c6ab5d428539ad875358bccb022"),
    ((8, 4), "lanczos", True, "085285be40337eb0a6166397e3364083e0881c72b7d7215592e2772d85d0b419"),
]


@pytest.mark.parametrize(("size", "mode", "antialias", "want"), RECORDED)
def test_bytes_as_torch_rounds_them(size, mode, antialias, want):
    got = F.interpolate(IMAGE, size, mode=mode, antialias=antialias)
    assert got.dtype == torch.uint8 and got.shape == (1, 1, *size)
    assert bytes(got.flatten().tolist()).hex() == want
    batch = IMAGE.expand(2, 3, 5, 6).contiguous(memory_format=torch.channels_last)
    assert torch.equal(F.interpolate(batch, size, mode=mode, antialias=antialias)[1, 2], got[0, 0])


def test_bytes_of_the_same_size_are_a_copy():
    same = F.interpolate(IMAGE, (5, 6), mode="bicubic")
    assert torch.equal(same, IMAGE) and same.data_ptr() != IMAGE.data_ptr()
    black = F.interpolate((IMAGE > 100).to(torch.uint8) * 255, scale_factor=2.5, mode="bicubic")
    assert black.min().item() == 0 and black.max().item() == 255  # clamped, not wrapped


def test_what_has_no_bytes():
    for x, mode in ((IMAGE[0], "linear"), (IMAGE[None], "trilinear"), (IMAGE.int(), "bilinear")):
        with pytest.raises(NotImplementedError, match=r"convert with \.float\(\) first"):
            F.interpolate(x, 3, mode=mode)
    with pytest.raises(RuntimeError, match="greater than 0"):
        F.interpolate(IMAGE, (0, 3), mode="bilinear")


def test_mapped_bytes():
    batch = torch.stack([IMAGE, 255 - IMAGE])
    got = torch.vmap(lambda x: F.interpolate(x, (3, 4), mode="bilinear"))(batch)
    assert torch.equal(got[1], F.interpolate(255 - IMAGE, (3, 4), mode="bilinear"))


def test_means_of_integers_are_cut_to_zero():
    x = torch.arange(16).view(1, 1, 4, 4)
    assert F.avg_pool2d(x, 2).tolist() == [[[[2, 4], [10, 12]]]]
    assert F.avg_pool2d(-x, 2).tolist() == [[[[-2, -4], [-10, -12]]]]
    assert F.avg_pool2d(x, 2, divisor_override=3).tolist() == [[[[3, 6], [14, 16]]]]
    assert F.avg_pool2d(-x, 2, divisor_override=-3).tolist() == [[[[3, 6], [14, 16]]]]
    assert F.avg_pool2d(-x, 3, padding=1).tolist() == [[[[-1, -2], [-4, -5]]]]
    cut = F.avg_pool2d(-x, 3, padding=1, count_include_pad=False, ceil_mode=True)
    assert cut.tolist() == [[[[-2, -4], [-10, -12]]]]
    assert F.avg_pool1d(-x.view(1, 16), 3, padding=1).tolist() == [[0, -3, -6, -9, -12, -9]]
    assert F.avg_pool3d(x.view(1, 1, 4, 4), (1, 2, 2)).tolist() == [[[[2, 4], [10, 12]]]]
    assert F.avg_pool2d(x, 2).dtype == torch.int64
    big = torch.tensor([[2**60 + 1, 2**60 + 2]])
    assert F.avg_pool1d(big, 2).tolist() == [[2**60 + 1]]  # not computed in floats
    assert F.avg_pool1d(torch.full((1, 4), 2**62), 4).tolist() == [[0]]  # the sum wraps
    got = torch.vmap(lambda v: F.avg_pool1d(v, 2))(torch.arange(8).view(2, 1, 4))
    assert got.tolist() == [[[0, 2]], [[4, 6]]]
    for dtype in (torch.int32, torch.uint8):
        with pytest.raises(NotImplementedError, match=r"convert with \.float\(\) first"):
            F.avg_pool2d(x.to(dtype), 2)
    with pytest.raises(NotImplementedError, match="adaptive_avg_pool1d"):
        F.adaptive_avg_pool1d(x[0], 3)
