# SPDX-License-Identifier: BSD-3-Clause
"""Traced modules as files: the graph as plain data, in the format of cograd.save.

Loading runs no code of the file: it is read with ``weights_only=True``, calls are looked up by name
among the ops, and every name that becomes Python source must be an identifier.
"""

from __future__ import annotations

import keyword
import operator
import zipfile
from typing import Any

import cograd
from cograd import _C
from cograd.fx.graph import Graph
from cograd.fx.node import Node
from cograd.jit._module import ScriptFunction, TopLevelTracedModule, TracedModule

__all__ = ["from_data", "load", "save", "to_data"]

_FORMAT, _VERSION = "cograd.jit", 1
_OPERATORS = frozenset(
    "getitem setitem add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift".split()
)
_ATTRIBUTES = frozenset("T mT H mH real imag".split())
_METHODS = frozenset("size detach detach_ copy_ requires_grad_ to adjoint stft istft".split())
_TRANSFORMS = frozenset({"stft", "istft"})
_OPTIONS = {"dtype": cograd.dtype, "device": cograd.device, "layout": cograd.layout}
_OPTIONS["memory_format"] = cograd.memory_format


def _ops() -> set[str]:
    return {record["name"] for record in _C._op_table()}


def _function(name: str) -> Any:
    """Returns the op or operator of a name in a file."""
    place, _, plain = name.partition(".")
    builtin = type(_C._ops.add)
    if name == "getattr":
        return getattr
    if place == "operator" and plain in _OPERATORS:
        return getattr(operator, plain)
    if place in ("op", "nn"):
        for holder in (_C._ops, _C._nn) if place == "op" else (_C._nn,):
            found = getattr(holder, plain, None)
            if type(found) is builtin:
                return found
    if place == "fft" and plain in cograd.fft.__all__:
        return getattr(cograd.fft, plain)
    if place == "python" and plain in _TRANSFORMS:
        return getattr(cograd, plain)
    if place == "library" and "::" in plain:
        found = cograd.ops._find(plain)
        if type(found) is builtin:
            return found
        raise RuntimeError(
            f"jit.load: the file calls the op '{plain}', which is not registered: load its library "
            "first"
        )
    raise RuntimeError(f"jit.load: the file calls {name!r}, which is no op of cograd")


def _function_name(target: Any) -> str:
    name = getattr(target, "__name__", repr(target))
    space = str(getattr(target, "__module__", "")).removeprefix("cograd.ops.")
    places = [f"{place}.{name}" for place in ("operator", "op", "nn", "fft", "python")]
    for text in ("getattr", *places, f"library.{space}::{name}"):
        try:
            if _function(text) is target:
                return text
        except RuntimeError:
            continue
    raise RuntimeError(f"the trace calls {name}, which is no op of cograd and cannot be saved")


def _identifier(text: Any, dotted: bool = False) -> str:
    parts = text.split(".") if dotted and isinstance(text, str) else [text]
    # Names of modules may be numbers, as in Sequential; the source reads them by getattr.
    good = all(
        isinstance(p, str)
        and not p.startswith("__")
        and ((p.isidentifier() and not keyword.iskeyword(p)) or (dotted and p.isdecimal()))
        for p in parts
    )
    if not good:
        raise RuntimeError(f"jit.load: {text!r} is not a valid name")
    return str(text)


# Arguments.


def _encode(value: Any) -> Any:
    if isinstance(value, Node):
        return {"node": value.name}
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, tuple):
        return {"tuple": [_encode(item) for item in value]}
    if isinstance(value, list):
        return [_encode(item) for item in value]
    if isinstance(value, dict):
        return {"dict": [[_encode(key), _encode(item)] for key, item in value.items()]}
    if isinstance(value, slice):
        return {"slice": [_encode(part) for part in (value.start, value.stop, value.step)]}
    if value is Ellipsis:
        return {"ellipsis": True}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    for name, kind in _OPTIONS.items():
        if isinstance(value, kind):
            return {name: str(value).rpartition(".")[2]}
    raise RuntimeError(
        f"the trace has an argument that is a {type(value).__name__}, which cannot be saved"
    )


