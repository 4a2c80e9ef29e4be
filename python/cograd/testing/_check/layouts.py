# SPDX-License-Identifier: BSD-3-Clause
"""Checks with unusual memory layouts, missing gradients and subsets of the inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import cograd
from cograd import Tensor
from cograd.autograd._gradcheck_run import _no_grad_point

from .audit import Audit, copies, raised, subsets
from .report import Fault, Inapplicable, Remark
from .subject import array, compare

__all__ = [
    "check_empty",
    "check_incoming_gradients",
    "check_input_layouts",
    "check_missing_gradients",
    "check_needs_input_grad",
    "input_variants",
]


def permuted(tensor: Tensor) -> Tensor:
    """Returns the same values with the dimensions stored in the opposite order."""
    order = list(reversed(range(tensor.dim())))
    return tensor.permute(order).contiguous().permute(order)


def spread(tensor: Tensor) -> Tensor:
    """Returns the same values in every second element of a longer tensor, from the second on."""
    wide = tensor.new_full((*tensor.shape[:-1], 2 * tensor.shape[-1]), 77)
    place = wide[..., 1::2]
    place.copy_(tensor)
    return place


def _stored(tensor: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yields the values of ``tensor`` in other layouts."""
    if tensor.dim() > 1 and tensor.numel() > 1:
        yield "permuted", permuted(tensor)
    if tensor.dim() > 0 and tensor.numel() > 1:
        yield "non-contiguous (every second element)", spread(tensor)


