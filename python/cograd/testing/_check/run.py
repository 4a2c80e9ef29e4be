# SPDX-License-Identifier: BSD-3-Clause
"""check: one call that audits a differentiable operation."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import cograd
from cograd import _C

from .audit import Audit, Options, raised
from .batching import check_batched_derivatives, check_vmap
from .behaviour import (
    check_aliasing,
    check_determinism,
    check_leaks,
    check_pickle,
    check_reuse,
    check_threads,
    check_writes,
    find_writes,
)
from .derivatives import check_create_graph, check_gradcheck, check_gradgradcheck
from .forward import check_forward_mode, check_mixed_modes
from .layouts import (
    check_empty,
    check_incoming_gradients,
    check_input_layouts,
    check_missing_gradients,
    check_needs_input_grad,
)
from .precision import make_precision_check
from .report import CheckError, CheckReport, CheckResult, Fault, Inapplicable, Remark
from .subject import Subject, tensors_in

__all__ = ["CHECKS", "check"]

Check = Callable[[Audit], str]

# The order of the report; "call" runs before these, the precision checks after.
CHECKS: dict[str, Check] = {
    "gradcheck": check_gradcheck,
    "gradgradcheck": check_gradgradcheck,
    "forward_mode": check_forward_mode,
    "mixed_modes": check_mixed_modes,
    "vmap": check_vmap,
    "batched_derivatives": check_batched_derivatives,
    "create_graph": check_create_graph,
    "incoming_gradients": check_incoming_gradients,
    "missing_gradients": check_missing_gradients,
    "input_layouts": check_input_layouts,
    "needs_input_grad": check_needs_input_grad,
    "writes": check_writes,
    "aliasing": check_aliasing,
    "reuse": check_reuse,
    "determinism": check_determinism,
    "leaks": check_leaks,
    "threads": check_threads,
    "pickle": check_pickle,
    "empty": check_empty,
}


def _works(audit: Audit, target: int) -> bool:
    try:
        find_writes(audit.subject, audit.fresh([target]))
    except Exception:
        return False
    return True


def _probe(audit: Audit, said: list[str]) -> Any:
    """Runs find_writes; removes inputs that may not require grad from the targets."""
    subject = audit.subject
    try:
        return find_writes(subject, audit.fresh())
    except Exception:
        usable = [i for i in subject.targets if _works(audit, i)]
        if subject.explicit or usable == subject.targets or not (usable or subject.declared):
            raise
        found = find_writes(subject, audit.fresh(usable))
    refused = ", ".join(subject.names[i] for i in subject.targets if i not in usable)
    said.append(f"{refused} may not require grad")
    subject.targets = usable
    return found


def _first_call(audit: Audit) -> str:
    """Finds the dtype of the gradient checks, inputs that may require grad, and written inputs."""
    subject = audit.subject
    said: list[str] = []
    audit.dtype = cograd.float64
    try:
        result, found = _probe(audit, said)
    except Exception as error:
        if all(subject.leaves[i].dtype is cograd.float64 for i in subject.targets):
            raise Fault("call", f"raised {raised(error)}") from error
        said.append(f"float64 is refused ({raised(error)})")
        audit.dtype = None
        try:
            result, found = _probe(audit, said)
        except Exception as again:
            raise Fault("call", f"raised {raised(again)}") from again
    subject.mutated = set(found)
    lower = {o.dtype for o in tensors_in(result) if o.dtype.is_floating_point} - {cograd.float64}
    audit.coarse = bool(lower) or audit.dtype is None
    if lower and audit.dtype is not None:
        said.append(f"an output is {lower.pop()} for float64 arguments")
    if audit.coarse:
        said.append("derivatives are checked coarsely")
    return "; ".join(said)


def _one(audit: Audit, name: str, run: Check) -> CheckResult:
    """Runs one check and converts what it raises to a result."""
    start = time.perf_counter()
    outcome, where, detail, amount, cause = "pass", "", "", None, ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            detail = run(audit)
    except Inapplicable as reason:
        outcome, detail = "skip", str(reason)
    except Remark as remark:
        outcome, where, detail, amount = "note", remark.where, remark.detail, remark.amount
    except Fault as fault:
        outcome, where, detail, amount = "fail", fault.where, fault.detail, fault.amount
        cause = raised(fault.__cause__) if fault.__cause__ is not None else ""
    except Exception as error:
        outcome, where, cause = "fail", "call or backward", raised(error)
        detail = f"raised {cause}"
    return CheckResult(name, outcome, where, detail, amount, time.perf_counter() - start, cause)


def _selected(only: Any, skip: Any, dtypes: Sequence[Any]) -> dict[str, Check]:
    """Returns the checks to run, by name."""
    every = dict(CHECKS)
    for dtype in dtypes:
        every[str(dtype).removeprefix("cograd.")] = make_precision_check(dtype)
    chosen = [only] if isinstance(only, str) else None if only is None else list(only)
    left_out = [skip] if isinstance(skip, str) else list(skip)
    for name in [*(chosen or ()), *left_out]:
        if name not in every:
            raise ValueError(f"check: there is no check {name!r}, there are {list(every)}")
    return {
        name: run
        for name, run in every.items()
        if (chosen is None or name in chosen) and name not in left_out
    }


@contextlib.contextmanager
def _kept_state() -> Iterator[None]:
    """Enables recording; restores the modes and random numbers that the callable may change."""
    grad_mode, random = cograd.is_grad_enabled(), cograd.get_rng_state()
    told = _C._tell_of_loops(False)  # the warning of a missing vmap rule comes once: not here
    cograd.set_grad_enabled(True)
    try:
        yield
    finally:
        cograd.set_grad_enabled(grad_mode)
        _C._tell_of_loops(told)
        cograd.set_rng_state(random)


def check(
    fn: Any,
    args: Any = (),
    kwargs: dict[str, Any] | None = None,
    *,
    mutates: Iterable[str | int] = (),
    may_alias: bool = False,
    second_order: bool = True,
    dtypes: Sequence[Any] | None = None,
    only: str | Iterable[str] | None = None,
    skip: str | Iterable[str] = (),
    eps: float | None = None,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    nondet_tol: float = 0.0,
    iterations: int = 100,
    seed: int = 0,
    strict: bool = False,
    raise_exception: bool = True,
) -> CheckReport:
    """Audits a differentiable operation: derivatives, layouts, memory, threads, precision.

    Args:
        fn: a Function class, a registered op, or any callable on tensors.
        args, kwargs: its arguments; tensors may be nested in lists, tuples and dicts. The
            floating-point tensors that require grad are differentiated; all of them if none does.
            They are converted to float64 for the derivatives. Nothing is written to them.
        mutates: arguments (names, or positions in ``args``) that ``fn`` writes.
        may_alias: outputs may share memory with arguments without being views in the graph.
        second_order: also check second derivatives.
        dtypes: precisions to compare with float64; float32 by default.
        only, skip: names of checks, as in the report.
        eps: step of the finite differences.
        atol, rtol: |backward - finite differences| <= atol + rtol * |finite differences|.
        nondet_tol: maximum difference between two runs of the same call.
        iterations: number of calls in the leak check.
        seed: seed of the incoming gradients; the global random state is not changed.
        strict: also raise for notes (reference cycles, gradients computed unnecessarily).
        raise_exception: raise CheckError on a fault; otherwise the report contains it.

    Returns:
        the report; ``print`` it for a table.

    Raises:
        CheckError: a check failed.
        TypeError: ``fn`` is not callable.
        ValueError: a name is unknown.
    """
    options = Options(
        eps,
        atol,
        rtol,
        nondet_tol,
        iterations,
        second_order,
        may_alias,
        tuple((cograd.float32,) if dtypes is None else dtypes),
        seed,
    )
    chosen = _selected(only, skip, options.dtypes)
    audit = Audit(Subject(fn, args, kwargs, mutates), options)
    report = CheckReport(audit.subject.name)
    with _kept_state():
        report.results.append(_one(audit, "call", _first_call))
        if report.ok:
            report.results.extend(_one(audit, name, run) for name, run in chosen.items())
        else:
            why = "the call itself fails"
            report.results.extend(CheckResult(name, "skip", "", why) for name in chosen)
    if raise_exception and (not report.ok or (strict and report.notes)):
        raise CheckError(report)
    return report
