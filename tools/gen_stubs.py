# SPDX-License-Identifier: BSD-3-Clause
"""Writes the stubs _C.pyi, __init__.pyi and return_types.pyi: gen_stubs.py [--check].

Operations come from the table, `cograd._C._op_table()`: a list of dicts with the keys `name`,
`namespace` ("" or "_nn"), `signature` (Python text, "input, dim=None, *, dtype=None"), `args` (a
dict for each parameter, with `name`, `kind` and `nullable`), `result`, `returns` (field names of a
named tuple), `doc`, and the flags `function`, `method`, `inplace`, `out`, `differentiable` and
`internal`.
Names that are bound by hand are read from the module: from pybind11's signatures if they parse, and
from the tables below for slots and attributes. With --check nothing is written, and the exit status
is 1 if a file would change.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
STUB = ROOT / "python" / "cograd" / "_C.pyi"
Record = dict[str, Any]

KINDS = {
    "Tensor": "Tensor",
    "TensorOrScalar": "Tensor | _Number",
    "Tensors": "Sequence[Tensor]",
    "Scalar": "_Number",
    "Int": "_int",
    "Double": "_float",
    "Bool": "_bool",
    "Dim": "_int",
    "Ints": "_int | Sequence[_int]",
    "Dims": "_int | Sequence[_int]",
    "Shape": "Sequence[_int]",
    "DType": "_dtype",
    "Device": "_device | str",
    "String": "str",
    "Generator": "Generator",
}
RESULTS = {
    "Tensor": "Tensor",
    "List": "tuple[Tensor, ...]",
    "Tuple": "tuple[Tensor, ...]",
    "Int": "_int",
    "Double": "_float",
    "Bool": "_bool",
    "None": "None",
}
# Attributes of Tensor that are descriptors: type, and True if they can be set.
ATTRIBUTES = {
    "shape": ("Size", False),
    "dtype": ("_dtype", False),
    "device": ("_device", False),
    "grad": ("Tensor | None", True),
    "grad_fn": ("Node | None", False),
    "grad_dtype": ("_dtype | None", True),
    "imag": ("Tensor", True),
    "layout": ("Any", False),
    "name": ("str | None", False),
    "names": ("tuple[str | None, ...]", False),
    "requires_grad": ("_bool", True),
    "is_leaf": ("_bool", False),
    "retains_grad": ("_bool", False),
    "data": ("Tensor", True),
    "ndim": ("_int", False),
    "itemsize": ("_int", False),
    "nbytes": ("_int", False),
    "output_nr": ("_int", False),
    "_version": ("_int", False),
    "_base": ("Tensor | None", False),
    "T": ("Tensor", False),
    "mT": ("Tensor", False),
    "H": ("Tensor", False),
    "mH": ("Tensor", False),
    "real": ("Tensor", True),
    "volatile": ("_bool", True),
    **{
        f"is_{name}": ("_bool", False)
        for name in "complex cpu cuda floating_point ipu maia meta mkldnn mps mtia nested "
        "quantized signed sparse sparse_csr vulkan xla xpu".split()
    },
    # of Node, FunctionCtx and device
    "next_functions": ("tuple[tuple[Node | None, _int], ...]", False),
    "metadata": ("dict[Any, Any]", False),
    "variable": ("Tensor", False),
    "needs_input_grad": ("tuple[_bool, ...]", False),
    "saved_tensors": ("tuple[Tensor, ...]", False),
    "saved_variables": ("tuple[Tensor, ...]", False),
    "saved_for_forward": ("tuple[Tensor, ...]", False),
    "index": ("_int | None", False),
    "type": ("str", False),
}
RESULT_FIELDS = {"histogramdd.bin_edges": "tuple[Tensor, ...]"}  # the others: Tensor
ARITHMETIC = [
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "and",
    "or",
    "xor",
    "lshift",
    "rshift",
]
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]
SLOTS = {
    **{f"__{n}__": "(self, other: Tensor | _Number, /) -> Tensor" for n in ARITHMETIC},
    **{f"__r{n}__": "(self, other: Tensor | _Number, /) -> Tensor" for n in ARITHMETIC},
    **{f"__i{n}__": "(self, other: Tensor | _Number, /) -> Self" for n in ARITHMETIC},
    **{f"__{n}__": "(self, other: Any, /) -> Tensor" for n in COMPARISONS},
    "__matmul__": "(self, other: Tensor, /) -> Tensor",
    "__rmatmul__": "(self, other: Tensor, /) -> Tensor",
    "__neg__": "(self) -> Tensor",
    "__pos__": "(self) -> Tensor",
    "__abs__": "(self) -> Tensor",
    "__invert__": "(self) -> Tensor",
    "__getitem__": "(self, index: Any, /) -> Tensor",
    "__setitem__": "(self, index: Any, value: Any, /) -> None",
    "__len__": "(self) -> _int",
    "__iter__": "(self) -> Iterator[Tensor]",
    "__contains__": "(self, value: Any, /) -> _bool",
    "__bool__": "(self) -> _bool",
    "__int__": "(self) -> _int",
    "__float__": "(self) -> _float",
    "__index__": "(self) -> _int",
    "__hash__": "(self) -> _int",
}
# Names bound by hand whose docstring does not state the types.
FLAGS = "is_complex is_conj is_floating_point is_inference is_neg is_pinned is_shared is_signed"
COUNTS = "data_ptr dim element_size ndimension nelement numel storage_offset"
FACTORY = "dtype: _dtype | None = None, device: _device | str | None = None"
LEAVES = "(manager: object, *exc: object, **named: object) -> None"
# C functions that serve as __enter__ of Python's context managers; all others return None.
RETURNS_MANAGER = {"_enter_autocast", "_enter_function_mode", "_enter_profile", "_enter_start"}
HAND: dict[str, list[str]] = {
    "DisableTorchFunctionSubclass.__enter__": ["(self) -> None"],
    "DisableTorchFunctionSubclass.__exit__": ["(self, *exc: object, **named: object) -> None"],
    "Node.__call__": ["(self, *args: Any) -> Any"],
    "Node.name": ["(self) -> str"],
    "Node.register_hook": ["(self, fn: Callable[..., Any]) -> RemovableHandle"],
    "Node.register_prehook": ["(self, fn: Callable[..., Any]) -> RemovableHandle"],
    "Tensor.as_subclass": ["(self, cls: type[_T]) -> _T"],
    "Tensor.item": ["(self) -> _int | _float | _bool"],
    "Tensor.numpy": ["(self, *, force: _bool = False) -> ndarray[Any, Any]"],
    "Tensor.register_hook": ["(self, hook: Callable[[Tensor], Any]) -> RemovableHandle"],
    "Tensor.register_post_accumulate_grad_hook": [
        "(self, hook: Callable[[Tensor], None]) -> RemovableHandle"
    ],
    "_FunctionBase.mark_dirty": ["(self, *args: Tensor) -> None"],
    "_FunctionBase.mark_non_differentiable": ["(self, *args: Tensor) -> None"],
    "_FunctionBase.save_for_backward": ["(self, *tensors: Tensor | None) -> None"],
    "_FunctionBase.save_for_forward": ["(self, *tensors: Tensor | None) -> None"],
    "_FunctionBase.set_materialize_grads": ["(self, value: _bool) -> None"],
    **{f"Tensor.{name}": ["(self) -> _bool"] for name in FLAGS.split()},
    **{f"Tensor.{name}": ["(self) -> _int"] for name in COUNTS.split()},
    "Generator.manual_seed": ["(self, seed: _int) -> Generator"],
    "Size.__add__": ["(self, other: tuple[_int, ...], /) -> Size"],
    "Size.__getitem__": [
        "(self, index: SupportsIndex, /) -> _int",
        "(self, index: slice, /) -> Size",
    ],
    "Size.numel": ["(self) -> _int"],
    "Tensor.__dlpack__": ["(self, *args: Any, **kwargs: Any) -> Any"],
    "Tensor.__dlpack_device__": ["(self) -> tuple[_int, _int]"],
    "Tensor.apply_": ["(self, callable: Callable[[Any], Any]) -> Self"],
    "Tensor.backward": [
        "(self, gradient: Tensor | None = None, retain_graph: _bool | None = None, "
        "create_graph: _bool = False, inputs: Tensor | Sequence[Tensor] | None = None) -> None"
    ],
    "Tensor.detach": ["(self) -> Tensor"],
    "Tensor.detach_": ["(self) -> Self"],
    "Tensor.is_contiguous": ["(self, memory_format: Any = None) -> _bool"],
    "Tensor.istft": [
        "(self, n_fft: _int, hop_length: _int | None = None, win_length: _int | None = None, "
        "window: Tensor | None = None, center: _bool = True, normalized: _bool = False, "
        "onesided: _bool | None = None, length: _int | None = None, "
        "return_complex: _bool = False) -> Tensor"
    ],
    "Tensor.new_tensor": [
        f"(self, data: Any, *, {FACTORY}, requires_grad: _bool = False) -> Tensor"
    ],
    "Tensor.pin_memory": ["(self) -> Tensor"],
    "Tensor.requires_grad_": ["(self, requires_grad: _bool = True) -> Self"],
    "Tensor.resolve_conj": ["(self) -> Tensor"],
    "Tensor.resolve_neg": ["(self) -> Tensor"],
    "Tensor.retain_grad": ["(self) -> None"],
    "Tensor.share_memory_": ["(self) -> Self"],
    "Tensor.size": ["(self, dim: None = None) -> Size", "(self, dim: _int) -> _int"],
    "Tensor.stft": [
        "(self, n_fft: _int, hop_length: _int | None = None, win_length: _int | None = None, "
        "window: Tensor | None = None, center: _bool = True, pad_mode: str = 'reflect', "
        "normalized: _bool = False, onesided: _bool | None = None, "
        "return_complex: _bool | None = None, align_to_window: _bool | None = None) -> Tensor"
    ],
    "Tensor.stride": ["(self, dim: None = None) -> tuple[_int, ...]", "(self, dim: _int) -> _int"],
    "Tensor.type": ["(self) -> str", "(self, dtype: Any, non_blocking: _bool = False) -> Tensor"],
    "Tensor.untyped_storage": ["(self) -> UntypedStorage"],
    "UntypedStorage.__buffer__": ["(self, flags: _int, /) -> memoryview"],
    "UntypedStorage.__getitem__": [
        "(self, index: _int) -> _int",
        "(self, index: slice) -> UntypedStorage",
    ],
    "UntypedStorage.__len__": ["(self) -> _int"],
    "UntypedStorage.__setitem__": ["(self, index: _int | slice, value: _int) -> None"],
    "UntypedStorage.clone": ["(self) -> UntypedStorage"],
    "_enter_dual_block": ["(manager: object) -> _int"],
    "_storage_from_bytes": ["(source: Any) -> UntypedStorage"],
    "_untyped_storage": ["(tensor: Tensor) -> UntypedStorage"],
    "as_tensor": ["(data: Any, dtype: _dtype | None = None, device: Any = None) -> Tensor"],
    "device.__call__": ["(self, func: _T) -> _T"],
    "from_numpy": ["(ndarray: Any) -> Tensor"],
    "get_default_dtype": ["() -> dtype"],
    "promote_types": ["(type1: dtype, type2: dtype) -> dtype"],
    "result_type": ["(tensor1: Any, tensor2: Any) -> dtype"],
    "tensor": [
        f"(data: Any, *, {FACTORY}, requires_grad: _bool = False, pin_memory: _bool = False)"
        " -> Tensor"
    ],
}
HEAD = """# SPDX-License-Identifier: BSD-3-Clause
# Written by tools/gen_stubs.py from the built module; do not edit.
# mypy: disable-error-code="overload-overlap, override, misc"
# The module's own int, float and bool are dtypes, hence the underscores.
from builtins import bool as _bool, complex as _complex, float as _float, int as _int
from collections.abc import Callable, Iterator, Sequence
from typing import (
    Any, ClassVar, NamedTuple, SupportsFloat, SupportsIndex, SupportsInt, TypeVar, overload
)

