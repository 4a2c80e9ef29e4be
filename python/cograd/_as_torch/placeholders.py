# SPDX-License-Identifier: BSD-3-Clause
"""Placeholders for names of torch that cograd lacks: programs import and name them, not more.

A class can be named in annotations, ``isinstance`` and ``|``, and derived from; a function of the
table is a decorator that changes nothing. Whatever would use them says what to use instead.
"""

from __future__ import annotations

import copyreg
import functools
import re
import typing
from abc import ABCMeta
from collections.abc import Callable
from types import FunctionType
from typing import Any, NoReturn

from cograd import _C
from cograd._as_torch.names import guess, torch_names
from cograd._base import absent as _absent

__all__ = ["AtenOp", "advice", "changes_nothing", "has_name", "placeholder"]

# Decorators, which return what they decorate, also when they are called with options first.
_DECORATORS = set(
    """
    _api_bc_check _copy_to_script_wrapper _dcp_method_logger _disable_dynamo
    _disable_dynamo_if_unsupported _jit_internal.export _jit_internal.ignore _jit_internal.unused
    _overload _overload_method _require_initialized _use_grad_for_differentiable allow_in_graph
    argument_validation assume_constant_result async_execution autocast_decorator compatibility
    dont_skip_tracing elementwise_type_promotion_wrapper exposed_in forbid_in_graph
    functional_datapipe guaranteed_datapipes_determinism leaf_function mark_compile_region
    nested_compile_region non_deterministic nonstrict_trace out_wrapper parse_args quantized_args
    register_decomposition register_lowering register_meta register_op_impl register_op_strategy
    register_prop_rule register_sharding runtime_validation substitute_in_graph wrap_inline
    """.split()
)
# Questions whether something is there or active. The answer is no.
_QUESTION = re.compile(r"_?(is|has)_(\w+_)?(available|initialized|enabled|active|triton\w*)")

# Topics of the advice by the start of a path; the longest wins.
_TOPICS = {
    "_C": "internal",
    "_C._distributed": "distributed",
    "_decomp": "dispatcher",
    "_dispatch": "dispatcher",
    "_dynamo": "compiler",
    "_export": "export",
    "_functorch": "dispatcher",
    "_higher_order_ops": "dispatcher",
    "_inductor": "compiler",
    "_jit_internal": "jit",
    "_library": "dispatcher",
    "_ops": "dispatcher",
    "_prims": "dispatcher",
    "_refs": "dispatcher",
    "_subclasses": "meta",
    "accelerator": "gpu",
    "ao": "quantized",
    "backends": "gpu",
    "compiler": "compiler",
    "cuda": "gpu",
    "distributed": "distributed",
    "export": "export",
    "functorch": "dispatcher",
    "fx": "fx",
    "jit": "jit",
    "library": "dispatcher",
    "masked": "masked",
    "mps": "gpu",
    "mtia": "gpu",
    "nested": "nested",
    "nn.attention": "compiler",
    "nn.intrinsic": "quantized",
    "nn.qat": "quantized",
    "nn.quantized": "quantized",
    "nn.quantizable": "quantized",
    "onnx": "export",
    "ops": "dispatcher",
    "package": "packages",
    "monitor": "packages",
    "quantization": "quantized",
    "sparse": "sparse",
    "utils._python_dispatch": "dispatcher",
    "utils._triton": "compiler",
    "utils.data": "datapipes",
    "xpu": "gpu",
}


def _shown(path: str) -> str:
    return path if path.startswith("functorch.") else f"torch.{path}"


