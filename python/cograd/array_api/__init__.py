# SPDX-License-Identifier: BSD-3-Clause
"""The Python array API standard, 2024.12, over cograd's tensors.

``tensor.__array_namespace__()`` is this module, so libraries written for the standard find it, and
gradients flow through their computations. Its functions accept and return ordinary tensors. They
differ from cograd's functions where the standard does: names, ``axis`` and ``keepdims``, promotion
of 0-dim arrays like any others, and sums of integers.

Not conforming: ``Tensor.size`` is torch's method; operators between arrays of different dtypes
promote as in torch, where a 0-dim operand yields to others of its kind; a slice with a negative
step is a copy; a ``remainder`` of zero has the sign of the first number.
"""

import math as _math

from cograd import (
    bool,
    complex64,
    complex128,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

from . import fft, linalg
from ._creation import *  # noqa: F403
from ._creation import __all__ as _creation
from ._dtypes import *  # noqa: F403
from ._dtypes import __all__ as _dtypes
from ._elementwise import *  # noqa: F403
from ._elementwise import __all__ as _elementwise
from ._manipulation import *  # noqa: F403
from ._manipulation import __all__ as _manipulation
from ._statistical import *  # noqa: F403
from ._statistical import __all__ as _statistical
from .linalg import matmul, matrix_transpose, tensordot, vecdot

__array_api_version__ = "2024.12"

e, inf, nan, pi = _math.e, _math.inf, _math.nan, _math.pi
newaxis = None

__all__ = ["__array_api_version__", "e", "inf", "nan", "newaxis", "pi"]
__all__ += ["bool", "complex64", "complex128", "float32", "float64", "int8", "int16", "int32"]
__all__ += ["fft", "int64", "linalg", "matmul", "matrix_transpose", "tensordot", "uint8", "uint16"]
__all__ += ["uint32", "uint64", "vecdot"]
__all__ += _creation + _dtypes + _elementwise + _manipulation + _statistical
