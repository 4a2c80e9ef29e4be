# SPDX-License-Identifier: BSD-3-Clause
"""The libraries that compute matrix products and convolutions, and torch's switches of the name.

OpenBLAS and cograd's own loops are always there. MKL and oneDNN are used only where they are chosen
and come with the extras ``cograd[mkl]`` and ``cograd[onednn]``; each of their calls runs on one
thread of cograd's own pool. The switches for hardware that cograd does not use keep what they are
given and change nothing.
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