from numpy import ndarray
from typing_extensions import Self

from cograd._handles import RemovableHandle

_T = TypeVar("_T")

_Number = _int | _float | _bool | _complex
_dtype = dtype  # Tensor has attributes of these names
_device = device
"""


def parameters(record: Record) -> list[str]:
    """Returns the annotated parameters of an operation."""
    # The table writes "*size, *, dtype=None" as torch does; in Python *size says both.
    signature = re.sub(r"(\*\w+), \*(?=,)", r"\1", record["signature"])
    tree = ast.parse(f"def f({signature}): pass").body[0]
    assert isinstance(tree, ast.FunctionDef)
    args = tree.args
    declared = {a["name"]: a for a in record["args"]}

    def show(arg: ast.arg, default: ast.expr | None, star: str = "") -> str:
        info = declared[arg.arg]
        hint = KINDS[info["kind"]]
        if info["nullable"] and (info["kind"] != "Tensor" or default is not None):
            hint += " | None"
        if star and "_int" in hint:
            hint = "Any"  # both shape(2, 3) and shape((2, 3))
        elif star and info["kind"] == "Tensors":
            hint = "Tensor | Sequence[Tensor]"
        text = f"{star}{arg.arg}: {hint}"
        if default is None:
            return text
        value = ast.unparse(default)
        none = " | None" if value == "None" and not hint.endswith(("None", "Any")) else ""
        return f"{text}{none} = {value}" if _is_literal(default) else f"{text}{none} = ..."

    positional = args.posonlyargs + args.args
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(args.defaults))
    result = [show(a, d) for a, d in zip(positional, [*defaults, *args.defaults], strict=True)]
    if args.vararg:
        result.append(show(args.vararg, None, "*"))
    elif args.kwonlyargs:
        result.append("*")
    result += [show(a, d) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True)]
    return result


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True


def result_type(record: Record) -> str:
    """Returns the annotation of an operation's result."""
    if record.get("returns"):
        return f"_{record['name']}_result"
    return RESULTS.get(str(record.get("result", "")), "Any")


