# SPDX-License-Identifier: BSD-3-Clause
"""Jacobians, Hessians and products with them, of functions of tensors.

``cograd.func`` has the same operations as composable transforms; these evaluate immediately.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import cograd
from cograd import Tensor, _absent
from cograd._rows import _map_rows
from cograd.autograd import forward_ad

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensors = Tensor | tuple[Tensor, ...]
Found = tuple[Tensor | None, ...]

_OUTPUTS = "outputs of the user-provided function"


# ---- arguments and results -----------------------------------------------------------------------


def _as_tuple(value: Any, name: str, fn: str) -> tuple[bool, tuple[Tensor, ...]]:
    """Returns (whether it was a tuple, the tensors)."""
    many = isinstance(value, tuple)
    values = value if many else (value,)
    for i, t in enumerate(values):
        if isinstance(t, Tensor):
            continue
        which = f"value at index {i}" if many else f"given {name}"
        raise TypeError(
            f"The {name} given to {fn} must be either a Tensor or a tuple of Tensors but the "
            f"{which} has type {type(t)}."
        )
    return many, values


def _unwrapped(values: Sequence[Any], many: bool) -> Any:
    return tuple(values) if many else values[0]


def _unwrapped_twice(rows: Sequence[Sequence[Any]], outer: bool, inner: bool) -> Any:
    return _unwrapped([_unwrapped(row, inner) for row in rows], outer)


def _detached(t: Tensor) -> Tensor:
    """Removes the graph of ``t`` but keeps tangents: ``create_graph`` only concerns backward."""
    if cograd._C._dual_level() < 0:
        return t.detach()
    with cograd.no_grad():
        return t.clone()


def _handle(t: Tensor, create_graph: bool, need_graph: bool) -> Tensor:
    if create_graph and t.requires_grad:
        return t.view_as(t)
    if create_graph and cograd._C._dual_level() >= 0:  # the tangent may have a graph
        return t.clone().requires_grad_(need_graph)
    return _detached(t).requires_grad_(need_graph)


def _handles(values: Sequence[Tensor], create_graph: bool, need_graph: bool) -> tuple[Tensor, ...]:
    """Returns new tensors, so that tensors that ``func`` captured count as constants."""
    return tuple(_handle(t, create_graph, need_graph) for t in values)


def _results(values: Sequence[Tensor], create_graph: bool) -> list[Tensor]:
    return list(values) if create_graph else [_detached(t) for t in values]


def _vector(
    v: Any, like: tuple[Tensor, ...], many: bool, create_graph: bool, fn: str
) -> tuple[Tensor, ...]:
    _, vector = _as_tuple(v, "v", fn)
    vector = _handles(vector, create_graph, need_graph=False)
    if len(vector) != len(like):
        if many:
            raise RuntimeError(
                f"v is a tuple of invalid length: should be {len(like)} but got {len(vector)}."
            )
        raise RuntimeError("The given v should contain a single Tensor.")
    for i, (a, b) in enumerate(zip(vector, like, strict=True)):
        if a.shape != b.shape:
            which = f"Entry {i} in " if many else ""
            raise RuntimeError(
                f"{which}v has invalid size: should be {b.size()} but got {a.size()}."
            )
    return vector


def _one_element(values: tuple[Tensor, ...]) -> bool:
    return len(values) == 1 and values[0].numel() == 1


# ---- strict --------------------------------------------------------------------------------------

_NOT_RECORDED = {
    "outputs": "Output {i} of the user-provided function does not require gradients. The outputs "
    "must be computed in a differentiable manner from the input when running in strict mode.",
    "grad_inputs": "The gradient with respect to input {i} is independent of the inputs of the "
    "user-provided function. This is not allowed in strict mode.",
    "jacobian": "While computing the hessian, found that the jacobian of the user-provided "
    "function with respect to input {i} is independent of the input. This is not allowed in strict "
    "mode. You should ensure that your function is twice differentiable and that the jacobian "
    "depends on the inputs (this would be violated by a linear function for example).",
    "hessian": "The hessian of the user-provided function with respect to input {i} is independent "
    "of the input. This is not allowed in strict mode. You should ensure that your function is "
    "thrice differentiable and that the hessian depends on the inputs.",
}
_INDEPENDENT = {
    "back": "The output of the user-provided function is independent of input {i}. This is not "
    "allowed in strict mode.",
    "back_trick": "The gradient with respect to the input is independent of entry {i} in the "
    "grad_outputs when using the double backward trick to compute forward mode gradients. This is "
    "not allowed in strict mode.",
    "double_back": "The jacobian of the user-provided function is independent of input {i}. This "
    "is not allowed in strict mode.",
    "double_back_trick": "The hessian of the user-provided function is independent of entry {i} in "
    "the grad_jacobian. This is not allowed in strict mode as it prevents from using the double "
    "backward trick to replace forward mode AD.",
}


def _check_recorded(values: Sequence[Tensor | None], what: str) -> None:
    for i, t in enumerate(values):
        if t is None:
            raise RuntimeError(_INDEPENDENT["back"].format(i=i))
        if not t.requires_grad:
            raise RuntimeError(_NOT_RECORDED[what].format(i=i))


def _filled(
    grads: Found, like: Sequence[Tensor], strict: bool, create_graph: bool, stage: str
) -> list[Tensor]:
    """Replaces None by zeros for independent inputs; raises for them if ``strict``."""
    result = []
    for i, (g, t) in enumerate(zip(grads, like, strict=True)):
        if g is None:
            if strict:
                raise RuntimeError(_INDEPENDENT[stage].format(i=i))
            g = cograd.zeros_like(t)
        elif strict and create_graph and not g.requires_grad:
            what = "hessian" if "double" in stage else "jacobian"
            raise RuntimeError(
                f"The {what} of the user-provided function is independent of input {i}. This is "
                "not allowed in strict mode when create_graph=True."
            )
        result.append(g)
    return result


def _gradients(
    outputs: Sequence[Tensor | None],
    inputs: tuple[Tensor, ...],
    seeds: Sequence[Tensor] | None = None,
    create_graph: bool = False,
    retain_graph: bool | None = None,
) -> Found:
    """Runs ``autograd.grad`` of the outputs that have a graph; None for independent inputs."""
    given = (None,) * len(outputs) if seeds is None else seeds
    pairs = [
        (o, s) for o, s in zip(outputs, given, strict=True) if o is not None and o.requires_grad
    ]
    if not pairs:
        return (None,) * len(inputs)
    found: Found = cograd.autograd.grad(
        [o for o, _ in pairs],
        inputs,
        [s for _, s in pairs],
        allow_unused=True,
        create_graph=create_graph,
        retain_graph=retain_graph,
    )
    return found


def _evaluate(
    func: Callable[..., Any], inputs: tuple[Tensor, ...], fn: str, strict: bool
) -> tuple[bool, tuple[Tensor, ...]]:
    many, outputs = _as_tuple(func(*inputs), _OUTPUTS, fn)
    if strict:
        _check_recorded(outputs, "outputs")
    return many, outputs


def _scalar(
    func: Callable[..., Any], inputs: tuple[Tensor, ...], fn: str, strict: bool
) -> tuple[Tensor, ...]:
    many, outputs = _evaluate(func, inputs, fn, strict)
    if many:
        raise RuntimeError(f"The function given to {fn} should return a single Tensor")
    if outputs[0].numel() != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {fn} should contain a single element"
        )
    return outputs


def _ones(values: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Returns seeds to differentiate with respect to; linear functions ignore their values."""
    return tuple(cograd.ones_like(t).requires_grad_() for t in values)


def _mode(create_graph: bool) -> Any:
    return cograd.enable_grad() if create_graph or cograd.is_grad_enabled() else cograd.no_grad()


# ---- products ------------------------------------------------------------------------------------


def vjp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Returns (output, product of ``v`` with the Jacobian of ``func`` at ``inputs``).

    Args:
        func: a function from tensors to a tensor or a tuple of tensors.
        inputs: a tensor, or a tuple of tensors.
        v: has the structure of the output; optional if that is one tensor with one element.
        create_graph: whether results can be differentiated further.
        strict: raise if an output does not depend on an input, instead of returning zeros.
    """
    with cograd.enable_grad():
        many_in, given = _as_tuple(inputs, "inputs", "vjp")
        given = _handles(given, create_graph, need_graph=True)
        many_out, outputs = _evaluate(func, given, "vjp", strict)
        seeds = None
        if v is not None:
            seeds = _vector(v, outputs, many_out, create_graph, "vjp")
        elif not _one_element(outputs):
            raise RuntimeError(
                "The vector v can only be None if the user-provided function returns a single "
                "Tensor with a single element."
            )
    with _mode(create_graph):
        found = _gradients(outputs, given, seeds, create_graph=create_graph)
        product = _filled(found, given, strict, create_graph, "back")
    return (
        _unwrapped(_results(outputs, create_graph), many_out),
        _unwrapped(_results(product, create_graph), many_in),
    )


_NEEDS_V = (
    "The vector v can only be None if the input to the user-provided function is a single Tensor "
    "with a single element."
)


def jvp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Returns (output, product of the Jacobian of ``func`` with ``v``), by two backwards.

    The arguments are those of ``vjp``, except that ``v`` has the structure of the inputs.
    ``func.jvp`` computes the same by forward mode, in one evaluation.
    """
    with cograd.enable_grad():
        many_in, given = _as_tuple(inputs, "inputs", "jvp")
        given = _handles(given, create_graph, need_graph=True)
        direction = None
        if v is not None:
            direction = _vector(v, given, many_in, create_graph, "jvp")
        elif not _one_element(given):
            raise RuntimeError(_NEEDS_V)
        many_out, outputs = _evaluate(func, given, "jvp", strict)
        seeds = _ones(outputs)
        backward = _gradients(outputs, given, seeds, create_graph=True)
        if strict:
            _check_recorded(backward, "grad_inputs")
        if direction is None:
            direction = (cograd.ones_like(given[0]),)
    with _mode(create_graph):
        found = _gradients(backward, seeds, direction, create_graph=create_graph)
        product = _filled(found, outputs, strict, create_graph, "back_trick")
    return (
        _unwrapped(_results(outputs, create_graph), many_out),
        _unwrapped(_results(product, create_graph), many_out),
    )


