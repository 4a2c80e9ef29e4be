# SPDX-License-Identifier: BSD-3-Clause
"""What Tensor has beyond the ops: methods, copies and pickles, printing, the typed constructors."""

from __future__ import annotations

from cograd._C import Tensor as Tensor
from cograd._tensor import methods

methods.install()
