# SPDX-License-Identifier: BSD-3-Clause
"""Registration and lookup of a module's parameters, buffers and children."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from cograd import Tensor
from cograd.overrides import refuse_torch

from ..parameter import Parameter
from . import _hooks


def typename(value: Any) -> str:
    """Returns the name of the type of ``value`` for messages; built-in types have no module."""
    kind = type(value)
    if kind.__module__ in ("builtins", "", None):
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def _split(target: str) -> tuple[str, str]:
    path, _, name = target.rpartition(".")
    return path, name


class AccessMixin:
    """Keeps the three dicts ``_parameters``, ``_buffers`` and ``_modules`` of a Module."""

    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]

    def _check_name(self, kind: str, name: Any, members: dict[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
        if hasattr(self, name) and name not in members:
            raise KeyError(f"attribute '{name}' already exists")
        if "." in name:
            got = f", got: {name}" if kind == "module" else ""
            raise KeyError(f'{kind} name can\'t contain "."{got}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Adds ``param`` under ``name``; None reserves the name.

        Raises:
            KeyError: the name is taken, empty or contains a dot.
            TypeError: ``param`` is not a Parameter.
            ValueError: ``param`` is not a leaf.
        """
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name("parameter", name, self._parameters)
        if param is not None:
            if not (isinstance(param, Tensor) and isinstance(param, Parameter)):
                refuse_torch("register_parameter", param)
                raise TypeError(
                    f"cannot assign '{typename(param)}' object to parameter '{name}' "
                    "(cograd.nn.Parameter or None required)"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must "
                    f"be created explicitly. To express '{name}' as a function of another Tensor, "
                    "compute the value in the forward() method."
                )
            param = _hooks.registered(
                _hooks._global_parameter_registration_hooks, self, name, param
            )
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Adds ``tensor`` under ``name``; it is saved in ``state_dict`` if ``persistent``."""
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            refuse_torch("register_buffer", tensor)
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' "
                "(cograd Tensor or None required)"
            )
        hooks = _hooks._global_buffer_registration_hooks
        self._buffers[name] = _hooks.registered(hooks, self, name, tensor) if hooks else tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Any) -> None:
        """Adds a child module (or None) under ``name``."""
        if not isinstance(module, AccessMixin) and module is not None:
            raise TypeError(f"{typename(module)} is not a Module subclass")
        self._check_name("module", name, self._modules)
        hooks = _hooks._global_module_registration_hooks
        self._modules[name] = _hooks.registered(hooks, self, name, module) if hooks else module

    def register_module(self, name: str, module: Any) -> None:
        """Calls ``add_module``."""
        self.add_module(name, module)

    # lookup by dotted name

    def get_submodule(self, target: str) -> Any:
        """Returns the module at the dotted path ``target``; '' is the module itself."""
        module: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, AccessMixin):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Any, strict: bool = False) -> None:
        """Sets the module at the dotted path ``target``; with ``strict`` the path must exist."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, AccessMixin):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, name = _split(target)
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), AccessMixin):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """Returns the parameter at the dotted path ``target``."""
        path, name = _split(target)
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        param = getattr(module, name)
        if not isinstance(param, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return param

    def get_buffer(self, target: str) -> Tensor:
        """Returns the buffer at the dotted path ``target``."""
        path, name = _split(target)
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        buffer: Tensor = module._buffers[name]
        return buffer

    # walks

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """Yields (dotted name, module) for this module and all its descendants."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, path, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Any]:
        """Yields this module and all its descendants, each once."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Any]]:
        """Yields (name, module) for the direct children, each once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Any]:
        """Yields the direct children, each once."""
        for _, module in self.named_children():
            yield module

    def _named_members(
        self,
        get_members_fn: Callable[[Any], Iterable[tuple[str, Any]]],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        if recurse:
            owners = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        else:
            owners = iter([(prefix, self)])
        for path, module in owners:
            for name, member in get_members_fn(module):
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield (f"{path}.{name}" if path else name), member

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yields (dotted name, parameter)."""
        return self._named_members(
            lambda module: module._parameters.items(), prefix, recurse, remove_duplicate
        )

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yields the parameters of this module and, with ``recurse``, of its descendants."""
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yields (dotted name, buffer)."""
        return self._named_members(
            lambda module: module._buffers.items(), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yields the buffers of this module and, with ``recurse``, of its descendants."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer
