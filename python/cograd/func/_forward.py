# SPDX-License-Identifier: BSD-3-Clause
"""Forward-mode transforms: jvp, jacfwd, linearize, hessian."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from cograd import _C
from cograd._base.pytree import flat, shown
from cograd._base.traces import refuse_gradients
from cograd._C import Tensor
from cograd._transforms.unit_rows import _map_rows

from ._reverse import _vjp, jacrev
from ._trees import (
    Argnums,
    check_outputs,
    check_real,
    chosen,
    function_scope,
    mapped,
    replaced,
    split_aux,
    tree,
)

_JVP = "jvp(f, primals, tangents)"


def _check_tensors(values: list[Any], name: str) -> None:
    if not values:
        raise RuntimeError(f"{_JVP}: Expected {name} to contain at least one Tensor.")
    for value in values:
        if not isinstance(value, Tensor):
            raise RuntimeError(
                f"{_JVP}: Expected {name} to only contain Tensors, got {type(value)}"
            )


def _unpacked(output: Tensor, level: int, strict: bool) -> tuple[Tensor, Tensor]:
    value, tangent = _C._unpack_dual(output, level)
    if tangent is None:
        if strict:
            raise RuntimeError(
                "jvp(f, primals, tangents, strict=True): The output of f is independent of the "
                "inputs. This is not allowed with strict=True."
            )
        tangent = value.new_zeros(value.shape)
    return value, tangent


def _jvp(
    func: Callable[..., Any],
    primals: Any,
    tangents: Any,
    argnums: Argnums | None,
    strict: bool,
    has_aux: bool,
) -> tuple[list[Tensor], list[Tensor], Any, Any]:
    """Returns (outputs, their tangents, their tree, aux)."""
    refuse_gradients("func.jvp")
    if not isinstance(primals, tuple):
        raise RuntimeError(
            f"{_JVP}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals)."
        )
    values, spec = flat(chosen(primals, argnums))
    directions, given = flat(tangents)
    if spec != given:
        raise RuntimeError(
            f"{_JVP}: Expected primals and tangents to have the same python structure. For "
            "example, if primals is a tuple of 3 tensors, tangents also must be. Got primals with "
            f"structure {shown(spec)} and tangents with structure {shown(given)}"
        )
    _check_tensors(values, "primals")
    _check_tensors(directions, "tangents")
    with function_scope((primals, tangents), reverse=False), _C._forward_level() as level:
        duals = [
            _C._make_dual(_C._recordable(p), _C._recordable(t), level)
            for p, t in zip(values, directions, strict=True)
        ]
        result = func(*replaced(primals, argnums, tree(spec, duals)))
        result, aux = split_aux(result, has_aux, _JVP)
        leaves, out_spec = flat(result)
        check_outputs(leaves, _JVP)
        pairs = [_unpacked(o, level, strict) for o in leaves]
        if has_aux:
            aux = mapped(lambda t: _C._unpack_dual(t, level)[0], aux)
    return [p for p, _ in pairs], [t for _, t in pairs], out_spec, aux


def jvp(
    func: Callable[..., Any],
    primals: Any,
    tangents: Any,
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """Returns (output, tangent): ``func(*primals)`` and its Jacobian times ``tangents``.

    Args:
        func: returns a tree of tensors, or (tree, aux) with ``has_aux``.
        primals: the tuple of its arguments, trees of floating-point tensors.
        tangents: the direction, in the structure of ``primals``.
        strict: raise if an output does not depend on the primals, instead of returning zeros.
        has_aux: if True, the result is (output, tangent, aux).

    ``no_grad`` does not stop forward mode; ``detach`` does. Writing in place to a tensor that
    ``func`` captured raises RuntimeError.
    """
    outputs, directions, spec, aux = _jvp(func, primals, tangents, None, strict, has_aux)
    output, tangent = tree(spec, outputs), tree(spec, directions)
    return (output, tangent, aux) if has_aux else (output, tangent)


def _of_one(tangents: list[Tensor], value: Tensor) -> Tensor:
    """Returns ``value`` for the first direction, if it is batched over the directions."""
    ours, found = _C._describe_samples(tangents[0]), _C._describe_samples(value)
    if ours is None or found is None or found[0] != ours[0]:
        return value
    first: Tensor = found[2].select(found[1], 0)
    return first


def jacfwd(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    chunk_size: int | None = None,
    randomness: str = "error",
) -> Callable[..., Any]:
    """Returns a function that computes the Jacobian of ``func``, one direction per input element.

    Args:
        func: returns a tree of tensors, or (tree, aux) with ``has_aux``.
        argnums: positional arguments with respect to which to differentiate, as for ``grad``.
        has_aux: if True, the result is (Jacobian, aux).
        chunk_size: number of directions per batch; the result does not depend on it.
        randomness: behaviour of random ops in ``func``: "error", "same" or "different".

    The result has the layout of ``jacrev``'s. ``func`` runs once, under ``vmap`` over the tangents;
    a function that vmap rejects, because it depends on values or writes into tensors that it
    created, runs once per tangent.
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacfwd: `chunk_size` should be greater than 0.")

    @functools.wraps(func, updated=())
    def wrapper(*args: Any) -> Any:
        refuse_gradients("func.jacfwd or hessian")
        inputs, in_spec = flat(chosen(args, argnums))
        _check_tensors(inputs, "primals")
        check_real("jacfwd", "inputs", inputs)
        first: list[Any] = []  # outputs, their tree and aux of the first row

        def column(tangents: list[Tensor]) -> list[Tensor]:
            outputs, directions, spec, aux = _jvp(
                func, args, tree(in_spec, tangents), argnums, False, has_aux
            )
            check_real("jacfwd", "outputs", outputs)
            if not first:
                first.extend((outputs, spec, mapped(functools.partial(_of_one, tangents), aux)))
            return directions

        stacked = _map_rows(column, inputs, chunk_size, randomness)
        outputs, out_spec, aux = first
        sizes = [x.numel() for x in inputs]
        jacobian = []
        for output, rows in zip(outputs, stacked, strict=True):
            parts = rows.movedim(0, -1).split(sizes, -1)
            shaped = [
                part.reshape((*output.shape, *x.shape))
                for part, x in zip(parts, inputs, strict=True)
            ]
            jacobian.append(tree(in_spec, shaped))
        result = tree(out_spec, jacobian)
        return (result, aux) if has_aux else result

    return wrapper


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Returns a function that computes the Hessian of ``func``: ``jacfwd(jacrev(func))``.

    For an input of shape s and an output of shape o the result has the shape ``o + s + s``; with a
    tuple of ``argnums`` it is a tuple of tuples.

    Args:
        func: returns a tree of tensors.
        argnums: positional arguments with respect to which to differentiate, as for ``grad``.
    """
    return jacfwd(jacrev(func, argnums), argnums)


class _Linear:
    """The derivative of a function at one point, as a function of the direction."""

    def __init__(self, primals: tuple[Any, ...], pullback: Any, transposed: Any) -> None:
        self.values, self.spec = flat(primals)
        self.out_spec = pullback.out_spec
        self.transposed = transposed

    def __call__(self, *tangents: Any) -> Any:
        directions, spec = flat(tangents)
        if spec != self.spec:
            raise RuntimeError(
                f"Expected the tangents {shown(spec)} to have the same argspec as the primals "
                f"{shown(self.spec)}"
            )
        for at, (t, p) in enumerate(zip(directions, self.values, strict=True)):
            for what in ("shape", "device", "dtype"):
                mine, wanted = getattr(t, what), getattr(p, what)
                if mine != wanted:
                    raise RuntimeError(
                        f"tangent:{at} with {what} {mine} in flattened pytree doesn't match the "
                        f"{what} {wanted} of the corresponding primal."
                    )
        return self.transposed(tangents)[0]


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns (output, jvp_fn): jvp_fn(*tangents) multiplies the Jacobian at ``primals`` by them.

    ``func`` is evaluated once, here; ``jvp_fn`` may be called any number of times, and costs about
    as much as a backward.
    """
    outputs, spec, pullback, _ = _vjp(func, primals, None, False)
    pullback.function = 0  # no hooks: they would change the products
    # The pullback is linear in its cotangent, so its own pullback multiplies by the Jacobian.
    ones = tree(spec, [o.new_ones(o.shape) for o in outputs])
    (
        _,
        transposed,
    ) = _vjp(pullback, (ones,), None, False)[1:3]
    return tree(spec, outputs), _Linear(primals, pullback, transposed)