def _repeated(tensor: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yields tensors of that shape whose elements share memory."""
    if tensor.numel() < 2:
        return
    yield "expanded (stride 0)", tensor.reshape(-1)[0].clone().expand(tuple(tensor.shape))
    if tensor.dim() > 1:
        for dim in range(tensor.dim()):
            if tensor.shape[dim] > 1:
                row = tensor.narrow(dim, 0, 1).clone().expand(tuple(tensor.shape))
                yield f"expanded over dimension {dim} (stride 0)", row


def _seed_variants(seeds: Sequence[Tensor | None]) -> Iterator[tuple[str, list[Tensor | None]]]:
    """Yields all seeds in one layout, for each layout."""
    variants: dict[str, list[Tensor | None]] = {}
    for i, seed in enumerate(seeds):
        if seed is None:
            continue
        for label, value in (*_repeated(seed), *_stored(seed)):
            variants.setdefault(label, list(seeds))[i] = value
    yield from variants.items()


def _compare_gradients(
    audit: Audit,
    outputs: Sequence[Tensor],
    targets: Sequence[Tensor],
    seeds: Sequence[Tensor | None],
    expected: Sequence[Any],
    situation: str,
) -> None:
    """Raises a Fault unless the gradients for these seeds are the expected ones."""
    try:
        grads = audit.gradients(outputs, targets, seeds)
    except Exception as error:
        raise Fault("backward", f"{situation}: {raised(error)}") from error
    found = audit.arrays(grads, targets)
    for i, actual, right in zip(audit.subject.targets, found, expected, strict=True):
        name = f"gradient of {audit.subject.names[i]}"
        compare(actual, right, name, f"{situation} ", **audit.tolerance(right))


def check_incoming_gradients(audit: Audit) -> str:
    """Checks that strides of incoming gradients do not change the results."""
    subject = audit.subject
    _, plain, _ = audit.reference
    tried = []
    for label, seeds in _seed_variants(plain):
        leaves = audit.fresh()
        targets = audit.targets(leaves)
        outputs = subject.run(leaves)
        expected = audit.arrays(
            audit.gradients(outputs, targets, copies(seeds), retain_graph=True), targets
        )
        before = [None if s is None else array(s) for s in seeds]
        _compare_gradients(
            audit, outputs, targets, seeds, expected, f"with an incoming gradient that is {label}"
        )
        for k, (seed, values) in enumerate(zip(seeds, before, strict=True)):
            if seed is not None:
                compare(
                    array(seed),
                    values,
                    f"incoming gradient of {subject.output_name(k, len(seeds))}",
                    f"({label}) was written by backward: ",
                )
        tried.append(label)
    if not tried:
        raise Inapplicable("the outputs have one element each: there is one layout")
    return ", ".join(tried)


def check_missing_gradients(audit: Audit) -> str:
    """Checks that an output without gradient is equivalent to one with a gradient of zeros."""
    subject = audit.subject
    _, plain, _ = audit.reference
    present = [i for i, seed in enumerate(plain) if seed is not None]
    for used in reversed(list(subsets(len(present)))):
        keep = {present[k] for k in used}
        leaves = audit.fresh()
        targets = audit.targets(leaves)
        outputs = subject.run(leaves)
        zeros = [
            s if s is None or i in keep else s.new_zeros(tuple(s.shape))
            for i, s in enumerate(copies(plain))
        ]
        expected = audit.arrays(
            audit.gradients(outputs, targets, zeros, retain_graph=True), targets
        )
        missing = [i for i in present if i not in keep]
        names = ", ".join(subject.output_name(i, len(plain)) for i in missing)
        if keep:
            seeds = [s if i in keep else None for i, s in enumerate(copies(plain))]
        else:  # all are missing: add a node after each output whose backward returns None
            seeds = copies(plain)
            point = _no_grad_point()
            outputs = [o if s is None else point.apply(o) for o, s in zip(outputs, plain)]
        _compare_gradients(
            audit, outputs, targets, seeds, expected, f"without a gradient for {names}"
        )
    return f"None for {len(present)} output{'s' if len(present) > 1 else ''}"


# ---------------------------------------------------------------------- inputs


def input_variants(audit: Audit) -> Iterator[tuple[str, dict[int, Tensor]]]:
    """Yields replacements of inputs, with a description."""
    subject = audit.subject
    leaves = audit.fresh(())
    everything: dict[int, Tensor] = {}
    for i in subject.tensors:
        for label, value in _stored(leaves[i]):
            yield f"{subject.names[i]} {label}", {i: value}
            everything[i] = value
        if i not in subject.mutated:
            for label, value in _repeated(leaves[i]):
                yield f"{subject.names[i]} {label}", {i: value}
    if len(everything) > 1:
        yield "all inputs non-contiguous", everything


def _outcome(audit: Audit, leaves: list[Any], plain: Sequence[Tensor | None]) -> Any:
    """Returns outputs and gradients as arrays, for fixed seeds."""
    outputs = audit.subject.run(leaves)
    targets = audit.targets(leaves)
    values = [array(o) for o in outputs]
    seeds = [
        s if s is not None and o.requires_grad and s.shape == o.shape else None
        for o, s in zip(outputs, copies(plain))
    ]
    return values, audit.arrays(audit.gradients(outputs, targets, seeds), targets)


def _match(audit: Audit, got: Any, right: Any, when: str) -> None:
    subject = audit.subject
    for k, (a, b) in enumerate(zip(got[0], right[0], strict=True)):
        compare(a, b, subject.output_name(k, len(right[0])), when, **audit.tolerance(b))
    for i, a, b in zip(subject.targets, got[1], right[1], strict=True):
        compare(a, b, f"gradient of {subject.names[i]}", when, **audit.tolerance(b))


def _with(audit: Audit, changes: dict[int, Tensor], copied: bool) -> list[Any]:
    """Returns fresh inputs with some replaced, directly or by contiguous copies."""
    leaves = audit.fresh()
    for i, value in changes.items():
        value = value.detach()
        value = value.clone().contiguous() if copied else value
        leaves[i] = value.requires_grad_() if i in audit.subject.targets else value
    return leaves


def check_input_layouts(audit: Audit) -> str:
    """Checks that strides of inputs do not change the results."""
    try:
        plain = audit.reference[1]
    except Inapplicable:
        plain = [None] * len(audit.subject.run(audit.fresh(())))
    tried = []
    for label, changes in input_variants(audit):
        try:
            right = _outcome(audit, _with(audit, changes, True), plain)
        except Exception:  # the callable rejects these values, independent of their layout
            continue
        try:
            got = _outcome(audit, _with(audit, changes, False), plain)
        except Exception as error:
            detail = f"raised {raised(error)}, but a contiguous copy is accepted"
            raise Remark(label, detail) from error
        _match(audit, got, right, f"with {label} ")
        tried.append(label)
    tried += _shared_inputs(audit, plain)
    if not tried:
        raise Inapplicable("no tensor argument has more than one element")
    return f"{len(tried)} layouts"


def _shared_inputs(audit: Audit, plain: Sequence[Tensor | None]) -> list[str]:
    """Passes one tensor for two arguments: its gradient must be the sum of theirs."""
    subject = audit.subject
    tried: list[str] = []
    base = audit.fresh(())
    for a, i in enumerate(subject.targets):
        for b, j in list(enumerate(subject.targets))[a + 1 :]:
            if {i, j} & subject.mutated or base[i].shape != base[j].shape:
                continue
            try:
                right = _outcome(audit, _with(audit, {j: base[i]}, True), plain)
            except Exception:
                continue
            leaves = audit.fresh()
            leaves[j] = leaves[i]
            got = _outcome(audit, leaves, plain)
            total = right[1][a] + right[1][b]
            when = f"with one tensor as both {subject.names[i]} and {subject.names[j]} "
            for k, (x, y) in enumerate(zip(got[0], right[0], strict=True)):
                compare(x, y, subject.output_name(k, len(got[0])), when, **audit.tolerance(y))
            where = f"gradient of {subject.names[i]}"
            compare(got[1][a], total, where, when, **audit.tolerance(total))
            tried.append(when)
    return tried


# ---------------------------------------------------------------------- subsets


def check_needs_input_grad(audit: Audit) -> str:
    """Checks every subset of inputs that require grad or get a gradient; also none, and no_grad."""
    subject = audit.subject
    values, seeds, expected = audit.reference
    count = len(subject.targets)
    for chosen in subsets(count):
        positions = [subject.targets[k] for k in chosen]
        names = ", ".join(subject.names[i] for i in positions)
        when = f"when only {names} requires grad " if chosen else "when no input requires grad "
        leaves = audit.fresh(positions)
        try:
            outputs = subject.run(leaves)
            for k, (output, value) in enumerate(zip(outputs, values, strict=True)):
                where = subject.output_name(k, len(values))
                compare(array(output), value, where, when, **audit.tolerance(value))
                if output.requires_grad and not chosen and not subject.may_hold_parameters:
                    raise Fault(where, "requires grad although no input does")
            if not chosen:
                continue
            inputs = [leaves[i] for i in positions]
            partial = [s if o.requires_grad else None for s, o in zip(seeds, outputs, strict=True)]
            _match_some(audit, outputs, inputs, partial, chosen, expected, when)
            full = audit.fresh()
            when = f"when only the gradient of {names} is asked for "
            inputs = [full[i] for i in positions]
            _match_some(audit, subject.run(full), inputs, seeds, chosen, expected, when)
        except Fault:
            raise
        except Exception as error:
            raise Fault("call or backward", f"{when}raised {raised(error)}") from error
    with cograd.no_grad():
        for k, (output, value) in enumerate(zip(subject.run(audit.fresh(())), values, strict=True)):
            where = subject.output_name(k, len(values))
            compare(array(output), value, where, "under no_grad ", **audit.tolerance(value))
    _unasked_gradients(audit, seeds)
    return f"{sum(1 for _ in subsets(count))} subsets, no_grad"


def _match_some(
    audit: Audit,
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    seeds: Sequence[Tensor | None],
    chosen: Sequence[int],
    expected: Sequence[Any],
    when: str,
) -> None:
    grads = audit.gradients(outputs, inputs, copies(seeds))
    for k, actual in zip(chosen, audit.arrays(grads, inputs), strict=True):
        where = f"gradient of {audit.subject.names[audit.subject.targets[k]]}"
        compare(actual, expected[k], where, when, **audit.tolerance(expected[k]))


def _unasked_gradients(audit: Audit, seeds: Sequence[Tensor | None]) -> None:
    """Raises a Remark if a Python backward computes gradients that are not needed."""
    subject = audit.subject
    cls = subject.fn
    if not subject.is_function or cls._style == "instance" or cls.pytree:
        return
    if len(subject.targets) < 2 or len(subject.leaves) != len(set(subject.roots)):
        return
    wasted: set[int] = set()

    def backward(ctx: Any, *grads: Any) -> Any:
        result = cls.backward(ctx, *grads)
        flat = result if isinstance(result, tuple) else (result,)
        for k, (grad, needed) in enumerate(zip(flat, ctx.needs_input_grad)):
            passed_on = grad is None or any(grad is g for g in grads)
            if not needed and not passed_on and k in subject.targets:
                wasted.add(k)
        return result

    probe: Any = type(cls.__name__, (cls,), {"backward": staticmethod(backward)})
    call, subject.call = subject.call, probe.apply
    try:
        for i in subject.targets:
            leaves = audit.fresh([i])
            outputs = subject.run(leaves)
            partial = [s if o.requires_grad else None for s, o in zip(seeds, outputs, strict=True)]
            audit.gradients(outputs, [leaves[i]], partial)
    finally:
        subject.call = call
    if wasted:
        names = ", ".join(subject.names[i] for i in sorted(wasted))
        raise Remark(
            f"gradient of {names}",
            "is computed although it is not needed: look at ctx.needs_input_grad",
        )


# ---------------------------------------------------------------------- empty and 0-dim


def _resized(audit: Audit, shape_of: Any) -> list[Any]:
    """Returns inputs whose floating tensors have other shapes, with values of the given ones."""
    leaves = audit.fresh()
    for i in audit.subject.targets:
        old = leaves[i].detach()
        shape = shape_of(tuple(old.shape))
        count = int(np.prod(shape))
        leaves[i] = old.reshape(-1)[:count].reshape(shape).clone().requires_grad_()
    return leaves


def check_empty(audit: Audit) -> str:
    """Checks gradients for empty and 0-dim tensors, if they are accepted."""
    subject = audit.subject
    audit.need_gradient()
    said = []
    shapes = {
        "empty": lambda shape: (0, *shape[1:]) if shape else shape,
        "empty in the last dimension": lambda shape: (*shape[:-1], 0) if shape else shape,
        "0-dim": lambda shape: () if shape and np.prod(shape) else shape,
    }
    done: list[Any] = [[tuple(subject.leaves[i].shape) for i in subject.targets]]
    for label, shape_of in shapes.items():
        leaves = _resized(audit, shape_of)
        now = [tuple(leaves[i].shape) for i in subject.targets]
        if now in done:
            continue
        done.append(now)
        try:
            outputs = subject.run(leaves)
        except Exception as error:
            said.append(f"{label}: refused ({type(error).__name__})")
            continue
        targets = audit.targets(leaves)
        try:
            grads = audit.gradients(outputs, targets, audit.seeds(outputs), retain_graph=True)
        except Exception as error:
            raise Fault(
                "backward", f"forward takes {label} inputs, backward raised {raised(error)}"
            ) from error
        for i, grad, target in zip(subject.targets, grads, targets, strict=True):
            if grad is not None and grad.shape != target.shape:
                where = f"gradient of {subject.names[i]}"
                raise Fault(
                    where, f"{label}: shape {tuple(grad.shape)}, expected {tuple(target.shape)}"
                )
        _small_gradcheck(audit, leaves, outputs, label)
        said.append(f"{label}: accepted")
    if not said:
        raise Inapplicable("the arguments are empty or 0-dim already")
    return ", ".join(said)


def _small_gradcheck(
    audit: Audit, leaves: list[Any], outputs: Sequence[Tensor], label: str
) -> None:
    """Compares gradients with finite differences along all elements of the changed inputs."""
    subject = audit.subject
    kept = [k for k, o in enumerate(outputs) if o.requires_grad and o.dtype.is_floating_point]
    if not kept or any(outputs[k].dtype is not audit.dtype for k in kept):
        return
    targets = audit.targets(leaves)
    seeds = [audit.draw(outputs[k]) for k in kept]
    grads = audit.gradients([outputs[k] for k in kept], targets, seeds)

    def run() -> list[Any]:
        values = subject.run(leaves)
        return [array(values[k]) for k in kept]

    for i, actual, target in zip(
        subject.targets, audit.arrays(grads, targets), targets, strict=True
    ):
        rows = audit.numerical(run, target)
        right = np.zeros(len(rows.elements))
        for seed, matrix in zip(seeds, rows.values, strict=True):
            right = right + matrix @ array(seed).reshape(-1)
        if not np.isfinite(right).all():
            continue
        where = f"gradient of {subject.names[i]}"
        got = actual.reshape(-1)[rows.elements]
        compare(got, right, where, f"with {label} inputs ", **audit.close(right, 0.0))
