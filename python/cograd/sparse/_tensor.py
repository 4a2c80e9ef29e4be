# SPDX-License-Identifier: BSD-3-Clause
"""The class of sparse tensors. What no handler names raises, and memory has no elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import cograd
from cograd import _C, Tensor
from cograd._base.docs import see

from ._blocks import UnsupportedLayoutError
from ._pattern import Pattern

# These members are the same for sparse and dense tensors.
_SHARED = (
    "shape dtype device ndim ndimension dim numel nelement itemsize element_size size is_cuda "
    "is_cpu is_meta is_quantized is_mkldnn is_mps is_ipu is_xla is_xpu is_mtia is_vulkan is_maia "
    "is_nested is_complex is_floating_point is_signed is_conj is_neg is_inference get_device "
    "is_same_size names has_names is_distributed resolve_neg is_shared"
).split()

# Functions by name; the modules of this package add to it.
HANDLERS: dict[str, Callable[..., Any]] = {}


# Handlers whose first argument may be dense, or a list.
_DENSE_FIRST = (
    "add subtract sub rsub add_ sub_ subtract_ mul multiply div divide true_divide mm matmul mv "
    "bmm linear addmm sparse_mask cat concat concatenate stack to type_as __rmatmul__ __radd__ "
    "__rsub__ __rmul__"
).split()


def handles(*names: str) -> Callable[[Any], Any]:
    """Decorates the implementation of functions or methods for sparse tensors."""

    def register(f: Any) -> Any:
        for name in names:
            HANDLERS[name] = f
        return f

    return register


def refuse(name: str, why: str = "") -> NoReturn:
    """Raises: the op has no implementation for sparse tensors."""
    raise NotImplementedError(
        f"{name}(): not supported for sparse tensors{why}. Call to_dense() first, or compute with "
        f"values(); what is supported: {see('sparse')}"
    )


def make(pattern: Pattern, values: Tensor, requires_grad: bool = False) -> SparseTensor:
    """Returns the tensor with these values, which keep their history."""
    if values._is_concerned == 0:  # neither recorded nor part of a transform
        with _C.DisableTorchFunctionSubclass():
            values = values.detach()
            if requires_grad:
                values.requires_grad_()
    shape = pattern.full_shape(values)
    out: SparseTensor = _C._make_sparse(SparseTensor, values, *shape)
    out._pattern = pattern
    return out


class SparseTensor(Tensor):
    """A tensor that stores the positions and the values of some elements; the others are zero.

    :func:`cograd.sparse_coo_tensor`, :func:`cograd.sparse_csr_tensor` and ``to_sparse`` make one.
    The values are an ordinary tensor, and gradients flow through them.
    """

    _pattern: Pattern

    def __new__(cls, *args: Any, **kwargs: Any) -> SparseTensor:
        raise TypeError("use sparse_coo_tensor, sparse_csr_tensor or to_sparse")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        raise TypeError("SparseTensor cannot be subclassed")

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "") or repr(func)
        if name in ("__get__", "__set__", "__delete__"):
            name = func.__self__.__name__
        handler, kwargs = HANDLERS.get(name), kwargs or {}
        if handler is None:
            refuse(name)
        first = args[0] if args else next(iter(kwargs.values()), None)
        if not isinstance(first, SparseTensor) and name not in _DENSE_FIRST:
            refuse(name, " as this argument")
        try:
            return handler(*args, **kwargs)
        except UnsupportedLayoutError as error:
            refuse(name, f" of layout {error}")

    # values and history

    @property
    def _v(self) -> Tensor:
        values: Tensor = _C._sparse_values(self)
        return values

    def _replace(self, other: SparseTensor) -> SparseTensor:
        """Becomes ``other``, of the same shape and dtype: what in-place methods do."""
        if self._v.is_leaf and self._v.requires_grad and cograd.is_grad_enabled():
            raise RuntimeError(
                "a leaf Variable that requires grad is being used in an in-place operation: the "
                "tensor is sparse. Use no_grad(), or write into a clone()."
            )
        leaf = self._v.requires_grad and self._v.is_leaf
        values = other._v
        if leaf:  # without recording: the leaf stays the leaf
            grad = self._v.grad
            values = values.detach().requires_grad_()
            values.grad = grad if grad is None or grad.shape == values.shape else None
        _C._set_sparse_values(self, values)
        self._pattern = other._pattern
        return self

    @property
    def requires_grad(self) -> bool:
        return self._v.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._v.requires_grad = value

    @property
    def grad(self) -> Tensor | None:
        grad = self._v.grad
        return None if grad is None else make(self._pattern, grad)

    @grad.setter
    def grad(self, value: Any) -> None:
        self._v.grad = None if value is None else value.sparse_mask(self)._v

    @property
    def is_leaf(self) -> bool:
        return self._v.is_leaf

    @property
    def _is_concerned(self) -> int:
        concerned: int = self._v._is_concerned
        return concerned

    @property
    def grad_fn(self) -> Any:
        return self._v.grad_fn

    @property
    def output_nr(self) -> int:
        return self._v.output_nr

    @property
    def retains_grad(self) -> bool:
        return self._v.retains_grad

    @property
    def _version(self) -> int:
        return self._v._version

    @property
    def data(self) -> Tensor:
        return make(self._pattern, self._v.data)

    @data.setter
    def data(self, value: Any) -> None:
        if not isinstance(value, SparseTensor) or value.shape != self.shape:
            raise RuntimeError("x.data = y: x is sparse, so y must be sparse and of its shape")
        with cograd.no_grad():
            self._replace(value)

    def requires_grad_(self, requires_grad: bool = True) -> SparseTensor:
        """Sets ``requires_grad`` and returns the tensor."""
        self._v.requires_grad_(requires_grad)
        return self

    def detach(self) -> SparseTensor:
        """Returns a tensor with the same values without history."""
        return make(self._pattern, self._v.detach())

    def detach_(self) -> SparseTensor:
        """Drops the history of the values."""
        _C._set_sparse_values(self, self._v.detach())
        return self

    def retain_grad(self) -> None:
        """Keeps ``.grad`` of a tensor that is not a leaf."""
        self._v.retain_grad()

    def register_hook(self, hook: Callable[[Any], Any]) -> Any:
        """Registers a hook that gets the gradient, sparse and with the pattern of the tensor."""
        pattern = self._pattern

        def call(g: Tensor) -> Tensor | None:
            new = hook(make(pattern, g))
            return None if new is None else new.sparse_mask(make(pattern, g))._v

        return self._v.register_hook(call)

    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Runs backward from the values; ``gradient`` has the shape of the tensor."""
        cograd.autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    # layout

    @property
    def layout(self) -> Any:
        return self._pattern.layout

    @property
    def is_sparse(self) -> bool:
        return self._pattern.is_coo

    @property
    def is_sparse_csr(self) -> bool:
        return bool(self._pattern.layout == cograd.sparse_csr)

    @property
    def nbytes(self) -> int:
        return self._v.nbytes + sum(part.nbytes for part in self._pattern.parts)

    @property
    def _base(self) -> None:
        return None

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Returns False: elements have no strides."""
        return False

    # Python's protocols

    __hash__ = Tensor.__hash__

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        from ._printing import sparse_str

        return sparse_str(self)

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __len__(self) -> int:
        if self.dim() == 0:
            raise TypeError("len() of a 0-d tensor")
        return int(self.shape[0])

    def __iter__(self) -> Any:
        return iter(HANDLERS["unbind"](self))

    def __bool__(self) -> bool:
        if self.numel() != 1:
            raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
        return bool(HANDLERS["to_dense"](self))

    def __reduce_ex__(self, protocol: Any) -> Any:
        from cograd._utils import _rebuild_sparse_tensor

        pattern = self._pattern
        values = self._v.detach() if not self._v.is_leaf else self._v
        data: tuple[Any, ...] = (*pattern.parts, values, self.shape)
        if pattern.is_coo:
            data = (*data, pattern.coalesced)
        return _rebuild_sparse_tensor, (pattern.layout, data)

    def __copy__(self) -> SparseTensor:
        return make(self._pattern, self._v)

    def __deepcopy__(self, memo: Any) -> SparseTensor:
        if id(self) in memo:
            return memo[id(self)]  # type: ignore[no-any-return]
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
                "protocol at the moment; this sparse tensor has a history: detach() it first."
            )
        with cograd.no_grad():
            values = self._v.clone()
        memo[id(self)] = out = make(self._pattern.copy(), values, self.requires_grad)
        return out


def _method(name: str) -> Any:
    """Returns the method or attribute of the name: a handler's, or one that raises."""
    is_property = hasattr(Tensor, name) and not callable(getattr(Tensor, name))
    handler = HANDLERS.get(name)
    if handler is None:

        def refusing(self: SparseTensor, *args: Any, **kwargs: Any) -> NoReturn:
            refuse(name)

        refusing.__name__ = name
        refusing.__doc__ = "Not supported for sparse tensors: raises NotImplementedError."
        return property(refusing, refusing) if is_property else refusing
    if is_property:
        return property(handler)

    def method(self: SparseTensor, *args: Any, **kwargs: Any) -> Any:
        try:
            return handler(self, *args, **kwargs)
        except UnsupportedLayoutError as error:
            refuse(name, f" of layout {error}")

    method.__name__ = name
    method.__doc__ = handler.__doc__
    return method


# Special methods that Tensor inherits or that must keep working.
_PYTHONS = (
    "__class__ __new__ __init__ __init_subclass__ __subclasshook__ __doc__ __module__ __dict__ "
    "__dir__ __getattribute__ __setattr__ __delattr__ __sizeof__ __str__ __weakref__ __reduce__ "
    "__getstate__ __cograd_function__ __torch_function__ __slots__ __class_getitem__ "
    "__annotations__ __qualname__ __setstate__ __array_priority__ __static_attributes__ "
    "__firstlineno__"
).split()


def complete() -> None:
    """Gives the class a member for every name of Tensor, so that none reads the memory."""
    own = vars(SparseTensor)
    for name in {*dir(Tensor), *HANDLERS}:
        if name in own or name in _SHARED or name in _PYTHONS:
            continue
        if name in HANDLERS and not hasattr(Tensor, name) and name not in _ONLY_SPARSE:
            continue
        setattr(SparseTensor, name, _method(name))
    _C._overrides_possible()


_ONLY_SPARSE = ("_indices", "_values", "_nnz", "_coalesced_", "to_scipy")