def _hessian_product(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors | None,
    create_graph: bool,
    strict: bool,
    fn: str,
) -> tuple[Any, Any]:
    with cograd.enable_grad():
        many_in, given = _as_tuple(inputs, "inputs", fn)
        given = _handles(given, create_graph, need_graph=True)
        vector = None
        if v is not None:
            vector = _vector(v, given, many_in, create_graph, fn)
        elif not _one_element(given):
            raise RuntimeError(_NEEDS_V)
        outputs = _scalar(func, given, fn, strict)
        first = _gradients(outputs, given, create_graph=True)
        if strict:
            _check_recorded(first, "jacobian")
        if vector is None:
            vector = (cograd.ones_like(given[0]),)
        by: tuple[Tensor, ...] = given
        if fn == "hvp":  # u^T H, whose derivative with respect to u is H v
            by = _ones(given)
            first = _gradients(first, given, by, create_graph=True)
            if strict:
                _check_recorded([g for g in first if g is not None], "hessian")
    with _mode(create_graph):
        found = _gradients(first, by, vector, create_graph=create_graph)
        stage = "double_back_trick" if fn == "hvp" else "double_back"
        product = _filled(found, given, strict, create_graph, stage)
    return (
        _unwrapped(_results(outputs, create_graph), False),
        _unwrapped(_results(product, create_graph), many_in),
    )


def vhp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Returns (output, product of ``v`` with the Hessian of ``func`` at ``inputs``).

    ``func`` must return one tensor with one element; ``v`` has the structure of the inputs. The
    other arguments are those of ``vjp``.
    """
    return _hessian_product(func, inputs, v, create_graph, strict, "vhp")


def hvp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Returns (output, product of the Hessian of ``func`` at ``inputs`` with ``v``).

    The arguments are those of ``vhp``, which computes the same faster if the Hessian is symmetric.
    """
    return _hessian_product(func, inputs, v, create_graph, strict, "hvp")


# ---- Jacobian, Hessian ---------------------------------------------------------------------------


def _forward_jacobian(func: Callable[..., Any], inputs: Tensors, strict: bool) -> Any:
    if strict:
        raise RuntimeError(
            'autograd.functional.jacobian: `strict=True` and `strategy="forward-mode"` are not '
            "supported together (yet). Please either set `strict=False` or "
            '`strategy="reverse-mode"`.'
        )
    many_in, given = _as_tuple(inputs, "inputs", "jacobian")
    seen: list[Any] = []

    def column(tangents: list[Tensor]) -> list[Tensor]:
        with forward_ad.dual_level():
            duals = [forward_ad.make_dual(x, t) for x, t in zip(given, tangents, strict=True)]
            many, outputs = _as_tuple(func(*duals), _OUTPUTS, "jacobian")
            pairs = [forward_ad.unpack_dual(o) for o in outputs]
        if not seen:
            seen.extend((many, [value.shape for value, _ in pairs]))
        return [cograd.zeros_like(value) if t is None else t for value, t in pairs]

    stacked = _map_rows(column, list(given))
    many_out, shapes = seen
    sizes = [x.numel() for x in given]
    rows = []
    for shape, columns in zip(shapes, stacked, strict=True):
        parts = columns.movedim(0, -1).split(sizes, -1)
        rows.append(
            [_detached(p.reshape((*shape, *x.shape))) for p, x in zip(parts, given, strict=True)]
        )
    return _unwrapped_twice(rows, many_out, many_in)


