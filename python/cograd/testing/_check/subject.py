# SPDX-License-Identifier: BSD-3-Clause
"""The audited callable: its arguments as a list of leaves, and how to run it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

import cograd
from cograd import _C, Tensor
from cograd._base import pytree as _pytree
from cograd.autograd import Function

from .report import Fault

__all__ = ["Subject", "array", "tensors_in"]


def array(tensor: Tensor) -> Any:
    """Returns a float64 NumPy copy of the values, for any dtype, strides and history."""
    return np.array(tensor.detach().to("cpu", cograd.float64).contiguous().numpy(), copy=True)


def _paths(tree: Any, prefix: str) -> Iterator[str]:
    """Yields a name for each leaf, in the order of _pytree.flatten."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from _paths(value, f"{prefix}[{key!r}]")
    elif isinstance(tree, (list, tuple)):
        for i, value in enumerate(tree):
            yield from _paths(value, f"{prefix}[{i}]")
    else:
        yield prefix


def tensors_in(tree: Any) -> list[Tensor]:
    """Returns the tensors in nested lists, tuples and dicts."""
    leaves: list[Any] = []
    _pytree.flatten(tree, leaves)
    return [leaf for leaf in leaves if isinstance(leaf, Tensor)]


def _parameter_names(fn: Any, count: int) -> list[str]:
    """Returns the names of the first ``count`` positional arguments of ``fn``."""
    target = fn.forward if isinstance(fn, type) and issubclass(fn, Function) else fn
    try:
        parameters = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    if target is not fn and fn._style != "setup":
        parameters = parameters[1:]
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names: list[str] = []
    for parameter in parameters:
        if parameter.kind not in positional:
            break
        names.append(f"'{parameter.name}'")
    return [names[i] if i < len(names) else f"args[{i}]" for i in range(count)]


def _callable_of(fn: Any) -> tuple[Callable[..., Any], str, bool]:
    """Returns the function to call, its name, and whether it is a Function class."""
    if isinstance(fn, type) and issubclass(fn, Function):
        if fn._style == "instance":
            return (lambda *args, **kwargs: fn()(*args, **kwargs)), fn.__name__, True
        return fn.apply, fn.__name__, True
    if not callable(fn):
        raise TypeError(f"check: expected a callable or a Function class, got {type(fn).__name__}")
    name = getattr(fn, "_qualname", None) or getattr(fn, "__qualname__", None)
    return fn, str(name or type(fn).__name__), False


def _compiled(fn: Any) -> dict[str, Any]:
    """Returns what a compiled op states about itself; nothing for other callables."""
    name = getattr(fn, "_qualname", "")
    space = str(getattr(fn, "__module__", "")).removeprefix("cograd.ops.")
    if isinstance(fn, type(cograd.add)) and space != fn.__module__:
        name = f"{space}::{fn.__name__}"
    try:
        return dict(_C._describe_op(name)) if name else {}
    except AttributeError:  # an op of cograd.library
        return {}


