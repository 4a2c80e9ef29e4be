# SPDX-License-Identifier: BSD-3-Clause
"""Numerical and analytical Jacobians, the two sides that gradcheck compares."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import cograd
from cograd import _C, Tensor
from cograd._base.memory_format import registered as _sparse
from cograd._base.progress import Progress

Fn = Callable[..., Any]


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Returns ``value`` as a tuple; lists are converted, anything else is wrapped."""
    if isinstance(value, tuple):
        return value
    return tuple(value) if isinstance(value, list) else (value,)


def is_floating(value: Any) -> bool:
    """Returns whether ``value`` is a tensor of a floating-point or complex dtype."""
    return isinstance(value, Tensor) and (value.dtype.is_floating_point or value.dtype.is_complex)


def coordinates(value: Tensor) -> Tensor:
    """Returns the elements as a new real vector; complex elements as real and imaginary part.

    Jacobians here are with respect to these vectors: a gradient g of the conjugate Wirtinger
    convention holds dL/d(re) in its real and dL/d(im) in its imaginary part.
    """
    return _flat(value.detach().clone())


def _flat(value: Tensor) -> Tensor:
    """Returns the coordinates of a tensor without history as a vector that may share its memory."""
    if value.dtype.is_complex:
        value = cograd.view_as_real(value)
    return value.reshape(-1)


def num_coordinates(value: Tensor) -> int:
    """Returns the length of ``coordinates(value)``."""
    return value.numel() * (2 if value.dtype.is_complex else 1)


def from_coordinates(vector: Tensor, like: Tensor) -> Tensor:
    """Returns a tensor of the shape and dtype of ``like`` from its coordinates."""
    dtype = like.dtype.to_real()
    if vector.dtype != dtype:
        vector = vector.to(dtype)
    if like.dtype.is_complex:
        return cograd.view_as_complex(vector.reshape(*like.shape, 2))
    return vector.reshape(like.shape)


def iter_tensors(value: Any, only_requiring_grad: bool = False) -> Iterator[Tensor]:
    """Yields the tensors in nested tuples and lists, in order."""
    if isinstance(value, Tensor):
        if value.requires_grad or not only_requiring_grad:
            yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from iter_tensors(item, only_requiring_grad)


def diff_inputs(inputs: Any) -> list[Tensor]:
    """Returns the tensors among the inputs that require grad."""
    return list(iter_tensors(inputs, True))


def diff_outputs(result: Any) -> tuple[Tensor, ...]:
    """Returns the outputs of a call that require grad."""
    if type(result) is Tensor:
        return (result,) if result.requires_grad else ()
    return tuple(o for o in as_tuple(result) if isinstance(o, Tensor) and o.requires_grad)


def _snapshot(outputs: Sequence[Tensor]) -> list[Tensor]:
    """Copies the outputs, because they may be views of an input that is about to change."""
    return [output.detach().clone() for output in outputs]


def _check_same(before: Sequence[Tensor], after: Sequence[Tensor], eps: float) -> None:
    if len(before) != len(after):
        raise AssertionError(
            "Expected `func` to return the same number of outputs when inputs are perturbed by "
            f"{eps}, but got: {len(before)} and {len(after)}."
        )
    for a, b in zip(before, after):
        if a.shape != b.shape:
            raise AssertionError(
                "Expected `func` to return outputs with the same shape when inputs are perturbed "
                f"by {eps}, but got: shapes {a.shape} and {b.shape}."
            )
        if a.dtype != b.dtype:
            raise AssertionError(
                "Expected `func` to return outputs with the same dtype when inputs are perturbed "
                f"by {eps}, but got: dtypes {a.dtype} and {b.dtype}."
            )


def numerical_jacobian(
    run: Callable[[], Sequence[Tensor]], target: Tensor, outputs: Sequence[Tensor], eps: float
) -> list[Tensor]:
    """Computes central differences of the results of ``run()`` with respect to ``target``.

    ``target`` is changed in place, one element at a time, and restored; its strides do not matter.

    Returns:
        for every output the matrix of derivatives of its coordinates by those of ``target``.
    """
    units = (1, 1j) if target.dtype.is_complex else (1,)
    data = target.data
    lows: list[list[Tensor]] = [[] for _ in outputs]
    highs: list[list[Tensor]] = [[] for _ in outputs]
    cells = itertools.product(*(range(size) for size in target.shape))
    with Progress("gradcheck: numerical", target.numel() * len(units)) as progress:
        for done, (index, unit) in enumerate(itertools.product(cells, units)):
            progress.update(done)
            step = eps * unit
            cell = data[index] if index else data
            value = cell.item()
            try:
                cell.fill_(value - step)
                low_outputs = run()
                low = _snapshot(low_outputs)
                cell.fill_(value + step)
                high = run()
                _check_same(low_outputs, high, eps)
                for below, above, a, b in zip(lows, highs, low, _snapshot(high)):
                    below.append(a)
                    above.append(b)
            finally:
                cell.fill_(value)
    return [_differences(*sides, 2 * eps) for sides in zip(outputs, lows, highs)]


