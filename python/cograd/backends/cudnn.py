# SPDX-License-Identifier: BSD-3-Clause
"""cuDNN, which computes convolutions on GPUs where it is installed: ``cograd[cuda-full]``.

Without it, or for what it does not support, convolutions are products of matrices.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

import cograd
from cograd import _C
from cograd.backends._plans import CONVOLUTION, PlanCaches

__all__ = [
    "allow_tf32",
    "benchmark",
    "benchmark_limit",
    "conv",
    "depthwise_kernel",
    "deterministic",
    "enabled",
    "flags",
    "fp32_precision",
    "is_acceptable",
    "is_available",
    "plan_cache",
    "set_flags",
    "version",
]

if TYPE_CHECKING:
    enabled: bool
    benchmark: bool
    benchmark_limit: int
    deterministic: bool
    allow_tf32: bool
    fp32_precision: str
    depthwise_kernel: str

plan_cache = PlanCaches(CONVOLUTION, "plan_cache")

_PRECISIONS = ("none", "ieee", "tf32")
_CHOICES = {
    "conv": _PRECISIONS,  # its fp32_precision
    "depthwise_kernel": ("auto", "cudnn", "native"),
    "fp32_precision": _PRECISIONS,
}
_switches: dict[str, Any] = {
    "enabled": True,
    "benchmark": False,
    "benchmark_limit": 10,
    "deterministic": False,
    "fp32_precision": "none",
    "conv": "tf32",
    "depthwise_kernel": "auto",
}


def _set(name: str, value: Any) -> None:
    kind = type(_switches[name])
    _check(name, kind, value)
    if kind is str and value not in _CHOICES[name]:
        raise RuntimeError(
            f"backends.cudnn: expected one of {', '.join(_CHOICES[name])}, but got {value!r}"
        )
    if kind is int and not 0 <= value < 2**31:
        raise RuntimeError(f"backends.cudnn.{name} must be from 0 to 2147483647, but got {value}")
    _set_all({**_switches, name: value})


def _check(name: str, kind: type, value: Any) -> None:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise RuntimeError(  # as in torch
            f"backends.cudnn.{name}: expected {kind.__name__}, but got {type(value).__name__}"
        )


def _set_all(values: dict[str, Any]) -> None:
    _switches.update(values)
    own, general = values["conv"], values["fp32_precision"]
    _C._set_cudnn_switches(
        values["enabled"],
        values["benchmark"],
        values["benchmark_limit"],
        values["deterministic"],
        (general if own == "none" else own) == "tf32",
    )


class _Convolutions:
    @property
    def fp32_precision(self) -> str:
        """How float32 is multiplied: "tf32", "ieee", or "none": as the module's attribute says."""
        precision: str = _switches["conv"]
        return precision

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        _set("conv", value)


conv = _Convolutions()


def _library() -> str:
    """Returns the library's version as text, or "" if it cannot be used."""
    if _C._cuda_failure():
        return ""
    texts = [version for name, _, version, _ in _C._cuda_libraries() if name == "cuDNN"]
    return str(texts[0])


def version() -> int | None:
    """Returns the version as a number, 91002 for 9.10.2, or None without a GPU or cuDNN."""
    text = _library()
    if not text:
        return None
    major, minor, patch = (int(part) for part in text.split("."))
    return 10000 * major + 100 * minor + patch


def is_available() -> bool:
    """Returns whether there is a GPU and cuDNN is installed. Loads the library."""
    return version() is not None


def is_acceptable(tensor: Any) -> bool:
    """Returns whether cuDNN may compute a convolution of a tensor."""
    types = (cograd.float16, cograd.bfloat16, cograd.float32, cograd.float64)
    return bool(
        _switches["enabled"] and tensor.is_cuda and tensor.dtype in types and is_available()
    )


def set_flags(
    _enabled: bool | None = None,
    _benchmark: bool | None = None,
    _benchmark_limit: int | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
    _fp32_precision: str | None = "none",
    _depthwise_kernel: str | None = None,
) -> tuple[Any, ...]:
    """Sets the given switches and returns the former values of all."""
    module: Any = sys.modules[__name__]
    given = {
        "enabled": _enabled,
        "benchmark": _benchmark,
        "benchmark_limit": _benchmark_limit,
        "deterministic": _deterministic,
        "allow_tf32": _allow_tf32,
        "fp32_precision": _fp32_precision,
        "depthwise_kernel": _depthwise_kernel,
    }
    before = tuple(getattr(module, name) for name in given)
    for name, value in given.items():
        if value is not None:
            setattr(module, name, value)
    return before


@contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
    depthwise_kernel: str = "auto",
) -> Iterator[None]:
    """Sets the switches for the duration of a with block."""
    before = dict(_switches)
    try:
        set_flags(
            enabled,
            benchmark,
            benchmark_limit,
            deterministic,
            allow_tf32,
            fp32_precision,
            depthwise_kernel,
        )
        yield
    finally:
        _set_all(before)


def _switch(name: str, doc: str) -> property:
    return property(lambda _: _switches[name], lambda _, value: _set(name, value), doc=doc)


class _Module(ModuleType):
    enabled = _switch("enabled", "Whether cuDNN computes convolutions; at first True.")
    benchmark = _switch("benchmark", "Whether algorithms are measured; at first False.")
    benchmark_limit = _switch("benchmark_limit", "How many are measured; 0: all. At first 10.")
    deterministic = _switch("deterministic", "Whether results must repeat; at first False.")
    fp32_precision = _switch("fp32_precision", 'What holds if ``conv.fp32_precision`` is "none".')
    depthwise_kernel = _switch("depthwise_kernel", "Stored without effect, for torch's programs.")

    @property
    def allow_tf32(self) -> bool:
        """Says whether float32 may be multiplied as TF32 (10 bits of mantissa); at first True."""
        return bool(_switches["conv"] == "tf32")

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        _check("allow_tf32", bool, value)
        _set("conv", "tf32" if value else "none")


sys.modules[__name__].__class__ = _Module
