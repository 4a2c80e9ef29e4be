# SPDX-License-Identifier: BSD-3-Clause
"""Placeholders for torch types that cograd lacks (SymInt, quantized dtypes): isinstance and ==."""

from __future__ import annotations

from typing import Any

from cograd._base import absent as _absent

__all__ = ["SymBool", "SymFloat", "SymInt", "dtype_names", "script_classes"]


class _Symbol:
    def __init__(self, *args: Any) -> None:
        raise _absent.refused(type(self).__name__, "fx")


# ---- rows of python/surface/faces.toml, written by make stubs ------------------------------------


class SymInt(_Symbol):
    """torch's type of sizes while a graph is captured. It has no instances."""


class SymFloat(_Symbol):
    """torch's type of numbers while a graph is captured. It has no instances."""


class SymBool(_Symbol):
    """torch's type of conditions while a graph is captured. It has no instances."""


# ---- end of the rows -----------------------------------------------------------------------------


class _Scripted:
    """A TorchScript class that annotations name. It has no instances."""

    def __init__(self, *args: Any) -> None:
        raise _absent.refused(f"_C.{type(self).__name__}", "jit")


script_classes = {
    name: type(name, (_Scripted,), {"__module__": "torch._C"})
    for name in "Block FutureType Graph Node ScriptFunction ScriptModule Type Value".split()
}


class _DTypeName:
    """A dtype that no tensor has. Functions that accept a dtype raise TypeError for it."""

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
        """The limits that ``finfo`` shows."""
        return _limits(self.name)


def _limits(name: str) -> dict[str, Any] | None:
    if name not in _FLOATS:
        return None
    lowest, highest, eps, normal = _FLOATS[name]
    values = {"resolution": 1.0, "min": lowest, "max": highest, "eps": eps}
    return {"bits": 8, **values, "smallest_normal": normal, "tiny": normal}


# Lowest, highest, eps and smallest normal number of the 8-bit floats.
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
    """Returns an instance of its own class, whose name appears in errors."""
    own: type[_DTypeName] = type(name, (_DTypeName,), {"__module__": __name__})
    return own(name, itemsize, **kind)


dtype_names: dict[str, Any] = {
    **{name: _named(name, 4) for name in ("complex32", "qint32")},
    "bits16": _named("bits16", 2),
    "float4_e2m1fn_x2": _named("float4_e2m1fn_x2", 1, floating=True),
    **{n: _named(n, 1, floating=True, signed=n != "float8_e8m0fnu") for n in _FLOATS},
    **{n: _named(n, 1, signed=n[0] != "u") for n in [*_INTS, *_OTHERS]},
}
globals().update(dtype_names)  # so that pickle finds them
dtype_names["chalf"] = dtype_names["complex32"]