def with_out(params: list[str]) -> list[str]:
    """Appends the keyword out=."""
    keyword = any(p == "*" or p.startswith("*") for p in params)
    return [*params, *([] if keyword else ["*"]), "out: Tensor | None = None"]


def as_method(params: list[str]) -> list[str]:
    """Replaces the first parameter by self."""
    rest = params[1:] if params and not params[0].startswith("*") else params
    return ["self", *rest]


def definitions(
    name: str, signatures: Iterable[str], indent: str, decorator: str = ""
) -> list[str]:
    """Returns the def lines of a name, as overloads when there are several."""
    unique = list(dict.fromkeys(signatures))
    lines = []
    for signature in unique:
        if len(unique) > 1:
            lines.append(f"{indent}@overload")
        if decorator:
            lines.append(f"{indent}@{decorator}")
        lines.append(f"{indent}def {name}{signature}: ...")
    return lines


def functions(table: list[Record], namespace: str) -> dict[str, list[str]]:
    """Returns the signatures of a submodule's functions, in-place forms included, by name."""
    found: dict[str, list[str]] = {}
    for r in table:
        if r["namespace"] != namespace or not (r["function"] or r["internal"] or namespace):
            continue
        params = parameters(r)
        plain = with_out(params) if r["out"] else params
        found.setdefault(r["name"], []).append(f"({', '.join(plain)}) -> {result_type(r)}")
        if r["inplace"]:
            found.setdefault(r["name"] + "_", []).append(f"({', '.join(params)}) -> Tensor")
    return found


