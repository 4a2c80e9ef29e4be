# SPDX-License-Identifier: BSD-3-Clause
"""Checks of side effects of a call: writes, aliases, state, memory, threads."""

from __future__ import annotations

import gc
import pickle
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import cograd
from cograd import _C, Tensor
from cograd._tensor.memory import overlap

from .audit import Audit, copies, raised
from .report import Fault, Inapplicable, Remark
from .subject import Subject, array, compare, tensors_in

__all__ = [
    "check_aliasing",
    "check_determinism",
    "check_leaks",
    "check_pickle",
    "check_reuse",
    "check_threads",
    "check_writes",
]


# ---------------------------------------------------------------------- writes


def writable(subject: Subject, leaves: Sequence[Any]) -> list[Any]:
    """Returns leaves that may be written in place: copies of those that require grad."""
    return [
        leaf.clone() if isinstance(leaf, Tensor) and leaf.requires_grad else leaf for leaf in leaves
    ]


def find_writes(subject: Subject, leaves: Sequence[Any]) -> tuple[Any, dict[int, Fault | None]]:
    """Calls once; returns, for every written tensor argument, the fault if it is not allowed."""
    work = writable(subject, leaves)
    before = {i: (array(work[i]), work[i]._version) for i in subject.tensors}
    result = subject.invoke(work)
    outputs = tensors_in(result)
    found: dict[int, Fault | None] = {}
    for i, (values, version) in before.items():
        returned = any(output is work[i] for output in outputs)
        try:
            compare(array(work[i]), values, subject.names[i], "was written: ")
        except Fault as fault:
            found[i] = fault
            if i in subject.declared or (returned and work[i]._version > version):
                found[i] = None
                if work[i]._version == version:
                    found[i] = Fault(
                        subject.names[i],
                        "is written, but its version did not change: a backward that saved it "
                        "would silently use the new values",
                    )
        else:
            if i in subject.declared:
                found[i] = None
    return result, found


def check_writes(audit: Audit) -> str:
    """Checks that forward writes only declared arguments, and backward writes nothing."""
    subject = audit.subject
    modes: list[tuple[str, Any, Any]] = [
        ("", cograd.enable_grad(), None),
        ("under no_grad: ", cograd.no_grad(), ()),
    ]
    for when, mode, requires in modes:
        with mode:
            _, found = find_writes(subject, audit.fresh(requires))
        for fault in found.values():
            if fault is not None:
                raise Fault(fault.where, when + fault.detail, fault.amount)
    seeds = _seeds_or_none(audit)
    if not any(seed is not None for seed in seeds):
        return "forward, no_grad"
    leaves = audit.fresh()
    outputs = subject.run(leaves)
    watched = [(subject.names[i], leaves[i]) for i in subject.tensors]
    watched += [(subject.output_name(k, len(outputs)), o) for k, o in enumerate(outputs)]
    watched += [
        (f"incoming gradient of {subject.output_name(k, len(outputs))}", seed)
        for k, seed in enumerate(seeds)
        if seed is not None
    ]
    before = [array(tensor) for _, tensor in watched]
    audit.gradients(outputs, audit.targets(leaves), seeds)
    for (name, tensor), values in zip(watched, before, strict=True):
        compare(array(tensor), values, name, "was written by backward: ")
    return "forward, no_grad, backward"


# ---------------------------------------------------------------------- aliasing


def _root(tensor: Tensor) -> Tensor:
    base = tensor._base if tensor._is_view() else None
    return tensor if base is None else base


