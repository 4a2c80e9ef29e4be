# SPDX-License-Identifier: BSD-3-Clause
"""Methods of Tensor that are not ops: protocols of NumPy and Python, storage, devices."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import cograd
from cograd import _C
from cograd._base.dtypes import dtype_name
from cograd._C import Tensor, UntypedStorage, from_numpy, tensor
from cograd._tensor import absent, pickle, rest, storage
from cograd._tensor.asarray import is_ndarray

# ---- NumPy's protocols --------------------------------------------------------------------------


def _array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> Any:
    """Returns this tensor as a NumPy array; shares memory unless ``dtype`` or ``copy`` prevent."""
    array = self.numpy()
    if dtype is not None:
        cast = array.astype(dtype, copy=False)
        if cast is not array:
            if copy is False:
                raise ValueError(
                    f"__array__(): a copy is needed to convert {dtype_name(self.dtype)} to "
                    f"{dtype}, but copy=False"
                )
            return cast
    return array.copy() if copy else array


def _array_wrap(self: Tensor, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
    """Converts the result of a NumPy function on this tensor to a tensor."""
    return from_numpy(array) if is_ndarray(array) else tensor(array)


_ARRAY_API = ("2021.12", "2022.12", "2023.12", "2024.12")


def _array_namespace(self: Tensor, *, api_version: str | None = None) -> Any:
    """Returns the module ``cograd.array_api``, the functions of the array API standard."""
    if api_version not in (None, *_ARRAY_API):
        raise ValueError(
            f"__array_namespace__(): unsupported version {api_version!r} of the array API "
            f"standard; there are {', '.join(_ARRAY_API)}"
        )
    return cograd.array_api


def _to_device(self: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """Calls ``to`` under its array API name. Raises ValueError for a stream of the CPU."""
    if stream is not None and not self.is_cuda and cograd.device(device).type == "cpu":
        raise ValueError(f"to_device(): the CPU has no streams, got {stream!r}")
    return self.to(device)


# ---- Python's protocols -------------------------------------------------------------------------


def _format(self: Tensor, spec: str) -> str:
    return format(self.item(), spec) if self.dim() == 0 else object.__format__(self, spec)


def _complex(self: Tensor) -> complex:
    if self.numel() != 1:
        return complex(float(self))  # raises
    return complex(self.item())


def _write(part: Tensor, value: Any) -> None:
    if isinstance(value, Tensor):
        part.copy_(value)
    else:
        part.fill_(value)


def _get_real(self: Tensor) -> Tensor:
    return cograd.real(self)


def _set_real(self: Tensor, value: Any) -> None:
    _write(_get_real(self), value)


def _get_imag(self: Tensor) -> Tensor:
    return cograd.imag(self)


def _set_imag(self: Tensor, value: Any) -> None:
    _write(_get_imag(self), value)


def _reversed(self: Tensor) -> Tensor:
    return self if self.dim() == 0 else self.flip(0)


def _write_elements(self: Tensor, values: list[Any]) -> Tensor:
    self.copy_(tensor(values, dtype=self.dtype).reshape(self.shape))
    return self


def _check_no_grad(self: Tensor, op: str) -> None:
    if self.requires_grad:
        raise RuntimeError(
            f"Can't call {op}() on Variable that requires grad. Use var.detach().{op}() instead."
        )


def _apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replaces every element v by ``callable(v)``, in row-major order."""
    _check_no_grad(self, "apply_")
    return _write_elements(self, [callable(v) for v in _C._flat_list(self)])