class Subject:
    """A callable with its arguments.

    Attributes:
        leaves: the arguments, containers flattened.
        names: a name for each leaf.
        targets: positions of the floating-point tensors that are differentiated: those that
            require grad, or all of them if none does.
        mutated: positions of the tensors that the callable writes.
        declared: positions of the tensors it declares as written.
        compiled: what a compiled op states: its arguments, whether it has a jvp or a vmap.
    """

    def __init__(
        self, fn: Any, args: Any, kwargs: dict[str, Any] | None, mutates: Iterable[Any]
    ) -> None:
        self.fn = fn
        self.call, self.name, self.is_function = _callable_of(fn)
        args = tuple(args) if isinstance(args, (tuple, list)) else (args,)
        kwargs = dict(kwargs or {})
        self.leaves: list[Any] = []
        self.spec = _pytree.flatten((args, kwargs), self.leaves)
        roots = _parameter_names(fn, len(args))
        self.names: list[str] = []
        self.roots: list[int | str] = []
        for index, (value, root) in enumerate(zip(args, roots, strict=True)):
            self._add(value, root, index)
        for key, value in kwargs.items():
            self._add(value, f"'{key}'", key)
        self.compiled = _compiled(fn)
        writes = mutates or any(a["mutated"] for a in self.compiled.get("args", ()))
        self.complex = self._parts_of_complex() if not writes else set()
        floating = [
            i
            for i, leaf in enumerate(self.leaves)
            if isinstance(leaf, Tensor) and leaf.dtype.is_floating_point
        ]
        wanted = [i for i in floating if self.leaves[i].requires_grad]
        self.explicit = bool(wanted)
        self.targets = wanted or floating
        self.tensors = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, Tensor)]
        self.may_hold_parameters = not (self.is_function or hasattr(fn, "_qualname"))
        self.mutated: set[int] = set()
        self.declared = self._declared(mutates)

    def _parts_of_complex(self) -> set[int]:
        """Replaces complex arguments by their parts in a last dim: checks need real values."""
        found = set()
        for i, leaf in enumerate(self.leaves):
            if isinstance(leaf, Tensor) and leaf.is_complex():
                parts = cograd.view_as_real(leaf.detach()).clone()
                self.leaves[i] = parts.requires_grad_(leaf.requires_grad)
                found.add(i)
        return found

    def _add(self, value: Any, name: str, root: int | str) -> None:
        paths = list(_paths(value, name))
        self.names.extend(paths)
        self.roots.extend([root] * len(paths))

    def _declared(self, mutates: Iterable[Any]) -> set[int]:
        """Returns leaves named in ``mutates`` or, for registered ops, in their schema."""
        named = [mutates] if isinstance(mutates, (str, int)) else list(mutates)
        schema = [*getattr(self.fn, "_mutated_names", ())]
        schema += [a["name"] for a in self.compiled.get("args", ()) if a["mutated"]]
        named += schema
        found: set[int] = set()
        for name in named:
            hits = {
                i
                for i, (root, path) in enumerate(zip(self.roots, self.names, strict=True))
                if name == root or path.startswith(f"'{name}'")
            }
            if not hits and name not in schema:
                raise ValueError(
                    f"check: mutates names {name!r}, which is not an argument of the call"
                )
            found |= hits & set(self.tensors)
        return found

    def declares(self, rule: str) -> bool:
        """Returns whether the callable defines the rule "jvp" or "vmap" itself."""
        if self.is_function:
            own = getattr(self.fn, rule) is not getattr(Function, rule)
            return own or (rule == "vmap" and self.fn.generate_vmap_rule)
        if self.compiled.get(rule):
            return True
        return getattr(self.fn, f"_{rule}_fn", None) is not None

    # ------------------------------------------------------------------ leaves

    def fresh(
        self, dtype: Any = None, requires: Iterable[int] | None = None, shift: float = 0.0
    ) -> list[Any]:
        """Returns copies of the arguments, of which those in ``requires`` require grad.

        Args:
            dtype: dtype of the floating-point tensors; None keeps theirs.
            shift: floating-point values x become x * (1 + shift), for a second set of inputs.
        """
        wanted = set(self.targets if requires is None else requires)
        leaves = list(self.leaves)
        for i in self.tensors:
            tensor = leaves[i].detach()
            if tensor.dtype.is_floating_point:
                tensor = tensor.to(dtype or tensor.dtype)
                if shift and i in self.targets:
                    tensor = tensor * (1 + shift)
            tensor = tensor.clone()
            leaves[i] = tensor.requires_grad_() if i in wanted else tensor
        return leaves

    def invoke(self, leaves: Sequence[Any]) -> Any:
        """Calls with the given leaves and returns the result unchanged."""
        leaves = [
            cograd.complex(leaf[..., 0], leaf[..., 1]) if i in self.complex else leaf
            for i, leaf in enumerate(leaves)
        ]
        args, kwargs = _pytree.unflatten(self.spec, iter(leaves))
        return self.call(*args, **kwargs)

    def run(self, leaves: Sequence[Any]) -> list[Tensor]:
        """Returns the outputs; tensors that are written are copied first and count as outputs."""
        work = list(leaves)
        for i in self.mutated:
            work[i] = leaves[i].clone()
        outputs = [
            cograd.view_as_real(o) if o.is_complex() and not self.mutated else o
            for o in tensors_in(self.invoke(work))
        ]
        for i in sorted(self.mutated):
            if not any(output is work[i] for output in outputs):
                outputs.append(work[i])
        return outputs

    def output_name(self, index: int, count: int) -> str:
        """Returns 'output' or 'output[1]'."""
        return "output" if count == 1 else f"output[{index}]"


def element_text(shape: Sequence[int], flat: int) -> str:
    """Returns ' at [1, 2]', or '' for a tensor without dimensions."""
    index: list[int] = []
    for size in reversed(shape):
        flat, rest = divmod(flat, size)
        index.append(rest)
    return f" at [{', '.join(map(str, reversed(index)))}]" if index else ""


def number(value: float) -> str:
    """Formats ten significant digits."""
    return f"{value:.10g}"


def compare(
    actual: Any, expected: Any, where: str, when: str = "", rtol: float = 0.0, atol: Any = 0.0
) -> None:
    """Raises Fault naming the worst element if two arrays differ by more than allowed.

    Args:
        atol: a number, or an array with a bound for each element.
    """
    if actual.shape != expected.shape:
        raise Fault(where, f"{when}has shape {actual.shape}, expected {expected.shape}")
    if actual.size == 0:
        return
    with np.errstate(all="ignore"):
        difference = np.abs(actual - expected)
        fine = (difference <= atol + rtol * np.abs(expected)) | (actual == expected)
    fine |= np.isnan(actual) & np.isnan(expected)
    if fine.all():
        return
    size = np.where(fine, -1.0, np.where(np.isnan(difference), np.inf, difference))
    worst = int(size.argmax())
    got, right = actual.reshape(-1)[worst], expected.reshape(-1)[worst]
    allowed = np.broadcast_to(atol + rtol * np.abs(expected), actual.shape).reshape(-1)[worst]
    raise Fault(
        where + element_text(actual.shape, worst),
        f"{when}is {number(got)}, expected {number(right)}: off by {abs(got - right):.4g}"
        + (f" ({allowed:.2g} allowed)" if allowed > 0 else "")
        + f"; {int((~fine).sum())} of {fine.size} elements are wrong"
        + factor_text(actual[~fine], expected[~fine]),
        float(abs(got - right)),
    )


def factor_text(actual: Any, expected: Any) -> str:
    """Returns a text if all wrong values are the right ones times one number, else ''."""
    with np.errstate(all="ignore"):
        ratio = actual / expected
    if (
        not ratio.size
        or not ratio.any()
        or not np.isfinite(ratio).all()
        or np.ptp(ratio) > 1e-3 * abs(ratio[0])
    ):
        return ""
    if abs(ratio[0] + 1) < 1e-3:
        return "; the sign is wrong"
    return f"; each is {ratio[0]:.4g} times the right value" if ratio.size > 1 else ""
