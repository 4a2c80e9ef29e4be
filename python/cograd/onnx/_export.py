# SPDX-License-Identifier: BSD-3-Clause
"""torch.onnx.export: one run of a model as an ONNX file."""

from __future__ import annotations

import contextlib
import enum
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import cograd
from cograd._recording import (
    Recording,
    TracerWarning,
    check_same,
    check_values,
    kept_buffers,
    record,
    rerun,
)
from cograd._recording.compare import where
from cograd.fx.node import Node
from cograd.onnx._convert import Converter, name_of, needed
from cograd.onnx._dynamic import axes_of, check_axes, check_names, resized, sizes_to_try
from cograd.onnx._program import ONNXProgram, package, tensors_in
from cograd.onnx._writer import Value, Writer
from cograd.onnx.errors import OnnxExporterError, OnnxExporterWarning

__all__ = ["OperatorExportTypes", "TrainingMode", "export", "is_in_onnx_export"]

_OPSET, _IR = 18, 8


class TrainingMode(enum.IntEnum):
    """The mode in which a model is exported."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.IntEnum):
    """torch's ways to write ops; there is one here."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


class _Thread(threading.local):
    exporting = False


_thread = _Thread()


def is_in_onnx_export() -> bool:
    """Returns whether this thread runs a model for ``export``."""
    return _thread.exporting


@contextlib.contextmanager
def _running(model: Any, training: Any) -> Iterator[Callable[[], None]]:
    """Sets the mode of a model; restores modes and buffers. Yields what restores buffers now."""
    modules = list(model.modules()) if isinstance(model, cograd.nn.Module) else []
    modes = [module.training for module in modules]
    _thread.exporting = True
    try:
        if modules and training != TrainingMode.PRESERVE:
            model.train(training == TrainingMode.TRAINING)
        with kept_buffers(model) as restore:
            yield restore
    finally:
        _thread.exporting = False
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode


def _may_differ(node: Node, key: Any) -> bool:
    """Returns whether an argument may depend on sizes: those that the conversion ignores."""
    return name_of(node) == "_interpolate" and key == 1 and any(node.args[5:])


def _two_runs(
    model: Any, args: Any, kwargs: Any, axes: list[dict[int, str]], restore: Callable[[], None]
) -> tuple[Recording, Recording | None]:
    """Records the model at the example's sizes and at other ones."""
    root = model if isinstance(model, cograd.nn.Module) else None

    def run(args: Any, kwargs: Any) -> Recording:
        restore()
        return record(model, args, kwargs, root=root)

    first = run(args, kwargs)
    if not any(axes):
        check_values(first, run, args, kwargs)
        return first, None
    problem: Exception | None = None
    for change in sizes_to_try(sum(map(len, axes))):
        try:
            second = rerun(first, run, args, kwargs, partial(resized, axes=axes, change=change))
        except Exception as error:  # the model does not accept this size
            problem = problem or error
            continue
        difference = check_same(first, second, _may_differ)
        if difference is not None:
            raise OnnxExporterError(
                f"onnx.export: with other sizes of the dynamic axes {difference}"
            )
        _warn_of_branches(first, second)
        return first, second
    if problem is not None:
        warnings.warn(
            "onnx.export: the dynamic axes could not be tried, because the model does not run with "
            f"other sizes of them: {problem}",
            OnnxExporterWarning,
            stacklevel=4,
        )
    return first, None


def _warn_of_branches(first: Recording, second: Recording) -> None:
    for (file, line, a), (*_, b) in zip(first.comparisons, second.comparisons, strict=False):
        if a != b:
            warnings.warn_explicit(
                "The program compares a size that varies; the graph has the branch that the "
                "example inputs take.",
                TracerWarning,
                file,
                line,
            )


