# SPDX-License-Identifier: BSD-3-Clause
"""Reverse-mode transforms: grad, grad_and_value, vjp, jacrev."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

from cograd import _C
from cograd._base.pytree import flat, shown
from cograd._base.traces import refuse_gradients
from cograd._C import Tensor
from cograd._transforms.unit_rows import _map_rows

from ._trees import (
    Argnums,
    check_outputs,
    check_real,
    chosen,
    function_scope,
    mapped,
    numbers_of,
    replaced,
    split_aux,
    tree,
)


class _Inputs:
    """The inputs of a transform: new tensors, which nothing else refers to."""

    __slots__ = ("_lock", "_running", "handles", "own")

    def __init__(self, values: list[Any], tracking: bool) -> None:
        refuse_gradients("func.grad, vjp or jacrev")
        self.handles: list[Tensor] = []
        self.own: list[Tensor] = []  # leaves that nothing outside differentiates with respect to
        self._lock = threading.Lock()
        self._running = 0  # number of running backwards, started after the function has ended
        for value in values:
            if not isinstance(value, Tensor):
                raise ValueError(f"Thing passed to transform API must be Tensor, got {type(value)}")
            if tracking and value.requires_grad:
                own = _C._own_samples(_C._recordable(value))
                self.handles.append(own.view_as(own))
            else:
                leaf = _C._new_leaf(value)
                self.handles.append(leaf)
                self.own.append(leaf)
        _C._set_function_inputs(self.handles)

    def lead_on(self, results: list[Tensor]) -> bool:
        """Returns whether these results also depend on leaves outside of this transform."""
        found: bool = _C._leads_to_leaf(results, self.own)
        return found

    def retire(self) -> None:
        """Stops later recording from leading to the leaves."""
        for leaf in self.own:
            leaf.requires_grad_(False)

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """Makes the leaves require grad during a backward, in which a checkpoint may recompute."""
        with self._lock:
            self._running += 1
        try:
            with self._lock:
                for leaf in self.own:
                    leaf.requires_grad_()
            yield
        finally:
            with self._lock:
                self._running -= 1
                if self._running == 0:
                    self.retire()


def _tensors(value: Any) -> list[Tensor]:
    return [t for t in flat(value)[0] if isinstance(t, Tensor)]


def _released(value: Any, keep: bool) -> Any:
    """Returns the transform's results, with history only if it leads to a leaf outside."""
    if isinstance(value, Tensor):
        return _C._released(value, keep)
    return mapped(lambda t: _C._released(t, keep), value)


def _zeros(like: Tensor) -> Tensor:
    return like.new_zeros(like.shape)


# ---- grad ----------------------------------------------------------------------------------------


def _scalar(output: Any) -> Tensor:
    where = "grad_and_value(f)(*args): Expected f(*args) to return a"
    if not isinstance(output, Tensor):
        raise RuntimeError(f"{where} Tensor, got {type(output)}")
    if output.dim() != 0:
        raise RuntimeError(
            f"{where} scalar Tensor, got tensor with {output.dim()} dims. Maybe you wanted to use "
            "the vjp or jacrev APIs instead?"
        )
    return output


def _gradients(output: Tensor, inputs: _Inputs, keep: bool, create: bool) -> list[Tensor]:
    if not output.requires_grad:
        return [_zeros(t) for t in inputs.handles]
    found = _C._run_backward((output,), (None,), keep, create, tuple(inputs.handles), False)
    return [_zeros(t) if g is None else g for g, t in zip(found, inputs.handles, strict=True)]