def _decode(value: Any, nodes: dict[str, Node]) -> Any:
    if isinstance(value, list):
        return [_decode(item, nodes) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, given),) = value.items()
    if kind == "node":
        return nodes[given]
    if kind == "tuple":
        return tuple(_decode(item, nodes) for item in given)
    if kind == "dict":
        return {_decode(key, nodes): _decode(item, nodes) for key, item in given}
    if kind == "slice":
        return slice(*(_decode(part, nodes) for part in given))
    if kind == "ellipsis":
        return Ellipsis
    if kind == "complex":
        return complex(*given)
    if kind == "device":
        return cograd.device(given)
    if kind in _OPTIONS and isinstance(getattr(cograd, given, None), _OPTIONS[kind]):
        return getattr(cograd, given)
    raise RuntimeError(f"jit.load: the file has an argument of unknown kind {kind!r}")


# Graphs.


def _is_method(name: str, ops: set[str]) -> bool:
    return bool({name, name.rstrip("_")} & ops or name in _METHODS)


def _graph_data(graph: Any) -> list[Any]:
    found, ops = [], _ops()
    for node in graph.nodes:
        target = _function_name(node.target) if node.op == "call_function" else node.target
        if node.op == "call_method" and not _is_method(target, ops):
            raise RuntimeError(f"the trace calls the method {target}, which cannot be saved")
        args, kwargs = [_encode(arg) for arg in node.args], _encode(dict(node.kwargs))
        found.append([node.op, node.name, target, args, kwargs])
    return found


def _graph(data: list[Any], ops: set[str]) -> Graph:
    graph, nodes = Graph(), dict[str, Node]()
    for op, name, target, args, kwargs in data:
        arguments = tuple(_decode(arg, nodes) for arg in args)
        options = {_identifier(k): v for k, v in _decode(kwargs, nodes).items()}
        if op == "call_function":
            target = _function(target)
            if target is getattr and arguments[1] not in _ATTRIBUTES:
                raise RuntimeError(f"jit.load: the file reads the attribute {arguments[1]!r}")
        elif op == "call_method":
            if not _is_method(target, ops):
                raise RuntimeError(f"jit.load: the file calls {target!r}, which is no op of cograd")
            _identifier(target)
        elif op in ("placeholder", "get_attr"):
            _identifier(target, dotted=op == "get_attr")
        elif op != "output":
            raise RuntimeError(f"jit.load: the file has a node of unknown kind {op!r}")
        nodes[name] = graph.create_node(op, target, arguments, options, name=_identifier(name))
    graph.lint()
    return graph


# Modules.


def _tree(module: Any, tensors: dict[str, Any], known: dict[Any, Any]) -> dict[str, Any]:
    """Returns a module as plain data; shared modules and tensors are one entry."""
    if id(module) in known:
        return {"same": known[id(module)]}
    known[id(module)] = len(known)

    def key(tensor: Any) -> Any:
        if tensor is None:
            return None
        name = f"{id(tensor)}"
        if name not in known:
            known[name] = f"t{len(tensors)}"
            tensors[known[name]] = tensor.detach()
        return known[name]

    return {
        "number": known[id(module)],
        "name": module.original_name,
        "training": module.training,
        "parameters": [
            [n, key(p), bool(p is not None and p.requires_grad)]
            for n, p in module._parameters.items()
        ],
        "buffers": [
            [n, key(b), n not in module._non_persistent_buffers_set]
            for n, b in module._buffers.items()
        ],
        "modules": [
            [n, None if m is None else _tree(m, tensors, known)] for n, m in module._modules.items()
        ],
    }