def methods(table: list[Record]) -> dict[str, list[str]]:
    """Returns the signatures of Tensor's methods, in-place forms included, by name."""
    found: dict[str, list[str]] = {}
    for r in table:
        params = as_method(parameters(r))
        if r["method"]:
            found.setdefault(r["name"], []).append(f"({', '.join(params)}) -> {result_type(r)}")
        if r["inplace"]:
            found.setdefault(r["name"] + "_", []).append(f"({', '.join(params)}) -> Self")
    return found


BARE = {"dict": "dict[str, Any]", "list": "list[Any]", "tuple": "tuple[Any, ...]"}


def typed_fully(name: str, text: str, *, method: bool) -> str:
    """Returns a signature with self, an annotation on every parameter, and no bare generic."""
    tree = ast.parse(f"def {name}{text}: ...").body[0]
    assert isinstance(tree, ast.FunctionDef)
    args = tree.args
    named = args.posonlyargs + args.args
    if method and not (named and named[0].arg == "self"):
        args.args.insert(0, ast.arg("self"))
        named.insert(0, args.args[0])
    every = [*named, *args.kwonlyargs, *filter(None, (args.vararg, args.kwarg))]
    for arg in every:
        if arg.arg == "self":
            arg.annotation = None
        elif arg.annotation is None:
            arg.annotation = ast.Name("Any")
    holders = [(arg, "annotation") for arg in every] + [(tree, "returns")]
    for holder, field in holders:
        hint = getattr(holder, field)
        bare = hint.id if isinstance(hint, ast.Name) else ""
        wanted = {**BARE, "Callable": "Callable[..., Any]"}.get(bare)
        if wanted:
            setattr(holder, field, ast.parse(wanted, mode="eval").body)
    if name == "__init__":
        tree.returns = ast.Constant(None)
    tree.name = "f"
    line = ast.unparse(ast.fix_missing_locations(tree)).partition("\n")[0]
    return line.removeprefix("def f").removesuffix(":")


