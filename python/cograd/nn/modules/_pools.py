# SPDX-License-Identifier: BSD-3-Clause
"""Base classes of the pooling layers of 1, 2 and 3 dims: arguments, ``forward``, ``repr``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cograd import Tensor

from ._family import _Family

Sizes = int | Sequence[int]


class _MaxPoolNd(_Family):
    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    @staticmethod
    def _forward_of(function: Callable[..., Any]) -> Callable[..., Any]:
        def forward(self: Any, input: Tensor) -> Any:
            """Maps (N, C, *) or (C, *) to the same with smaller last dims."""
            return function(
                input,
                self.kernel_size,
                self.stride,
                self.padding,
                self.dilation,
                ceil_mode=self.ceil_mode,
                return_indices=self.return_indices,
            )

        return forward

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


def _sizes(value: Any, n: int) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * n


class _MaxUnpoolNd(_Family):
    _dims = 0

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        super().__init__()
        n = self._dims
        self.kernel_size = _sizes(kernel_size, n)
        self.stride = _sizes(stride if stride is not None else kernel_size, n)
        self.padding = _sizes(padding, n)

    @staticmethod
    def _forward_of(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def forward(
            self: Any, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
        ) -> Tensor:
            """Maps (N, C, *) and the indices of a max_pool to (N, C, *), with zeros elsewhere."""
            return function(
                input, indices, self.kernel_size, self.stride, self.padding, output_size
            )

        return forward

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AvgPoolNd(_Family):
    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    @staticmethod
    def _forward_of(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def forward(self: Any, input: Tensor) -> Tensor:
            """Maps (N, C, *) or (C, *) to the same with smaller last dims."""
            return function(
                input,
                self.kernel_size,
                self.stride,
                self.padding,
                self.ceil_mode,
                self.count_include_pad,
                self.divisor_override,
            )

        return forward

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _FractionalMaxPoolNd(_Family):
    _dims = 0

    def __init__(
        self,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        name, n = type(self).__name__, self._dims
        if (isinstance(kernel_size, int) and kernel_size <= 0) or (
            isinstance(kernel_size, (tuple, list)) and not all(k > 0 for k in kernel_size)
        ):
            raise ValueError(f"kernel_size must greater than zero, but got {kernel_size}")
        self.kernel_size = _sizes(kernel_size, n)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = _sizes(output_size, n) if output_size is not None else None
        self.output_ratio = _sizes(output_ratio, n) if output_ratio is not None else None
        if output_size is None and output_ratio is None:
            raise ValueError(
                f"{name} requires specifying either an output size, or a pooling ratio"
            )
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    @staticmethod
    def _forward_of(function: Callable[..., Any]) -> Callable[..., Any]:
        def forward(self: Any, input: Tensor) -> Any:
            """Maps (N, C, *) or (C, *) to the same with smaller last dims."""
            return function(
                input,
                self.kernel_size,
                self.output_size,
                self.output_ratio,
                self.return_indices,
                _random_samples=self._random_samples,
            )

        return forward


class _LPPoolNd(_Family):
    def __init__(
        self,
        norm_type: float,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    @staticmethod
    def _forward_of(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def forward(self: Any, input: Tensor) -> Tensor:
            """Maps (N, C, *) or (C, *) to the same with smaller last dims."""
            return function(
                input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
            )

        return forward

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class _AdaptiveAvgPoolNd(_Family):
    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    @staticmethod
    def _forward_of(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def forward(self: Any, input: Tensor) -> Tensor:
            """Maps (N, C, *) or (C, *) to the same with last dims ``output_size``."""
            return function(input, self.output_size)

        return forward

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        return f"output_size={self.output_size}"


class _AdaptiveMaxPoolNd(_Family):
    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    @staticmethod
    def _forward_of(function: Callable[..., Any]) -> Callable[..., Any]:
        def forward(self: Any, input: Tensor) -> Any:
            """Maps (N, C, *) or (C, *) to the same with last dims ``output_size``."""
            return function(input, self.output_size, self.return_indices)

        return forward

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        return f"output_size={self.output_size}"
