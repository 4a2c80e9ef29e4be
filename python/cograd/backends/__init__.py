# SPDX-License-Identifier: BSD-3-Clause
"""The libraries that compute matrix products and convolutions, and switches of torch.backends.

OpenBLAS and cograd's own loops are always available. MKL and oneDNN are only used if chosen, and
come with the extras ``cograd[mkl]`` and ``cograd[onednn]``; each of their calls runs on one thread
of cograd's pool. The switches for hardware that cograd does not use store their values without
effect.
"""

from cograd.backends import (
    cpu,
    cuda,
    cudnn,
    mha,
    mkl,
    mkldnn,
    mps,
    nnpack,
    openblas,
    openmp,
    opt_einsum,
)
from cograd.backends._library import get_library, set_library, show, use

onednn = mkldnn
fp32_precision = "none"

__all__ = [
    "cpu",
    "cuda",
    "cudnn",
    "fp32_precision",
    "get_library",
    "mha",
    "mkl",
    "mkldnn",
    "mps",
    "nnpack",
    "onednn",
    "openblas",
    "openmp",
    "opt_einsum",
    "set_library",
    "show",
    "use",
]
