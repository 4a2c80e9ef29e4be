# SPDX-License-Identifier: BSD-3-Clause
"""autocast: products in a lower precision, losses and decompositions in float32.

Each op declares how autocast treats it; ``cograd._C._op_table()`` lists it as ``autocast``. It
applies to ops called from Python, not to ops inside other ops.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import cograd
from cograd import _C
from cograd._C import Tensor
from cograd._C import dtype as _dtype

__all__ = [
    "autocast",
    "autocast_decrement_nesting",
    "autocast_increment_nesting",
    "clear_autocast_cache",
    "custom_bwd",
    "custom_fwd",
    "get_autocast_cpu_dtype",
    "get_autocast_dtype",
    "get_autocast_gpu_dtype",
    "is_autocast_available",
    "is_autocast_cache_enabled",
    "is_autocast_cpu_enabled",
    "is_autocast_enabled",
    "set_autocast_cache_enabled",
    "set_autocast_cpu_dtype",
    "set_autocast_cpu_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
    "set_autocast_gpu_dtype",
]

_F = TypeVar("_F", bound=Callable[..., Any])
_LOWER = (cograd.bfloat16, cograd.float16)
# Other devices for which torch has autocast; programs may name them, without effect.
_ABSENT = ("hip", "hpu", "ipu", "maia", "mps", "mtia", "privateuseone", "xla", "xpu")


class _Absent(threading.local):
    """The autocast settings that programs set for devices that do not exist."""

    def __init__(self) -> None:
        self.dtypes: dict[str, _dtype] = dict.fromkeys(_ABSENT, cograd.bfloat16)
        self.dtypes["mps"] = cograd.float16
        self.enabled: dict[str, bool] = {}


_absent = _Absent()


def _device_type(name: Any, where: str) -> str:
    if not isinstance(name, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(name)}`")
    kind = name.partition(":")[0]
    if kind not in ("cpu", "cuda") and kind not in _ABSENT:
        raise RuntimeError(
            f"{where}(): unknown device_type {name!r}; expected 'cpu', 'cuda', or a device that "
            f"cograd does not have: {', '.join(_ABSENT)}"
        )
    return kind


def is_autocast_available(device_type: str) -> bool:
    """Returns whether autocast has an effect on that device: on the CPU, and on GPUs if any."""
    kind = _device_type(device_type, "is_autocast_available")
    return kind == "cpu" or (kind == "cuda" and cograd.cuda.is_available())


class autocast:
    """Runs products in a lower precision, in a block or a function.

    ``matmul``, ``linear``, convolutions, attention and recurrent layers convert their floating
    tensors to ``dtype``; losses, decompositions, FFTs and 3-d pooling to float32; other ops run on
    their inputs unchanged. float64 and complex tensors are never converted, nor are arguments of
    calls that write into a given tensor. Parameters are cast once in the outermost block. Run
    ``backward`` outside. On GPUs, softmax, normalisations, exponentials, powers, sums and others
    also compute in float32, as torch's do.

    Args:
        device_type: "cpu" or "cuda": tensors on other devices are left alone. A device that does
            not exist has no effect, with a warning.
        dtype: bfloat16 or float16; by default bfloat16 on the CPU, float16 on GPUs.
        enabled: False disables autocast in the block.
        cache_enabled: whether casts of parameters are cached; default: the thread's setting.

    The state is thread-local. Objects may be entered again, and nested.

    Raises:
        RuntimeError: ``device_type`` is unknown.
        TypeError: ``dtype`` is not a dtype.
    """

    def __init__(
        self,
        device_type: str,
        dtype: _dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        self.device = _device_type(device_type, "autocast")
        self.fast_dtype = get_autocast_dtype(self.device) if dtype is None else dtype
        if not isinstance(self.fast_dtype, _dtype):
            raise TypeError(
                "autocast(): argument 'dtype' (position 2) must be a dtype, not "
                f"{type(dtype).__name__}"
            )
        self._enabled = enabled
        self._cache = cache_enabled
        if not is_autocast_available(self.device):
            if enabled:
                name = "CUDA" if self.device == "cuda" else self.device
                warnings.warn(f"{name} is not available. Disabling autocast.", stacklevel=2)
            self._enabled = False
        elif enabled and self.fast_dtype not in _LOWER:
            name = self.device.upper()
            warnings.warn(
                f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n"
                f"{name} Autocast only supports dtypes of bfloat16, float16 currently.",
                stacklevel=2,
            )
            self._enabled = False
        self._before: list[tuple[bool, _dtype, bool]] = []

    __enter__ = _C._enter_autocast
    __exit__ = _C._exit_autocast

    def __call__(self, func: _F) -> _F:
        """Decorates ``func`` so that each call runs in a new block."""

        @functools.wraps(func)
        def run(*args: Any, **kwargs: Any) -> Any:
            with self._again():
                return func(*args, **kwargs)

        return run  # type: ignore[return-value]

    def _again(self) -> autocast:
        fresh = object.__new__(autocast)
        fresh.__dict__.update(self.__dict__, _before=[])
        return fresh


# ---- the state of the thread --------------------------------------------------------------------


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Returns whether autocast is enabled for a device, in this thread."""
    kind = _device_type(device_type, "is_autocast_enabled")
    if kind in _ABSENT:
        return _absent.enabled.get(kind, False)
    return bool(_C._autocast_enabled(kind == "cuda"))


