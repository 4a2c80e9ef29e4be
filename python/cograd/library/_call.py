# SPDX-License-Identifier: BSD-3-Clause
"""Generates the Python code of an op's call from its schema; no argument is checked twice.

For "(Tensor x, float a=1.0) -> Tensor" the generated function is, in short:

    def __call__(self, x=missing, a=1.0, *extra):
        if extra: wrong_count(extra)
        if type(a) is not float: a = convert(...)
        try: recorded = x._is_concerned
        except AttributeError: wrong_type(...)
        out = apply(x, a) if recorded else kernel(x, a)
        if out._is_view() or out.data_ptr() == x.data_ptr(): alias(...)
        return out
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import cograd
from cograd import _C, Tensor, _pytree
from cograd._tensor.memory import overlap

from ._schema import REQUIRED, Argument, Schema

__all__ = ["composite", "make", "missing_kernel"]

Fn = Callable[..., Any]


# ---------------------------------------------------------------------- slow paths


def _tensors(value: Any) -> list[Tensor]:
    leaves: list[Any] = []
    _pytree.flatten(value, leaves)
    return [leaf for leaf in leaves if isinstance(leaf, Tensor)]


class Checks:
    """Slow paths that the generated function calls in unusual cases; one object per op."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def count(self, given: dict[str, Any], extra: tuple[Any, ...]) -> NoReturn:
        """Raises TypeError for missing or too many arguments."""
        name = self.schema.name
        if extra:
            limit = sum(not a.keyword_only for a in self.schema.arguments)
            text = f"expected at most {limit} argument(s) but received {limit + len(extra)}"
        else:
            absent = [a.name for a in self.schema.arguments if given.get(a.name) is REQUIRED]
            text = f"is missing value for argument '{absent[0]}'"
        raise TypeError(f"{name}() {text}. Declaration: {self.schema}")

    def wrong(self, argument: Argument, value: Any) -> NoReturn:
        """Raises TypeError for an argument of a wrong type."""
        raise TypeError(
            f"{self.schema.name}() Expected a value of type '{argument.type}' for argument "
            f"'{argument.name}' but instead found type '{type(value).__name__}'. "
            f"Declaration: {self.schema}"
        )

    def tensors(self, given: dict[str, Any]) -> None:
        """Raises TypeError for the first tensor argument that is not a tensor."""
        for argument in self.schema.arguments:
            value = given[argument.name]
            if argument.type.startswith("Tensor") and not _is_tensor(argument, value):
                self.wrong(argument, value)

    def convert(self, index: int, value: Any) -> Any:
        """Converts ``value`` to the argument's type, if it is a number that fits."""
        argument = self.schema.arguments[index]
        converted = _CONVERTERS[argument.type.rstrip("?")](value)
        if converted is None:
            self.wrong(argument, value)
        return converted

    def any_concerned(self, value: Any) -> int:
        """Returns the maximum ``_is_concerned`` of the tensors in a list; 0 for None.

        Raises:
            TypeError: ``value`` is not a list.
            AttributeError: its elements are not tensors.
        """
        if value is None:
            return 0
        if not isinstance(value, (list, tuple)):
            raise TypeError
        return max((t._is_concerned for t in value if t is not None), default=0)

    def samples(self, values: Sequence[Any]) -> bool:
        """Returns whether a tensor among the arguments is batched by a vmap."""
        return any(_C._describe_samples(t) is not None for t in _tensors(list(values)))

    def no_grad_write(self, given: dict[str, Any]) -> None:
        """Raises RuntimeError if an argument that is written requires grad."""
        for argument in self.schema.arguments:
            if argument.mutated and any(t.requires_grad for t in _tensors(given[argument.name])):
                raise RuntimeError(
                    f"{self.schema.name}(): the argument '{argument.name}' is written and requires "
                    "grad, but an op that writes its arguments has no autograd formula, so its "
                    "gradient would be wrong. Call it under no_grad, or write a functional op and "
                    "register its formula"
                )

    def bump(self, value: Any, versions: list[int]) -> None:
        """Increments the versions of tensors that the kernel wrote without the engine."""
        for tensor, version in zip(_tensors(value), versions):
            if tensor._version == version:
                _C._increment_version(tensor)

    def versions(self, value: Any) -> list[int]:
        """Returns the versions of the tensors in an argument."""
        return [tensor._version for tensor in _tensors(value)]

    def alias(self, out: Any, inputs: Sequence[Any]) -> None:
        """Raises RuntimeError if an output shares memory with an input or another output."""
        outputs, given = _tensors(out), _tensors(list(inputs))
        for k, output in enumerate(outputs):
            others = given + outputs[:k]
            if any(output is other or overlap(output, other) for other in others):
                raise RuntimeError(
                    f"{self.schema.name}: The output of this custom operator (1) must not also be "
                    "an input to this custom operator and (2) may not alias any inputs to this "
                    "custom operator or other returns. The most common way to trigger this error "
                    "is if we have y = custom_op(x) and y and x are the same Tensor. Please "
                    "instead return a clone of the offending output tensor(s) (e.g. return "
                    "x.clone()) or refactor the custom operator to not return y."
                )

    def detach(self, out: Any) -> Any:
        """Removes history that a kernel recorded through its closure."""
        if isinstance(out, Tensor):
            return out.detach()
        leaves: list[Any] = []
        spec = _pytree.flatten(out, leaves)
        plain = (t.detach() if isinstance(t, Tensor) else t for t in leaves)
        return _pytree.unflatten(spec, iter(plain))