def _sizes(
    first: Recording, second: Recording | None, axes: dict[Node, dict[int, str]]
) -> tuple[Callable[[Node], Any], Callable[[Node], int | None]]:
    """Returns what gives a node's sizes, None where they vary, and its number if it is constant."""
    others = {} if second is None else dict(zip(first.graph.nodes, second.graph.nodes, strict=True))
    unknown = second is None and any(axes.values())

    def of(node: Node, val: Any, other: Any) -> Any:
        if not isinstance(val, cograd.Tensor):
            return []
        sizes: list[int | None] = list(val.shape)
        if isinstance(other, cograd.Tensor):
            if len(sizes) != other.dim():
                raise OnnxExporterError(
                    f"onnx.export: with other sizes of the dynamic axes a result of "
                    f"{name_of(node)}() has {other.dim()} dims instead of {len(sizes)} "
                    f"{where(node)}"
                )
            return [a if a == b else None for a, b in zip(sizes, other.shape, strict=True)]
        return [None] * len(sizes) if unknown else sizes

    def dims(node: Node) -> Any:
        val: Any = node.meta.get("val")
        other: Any = others[node].meta.get("val") if node in others else None
        if node.op == "placeholder" or node.meta.get("leaf"):
            varying = {a % val.dim() for a in axes.get(node, {})}
            return [[None if i in varying else n for i, n in enumerate(val.shape)]]
        if isinstance(val, tuple):
            pairs = zip(val, other or [None] * len(val), strict=True)
            return [of(node, a, b) for a, b in pairs]
        return [of(node, val, other)]

    def known(node: Node) -> int | None:
        val = node.meta.get("val")
        if not isinstance(val, int) or unknown:
            return None
        return val if node not in others or others[node].meta["val"] == val else None

    return dims, known


def _input_names(recording: Recording, given: Sequence[str] | None) -> list[str]:
    """Returns the names of the inputs that are tensors."""
    found = []
    for node in recording.inputs:
        path: list[str] = []
        while node.op != "placeholder":
            path.append(str(node.args[1]))
            node = node.args[0]
        found.append("_".join([str(node.target), *path[::-1]]))
    check_names("input", given, len(found))
    found[: len(given or ())] = given or ()
    for name in found:
        if found.count(name) > 1:
            raise ValueError(f"onnx.export: two inputs have the name {name!r}")
    return found


def _results(recording: Recording) -> list[Node]:
    """Returns the nodes of the outputs in order."""
    found: list[Node] = []

    def walk(value: Any) -> None:
        if isinstance(value, Node):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            for item in value:
                walk(item)
        elif isinstance(value, dict):
            walk(list(value.values()))
        elif value is not None:
            raise OnnxExporterError(
                f"onnx.export: the model returns {type(value).__name__} {value!r}, expected tensors"
            )

    walk(recording.graph.output_node().args[0])
    if not found:
        raise OnnxExporterError("onnx.export: the model returns no tensor")
    return found


def _typed(w: Writer, name: str, dtype: Any, dims: Any, labels: dict[int, str]) -> Any:
    labels = {axis % max(len(dims), 1): label for axis, label in labels.items()}
    shape = [
        labels.get(i, f"{name}_dim_{i}") if n is None or i in labels else n
        for i, n in enumerate(dims)
    ]
    return w.onnx.helper.make_tensor_value_info(name, w.type_of(dtype), shape)


def _live(nodes: list[Any], outputs: list[str]) -> list[Any]:
    """Returns the nodes that outputs depend on."""
    wanted, found = set(outputs), []
    for node in reversed(nodes):
        if any(name in wanted for name in node.output):
            wanted.update(node.input)
            found.append(node)
    return found[::-1]


def _rename(nodes: list[Any], names: dict[str, str]) -> None:
    for node in nodes:
        for field in (node.input, node.output):
            for i, name in enumerate(field):
                if name in names:
                    field[i] = names[name]


def _ends(w: Writer, values: list[Value], names: list[str], fixed: set[str]) -> None:
    """Makes the outputs' names those of the graph's outputs."""
    renamed: dict[str, str] = {}
    for value, name in zip(values, names, strict=True):
        if value.name in fixed or value.name in renamed:
            source = renamed.get(value.name, value.name)
            w.nodes.append(w.onnx.helper.make_node("Identity", [source], [name]))
        else:
            renamed[value.name] = name
    _rename(w.nodes, renamed)