def set_autocast_enabled(*args: Any) -> None:
    """Calls ``set_autocast_enabled(device_type, enabled)``; the default device type is "cuda"."""
    device_type, enabled = args if len(args) == 2 else ("cuda", *args)
    if not isinstance(enabled, bool):
        raise TypeError(f"set_autocast_enabled(): expected a bool, got {type(enabled).__name__}")
    kind = _device_type(device_type, "set_autocast_enabled")
    if kind in _ABSENT:
        _absent.enabled[kind] = enabled
    else:
        _C._set_autocast_enabled(enabled, kind == "cuda")


def get_autocast_dtype(device_type: str) -> _dtype:
    """Returns the lower precision of a device: at first bfloat16 on the CPU, float16 on GPUs."""
    kind = _device_type(device_type, "get_autocast_dtype")
    if kind in _ABSENT:
        return _absent.dtypes[kind]
    result: _dtype = _C._autocast_dtype(kind == "cuda")
    return result


def set_autocast_dtype(device_type: str, dtype: _dtype) -> None:
    """Sets the lower precision of a device, for this thread."""
    kind = _device_type(device_type, "set_autocast_dtype")
    if not isinstance(dtype, _dtype):
        raise TypeError(
            "set_autocast_dtype(): argument 'dtype' (position 2) must be a dtype, not "
            f"{type(dtype).__name__}"
        )
    if kind in _ABSENT:
        _absent.dtypes[kind] = dtype
    else:
        _C._set_autocast_dtype(dtype, kind == "cuda")


def is_autocast_cpu_enabled() -> bool:
    """Returns ``is_autocast_enabled("cpu")``."""
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Calls ``set_autocast_enabled("cpu", enabled)``."""
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> _dtype:
    """Returns ``get_autocast_dtype("cpu")``."""
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: _dtype) -> None:
    """Calls ``set_autocast_dtype("cpu", dtype)``."""
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> _dtype:
    """Returns ``get_autocast_dtype("cuda")``."""
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: _dtype) -> None:
    """Calls ``set_autocast_dtype("cuda", dtype)``."""
    set_autocast_dtype("cuda", dtype)


def is_autocast_cache_enabled() -> bool:
    """Returns whether casts of parameters are cached until the outermost block ends."""
    return bool(_C._autocast_cache_enabled())


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Sets whether casts of parameters are cached, for this thread."""
    _C._set_autocast_cache_enabled(enabled)


def clear_autocast_cache() -> None:
    """Removes cached casts of parameters."""
    _C._clear_autocast_cache()


def autocast_increment_nesting() -> int:
    """Enters a block without changing the state; returns this thread's nesting depth."""
    return int(_C._autocast_nest(1))


def autocast_decrement_nesting() -> int:
    """Leaves a block entered by ``autocast_increment_nesting``; returns the nesting depth."""
    return int(_C._autocast_nest(-1))


# ---- custom Functions ---------------------------------------------------------------------------


def _cast(value: Any, device_type: str, to: _dtype) -> Any:
    if isinstance(value, Tensor):
        wanted = value.is_floating_point() and value.dtype != cograd.float64
        return value.to(to) if wanted and value.device.type == device_type else value
    if isinstance(value, dict):
        return {key: _cast(item, device_type, to) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_cast(item, device_type, to) for item in value]
        return type(value)(items) if type(value) in (list, tuple) else value
    return value


def custom_fwd(
    fwd: Callable[..., Any] | None = None,
    *,
    device_type: str,
    cast_inputs: _dtype | None = None,
) -> Any:
    """Decorates ``forward`` of a custom Function to control autocast inside it.

    Args:
        device_type: "cpu" or "cuda".
        cast_inputs: dtype to which floating arguments are cast, with autocast disabled in
            ``forward``; None leaves autocast unchanged.
    """
    kind = _device_type(device_type, "custom_fwd")
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    forward = fwd

    @functools.wraps(forward)
    def run(*args: Any, **kwargs: Any) -> Any:
        ctx = args[0]
        ctx._dtype = get_autocast_dtype(kind)
        ctx._fwd_used_autocast = is_autocast_enabled(kind)
        if cast_inputs is None or not ctx._fwd_used_autocast:
            return forward(*args, **kwargs)
        ctx._fwd_used_autocast = False
        with autocast(kind, enabled=False):
            return forward(*_cast(args, kind, cast_inputs), **_cast(kwargs, kind, cast_inputs))

    return run


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Any:
    """Decorates ``backward`` of a custom Function to use the autocast state of ``forward``."""
    kind = _device_type(device_type, "custom_bwd")
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)
    backward = bwd

    @functools.wraps(backward)
    def run(*args: Any, **kwargs: Any) -> Any:
        with autocast(kind, dtype=args[0]._dtype, enabled=args[0]._fwd_used_autocast):
            return backward(*args, **kwargs)

    return run
