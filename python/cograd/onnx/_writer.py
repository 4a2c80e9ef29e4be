# SPDX-License-Identifier: BSD-3-Clause
"""Writes nodes, initializers and types of an ONNX graph."""

from __future__ import annotations

import dataclasses
from typing import Any

import cograd
from cograd.onnx.errors import SymbolicValueError

__all__ = ["Value", "Writer"]


@dataclasses.dataclass
class Value:
    """A value of the ONNX graph.

    Attributes:
        name: its name in the graph.
        dtype: its dtype here.
        dims: its sizes; None for one that differs between runs.
        is_number: whether it was a Python number, which does not promote dtypes.
    """

    name: str
    dtype: Any
    dims: list[int | None]
    is_number: bool = False

    @property
    def rank(self) -> int:
        """The number of dims."""
        return len(self.dims)


class Writer:
    """Collects an ONNX graph; the functions of _ops call it."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.initializers: dict[str, Any] = {}
        self.dtypes: list[Any] = []
        self.outs: list[list[int | None]] = []
        self.second_used = False
        self.is_method = False
        self._constants: dict[Any, str] = {}
        self._used: set[str] = set()

    # Names and types.

    def unique(self, name: str) -> str:
        """Returns ``name``, with a number if it is taken."""
        found, count = name, 0
        while found in self._used:
            count += 1
            found = f"{name}_{count}"
        self._used.add(found)
        return found

    def type_of(self, dtype: Any) -> int:
        """Returns ONNX's number of a dtype."""
        name = (
            str(dtype).rpartition(".")[2].replace("float32", "float").replace("float64", "double")
        )
        number = getattr(self.onnx.TensorProto, name.upper(), None)
        if number is None:
            raise SymbolicValueError(f"onnx.export: ONNX has no dtype for {dtype}")
        return int(number)

    def array(self, tensor: Any, name: str) -> Any:
        """Returns a tensor as ONNX stores it."""
        tensor = tensor.detach().as_subclass(cograd.Tensor).contiguous()
        if tensor.dtype is cograd.bfloat16:
            raw = tensor.view(cograd.int16).numpy().tobytes()
            number = self.type_of(tensor.dtype)
            return self.onnx.helper.make_tensor(name, number, tensor.shape, raw, raw=True)
        self.type_of(tensor.dtype)
        return self.onnx.numpy_helper.from_array(tensor.numpy(), name)

    @property
    def dtype(self) -> Any:
        """The dtype of the running op's result."""
        return self.dtypes[0]

    @property
    def dims(self) -> list[int | None]:
        """The sizes of the running op's result."""
        return self.outs[0]

    # Nodes.

    def emit(self, op: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        """Adds a node and returns the name of its output, or a list of names."""
        names = [self.unique(op.lower()) for _ in range(outputs)]
        sources = ["" if x is None else x if isinstance(x, str) else x.name for x in inputs]
        while sources and not sources[-1]:
            sources.pop()
        attributes = {key: value for key, value in attributes.items() if value is not None}
        self.nodes.append(self.onnx.helper.make_node(op, sources, names, **attributes))
        return names[0] if outputs == 1 else names

    def const(self, data: Any, dtype: Any = cograd.int64) -> str:
        """Returns the name of a constant: a number, a list or a tensor."""
        tensor = cograd.as_tensor(data, dtype=dtype) if dtype is not None else data
        key = (str(tensor.dtype), tuple(tensor.shape), repr(tensor.tolist()))
        if tensor.numel() > 64 or key not in self._constants:
            name = self.unique("constant")
            self.initializers[name] = self.array(tensor, name)
            self._constants[key] = name
            return name
        return self._constants[key]

    def cast(self, x: Any, dtype: Any, source: Any = None) -> str:
        """Converts a value to a dtype."""
        if isinstance(x, Value):
            source, x = x.dtype, x.name
        if source is dtype:
            return str(x)
        if dtype is cograd.bool and source is not None and source.is_floating_point:
            return str(self.emit("Not", self.emit("Equal", x, self.const(0, source))))
        return str(self.emit("Cast", x, to=self.type_of(dtype)))

    def to(self, x: Any, dtype: Any = None) -> str:
        """Returns the name of a value or a Python number as a tensor of a dtype."""
        dtype = self.dtype if dtype is None else dtype
        return self.cast(x, dtype) if isinstance(x, Value) else self.const(x, dtype)

    # Shapes.

    def size(self, x: Value, dim: int) -> Any:
        """Returns a size: an int, or a one-element tensor if it differs between runs."""
        dim %= max(x.rank, 1)
        known = x.dims[dim]
        if known is not None:
            return known
        return Value(self.emit("Shape", x, start=dim, end=dim + 1), cograd.int64, [1])

    def sizes(self, x: Value) -> list[Any]:
        """Returns all sizes."""
        return [self.size(x, dim) for dim in range(x.rank)]

    def shape(self, sizes: Any) -> str:
        """Returns a list of sizes as a tensor."""
        if all(isinstance(n, int) for n in sizes):
            return self.const(list(sizes))
        parts: list[str] = []
        run: list[int] = []
        for n in [*sizes, None]:
            if isinstance(n, int):
                run.append(n)
                continue
            if run:
                parts.append(self.const(run))
                run = []
            if n is not None:
                parts.append(n.name if n.rank else self.emit("Reshape", n, self.const([1])))
        return parts[0] if len(parts) == 1 else str(self.emit("Concat", *parts, axis=0))

    def reshape(self, x: Any, sizes: Any) -> str:
        """Reshapes a value; a 0 in ``sizes`` is a size, not the size of that dim."""
        allow = 1 if any(isinstance(n, int) and n == 0 for n in sizes) else None
        if allow is None and -1 not in sizes and not all(isinstance(n, int) for n in sizes):
            allow = 1
        return str(self.emit("Reshape", x, self.shape(sizes), allowzero=allow))

    def places(self, x: Value) -> Value:
        """Returns a tensor of the sizes of ``x`` that numbers the elements."""
        flat = self.emit("Range", self.const(0), self.emit("Size", x), self.const(1))
        name = self.emit("Reshape", flat, self.emit("Shape", x), allowzero=1)
        return Value(name, cograd.int64, x.dims)

    def number(self, n: Any) -> str:
        """Returns a size as a tensor without dims."""
        if isinstance(n, int):
            return self.const(n)
        return n.name if not n.rank else str(self.emit("Reshape", n, self.const([], cograd.int64)))

    def static(self, n: Any, what: str) -> int:
        """Returns a number that ONNX needs to know; raises if it is a size that varies."""
        if isinstance(n, Value):
            raise SymbolicValueError(
                f"onnx.export: {what} is computed from a size of an input, but ONNX needs a "
                "constant"
            )
        return int(n)
