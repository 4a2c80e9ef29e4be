# SPDX-License-Identifier: BSD-3-Clause
"""jit.trace: a module or function as the calls that one run makes, checked against the original."""

from __future__ import annotations

import warnings
from typing import Any

import cograd
from cograd._base.pytree import flat
from cograd._recording import (
    Recording,
    check_same,
    check_sizes,
    check_values,
    kept_buffers,
    record,
)
from cograd._recording.values import warn
from cograd.jit._module import ScriptFunction, ScriptModule, TopLevelTracedModule, TracedModule
from cograd.nn import Module

__all__ = ["TracingCheckError", "mirrored", "trace", "trace_module"]


class TracingCheckError(Exception):
    """Two runs of a traced function make different calls."""


def _leaves(value: Any) -> list[Any]:
    return flat(value)[0]


def _check_inputs(args: Any, kwargs: Any) -> None:
    for leaf in _leaves((args, kwargs)):
        if not isinstance(leaf, cograd.Tensor):
            raise RuntimeError(
                f"Type '{type(leaf).__name__}' cannot be traced. Only Tensors and (possibly "
                "nested) Lists, Dicts, and Tuples of Tensors can be traced"
            )


def _check_result(result: Any, strict: bool) -> None:
    if strict and isinstance(result, (list, dict)):
        kind = type(result).__name__
        raise RuntimeError(
            f"Encountering a {kind} at the output of the tracer might cause the trace to be "
            "incorrect, this is only valid if the container structure does not change based on the "
            f"module's inputs. Consider using a constant container instead (e.g. for `{kind}`, use "
            "a `tuple` or `NamedTuple` instead). If you absolutely need this and know the side "
            "effects, pass strict=False to trace() to allow this behavior."
        )
    for leaf in _leaves(result):
        if not isinstance(leaf, cograd.Tensor):
            raise RuntimeError(
                "Only tensors, lists, tuples of tensors, or dictionary of tensors can be output "
                f"from traced functions, but got {type(leaf).__name__}"
            )