def find_aliases(subject: Subject, leaves: Sequence[Any], strict: bool) -> None:
    """Raises Fault if an output shares memory with an argument or output without a view.

    Args:
        strict: also raise if the output is a view (for ops of a library).
    """
    work = writable(subject, leaves)
    outputs = tensors_in(subject.invoke(work))
    for k, output in enumerate(outputs):
        name = subject.output_name(k, len(outputs))
        for i in subject.tensors:
            written = output is work[i] and (i in subject.mutated or i in subject.declared)
            same = output._is_view() and _root(output) is _root(work[i])
            known = same or output is work[i]
            if overlap(output, work[i]) and not written and (strict or not known):
                what = "is" if output is work[i] else "shares memory with"
                raise Fault(name, f"{what} the argument {subject.names[i]}; return a clone")
        for m, other in enumerate(outputs[:k]):
            known = output is other or _root(output) is _root(other)
            if overlap(output, other) and (strict or not known):
                other_name = subject.output_name(m, len(outputs))
                raise Fault(name, f"shares memory with {other_name}; return a clone")


def check_aliasing(audit: Audit) -> str:
    """Checks that outputs share memory with nothing, unless they are views in the graph."""
    subject = audit.subject
    strict = getattr(subject.fn, "_forbids_aliases", False)
    if not audit.options.may_alias:
        find_aliases(subject, audit.fresh(), strict)
        with cograd.no_grad():
            leaves = audit.fresh(())
            if strict or subject.is_function:
                find_aliases(subject, leaves, strict)
    first = subject.run(audit.fresh())
    kept = [array(output) for output in first]
    second = subject.run(audit.fresh(shift=0.1))
    for k, (output, values) in enumerate(zip(first, kept, strict=True)):
        name = subject.output_name(k, len(first))
        compare(array(output), values, name, "of one call was overwritten by the next: ")
        if k < len(second) and overlap(output, second[k]):
            raise Fault(name, "uses the same memory in two calls, both alive")
    return ""


# ---------------------------------------------------------------------- repetition


def _run(audit: Audit, leaves: list[Any], seeds: Sequence[Tensor | None]) -> list[Any]:
    """Returns outputs, then gradients, as arrays."""
    outputs = audit.subject.run(leaves)
    targets = audit.targets(leaves)
    values = [array(o) for o in outputs]
    return values + audit.arrays(audit.gradients(outputs, targets, copies(seeds)), targets)


def _labels(audit: Audit, outputs: int) -> list[str]:
    subject = audit.subject
    names = [subject.output_name(k, outputs) for k in range(outputs)]
    return names + [f"gradient of {subject.names[i]}" for i in subject.targets]


def _seeds_or_none(audit: Audit) -> list[Tensor | None]:
    """Returns the reference seeds; None for every output if backward is impossible or fails.

    The gradient checks report a backward that fails.
    """
    try:
        return audit.reference[1]
    except Exception:
        return [None] * len(audit.subject.run(audit.fresh()))


def _same(
    got: Sequence[Any], right: Sequence[Any], labels: list[str], when: str, tol: float
) -> None:
    for label, a, b in zip(labels, got, right, strict=True):
        compare(a, b, label, when, atol=tol)


def check_determinism(audit: Audit) -> str:
    """Checks that the same call returns the same outputs and gradients, to the last bit."""
    seeds = _seeds_or_none(audit)
    tol = audit.options.nondet_tol
    right = _run(audit, audit.fresh(), seeds)
    labels = _labels(audit, len(seeds))
    for _ in range(3):
        _same(_run(audit, audit.fresh(), seeds), right, labels, "of the same call again ", tol)
    return "4 runs"


def check_reuse(audit: Audit) -> str:
    """Checks that backward runs again on a retained graph, undisturbed by calls in between."""
    subject = audit.subject
    _, seeds, _ = audit.reference
    tol = audit.options.nondet_tol
    names = [f"gradient of {subject.names[i]}" for i in subject.targets]
    leaves = audit.fresh()
    targets = audit.targets(leaves)
    outputs = subject.run(leaves)

    def backward(retain: bool) -> list[Any]:
        grads = audit.gradients(outputs, targets, copies(seeds), retain_graph=retain)
        return audit.arrays(grads, targets)

    right = backward(True)
    _same(backward(True), right, names, "of a second backward (retain_graph) ", tol)
    _same(backward(False), right, names, "of a third backward (retain_graph) ", tol)
    one, two = audit.fresh(), audit.fresh(shift=0.1)
    alone = [_run(audit, leaves, seeds)[len(seeds) :] for leaves in (one, two)]
    for order in ((0, 1), (1, 0)):
        inputs = [audit.fresh(), audit.fresh(shift=0.1)]
        results = [subject.run(leaves) for leaves in inputs]
        for k in order:
            targets = audit.targets(inputs[k])
            grads = audit.gradients(results[k], targets, copies(seeds))
            got = audit.arrays(grads, targets)
            _same(got, alone[k], names, "with another call between forward and backward ", tol)
    return "3 backwards, 2 interleaved calls"


