# SPDX-License-Identifier: BSD-3-Clause
"""Parameter and Buffer: tensors that a Module registers when they are assigned to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import cograd
from cograd import Tensor
from cograd._tensor.pickle import _state_of
from cograd.overrides import refuse_torch

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "is_lazy"]


class _ParameterMeta(type(Tensor)):  # type: ignore[misc]
    """Makes ``isinstance(t, Parameter)`` true for tensor subclasses marked as parameters."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return (
            cls is Parameter
            and isinstance(instance, Tensor)
            and getattr(instance, "_is_param", False)
        )


def _rebuild_parameter(data: Tensor, requires_grad: bool) -> Parameter:
    """Inverts ``Parameter.__reduce_ex__``."""
    return Parameter(data, requires_grad)


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that becomes part of ``Module.parameters()`` when it is assigned to a module.

    Args:
        data: the values, of any shape; shared, not copied. ``None`` makes an empty tensor.
        requires_grad: whether autograd records operations on it; must be False for integers and
            bool.

    Raises:
        TypeError: ``data`` is not a tensor.
        RuntimeError: integers or bool with ``requires_grad``, or ``data`` of a Tensor subclass
            whose ``detach()`` returns another type.
    """

    __torch_function__ = cograd._C._disabled_torch_function_impl
    __cograd_function__ = cograd._C._disabled_torch_function_impl

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        """Makes a parameter of ``data``."""
        if data is None:
            data = cograd.empty(0)
        if type(data) is Tensor or type(data) is Parameter:
            return Tensor._make_subclass(cls, data, requires_grad)  # type: ignore[no-any-return]
        if not isinstance(data, Tensor):
            refuse_torch("Parameter", data)
            raise TypeError(
                "Parameter(): argument 'data' must be a Tensor or None, "
                f"but got {type(data).__name__}"
            )
        marked = data.detach().requires_grad_(requires_grad)
        if type(marked) is not type(data):
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {type(data).__name__} requires "
                "that detach() returns an instance of the same type, "
                f"but it returned type {type(marked).__name__}."
            )
        result: Any = marked  # an instance of a Tensor subclass that is only marked as a parameter
        result._is_param = True
        return result  # type: ignore[no-any-return]

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) in memo:
            return memo[id(self)]  # type: ignore[no-any-return]
        result = type(self)(self.detach().clone(), self.requires_grad)
        memo[id(self)] = result
        return result

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        data = cograd.Tensor._make_subclass(Tensor, self.detach(), False)
        made = (_rebuild_parameter, (data, self.requires_grad))
        state = _state_of(self)
        return made if state is None else (*made, state)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return "Parameter containing:\n" + super().__repr__()


class _BufferMeta(type(Tensor)):  # type: ignore[misc]
    """Makes ``isinstance(t, Buffer)`` true for tensors marked as buffers."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return (
            cls is Buffer
            and isinstance(instance, Tensor)
            and getattr(instance, "_is_buffer", False)
        )


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that becomes a buffer of the module it is assigned to.

    Args:
        data: the values, of any shape; shared, not copied. ``None`` makes an empty tensor.
        persistent: whether the buffer is part of the module's ``state_dict``.
    """

    __torch_function__ = cograd._C._disabled_torch_function_impl
    __cograd_function__ = cograd._C._disabled_torch_function_impl

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        """Makes a buffer of ``data``."""
        if data is None:
            data = cograd.empty(0)
        refuse_torch("Buffer", data)
        marked: Any = data.detach().requires_grad_(data.requires_grad)
        marked.persistent = persistent
        marked._is_buffer = True
        return marked  # type: ignore[no-any-return]


# A tensor without a shape has attributes (which __get__ reads) and these methods, which modules
# call when they are moved, converted or loaded.
_WITHOUT_SHAPE = frozenset(
    "__get__ __set__ __delete__ __hash__ size copy_ is_complex is_floating_point half float double "
    "char short int long cuda cpu to get_device _has_compatible_shallow_copy_type".split()
)

# Methods that ask for the shape or the memory and are no operations, which __torch_function__ sees.
_NEED_SHAPE = (
    "__len__ data_ptr dim element_size is_contiguous ndimension nelement numel storage "
    "storage_offset stride type untyped_storage"
).split()


def _no_shape(name: str) -> str:
    return (
        f"{name}(): got an uninitialized parameter or buffer, whose shape is not known yet. "
        "Call the module once with an example of its input before you use its parameters, or "
        "leave such parameters out with is_lazy(parameter)."
    )


def _refuse(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise ValueError(_no_shape(name))

    method.__name__ = name
    method.__doc__ = "Raises ValueError: there is no shape yet."
    return method


class UninitializedTensorMixin:
    """A tensor that has no shape until ``materialize`` gives it one.

    ``materialize`` turns it into an instance of ``cls_to_become`` with undefined values. Until then
    operations raise ValueError: the values that they would read do not exist yet.
    """

    cls_to_become: type = Tensor

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Runs what needs no shape; raises ValueError for the rest."""
        name = getattr(func, "__name__", repr(func))
        if name in _WITHOUT_SHAPE:
            return super().__torch_function__(func, types, args, kwargs)  # type: ignore[misc]
        raise ValueError(_no_shape(name))

    def share_memory_(self) -> Any:
        """Raises RuntimeError: there are no values to share yet."""
        raise RuntimeError(
            "share_memory_(): cannot share the memory of an uninitialized parameter or buffer. "
            "Call the module once with an example of its input first."
        )

    def materialize(self, shape: Sequence[int], device: Any = None, dtype: Any = None) -> None:
        """Turns this into a tensor of ``shape`` with undefined values."""
        tensor: Any = self
        dtype = tensor.dtype if dtype is None else dtype
        place = tensor.device if device is None else device
        tensor.data = cograd.empty(tuple(shape), device=place, dtype=dtype)
        tensor.__class__ = self.cls_to_become

    @property
    def shape(self) -> Any:
        """Raises RuntimeError: there is no shape yet."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually "
            "happens in `load_state_dict` when trying to load an uninitialized parameter into an "
            "initialized one. Call `forward` to initialize the parameters before accessing their "
            "attributes."
        )


for _name in _NEED_SHAPE:
    setattr(UninitializedTensorMixin, _name, _refuse(_name))


def is_lazy(param: Any) -> bool:
    """Returns whether ``param`` has no shape yet."""
    return isinstance(param, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A Parameter whose shape is not known yet.

    Lazy modules have such parameters until their first call; ``materialize(shape)`` turns it into
    a Parameter with undefined values.

    Args:
        requires_grad: whether autograd records operations on it.
        device, dtype: those of the values; None for the default.

    Raises:
        RuntimeError: its shape is accessed, or its memory is to be shared.
        ValueError: it is used in an operation.
    """

    cls_to_become = Parameter
    _announces_instances = True

    def __new__(
        cls, requires_grad: bool = True, device: Any = None, dtype: Any = None
    ) -> UninitializedParameter:
        """Makes a parameter without elements."""
        cograd._C._overrides_possible()
        data = cograd.empty(0, device=device, dtype=dtype)
        return Tensor._make_subclass(cls, data, requires_grad)  # type: ignore[no-any-return]

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedParameter:
        if id(self) in memo:
            return memo[id(self)]  # type: ignore[no-any-return]
        result = type(self)(self.requires_grad, self.device, self.dtype)
        memo[id(self)] = result
        return result

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return (UninitializedParameter, (self.requires_grad, None, self.dtype))


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose shape is not known yet.

    ``materialize(shape)`` turns it into a tensor with undefined values.

    Args:
        requires_grad: whether autograd records operations on it.
        device, dtype: those of the values; None for the default.
        persistent: whether the buffer is part of the module's ``state_dict``.

    Raises:
        RuntimeError: its shape is accessed, or its memory is to be shared.
        ValueError: it is used in an operation.
    """

    cls_to_become = Tensor
    _announces_instances = True

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Any = None,
        dtype: Any = None,
        persistent: bool = True,
    ) -> UninitializedBuffer:
        """Makes a buffer without elements."""
        cograd._C._overrides_possible()
        data = cograd.empty(0, device=device, dtype=dtype)
        result: Any = Tensor._make_subclass(cls, data, requires_grad)
        result.persistent = persistent
        result._is_buffer = True
        return result  # type: ignore[no-any-return]

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedBuffer:
        if id(self) not in memo:
            persistent = vars(self)["persistent"]
            memo[id(self)] = type(self)(self.requires_grad, self.device, self.dtype, persistent)
        return memo[id(self)]  # type: ignore[no-any-return]

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return (_rebuild_lazy_buffer, (self.requires_grad, self.dtype, vars(self)["persistent"]))


def _rebuild_lazy_buffer(requires_grad: bool, dtype: Any, persistent: bool) -> UninitializedBuffer:
    """Inverts ``UninitializedBuffer.__reduce_ex__``."""
    return UninitializedBuffer(requires_grad, None, dtype, persistent)
