# SPDX-License-Identifier: BSD-3-Clause
"""Every op called with every kind of object as every argument: no call crashes.

The calls run in forked children, which record each call beforehand in shared memory. So if a signal
kills a child, its last call is known, and the next child continues after it.
"""

import faulthandler
import itertools
import mmap
import os
import signal
import struct
import warnings
from collections.abc import Iterator

import pytest

import cograd as torch
from cograd import _C

# torch raises these for arguments of wrong types or values.
TORCH_ERRORS = (TypeError, ValueError, IndexError, RuntimeError, OverflowError, MemoryError)


# One object of each kind that a caller may pass by mistake.
KINDS = {
    "int": lambda: 2,
    "negative": lambda: -1,
    "float": lambda: 2.5,
    "bool": lambda: True,
    "none": lambda: None,
    "tensor": lambda: torch.ones(3, 4),
    "integers": lambda: torch.arange(3),
    "scalar": lambda: torch.tensor(1.5),
    "empty": lambda: torch.ones(0),
    "str": lambda: "x",
    "list": lambda: [1, 2],
    "tensors": lambda: [torch.ones(2), torch.ones(2)],
    "dtype": lambda: torch.float32,
}
# A kind that fits a parameter, for the arguments that are not varied.
FITTING = {
    "Tensor": "tensor", "TensorOrScalar": "tensor", "Tensors": "tensors", "Scalar": "int",
    "Int": "int", "Double": "float", "Bool": "bool", "Ints": "list", "DType": "dtype",
    "String": "str",
}  # fmt: skip
VARIED = 3  # parameters with all combinations; the rest is varied one at a time


def callables(record):
    """Yields the callable forms of a record: function and method, also in place."""
    name, space = record["name"], _C._nn if record["namespace"] == "_nn" else _C._ops
    found = [(name, getattr(space, name, None)), (name + "_", getattr(space, name + "_", None))]
    for method in (name, name + "_"):
        if record["method"] or method.endswith("_"):
            found.append(("Tensor." + method, getattr(torch.Tensor, method, None)))
    return [(label, f) for label, f in found if f is not None]


def combinations(record) -> Iterator[tuple[tuple[str, ...], dict[str, str]]]:
    names = list(KINDS)
    required = [a for a in record["args"] if a["default"] is None]
    optional = [a["name"] for a in record["args"] if a["default"] is not None]
    fitting = [FITTING.get(a["kind"], "int") for a in required]
    positional = sum(not a["keyword_only"] for a in required)
    words = [a["name"] for a in required[positional:]]
    for chosen in itertools.product(names, repeat=min(VARIED, len(required))):
        full = [*chosen, *fitting[VARIED:]]
        yield tuple(full[:positional]), dict(zip(words, full[positional:], strict=True))
    for extra in [*required[VARIED:], *optional, "out"]:
        place = extra if isinstance(extra, str) else None
        for kind in names:
            full = list(fitting)
            more = {}
            if place is None:
                full[required.index(extra)] = kind
            else:
                more[place] = kind
            yield (
                tuple(full[:positional]),
                dict(zip(words, full[positional:], strict=True)) | more,
            )
    # One argument too few and two too many.
    yield tuple(fitting[:positional][:-1]), {}
    yield (*fitting[:positional], "int", "int", "int", "int"), {}


def call(function, args, words):
    try:
        function(*[KINDS[a]() for a in args], **{k: KINDS[v]() for k, v in words.items()})
    except TORCH_ERRORS:
        return None
    except Exception as e:
        return f"{type(e).__name__}: {e}"
    return None


def text(label, args, words):
    return f"{label}({', '.join([*args, *(f'{k}={v}' for k, v in words.items())])})"


def in_child(records, note, first):
    """Runs the calls of records[first:]; the exit code reports an unexpected exception."""
    warnings.simplefilter("ignore")
    faulthandler.disable()
    for i in range(first, len(records)):
        for j, (label, function) in enumerate(callables(records[i])):
            for k, (args, words) in enumerate(combinations(records[i])):
                note[:12] = struct.pack("iii", i, j, k)
                wrong = call(function, args, words)
                if wrong is not None:
                    message = f"{text(label, args, words)} raised {wrong}".encode()[:900]
                    note[16 : 16 + len(message)] = message
                    return 1
    return 0


def faults(records):
    """Returns the calls of `records` that kill the process or raise what torch does not raise."""
    found = []
    note = mmap.mmap(-1, 1024)
    first = 0
    while first < len(records):
        note[:] = bytes(1024)
        child = os.fork()
        if child == 0:
            code = 2
            try:
                signal.alarm(60)
                code = in_child(records, note, first)
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        if status == 0:
            break
        i, j, k = struct.unpack("iii", note[:12])
        if os.WIFSIGNALED(status):
            label, _ = callables(records[i])[j]
            args, words = next(itertools.islice(combinations(records[i]), k, None))
            name = signal.Signals(os.WTERMSIG(status)).name
            found.append(f"{text(label, args, words)} died of {name}")
        else:
            found.append(note[16:].rstrip(b"\0").decode(errors="replace") or f"record {i} broke")
        first = i + 1
    return found


PARTS = 8


@pytest.mark.parametrize("part", range(PARTS))
def test_no_argument_crashes_an_op(part):
    found = faults(_C._op_table()[part::PARTS])
    assert not found, "\n".join(found)


def test_a_crash_is_found_and_named(monkeypatch):
    def suicide(*args, **kwargs):
        if args[:1] == (None,):
            os.kill(os.getpid(), signal.SIGKILL)  # sanitizers report other signals

    def strange(*args, **kwargs):
        raise KeyError("lost")

    def called(record):
        return [("f", {"a": suicide, "b": strange, "c": lambda *a, **k: None}[record["name"]])]

    monkeypatch.setitem(globals(), "callables", called)
    arg = {"name": "input", "kind": "Tensor", "default": None, "keyword_only": False}
    found = faults([{"name": n, "args": [arg]} for n in "abc"])
    assert found == ["f(none) died of SIGKILL", "f(int) raised KeyError: 'lost'"]


@pytest.mark.parametrize(
    ("name", "args", "want"),
    [
        ("add", (2, 3), torch.tensor(5)),
        ("add", (2.5, 1), torch.tensor(3.5)),
        ("add", (True, False), torch.tensor(True)),
        ("sub", (2, 3), torch.tensor(-1)),
        ("mul", (2, True), torch.tensor(2)),
        ("div", (2, 4), torch.tensor(0.5)),
        ("true_divide", (2, True), torch.tensor(2.0)),
        ("floor_divide", (2.5, 1), torch.tensor(2.0)),
        ("multiply", (2.5, 2), torch.tensor(5.0)),
    ],
)
def test_arithmetic_of_two_numbers(name, args, want):
    got = getattr(torch, name)(*args)
    assert got.dtype == want.dtype
    assert got.shape == ()
    assert torch.equal(got, want)


@pytest.mark.parametrize(
    "name",
    "rsub maximum pow xlogy eq bitwise_and atan2 remainder fmod float_power logical_or gcd".split(),
)
def test_other_ops_refuse_two_numbers(name):
    with pytest.raises(TypeError, match=rf"{name}\(\): argument 'input' \(position 1\) must be "):
        getattr(torch, name)(2, 3)
    with pytest.raises(TypeError, match="must be Tensor, not float"):
        getattr(torch, name)(2.5, 3)
