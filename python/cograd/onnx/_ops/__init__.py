# SPDX-License-Identifier: BSD-3-Clause
"""Maps each op's name to the function that writes its ONNX nodes."""

from cograd.onnx._ops import (
    activation,
    attention,
    conv,
    create,
    elementwise,
    index,
    linalg,
    loss,
    norm,
    pool,
    reduce,
    resize,
    rnn,
    shape,
    sort,
    special,
    windows,
)
from cograd.onnx._ops._table import OPS

__all__ = ["OPS"]

del activation, attention, conv, create, elementwise, index, linalg, loss, norm, pool, reduce
del resize, rnn, shape, sort, special, windows