def _is_tensor(argument: Argument, value: Any) -> bool:
    if argument.is_tensor:
        return isinstance(value, Tensor) or (value is None and argument.type.endswith("?"))
    if value is None:
        return argument.type.endswith("]?")
    if not isinstance(value, (list, tuple)):
        return False
    none = argument.type.startswith("Tensor?")
    return all(isinstance(v, Tensor) or (none and v is None) for v in value)


def _as_float(value: Any) -> float | None:
    if isinstance(value, (str, bytes, bool)) or not hasattr(value, "__float__"):
        return float(value) if isinstance(value, bool) else None
    return None if isinstance(value, Tensor) and value.numel() != 1 else float(value)


def _as_int(value: Any) -> int | None:
    if isinstance(value, float) or not hasattr(value, "__index__"):
        return None
    return None if isinstance(value, Tensor) and value.numel() != 1 else value.__index__()


def _as_bool(value: Any) -> bool | None:
    return bool(value) if type(value).__name__ in ("bool", "bool_") else None


_CONVERTERS: dict[str, Fn] = {
    "float": _as_float,
    "SymInt": _as_int,
    "bool": _as_bool,
    "str": lambda value: value if isinstance(value, str) else None,
}
_PYTHON = {"float": "float", "SymInt": "int", "bool": "bool", "str": "str"}


# ---------------------------------------------------------------------- made code


def _header(schema: Schema, scope: dict[str, Any]) -> str:
    """Returns the def line; defaults are variables of the scope."""
    parts, star = ["self"], False
    for index, argument in enumerate(schema.arguments):
        if argument.keyword_only and not star:
            parts.append("*_extra")
            star = True
        scope[f"_d{index}"] = argument.default
        parts.append(f"{argument.name}=_d{index}")
    if not star:
        parts.append("*_extra")
    return f"def __call__({', '.join(parts)}):\n"


def _forwarded(schema: Schema) -> str:
    """Returns the arguments of the kernel call."""
    return ", ".join(f"{a.name}={a.name}" if a.keyword_only else a.name for a in schema.arguments)


def _argument_checks(schema: Schema) -> str:
    """Returns code that checks counts, and types of everything except tensors."""
    required = [a.name for a in schema.arguments if a.default is REQUIRED]
    conditions = ["_extra", *(f"{name} is _required" for name in required)]
    code = f" if {' or '.join(conditions)}:\n  _checks.count(locals(), _extra)\n"
    for index, argument in enumerate(schema.arguments):
        base = argument.type.rstrip("?")
        if base in _PYTHON:
            optional = f"{argument.name} is not None and " if argument.type.endswith("?") else ""
            code += f" if {optional}type({argument.name}) is not _{_PYTHON[base]}:\n"
            code += f"  {argument.name} = _checks.convert({index}, {argument.name})\n"
    return code


def _concerned(argument: Argument) -> str:
    """Returns an expression for an argument's ``_is_concerned``.

    The value is nonzero if the argument requires grad or a transform must see it, and at least 4
    under a vmap. The expression raises AttributeError if the argument is not a tensor.
    """
    if argument.is_tensor_list:
        return f"_any_concerned({argument.name})"
    if argument.type == "Tensor?":
        return f"(0 if {argument.name} is None else {argument.name}._is_concerned)"
    return f"{argument.name}._is_concerned"


def _compile(schema: Schema, code: str, scope: dict[str, Any]) -> Fn:
    exec(compile(code, f"<op {schema.name}>", "exec"), scope)
    made: Fn = scope["__call__"]
    made.__qualname__ = schema.name
    return made


