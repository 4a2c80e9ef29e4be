# SPDX-License-Identifier: BSD-3-Clause
"""gradcheck and gradgradcheck: compare gradients with finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import cograd
from cograd import Tensor
from cograd._base.memory_format import registered as _sparse

from ._errors import GradcheckError

if TYPE_CHECKING:
    from ._jacobian_api import (
        get_analytical_jacobian,
        get_numerical_jacobian,
        get_numerical_jacobian_wrt_specific_input,
    )

__all__ = [
    "GradcheckError",
    "get_analytical_jacobian",
    "get_numerical_jacobian",
    "get_numerical_jacobian_wrt_specific_input",
    "gradcheck",
    "gradgradcheck",
]


if not TYPE_CHECKING:  # type checkers would accept every name

    def __getattr__(name: str) -> Any:
        # Lazy, so that `import cograd` does not pay for the implementation.
        if name.startswith("get_"):
            return getattr(import_module("cograd.autograd._jacobian_api"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_run: Any = None


def _implementation() -> Any:
    """Returns its module, imported on first use: an import statement costs 1 us in every call."""
    global _run
    if _run is None:
        _run = import_module("cograd.autograd._gradcheck_run")
    return _run


def _by_values(func: Callable[..., Any], inputs: tuple[Any, ...]) -> Any:
    """Returns the function and its inputs, with values in place of sparse tensors."""
    return _sparse["by_values"](func, inputs) if _sparse else (func, inputs)


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compares the gradients of ``func(*inputs)`` with central finite differences.

    Args:
        func: a function from tensors to a tensor or a tuple of tensors.
        inputs: a tensor, or a tuple of any objects; float64 tensors that require grad are checked.
        eps: step of the differences.
        atol, rtol: |analytical - numerical| <= atol + rtol * |numerical|.
        raise_exception: raise GradcheckError on failure instead of returning False.
        nondet_tol: maximum difference between two runs of the same backward.
        check_undefined_grad: also run the backward with None for output gradients, and forward
            mode with inputs that have no tangent.
        check_grad_dtypes: fail if a gradient's dtype is not its input's, or a tangent's not its
            output's.
        check_batched_grad, check_batched_forward_grad: also compute gradients, or tangents, for
            batches of directions.
        check_forward_ad: also compare tangents of forward mode.
        check_backward_ad: False skips all checks that need a backward.
        fast_mode: compare one random projection of each Jacobian instead of all entries.
        masked: accepted and ignored: of sparse inputs, the values that are stored are checked.

    Returns:
        True if all gradients are correct.

    Raises:
        GradcheckError: a gradient is wrong, and ``raise_exception`` is set.
        ValueError: no input requires grad.
        RuntimeError: an input overlaps itself in memory.
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError(
            "Expected at least one of check_forward_ad or check_backward_ad to be True"
        )
    if check_batched_grad and not check_backward_ad:
        raise AssertionError(
            "Setting check_batched_grad=True requires check_backward_ad to be True"
        )
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError(
            "Setting check_batched_forward_grad=True requires check_forward_ad to be True"
        )
    run = _implementation()
    func, tupled = _by_values(func, run.as_tuple(inputs))
    run.check_inputs(tupled)
    check = run.Check(
        func,
        tupled,
        eps=eps,
        atol=atol,
        rtol=rtol,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        fast_mode=fast_mode,
        check_forward_ad=check_forward_ad,
        check_backward_ad=check_backward_ad,
        check_batched_grad=check_batched_grad,
        check_batched_forward_grad=check_batched_forward_grad,
    )
    try:
        check.run()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _random_grad_outputs(outputs: Sequence[Tensor], noncontiguous: bool) -> tuple[Tensor, ...]:
    grads = []
    for output in outputs:
        differentiable = output.dtype.is_floating_point or output.dtype.is_complex
        dtype = output.dtype if differentiable else cograd.float64
        grad = 2 * cograd.rand(tuple(output.shape), dtype=dtype, device=output.device) - 1
        if noncontiguous and grad.numel() > 1:
            grad = grad.repeat_interleave(2, -1)[..., ::2]
        grads.append(grad.detach().requires_grad_())
    return tuple(grads)


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Runs gradcheck on the gradients of ``func`` to check second derivatives.

    Args:
        grad_outputs: gradients of the outputs; random ones in [-1, 1] unless given.
        gen_non_contig_grad_outputs: make random gradients non-contiguous.
        check_fwd_over_rev: differentiate the gradients by forward mode.
        check_rev_over_rev: differentiate them by a backward.

    The other arguments, the result and the errors are those of ``gradcheck``.
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError(
            "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True"
        )
    if check_undefined_grad and not check_rev_over_rev:
        raise AssertionError(
            "Setting check_undefined_grad=True requires check_rev_over_rev to be True"
        )
    if check_batched_grad and not check_rev_over_rev:
        raise AssertionError(
            "Setting check_batched_grad=True requires check_rev_over_rev to be True"
        )
    from ._jacobian import as_tuple, diff_outputs, iter_tensors

    func, tupled = _by_values(func, as_tuple(inputs))
    if grad_outputs is None:
        outputs = diff_outputs(func(*tupled))
        seeds = _random_grad_outputs(outputs, gen_non_contig_grad_outputs)
    else:
        seeds = as_tuple(grad_outputs)

    wanted = [t.requires_grad for t in iter_tensors((*tupled, *seeds))]

    def gradients(*args: Any) -> tuple[Tensor, ...]:
        split = len(args) - len(seeds)
        # Under forward mode these tensors are not the original ones that require grad.
        for tensor, differentiate in zip(iter_tensors(args), wanted):
            if differentiate:
                tensor.requires_grad_()
        results = diff_outputs(func(*args[:split]))
        targets = [t for t, want in zip(iter_tensors(args[:split]), wanted) if want]
        grads = cograd.autograd.grad(
            list(results), targets, list(args[split:]), create_graph=True, allow_unused=True
        )
        return tuple(grad for grad in grads if grad is not None)

    return gradcheck(
        gradients,
        (*tupled, *seeds),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )
