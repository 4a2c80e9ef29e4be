# SPDX-License-Identifier: BSD-3-Clause
"""Implements ``state_dict`` and ``load_state_dict`` of Module."""

from __future__ import annotations

import warnings
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import cograd
from cograd import Tensor
from cograd._base.handles import RemovableHandle

from ..parameter import Parameter
from ._hooks import Hook

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class _IncompatibleKeys(NamedTuple):
    """The result of ``load_state_dict``."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        keys = f"missing_keys={self.missing_keys!r}, unexpected_keys={self.unexpected_keys!r}"
        return f"_IncompatibleKeys({keys})"

    def __str__(self) -> str:
        return repr(self)


def _quoted(keys: list[str]) -> str:
    return ", ".join(f'"{key}"' for key in keys)


class StateMixin:
    """Saves and loads a module's parameters and persistent buffers."""

    _version: int = 1
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_dict_hooks: dict[int, Hook]
    _state_dict_pre_hooks: dict[int, Hook]
    _load_state_dict_pre_hooks: dict[int, Hook]
    _load_state_dict_post_hooks: dict[int, Hook]

    def get_extra_state(self) -> Any:
        """Returns extra state for the state dict; override it to save more than tensors."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called. "
            f"{type(self).__name__} overrides set_extra_state() but not get_extra_state()."
        )

    def set_extra_state(self, state: Any) -> None:
        """Restores what ``get_extra_state`` returned; override both together."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called. "
            f"{type(self).__name__} overrides get_extra_state() but not set_extra_state()."
        )

    def _persistent(self) -> Iterator[tuple[str, Any]]:
        yield from self._parameters.items()
        for name, buffer in self._buffers.items():
            if name not in self._non_persistent_buffers_set:
                yield name, buffer

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        """Writes this module's own entries; ``state_dict`` writes those of the children."""
        for name, tensor in self._persistent():
            if tensor is not None:
                destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if type(self).get_extra_state is not StateMixin.get_extra_state:
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """Returns an ordered dict of all parameters and persistent buffers.

        The tensors are detached and share memory with the module's.

        Args:
            destination: the dict to fill; None creates one.
            prefix: the text before every key.
            keep_vars: whether to keep the tensors themselves instead of ``detach()``-ed ones.
        """
        if args:  # positional form: (destination, prefix, keep_vars)
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=prefix + name + ".", keep_vars=keep_vars
                )
        for hook in self._state_dict_hooks.values():
            result = hook(self, destination, prefix, metadata)
            if not getattr(hook, "_from_public_api", False):
                destination = destination if result is None else result
            elif result is not None:
                raise RuntimeError("state_dict post-hook must return None")
        return destination

    def register_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Runs ``hook(module, state_dict, prefix, local_metadata)`` after ``state_dict``."""
        hook._from_public_api = True  # type: ignore[attr-defined]
        return self._register_state_dict_hook(hook)

    def _register_state_dict_hook(self, hook: Hook) -> RemovableHandle:
        handle = RemovableHandle(self._state_dict_hooks)
        self._state_dict_hooks[handle.id] = hook
        return handle

    def register_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Runs ``hook(module, prefix, keep_vars)`` before ``state_dict``."""
        handle = RemovableHandle(self._state_dict_pre_hooks)
        self._state_dict_pre_hooks[handle.id] = hook
        return handle

    def register_load_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Runs ``hook`` before this module is loaded.

        The hook receives (module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs).
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Hook, with_module: bool = False
    ) -> RemovableHandle:
        handle = RemovableHandle(self._load_state_dict_pre_hooks)
        if with_module:
            self._load_state_dict_pre_hooks[handle.id] = _BoundHook(hook, self)
        else:
            self._load_state_dict_pre_hooks[handle.id] = hook
        return handle

    def register_load_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Runs ``hook(module, incompatible_keys)`` after ``load_state_dict``."""
        handle = RemovableHandle(self._load_state_dict_post_hooks)
        self._load_state_dict_post_hooks[handle.id] = hook
        return handle

    def _load_one(self, name: str, key: str, own: Tensor, given: Tensor, assign: bool) -> None:
        """Copies ``given`` into ``own``, or replaces ``own`` by it if ``assign``."""
        if not assign:
            if own.is_meta and not given.is_meta:
                warnings.warn(
                    f"for {key}: copying from a non-meta parameter in the checkpoint to a meta "
                    "parameter in the current model, which is a no-op. (Did you mean to pass "
                    "`assign=True` to assign items in the state dictionary to their corresponding "
                    "key in the module instead of copying them in place?)",
                    stacklevel=2,
                )
            with cograd.no_grad():
                own.copy_(given)
            return
        if isinstance(own, Parameter):
            if isinstance(given, Parameter):
                given.requires_grad_(own.requires_grad)
            else:
                given = Parameter(given, requires_grad=own.requires_grad)
        setattr(self, name, given)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Loads this module's own entries and appends problems to the three lists."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(
                state_dict,
                prefix,
                local_metadata,
                strict,
                missing_keys,
                unexpected_keys,
                error_msgs,
            )
        assign = local_metadata.get("assign_to_params_buffers", False)
        own_state = {name: tensor for name, tensor in self._persistent() if tensor is not None}
        for name, own in own_state.items():
            key = prefix + name
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            given = state_dict[key]
            if not isinstance(given, Tensor):
                error_msgs.append(
                    f'While copying the parameter named "{key}", expected cograd.Tensor or '
                    f"Tensor-like object from checkpoint but received {type(given)}"
                )
                continue
            if len(own.shape) == 0 and tuple(given.shape) == (1,):
                given = given[0]
            if given.shape != own.shape:
                error_msgs.append(
                    f"size mismatch for {key}: copying a param with shape {given.shape} from "
                    f"checkpoint, the shape in current model is {own.shape}."
                )
                continue
            try:
                self._load_one(name, key, own, given, assign)
            except Exception as error:
                error_msgs.append(
                    f'While copying the parameter named "{key}", whose dimensions in the model '
                    f"are {own.shape} and whose dimensions in the checkpoint are {given.shape}, "
                    f"an exception occurred : {error.args}."
                )
        self._load_extra_state(state_dict, prefix, strict, missing_keys, unexpected_keys)
        if strict:
            self._find_unexpected(state_dict, prefix, own_state, unexpected_keys)

    def _load_extra_state(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
    ) -> None:
        key = prefix + _EXTRA_STATE_KEY_SUFFIX
        if type(self).set_extra_state is not StateMixin.set_extra_state:
            if key in state_dict:
                self.set_extra_state(state_dict[key])
            elif strict:
                missing_keys.append(key)
        elif strict and key in state_dict:
            unexpected_keys.append(key)

    def _find_unexpected(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        own_state: dict[str, Any],
        unexpected_keys: list[str],
    ) -> None:
        for key in state_dict:
            if not key.startswith(prefix) or key == prefix + _EXTRA_STATE_KEY_SUFFIX:
                continue
            head, dot, _ = key[len(prefix) :].partition(".")
            if head not in (self._modules if dot else own_state):
                unexpected_keys.append(key)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Loads the parameters and buffers of this module and all its children.

        Args:
            state_dict: the ``state_dict()`` of a module of the same structure.
            strict: whether to raise if keys are missing or unexpected.
            assign: whether to store the given tensors themselves instead of copying their values.

        Returns:
            the missing and the unexpected keys.

        Raises:
            TypeError: ``state_dict`` is not a mapping.
            RuntimeError: shapes differ, or keys do and ``strict`` is set.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        state = OrderedDict(state_dict)
        if metadata is not None:
            state._metadata = metadata  # type: ignore[attr-defined]

        def load(module: Any, local_state: dict[str, Any], prefix: str) -> None:
            local = {} if metadata is None else metadata.get(prefix[:-1], {})
            if assign:
                local["assign_to_params_buffers"] = assign
            module._load_from_state_dict(
                local_state, prefix, local, True, missing, unexpected, errors
            )
            for name, child in module._modules.items():
                if child is not None:
                    head = prefix + name + "."
                    load(child, {k: v for k, v in local_state.items() if k.startswith(head)}, head)
            keys = _IncompatibleKeys(missing, unexpected)
            for hook in module._load_state_dict_post_hooks.values():
                if hook(module, keys) is not None:
                    raise AssertionError(
                        "Hooks registered with ``register_load_state_dict_post_hook`` are not "
                        "expected to return new values, if incompatible_keys need to be "
                        "modified, it should be done inplace."
                    )

        load(self, state, "")
        if strict:
            if unexpected:
                errors.insert(0, f"Unexpected key(s) in state_dict: {_quoted(unexpected)}. ")
            if missing:
                errors.insert(0, f"Missing key(s) in state_dict: {_quoted(missing)}. ")
        if errors:
            text = "\n\t".join(errors)
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{text}"
            )
        return _IncompatibleKeys(missing, unexpected)


class _BoundHook:
    """Passes the module to a hook as its first argument; its weak reference avoids a cycle."""

    def __init__(self, hook: Hook, module: Any) -> None:
        self.hook = hook
        self.module = weakref.ref(module)

    def __call__(self, *args: Any) -> Any:
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args)

    def __getstate__(self) -> dict[str, Any]:
        return {"hook": self.hook, "module": self.module()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["hook"], state["module"])  # type: ignore[misc]


class _LoadedHook:
    """The wrapper that torch pickles around a hook; ``with_module``: pass the module first."""

    hook: Hook
    with_module = False
    module: Any = None

    def __call__(self, *args: Any) -> Any:
        return self.hook(self.module, *args) if self.with_module else self.hook(*args)