# ---------------------------------------------------------------------- leaks


def _live_tensors() -> int:
    """Counts tensors that Python's collector tracks, or that a tracked object holds.

    The collector does not track a tensor without history, but the list or dict that holds it.
    """
    kinds: set[type] = {Tensor}
    new = [Tensor]
    while new:
        new = [sub for kind in new for sub in type.__subclasses__(kind) if sub not in kinds]
        kinds.update(new)
    known = gc.get_objects()
    found = {id(obj) for obj in known if type(obj) in kinds}
    found |= {id(obj) for obj in gc.get_referents(*known) if type(obj) in kinds}
    return len(found)


class _Inputs:
    """Creates inputs in NumPy's memory, whose weak references show when they are freed."""

    def __init__(self, audit: Audit) -> None:
        self.audit = audit
        self.refs: list[weakref.ref[Any]] = []

    def make(self) -> list[Any]:
        leaves = self.audit.fresh()
        for i in self.audit.subject.targets:
            if leaves[i].dtype in (cograd.float64, cograd.float32) and leaves[i].is_cpu:
                values = leaves[i].detach().numpy().copy()
                self.refs.append(weakref.ref(values))
                leaves[i] = cograd.from_numpy(values).requires_grad_()
        return leaves

    def alive(self) -> int:
        return sum(ref() is not None for ref in self.refs)


