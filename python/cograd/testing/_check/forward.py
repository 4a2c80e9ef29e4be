# SPDX-License-Identifier: BSD-3-Clause
"""Checks of forward mode: tangents, and second derivatives of which one is a tangent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from cograd import Tensor
from cograd.autograd import forward_ad
from cograd.func import jvp, vjp

from .audit import Audit, Rows, raised, subsets
from .derivatives import first, second
from .layouts import input_variants
from .report import Fault, Inapplicable
from .subject import Subject, array, compare

__all__ = ["check_forward_mode", "check_mixed_modes"]

Tensors = Sequence[Tensor]


def _along(rows: Sequence[Rows], directions: Tensors, index: int) -> Any:
    """Returns the derivative of one output along directions of the inputs, as a flat array."""
    total: Any = 0.0
    for row, direction in zip(rows, directions, strict=True):
        total = total + array(direction).reshape(-1)[row.elements] @ row.values[index]
    return total


def _known(rows: Rows, direction: Tensor) -> Tensor:
    """Returns the direction with zeros where no numerical derivative was computed."""
    if len(rows.elements) == direction.numel():
        return direction
    known = direction.new_zeros(direction.numel())
    known[rows.elements] = direction.reshape(-1)[rows.elements]
    return known.view(direction.shape)


class _Tangents:
    """Runs the subject on dual tensors."""

    def __init__(self, audit: Audit) -> None:
        self.audit = audit
        self.names = [audit.subject.names[i] for i in audit.subject.targets]

    def run(
        self, directions: Sequence[Tensor | None], changes: dict[int, Tensor] | None = None
    ) -> list[tuple[Tensor, Tensor | None]]:
        """Returns (value, tangent) of each floating-point output, for inputs with ``changes``."""
        subject = self.audit.subject
        leaves = self.audit.fresh(())
        for i, value in (changes or {}).items():
            leaves[i] = value
        with forward_ad.dual_level():
            for i, direction in zip(subject.targets, directions, strict=True):
                if direction is not None:
                    leaves[i] = forward_ad.make_dual(leaves[i], direction)
            outputs = [o for o in subject.run(leaves) if o.dtype.is_floating_point]
            return [(o.detach(), t) for o, t in map(forward_ad.unpack_dual, outputs)]

    def arrays(
        self,
        directions: Sequence[Tensor | None],
        when: str,
        changes: dict[int, Tensor] | None = None,
    ) -> list[Any]:
        """Returns the tangents as arrays, zeros for None; raises a Fault if the call fails."""
        try:
            pairs = self.run(directions, changes)
        except Exception as error:
            raise Fault("forward mode", f"{when}raised {raised(error)}") from error
        found = []
        for k, (value, tangent) in enumerate(pairs):
            name = f"tangent of {self.audit.subject.output_name(k, len(pairs))}"
            if tangent is None:
                found.append(np.zeros(tuple(value.shape)))
                continue
            if tangent.shape != value.shape or tangent.dtype != value.dtype:
                raise Fault(
                    name,
                    f"{when}has shape {tuple(tangent.shape)} and {tangent.dtype}, expected "
                    f"{tuple(value.shape)} and {value.dtype}",
                )
            found.append(array(tangent))
        return found


# Words of the messages with which cograd refuses forward mode; other errors are those of a jvp.
_REFUSALS = ("jvp", "forward mode", "forward AD", "tangent")


def _refused(subject: Subject, error: Exception, what: str) -> Exception:
    """Returns what to raise if a transform raises: a Fault unless cograd refuses the transform."""
    if subject.declares("jvp") or not any(word in str(error) for word in _REFUSALS):
        return Fault("jvp", f"{what} raised {raised(error)}")
    return Inapplicable(f"{what} is refused: {raised(error)}")


def check_forward_mode(audit: Audit) -> str:
    """Compares tangents with finite differences and with backward, for subsets and layouts."""
    subject = audit.subject
    if not subject.targets:
        raise Inapplicable("no floating-point tensor among the arguments")
    leaves, jacobians = first(audit)
    outputs = [o for o in subject.run(leaves) if o.dtype.is_floating_point]
    if not outputs:
        raise Inapplicable("no output is a floating-point tensor")
    recorded = any(o.requires_grad for o in outputs) or subject.declares("jvp")
    if not recorded and not subject.explicit:
        raise Inapplicable("no output requires grad")
    if not all(np.isfinite(array(o)).all() for o in outputs):
        raise Inapplicable("an output is not finite for these arguments")
    tangents = _Tangents(audit)
    directions = [audit.draw(t) for t in audit.targets(leaves)]
    try:
        tangents.run(directions)
    except Exception as error:
        raise _refused(subject, error, "forward mode") from error
    everything = tuple(range(len(directions)))
    count = 0
    for chosen in (everything, *subsets(len(directions))):
        if chosen:
            count += 1
            _compare_subset(audit, tangents, jacobians, directions, set(chosen))
    _compare_with_backward(audit, tangents, directions, outputs)
    _compare_layouts(audit, tangents, directions)
    return f"{count} subset{'s' if count > 1 else ''} of tangents, backward"


def _compare_subset(
    audit: Audit,
    tangents: _Tangents,
    jacobians: list[Rows],
    directions: list[Tensor],
    chosen: set[int],
) -> None:
    """Compares with finite differences if only some inputs have a tangent."""
    known = [_known(rows, d) for rows, d in zip(jacobians, directions, strict=True)]
    when = f"with a tangent for {', '.join(tangents.names[k] for k in sorted(chosen))} "
    given = [d.clone() if k in chosen else None for k, d in enumerate(known)]
    found = tangents.arrays(given, when)
    used = [d if k in chosen else d * 0 for k, d in enumerate(known)]
    for k, actual in enumerate(found):
        right = _along(jacobians, used, k).reshape(actual.shape)
        if np.isfinite(right).all():
            scale = float(np.abs(right).max(initial=0.0))
            name = f"tangent of {audit.subject.output_name(k, len(found))}"
            compare(actual, right, name, when, **audit.close(right, scale))


def _compare_with_backward(
    audit: Audit, tangents: _Tangents, directions: list[Tensor], outputs: list[Tensor]
) -> None:
    """Checks for each output that <seed, tangent> is <gradient, direction>."""
    leaves = audit.fresh()
    outputs = [o for o in audit.subject.run(leaves) if o.dtype.is_floating_point]
    targets = audit.targets(leaves)
    found = tangents.arrays([d.clone() for d in directions], "")
    rtol = audit.tight[0]
    for k, output in enumerate(outputs):
        if not output.requires_grad:
            continue
        seed = audit.draw(output)
        try:
            grads = audit.gradients([output], targets, [seed], retain_graph=True)
        except Exception:  # gradcheck reports it
            return
        by_backward = [
            array(g) * array(d)
            for g, d in zip(grads, directions, strict=True)
            if g is not None and g.shape == d.shape
        ]
        by_forward = array(seed) * found[k]
        size = np.abs(by_forward).sum() + sum(np.abs(p).sum() for p in by_backward)
        right = np.asarray(sum((p.sum() for p in by_backward), 0.0))
        if np.isfinite(right):
            name = f"tangent of {audit.subject.output_name(k, len(outputs))}"
            when = "times a random gradient "
            compare(np.asarray(by_forward.sum()), right, name, when, atol=rtol * max(1.0, size))


def _compare_layouts(audit: Audit, tangents: _Tangents, directions: list[Tensor]) -> None:
    """Checks that strides of inputs, which tangents share, change nothing; nor is one written."""
    before = [array(d) for d in directions]
    tangents.arrays(directions, "")
    for name, d, values in zip(tangents.names, directions, before, strict=True):
        compare(array(d), values, f"tangent of {name}", "was written: ")
    for label, changes in input_variants(audit):
        when = f"with {label} "
        copied = {i: value.clone().contiguous() for i, value in changes.items()}
        try:
            expected = tangents.arrays([d.clone() for d in directions], when, copied)
            tangents.run(directions, changes)
        except Exception:  # input_layouts reports what is refused
            continue
        found = tangents.arrays([d.clone() for d in directions], when, changes)
        for k, (actual, right) in enumerate(zip(found, expected, strict=True)):
            name = f"tangent of {audit.subject.output_name(k, len(found))}"
            compare(actual, right, name, when, **audit.tolerance(right))


# ---------------------------------------------------------------------- second derivatives


class _Mixed:
    """Second derivatives along fixed directions, by each order of the modes and by differences."""

    def __init__(self, audit: Audit) -> None:
        subject = audit.subject
        leaves, self.seeds, _, self.rows = second(audit)
        self.x = [t.detach() for t in audit.targets(leaves)]
        self.seeds = [s.detach() for s in self.seeds]
        self.names = [subject.names[i] for i in subject.targets]
        self.count = len(self.x)
        self.v = [audit.draw(t) for t in self.x]
        self.w = [
            _known(rows, audit.draw(t))
            for rows, t in zip(self.rows, [*self.x, *self.seeds], strict=True)
        ]
        kept = [k for k, o in enumerate(subject.run(audit.fresh())) if o.requires_grad]

        def outputs(*x: Tensor) -> tuple[Tensor, ...]:
            work = audit.fresh(())
            for i, value in zip(subject.targets, x, strict=True):
                work[i] = value
            found = subject.run(work)
            return tuple(found[k] for k in kept)

        self.outputs = outputs

    def gradients(self, *args: Tensor) -> tuple[Tensor, ...]:
        """Returns the gradients, as a function of the inputs and of the incoming gradients."""
        pull = vjp(self.outputs, *args[: self.count])[1]
        return tuple(pull(tuple(args[self.count :])))

    def tangents(self, *args: Tensor) -> tuple[Tensor, ...]:
        """Returns the tangents, as a function of the inputs and of their tangents."""
        x, v = args[: self.count], args[self.count :]
        return tuple(jvp(self.outputs, tuple(x), tuple(v))[1])

    def by_differences(self, variable: int) -> Any:
        """Returns d <gradients, v> / d variable, for the elements that were varied."""
        values = self.rows[variable].values
        return sum(m @ array(v).reshape(-1) for m, v in zip(values, self.v, strict=True))

    def forward_over_reverse(self) -> Iterator[tuple[str, Any, Any]]:
        """Yields (name, tangent of a gradient, the same by differences)."""
        found = jvp(self.gradients, (*self.x, *self.seeds), tuple(self.w))[1]
        for k, value in enumerate(found):
            name = f"gradient of {self.names[k]}"
            yield name, array(value).reshape(-1), _along(self.rows, self.w, k)

    def reverse_over_forward(self) -> Iterator[tuple[str, Any, Any]]:
        """Yields (name, gradient of the tangents, the same by differences)."""
        pull = vjp(self.tangents, *self.x, *self.v)[1]
        grads = pull(tuple(self.seeds))
        for k, value in enumerate(grads[: self.count]):
            flat = array(value).reshape(-1)[self.rows[k].elements]
            yield f"tangents by {self.names[k]}", flat, self.by_differences(k)
        right = self.gradients(*self.x, *self.seeds)
        for k, value in enumerate(grads[self.count :]):
            name = f"tangents by the tangent of {self.names[k]}"
            yield name, array(value), array(right[k])

    def forward_over_forward(self) -> Iterator[tuple[str, Any, Any]]:
        """Yields the tangent of the tangents along w, times the incoming gradients."""
        still = [v * 0 for v in self.v]
        directions = (*self.w[: self.count], *still)
        found = jvp(self.tangents, (*self.x, *self.v), directions)[1]
        pairs = zip(found, self.seeds, strict=True)
        right = sum(
            array(w).reshape(-1)[self.rows[k].elements] @ self.by_differences(k)
            for k, w in enumerate(self.w[: self.count])
        )
        yield (
            "tangents",
            np.asarray(sum(float((array(t) * array(s)).sum()) for t, s in pairs)),
            np.asarray(right),
        )


def check_mixed_modes(audit: Audit) -> str:
    """Compares forward over reverse, reverse over forward and forward over forward."""
    audit.need_gradient()
    if not audit.options.second_order:
        raise Inapplicable("second_order=False was passed")
    mixed = _Mixed(audit)
    orders: dict[str, Callable[[], Iterator[tuple[str, Any, Any]]]] = {
        "forward over reverse": mixed.forward_over_reverse,
        "reverse over forward": mixed.reverse_over_forward,
        "forward over forward": mixed.forward_over_forward,
    }
    done, refused = [], []
    for order, run in orders.items():
        try:
            results = list(run())
        except Exception as error:
            refused.append(f"{order} is refused: {raised(error)}")
            continue
        done.append(order)
        for name, actual, right in results:
            right = np.broadcast_to(right, actual.shape)
            if np.isfinite(right).all():
                scale = float(np.abs(right).max(initial=0.0))
                where = f"derivative of {name}"
                compare(actual, right, where, f"by {order} ", **audit.close(right, scale))
    if not done:
        raise Inapplicable("; ".join(refused))
    return ", ".join([*done, *refused])
