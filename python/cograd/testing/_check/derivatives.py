# SPDX-License-Identifier: BSD-3-Clause
"""Checks of the values of first and second derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import cograd
from cograd import Tensor

from .audit import Audit, Rows, raised
from .report import Fault, Inapplicable
from .subject import array, compare, element_text, factor_text, number

__all__ = ["check_create_graph", "check_gradcheck", "check_gradgradcheck", "first", "second"]


def _largest(rows: Rows) -> float:
    values = [np.abs(v[np.isfinite(v)]).max(initial=0.0) for v in rows.values]
    return float(max(values, default=0.0))


class _Tally:
    """Compares gradients with numerical rows; records the worst and all wrong values."""

    def __init__(self, audit: Audit) -> None:
        self.audit = audit
        self.count = 0
        self.worst: Fault | None = None
        self.got: list[Any] = []
        self.right: list[Any] = []

    def add(
        self, rows: Rows, grad: Tensor | None, target: Tensor, output: int, seed: Any, label: str
    ) -> None:
        """Compares one gradient with the rows of its input; the label names the derivative."""
        numerical = rows.values[output] @ seed
        if grad is not None and tuple(grad.shape) != tuple(target.shape):
            raise Fault(label, f"has shape {tuple(grad.shape)}, expected {tuple(target.shape)}")
        flat = np.zeros(target.numel()) if grad is None else array(grad).reshape(-1)
        actual = flat[rows.elements]
        self.count += actual.size
        tolerance = self.audit.close(numerical, _largest(rows))
        with np.errstate(all="ignore"):
            difference = np.abs(actual - numerical)
            bad = ~(difference <= tolerance["atol"] + tolerance["rtol"] * np.abs(numerical))
        bad &= (actual != numerical) & ~(np.isnan(actual) & np.isnan(numerical))
        if not bad.any():
            return
        self.got.append(actual[bad])
        self.right.append(numerical[bad])
        size = np.where(bad, np.where(np.isnan(difference), np.inf, difference), -1.0)
        at = int(size.argmax())
        if self.worst is None or size[at] > (self.worst.amount or 0.0):
            what = "none" if grad is None else number(float(actual[at]))
            self.worst = Fault(
                label + element_text(target.shape, rows.elements[at]),
                f"backward: {what}, finite differences: {number(float(numerical[at]))}, "
                f"off by {size[at]:.4g}",
                float(size[at]),
            )

    def finish(self) -> str:
        """Returns the number of derivatives; raises the worst fault."""
        if self.worst is not None:
            got, right = np.concatenate(self.got), np.concatenate(self.right)
            detail = f"{self.worst.detail}; {got.size} of {self.count} derivatives are wrong"
            detail += factor_text(got, right)
            raise Fault(self.worst.where, detail, self.worst.amount)
        return f"{self.count} derivatives"


def first(audit: Audit) -> tuple[list[Tensor], list[Rows]]:
    """Returns the inputs and the numerical Jacobian of each differentiated one; cached."""
    found: tuple[list[Tensor], list[Rows]] | None = audit.__dict__.get("_first")
    if found is None:
        leaves = audit.fresh()

        def run() -> list[Any]:
            return [array(o) for o in audit.subject.run(leaves) if o.dtype.is_floating_point]

        targets = audit.targets(leaves)
        found = leaves, [audit.numerical(run, target) for target in targets]
        audit.__dict__["_first"] = found
    return found


def check_gradcheck(audit: Audit) -> str:
    """Compares first derivatives with finite differences, for every element of every output."""
    subject = audit.subject
    if not subject.targets:
        raise Inapplicable("no floating-point tensor among the arguments")
    leaves, jacobians = first(audit)
    outputs = [o for o in subject.run(leaves) if o.dtype.is_floating_point]
    if not any(o.requires_grad for o in outputs):
        _nothing_requires_grad(audit, jacobians, outputs)
    for value in outputs:
        if not np.isfinite(array(value)).all():
            raise Inapplicable("an output is not finite for these arguments")
    targets = audit.targets(leaves)
    tally = _Tally(audit)
    for o, output in enumerate(outputs):
        if not output.requires_grad:
            continue
        for seed, combination, index in audit.unit_seeds(output):
            grads = audit.gradients([output], targets, [seed], retain_graph=True)
            for t, grad in zip(range(len(targets)), grads, strict=True):
                label = (
                    f"d {subject.output_name(o, len(outputs))}{index} / "
                    f"d {subject.names[subject.targets[t]]}"
                )
                tally.add(jacobians[t], grad, targets[t], o, combination, label)
    return tally.finish()


def _nothing_requires_grad(audit: Audit, jacobians: list[Rows], outputs: Sequence[Tensor]) -> None:
    if not outputs:
        raise Inapplicable("no output is a floating-point tensor")
    if audit.subject.explicit:
        for t, rows in enumerate(jacobians):
            if _largest(rows) > audit.options.atol:
                name = audit.subject.names[audit.subject.targets[t]]
                raise Fault(
                    "outputs",
                    f"none requires grad, but they depend on {name}, which does; finite "
                    f"differences up to {_largest(rows):.4g}",
                    _largest(rows),
                )
    raise Inapplicable("no output requires grad")


def _gradient_function(audit: Audit) -> tuple[list[Any], list[Tensor], Callable[[bool], Any]]:
    """Returns inputs, seeds, and the function from both to the gradients of the inputs."""
    leaves = audit.fresh()
    outputs = audit.subject.run(leaves)
    seeds = audit.seeds(outputs)
    shapes = [s for s in seeds if s is not None]
    for seed in shapes:
        seed.requires_grad_()
    targets = audit.targets(leaves)

    def run(create_graph: bool) -> list[Tensor | None]:
        results = audit.subject.run(leaves)
        return audit.gradients(results, targets, seeds, create_graph=create_graph)

    return leaves, shapes, run


def second(audit: Audit) -> tuple[list[Any], list[Tensor], Any, list[Rows]]:
    """Returns numerical derivatives of gradients by inputs and incoming gradients; cached."""
    found: Any = audit.__dict__.get("_second")
    if found is None:
        leaves, seeds, run = _gradient_function(audit)
        targets = audit.targets(leaves)

        def values() -> list[Any]:
            return audit.arrays(run(False), targets)

        rows = [audit.numerical(values, variable) for variable in (*targets, *seeds)]
        found = leaves, seeds, run, rows
        audit.__dict__["_second"] = found
    return found  # type: ignore[no-any-return]


def check_gradgradcheck(audit: Audit) -> str:
    """Compares second derivatives with finite differences of the first."""
    subject = audit.subject
    audit.need_gradient()
    if not audit.options.second_order:
        raise Inapplicable("second_order=False was passed")
    leaves, seeds, run, rows = second(audit)
    targets = audit.targets(leaves)
    variables = [*targets, *seeds]
    names = [subject.names[i] for i in subject.targets]
    variable_names = [*names, *(f"incoming gradient {i}" for i in range(len(seeds)))]
    tally = _Tally(audit)
    try:
        grads = run(True)
        for g, grad in enumerate(grads):
            if grad is None or not grad.requires_grad:
                _constant_gradient(audit, grad, names[g], g, rows, variable_names, variables)
                continue
            for seed, combination, index in audit.unit_seeds(grad):
                again = audit.gradients([grad], variables, [seed], retain_graph=True)
                for v, value in enumerate(again):
                    label = f"d (gradient of {names[g]}){index} / d {variable_names[v]}"
                    tally.add(rows[v], value, variables[v], g, combination, label)
    except RuntimeError as error:
        if "marked with @once_differentiable" in str(error):
            raise Inapplicable("backward is marked @once_differentiable") from None
        raise Fault("second derivative", f"raised {raised(error)}") from error
    return tally.finish()


def _constant_gradient(
    audit: Audit,
    grad: Tensor | None,
    name: str,
    index: int,
    rows: list[Rows],
    variable_names: list[str],
    variables: list[Tensor],
) -> None:
    """Checks that a gradient without history does not depend on anything."""
    for row, variable_name, variable in zip(rows, variable_names, variables, strict=True):
        values = row.values[index]
        allowed = audit.close(values, 0.0)["atol"]
        if values.size and np.abs(values).max() > allowed:
            worst = int(np.abs(values).max(axis=1).argmax())
            where = variable_name + element_text(variable.shape, row.elements[worst])
            raise Fault(
                f"gradient of {name}",
                f"has no history: backward used operations that are not recorded (.data, detach, "
                f"NumPy), but it depends on {where} (finite differences: "
                f"{number(float(np.abs(values).max()))}). Use differentiable operations, or "
                "mark backward @once_differentiable",
                float(np.abs(values).max()),
            )


def check_create_graph(audit: Audit) -> str:
    """Checks that gradients are the same whether or not the backward is recorded."""
    _, seeds, expected = audit.reference
    leaves = audit.fresh()
    targets = audit.targets(leaves)
    outputs = audit.subject.run(leaves)
    grads = audit.gradients(outputs, targets, seeds, create_graph=True)
    for i, actual, right in zip(
        audit.subject.targets, audit.arrays(grads, targets), expected, strict=True
    ):
        compare(
            actual,
            right,
            f"gradient of {audit.subject.names[i]}",
            "with create_graph=True ",
            **audit.tolerance(right),
        )
    assert cograd.is_grad_enabled()
    return ""
