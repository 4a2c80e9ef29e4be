# SPDX-License-Identifier: BSD-3-Clause
"""Collates samples into batches."""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import cograd
from cograd import Tensor

__all__ = ["collate", "default_collate", "default_collate_fn_map", "default_convert"]

np_str_obj_array_pattern = re.compile(r"[SaUO]")  # non-numeric NumPy dtypes
default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)

CollateMap = dict[Any, Callable[..., Any]]


def _numpy() -> Any:
    """Returns NumPy if it is imported: otherwise no object can have its types."""
    return sys.modules.get("numpy")


def default_convert(data: Any) -> Any:
    """Converts NumPy arrays and scalars inside ``data`` to tensors; keeps everything else.

    Mappings, named tuples and sequences keep their structure; a tuple becomes a list, and arrays of
    text stay. A ``DataLoader`` without batches applies this to each sample.

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
    """Returns ``values`` in a mapping like ``elem``, or as a dict if that type rejects a dict."""
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
    """Collates ``batch``, a list of samples, into one sample with a batch dim in front.

    Args:
        collate_fn_map: type, or tuple of types, to ``f(batch, *, collate_fn_map)`` for leaves.

    Raises:
        TypeError: a leaf has a type that is not in ``collate_fn_map``.
        RuntimeError: sequences or tensors have different sizes.
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
    if (collate_fn_map or {}).get(float) is collate_float_fn and np is not None:  # or a copied map
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
    """Stacks tensors."""
    return cograd.stack(batch if isinstance(batch, list) else list(batch))


def collate_float_fn(batch: Any, *, collate_fn_map: Any = None) -> Tensor:
    """Returns one tensor of float64."""
    return cograd.tensor(batch, dtype=cograd.float64)


def collate_int_fn(batch: Any, *, collate_fn_map: Any = None) -> Tensor:
    """Returns one tensor of ints or bools."""
    return cograd.tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Returns the list itself."""
    return batch


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: Any = None) -> Tensor:
    """Returns one tensor of NumPy's numbers."""
    return cograd.as_tensor(sys.modules["numpy"].asarray(batch))


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: Any = None) -> Tensor:
    """Stacks NumPy arrays. Raises TypeError for arrays of text or objects."""
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
    """Collates a list of samples into one batch: stacks tensors, converts numbers to tensors.

    NumPy arrays and numbers become tensors too, Python floats become float64, and text stays a
    list; mappings, named tuples and sequences keep their structure, and a tuple becomes a list.

    Args:
        batch: the samples, at least one, all with the structure of the first.

    Raises:
        TypeError: a sample contains something else.
        RuntimeError: tensors or sequences have different sizes.
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