def _scope(schema: Schema) -> dict[str, Any]:
    checks = Checks(schema)
    return {
        "_checks": checks,
        "_any_concerned": checks.any_concerned,
        "_required": REQUIRED,
        "_grad_enabled": cograd.is_grad_enabled,
        "_set_grad": _C._set_grad_enabled,
        "_increment": _C._increment_version,
        "_float": float,
        "_int": int,
        "_bool": bool,
        "_str": str,
        "_Tensor": Tensor,
    }


def make(schema: Schema, kernel: Fn, apply: Fn) -> Fn:
    """Generates the call of an op: ``apply`` if autograd or a vmap must see it, else ``kernel``."""
    scope = _scope(schema) | {"_kernel": kernel, "_apply": apply}
    tensors = [a for a in schema.arguments if a.type.startswith("Tensor")]
    code = _header(schema, scope) + _argument_checks(schema)
    code += " try:\n  _recorded = " + (" | ".join(map(_concerned, tensors)) or "0") + "\n"
    code += " except (AttributeError, TypeError):\n  _checks.tensors(locals())\n  raise\n"
    everything = ", ".join(a.name for a in schema.arguments)
    if schema.is_mutable:
        code += f" if _recorded >= 4:\n  return _apply({everything})\n"
        code += _mutable_body(schema)
    else:
        code += " if _recorded:\n"
        code += f"  _out = _apply({everything})\n"
        code += "  if _recorded >= 4:\n   return _out\n"
        code += f" else:\n  _out = _kernel({_forwarded(schema)})\n"
        code += _unrecorded(schema)
    return _compile(schema, code + _alias_check(schema, tensors) + " return _out\n", scope)


def _unrecorded(schema: Schema) -> str:
    """Returns code that drops history which the kernel recorded through a closure."""
    if schema.returns == ("Tensor",):
        return "  if _out.requires_grad:\n   _out = _out.detach()\n"
    if any(kind.startswith("Tensor") for kind in schema.returns):
        return "  _out = _checks.detach(_out) if _grad_enabled() else _out\n"
    return ""


def _alias_check(schema: Schema, tensors: Sequence[Argument]) -> str:
    """Returns code that checks aliases: quickly for single tensors, fully for lists."""
    if not any(kind.startswith("Tensor") for kind in schema.returns):
        return ""
    names = ", ".join(a.name for a in tensors)
    full = f"_checks.alias(_out, ({names},))\n" if names else "_checks.alias(_out, ())\n"
    if schema.returns != ("Tensor",) or any(not a.is_tensor for a in tensors):
        return " " + full
    if not tensors:
        return ""
    quick = "_out._is_view() or " + " or ".join(
        (f"({a.name} is not None and " if a.type == "Tensor?" else "(")
        + f"{a.name}.data_ptr() == _pointer)"
        for a in tensors
    )
    return f" _pointer = _out.data_ptr()\n if {quick}:\n  {full}"


def _mutable_body(schema: Schema) -> str:
    """Generates the call of an op that writes its arguments: no graph, versions are incremented."""
    mutated = [a for a in schema.arguments if a.mutated]
    code = " _mode = _grad_enabled()\n try:\n  _set_grad(False)\n"  # restored in finally
    code += "  if _recorded and _mode:\n   _checks.no_grad_write(locals())\n"
    for i, a in enumerate(mutated):
        version = f"{a.name}._version" if a.type == "Tensor" else f"_checks.versions({a.name})"
        code += f"  _v{i} = {version}\n"
    code += f"  _out = _kernel({_forwarded(schema)})\n"
    for i, a in enumerate(mutated):
        if a.type == "Tensor":
            code += f"  if {a.name}._version == _v{i}:\n   _increment({a.name})\n"
        else:
            code += f"  _checks.bump({a.name}, _v{i})\n"
    return code + " finally:\n  _set_grad(_mode)\n"


def composite(schema: Schema, fn: Fn, by_rule: Fn | None) -> Fn:
    """Generates the call of a composite op; ``by_rule`` is called under vmap."""
    scope = _scope(schema) | {"_kernel": fn, "_apply": by_rule}
    code = _header(schema, scope) + _argument_checks(schema)
    if by_rule is not None:
        everything = ", ".join(a.name for a in schema.arguments)
        code += f" if _checks.samples([{everything}]):\n  return _apply({everything})\n"
    return _compile(schema, code + f" return _kernel({_forwarded(schema)})\n", scope)


def missing_kernel(schema: Schema, known: str) -> Fn:
    """Returns the call of an op that has no kernel for the CPU."""

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        raise NotImplementedError(
            f"{schema.name}: there is no kernel for the device 'cpu' (kernels: {known}). Register "
            f"one with register_kernel('cpu') or Library.impl. Declaration: {schema}"
        )

    return __call__