# Names that annotations of Python functions may use in a stub.
NAMES = {
    *("Any Callable Generator Iterator None Self Sequence Size Tensor UntypedStorage".split()),
    *("bytes _complex dict list object str tuple type _bool _device _dtype _float _int".split()),
}


def annotated(function: Any, *, method: bool) -> str:
    """Returns the signature of a Python function, from its annotations."""

    def hint(annotation: Any) -> str:
        if annotation is inspect.Parameter.empty:
            return "Any"
        text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
        text = re.sub(r"\b(?:cograd|_C|typing|collections\.abc)\.", "", text)
        text = re.sub(r"\b(int|float|bool|complex|dtype|device)\b", r"_\1", text)
        names = {n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)}
        return text if names <= NAMES else "Any"

    parts, star, slash = [], False, False
    parameters = list(inspect.signature(function).parameters.values())
    for i, p in enumerate(parameters):
        slash |= p.kind is p.POSITIONAL_ONLY
        if slash and p.kind is not p.POSITIONAL_ONLY:
            parts.append("/")
            slash = False
        star |= p.kind is p.VAR_POSITIONAL
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        mark = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        if method and i == 0 and not mark:
            parts.append("self")
            continue
        default = repr(p.default) if isinstance(p.default, (str, int, float, type(None))) else "..."
        given = "" if p.default is p.empty else f" = {default}"
        parts.append(f"{mark}{p.name}: {hint(p.annotation)}{given}")
    if slash:
        parts.append("/")
    return f"({', '.join(parts)}) -> {hint(inspect.signature(function).return_annotation)}"


def manager_method(name: str, function: object) -> str:
    """Returns the signature of an `_enter_...` or `_exit_...` that classes use as their own."""
    if not name.startswith(("_enter_", "_exit_")) or name in (inspect.getdoc(function) or ""):
        return ""  # the docstring of a function called by its own name says so
    if name.startswith("_exit_"):
        return LEAVES
    return "(manager: _T) -> _T" if name in RETURNS_MANAGER else "(manager: object) -> None"


def introspected(name: str, function: object, *, method: bool, owner: str = "") -> list[str]:
    """Returns signatures of an object bound by hand, from its docstring if it parses."""
    if by_hand := HAND.get(f"{owner}.{name}" if owner else name):
        return by_hand
    if found := manager_method(name, function):
        return [found]
    if inspect.isfunction(function):
        return [annotated(function, method=method)]
    doc = inspect.getdoc(function) or ""
    found = []
    for text in re.findall(rf"^(?:\d+\. )?{re.escape(name)}(\(.*\)(?: -> .*)?)$", doc, re.M):
        text = re.sub(r"\b(?:cograd\._C\.|typing\.|collections\.abc\.)", "", text)
        text = re.sub(r"\b(?:object|handle|args|kwargs)\b(?=[,)\]]|$| =)", "Any", text)
        text = re.sub(r": (Any|numpy\.\S+?)(?=[,)])", ": Any", text)
        text = re.sub(r"\*Any", "*args", text).replace("**args", "**kwargs")
        text = re.sub(r" = <[^>]*>", " = ...", text)
        text = re.sub(r"\b(int|float|bool)\b", r"_\1", text)
        if " -> " not in text:
            text += " -> Any"
        try:
            found.append(typed_fully(name, text, method=method))
        except SyntaxError:
            continue
    anything = (
        "(self, *args: Any, **kwargs: Any) -> Any"
        if method
        else "(*args: Any, **kwargs: Any) -> Any"
    )
    return found or [typed_fully(name, anything, method=method)]


