# SPDX-License-Identifier: BSD-3-Clause
"""One run of gradcheck: the comparison and its error messages."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import cograd
from cograd import Tensor

from ._errors import GradcheckError
from ._gradcheck_forward import Forward, check_batch
from ._jacobian import (
    Analytical,
    as_tuple,
    coordinates,
    diff_inputs,
    diff_outputs,
    equal_within,
    from_coordinates,
    is_floating,
    num_coordinates,
    numerical_jacobian,
    numerical_product,
    vjp,
)

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


def check_inputs(inputs: tuple[Any, ...]) -> None:
    any_grad = False
    for index, tensor in enumerate(inputs):
        if not isinstance(tensor, Tensor) or not tensor.requires_grad:
            any_grad = any_grad or bool(diff_inputs(tensor))
            continue
        any_grad = True
        if tensor.dtype not in (cograd.float64, cograd.complex128):
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


def _place(coordinate: int, tensor: Tensor) -> str:
    """Returns the index of a coordinate's element, and its part if the element is complex."""
    if not tensor.dtype.is_complex:
        return str(_unravel(coordinate, tensor.shape))
    element, part = divmod(coordinate, 2)
    return f"{_unravel(element, tensor.shape)}.{('real', 'imag')[part]}"


def _worst_element(
    numerical: Tensor, analytical: Tensor, input: Tensor, output: Tensor, rtol: float, atol: float
) -> str:
    """Describes the entry that differs most between two unequal Jacobians, with the ratio."""
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
        f"output element {_place(col, output)} with respect to input element "
        f"{_place(row, input)}: numerical {x:.10g}, analytical {y:.10g}, "
        f"difference {abs(y - x):.6g}, ratio analytical/numerical {ratio}.\n"
    )


def _mismatch(
    numerical: Tensor,
    analytical: Tensor,
    output_index: int,
    input_index: int,
    forward: bool = False,
) -> str:
    mode = "computed with forward mode " if forward else ""
    return (
        f"Jacobian {mode}mismatch for output {output_index} with respect to input {input_index},\n"
        f"numerical:{numerical}\nanalytical:{analytical}\n"
    )


