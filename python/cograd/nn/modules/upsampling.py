# SPDX-License-Identifier: BSD-3-Clause
"""Layers that enlarge images."""

from __future__ import annotations

from typing import Any

from cograd import Tensor

from .. import functional as F
from .module import Module

__all__ = [
    "Upsample",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
]


class Upsample(Module):
    """``nn.functional.interpolate`` as a layer: resizes the last dims.

    The mode 'linear' needs (N, C, L), 'bilinear' and 'bicubic' need (N, C, H, W), 'trilinear' needs
    (N, C, D, H, W); 'nearest', 'nearest-exact' and 'area' accept all three. The layer is linear.

    Args:
        size: sizes of the last dims: one int for all, or one for each.
        scale_factor: factor of these sizes: one number for all, or one for each; not with ``size``.
        mode: see above.
        align_corners: whether the centers of the corner pixels of input and output are aligned, for
            the linear and cubic modes; None means False.
        recompute_scale_factor: whether to recompute the factor from the sizes, which are integers.

    Raises:
        ValueError: neither or both of ``size`` and ``scale_factor`` are given, or ``align_corners``
            with another mode.
        NotImplementedError: the mode does not support the input's dims, or the dtype is not
            floating.

    Shape:
        - input: (N, C, L), (N, C, H, W) or (N, C, D, H, W).
        - output: (N, C, ``size``) or each last dim floor(size * scale_factor).
        - dtypes: floating.
    """

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        if isinstance(scale_factor, tuple):
            self.scale_factor: Any = tuple(float(factor) for factor in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Maps (N, C, *) to the same with last dims of another size."""
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        if self.scale_factor is not None:
            return f"scale_factor={self.scale_factor!r}, mode={self.mode!r}"
        return f"size={self.size!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Upsample of images with mode 'nearest': each pixel takes the value of the nearest input.

    See ``nn.functional.interpolate``.

    Args:
        size: sizes of the last dims: one int for all, or one for each.
        scale_factor: factor of these sizes: one number for all, or one for each; not with ``size``.

    Raises:
        ValueError: neither or both of ``size`` and ``scale_factor`` are given.
        NotImplementedError: the mode does not support the input's dims, or the dtype is not
            floating.

    Shape:
        - input: (N, C, H, W).
        - output: (N, C, ``size``) or (N, C, floor(H * factor), floor(W * factor)).
        - dtypes: floating.
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Upsample of images with mode 'bilinear' and aligned corners.

    See ``nn.functional.interpolate``.

    Args:
        size: sizes of the last dims: one int for all, or one for each.
        scale_factor: factor of these sizes: one number for all, or one for each; not with ``size``.

    Raises:
        ValueError: neither or both of ``size`` and ``scale_factor`` are given.
        NotImplementedError: the mode does not support the input's dims, or the dtype is not
            floating.

    Shape:
        - input: (N, C, H, W).
        - output: (N, C, ``size``) or (N, C, floor(H * factor), floor(W * factor)).
        - dtypes: floating.
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
