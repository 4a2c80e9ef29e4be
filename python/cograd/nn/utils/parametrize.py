# SPDX-License-Identifier: BSD-3-Clause
"""Parameters and buffers that are computed from other parameters."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import cograd
from cograd import Tensor

from ..modules.container import ModuleDict, ModuleList
from ..modules.module import Module
from ..parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

_cached_blocks = 0
_cache: dict[tuple[int, str], Tensor] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Caches parametrized tensors inside the block, so that each is computed only once."""
    global _cached_blocks
    _cached_blocks += 1
    try:
        yield
    finally:
        _cached_blocks -= 1
        if not _cached_blocks:
            _cache.clear()


def _register(module: Module, name: str, tensor: Any) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


class ParametrizationList(ModuleList):
    """Holds the parametrizations of one tensor and the tensors that they are computed from.

    These are ``original``, or ``original0``, ``original1``, ... if the ``right_inverse`` of the
    first parametrization returns several tensors. Calling the list computes the tensor.
    ``register_parametrization`` creates it.

    Args:
        modules: the parametrizations, at least one, in the order of their calls.
        original: the tensor, whose values the originals reproduce if there is a ``right_inverse``.
        unsafe: whether to skip the check that shape and dtype stay the same.

    Raises:
        ValueError: there are no modules, or a ``right_inverse`` returns something other than
            tensors, or another shape or dtype.

    Shape:
        - output: the shape of ``original``, unless ``unsafe``.
    """

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with cograd.no_grad():
            new: Any = original
            for module in reversed(self._chain()):
                if hasattr(module, "right_inverse"):
                    try:
                        new = module.right_inverse(new)
                    except NotImplementedError:
                        pass
        if not isinstance(new, (Tensor, Sequence)):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(new).__name__}"
            )
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if isinstance(new, Tensor):
            if original.dtype != new.dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {original.dtype}\nright_inverse(original).dtype: {new.dtype}"
                )
            with cograd.no_grad():
                original.data = new.detach()
            _register(self, "original", original)
        else:
            self._keep_several(original, new)
        if not unsafe:
            self._check(self(), shape, dtype)

    def _chain(self) -> list[Module]:
        """Returns the parametrizations only: a parametrized ``original`` adds another submodule."""
        return [self._modules[str(i)] for i in range(self._count())]

    def _count(self) -> int:
        count = 0
        while str(count) in self._modules:
            count += 1
        return count

    def _keep_several(self, original: Tensor, new: Sequence[Any]) -> None:
        for i, tensor in enumerate(new):
            if not isinstance(tensor, Tensor):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors (list, "
                    f"tuple...). Got element {i} of the sequence with type {type(tensor).__name__}."
                )
            if isinstance(original, Parameter):
                tensor = Parameter(tensor, original.requires_grad)
            tensor.requires_grad_(original.requires_grad)
            _register(self, f"original{i}", tensor)

    @staticmethod
    def _check(value: Any, shape: Any, dtype: Any) -> None:
        if not isinstance(value, Tensor):
            raise ValueError(f"A parametrization must return a tensor. Got {type(value).__name__}.")
        if value.dtype != dtype:
            raise ValueError(
                "Registering a parametrization may not change the dtype of the tensor, unless "
                f"`unsafe` flag is enabled.\nunparametrized dtype: {dtype}\n"
                f"parametrized dtype: {value.dtype}"
            )
        if value.shape != shape:
            raise ValueError(
                "Registering a parametrization may not change the shape of the tensor, unless "
                f"`unsafe` flag is enabled.\nunparametrized shape: {shape}\n"
                f"parametrized shape: {value.shape}"
            )

    def right_inverse(self, value: Tensor) -> None:
        """Sets the originals so that the parametrized tensor is ``value``."""
        with cograd.no_grad():
            new: Any = value
            for module in reversed(self._chain()):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                new = module.right_inverse(new)
            names = self._names()
            for i, tensor in enumerate(self._inverted(new)):
                self._replace(i, names[i], tensor)

    def _inverted(self, new: Any) -> list[Tensor]:
        if self.is_tensor:
            if not isinstance(new, Tensor):
                raise ValueError(
                    f"`right_inverse` should return a tensor. Got {type(new).__name__}"
                )
            return [new]
        if not isinstance(new, Sequence):
            raise ValueError(
                f"'right_inverse' must return a sequence of tensors. Got {type(new).__name__}."
            )
        if len(new) != self.ntensors:
            raise ValueError(
                "'right_inverse' must return a sequence of tensors of length "
                f"{self.ntensors}. Got a sequence of length {len(new)}."
            )
        for i, tensor in enumerate(new):
            if not isinstance(tensor, Tensor):
                raise ValueError(
                    "`right_inverse` must return a sequence of tensors. "
                    f"Got element {i} of type {type(tensor).__name__}"
                )
        return list(new)

    def _replace(self, i: int, name: str, tensor: Tensor) -> None:
        old = getattr(self, name)
        if old.dtype != tensor.dtype:
            which = "The tensor" if self.is_tensor else f"Tensor {i}"
            raise ValueError(
                f"{which} returned by `right_inverse` has dtype {tensor.dtype} while "
                f"`{name}` has dtype {old.dtype}"
            )
        if is_parametrized(self, name):
            setattr(self, name, tensor)
        else:
            old.data = tensor.detach()

    def _names(self) -> list[str]:
        return ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]

    def forward(self) -> Tensor:
        """Returns the parametrized tensor."""
        modules = self._chain()
        value = modules[0](*(getattr(self, name) for name in self._names()))
        for module in modules[1:]:
            value = module(value)
        return value  # type: ignore[no-any-return]


