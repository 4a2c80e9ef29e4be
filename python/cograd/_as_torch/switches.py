# SPDX-License-Identifier: BSD-3-Clause
"""torch's global switches; most of them only store their value.

cograd always computes reproducibly and in full precision, so most have nothing to switch.
"""

from __future__ import annotations

import warnings
from types import ModuleType
from typing import Any

import cograd
from cograd import _C

__all__ = [
    "are_deterministic_algorithms_enabled",
    "get_default_device",
    "get_deterministic_debug_mode",
    "get_device_module",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "is_deterministic_algorithms_warn_only_enabled",
    "set_default_device",
    "set_default_tensor_type",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_flush_denormal",
    "set_num_interop_threads",
    "use_deterministic_algorithms",
]

_DEBUG_MODES = ("default", "warn", "error")
_state = {"deterministic": 0}

# ---- rows of python/surface/switches.toml, written by make stubs ---------------------------------

_stored: dict[str, Any] = {}


def set_float32_matmul_precision(precision: str) -> None:
    """Stores "highest", "high" or "medium"; float32 products are always computed in float32."""
    if precision not in ("highest", "high", "medium"):
        warnings.warn(
            f"{precision} is not one of 'highest', 'high', and 'medium'; the current setting "
            "is kept",
            stacklevel=2,
        )
        return
    _stored["get_float32_matmul_precision"] = precision


def get_float32_matmul_precision() -> str:
    """Returns the value of ``set_float32_matmul_precision``; at first "highest"."""
    value: str = _stored.get("get_float32_matmul_precision", "highest")
    return value


def set_num_interop_threads(num: int) -> None:
    """Stores the number without effect: a backward's ops use the threads of ``set_num_threads``."""
    if not isinstance(num, int) or isinstance(num, bool):
        raise TypeError(f"set_num_interop_threads expects an int, but got {type(num).__name__}")
    if num <= 0:
        raise RuntimeError("set_num_interop_threads expects a positive integer")
    _stored["get_num_interop_threads"] = num


def get_num_interop_threads() -> int:
    """Returns the value of ``set_num_interop_threads``; at first ``get_num_threads()``."""
    value: int = _stored.get("get_num_interop_threads", _C.get_num_threads())
    return value


# ---- end of the rows -----------------------------------------------------------------------------


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Chooses algorithms of cuDNN whose results repeat; all other ops are reproducible anyway."""
    if not isinstance(mode, bool):
        raise TypeError(
            f"use_deterministic_algorithms(): argument 'mode' must be bool, not "
            f"{type(mode).__name__}"
        )
    set_deterministic_debug_mode((1 if warn_only else 2) if mode else 0)


def are_deterministic_algorithms_enabled() -> bool:
    """Returns whether ``use_deterministic_algorithms`` was switched on."""
    return bool(_state["deterministic"])


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Returns whether deterministic algorithms were switched on with ``warn_only``."""
    return bool(_state["deterministic"] == 1)


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Sets ``use_deterministic_algorithms`` by number or name: 0 "default", 1 "warn", 2 "error"."""
    if isinstance(debug_mode, str):
        if debug_mode not in _DEBUG_MODES:
            raise RuntimeError(
                "invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got "
                f"{debug_mode}"
            )
        debug_mode = _DEBUG_MODES.index(debug_mode)
    if not isinstance(debug_mode, int):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(
            f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}"
        )
    _state["deterministic"] = debug_mode
    _C._set_deterministic_algorithms(debug_mode != 0)


def get_deterministic_debug_mode() -> int:
    """Returns 0, 1 or 2: see ``set_deterministic_debug_mode``."""
    return int(_state["deterministic"])


def set_flush_denormal(mode: bool) -> bool:
    """Returns whether the mode is supported: False for True, because subnormals are always kept."""
    if not isinstance(mode, bool):
        raise TypeError(f"set_flush_denormal expects a bool, but got {type(mode).__name__}")
    return not mode


def get_default_device() -> cograd.device:
    """Returns the device on which factories create tensors on this thread."""
    device: cograd.device = _C._default_device()
    return device


def set_default_device(device: Any) -> None:
    """Sets the device on which factories create tensors on this thread; None: the CPU.

    Raises RuntimeError for a device that cograd does not have.
    """
    if isinstance(device, int) and not isinstance(device, bool):
        device = cograd.device(device)
    _C._set_default_device("cpu" if device is None else device)


def get_device_module(device: Any = None) -> ModuleType:
    """Returns the module of a device: ``cograd.cuda`` for "cuda", else ``cograd`` for the CPU."""
    if device is not None and cograd.device(device).type == "cuda":
        from cograd import cuda

        return cuda
    return cograd


def set_default_tensor_type(t: Any, /) -> None:
    """Calls ``set_default_dtype`` with the dtype of an old tensor type: "torch.DoubleTensor".

    Raises TypeError if ``t`` does not name a floating type on the CPU.
    """
    name = t if isinstance(t, str) else getattr(t, "__name__", repr(t))
    types = {"FloatTensor": _C.float32, "DoubleTensor": _C.float64, "HalfTensor": _C.float16,
             "BFloat16Tensor": _C.bfloat16}  # fmt: skip
    package, _, kind = name.rpartition(".")
    if package not in ("", "torch", "cograd") or kind not in types:
        raise TypeError(
            "only floating-point types are supported as the default type, expected one of "
            f"{', '.join(f'torch.{k}' for k in types)}, got {name}"
        )
    cograd.set_default_dtype(types[kind])