def _copies(value: Any) -> Any:
    if isinstance(value, cograd.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        items = [_copies(item) for item in value]
        return type(value)._make(items) if hasattr(value, "_make") else type(value)(items)
    return {key: _copies(item) for key, item in value.items()}


def _recorded(
    call: Any, root: Any, args: Any, kwargs: Any, prefix: str = "", checked: bool = True
) -> Recording:
    options = {"warn_of_sizes": True, "warn_of_numbers": not checked}  # a check finds the numbers
    made = record(call, args, kwargs, root=root, prefix=prefix, **options)
    if made.learned:
        raise RuntimeError(
            "Cannot insert a Tensor that requires grad as a constant. Consider making it a "
            f"parameter or input, or detaching the gradient (a tensor of shape {made.learned[0]})"
        )
    return made


def mirrored(module: Module, top: Any = None, known: dict[int, Any] | None = None) -> Any:
    """Returns a module with the same parameters, buffers and submodules, without their code."""
    known = {} if known is None else known
    if id(module) in known:
        return known[id(module)]
    made = TracedModule() if top is None else top
    known[id(module)] = made
    made.original_name = getattr(module, "original_name", type(module).__name__)
    for name, parameter in module._parameters.items():
        made.register_parameter(name, parameter)
    for name, buffer in module._buffers.items():
        persistent = name not in module._non_persistent_buffers_set
        made.register_buffer(name, buffer, persistent=persistent)
    for name, child in module._modules.items():
        made._modules[name] = None if child is None else mirrored(child, None, known)
    made.training = module.training
    return made


def _with_constants(module: Any, recordings: list[Recording]) -> Any:
    for recording in recordings:
        for name, tensor in recording.constants.items():
            module.register_buffer(name, tensor, persistent=False)
    return module


def _compare(found: Any, expected: Any, tolerance: float, what: str) -> bool:
    same = True
    for i, (a, b) in enumerate(zip(_leaves(found), _leaves(expected), strict=False)):
        try:
            cograd.testing.assert_close(
                a.detach(), b.detach(), rtol=tolerance, atol=1e-5, equal_nan=True
            )
        except AssertionError as error:
            same = False
            warn(
                f"Output nr {i + 1}. of the traced function does not match the corresponding "
                f"output of the {what}. Detailed error:\n{error}"
            )
    return same


def _check(
    call: Any, traced: Any, first: Recording, root: Any, inputs: list[Any], tolerance: float
) -> None:
    """Runs both and compares results, then compares the calls of another recording."""
    for args, kwargs in inputs:
        with kept_buffers(root) as restore, cograd.no_grad():
            found = traced(*_copies(args), **_copies(kwargs))
            restore()
            expected = call(*_copies(args), **_copies(kwargs))
            restore()
            _compare(found, expected, tolerance, "Python function")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                second = _recorded(call, root, args, kwargs)
        difference = check_same(first, second)
        if difference is not None:
            raise TracingCheckError(
                f"Tracing failed sanity checks!\nGraphs differed across invocations!\n{difference}"
            )
    args, kwargs = inputs[0] if inputs else ((), {})
    with kept_buffers(root) as restore:

        def run(args: Any, kwargs: Any) -> Recording:
            restore()
            return _recorded(call, root, args, kwargs)

        if inputs and not check_values(first, run, args, kwargs):
            check_sizes(first, run, args, kwargs)


def _as_tuple(inputs: Any) -> tuple[Any, ...]:
    if isinstance(inputs, (cograd.Tensor, dict)):
        return (inputs,)
    return tuple(inputs)


def trace(
    func: Any,
    example_inputs: Any = None,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_kwarg_inputs: dict[str, Any] | None = None,
    _store_inputs: bool = True,
) -> Any:
    """Runs a module or function once and returns its calls as a module or function.

    Conditions and loops are those of the example inputs; sizes are those of each input, unless the
    function turns them into plain numbers, of which a TracerWarning tells. The result
    shares the parameters and buffers of the module, and gradients flow through it. The run records
    no gradients itself, and buffers are restored after it.

    Args:
        func: a module, a method of a module, or a function.
        example_inputs: the arguments: a tensor, or a tuple of nested tensors.
        check_trace: whether to run again, on ``check_inputs`` too, and compare; a different result
            warns, and different calls raise ``TracingCheckError``. Runs with other
            elements and sizes look for those that became constants, which warns.
        check_tolerance: the relative tolerance of that.
        strict: whether to refuse lists and dicts as results.
        example_kwarg_inputs: the arguments by name, instead of ``example_inputs``.
    """
    if isinstance(func, (ScriptModule, ScriptFunction)):
        warnings.warn(
            "The input to trace is already a ScriptModule, tracing it is a no-op. Returning the "
            "object as is.",
            stacklevel=2,
        )
        return func
    kwargs = dict(example_kwarg_inputs or {})
    if example_inputs is None and example_kwarg_inputs is None:
        raise RuntimeError("jit.trace: example_inputs or example_kwarg_inputs is needed")
    args = () if example_inputs is None else _as_tuple(example_inputs)
    owner = getattr(func, "__self__", None)
    more: list[Any] = [(_as_tuple(given), {}) for given in check_inputs or ()]
    if isinstance(func, Module) or isinstance(owner, Module):
        module: Any = func if isinstance(func, Module) else owner
        name = "forward" if isinstance(func, Module) else func.__name__
        checks = [(args, kwargs), *more] if check_trace else []
        return _traced_module(
            module, {name: (args, kwargs)}, {name: checks}, check_tolerance, strict
        )
    _check_inputs(args, kwargs)
    made = _recorded(func, None, args, kwargs, checked=check_trace)
    _check_result(made.result, strict)
    name = getattr(func, "__name__", type(func).__name__)
    top = TopLevelTracedModule(name if name.isidentifier() else "fn", {"forward": made.graph})
    traced = ScriptFunction(_with_constants(top, [made]))
    if check_trace:
        _check(func, traced, made, None, [(args, kwargs), *more], check_tolerance)
    return traced


def _traced_module(
    module: Module, inputs: dict[str, Any], checks: dict[str, Any], tolerance: float, strict: bool
) -> Any:
    recordings: dict[str, Recording] = {}
    for name, (args, kwargs) in inputs.items():
        _check_inputs(args, kwargs)
        call = module if name == "forward" else getattr(module, name)
        prefix = "" if name == "forward" else f"_{name}"
        with kept_buffers(module):
            checked = bool(checks.get(name))
            recordings[name] = _recorded(call, module, args, kwargs, prefix, checked)
        _check_result(recordings[name].result, strict)
    graphs = {name: recording.graph for name, recording in recordings.items()}
    top = TopLevelTracedModule(type(module).__name__, graphs)
    traced = _with_constants(mirrored(module, top), list(recordings.values()))
    for name, given in checks.items():
        call = module if name == "forward" else getattr(module, name)
        method = traced if name == "forward" else getattr(traced, name)
        _check(call, method, recordings[name], module, given, tolerance)
    return traced


def trace_module(
    mod: Any,
    inputs: dict[str, Any],
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_inputs_is_kwarg: bool = False,
    _store_inputs: bool = True,
) -> Any:
    """Traces several methods of a module, see ``trace``.

    Args:
        mod: the module.
        inputs: {name of a method: its example inputs}.
        check_inputs: a list of such dicts.
    """
    if not isinstance(mod, Module):
        raise AttributeError("expected torch.nn.Module as the first argument")

    def call(given: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return ((), dict(given)) if example_inputs_is_kwarg else (_as_tuple(given), {})

    chosen = {name: call(given) for name, given in inputs.items()}
    checks: dict[str, Any] = {}
    for each in [inputs, *(check_inputs or ())] if check_trace else []:
        for name, given in each.items():
            checks.setdefault(name, []).append(call(given))
    return _traced_module(mod, chosen, checks, check_tolerance, strict)
