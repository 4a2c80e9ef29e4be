# SPDX-License-Identifier: BSD-3-Clause
"""cograd: a small autograd engine with torch's names and semantics.

``import cograd as torch`` runs eager PyTorch code on the CPU: tensors, autograd, custom
``Function`` subclasses, ``nn`` and ``optim``.
"""

from __future__ import annotations as _annotations

from typing import Any as _Any

from cograd._preload import explain_failure as _explain_failure
from cograd._preload import preload_openblas as _preload_openblas

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
from cograd._version import __version__
from cograd._memory_format import layout, memory_format

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

from cograd._dtypes import *
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
_LAZY_NAMES = {
    "Future": "futures",
    "GradScaler": "amp.grad_scaler",
    "SymBool": "_symbols",
    "SymFloat": "_symbols",
    "SymInt": "_symbols",
    "adaptive_max_pool1d": "nn.functional._top",
    "adjoint": "_numeric",
    "affine_grid_generator": "nn.functional._grid",
    "are_deterministic_algorithms_enabled": "_modes",
    "as_strided_": "_numeric",
    "autocast": "amp.autocast_mode",
    "autocast_decrement_nesting": "amp.autocast_mode",
    "autocast_increment_nesting": "amp.autocast_mode",
    "bartlett_window": "_windows",
    "binary_cross_entropy_with_logits": "_losses",
    "blackman_window": "_windows",
    "channel_shuffle": "nn.functional.vision",
    "clear_autocast_cache": "amp.autocast_mode",
    "compile": "_compile",
    "cond": "_numeric",
    "cosine_embedding_loss": "_losses",
    "ctc_loss": "_losses",
    "detach": "_numeric",
    "detach_": "_numeric",
    "embedding": "_losses",
    "embedding_bag": "_losses",
    "embedding_renorm_": "_losses",
    "empty_permuted": "_numeric",
    "frobenius_norm": "_numeric",
    "from_file": "_native",
    "get_autocast_cpu_dtype": "amp.autocast_mode",
    "get_autocast_dtype": "amp.autocast_mode",
    "get_autocast_gpu_dtype": "amp.autocast_mode",
    "get_default_device": "_modes",
    "get_deterministic_debug_mode": "_modes",
    "get_device": "_numeric",
    "get_device_module": "_modes",
    "get_float32_matmul_precision": "_modes",
    "get_num_interop_threads": "_modes",
    "get_printoptions": "_tensor.str",
    "gradient": "_numeric",
    "grid_sampler": "nn.functional._grid",
    "grid_sampler_2d": "nn.functional._grid",
    "grid_sampler_3d": "nn.functional._grid",
    "gru": "_recurrent",
    "gru_cell": "_recurrent",
    "hamming_window": "_windows",
    "hann_window": "_windows",
    "hinge_embedding_loss": "_losses",
    "histogramdd": "_numeric",
    "install_as_torch": "_alias",
    "is_autocast_cache_enabled": "amp.autocast_mode",
    "is_autocast_cpu_enabled": "amp.autocast_mode",
    "is_autocast_enabled": "amp.autocast_mode",
    "is_conj": "_numeric",
    "is_deterministic_algorithms_warn_only_enabled": "_modes",
    "is_distributed": "_numeric",
    "is_neg": "_numeric",
    "is_same_size": "_numeric",
    "is_signed": "_numeric",
    "istft": "_spectral",
    "kaiser_window": "_windows",
    "kl_div": "_losses",
    "load": "serialization",
    "lobpcg": "_lowrank",
    "lstm": "_recurrent",
    "lstm_cell": "_recurrent",
    "lu": "_lowrank",
    "margin_ranking_loss": "_losses",
    "max_pool1d": "nn.functional._top",
    "max_pool1d_with_indices": "nn.functional._top",
    "max_pool2d": "nn.functional._top",
    "max_pool3d": "nn.functional._top",
    "native_dropout": "_native",
    "native_layer_norm": "_native",
    "norm_except_dim": "_numeric",
    "nuclear_norm": "_numeric",
    "pairwise_distance": "_losses",
    "pca_lowrank": "_lowrank",
    "pdist": "_losses",
    "pixel_shuffle": "nn.functional.vision",
    "pixel_unshuffle": "nn.functional.vision",
    "poisson_nll_loss": "_losses",
    "printoptions": "_tensor.str",
    "range": "_numeric",
    "resolve_conj": "_numeric",
    "resolve_neg": "_numeric",
    "rnn_relu": "_recurrent",
    "rnn_relu_cell": "_recurrent",
    "rnn_tanh": "_recurrent",
    "rnn_tanh_cell": "_recurrent",
    "rrelu": "nn.functional.activation",
    "rrelu_": "nn.functional.activation",
    "save": "serialization",
    "set_autocast_cache_enabled": "amp.autocast_mode",
    "set_autocast_cpu_dtype": "amp.autocast_mode",
    "set_autocast_cpu_enabled": "amp.autocast_mode",
    "set_autocast_dtype": "amp.autocast_mode",
    "set_autocast_enabled": "amp.autocast_mode",
    "set_autocast_gpu_dtype": "amp.autocast_mode",
    "set_default_device": "_modes",
    "set_default_tensor_type": "_modes",
    "set_deterministic_debug_mode": "_modes",
    "set_float32_matmul_precision": "_modes",
    "set_flush_denormal": "_modes",
    "set_num_interop_threads": "_modes",
    "set_printoptions": "_tensor.str",
    "show_config": "__config__",
    "slice_inverse": "_numeric",
    "stft": "_spectral",
    "svd_lowrank": "_lowrank",
    "triplet_margin_loss": "_losses",
    "unravel_index": "_numeric",
    "use_deterministic_algorithms": "_modes",
    "vander": "_numeric",
    "vmap": "_vmap",
}


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
    if name.startswith(("_foreach_", "_assert", "_check", "_softmax", "_log_softmax")):
        for place in ("_foreach",) if name[1] == "f" else ("_checks", "_native"):
            found = vars(import_module(f"cograd.{place}"))
            if name in found:
                return globals().setdefault(name, found[name])
    from cograd._absent import missing

    raise missing("cograd", name)


def _absent_of_c(name: str) -> None:
    from cograd._absent import missing

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


from cograd._companions import watch as _watch

_watch()
del _watch

# As in torch, modules are not exported: use `import cograd.nn as nn` or `from cograd import nn`.
__all__ = sorted(
    {n for n, v in globals().items() if n[0] != "_" and type(v) is not type(_C)} | {*_LAZY_NAMES}
)

if _C._public_name() == "torch":  # cograd was reloaded while installed as torch
    from cograd._alias import show_as_torch as _show_as_torch

    _show_as_torch()
    del _show_as_torch