def advice(path: str) -> str:
    """Says why cograd lacks a name of torch, and what to use instead."""
    module, _, name = path.rpartition(".")
    parts = path.split(".")
    starts = [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
    topic = next((_TOPICS[start] for start in starts if start in _TOPICS), "internal")
    return _absent.explain(module, name) or _absent.about(topic)


def _refusal(path: str, user: str = "") -> NotImplementedError:
    """Returns the error of what would use the placeholder of ``path``."""
    subject = f"{user}: {_shown(path)}" if user else _shown(path)
    return NotImplementedError(f"{subject} has no implementation in cograd: {advice(path)}")


def _split(path: str) -> tuple[str, str]:
    module, _, name = path.rpartition(".")
    return _shown(module).rstrip("."), name


def changes_nothing(path: str) -> bool:
    """Returns whether this is a decorator that matters only to what cograd lacks."""
    return path in _DECORATORS or path.rpartition(".")[2] in _DECORATORS


def has_name(path: str) -> bool:
    """Returns whether torch has this name, given as a path below torch."""
    names = torch_names()
    return path in names or f"{path.rpartition('.')[0]}.*" in names


class _Kind(ABCMeta):
    """The metaclass of placeholders: nothing is created, and members exist to be named."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        path = cls._torch_path
        own = "_torch_path" in vars(cls)
        raise _refusal(path, "" if own else f"{cls.__module__}.{cls.__qualname__} derives from it")

    def __getattr__(cls, name: str) -> Any:
        path = vars(cls).get("_torch_path")
        if path is not None and name[:1] != "_" and f"{path}.{name}" in torch_names():
            member = _Constant(f"{path}.{name}", True)
            setattr(cls, name, member)
            return member
        text = f"type object {cls.__name__!r} has no attribute {name!r}"
        if path is not None and not name.startswith("__"):
            text = f"{text}: {_refusal(path)}"
        raise AttributeError(text, name=name, obj=cls)

    _torch_path: str


def _generic(cls: Any, item: Any) -> Any:
    """Ignores the parameters of a generic class."""
    return cls


def _class(path: str) -> Any:
    module, name = _split(path)
    body = {
        "__module__": module,
        "__doc__": f"A placeholder for {_shown(path)}, which has no implementation in cograd.",
        "__class_getitem__": classmethod(_generic),
        "__init_subclass__": classmethod(lambda cls, **options: None),
        "_torch_path": path,
    }
    return _Kind(name, (), body)


def _error(path: str) -> Any:
    """Returns a class for ``except`` clauses; nothing in cograd raises it."""
    module, name = _split(path)
    base = UserWarning if name.endswith("Warning") else RuntimeError
    return type(name, (base,), {"__module__": module})


def _function(path: str) -> Any:
    module, name = _split(path)

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise _refusal(path)

    def decorate(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and isinstance(args[0], (FunctionType, type)):
            return args[0]
        return lambda decorated: decorated

    def deny(*args: Any, **kwargs: Any) -> bool:
        return False

    made: Callable[..., Any] = refuse
    if changes_nothing(path):
        made = decorate
    elif _QUESTION.fullmatch(name):
        made = deny
    made.__module__, made.__name__, made.__qualname__ = module, name, name
    made.__doc__ = f"A placeholder for {_shown(path)}, which has no implementation in cograd."
    return made


class _Constant:
    """A value that programs can name; a flag is false."""

    def __init__(self, path: str, truth: bool) -> None:
        self.__dict__.update(_path=path, _truth=truth, name=path.rpartition(".")[2])

    def __bool__(self) -> bool:
        return bool(self._truth)

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise _refusal(self._path)

    __getitem__ = __iter__ = __len__ = __int__ = __float__ = __lt__ = __gt__ = __call__
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __call__

    def __getattr__(self, name: str) -> NoReturn:
        text = f"{_shown(self._path)} has no attribute {name!r}"
        if not name.startswith("__"):
            text = f"{text}: {_refusal(self._path)}"
        raise AttributeError(text, name=name, obj=self)

    def __or__(self, other: Any) -> Any:
        return typing.Union[self, other]  # noqa: UP007

    def __ror__(self, other: Any) -> Any:
        return typing.Union[other, self]  # noqa: UP007

    def __repr__(self) -> str:
        return _shown(self._path)

    def __reduce__(self) -> Any:
        if self._truth:  # a member of an enumeration
            return _member, tuple(self._path.rpartition(".")[::2])
        return placeholder, (self._path,)


class AtenOp:
    """An op of torch's namespace aten, or an overload of it, as a key of tables."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, overload: str) -> AtenOp:
        if overload.startswith("_") or "." in self.__name__:
            raise AttributeError(f"{self} has no attribute {overload!r}", name=overload, obj=self)
        made = AtenOp(f"{self.__name__}.{overload}")
        setattr(self, overload, made)
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        name = self.__name__.partition(".")[0]
        there = hasattr(_C._ops, name)
        advice = f"call torch.{name}" if there else "cograd has no such op"
        raise NotImplementedError(f"torch.ops.aten.{self.__name__} can only be named: {advice}")

    def __repr__(self) -> str:
        return f"aten.{self.__name__}"

    def __reduce__(self) -> Any:
        return _aten, tuple(self.__name__.split("."))


def _aten(name: str, *overload: str) -> Any:
    from cograd import ops

    op = getattr(ops.aten, name)
    return getattr(op, *overload) if overload else op


def _member(parent: str, name: str) -> Any:
    """Returns the member of a placeholder for an enumeration."""
    return getattr(placeholder(parent), name)


@functools.cache
def placeholder(path: str) -> Any:
    """Returns the placeholder for the name with this path below torch, always the same one."""
    names, name = torch_names(), path.rpartition(".")[2]
    said = ("class", "enum", "error", "function", "metaclass", "truth", "typevar")
    kind = next((kind for kind in said if f"{path}={kind}" in names), guess(name))
    if changes_nothing(path) or _QUESTION.fullmatch(name):  # the filter may mistake their kind
        return _function(path)
    if kind in ("class", "enum"):
        return _class(path)
    if kind == "metaclass":
        return type(name, (type,), {"__module__": _split(path)[0]})
    if kind == "typevar":
        return typing.TypeVar(name)
    if kind in ("other", "truth") or ".config." in path:
        return _Constant(path, False)
    return _error(path) if kind == "error" else _function(path)


def _reduce(cls: Any) -> Any:
    """Pickles a placeholder by its path, and a class that derives from one by its name."""
    path = vars(cls).get("_torch_path")
    return cls.__qualname__ if path is None else (placeholder, (path,))


copyreg.pickle(_Kind, _reduce)