def _leak_loop(audit: Audit, step: Callable[[list[Any]], None], what: str) -> str:
    """Repeats a step. Raises Fault for leaks; returns a text if the collector had to free."""
    count = audit.options.iterations
    step(audit.fresh())  # creates objects that are created only once
    gc.collect()
    nodes, tensors = _C._live_nodes(), _live_tensors()
    inputs = _Inputs(audit)
    enabled = gc.isenabled()
    gc.disable()
    try:
        for _ in range(count):
            step(inputs.make())
        before = (_C._live_nodes() - nodes, inputs.alive())
    finally:
        if enabled:
            gc.enable()
    gc.collect()
    left = {
        "graph nodes": _C._live_nodes() - nodes,
        "inputs": inputs.alive(),
        "tensors": _live_tensors() - tensors,
    }
    kept = [f"{n} {kind}" for kind, n in left.items() if n >= max(2, count // 2)]
    if kept:
        raise Fault(what, f"{count} calls leave {', '.join(kept)} that nothing frees")
    if max(before) >= max(2, count // 2):
        return (
            f"{what}: {count} calls leave {before[0]} graph nodes and {before[1]} inputs until the "
            "garbage collector runs: a reference cycle, such as ctx.y = output (use "
            "save_for_backward) or a hook that holds its own tensor"
        )
    return ""


def check_leaks(audit: Audit) -> str:
    """Checks that many calls leave no graph node, tensor or input behind."""
    subject = audit.subject
    seeds = _seeds_or_none(audit)

    def forward(leaves: list[Any]) -> None:
        subject.run(leaves)

    def both(leaves: list[Any]) -> None:
        outputs = subject.run(leaves)
        audit.gradients(outputs, audit.targets(leaves), copies(seeds))

    remarks = [_leak_loop(audit, forward, "forward")]
    if any(seed is not None for seed in seeds):
        remarks.append(_leak_loop(audit, both, "forward and backward"))
    for remark in remarks:
        if remark:
            where, _, detail = remark.partition(": ")
            raise Remark(where, detail)
    return f"{audit.options.iterations} calls"


# ---------------------------------------------------------------------- threads


def check_threads(audit: Audit) -> str:
    """Checks that two threads with different inputs get the results that each gets alone."""
    seeds = _seeds_or_none(audit)
    tol = audit.options.nondet_tol
    labels = _labels(audit, len(seeds))
    alone = [_run(audit, audit.fresh(shift=shift), seeds) for shift in (0.0, 0.1)]
    again = _run(audit, audit.fresh(), seeds)
    if any(not np.array_equal(a, b, equal_nan=True) for a, b in zip(alone[0], again)):
        raise Inapplicable("the callable is not deterministic")
    start = time.monotonic()
    rounds, stop = [0, 0], [False]

    def decide() -> None:
        stop[0] = rounds[0] >= 200 or time.monotonic() > start + 0.5

    barrier = threading.Barrier(2, action=decide)
    faults: list[Exception] = []

    def work(k: int) -> None:
        try:
            while True:
                leaves = audit.fresh(shift=0.1 * k)
                barrier.wait()  # both threads begin a round together
                if stop[0]:
                    return
                outputs = audit.subject.run(leaves)
                values = [array(o) for o in outputs]
                if rounds[k] % 2:
                    barrier.wait()  # both forwards are over, both backwards begin
                targets = audit.targets(leaves)
                grads = audit.arrays(audit.gradients(outputs, targets, copies(seeds)), targets)
                _same(values + grads, alone[k], labels, "in one of two threads ", tol)
                rounds[k] += 1
        except threading.BrokenBarrierError:
            pass
        except Exception as error:
            faults.append(error)
            barrier.abort()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # so that threads switch in the middle of Python functions
    try:
        threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    for error in faults:
        if isinstance(error, Fault):
            raise error
        raise Fault("call", f"in one of two threads raised {raised(error)}") from error
    return f"{sum(rounds)} calls in 2 threads"


# ---------------------------------------------------------------------- pickle


def check_pickle(audit: Audit) -> str:
    """Checks that arguments and outputs can be pickled, and the callable by its name."""
    subject = audit.subject
    leaves = audit.fresh()
    for i in subject.tensors:
        _round_trip(leaves[i], subject.names[i])
    outputs = subject.run(audit.fresh())
    for k, output in enumerate(outputs):
        _round_trip(output.detach(), subject.output_name(k, len(outputs)))
    name = getattr(subject.fn, "__qualname__", "")
    if "<" in name:
        return "arguments and outputs; the callable is local to a function"
    module = getattr(subject.fn, "__module__", None)
    if module == "__main__" and not hasattr(sys.modules[module], name.partition(".")[0]):
        return "arguments and outputs; the callable is in no module"
    try:
        back = pickle.loads(pickle.dumps(subject.fn))
    except Exception as error:
        if not isinstance(subject.fn, type) and not hasattr(subject.fn, "_qualname"):
            return f"arguments and outputs; the callable is not picklable ({raised(error)})"
        raise Fault("the callable", f"cannot be pickled by its name: {raised(error)}") from error
    if isinstance(subject.fn, type) and back is not subject.fn:
        raise Fault("the callable", f"pickle gives back another class, {back!r}")
    return "arguments, outputs, the callable"


def _round_trip(tensor: Tensor, name: str) -> None:
    try:
        back = pickle.loads(pickle.dumps(tensor))
    except Exception as error:
        raise Fault(name, f"cannot be pickled: {raised(error)}") from error
    if type(back) is not type(tensor) or back.dtype != tensor.dtype:
        detail = f"comes back from pickle as {type(back).__name__} of {back.dtype}"
        raise Fault(name, f"{detail}, expected {type(tensor).__name__} of {tensor.dtype}")
    if back.requires_grad != tensor.requires_grad:
        raise Fault(name, f"comes back from pickle with requires_grad={back.requires_grad}")
    compare(array(back), array(tensor), name, "after pickle ")
