# SPDX-License-Identifier: BSD-3-Clause
"""Shows tensors in gdb and lldb: this file is loaded by the debugger, not by Python.

::

    (gdb) source FILE                  (lldb) command script import FILE

``python -m cograd config --debugger`` prints FILE. Shape and elements come from the C interface,
whose functions the debugger calls in the process, so core dumps show addresses only.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["describe"]

# The dtypes in the order of the C interface's numbers: name, and struct's format of an element.
DTYPES = (
    *(("bool", "?"), ("uint8", "B"), ("int8", "b"), ("int16", "h"), ("int32", "i")),
    *(("int64", "q"), ("float16", "e"), ("bfloat16", "bf"), ("float32", "f"), ("float64", "d")),
    *(("complex64", "ff"), ("complex128", "dd"), ("uint16", "H"), ("uint32", "I")),
    *(("uint64", "Q"),),
)
EDGE = 3  # elements shown at each end of a long dim
MOST = 60  # more elements than this are abbreviated
TENSOR = "^cograd::(abi1::)?Tensor$"
LIST = "^cograd::(abi1::)?ArrayRef<.*>$"

Call = Callable[[str, str, int], int]  # function, its result's type, the tensor
Read = Callable[[int, int], bytes]  # address, number of bytes


def describe(tensor: int, call: Call, read: Read) -> str:
    """Returns dtype, shape, whether it requires grad, and the elements as text.

    Args:
        tensor: the address that the C interface takes.
        call: calls a function of the C interface in the process.
        read: reads memory of the process.
    """
    if tensor == 0:
        return "undefined"
    read(tensor, 8)  # fails if it is no address
    dim, code = call("dim", "int", tensor), call("dtype", "int", tensor)
    if not 0 <= dim <= 64 or not 0 <= code < len(DTYPES):
        return f"{tensor:#x}, which is no tensor"
    name, form = DTYPES[code]
    sizes = struct.unpack(f"<{dim}q", read(call("sizes", "void*", tensor), 8 * dim))
    strides = struct.unpack(f"<{dim}q", read(call("strides", "void*", tensor), 8 * dim))
    if any(not 0 <= size < 2**48 for size in sizes):  # a variable before its constructor has run
        return f"{tensor:#x}, which is no tensor"
    text = f"{name}[{', '.join(map(str, sizes))}]"
    if call("flags", "unsigned", tensor) & 2:
        text += " requires_grad"
    data = call("data", "void*", tensor)
    if data == 0:
        return text if 0 in sizes else f"{text} without data"
    count = 1
    for size in sizes:
        count *= size
    return f"{text} {_elements(data, form, sizes, strides, read, count > MOST)}"


def _elements(
    data: int, form: str, sizes: Any, strides: Any, read: Read, short: bool, at: int = 0
) -> str:
    if at == len(sizes):
        return _number(form, data, read)
    parts = []
    width = 2 if form == "bf" else struct.calcsize(f"<{form}")
    for i in _shown(sizes[at], short):
        if i < 0:
            parts.append("...")
        else:
            address = data + i * strides[at] * width
            parts.append(_elements(address, form, sizes, strides, read, short, at + 1))
    return f"[{', '.join(parts)}]"


def _shown(size: int, short: bool) -> Iterator[int]:
    """Returns the indices to show, -1 for those left out."""
    if not short or size <= 2 * EDGE:
        yield from range(size)
        return
    yield from range(EDGE)
    yield -1
    yield from range(size - EDGE, size)


def _number(form: str, address: int, read: Read) -> str:
    if form == "bf":
        form, data = "f", b"\0\0" + read(address, 2)
    else:
        data = read(address, struct.calcsize(f"<{form}"))
    values = struct.unpack(f"<{form}", data)
    if len(values) == 2:
        return f"{values[0]:.6g}{values[1]:+.6g}j"
    return f"{values[0]:.6g}" if form in "efd" else str(values[0])


def _gdb_tensor(value: Any) -> str:
    import gdb

    settings = {"unwindonsignal": "on", "scheduler-locking": "on"}
    before = {name: gdb.parameter(name) for name in settings}

    def call(function: str, result: str, tensor: int) -> int:
        code = f"(({result} (*)(void*)) cograd_tensor_{function})((void*) {tensor})"
        return int(gdb.parse_and_eval(code))

    def read(address: int, size: int) -> bytes:
        return bytes(gdb.selected_inferior().read_memory(address, size)) if size else b""

    tensor = int(value["p_"])
    try:
        for name, setting in settings.items():
            gdb.execute(f"set {name} {setting}", to_string=True)
        return describe(tensor, call, read)
    except (gdb.error, RuntimeError) as e:
        return f"{tensor:#x} ({str(e).splitlines()[0]})"
    finally:
        for name, old in before.items():
            setting = {True: "on", False: "off"}.get(old, old)
            gdb.execute(f"set {name} {setting}", to_string=True)


def _gdb_list(value: Any) -> str:
    count = int(value["n_"])
    shown = [str(value["data_"][i]) if i >= 0 else "..." for i in _shown(count, count > MOST)]
    return f"[{', '.join(shown)}]"


def _register_with_gdb() -> None:
    import gdb
    import gdb.printing

    def printer(show: Callable[[Any], str]) -> Any:
        class Printer:
            def __init__(self, value: Any) -> None:
                self.value = value

            def to_string(self) -> str:
                return show(self.value)

        return Printer

    printers = gdb.printing.RegexpCollectionPrettyPrinter("cograd")
    printers.add_printer("Tensor", TENSOR, printer(_gdb_tensor))
    printers.add_printer("ArrayRef", LIST, printer(_gdb_list))
    gdb.printing.register_pretty_printer(None, printers, replace=True)


def lldb_tensor(value: Any, _dictionary: Any) -> str:
    """Returns the summary of a Tensor; lldb calls it by name."""
    import lldb

    options = lldb.SBExpressionOptions()
    options.SetUnwindOnError(True)
    options.SetTryAllThreads(False)
    options.SetIgnoreBreakpoints(True)
    process, frame = value.GetProcess(), value.GetThread().GetSelectedFrame()

    def call(function: str, result: str, tensor: int) -> int:
        code = f"(({result} (*)(void*)) cograd_tensor_{function})((void*) {tensor})"
        found = frame.EvaluateExpression(code, options)
        if not found.GetError().Success():
            raise RuntimeError(str(found.GetError()))
        return int(found.GetValueAsUnsigned())

    def read(address: int, size: int) -> bytes:
        error = lldb.SBError()
        data = process.ReadMemory(address, size, error) if size else b""
        if not error.Success() and size:
            raise RuntimeError(str(error))
        return bytes(data)

    tensor = int(value.GetNonSyntheticValue().GetChildMemberWithName("p_").GetValueAsUnsigned())
    try:
        return describe(tensor, call, read)
    except RuntimeError as e:
        return f"{tensor:#x} ({str(e).splitlines()[0]})"


def __lldb_init_module(debugger: Any, _dictionary: Any) -> None:
    debugger.HandleCommand(f'type summary add -w cograd -F {__name__}.lldb_tensor -x "{TENSOR}"')
    debugger.HandleCommand("type category enable cograd")


if __name__ == "__main__":  # gdb runs a sourced file so; lldb imports it
    _register_with_gdb()
