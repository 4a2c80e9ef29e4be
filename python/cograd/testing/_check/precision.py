# SPDX-License-Identifier: BSD-3-Clause
"""Compares lower precision with float64; bounds come from the numerical derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import cograd
from cograd import Tensor

from .audit import Audit, Rows, raised
from .derivatives import first, second
from .report import Fault, Inapplicable, Remark
from .subject import array, compare

__all__ = ["make_precision_check"]

# Allowed rounding errors inside an op, in units of the effect of rounding its inputs once.
_ROUNDINGS = 32.0


def _spread(rows: Sequence[Rows], index: int, inputs: Sequence[Any]) -> Any:
    """Returns sum_i |d out / d x_i| |x_i| for each element of an output; 0 without derivative."""
    total: Any = 0.0
    for row, values in zip(rows, inputs, strict=True):
        if index >= len(row.values) or not row.elements:
            continue
        sizes = np.abs(values.reshape(-1)[row.elements])
        part = sizes @ np.abs(np.nan_to_num(row.values[index], nan=0.0, posinf=0.0, neginf=0.0))
        total = total + part * (values.size / len(row.elements))
    return total


def _bound(value: Any, spread: Any, eps: float, tiny: float) -> Any:
    """Returns the maximum distance of a result in lower precision from ``value``."""
    spread = np.broadcast_to(spread, value.reshape(-1).shape).reshape(value.shape)
    largest = float(np.abs(np.nan_to_num(value, nan=0.0, posinf=0.0, neginf=0.0)).max(initial=0.0))
    # Sums over an output's neighbours (norms, softmax) round in units of the largest term.
    rounding = np.abs(np.nan_to_num(value)) + spread + 0.25 * largest
    return _ROUNDINGS * (eps * rounding + tiny)


def make_precision_check(dtype: Any) -> Any:
    """Returns the check for one dtype."""

    def check(audit: Audit) -> str:
        return _check(audit, dtype)

    check.__doc__ = f"Values and gradients in {dtype} against float64, as far as rounding explains."
    return check


def _check(audit: Audit, dtype: Any) -> str:
    subject = audit.subject
    if audit.dtype is not cograd.float64:
        raise Inapplicable("float64 is not accepted, there is nothing to compare with")
    if not subject.targets:
        raise Inapplicable("no floating-point tensor among the arguments")
    info = cograd.finfo(dtype)
    leaves = subject.fresh(dtype)
    try:
        outputs = subject.run(leaves)
    except Exception as error:
        raise Inapplicable(f"refused: {raised(error)}") from error
    exact = [
        leaf.detach().to(cograd.float64).requires_grad_(leaf.requires_grad)
        if isinstance(leaf, Tensor) and leaf.dtype.is_floating_point
        else leaf
        for leaf in leaves
    ]
    references = subject.run(exact)
    _, jacobians = first(audit)
    inputs = [array(exact[i]) for i in subject.targets]
    floating = -1
    for k, (output, reference) in enumerate(zip(outputs, references, strict=True)):
        name = subject.output_name(k, len(outputs))
        if not reference.dtype.is_floating_point:
            compare(array(output), array(reference), name, f"in {dtype} ")
            continue
        floating += 1
        right = array(reference)
        bound = _bound(right, _spread(jacobians, floating, inputs), info.eps, info.tiny)
        compare(array(output), right, name, f"in {dtype} ", atol=bound)
    _gradients(audit, dtype, leaves, outputs, exact, references)
    changed = [o.dtype for o, r in zip(outputs, references) if r.dtype is cograd.float64]
    for k, found in enumerate(changed):
        if found != dtype:
            raise Remark(subject.output_name(k, len(changed)), f"is {found} for inputs of {dtype}")
    return ""


def _gradients(
    audit: Audit,
    dtype: Any,
    leaves: list[Any],
    outputs: Sequence[Tensor],
    exact: list[Any],
    references: Sequence[Tensor],
) -> None:
    if not any(o.requires_grad for o in outputs):
        return
    subject = audit.subject
    info = cograd.finfo(dtype)
    seeds = audit.seeds(outputs)
    wide = [None if s is None else s.to(r.dtype) for s, r in zip(seeds, references, strict=True)]
    try:
        grads = audit.gradients(outputs, audit.targets(leaves), seeds)
    except Exception as error:
        raise Fault("backward", f"in {dtype} raised {raised(error)}") from error
    right = audit.gradients(references, audit.targets(exact), wide)
    inputs = [array(exact[i]) for i in subject.targets]
    _, variables, _, rows = second(audit)
    values = inputs + [array(v) for v in variables]
    expected = audit.arrays(right, audit.targets(exact))
    for t, (i, grad, want) in enumerate(zip(subject.targets, grads, expected, strict=True)):
        actual = np.zeros(want.shape) if grad is None else array(grad)
        bound = _bound(want, _spread(rows, t, values), info.eps, info.tiny)
        compare(actual, want, f"gradient of {subject.names[i]}", f"in {dtype} ", atol=bound)
