# SPDX-License-Identifier: BSD-3-Clause
"""Sequential; lists and dicts of modules and of parameters."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, overload

from cograd import Tensor

from ..parameter import Parameter
from .module import Module, _indent

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "ModuleDict",
    "ModuleList",
    "ParameterDict",
    "ParameterList",
    "Sequential",
]


class _Numbered(Module):
    """A container whose children are named '0', '1', ... in order."""

    def _index_of(self, idx: Any) -> int:
        index = operator.index(idx)
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range")
        return int(index % len(self))

    def _name_at(self, idx: Any) -> str:
        return next(islice(self._modules, self._index_of(idx), None))

    def _replace_all(self, modules: Iterable[Module]) -> None:
        self._modules.clear()
        for i, module in enumerate(modules):
            self.add_module(str(i), module)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __dir__(self) -> list[str]:
        return [key for key in super().__dir__() if not key.isdigit()]

    def __delitem__(self, idx: Any) -> None:
        names = list(self._modules)
        dropped = names[idx] if isinstance(idx, slice) else [self._name_at(idx)]
        self._replace_all([m for name, m in self._modules.items() if name not in set(dropped)])

    def pop(self, key: int | slice) -> Any:
        """Removes and returns the child at ``key``."""
        module = self[key]  # type: ignore[index]
        del self[key]
        return module

    def append(self, module: Module) -> Self:
        """Adds a child at the end."""
        self.add_module(str(len(self)), module)
        return self


class Sequential(_Numbered):
    """Calls its children one after the other.

    It supports indexing, slicing, ``+``, ``*`` and the methods of a list.

    Args:
        args: modules, which are named '0', '1', ..., or one OrderedDict of names to modules.

    Raises:
        TypeError: an argument is not a module.
        IndexError: an index is out of range.

    Shape:
        - input: the first child's input; output: the last child's output; the input if there are no
          children.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def forward(self, input: Any) -> Any:
        """Returns the last child's output; each child receives the output of the previous one."""
        for module in self._modules.values():
            input = module(input)
        return input

    @overload
    def __getitem__(self, idx: int) -> Module: ...

    @overload
    def __getitem__(self, idx: slice) -> Self: ...

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return type(self)(OrderedDict(list(self._modules.items())[idx]))
        return self._modules[self._name_at(idx)]

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, self._name_at(idx), module)

    def __add__(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(
                "add operator supports only objects of Sequential class, "
                f"but {type(other)} is given."
            )
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> Self:
        if not isinstance(other, Sequential):
            raise ValueError(
                "add operator supports only objects of Sequential class, "
                f"but {type(other)} is given."
            )
        return self.extend(other)

    def __mul__(self, other: int) -> Sequential:
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(other)}")
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {type(self)}")
        return Sequential(*chain.from_iterable([list(self)] * other))

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Self:
        return self.extend(list(self * other)[len(self) :])

    def insert(self, index: int, module: Module) -> Self:
        """Inserts ``module`` before the child at ``index``."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        modules = list(self)
        modules.insert(index if index >= 0 else index + len(self), module)
        self._replace_all(modules)
        return self

    def extend(self, sequential: Iterable[Module]) -> Self:
        """Adds the modules at the end."""
        for module in list(sequential):
            self.append(module)
        return self


class ModuleList(_Numbered):
    """A list of modules whose parameters belong to the module that holds it.

    It has no ``forward``.

    Args:
        modules: an iterable of modules, which are named '0', '1', ...

    Raises:
        TypeError: ``modules`` is not an iterable, or an item is not a module.
        IndexError: an index is out of range.
        NotImplementedError: the list is called.
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    @overload
    def __getitem__(self, idx: int) -> Module: ...

    @overload
    def __getitem__(self, idx: slice) -> Self: ...

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return type(self)(list(self)[idx])
        return self._modules[str(self._index_of(idx))]

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, str(self._index_of(idx)), module)

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def insert(self, index: int, module: Module) -> None:
        """Inserts ``module`` before the child at ``index``."""
        modules = list(self)
        modules.insert(index, module)
        self._replace_all(modules)

    def extend(self, modules: Iterable[Module]) -> Self:
        """Adds the modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                "ModuleList.extend should be called with an iterable, but got "
                + type(modules).__name__
            )
        for module in list(modules):
            self.append(module)
        return self

    def __repr__(self) -> str:
        """Prints consecutive children with equal text once, with their count."""
        groups: list[tuple[int, int, str]] = []
        for i, module in enumerate(self):
            text = repr(module)
            if groups and groups[-1][2] == text:
                groups[-1] = (groups[-1][0], i, text)
            else:
                groups.append((i, i, text))
        if not groups:
            return self._get_name() + "()"
        lines = []
        for first, last, text in groups:
            head = f"({first}): " if first == last else f"({first}-{last}): {last - first + 1} x "
            lines.append(_indent(head + text))
        return self._get_name() + "(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """A dict of modules, in insertion order, whose parameters belong to the module that holds it.

    It has no ``forward``.

    Args:
        modules: a mapping, or an iterable of (name, module) pairs.

    Raises:
        TypeError: ``modules`` is not a mapping or pairs, a name is not a string, or a
            value is not a module.
        KeyError: a name is empty, contains a dot, or is that of a method.
        NotImplementedError: the dict is called.
    """

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        module: Module = self._modules[key]
        return module

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Removes all children."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Removes and returns the child ``key``."""
        module: Module = self._modules.pop(key)
        return module

    def keys(self) -> KeysView[str]:
        """Returns the names of the children."""
        return self._modules.keys()

    def items(self) -> ItemsView[str, Module]:
        """Returns the (name, module) pairs of the children."""
        return self._modules.items()

    def values(self) -> ValuesView[Module]:
        """Returns the children."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Adds modules from a mapping or from an iterable of (name, module) pairs."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                "ModuleDict.update should be called with an iterable of key/value pairs, but got "
                + type(modules).__name__
            )
        pairs = modules.items() if isinstance(modules, (Mapping, ModuleDict)) else modules
        for j, pair in enumerate(pairs):
            if not isinstance(pair, Iterable):
                raise TypeError(
                    f"ModuleDict update sequence element #{j} should be Iterable; "
                    f"is {type(pair).__name__}"
                )
            pair = tuple(pair)
            if len(pair) != 2:
                raise ValueError(
                    f"ModuleDict update sequence element #{j} has length {len(pair)}; 2 is required"
                )
            self[pair[0]] = pair[1]


def _as_parameter(value: Any) -> Any:
    """Converts a tensor to a Parameter; returns any other value unchanged."""
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        return Parameter(value)
    return value


def _line(key: Any, value: Any, type_text: str) -> str:
    """Returns one line of the repr."""
    if not isinstance(value, Tensor):
        return f"  ({key}): Object of type: {type(value).__name__}"
    size = "x".join(str(size) for size in value.shape)
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"  ({key}): {kind} containing: [{type_text} of size {size}]"


class ParameterList(Module):
    """A list of parameters; tensors in it become parameters, other objects are kept as they are.

    Args:
        values: an iterable of tensors and other objects.

    Raises:
        TypeError: ``values`` is not an iterable, or is a tensor.
        IndexError: an index is out of range.
        RuntimeError: the list is called.
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def _name_at(self, idx: Any) -> str:
        idx = operator.index(idx)
        if not -len(self) <= idx < len(self):
            raise IndexError(f"index {idx} is out of range")
        return str(idx % len(self))

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return type(self)(self[i] for i in range(*idx.indices(len(self))))
        return getattr(self, self._name_at(idx))

    def __setitem__(self, idx: int, value: Any) -> None:
        setattr(self, self._name_at(idx), _as_parameter(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __iadd__(self, values: Iterable[Any]) -> Any:
        return self.extend(values)

    def __dir__(self) -> list[str]:
        return [key for key in super().__dir__() if not key.isdigit()]

    def append(self, value: Any) -> Any:
        """Adds one value at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Any:
        """Adds the values at the end."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(
                "ParameterList.extend should be called with an iterable, but got "
                + type(values).__name__
            )
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        return "\n".join(
            _line(i, value, str(value.dtype) if isinstance(value, Tensor) else "")
            for i, value in enumerate(self)
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raises: a container of parameters is not callable."""
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dict of parameters in insertion order; tensors in it become parameters.

    As in torch, the keys of a mapping other than OrderedDict and ParameterDict are sorted first.

    Args:
        parameters: a mapping, or an iterable of (key, value) pairs.

    Raises:
        TypeError: ``parameters`` is not a mapping or pairs, or a key is not a string.
        KeyError: the key does not exist.
        RuntimeError: the dict is called.
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def _attribute(self, key: Any) -> str:
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string "
                f"(type is '{type(key).__name__}'). Open an issue on github if you need "
                "non-string keys."
            )
        return key

    def __getitem__(self, key: str) -> Any:
        name = self._attribute(key)
        if name not in self._keys:
            raise KeyError(key)
        return getattr(self, name)

    def __setitem__(self, key: str, value: Any) -> None:
        name = self._attribute(key)
        setattr(self, name, _as_parameter(value))
        self._keys[name] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._attribute(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """Returns a new ParameterDict with the same values."""
        return ParameterDict((key, self[key]) for key in self._keys)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Returns ``self[key]``; sets it to ``default`` first if it is missing."""
        if key not in self:
            self[key] = default
        return self[key]

    def get(self, key: str, default: Any = None) -> Any:
        """Returns ``self[key]``, or ``default`` if it is missing."""
        return self[key] if key in self else default  # noqa: SIM401

    def clear(self) -> None:
        """Removes everything."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Removes and returns ``self[key]``."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Removes and returns the last (key, value) pair."""
        key = next(reversed(self))
        return key, self.pop(key)

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Returns a new ParameterDict with ``default`` at every key."""
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> Any:
        """Returns the keys."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Yields the (key, value) pairs."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterable[Any]:
        """Returns the values."""
        return (self[key] for key in self._keys)

    def update(self, parameters: Any) -> None:
        """Adds values from a mapping or from (key, value) pairs.

        As in torch, the keys of a mapping other than OrderedDict and ParameterDict are sorted
        first.
        """
        if not isinstance(parameters, (Iterable, ParameterDict)):
            raise TypeError(
                "ParametersDict.update should be called with an iterable of key/value pairs, but "
                "got " + type(parameters).__name__
            )
        pairs: Iterable[Any] = parameters
        if isinstance(parameters, (OrderedDict, ParameterDict)):
            pairs = parameters.items()
        elif isinstance(parameters, Mapping):
            pairs = sorted(parameters.items())
        for j, pair in enumerate(pairs):
            if not isinstance(pair, Iterable):
                raise TypeError(
                    f"ParameterDict update sequence element #{j} should be Iterable; "
                    f"is {type(pair).__name__}"
                )
            pair = tuple(pair)
            if len(pair) != 2:
                raise ValueError(
                    f"ParameterDict update sequence element #{j} has length {len(pair)}; "
                    "2 is required"
                )
            self[pair[0]] = pair[1]

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        lines = []
        for key, value in self.items():
            type_text = value.type() if isinstance(value, Tensor) else ""
            lines.append(_line(key, value, type_text))
        return "\n".join(lines)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raises: a container of parameters is not callable."""
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other: Any) -> ParameterDict:
        merged = self.copy()
        merged.update(other)
        return merged

    def __ror__(self, other: Any) -> ParameterDict:
        merged = ParameterDict(other)
        merged.update(self)
        return merged

    def __ior__(self, other: Any) -> Any:
        self.update(other)
        return self