def _differences(
    output: Tensor, lows: list[Tensor], highs: list[Tensor], distance: float
) -> Tensor:
    """Returns the rows ``(high - low) / distance``; takes the tensors out of the lists."""
    if not lows:
        size = (0, num_coordinates(output))
        return cograd.zeros(size, dtype=output.dtype.to_real(), device=output.device)
    count, low, high = len(lows), cograd.stack(lows), cograd.stack(highs)
    lows.clear()
    highs.clear()
    return _flat(high).sub_(_flat(low)).div_(distance).reshape(count, -1)


def numerical_product(
    run: Callable[[], Sequence[Tensor]], target: Tensor, direction: Tensor, eps: float
) -> list[Tensor]:
    """Computes central differences of the results of ``run()`` along ``direction``."""
    data = target.data
    saved = data.clone()
    step = from_coordinates(direction * eps, data)
    try:
        data.copy_(saved - step)
        low_outputs = run()
        low = _snapshot(low_outputs)
        data.copy_(saved + step)
        high = run()
        _check_same(low_outputs, high, eps)
        return [(coordinates(b) - _flat(a)) / (2 * eps) for a, b in zip(low, high)]
    finally:
        data.copy_(saved)


class Analytical:
    """The Jacobians of one output by backward, and flags for gradients of wrong size or type."""

    def __init__(self, inputs: Sequence[Tensor], output: Tensor) -> None:
        self.sizes_ok = True
        self.types_ok = True
        self.jacobians = self._rows(inputs, output)

    def _rows(self, inputs: Sequence[Tensor], output: Tensor) -> list[Tensor]:
        size = num_coordinates(output)
        inputs = tuple(inputs)
        columns: list[list[Tensor]] = [[] for _ in inputs]
        zero = cograd.zeros(size, dtype=output.dtype.to_real(), device=output.device)
        with Progress("gradcheck: analytical", size) as progress:
            for i in range(size):
                progress.update(i)
                one = zero.clone()  # a backward may keep or return its seed
                one[i] = 1.0
                grads = vjp(inputs, output, from_coordinates(one, output))
                for column, tensor, grad in zip(columns, inputs, grads):
                    column.append(self._column(tensor, grad))
        jacobians = []
        for column, tensor in zip(columns, inputs):
            if column:
                jacobians.append(cograd.stack(column, 1))
            else:
                none = (num_coordinates(tensor), 0)
                jacobians.append(
                    cograd.zeros(none, dtype=tensor.dtype.to_real(), device=tensor.device)
                )
        return jacobians

    def _column(self, tensor: Tensor, grad: Tensor | None) -> Tensor:
        """Returns a copy of one column, because the gradient may be the seed itself."""
        if grad is not None:
            if grad.dtype != tensor.dtype:
                self.types_ok = False
                grad = grad.to(tensor.dtype)
            if grad.shape == tensor.shape:
                return coordinates(grad)
            self.sizes_ok = False
        return cograd.zeros(
            num_coordinates(tensor), dtype=tensor.dtype.to_real(), device=tensor.device
        )


def vjp(inputs: Sequence[Tensor], output: Tensor, seed: Tensor) -> tuple[Tensor | None, ...]:
    """Returns the gradients of ``output`` for the output gradient ``seed``; retains the graph."""
    if not _sparse:
        return _C._run_backward((output,), (seed,), True, False, tuple(inputs), False)
    grads: tuple[Tensor | None, ...] = cograd.autograd.grad(
        [output], list(inputs), [seed], retain_graph=True, allow_unused=True
    )
    return grads


def equal_within(a: Sequence[Tensor], b: Sequence[Tensor], atol: float) -> bool:
    """Returns whether all pairs differ by at most ``atol``."""
    return all(x.numel() == 0 or bool(((x - y).abs() <= atol).all()) for x, y in zip(a, b))
