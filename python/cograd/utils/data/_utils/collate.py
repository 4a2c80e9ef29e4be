# SPDX-License-Identifier: BSD-3-Clause
"""Samples to batches."""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import cograd
from cograd import Tensor

__all__ = ["collate", "default_collate", "default_collate_fn_map", "default_convert"]

np_str_obj_array_pattern = re.compile(r"[SaUO]")  # dtypes of NumPy that are no numbers
default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)

CollateMap = dict[Any, Callable[..., Any]]


def _numpy() -> Any:
    """NumPy if it is imported: else nothing can be of its types."""
    return sys.modules.get("numpy")


def default_convert(data: Any) -> Any:
    """NumPy arrays and scalars inside of ``data`` as tensors; everything else as it is.

    Mappings, named tuples and sequences keep their shape; a tuple becomes a list, and arrays of
    text stay. What a ``DataLoader`` without batches does to each sample.

    Args:
        data: a sample.
    """
    np = _numpy()
    if isinstance(data, Tensor):
        return data
    if np is not None and isinstance(data, np.ndarray | np.generic):
        return data if data.dtype.kind in "SUO" else cograd.as_tensor(data)
    if isinstance(data, Mapping):
        converted = {key: default_convert(value) for key, value in data.items()}
        return _like_mapping(data, converted)
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(item) for item in data))
    if isinstance(data, tuple):
        return [default_convert(item) for item in data]
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return _like_sequence(data, [default_convert(item) for item in data])
    return data


def _like_mapping(elem: Any, values: dict[Any, Any]) -> Any:
    """``values`` in a mapping as ``elem``, which may be of a type that takes no dict."""
    try:
        if isinstance(elem, MutableMapping):
            clone = copy.copy(elem)
            clone.update(values)
            return clone
        return type(elem)(values)
    except TypeError:
        return values


def _like_sequence(elem: Any, values: list[Any]) -> Any:
    try:
        if isinstance(elem, MutableSequence):
            clone = copy.copy(elem)
            for i, value in enumerate(values):
                clone[i] = value
            return clone
        return type(elem)(values)
    except TypeError:
        return values


def collate(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """``batch``, a list of samples, as one sample with a batch dim in front of every leaf.

    Args:
        collate_fn_map: type, or tuple of types, to ``f(batch, *, collate_fn_map)`` for leaves.

    Raises:
        TypeError: a leaf of a type that ``collate_fn_map`` does not know.
        RuntimeError: sequences or tensors of different sizes.
    """
    elem = batch[0]
    kind = type(elem)
    for types, function in (collate_fn_map or {}).items():
        if kind is types:
            return function(batch, collate_fn_map=collate_fn_map)
    for types, function in (collate_fn_map or {}).items():
        if isinstance(elem, types):
            return function(batch, collate_fn_map=collate_fn_map)
    np = _numpy()
    if (collate_fn_map or {}).get(float) is collate_float_fn and np is not None:  # a copy as well
        if isinstance(elem, np.ndarray):
            return collate_numpy_array_fn(batch)
        if isinstance(elem, np.bool_ | np.number):
            return collate_numpy_scalar_fn(batch)

    def inner(samples: Any) -> Any:
        return collate(samples, collate_fn_map=collate_fn_map)

    if isinstance(elem, Mapping):
        return _like_mapping(elem, {key: inner([d[key] for d in batch]) for key in elem})
    if isinstance(elem, tuple) and hasattr(elem, "_fields"):
        return kind(*(inner(column) for column in zip(*batch, strict=True)))
    if isinstance(elem, Sequence):
        if any(len(sample) != len(elem) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [inner(column) for column in zip(*batch, strict=True)]
        return columns if isinstance(elem, tuple) else _like_sequence(elem, columns)
    raise TypeError(default_collate_err_msg_format.format(kind))


def collate_tensor_fn(batch: Any, *, collate_fn_map: Any = None) -> Tensor:
    """Tensors stacked."""
    return cograd.stack(batch if isinstance(batch, list) else list(batch))


def collate_float_fn(batch: Any, *, collate_fn_map: Any = None) -> Tensor:
    """One tensor of float64."""
    return cograd.tensor(batch, dtype=cograd.float64)


def collate_int_fn(batch: Any, *, collate_fn_map: Any = None) -> Tensor:
    """One tensor of ints or bools."""
    return cograd.tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """The list itself."""
    return batch


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: Any = None) -> Tensor:
    """One tensor of NumPy's numbers."""
    return cograd.as_tensor(sys.modules["numpy"].asarray(batch))


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: Any = None) -> Tensor:
    """NumPy arrays stacked; TypeError for those of text or objects."""
    if batch[0].dtype.kind in "SUO":
        raise TypeError(default_collate_err_msg_format.format(batch[0].dtype))
    return cograd.stack([cograd.as_tensor(array) for array in batch])


default_collate_fn_map: CollateMap = {
    Tensor: collate_tensor_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch: Any) -> Any:
    """A list of samples as one batch: tensors are stacked, numbers become tensors.

    NumPy arrays and numbers become tensors too, floats of Python float64 ones, and text stays a
    list; mappings, named tuples and sequences keep their shape, and a tuple becomes a list.

    Args:
        batch: the samples, at least one, all of the structure of the first.

    Raises:
        TypeError: a sample holds something else.
        RuntimeError: tensors or sequences of different sizes.
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