def _grad_and_value(
    func: Callable[..., Any],
    argnums: Argnums,
    has_aux: bool,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[Any, Any, Any]:
    """Returns (gradients, output, aux)."""
    values, spec = flat(chosen(args, argnums))
    numbers = numbers_of(argnums, len(args))
    others = [a for n, a in enumerate(args) if n not in numbers]
    with function_scope((others, kwargs), reverse=True) as scope:
        inputs = _Inputs(values, scope.tracking)
        given = replaced(args, argnums, tree(spec, inputs.handles))
        try:
            output, aux = split_aux(func(*given, **kwargs), has_aux, "grad_and_value(f)(*args)")
            output = _scalar(output)
            # Record and retain the graph only if something outside can differentiate further.
            create = scope.tracking and inputs.lead_on([output])
            keep = create or (has_aux and scope.tracking and inputs.lead_on(_tensors(aux)))
            gradients = _gradients(output, inputs, keep, create)
        finally:
            inputs.retire()
        gradients = [_C._released(g, create) for g in gradients]
        result = _released(output, create)
        if has_aux:
            aux = _released(aux, scope.tracking)
    return tree(spec, gradients), result, aux


def grad(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Returns a function that computes the gradient of ``func``, which returns a scalar tensor.

    Args:
        func: returns one tensor without dimensions, or (tensor, aux) with ``has_aux``.
        argnums: positional arguments with respect to which to differentiate, trees of tensors: one
            (the result has its structure) or a tuple (a tuple of such results).
        has_aux: if True, the result is (gradient, aux).

    ``no_grad`` inside ``func`` is respected; outside, it only prevents higher derivatives of the
    gradient. Writing in place to a tensor that ``func`` captured raises RuntimeError.

    Example::

        grad(lambda x: x.sin().sum())(x)  # x.cos()
        grad(grad(cograd.sin))(x)  # -x.sin(), for an x without dimensions
    """

    @functools.wraps(func, updated=())
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        gradient, _, aux = _grad_and_value(func, argnums, has_aux, args, kwargs)
        return (gradient, aux) if has_aux else gradient

    return wrapper


def grad_and_value(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Returns a function like ``grad``'s, whose result is (gradient, value).

    Args:
        func: returns one tensor without dimensions, or (tensor, aux) with ``has_aux``.
        argnums: positional arguments with respect to which to differentiate, as for ``grad``.
        has_aux: if True, the result is (gradient, (value, aux)).

    Raises:
        RuntimeError: raised by the call if ``func`` does not return a tensor without dimensions.
    """

    @functools.wraps(func, updated=())
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        gradient, value, aux = _grad_and_value(func, argnums, has_aux, args, kwargs)
        return (gradient, (value, aux)) if has_aux else (gradient, value)

    return wrapper


# ---- vjp -----------------------------------------------------------------------------------------


class _Pullback:
    """Multiplies vectors by the Jacobian of one evaluation."""

    def __init__(
        self,
        inputs: _Inputs,
        in_spec: Any,
        outputs: list[Tensor],
        out_spec: Any,
        leads_on: bool,
        function: int,
    ) -> None:
        self.inputs = inputs
        self.function = function  # its scope's number: hooks registered there run
        self.edges = tuple((*_C._gradient_edge(t), None) for t in inputs.handles)
        self.in_spec = in_spec
        # A result that is an input itself needs a separate node in the graph.
        self.outputs = [o.view_as(o) if o.requires_grad and o.is_leaf else o for o in outputs]
        self.recorded = [o.requires_grad for o in self.outputs]
        self.out_spec = out_spec
        self.leads_on = leads_on

    def __call__(
        self, cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None
    ) -> Any:
        given, spec = flat(cotangents)
        if spec != self.out_spec:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of "
                f"outputs to the function. cotangents: {shown(spec)}, primal output: "
                f"{shown(self.out_spec)}"
            )
        if create_graph is None:
            create_graph = _C.is_grad_enabled() and (
                self.leads_on or _C._leads_to_leaf([c for c in given if isinstance(c, Tensor)], [])
            )
        return tree(self.in_spec, self._products(given, retain_graph, create_graph))

    def _products(self, given: list[Any], retain: bool, create: bool) -> list[Tensor]:
        used = [(o, c) for o, c, r in zip(self.outputs, given, self.recorded, strict=True) if r]
        handles = self.inputs.handles
        if not used or not handles:
            return [_zeros(t) for t in handles]
        roots, seeds = zip(*used, strict=True)
        edges, number = self._edges(), self.function
        with self.inputs.again():
            found = _C._run_pullback(roots, seeds, retain, create, edges, False, number)
        result = [
            _zeros(t) if g is None else _C._batched_like(t, g)
            for g, t in zip(found, handles, strict=True)
        ]
        return [_C._released(g, create) for g in result]

    def _edges(self) -> tuple[Any, ...]:
        from cograd.autograd.graph import GradientEdge

        return tuple(GradientEdge(*e) for e in self.edges)


def _vjp(
    func: Callable[..., Any],
    primals: tuple[Any, ...],
    argnums: Argnums | None,
    has_aux: bool,
) -> tuple[list[Tensor], Any, _Pullback, Any]:
    """Returns (outputs, their tree, pullback, aux)."""
    where = "vjp(f, *primals)"
    values, in_spec = flat(chosen(primals, argnums))
    numbers = range(len(primals)) if argnums is None else numbers_of(argnums, len(primals))
    others = [a for n, a in enumerate(primals) if n not in numbers]
    with function_scope(others, reverse=True) as scope:
        inputs = _Inputs(values, scope.tracking)
        try:
            result = func(*replaced(primals, argnums, tree(in_spec, inputs.handles)))
            result, aux = split_aux(result, has_aux, where)
            outputs, out_spec = flat(result)
            check_outputs(outputs, where)
            for output in outputs:
                if not (output.is_floating_point() or output.is_complex()):
                    raise RuntimeError(
                        "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, "
                        f"got Tensor with dtype {output.dtype}"
                    )
            leads_on = scope.tracking and inputs.lead_on(outputs)
            pullback = _Pullback(inputs, in_spec, outputs, out_spec, leads_on, scope.number)
        finally:
            inputs.retire()
        results = [_C._released(o, leads_on) for o in outputs]
        aux = _released(aux, scope.tracking) if has_aux else None
    return results, out_spec, pullback, aux


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Returns (output, vjp_fn): vjp_fn(cotangents) is their product with the Jacobian of ``func``.

    Args:
        func: returns a tree of floating-point tensors, or (tree, aux) with ``has_aux``.
        primals: its arguments, trees of tensors.
        has_aux: if True, the result is (output, vjp_fn, aux).

    ``vjp_fn`` accepts cotangents in the structure of the output, returns a tuple with one product
    for each of the primals, and may be called any number of times.
    """
    outputs, spec, pullback, aux = _vjp(func, primals, None, has_aux)
    output = tree(spec, outputs)
    return (output, pullback, aux) if has_aux else (output, pullback)


# ---- jacrev --------------------------------------------------------------------------------------


def jacrev(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """Returns a function that computes the Jacobian of ``func``, one backward per output element.

    Args:
        func: returns a tree of tensors, or (tree, aux) with ``has_aux``.
        argnums: positional arguments with respect to which to differentiate, as for ``grad``.
        has_aux: if True, the result is (Jacobian, aux).
        chunk_size: number of rows per batch; the result does not depend on it.

    The result has the structure of the output, with the structure of the chosen arguments in place
    of each tensor; each Jacobian has the dims of the output, then those of the argument.
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func, updated=())
    def wrapper(*args: Any) -> Any:
        inputs, in_spec = flat(chosen(args, argnums))
        check_real("jacrev", "inputs", inputs)
        outputs, out_spec, pullback, aux = _vjp(func, args, argnums, has_aux)
        check_real("jacrev", "outputs", outputs)

        def row(cotangents: list[Tensor]) -> list[Tensor]:
            products: list[Tensor] = flat(pullback(tree(out_spec, cotangents)))[0]
            return products

        # "same": a checkpoint in the graph repeats the random numbers of its forward.
        stacked = _map_rows(row, outputs, chunk_size, randomness="same")
        sizes = [o.numel() for o in outputs]
        parts = [s.split(sizes) for s in stacked]
        jacobian = tree(
            out_spec,
            [
                tree(
                    in_spec,
                    [
                        part[o].reshape((*output.shape, *x.shape))
                        for part, x in zip(parts, inputs, strict=True)
                    ],
                )
                for o, output in enumerate(outputs)
            ],
        )
        return (jacobian, aux) if has_aux else jacobian

    return wrapper