def class_stub(name: str, cls: type, table_methods: dict[str, list[str]]) -> list[str]:
    """Returns the lines of a class."""
    known = set(table_methods)
    bases = [b.__name__ for b in cls.__bases__ if b.__module__.startswith("cograd")]
    plain = {int: "_int", tuple: "tuple[_int, ...]", RuntimeError: "RuntimeError"}
    bases += [plain[b] for b in cls.__bases__ if b in plain]
    lines = [f"class {name}{'(' + ', '.join(bases) + ')' if bases else ''}:"]
    is_tensor = "Tensor" in name
    for member, value in sorted(vars(cls).items()):
        if member in {"__doc__", "__module__", "__dict__", "__weakref__", "__new__", "__buffer__"}:
            continue
        if member == "_pybind11_conduit_v1_" or f"{name}.{member}" == "_FunctionBase.apply":
            continue  # Function.apply has its types where it is documented
        if f"{name}.{member}" in HAND:
            lines += definitions(member, HAND[f"{name}.{member}"], "    ")
        elif member in known:
            lines += definitions(member, table_methods[member], "    ")
        elif is_tensor and member in SLOTS:
            lines.append(f"    def {member}{SLOTS[member]}: ...")
        elif inspect.isdatadescriptor(value):
            hint, settable = ATTRIBUTES.get(
                member, ("Any", getattr(value, "fset", None) is not None)
            )
            lines += ["    @property", f"    def {member}(self) -> {hint}: ..."]
            if settable:
                lines.append(f"    @{member}.setter")
                lines.append(f"    def {member}(self, value: {hint}) -> None: ...")
        elif isinstance(value, staticmethod):
            inner = introspected(member, value.__func__, method=False, owner=name)
            lines += ["    @staticmethod", f"    def {member}{inner[0]}: ..."]
        elif callable(value):
            if member.startswith("__") and member not in {"__init__", "__enter__", "__exit__"}:
                continue
            lines += definitions(
                member, introspected(member, value, method=True, owner=name), "    "
            )
        else:
            lines.append(
                f"    {member}: {type(value).__name__ if type(value) in (int, str) else 'Any'}"
            )
    if is_tensor:
        missing = [m for m in sorted(known) if m not in vars(cls)]
        for member in missing:
            lines += definitions(member, table_methods[member], "    ")
    if name == "UntypedStorage":  # a C slot, which vars() does not show before Python 3.12
        lines += definitions("__buffer__", HAND["UntypedStorage.__buffer__"], "    ")
    return lines if len(lines) > 1 else [lines[0] + " ..."]


LENGTHS = """class _Lengths:
    n_fields: ClassVar[_int]
    n_sequence_fields: ClassVar[_int]
    n_unnamed_fields: ClassVar[_int]
    def __new__(cls, *values: Any, **named: Any) -> Self: ...
"""


def named_tuple(op: str, fields: dict[str, str]) -> list[str]:
    """Returns the class of an op's results, constructible from a sequence or from its items."""
    lines = [f"class _{op}_fields(NamedTuple):"]
    lines += [f"    {name}: {hint}" for name, hint in fields.items()]
    return [*lines, f"class _{op}_result(_Lengths, _{op}_fields): ...", ""]


def stub(module: Any, table: list[Record]) -> str:
    """Returns the text of _C.pyi."""
    head = HEAD
    if not hasattr(module, "Generator"):
        head = head.replace("_Number =", "from cograd.random import Generator\n\n_Number =")
    lines = [head]
    lines.append(LENGTHS)
    for r in {r["name"]: r for r in table if r.get("returns")}.values():
        lines += named_tuple(r["name"], {f.strip(): "Tensor" for f in r["returns"].split(",")})
    classes = {n: v for n, v in vars(module).items() if isinstance(v, type)}
    for name, cls in sorted(classes.items()):
        own = methods(table) if name == "Tensor" else {}
        lines += [*class_stub(name, cls, own), ""]
    for name, value in sorted(vars(module).items()):
        if name in classes or (name.startswith("__") and name != "__version__"):
            continue
        if inspect.ismodule(value):
            typed = functions(table, "" if name == "_ops" else name)
            lines.append(f"class {name}:")
            for n in sorted(m for m in vars(value) if not m.startswith("__")):
                signatures = typed.get(n) or introspected(n, vars(value)[n], method=False)
                lines += definitions(n, signatures, "    ", "staticmethod")
            lines.append("")
        elif callable(value):
            lines += definitions(name, introspected(name, value, method=False), "")
        else:
            lines.append(f"{name}: {plain_type(value, classes)}")
    return "\n".join(lines) + "\n"


