# SPDX-License-Identifier: BSD-3-Clause
"""gradcheck and gradgradcheck: gradients against finite differences."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import cograd
from cograd import Tensor

from ._jacobian import (
    Analytical,
    as_tuple,
    diff_inputs,
    diff_outputs,
    equal_within,
    is_floating,
    iter_tensors,
    numerical_jacobian,
    numerical_product,
    vjp,
)

__all__ = [
    "GradcheckError",
    "get_analytical_jacobian",
    "get_numerical_jacobian",
    "get_numerical_jacobian_wrt_specific_input",
    "gradcheck",
    "gradgradcheck",
]


class GradcheckError(RuntimeError):
    """Raised by gradcheck and gradgradcheck when gradients are wrong."""


_NONDETERMINISTIC = (
    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple "
    "times gives different values, although analytical gradient matches numerical gradient."
    "The tolerance for nondeterminism was {tol}.\n\n"
    "If the op is known to be nondeterministic, pass a larger `nondet_tol`; otherwise look for "
    "random numbers, or for state that the backward changes, in the function under test."
)
_UNDEFINED = (
    "Pass check_undefined_grad=False to leave this check out, or make the backward accept None "
    "for an output that has no gradient (in a Function: ctx.set_materialize_grads)."
)


def _check_inputs(inputs: tuple[Any, ...]) -> None:
    any_grad = False
    for index, tensor in enumerate(inputs):
        if not isinstance(tensor, Tensor) or not tensor.requires_grad:
            any_grad = any_grad or bool(diff_inputs(tensor))
            continue
        any_grad = True
        if tensor.dtype != cograd.float64:
            warnings.warn(
                f"Input #{index} requires gradient and is not a double precision floating point "
                "or complex. This check will likely fail if all the inputs are not of double "
                "precision floating point or complex. ",
                stacklevel=4,
            )
        if any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape)):
            raise RuntimeError(
                f"The {index}th input has a dimension with stride 0. gradcheck only supports "
                "inputs that are non-overlapping to be able to compute the numerical gradients "
                "correctly. You should call .contiguous on the input before passing it to "
                "gradcheck."
            )
    if not any_grad:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, "
            "but none of them have requires_grad=True."
        )


def _allclose(a: Tensor, b: Tensor, rtol: float, atol: float) -> bool:
    a, b = a.to(cograd.float64), b.to(cograd.float64)
    return bool(cograd.allclose(a, b, rtol=rtol, atol=atol))


def _unravel(index: int, shape: Sequence[int]) -> tuple[int, ...]:
    out = []
    for size in reversed(shape):
        out.append(index % size)
        index //= size
    return tuple(reversed(out))


def _worst_element(
    numerical: Tensor, analytical: Tensor, input: Tensor, output: Tensor, rtol: float, atol: float
) -> str:
    """Which entry of two unequal Jacobians differs most, by how much, and the ratio."""
    n, a = numerical.to(cograd.float64), analytical.to(cograd.float64)
    bad = ((a - n).abs() <= atol + rtol * n.abs()).logical_not()
    size = (a - n).abs().masked_fill(bad.logical_not(), -1.0)
    size = size.masked_fill(size != size, math.inf)
    flat = int(size.reshape(-1).argmax())
    row, col = divmod(flat, n.shape[1])
    x, y = n[row, col].item(), a[row, col].item()
    ratio = "undefined" if x == 0 else f"{y / x:.6g}"
    return (
        f"{int(bad.sum())} of {n.numel()} entries differ; the largest difference is for "
        f"output element {_unravel(col, output.shape)} with respect to input element "
        f"{_unravel(row, input.shape)}: numerical {x:.10g}, analytical {y:.10g}, "
        f"difference {abs(y - x):.6g}, ratio analytical/numerical {ratio}.\n"
    )


def _mismatch(
    numerical: Tensor,
    analytical: Tensor,
    output_index: int,
    input_index: int,
) -> str:
    return (
        f"Jacobian mismatch for output {output_index} with respect to input {input_index},\n"
        f"numerical:{numerical}\nanalytical:{analytical}\n"
    )


class _Check:
    """One gradcheck: the function, its inputs and the tolerances."""

    def __init__(self, func: Callable[..., Any], inputs: tuple[Any, ...], **options: Any) -> None:
        self.func = func
        self.inputs = inputs
        self.targets = diff_inputs(inputs)
        self.eps: float = options["eps"]
        self.atol: float = options["atol"]
        self.rtol: float = options["rtol"]
        self.nondet_tol: float = options["nondet_tol"]
        self.check_undefined_grad: bool = options["check_undefined_grad"]
        self.check_grad_dtypes: bool = options["check_grad_dtypes"]
        self.fast_mode: bool = options["fast_mode"]

    def run(self) -> None:
        result = self.func(*self.inputs)
        outputs = diff_outputs(result)
        if not outputs:
            self._no_differentiable_outputs(result)
            return
        if self.fast_mode:
            self._fast(outputs)
        else:
            self._slow(outputs)
        self._multiplies_by_grad_output(outputs)
        if self.check_undefined_grad:
            self._undefined_grads()

    def _evaluate(self) -> tuple[Tensor, ...]:
        return diff_outputs(self.func(*self.inputs))

    def _no_differentiable_outputs(self, result: Any) -> None:
        outputs = [o for o in as_tuple(result) if is_floating(o)]
        if not outputs:
            return

        def run() -> list[Tensor]:
            return [o for o in as_tuple(self.func(*self.inputs)) if is_floating(o)]

        for target in self.targets:
            for jacobian in numerical_jacobian(run, target, outputs, self.eps):
                if bool((jacobian != 0).any()):
                    raise GradcheckError("Numerical gradient for function expected to be zero")

    def _slow(self, outputs: tuple[Tensor, ...]) -> None:
        numerical = [numerical_jacobian(self._evaluate, t, outputs, self.eps) for t in self.targets]
        for i, output in enumerate(outputs):
            first = Analytical(self.targets, output)
            again = Analytical(self.targets, output)
            self._check_attributes(first, again)
            for j, target in enumerate(self.targets):
                n, a = numerical[j][i], first.jacobians[j]
                if not _allclose(a, n, self.rtol, self.atol):
                    raise GradcheckError(
                        _mismatch(n, a, i, j)
                        + _worst_element(n, a, target, output, self.rtol, self.atol)
                    )
            if not equal_within(first.jacobians, again.jacobians, self.nondet_tol):
                raise GradcheckError(_NONDETERMINISTIC.format(tol=self.nondet_tol))

    def _check_attributes(self, first: Analytical, again: Analytical) -> None:
        if self.check_grad_dtypes and not (first.types_ok and again.types_ok):
            raise GradcheckError("Gradient has dtype mismatch")
        if not (first.sizes_ok and again.sizes_ok):
            raise GradcheckError("Analytical gradient has incorrect size")

    def _fast(self, outputs: tuple[Tensor, ...]) -> None:
        """Compares u^T J v for random unit vectors u and v instead of J itself."""
        generator = cograd.Generator()
        generator.manual_seed(42)

        def unit(size: int) -> Tensor:
            vector = cograd.rand(size, dtype=cograd.float64, generator=generator)
            return vector / vector.norm() if size else vector

        lefts = [unit(output.numel()) for output in outputs]
        rights = [unit(target.numel()) for target in self.targets]
        numerical = [
            numerical_product(self._evaluate, target, v, self.eps)
            for target, v in zip(self.targets, rights)
        ]
        for i, (output, u) in enumerate(zip(outputs, lefts)):
            seed = u.to(output.dtype).reshape(output.shape)
            grads = vjp(self.targets, output, seed)
            again = vjp(self.targets, output, seed)
            for j, (grad, second, v) in enumerate(zip(grads, again, rights)):
                n = (numerical[j][i].to(cograd.float64) * u).sum()
                a = cograd.zeros((), dtype=cograd.float64)
                if grad is not None and second is not None:
                    if self.check_grad_dtypes and grad.dtype != self.targets[j].dtype:
                        raise GradcheckError("Gradient has dtype mismatch")
                    a = (grad.detach().to(cograd.float64).reshape(-1) * v).sum()
                    if not equal_within([grad.detach()], [second.detach()], self.nondet_tol):
                        raise GradcheckError(_NONDETERMINISTIC.format(tol=self.nondet_tol))
                atol = self.atol * float(u.sum()) * float(v.sum())
                if not _allclose(a, n, self.rtol, atol):
                    raise GradcheckError(_mismatch(n, a, i, j) + self._explain_in_slow_mode())

    def _explain_in_slow_mode(self) -> str:
        text = (
            "\nThe above quantities relating the numerical and analytical jacobians are computed "
            "in fast mode, from one random projection. "
        )
        try:
            self._slow(self._evaluate())
        except GradcheckError as error:
            return text + f"In slow mode:\n\n{error}"
        return text + (
            "Slow mode finds no difference with the same tolerances: the function may be badly "
            "conditioned for fast mode; try a larger `rtol` or `fast_mode=False`."
        )

    def _multiplies_by_grad_output(self, outputs: tuple[Tensor, ...]) -> None:
        """Gradients for output gradients of zero are zero, and look like their inputs."""
        zeros = [cograd.zeros(o.shape, dtype=o.dtype) for o in outputs]
        grads = cograd.autograd.grad(
            list(outputs), self.targets, zeros, retain_graph=True, allow_unused=True
        )
        for grad, target in zip(grads, self.targets):
            if grad is None:
                continue
            if not bool((grad == 0).all()):
                raise GradcheckError("backward not multiplied by grad_output")
            if grad.dtype != target.dtype:
                raise GradcheckError("grad is incorrect type")
            if grad.device != target.device:
                raise GradcheckError("grad is incorrect device")
            if grad.shape != target.shape:
                raise GradcheckError("grad is incorrect size")

    def _undefined_grads(self) -> None:
        """The backward copes with None for all output gradients, and for each one alone."""
        count = len(self._evaluate())
        hidden: list[set[int]] = [set(range(count))]
        if count > 1:
            hidden += [{i} for i in range(count)]
        block = _no_grad_point()
        for slots in hidden:
            outputs = [
                block.apply(o) if i in slots else o for i, o in enumerate(self._evaluate())
            ]
            zeros = [cograd.zeros(o.shape, dtype=o.dtype) for o in outputs]
            try:
                grads = cograd.autograd.grad(outputs, self.targets, zeros, allow_unused=True)
            except RuntimeError as error:
                raise GradcheckError(
                    f"Expected backward function to handle undefined output grads. {_UNDEFINED}"
                ) from error
            if any(grad is not None and not bool((grad == 0).all()) for grad in grads):
                raise GradcheckError(
                    "Expected all input grads to be undefined or zero when all output grads are "
                    f"undefined or zero. {_UNDEFINED}"
                )


_point: Any = None


def _no_grad_point() -> Any:
    """An identity Function that passes None back; made once, on first use."""
    global _point
    if _point is None:

        class UndefinedGrad(cograd.autograd.Function):  # type: ignore[misc,name-defined]
            @staticmethod
            def forward(ctx: Any, tensor: Tensor) -> Tensor:
                return tensor.view_as(tensor)

            @staticmethod
            def backward(ctx: Any, grad: Any) -> None:
                return None

        _point = UndefinedGrad
    return _point


def _refuse(**flags: bool) -> None:
    """Raises for the checks that need forward-mode differentiation or vmap."""
    for name, wanted in flags.items():
        if wanted:
            need = "batched gradients" if "batched" in name else "forward-mode differentiation"
            raise NotImplementedError(f"{name}=True is not supported: it needs {need}")


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
        func: takes tensors, gives a tensor or a tuple of tensors.
        inputs: a tensor, or a tuple of any objects; float64 tensors that require grad are checked.
        eps: step of the differences.
        atol, rtol: |analytical - numerical| <= atol + rtol * |numerical|.
        raise_exception: raise GradcheckError on failure instead of returning False.
        nondet_tol: how far two runs of the same backward may differ.
        check_undefined_grad: also run the backward with None for output gradients.
        check_grad_dtypes: fail if a gradient's dtype is not its input's.
        fast_mode: compare one random projection of each Jacobian instead of all entries.
        masked: accepted; it matters to sparse tensors only.

    Returns:
        True if all gradients are right.

    Raises:
        GradcheckError: they are not, and ``raise_exception`` is set.
        ValueError: no input requires grad. RuntimeError: an input overlaps itself in memory.
        NotImplementedError: a forward-mode or batched check is asked for.
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
    _refuse(
        check_forward_ad=check_forward_ad,
        check_batched_grad=check_batched_grad,
        check_batched_forward_grad=check_batched_forward_grad,
    )
    tupled = as_tuple(inputs)
    _check_inputs(tupled)
    check = _Check(
        func,
        tupled,
        eps=eps,
        atol=atol,
        rtol=rtol,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        fast_mode=fast_mode,
    )
    try:
        check.run()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _random_grad_outputs(outputs: Sequence[Tensor], noncontiguous: bool) -> tuple[Tensor, ...]:
    from ..testing import make_tensor

    grads = []
    for output in outputs:
        dtype = output.dtype if output.dtype.is_floating_point else cograd.float64
        grads.append(
            make_tensor(
                tuple(output.shape),
                dtype=dtype,
                device="cpu",
                low=-1,
                high=1,
                requires_grad=True,
                noncontiguous=noncontiguous,
            )
        )
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
    """Runs gradcheck on the gradients of ``func``: checks second derivatives.

    Args:
        grad_outputs: gradients of the outputs; random ones in [-1, 1] unless given.
        gen_non_contig_grad_outputs: make the random ones non-contiguous.

    The other arguments, the result and the errors are those of ``gradcheck``.
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError(
            "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True"
        )
    if check_undefined_grad and not check_rev_over_rev:
        raise AssertionError("Setting check_undefined_grad=True requires check_rev_over_rev to be True")
    if check_batched_grad and not check_rev_over_rev:
        raise AssertionError("Setting check_batched_grad=True requires check_rev_over_rev to be True")
    _refuse(check_fwd_over_rev=check_fwd_over_rev, check_batched_grad=check_batched_grad)
    tupled = as_tuple(inputs)
    if grad_outputs is None:
        outputs = diff_outputs(func(*tupled))
        seeds = _random_grad_outputs(outputs, gen_non_contig_grad_outputs)
    else:
        seeds = as_tuple(grad_outputs)

    def gradients(*args: Any) -> tuple[Tensor, ...]:
        split = len(args) - len(seeds)
        results = diff_outputs(func(*args[:split]))
        targets = diff_inputs(args[:split])
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
        fast_mode=fast_mode,
        masked=masked,
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
    """Jacobians of the first output of ``fn(inputs)`` for every tensor of ``target``.

    ``fn`` takes the inputs as one argument. A Jacobian is (input.numel(), output.numel()).
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
    """Jacobians of all outputs of ``fn(*inputs)`` for the input at ``input_idx``."""
    target = inputs[input_idx] if input is None else input
    if not target.requires_grad:
        raise AssertionError("Expected input to have requires_grad=True")
    count = as_tuple(outputs)
    return tuple(numerical_jacobian(lambda: as_tuple(fn(*inputs)), target, count, eps))


def get_analytical_jacobian(
    inputs: Any, output: Tensor, nondet_tol: float = 0.0, grad_out: float = 1.0
) -> tuple[tuple[Tensor, ...], bool, bool, bool]:
    """(Jacobians of ``output`` for every input that requires grad, reentrant, sizes ok, types ok)."""
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
