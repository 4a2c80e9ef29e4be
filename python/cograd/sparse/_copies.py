# SPDX-License-Identifier: BSD-3-Clause
"""Copies of sparse tensors, their dtypes, and tensors that become others in place."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

from ._arithmetic import same_shape
from ._convert import laid_out_like, no_elements, sizes_of
from ._tensor import SparseTensor, handles, make, refuse


@handles("clone")
def _clone(input: Any, *, memory_format: Any = None) -> Any:
    """Returns a copy of indices and values; gradients flow to the tensor."""
    return make(input._pattern.copy(), input._v.clone())


@handles("to")
def converted(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Returns the tensor with values of another dtype, or on another device."""
    kwargs.pop("memory_format", None)
    if not isinstance(self, SparseTensor):  # like a sparse tensor
        return self.to(args[0].device, args[0].dtype, *args[1:], **kwargs)
    if args and isinstance(args[0], SparseTensor):
        args = (args[0].device, args[0].dtype, *args[1:])
    values = self._v.to(*args, **kwargs)
    return self if values is self._v else make(self._pattern.on(values.device), values)


@handles("type")
def _type(self: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
    if dtype is None:
        return self._v.type().replace("torch.", "torch.sparse.", 1)
    return converted(self, dtype)


@handles("type_as")
def _type_as(self: Any, other: Any) -> Any:
    return converted(self, other.device, other.dtype)


@handles("contiguous")
def _same(self: Any, memory_format: Any = None) -> Any:
    return self


@handles("cpu")
def _cpu(self: Any, memory_format: Any = None) -> Any:
    return converted(self, "cpu")


@handles("cuda")
def _cuda(
    self: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = None
) -> Any:
    values = self._v.cuda(device, non_blocking)
    return self if values is self._v else make(self._pattern.on(values.device), values)


def _cast(name: str) -> None:
    handles(name)(
        lambda self, memory_format=None: converted(self, getattr(self._v[:0], name)().dtype)
    )


for _name in "double float half bfloat16 int long short char byte bool cdouble cfloat".split():
    _cast(_name)


@handles("copy_")
def _copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """Becomes a copy of a sparse tensor of the same shape."""
    if not isinstance(self, SparseTensor):
        refuse("copy_", " as the source of a dense tensor")
    if not isinstance(src, SparseTensor):
        refuse("copy_", " from a dense tensor")
    same_shape("copy_", self, src)
    return self._replace(_clone(converted(laid_out_like(src, self._pattern), self.dtype)))


@handles("zero_")
def _zero_(self: Any) -> Any:
    """Drops all elements."""
    return self._replace(no_elements(self))


@handles("zeros_like", "empty_like")
def _zeros_like(
    s: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Returns a sparse tensor without elements."""
    if layout == cograd.strided:
        return cograd.zeros(
            s.shape, dtype=dtype or s.dtype, device=s.device, requires_grad=requires_grad
        )
    out = no_elements(s, dtype=dtype)
    return out.requires_grad_() if requires_grad else out


@handles("new_zeros", "new_empty")
def _new_zeros(
    s: Any,
    *size: Any,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    shape = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    out = no_elements(s, sizes_of(shape), dtype)
    return out.requires_grad_() if requires_grad else out