def plain_type(value: object, classes: Iterable[str]) -> str:
    """Returns the annotation of a constant."""
    name = type(value).__name__
    if name in {"int", "float", "bool"}:
        return f"_{name}"
    return name if name == "str" or name in classes else "Any"


def package_stub(package: Any, module: Any, table: list[Record]) -> str:
    """Returns the text of __init__.pyi: the names of `import cograd`, by their source."""
    typed = functions(table, "")
    results = sorted({f"_{r['name']}_result" for r in table if r.get("returns")})
    imports, body = [], []
    own_int = {"Generator", "Tensor", "device", "dtype"}
    lazy = {n: getattr(package, n) for n in {*package._LAZY_MODULES, *package._LAZY_NAMES}}
    for name, value in sorted({**vars(package), **lazy}.items()):
        if name.startswith("_") and name not in {"__config__", "__version__"}:
            continue
        source = getattr(value, "__module__", None) or ""
        if inspect.ismodule(value):
            if value.__name__ == f"cograd.{name}":
                imports.append(f"from cograd import {name} as {name}")
        elif name in typed and getattr(module._ops, name, None) is value:
            body += definitions(name, typed[name], "")
        elif getattr(module, name, None) is value and (isinstance(value, type) or callable(value)):
            if name not in own_int:
                imports.append(f"from cograd._C import {name} as {name}")
        elif source.startswith("cograd.") and isinstance(getattr(value, "__name__", None), str):
            if name not in own_int:
                imports.append(f"from {source} import {value.__name__} as {name}")
        else:
            kind = plain_type(value, {"dtype", "Generator", "device"})
            body.append(f"{name}: {'_dtype' if kind == 'dtype' else kind}")
    names = ["Tensor as Tensor", "device as device", "dtype as dtype", *results]
    source = f"from cograd._C import {', '.join(names)}\n"
    source += "from cograd.random import Generator as Generator"
    head = HEAD.replace("_dtype = dtype", f"{source}\n\n_dtype = dtype")
    return "\n".join([head, *imports, "", *body]) + "\n"


def results_stub(kinds: Iterable[Any], table: list[Record]) -> str:
    """Returns the text of return_types.pyi: the classes of _C.pyi, and those made in Python."""
    ops = {r["name"] for r in table if r.get("returns")}
    head = [*HEAD.splitlines()[:2], "from typing import Any, NamedTuple", ""]
    head += ["from cograd import Tensor", "from cograd._C import _Lengths"]
    lines = ["", "all_return_types: list[Any]", ""]
    for kind in kinds:
        name = kind.__name__
        if name in ops:
            head.append(f"from cograd._C import _{name}_result")
            lines.append(f"{name} = _{name}_result")
            continue
        hints = {f: RESULT_FIELDS.get(f"{name}.{f}", "Tensor") for f in kind._fields}
        lines += named_tuple(name, hints)
        lines[-1] = f"{name} = _{name}_result"
    return "\n".join([*head, *lines])


def main() -> int:
    """Writes or compares the three files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    import cograd
    from cograd import _C
    from cograd.return_types import all_return_types

    table: list[Record] = _C._op_table()
    status = 0
    texts = {
        STUB: stub(_C, table),
        STUB.with_name("__init__.pyi"): package_stub(cograd, _C, table),
        STUB.with_name("return_types.pyi"): results_stub(all_return_types, table),
    }
    for path, text in texts.items():
        if args.check:
            if not path.exists() or path.read_text() != text:
                print(f"{path.relative_to(ROOT)} is out of date; run: make stubs")
                status = 1
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(f"wrote {path.relative_to(ROOT)}")
    return status


if __name__ == "__main__":
    sys.exit(main())
