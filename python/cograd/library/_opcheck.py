# SPDX-License-Identifier: BSD-3-Clause
"""opcheck: checks that an op behaves as registered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import cograd
from cograd import Tensor, _pytree
from cograd.testing import CheckReport, check

from ._call import _tensors
from ._custom_op import CustomOpDef
from ._registry import _resolve

__all__ = ["OpCheckError", "opcheck"]

SUCCESS = "SUCCESS"
_GRADIENTS = (
    "gradcheck",
    "gradgradcheck",
    "incoming_gradients",
    "missing_gradients",
    "needs_input_grad",
)


class OpCheckError(Exception):
    """Raised by ``opcheck`` if an op does not behave as registered.

    The message names the test that failed and what was seen.
    """


def _copied(value: Any, requires_grad: bool) -> Any:
    if not isinstance(value, Tensor):
        return value
    return value.detach().clone().requires_grad_(requires_grad and value.requires_grad)


class _Run:
    """One opcheck: the op and its arguments."""

    def __init__(self, op: Any, args: Any, kwargs: Any, atol: Any, rtol: Any) -> None:
        self.op, self.args, self.kwargs = op, args, kwargs
        self.tolerances = {
            key: value for key, value in (("atol", atol), ("rtol", rtol)) if value is not None
        }

    @property
    def wants_gradients(self) -> bool:
        return any(t.requires_grad for t in _tensors([list(self.args), self.kwargs]))

    def call_fresh(self, fn: Callable[..., Any], requires_grad: bool) -> Any:
        """Calls ``fn`` with copies of the arguments, which are leaves: ``fn`` may write them."""
        leaves: list[Any] = []
        spec = _pytree.flatten((tuple(self.args), dict(self.kwargs)), leaves)
        args, kwargs = _pytree.unflatten(spec, iter([_copied(v, requires_grad) for v in leaves]))
        return fn(*args, **kwargs)

    def check(self, only: Sequence[str]) -> str:
        report: CheckReport = check(
            self.op, self.args, self.kwargs, only=only, raise_exception=False, **self.tolerances
        )
        if report.ok:
            return SUCCESS
        worst = report.failures[0]
        raise OpCheckError(f"{worst.check}: {worst.where}: {worst.detail}")


def _schema(run: _Run) -> str:
    """Checks that only declared arguments are written, and that outputs share no memory."""
    return run.check(("writes", "aliasing"))


def _autograd_registration(run: _Run) -> str:
    """Checks that outputs of arguments that require grad have a registered backward."""
    if not run.wants_gradients:
        return SUCCESS
    op = run.op
    if isinstance(op, CustomOpDef):
        formula = op._backward_fn or op._autograd_impl or op._composite
        if not formula and not op._schema_object.is_mutable and op._schema_object.returns:
            raise OpCheckError(
                f"an argument requires grad, but no autograd formula was registered for "
                f"{op._qualname}. Please use register_autograd to add one"
            )
    outputs = _tensors(run.call_fresh(op, requires_grad=True))
    floating = [o for o in outputs if o.dtype.is_floating_point or o.dtype.is_complex]
    if floating and not any(o.requires_grad for o in floating):
        raise OpCheckError("an argument requires grad, but no output does")
    return SUCCESS


def _fake(run: _Run) -> str:
    """Checks that the function of register_fake returns outputs like those of the op."""
    op = run.op
    if not isinstance(op, CustomOpDef) or op._abstract_fn is None:
        return "SKIPPED: no fake implementation is registered, and cograd needs none"
    with cograd.no_grad():
        real = _tensors(run.call_fresh(op, requires_grad=False))
        fake = _tensors(run.call_fresh(op._abstract_fn, requires_grad=False))
    if len(real) != len(fake):
        raise OpCheckError(
            f"the fake implementation returns {len(fake)} tensors, expected {len(real)}"
        )
    for k, (a, b) in enumerate(zip(real, fake, strict=True)):
        for name, get in _METADATA.items():
            if get(a) != get(b):
                raise OpCheckError(
                    f"output {k} has the {name} {get(a)}, but the fake implementation returns "
                    f"{get(b)}"
                )
    return SUCCESS


_METADATA: dict[str, Callable[[Tensor], Any]] = {
    "shape": lambda t: tuple(t.shape),
    "dtype": lambda t: t.dtype,
    "strides": lambda t: t.stride(),
}


def _gradients(run: _Run) -> str:
    """Checks gradients, for all layouts and subsets of the inputs."""
    if not run.wants_gradients:
        return "SKIPPED: no argument requires grad"
    return run.check(_GRADIENTS)


def _dispatch(run: _Run) -> str:
    return "SKIPPED: there is no compiler to dispatch to"


_TESTS: dict[str, Callable[[_Run], str]] = {
    "test_schema": _schema,
    "test_autograd_registration": _autograd_registration,
    "test_faketensor": _fake,
    "test_gradcheck": _gradients,
    "test_aot_dispatch_static": _dispatch,
    "test_aot_dispatch_dynamic": _dispatch,
}


def opcheck(
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = (
        "test_schema",
        "test_autograd_registration",
        "test_faketensor",
        "test_gradcheck",
    ),
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, str]:
    """Checks that an op behaves as registered.

    ``test_schema`` finds undeclared writes and aliases, ``test_autograd_registration`` missing
    formulas, ``test_faketensor`` compares with the function of register_fake, ``test_gradcheck``
    checks first and second derivatives with all layouts and subsets. The two ``aot`` tests of torch
    are accepted and skipped. ``cograd.testing.check`` runs more checks.

    Args:
        op: an op, its name, or any callable.
        args, kwargs: its arguments.
        test_utils: the tests to run.
        raise_exception: raise on a failure; otherwise the result contains it.
        atol, rtol: tolerances of the finite differences.

    Returns:
        "SUCCESS", "SKIPPED: why" or "FAILED: why" for each test.

    Raises:
        OpCheckError: a test failed.
        ValueError: there is no such test.
    """
    op = _resolve(op) if isinstance(op, str) else op
    names = [test_utils] if isinstance(test_utils, str) else list(test_utils)
    if unknown := [name for name in names if name not in _TESTS]:
        raise ValueError(f"opcheck: there is no test {unknown[0]!r}, there are {list(_TESTS)}")
    run = _Run(op, args, kwargs or {}, atol, rtol)
    results: dict[str, str] = {}
    for name in names:
        try:
            results[name] = _TESTS[name](run)
        except Exception as error:
            if raise_exception:
                text = f"opcheck(op, ...): {name} failed with {error}"
                raise OpCheckError(text) from error
            results[name] = f"FAILED: {error}"
    return results
