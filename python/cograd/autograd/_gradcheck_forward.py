# SPDX-License-Identifier: BSD-3-Clause
"""gradcheck of forward mode: compares tangents with differences, and batches of tangents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

import cograd
from cograd import Tensor
from cograd.autograd import forward_ad

from ._errors import GradcheckError
from ._jacobian import (
    as_tuple,
    coordinates,
    from_coordinates,
    is_floating,
    num_coordinates,
)

_BATCHED = (
    "The derivatives of a batch are computed for all its samples at once, by vmap. Pass "
    "{flag}=False to leave this check out.\n\nGot:\n{got}\n\nExpected:\n{expected}\n"
)


def _replaced(inputs: Any, duals: Iterator[Tensor]) -> Any:
    """Returns the inputs with the tensors that require grad replaced by ``duals``."""
    if isinstance(inputs, Tensor):
        return next(duals) if inputs.requires_grad else inputs
    if isinstance(inputs, (tuple, list)):
        return type(inputs)(_replaced(item, duals) for item in inputs)
    return inputs


class Forward:
    """The function under test in forward mode, as a function of the tensors with tangents."""

    def __init__(
        self, func: Callable[..., Any], inputs: tuple[Any, ...], targets: Sequence[Tensor]
    ) -> None:
        self.func = func
        self.inputs = inputs
        self.targets = targets
        self.values = [t.detach() for t in targets]

    def outputs(
        self, tangents: Sequence[Tensor | None], check_dtypes: bool = False
    ) -> list[tuple[Tensor, Tensor | None]]:
        """Returns (value, tangent) of each floating-point output, for inputs with ``tangents``."""
        with forward_ad.dual_level():
            duals = (
                v if t is None else forward_ad.make_dual(v, t)
                for v, t in zip(self.values, tangents, strict=True)
            )
            result = as_tuple(self.func(*_replaced(self.inputs, duals)))
            unpacked = [forward_ad.unpack_dual(o) for o in result if is_floating(o)]
        pairs = [(value, tangent) for value, tangent in unpacked]
        for value, tangent in pairs:
            if check_dtypes and tangent is not None and tangent.dtype != value.dtype:
                raise GradcheckError("Forward AD gradient has dtype mismatch.")
        return pairs

    def products(
        self, tangents: Sequence[Tensor | None], check_dtypes: bool = False
    ) -> list[Tensor]:
        """Returns the tangents as vectors; zeros for an output without tangent."""
        return [
            cograd.zeros(num_coordinates(value), dtype=value.dtype.to_real(), device=value.device)
            if tangent is None
            else coordinates(tangent)
            for value, tangent in self.outputs(tangents, check_dtypes)
        ]

    def zeros(self) -> list[Tensor]:
        return [cograd.zeros_like(v) for v in self.values]

    def along(self, target: int, direction: Tensor, check_dtypes: bool) -> list[Tensor]:
        """Multiplies each output's Jacobian with respect to one input by a direction."""
        tangents = self.zeros()
        value = self.values[target]
        tangents[target] = from_coordinates(direction, value)
        return self.products(tangents, check_dtypes)

    def jacobians(self, target: int, check_dtypes: bool) -> list[Tensor]:
        """Returns for every output the matrix of its coordinates by those of the input."""
        value = self.values[target]
        rows = []
        size = num_coordinates(value)
        options: Any = {"dtype": value.dtype.to_real(), "device": value.device}
        for i in range(size):
            direction = cograd.zeros(size, **options)
            direction[i] = 1
            rows.append(self.along(target, direction, check_dtypes))
        if not rows:
            empty = self.along(target, cograd.zeros(0, **options), check_dtypes)
            return [o.new_zeros((0, o.numel())) for o in empty]
        return [cograd.stack(column) for column in zip(*rows, strict=True)]

    def check_undefined(self, directions: Sequence[Tensor]) -> None:
        """Checks that an input without a tangent is equivalent to one with a tangent of zeros."""
        given: list[Tensor | None] = [
            from_coordinates(d, v) for d, v in zip(directions, self.values, strict=True)
        ]
        for i, zero in enumerate(self.zeros()):
            with_zeros = self.outputs([*given[:i], zero, *given[i + 1 :]])
            without = self.outputs([*given[:i], None, *given[i + 1 :]])
            for o, ((_, expected), (_, got)) in enumerate(zip(with_zeros, without, strict=True)):
                if expected is None or got is None or cograd.allclose(got, expected):
                    continue
                raise GradcheckError(
                    f"Mismatch in tangent values for output with index: {o} when input: {i} has an "
                    f"undefined tangent value.  Got: {got} but expected: {expected}"
                )

    def check_batched(self) -> None:
        """Checks that a batch of tangents yields the batch of the single results."""
        for target, value in enumerate(self.values):
            pair = [cograd.randn_like(value) for _ in range(2)]

            def product(tangent: Tensor, target: int = target) -> tuple[Tensor, ...]:
                tangents: list[Tensor | None] = [None] * len(self.values)
                tangents[target] = tangent
                return tuple(self.products(tangents))

            check_batch(product, pair, "check_batched_forward_grad")


def check_batch(
    function: Callable[[Tensor], tuple[Tensor, ...]], samples: list[Tensor], flag: str
) -> None:
    """Checks that ``function`` of a batch is the batch of ``function`` of the samples."""
    vmap = import_module("cograd._transforms.vmap").vmap
    expected = [cograd.stack(column) for column in zip(*map(function, samples), strict=True)]
    try:
        found = vmap(function)(cograd.stack(samples))
    except RuntimeError as error:
        raise GradcheckError(f"While computing batched gradients, got: {error}") from error
    for i, (got, wanted) in enumerate(zip(found, expected, strict=True)):
        if not cograd.allclose(got, wanted):
            text = _BATCHED.format(flag=flag, got=got, expected=wanted)
            raise GradcheckError(f"Batched gradients differ, number {i}. {text}")