def _fill(made: Any, tree: dict[str, Any], tensors: dict[str, Any], known: dict[Any, Any]) -> Any:
    known[tree["number"]] = made
    made.original_name, made.training = str(tree["name"]), bool(tree["training"])
    for name, key, learned in tree["parameters"]:
        if key is not None and key not in known:
            known[key] = cograd.nn.Parameter(tensors[key], requires_grad=learned)
        made.register_parameter(name, None if key is None else known[key])
    for name, key, persistent in tree["buffers"]:
        made.register_buffer(name, None if key is None else tensors[key], persistent=persistent)
    for name, child in tree["modules"]:
        if child is None:
            made._modules[name] = None
        elif "same" in child:
            made._modules[name] = known[child["same"]]
        else:
            made._modules[name] = _fill(TracedModule(), child, tensors, known)
    return made


def to_data(obj: Any) -> dict[str, Any]:
    """Returns a traced module or function as plain data and tensors."""
    module = obj._module if isinstance(obj, ScriptFunction) else obj
    if not isinstance(module, TopLevelTracedModule):
        raise RuntimeError(
            f"expected what jit.trace returns, but got {type(obj).__name__}; nothing is "
            "scripted here: save state_dict(), or trace the module"
        )
    tensors: dict[str, Any] = {}
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "function": isinstance(obj, ScriptFunction),
        "graphs": {name: _graph_data(graph) for name, graph in module._graphs.items()},
        "module": _tree(module, tensors, {}),
        "tensors": tensors,
    }


def from_data(data: dict[str, Any]) -> Any:
    """Returns the traced module or function of ``to_data``."""
    ops = _ops()
    graphs = {_identifier(name): _graph(g, ops) for name, g in data["graphs"].items()}
    made = TopLevelTracedModule("", graphs)
    _fill(made, data["module"], data["tensors"], {})
    return ScriptFunction(made) if data["function"] else made


TopLevelTracedModule._plain = to_data, from_data


def save(m: Any, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
    """Writes a traced module or function to a path or a file object.

    The file is cograd's own, which libtorch cannot read: export to ONNX for other runtimes.

    Args:
        m: what ``trace`` or ``load`` returned.
        f: a path or a file object.
        _extra_files: {name: text or bytes} to keep in the file.
    """
    try:
        data = to_data(m)
    except RuntimeError as error:
        raise RuntimeError(f"jit.save: {error}") from None
    extra = {
        k: v.encode() if isinstance(v, str) else bytes(v) for k, v in (_extra_files or {}).items()
    }
    data["extra"] = {k: cograd.tensor(list(v), dtype=cograd.uint8) for k, v in extra.items()}
    cograd.save(data, f)


def _refuse_libtorch(f: Any) -> None:
    """Raises a clear error for an archive of TorchScript."""
    start = f.tell() if hasattr(f, "tell") else None
    try:
        with zipfile.ZipFile(f) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError):
        names = []
    finally:
        if start is not None:
            f.seek(start)
    if any(name.endswith("/constants.pkl") or "/code/" in name for name in names):
        raise RuntimeError(
            "jit.load: this is a TorchScript archive of libtorch, which cograd cannot read; save "
            "state_dict() with torch and load that, or trace the model with cograd"
        )


def load(
    f: Any,
    map_location: Any = None,
    _extra_files: dict[str, Any] | None = None,
    _restore_shapes: bool = False,
) -> Any:
    """Reads what ``save`` wrote; no code of the file runs.

    Args:
        f: a path or a file object.
        _extra_files: {name: anything}; the values become those in the file, as bytes.
    """
    _refuse_libtorch(f)
    data = cograd.load(f, map_location=map_location, weights_only=True)
    if not isinstance(data, dict) or data.get("format") != _FORMAT:
        raise RuntimeError("jit.load: the file was not written by cograd's jit.save")
    if data.get("version") != _VERSION:
        raise RuntimeError(
            f"jit.load: the file has version {data.get('version')!r}, expected {_VERSION}"
        )
    for name in _extra_files or {}:
        if name in data["extra"]:
            _extra_files[name] = bytes(data["extra"][name].tolist())  # type: ignore[index]
    return from_data(data)