def export(
    model: Any,
    args: Any = (),
    f: Any = None,
    *,
    kwargs: dict[str, Any] | None = None,
    verbose: bool | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamo: bool = True,
    external_data: bool = True,
    dynamic_shapes: Any = None,
    custom_translation_table: Mapping[Any, Callable[..., Any]] | None = None,
    report: bool = False,
    optimize: bool = True,
    verify: bool = False,
    profile: bool = False,
    dump_exported_program: bool = False,
    artifacts_dir: Any = ".",
    export_params: bool = True,
    keep_initializers_as_inputs: bool = False,
    dynamic_axes: Mapping[str, Any] | None = None,
    training: Any = TrainingMode.EVAL,
    operator_export_type: Any = OperatorExportTypes.ONNX,
    do_constant_folding: bool = True,
    custom_opsets: Mapping[str, int] | None = None,
    export_modules_as_functions: Any = False,
    autograd_inlining: bool = True,
) -> ONNXProgram | None:
    """Runs a model once and writes what it calls as an ONNX model of opset 18.

    Needs the package onnx. The model is run in eval mode, and a second time if axes are dynamic, to
    find sizes that it reads as Python numbers; its modes and buffers are restored.

    Args:
        model: a module or a function.
        args: a tensor, or a tuple of the arguments; other values than tensors become constants.
        f: a path or a file object, or None to write nothing.
        kwargs: keyword arguments.
        verbose: whether to print the graph.
        input_names, output_names: names for the first inputs and outputs.
        opset_version: 18 or None.
        dynamic_axes: {input name: axes, or {axis: label}} whose sizes may vary.
        dynamic_shapes: the same by parameters' names, or a tuple in their order.
        custom_translation_table: {op or its name: function}, before the table of this package.
        verify: whether to run the result by onnxruntime and compare.
        export_params: whether parameters are in the file; otherwise they are inputs.
        keep_initializers_as_inputs: whether parameters are inputs, too.
        training: the mode in which the model is run.

    The other arguments are torch's and have no effect.

    Returns:
        An ``ONNXProgram``, or None for ``dynamo=False``, as in torch.

    Raises:
        UnsupportedOperatorError: an op has no ONNX counterpart here; the message names it.
    """
    onnx = package("onnx", "onnx.export()")
    package("onnx.numpy_helper", "onnx.export()")
    if opset_version not in (None, _OPSET):
        raise ValueError(f"onnx.export: opset_version is {opset_version}, expected {_OPSET}")
    kwargs = dict(kwargs or {})
    args = args if isinstance(args, tuple) else (args,)
    if kwargs == {} and args and isinstance(args[-1], dict) and not dynamo:
        args, kwargs = args[:-1], args[-1]  # torch's older form
    with _running(model, training) as restore:
        first, second, axes = _recorded(
            model, args, kwargs, input_names, dynamic_axes, dynamic_shapes, restore
        )
    writer = Writer(onnx)
    proto = _written(
        writer,
        first,
        second,
        axes,
        model,
        input_names,
        output_names,
        dict(custom_translation_table or {}),
        export_params,
        keep_initializers_as_inputs,
    )
    program = ONNXProgram(proto, first.by_name)
    if verbose:
        print(onnx.printer.to_text(proto))
    if verify:
        _verify(program, model, args, kwargs, training)
    if f is not None:
        program.save(f)
    return program if dynamo else None


def _recorded(
    model: Any,
    args: Any,
    kwargs: Any,
    input_names: Any,
    dynamic_axes: Any,
    dynamic_shapes: Any,
    restore: Callable[[], None],
) -> tuple[Recording, Recording | None, dict[str, dict[int, str]]]:
    if not dynamic_axes and not dynamic_shapes:
        return *_two_runs(model, args, kwargs, [], restore), {}
    with warnings.catch_warnings():  # the names need a run; the next one warns
        warnings.simplefilter("ignore")
        probe = record(model, args, kwargs)
    names = _input_names(probe, input_names)
    axes = axes_of(
        names if dynamic_axes else _input_names(probe, None), dynamic_axes, dynamic_shapes
    )
    if not dynamic_axes and input_names:
        own = _input_names(probe, None)
        axes = {dict(zip(own, names, strict=True)).get(k, k): v for k, v in axes.items()}
    chosen = [axes.get(name, {}) for name in names]
    return *_two_runs(model, args, kwargs, chosen, restore), axes