def _copied(self: Any, memo: dict[int, Any]) -> Any:
    known = memo.get(id(self))
    if known is not None:
        return known
    replica = self.__new__(type(self))
    memo[id(self)] = replica
    replica.__dict__ = copy.deepcopy(self.__dict__, memo)
    return replica


def _not_pickled(self: Any) -> Any:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict()."
    )


def _give_class(module: Module) -> None:
    """Gives the module its own class, so that its properties do not affect other modules."""
    kind = type(module)
    members: dict[str, Any] = {"__getstate__": _not_pickled}
    if not hasattr(kind, "__deepcopy__"):
        members["__deepcopy__"] = _copied
    module.__class__ = type(f"Parametrized{kind.__name__}", (kind,), members)


def _give_property(module: Module, name: str) -> None:
    def get(self: Any) -> Tensor:
        if not _cached_blocks:
            return self.parametrizations[name]()  # type: ignore[no-any-return]
        key = (id(self), name)
        if key not in _cache:
            _cache[key] = self.parametrizations[name]()
        return _cache[key]

    def put(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(get, put))


def _check_added(name: str, old: Tensor, parametrization: Any) -> None:
    """Raises if an added parametrization, or its inverse, returns something unlike ``old``."""
    new = parametrization(old)
    if not isinstance(new, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(new).__name__}.")
    for what in ("dtype", "shape"):
        was, is_now = getattr(old, what), getattr(new, what)
        if was != is_now:
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, unless "
                f"the `unsafe` flag is enabled.\nmodule.{name}.{what}: {was}\n"
                f"parametrization(module.{name}).{what}: {is_now}"
            )
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(new)
    except NotImplementedError:
        return
    if not isinstance(back, Tensor):
        raise ValueError(
            f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}"
        )
    for what in ("dtype", "shape"):
        was, is_now = getattr(old, what), getattr(back, what)
        if was != is_now:
            raise ValueError(
                "The tensor returned by parametrization.right_inverse must have the same "
                f"{what} as module.{name}, unless the `unsafe` flag is enabled.\n"
                f"module.{name}.{what}: {was}\nreturned {what}: {is_now}"
            )


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Makes a tensor of ``module`` a function of the tensor that is stored in its place.

    Args:
        tensor_name: name of a parameter or buffer. If it has parametrizations already, this one is
            applied after them.
        parametrization: a module that maps one tensor (or several, if ``right_inverse`` returns
            several) to a tensor. Its optional method ``right_inverse`` computes the initial value
            and makes the tensor assignable.
        unsafe: whether shape and dtype may change; they are not checked then.

    Raises:
        ValueError: there is no such tensor, or the parametrization's results do not fit.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        chain: Any = module.parametrizations[tensor_name]
        if not unsafe:
            _check_added(tensor_name, getattr(module, tensor_name), parametrization)
        chain.add_module(str(chain._count()), parametrization)
        chain.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        chain = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _give_class(module)
            module.parametrizations = ModuleDict()
        _give_property(module, tensor_name)
        module.parametrizations[tensor_name] = chain
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Returns whether ``module`` has a parametrization, of ``tensor_name`` if given."""
    found = module._modules.get("parametrizations")
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Makes the tensor a parameter or buffer again, with its present value or the original one.

    Raises:
        ValueError: there is no parametrization, or several originals cannot be left in place.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    chain: Any = module.parametrizations[tensor_name]
    if chain.is_tensor:
        original = chain.original
        if leave_parametrized:
            original.data = getattr(module, tensor_name).detach().clone()
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        kept = value.detach().clone()
        original = Parameter(kept) if value.requires_grad else kept
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """Returns the class that ``module`` had before it was parametrized."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Copies the parametrizations of ``from_module`` to ``to_module``: all, or of one tensor.

    The tensors that they are computed from are copied, too.
    """
    if not is_parametrized(from_module):
        return to_module
    if not isinstance(from_module.parametrizations, ModuleDict):
        raise AssertionError("from_module.parametrizations must be a ModuleDict")
    names = from_module.parametrizations if tensor_name is None else [tensor_name]
    for name in list(names):
        if not hasattr(to_module, name):
            setattr(to_module, name, copy.deepcopy(Parameter(getattr(from_module, name).detach())))
        source: Any = from_module.parametrizations[name]
        for parametrization in source._chain():
            register_parametrization(to_module, name, parametrization)
        target: Any = to_module.parametrizations[name]
        for kept in source._names():
            setattr(target, kept, getattr(source, kept))
    return to_module
