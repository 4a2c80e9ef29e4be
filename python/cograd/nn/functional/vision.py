# SPDX-License-Identifier: BSD-3-Clause
"""Resizing and sampling of images: interpolation, grid sampling, pixel shuffles."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import cograd
from cograd import Tensor

from ._grid import affine_grid_generator, grid_sampler
from .pool import adaptive_avg_pool2d, adaptive_avg_pool3d

__all__ = [
    "affine_grid",
    "channel_shuffle",
    "grid_sample",
    "interpolate",
    "pixel_shuffle",
    "pixel_unshuffle",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]

_LINEAR = {"linear": 1, "bilinear": 2, "trilinear": 3}
_OF_IMAGES = {"bicubic": "cubic", "lanczos": "lanczos"}
_MODES = ("nearest", "area", "nearest-exact")


def _sizes(
    input: Tensor, size: Any, scale_factor: Any, recompute: bool | None
) -> tuple[list[int], list[float] | None]:
    """Returns the output size, and the scale factors if they determine the position mapping."""
    n = input.dim() - 2
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is not None:
        if isinstance(size, (list, tuple)):
            if len(size) != n:
                raise ValueError(
                    "Input and output must have the same number of spatial dimensions, but got "
                    f"input with spatial dimensions of {list(input.shape[2:])} and output size of "
                    f"{size}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and "
                    "output size in (o1, o2, ...,oK) format."
                )
            sizes = [v if isinstance(v, int) else int(v) for v in size]
        else:
            sizes = [int(size)] * n
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        return sizes, None
    if scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    if isinstance(scale_factor, (list, tuple)):
        if len(scale_factor) != n:
            raise ValueError(
                "Input and scale_factor must have the same number of spatial dimensions, but got "
                f"input with spatial dimensions of {list(input.shape[2:])} and scale_factor of "
                f"shape {scale_factor}. Please provide input tensor in (N, C, d1, d2, ...,dK) "
                "format and scale_factor in (s1, s2, ...,sK) format."
            )
        factors = [float(v) for v in scale_factor]
    else:
        factors = [float(scale_factor)] * n
    sizes = [math.floor(have * f) for have, f in zip(input.shape[2:], factors, strict=True)]
    return sizes, None if recompute else factors


def _area(input: Tensor, sizes: list[int]) -> Tensor:
    if input.dim() == 3:
        return cograd.adaptive_avg_pool1d(input, sizes)
    return (
        adaptive_avg_pool2d(input, sizes) if input.dim() == 4 else adaptive_avg_pool3d(input, sizes)
    )


def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resizes images (N, C, *).

    Args:
        input: a tensor with one to three dims after N and C.
        size: the sizes of the result's last dims.
        scale_factor: the factor by which they grow, instead of ``size``.
        mode: ``'nearest'``, ``'nearest-exact'``, ``'linear'`` (1 dim), ``'bilinear'``,
            ``'bicubic'`` and ``'lanczos'`` (2), ``'trilinear'`` (3) or ``'area'``.
        align_corners: for the linear and cubic modes, whether to align the centers of the corner
            pixels instead of the image's edges.
        recompute_scale_factor: whether to recompute the factors from the sizes.
        antialias: for ``'bilinear'`` and ``'bicubic'``, whether to widen the filter where the image
            shrinks; ``'lanczos'`` requires it.

    Raises:
        ValueError: not exactly one of ``size`` and ``scale_factor`` is given, or an option does
            not fit the mode.
        NotImplementedError: the mode does not support the input's number of dims.
    """
    if mode in _MODES:
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: "
                "linear | bilinear | bicubic | trilinear"
            )
    elif align_corners is None:
        align_corners = False
    sizes, factors = _sizes(input, size, scale_factor, recompute_scale_factor)
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and input.dim() == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires "
            "a 4-D tensor as input"
        )
    if mode == "lanczos" and not antialias:
        raise ValueError("Lanczos mode requires antialias=True")
    if mode == "lanczos" and align_corners:
        raise ValueError("Lanczos mode does not support align_corners=True")
    n = input.dim() - 2
    if n not in (1, 2, 3) or not (mode in _LINEAR or mode in _MODES or mode in _OF_IMAGES):
        raise NotImplementedError(
            "Input Error: Only 3D, 4D and 5D input Tensors supported "
            f"(got {input.dim()}D) for the modes: nearest | linear | bilinear | bicubic | "
            f"trilinear | lanczos | area | nearest-exact (got {mode})"
        )
    if mode == "area":
        return _area(input, sizes)
    wanted = _LINEAR.get(mode, 2 if mode in _OF_IMAGES else n)
    if wanted != n:
        raise NotImplementedError(
            f"Got {input.dim()}D input, but {mode} mode needs {wanted + 2}D input"
        )
    kind = "linear" if mode in _LINEAR else _OF_IMAGES.get(mode, mode)
    if input.dtype == cograd.uint8 and mode in _MODES:  # labels, which float32 represents exactly
        wide = interpolate(input.float(), size, scale_factor, mode, None, recompute_scale_factor)
        return wide.to(cograd.uint8)
    if input.dtype == cograd.uint8 and n == 2:
        factors = factors or [0.0, 0.0]
        return cograd._C._ops._interpolate_bytes(
            input, sizes, kind, bool(align_corners), antialias, factors[0], factors[1]
        )
    last = [0.0] * 3 if factors is None else [0.0] * (3 - n) + factors
    return cograd._C._ops._interpolate(
        input, sizes, kind, bool(align_corners), antialias, last[1], last[2], last[0]
    )


