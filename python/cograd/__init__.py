# SPDX-License-Identifier: BSD-3-Clause
"""cograd: a small autograd engine with torch's names and semantics.

``import cograd as torch`` runs eager PyTorch code on the CPU or an NVIDIA GPU: tensors, autograd,
custom ``Function`` subclasses, ``nn`` and ``optim``.
"""

from __future__ import annotations as _annotations

from typing import Any as _Any

from cograd._base.preload import explain_failure as _explain_failure
from cograd._base.preload import preload_openblas as _preload_openblas

try:
    _preload_openblas()
    from cograd import _C
except ImportError as failure:
    raise _explain_failure(failure) from failure
from cograd._C import (
    OutOfMemoryError,
    Size,
    Tensor,
    bfloat16,
    bool,
    complex64,
    complex128,
    device,
    dtype,
    float16,
    float32,
    float64,
    get_default_dtype,
    get_num_threads,
    int8,
    int16,
    int32,
    int64,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    is_grad_enabled,
    is_inference_mode_enabled,
    set_num_threads,
    uint8,
    uint16,
    uint32,
    uint64,
)
from cograd._base.version import __version__
from cograd._base import finders as _finders
from cograd._base.lazy_names import NAMES as _LAZY_NAMES
from cograd._base.memory_format import layout, memory_format

half = float16
float = float32
double = float64
cfloat = complex64
cdouble = complex128
short = int16
int = int32
long = int64

pi = 3.141592653589793
e = 2.718281828459045
inf = 1e308 * 10
nan = inf - inf
newaxis = None

strided = layout("cograd.strided")
sparse_coo = layout("cograd.sparse_coo")
sparse_csr = layout("cograd.sparse_csr")
sparse_csc = layout("cograd.sparse_csc")
sparse_bsr = layout("cograd.sparse_bsr")
sparse_bsc = layout("cograd.sparse_bsc")
contiguous_format = memory_format("cograd.contiguous_format")
preserve_format = memory_format("cograd.preserve_format")
channels_last = memory_format("cograd.channels_last")
channels_last_3d = memory_format("cograd.channels_last_3d")

for _name in dir(_C._ops):
    if not _name.startswith("_"):
        globals()[_name] = getattr(_C._ops, _name)
del _name
from cograd._C._ops import _dirichlet_grad as _dirichlet_grad
from cograd._C._ops import _sample_dirichlet as _sample_dirichlet
from cograd._C._ops import _standard_gamma as _standard_gamma
from cograd._C._ops import _standard_gamma_grad as _standard_gamma_grad

from cograd._base.dtypes import *
from cograd._C import (
    UntypedStorage,
    as_tensor,
    from_dlpack,
    from_numpy,
    frombuffer,
    tensor,
)
from cograd._tensor.asarray import asarray
from cograd._tensor.legacy import *
from cograd._tensor.storage import TypedStorage
from cograd.functional import *
from cograd import overrides as overrides
from cograd import random
from cograd.random import (
    Generator,
    default_generator,
    get_rng,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng,
    set_rng_state,
)
from cograd import autograd
from cograd.autograd.anomaly_mode import set_anomaly_enabled
from cograd.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    no_grad,
    set_grad_enabled,
)


# These modules load at first access, so that `import cograd` costs little more than NumPy.
_LAZY_MODULES = frozenset(
    (
        "__config__",
        "array_api",
        "backends",
        "classes",
        "accelerator",
        "amp",
        "compiler",
        "cpu",
        "cuda",
        "distributed",
        "distributions",
        "fft",
        "func",
        "futures",
        "fx",
        "hub",
        "jit",
        "library",
        "linalg",
        "mps",
        "mtia",
        "multiprocessing",
        "nn",
        "onnx",
        "ops",
        "optim",
        "profiler",
        "quasirandom",
        "return_types",
        "serialization",
        "signal",
        "sparse",
        "special",
        "storage",
        "testing",
        "torch_version",
        "types",
        "utils",
        "version",
        "xpu",
    )
)


def __getattr__(name: str) -> _Any:
    from importlib import import_module

    if name in _LAZY_MODULES:
        return import_module(f"cograd.{name}")
    if name in _LAZY_NAMES:
        value = getattr(import_module(f"cograd.{_LAZY_NAMES[name]}"), name)
        globals()[name] = value
        return value
    if name in ("_dynamo", "_higher_order_ops", "_utils", "_vmap_internals"):
        return import_module(f"cograd.{name}")
    if name.startswith("_convert_indices_from_"):
        return vars(import_module("cograd.sparse._construct"))[name]
    if name.startswith(("_foreach_", "_assert", "_check", "_softmax", "_log_softmax")):
        for place in (
            ("_functions.foreach",)
            if name[1] == "f"
            else ("_functions.checks", "_functions.native")
        ):
            found = vars(import_module(f"cograd.{place}"))
            if name in found:
                return globals().setdefault(name, found[name])
    from cograd._base.absent import missing

    raise missing("cograd", name)


def _absent_of_c(name: str) -> None:
    from cograd._base.absent import missing

    raise missing("cograd._C", name)


_C.__getattr__ = _absent_of_c  # type: ignore[attr-defined, unused-ignore]


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY_MODULES, *_LAZY_NAMES})


_warn_always = False


def set_warn_always(b: _Any, /) -> None:
    """Sets a flag for programs that use it; cograd never suppresses a repeated warning anyway.

    The filters of Python's ``warnings`` decide how often a warning is shown.
    """
    global _warn_always
    if b is not True and b is not False:
        raise TypeError(f"set_warn_always(): expected a bool, but got {type(b).__name__}")
    _warn_always = b


def is_warn_always_enabled() -> _Any:
    """Returns the value that ``set_warn_always`` set; False at first."""
    return _warn_always


def is_inference(input: Tensor) -> _Any:
    """Returns whether ``input`` was created under ``inference_mode``."""
    return input.is_inference()


def _tell_einops() -> None:
    from cograd._as_torch.einops import tell_einops

    tell_einops()


_finders.when_loaded("einops", _tell_einops)
_finders.watch_old_names()
del _finders, _tell_einops

# `from cograd import *` leaves modules out, as in torch; `from cograd import nn` imports one.
__all__ = sorted(
    {n for n, v in globals().items() if n[0] != "_" and type(v) is not type(_C)} | {*_LAZY_NAMES}
)

if _C._public_name() == "torch":  # cograd was reloaded while installed as torch
    from cograd._as_torch.alias import show_as_torch as _show_as_torch

    _show_as_torch()
    del _show_as_torch
