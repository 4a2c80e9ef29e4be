# SPDX-License-Identifier: BSD-3-Clause
"""Jacobian functions of torch's former private API."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from cograd import Tensor

from ._jacobian import (
    Analytical,
    as_tuple,
    diff_inputs,
    equal_within,
    iter_tensors,
    numerical_jacobian,
)


def _deprecated(name: str) -> None:
    warnings.warn(
        f"`{name}` is kept for torch's private API and will be removed; use `gradcheck`.",
        FutureWarning,
        stacklevel=3,
    )


def get_numerical_jacobian(
    fn: Callable[[Any], Any],
    inputs: Any,
    target: Any = None,
    eps: float = 1e-3,
    grad_out: float = 1.0,
) -> tuple[Tensor, ...]:
    """Returns Jacobians of the first output of ``fn(inputs)`` for every tensor of ``target``.

    ``fn`` has one parameter, the inputs. A Jacobian is (input.numel(), output.numel()).
    """
    _deprecated("get_numerical_jacobian")
    if grad_out != 1.0:
        raise ValueError(
            "Expected grad_out to be 1.0. get_numerical_jacobian no longer supports values of "
            "grad_out != 1.0."
        )
    targets = iter_tensors(inputs if target is None else target, only_requiring_grad=True)

    def run() -> tuple[Tensor, ...]:
        return tuple(iter_tensors(as_tuple(fn(inputs))))

    outputs = run()
    return tuple(numerical_jacobian(run, t, outputs, eps)[0] for t in targets)


def get_numerical_jacobian_wrt_specific_input(
    fn: Callable[..., Any],
    input_idx: int,
    inputs: Any,
    outputs: Any,
    eps: float,
    input: Tensor | None = None,
    is_forward_ad: bool = False,
) -> tuple[Tensor, ...]:
    """Returns Jacobians of all outputs of ``fn(*inputs)`` for the input at ``input_idx``."""
    target = inputs[input_idx] if input is None else input
    if not target.requires_grad:
        raise AssertionError("Expected input to have requires_grad=True")
    count = as_tuple(outputs)
    return tuple(numerical_jacobian(lambda: as_tuple(fn(*inputs)), target, count, eps))


def get_analytical_jacobian(
    inputs: Any, output: Tensor, nondet_tol: float = 0.0, grad_out: float = 1.0
) -> tuple[tuple[Tensor, ...], bool, bool, bool]:
    """Returns (Jacobians of ``output`` for every input, reentrant, sizes ok, types ok)."""
    _deprecated("get_analytical_jacobian")
    if grad_out != 1.0:
        raise ValueError(
            "Expected grad_out to be 1.0. get_analytical_jacobian no longer supports values of "
            "grad_out != 1.0."
        )
    targets = diff_inputs(inputs)
    first, again = Analytical(targets, output), Analytical(targets, output)
    reentrant = equal_within(first.jacobians, again.jacobians, nondet_tol)
    return (
        tuple(first.jacobians),
        reentrant,
        first.sizes_ok and again.sizes_ok,
        first.types_ok and again.types_ok,
    )
