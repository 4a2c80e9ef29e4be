# SPDX-License-Identifier: BSD-3-Clause
"""Tensor's methods other than ops: copies and pickles, printing, the typed constructors."""

from __future__ import annotations

from cograd._C import Tensor as Tensor
from cograd._tensor import methods

methods.install()