class Check:
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
        self.forward_ad: bool = options["check_forward_ad"]
        self.backward_ad: bool = options["check_backward_ad"]
        self.batched_grad: bool = options["check_batched_grad"]
        self.batched_forward_grad: bool = options["check_batched_forward_grad"]

    def run(self) -> None:
        result = self.func(*self.inputs)
        outputs = diff_outputs(result)
        if not outputs:
            self._no_differentiable_outputs(result)
            return
        if self.backward_ad:
            if self.fast_mode:
                self._fast(outputs)
            else:
                self._slow(outputs)
        if self.forward_ad:
            self._forward(result)
        if not self.backward_ad:
            return
        if self.batched_grad:
            self._batched_grad(outputs)
        self._multiplies_by_grad_output(outputs)
        if self.check_undefined_grad:
            self._undefined_grads(len(outputs))

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

    def _forward(self, result: Any) -> None:
        """Compares tangents with differences, for those outputs that require grad."""
        forward = Forward(self.func, self.inputs, self.targets)
        floating = [o for o in as_tuple(result) if is_floating(o)]
        checked = [i for i, o in enumerate(floating) if o.requires_grad]
        outputs = [floating[i] for i in checked]
        directions = [d for _, d in self._directions(())]
        if self.fast_mode:
            self._forward_fast(forward, outputs, checked, directions)
        else:
            self._forward_slow(forward, outputs, checked)
        if self.check_undefined_grad:
            forward.check_undefined(directions)
        if self.batched_forward_grad:
            forward.check_batched()

    def _forward_slow(
        self, forward: Forward, outputs: Sequence[Tensor], checked: Sequence[int]
    ) -> None:
        for j, target in enumerate(self.targets):
            numerical = numerical_jacobian(self._evaluate, target, outputs, self.eps)
            found = forward.jacobians(j, self.check_grad_dtypes)
            for i, (n, at) in enumerate(zip(numerical, checked)):
                a = found[at]
                if not _allclose(a, n, self.rtol, self.atol):
                    raise GradcheckError(
                        _mismatch(n, a, i, j, forward=True)
                        + _worst_element(n, a, target, outputs[i], self.rtol, self.atol)
                    )

    def _forward_fast(
        self,
        forward: Forward,
        outputs: Sequence[Tensor],
        checked: Sequence[int],
        directions: Sequence[Tensor],
    ) -> None:
        """Compares J v for random unit vectors v."""
        for j, (target, v) in enumerate(zip(self.targets, directions)):
            numerical = numerical_product(self._evaluate, target, v, self.eps)
            found = forward.along(j, v, self.check_grad_dtypes)
            for i, (n, at) in enumerate(zip(numerical, checked)):
                if _allclose(found[at], n, self.rtol, self.atol * float(v.sum())):
                    continue
                raise GradcheckError(
                    _mismatch(n, found[at], i, j, forward=True)
                    + self._explain(lambda: self._forward_slow(forward, outputs, checked))
                )

    def _batched_grad(self, outputs: tuple[Tensor, ...]) -> None:
        for output in outputs:

            def products(seed: Tensor, output: Tensor = output) -> tuple[Tensor, ...]:
                return tuple(
                    cograd.zeros_like(t) if g is None else g
                    for g, t in zip(vjp(self.targets, output, seed), self.targets)
                )

            samples = [cograd.randn_like(output) for _ in range(2)]
            check_batch(products, samples, "check_batched_grad")

    def _slow(self, outputs: tuple[Tensor, ...]) -> None:
        numerical = [numerical_jacobian(self._evaluate, t, outputs, self.eps) for t in self.targets]
        for i, output in enumerate(outputs):
            first = Analytical(self.targets, output)
            again = Analytical(self.targets, output)
            self._check_attributes(first, again)
            for j, target in enumerate(self.targets):
                n, a = numerical[j][i], first.jacobians[j]
                if n.shape != a.shape:
                    raise GradcheckError(
                        _mismatch(n, a, i, j)
                        + f"output {i} had {n.shape[1]} elements when inputs were perturbed and "
                        f"{a.shape[1]} before: the function is not deterministic.\n"
                    )
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

    def _directions(self, outputs: Sequence[Tensor]) -> list[tuple[str, Tensor]]:
        """Returns random unit vectors: one for each output, and one for each input."""
        generator = cograd.Generator()
        generator.manual_seed(42)

        def unit(of: Tensor) -> Tensor:
            size = num_coordinates(of)
            vector = cograd.rand(size, dtype=cograd.float64, generator=generator, device="cpu")
            return (vector / vector.norm() if size else vector).to(of.device)

        return [
            *(("output", unit(output)) for output in outputs),
            *(("input", unit(target)) for target in self.targets),
        ]

    def _fast(self, outputs: tuple[Tensor, ...]) -> None:
        """Compares u^T J v for random unit vectors u and v instead of J itself."""
        pairs = self._directions(outputs)
        lefts = [u for side, u in pairs if side == "output"]
        rights = [v for side, v in pairs if side == "input"]
        numerical = [
            numerical_product(self._evaluate, target, v, self.eps)
            for target, v in zip(self.targets, rights)
        ]
        for i, (output, u) in enumerate(zip(outputs, lefts)):
            seed = from_coordinates(u, output)
            grads = vjp(self.targets, output, seed)
            again = vjp(self.targets, output, seed)
            for j, (grad, second, v) in enumerate(zip(grads, again, rights)):
                n = (numerical[j][i].to(cograd.float64) * u).sum()
                a = n.new_zeros(())
                if grad is not None and second is not None:
                    if self.check_grad_dtypes and grad.dtype != self.targets[j].dtype:
                        raise GradcheckError("Gradient has dtype mismatch")
                    a = (coordinates(grad).to(cograd.float64) * v).sum()
                    if not equal_within([grad.detach()], [second.detach()], self.nondet_tol):
                        raise GradcheckError(_NONDETERMINISTIC.format(tol=self.nondet_tol))
                atol = self.atol * float(u.sum()) * float(v.sum())
                if not _allclose(a, n, self.rtol, atol):
                    raise GradcheckError(
                        _mismatch(n, a, i, j) + self._explain(lambda: self._slow(self._evaluate()))
                    )

    def _explain(self, slow: Callable[[], None]) -> str:
        text = (
            "\nThe above quantities relating the numerical and analytical jacobians are computed "
            "in fast mode, from one random projection. "
        )
        try:
            slow()
        except GradcheckError as error:
            return text + f"In slow mode:\n\n{error}"
        return text + (
            "Slow mode finds no difference with the same tolerances: the function may be badly "
            "conditioned for fast mode; try a larger `rtol` or `fast_mode=False`."
        )

    def _multiplies_by_grad_output(self, outputs: tuple[Tensor, ...]) -> None:
        """Checks that zero output gradients result in zero gradients like their inputs."""
        zeros = [cograd.zeros_like(o) for o in outputs]
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

    def _undefined_grads(self, count: int) -> None:
        """Checks that backward accepts None for all output gradients, and for each one alone."""
        hidden: list[set[int]] = [set(range(count))]
        if count > 1:
            hidden += [{i} for i in range(count)]
        block = _no_grad_point()
        for slots in hidden:
            outputs = [block.apply(o) if i in slots else o for i, o in enumerate(self._evaluate())]
            zeros = [cograd.zeros_like(o) for o in outputs]
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
    """Returns an identity Function whose backward returns None; created once, on first use."""
    global _point
    if _point is None:

        class UndefinedGrad(cograd.autograd.Function):
            @staticmethod
            def forward(ctx: Any, tensor: Tensor) -> Tensor:
                return tensor.view_as(tensor)

            @staticmethod
            def backward(ctx: Any, grad: Any) -> None:
                return None

        _point = UndefinedGrad
    return _point