def _rows_of(
    output: Tensor, at: int, inputs: tuple[Tensor, ...], create_graph: bool, strict: bool
) -> list[Tensor]:
    """Returns the Jacobians of one output with respect to every input."""
    columns: list[list[Tensor]] = [[] for _ in inputs]
    flat = output.reshape(-1)
    for j in range(output.numel()):
        found = _gradients((flat[j],), inputs, retain_graph=True, create_graph=create_graph)
        for i, (column, g, x) in enumerate(zip(columns, found, inputs, strict=True)):
            if g is None and strict:
                raise RuntimeError(
                    f"Output {at} of the user-provided function is independent of input {i}. This "
                    "is not allowed in strict mode."
                )
            if g is not None and strict and create_graph and not g.requires_grad:
                raise RuntimeError(
                    "The jacobian of the user-provided function is independent of input "
                    f"{at}. This is not allowed in strict mode when create_graph=True."
                )
            column.append(cograd.zeros_like(x) if g is None else g)
    return [
        (cograd.stack(column) if column else x.new_zeros((0, *x.shape))).view(
            (*output.shape, *x.shape)
        )
        for column, x in zip(columns, inputs, strict=True)
    ]


def jacobian(
    func: Callable[..., Any],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """Computes the Jacobian of ``func``: one tensor, or tuples over outputs, then over inputs.

    Args:
        func: a function from tensors to a tensor or a tuple of tensors.
        inputs: a tensor, or a tuple of tensors.
        create_graph: whether the result can be differentiated further.
        strict: raise if an output does not depend on an input, instead of returning zeros.
        vectorize: compute many rows at once; the result does not depend on it.
        strategy: "reverse-mode", one backward per element of the outputs, or "forward-mode", one
            evaluation per element of the inputs (only with ``vectorize``, as in torch).
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your '
            'function has more outputs than inputs, "forward-mode" tends to be more performant. '
            'Otherwise, prefer to use "reverse-mode".'
        )
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError(
                "autograd.functional.jacobian: `create_graph=True` and "
                '`strategy="forward-mode"` are not supported together (yet). Please either set '
                '`create_graph=False` or `strategy="reverse-mode"`.'
            )
        if not strict and not vectorize:
            raise NotImplementedError(
                "Computing Jacobian using forward-AD or forward-over-reverse Hessian is only "
                "implemented for `vectorize=True`."
            )
        return _forward_jacobian(func, inputs, strict)
    with cograd.enable_grad():
        many_in, given = _as_tuple(inputs, "inputs", "jacobian")
        given = _handles(given, create_graph, need_graph=True)
        many_out, outputs = _evaluate(func, given, "jacobian", strict)
        if vectorize and strict:
            raise RuntimeError(
                "autograd.functional.jacobian: `strict=True` and `vectorized=True` are not "
                "supported together. Please either set `strict=False` or `vectorize=False`."
            )
        rows = [
            _results(_rows_of(output, i, given, create_graph, strict), create_graph)
            for i, output in enumerate(outputs)
        ]
    return _unwrapped_twice(rows, many_out, many_in)


def hessian(
    func: Callable[..., Any],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Computes the Hessian of ``func``: one tensor, or a tuple of tuples over both inputs.

    ``func`` must return one tensor with one element. ``outer_jacobian_strategy`` is the
    ``strategy`` for differentiating the gradient; the other arguments are those of ``jacobian``.
    """
    many, given = _as_tuple(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')

    def scalar(*args: Tensor) -> Tensor:
        (output,) = _scalar(func, args, "hessian", strict)
        return output.squeeze()

    def gradient(*args: Tensor) -> tuple[Tensor, ...]:
        if outer_jacobian_strategy == "forward-mode":
            args = tuple(t.requires_grad_() for t in args)
        found: tuple[Tensor, ...] = jacobian(scalar, args, create_graph=True)
        if strict:
            _check_recorded(found, "jacobian")
        return found

    rows = jacobian(
        gradient,
        given,
        create_graph=create_graph,
        strict=strict,
        vectorize=vectorize,
        strategy=outer_jacobian_strategy,
    )
    return _unwrapped_twice(rows, many, many)


if not TYPE_CHECKING:
    __getattr__ = _absent.reporter(__name__)