def upsample(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """Calls ``interpolate``, of which this is the older name."""
    warnings.warn(
        "`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Calls ``interpolate`` with mode ``'nearest'``."""
    warnings.warn(
        "`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Calls ``interpolate`` with mode ``'bilinear'`` and aligned corners."""
    warnings.warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Samples the input (N, C, H, W) at the positions (x, y) in [-1, 1] of ``grid`` (N, OH, OW, 2).

    For volumes (N, C, D, H, W) the grid (N, OD, OH, OW, 3) holds positions (x, y, z).

    Args:
        input: the images.
        grid: the positions; -1 and 1 are the edges, or the corner pixels with ``align_corners``.
        mode: ``'bilinear'``, ``'nearest'`` or (for images) ``'bicubic'``.
        padding_mode: what lies outside: ``'zeros'``, the ``'border'`` or the ``'reflection'``.
        align_corners: False by default.
    """
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', "
            f"but got: '{mode}'"
        )
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
            f"'reflection', but got: '{padding_mode}'"
        )
    if align_corners is None:
        warnings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since "
            "1.3.0. Please specify align_corners=True if the old behavior is desired. See the "
            "documentation of grid_sample for details.",
            stacklevel=2,
        )
        align_corners = False
    modes = ("bilinear", "nearest", "bicubic")
    paddings = ("zeros", "border", "reflection")
    return grid_sampler(input, grid, modes.index(mode), paddings.index(padding_mode), align_corners)


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Returns the grid of affine maps ``theta`` (N, 2, 3) or (N, 3, 4) for ``grid_sample``.

    Args:
        theta: a matrix and a shift for each sample.
        size: the size of ``grid_sample``'s result, (N, C, H, W) or (N, C, D, H, W).
        align_corners: as in ``grid_sample``.
    """
    if align_corners is None:
        warnings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since "
            "1.3.0. Please specify align_corners=True if the old behavior is desired. See the "
            "documentation of grid_sample for details.",
            stacklevel=2,
        )
        align_corners = False
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    if len(size) not in (4, 5):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size {size}."
        )
    n = len(size) - 2
    if theta.dim() != 3 or theta.shape[-2] != n or theta.shape[-1] != n + 1:
        raise ValueError(
            f"Expected a batch of {n}D affine matrices of shape Nx{n}x{n + 1} for size "
            f"{cograd.Size(size)}. Got {theta.shape}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return affine_grid_generator(theta, size, align_corners)


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Rearranges (*, C r^2, H, W) to (*, C, H r, W r), where r is ``upscale_factor``."""
    r = upscale_factor
    if input.dim() < 3:
        raise RuntimeError(
            "pixel_shuffle expects input to have at least 3 dimensions, but got input with "
            f"{input.dim()} dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    channels, height, width = input.shape[-3:]
    if channels % (r * r) != 0:
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square "
            f"of upscale_factor, but input.size(-3)={channels} is not divisible by {r * r}"
        )
    lead, n = input.shape[:-3], input.dim() - 3
    blocks = input.reshape(*lead, channels // (r * r), r, r, height, width)
    moved = blocks.permute(*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return moved.reshape(*lead, channels // (r * r), height * r, width * r)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Rearranges (*, C, H r, W r) to (*, C r^2, H, W), where r is ``downscale_factor``."""
    r = downscale_factor
    if input.dim() < 3:
        raise RuntimeError(
            "pixel_unshuffle expects input to have at least 3 dimensions, but got input with "
            f"{input.dim()} dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    channels, height, width = input.shape[-3:]
    for name, size, dim in (("height", height, -2), ("width", width, -1)):
        if size % r != 0:
            raise RuntimeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but "
                f"input.size({dim})={size} is not divisible by {r}"
            )
    lead, n = input.shape[:-3], input.dim() - 3
    blocks = input.reshape(*lead, channels, height // r, r, width // r, r)
    moved = blocks.permute(*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return moved.reshape(*lead, channels * r * r, height // r, width // r)


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Reorders the channels of (N, C, *): takes one from each of ``groups`` groups in turn."""
    if input.dim() < 3:
        raise RuntimeError(
            "channel_shuffle expects input with > 2 dims, but got input with sizes "
            f"{list(input.shape)}"
        )
    if groups <= 0:
        raise RuntimeError(
            f"Number of groups to divide channels in must be positive. Value of groups:{groups}"
        )
    batch, channels = input.shape[:2]
    if channels % groups != 0:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {channels} channels and {groups} "
            "groups."
        )
    grouped = input.reshape(batch, groups, channels // groups, *input.shape[2:])
    return grouped.transpose(1, 2).reshape(input.shape)