def _verify(program: ONNXProgram, model: Any, args: Any, kwargs: Any, training: Any) -> None:
    with _running(model, training), cograd.no_grad():
        expected = tensors_in(model(*args, **kwargs))
    for i, (found, wanted) in enumerate(zip(program(*args, **kwargs), expected, strict=True)):
        try:
            cograd.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-5, equal_nan=True)
        except AssertionError as error:
            raise OnnxExporterError(
                f"onnx.export: output {i} differs in onnxruntime: {error}"
            ) from error


def _written(
    w: Writer,
    first: Recording,
    second: Recording | None,
    axes: dict[str, dict[int, str]],
    model: Any,
    input_names: Any,
    output_names: Any,
    table: Any,
    export_params: bool,
    keep: bool,
) -> Any:
    """Returns the ONNX model of a recording."""
    names = [w.unique(name) for name in _input_names(first, input_names)]
    by_node = {n: axes.get(name, {}) for n, name in zip(first.inputs, names, strict=True)}
    dims, known = _sizes(first, second, by_node)
    results = _results(first)
    check_names("output", output_names, len(results))
    for n in output_names or ():
        if n in names:
            raise ValueError(f"onnx.export: output_names has {n!r}, which is the name of an input")
    outputs = [w.unique(n) for n in output_names or ()]
    outputs += [w.unique(f"output_{i}") for i in range(len(outputs), len(results))]
    check_axes(axes, names, outputs)
    state: dict[str, Any] = {}
    if isinstance(model, cograd.nn.Module):
        state = dict([*model.named_parameters(), *model.named_buffers()])
    converter = Converter(w, dims, known, {**state, **first.constants}.__getitem__, table)
    inputs = []
    for node, name in zip(first.inputs, names, strict=True):
        value = Value(name, node.meta["val"].dtype, dims(node)[0])
        converter.values[node] = value
        inputs.append(_typed(w, name, value.dtype, value.dims, axes.get(name, {})))
    wanted = needed(first)
    converter.needed = wanted
    for node in first.graph.nodes:
        if node in wanted:
            converter.convert(node)
    values = [converter.read(node) for node in results]
    for node, value in zip(results, values, strict=True):
        if value is None:
            raise OnnxExporterError(
                f"onnx.export: this output of {name_of(node)}() is not supported {where(node)}"
            )
    fixed = {*names, *(t.name for t in w.initializers.values())}
    _ends(w, values, outputs, fixed)
    typed = [
        _typed(w, name, v.dtype, v.dims, axes.get(name, {}) if None in v.dims else {})
        for name, v in zip(outputs, values, strict=True)
    ]
    nodes = _live(w.nodes, outputs)
    used = {name for node in nodes for name in node.input}
    held = {key: t for key, t in w.initializers.items() if t.name in used}
    own = [key for key in held if key in state]
    if keep or not export_params:
        for key in own:
            tensor = state[key]
            inputs.append(_typed(w, held[key].name, tensor.dtype, list(tensor.shape), {}))
    stored = [t for key, t in held.items() if export_params or key not in own]
    graph = w.onnx.helper.make_graph(nodes, "main_graph", inputs, typed, stored)
    proto = w.onnx.helper.make_model(
        graph,
        producer_name="cograd",
        producer_version=cograd.__version__,
        ir_version=_IR,
        opset_imports=[w.onnx.helper.make_opsetid("", _OPSET)],
    )
    if proto.ByteSize() < 2**31:
        w.onnx.checker.check_model(proto)
    return proto