def _map_(self: Tensor, other: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Replaces every element a by ``callable(a, b)`` with b from ``other``, broadcast."""
    _check_no_grad(self, "map_")
    _check_no_grad(other, "map_")
    pairs = zip(_C._flat_list(self), _C._flat_list(other.expand(self.shape)), strict=True)
    return _write_elements(self, [callable(a, b) for a, b in pairs])


# ---- storage and memory -------------------------------------------------------------------------


def _untyped_storage(self: Tensor) -> UntypedStorage:
    """Returns the bytes that this tensor shares with its views."""
    return _C._untyped_storage(self)


def _is_shared(self: Tensor) -> bool:
    """Returns whether processes can share the memory: after ``share_memory_`` or a transfer."""
    return _C._is_shared(self)


def _share_memory_(self: Tensor) -> Tensor:
    """Moves the memory to a shared mapping that child processes and receivers of a queue see.

    Views, and all other tensors over the memory that Python objects refer to, move along. Does
    nothing for tensors on other devices than the CPU.

    Raises:
        RuntimeError: arrays, buffers or a recorded graph use the memory and would not move along.
    """
    from cograd._tensor.sharers import tensors_over

    if self.device.type != "cpu":
        return self
    if not _C._share_tensor(self, []) and not _C._share_tensor(self, tensors_over(self)):
        raise RuntimeError(
            "share_memory_(): arrays, buffers or a recorded graph use the same memory and would no "
            "longer see what is written; share it before they are made, or share a clone()"
        )
    return self


def _is_pinned(self: Tensor, device: Any = None) -> bool:
    """Returns whether the memory is pinned, so that GPUs can copy from it without the CPU."""
    return bool(_C._is_pinned(self))


def _pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """Returns a copy in pinned memory; the tensor itself if its memory is pinned.

    Raises:
        RuntimeError: there is no GPU, or the tensor is not a dense tensor on the CPU.
    """
    if _C._is_pinned(self):
        return self
    pinned: Tensor = _C._pinned_copy(self)
    return pinned.copy_(self) if self.requires_grad else pinned


def _cuda_array_interface(self: Tensor) -> dict[str, Any]:
    """Describes the memory of a tensor on a GPU, as Numba, CuPy and others read it."""
    if not self.is_cuda:
        raise AttributeError(
            f"__cuda_array_interface__: the tensor is on {self.device}; use tensor.cuda() first"
        )
    if self.requires_grad:
        raise RuntimeError(
            "Can't get __cuda_array_interface__ on Variable that requires grad. If gradients "
            "aren't required, use tensor.detach()"
        )
    if self.dtype == cograd.bfloat16:
        raise TypeError("__cuda_array_interface__ has no name for bfloat16; use tensor.float()")
    kind = "c" if self.is_complex() else "f" if self.is_floating_point() else "i"
    if kind == "i" and not self.dtype.is_signed:
        kind = "b" if self.dtype == cograd.bool else "u"
    item = self.itemsize
    strides = None if self.is_contiguous() else tuple(s * item for s in self.stride())
    return {
        "typestr": f"{'|' if item == 1 else '<'}{kind}{item}",
        "shape": tuple(self.shape),
        "strides": strides,
        "data": (self.data_ptr() if self.numel() else 0, False),
        "version": 3,
        "stream": _C._cuda_stream_number(self.get_device()),
    }


def _same(self: Tensor) -> Tensor:
    """Returns this tensor: conjugates are computed eagerly, so there is no bit to resolve."""
    return self


def _false(self: Tensor) -> bool:
    """Returns False: conjugates and negatives are computed eagerly, not kept as bits."""
    return False


def _stft(
    self: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """Calls :func:`cograd.stft`."""
    result: Tensor = cograd.stft(
        self, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided,
        return_complex, align_to_window,
    )  # fmt: skip
    return result


def _istft(
    self: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """Calls :func:`cograd.istft`."""
    result: Tensor = cograd.istft(
        self, n_fft, hop_length, win_length, window, center, normalized, onesided, length,
        return_complex,
    )  # fmt: skip
    return result


def _get_volatile(self: Tensor) -> bool:
    warnings.warn("volatile was removed (Variable.volatile is always False)", stacklevel=2)
    return False


def _set_volatile(self: Tensor, value: Any) -> None:
    warnings.warn(
        "volatile was removed and now has no effect. Use `with cograd.no_grad():` instead",
        stacklevel=2,
    )


_METHODS: dict[str, Any] = {
    "__array_namespace__": _array_namespace,
    "to_device": _to_device,
    "__array__": _array,
    "__array_priority__": 1000,
    "__array_wrap__": _array_wrap,
    "__complex__": _complex,
    "__cuda_array_interface__": property(_cuda_array_interface),
    "__copy__": pickle._copy,
    "__deepcopy__": pickle._deepcopy,
    "__format__": _format,
    "__reduce_ex__": pickle._reduce_ex,
    "__reversed__": _reversed,
    "apply_": _apply_,
    "is_conj": _false,
    "is_neg": _false,
    "is_pinned": _is_pinned,
    "is_shared": _is_shared,
    "istft": _istft,
    "map_": _map_,
    "imag": property(_get_imag, _set_imag, doc="A view of the imaginary parts."),
    "pin_memory": _pin_memory,
    "real": property(_get_real, _set_real, doc="A view of the real parts; itself if real."),
    "resolve_conj": _same,
    "resolve_neg": _same,
    "share_memory_": _share_memory_,
    "stft": _stft,
    "untyped_storage": _untyped_storage,
    "volatile": property(_get_volatile, _set_volatile, doc="Removed: always False."),
    **absent.METHODS,
    **rest.METHODS,
    **storage.TENSOR_METHODS,
}


def install() -> None:
    """Adds the methods of this file to Tensor, except where an op already defines the name."""
    for name, value in _METHODS.items():
        if not name.startswith("__") and name in Tensor.__dict__:
            continue
        if callable(value):
            value.__name__ = name
            value.__qualname__ = f"Tensor.{name}"
        setattr(Tensor, name, value)
    for name, value in storage.UNTYPED_METHODS.items():
        setattr(UntypedStorage, name, value)
    UntypedStorage.__reduce_ex__ = pickle._storage_reduce  # type: ignore[method-assign, assignment]
