# SPDX-License-Identifier: BSD-3-Clause
"""Names of torch that programs compare with and that nothing here is or has."""

from __future__ import annotations

from typing import Any

from cograd import _absent

__all__ = ["SymBool", "SymFloat", "SymInt", "dtype_names", "script_classes"]


class _Symbol:
    def __init__(self, *args: Any) -> None:
        raise _absent.refused(type(self).__name__, "fx")


class SymInt(_Symbol):
    """What a size would be an instance of while a graph is captured: nothing is."""


class SymFloat(_Symbol):
    """What a number would be an instance of while a graph is captured: nothing is."""


class SymBool(_Symbol):
    """What a condition would be an instance of while a graph is captured: nothing is."""


class _Scripted:
    """A class of TorchScript's that annotations name: nothing is an instance of it."""

    def __init__(self, *args: Any) -> None:
        raise _absent.refused(f"_C.{type(self).__name__}", "jit")


script_classes = {
    name: type(name, (_Scripted,), {"__module__": "torch._C"})
    for name in "Block FutureType Graph Node ScriptFunction ScriptModule Type Value".split()
}


class _DTypeName:
    """A dtype that no tensor has. Functions that take a dtype refuse it with a TypeError."""

    def __init__(
        self, name: str, itemsize: int, *, floating: bool = False, signed: bool = True
    ) -> None:
        self.name = name
        self.itemsize = itemsize
        self.is_floating_point = floating
        self.is_complex = name.startswith("complex")
        self.is_signed = signed

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name

    @property
    def limits(self) -> dict[str, Any] | None:
        """What ``finfo`` shows."""
        return _limits(self.name)


def _limits(name: str) -> dict[str, Any] | None:
    if name not in _FLOATS:
        return None
    lowest, highest, eps, normal = _FLOATS[name]
    values = {"resolution": 1.0, "min": lowest, "max": highest, "eps": eps}
    return {"bits": 8, **values, "smallest_normal": normal, "tiny": normal}


# Lowest, highest, eps and the smallest normal number of the floats of eight bits.
_FLOATS = {
    "float8_e4m3fn": (-448.0, 448.0, 0.125, 2.0**-6),
    "float8_e4m3fnuz": (-240.0, 240.0, 0.125, 2.0**-7),
    "float8_e5m2": (-57344.0, 57344.0, 0.25, 2.0**-14),
    "float8_e5m2fnuz": (-57344.0, 57344.0, 0.125, 2.0**-15),
    "float8_e8m0fnu": (2.0**-127, 2.0**127, 1.0, 2.0**-127),
}
_INTS = [f"{sign}int{n}" for sign in ("", "u") for n in range(1, 8)]
_OTHERS = "bits1x8 bits2x4 bits4x2 bits8 qint8 quint8 quint4x2 quint2x4".split()


def _named(name: str, itemsize: int, **kind: Any) -> _DTypeName:
    """One of a class of its own, whose name errors show."""
    own: type[_DTypeName] = type(name, (_DTypeName,), {"__module__": __name__})
    return own(name, itemsize, **kind)


dtype_names: dict[str, Any] = {
    **{name: _named(name, 4) for name in ("complex32", "qint32")},
    "bits16": _named("bits16", 2),
    "float4_e2m1fn_x2": _named("float4_e2m1fn_x2", 1, floating=True),
    **{n: _named(n, 1, floating=True, signed=n != "float8_e8m0fnu") for n in _FLOATS},
    **{n: _named(n, 1, signed=n[0] != "u") for n in [*_INTS, *_OTHERS]},
}
globals().update(dtype_names)  # where pickles find them
dtype_names["chalf"] = dtype_names["complex32"]
