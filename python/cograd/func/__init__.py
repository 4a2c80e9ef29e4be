# SPDX-License-Identifier: BSD-3-Clause
"""Function transforms: gradients, products with Jacobians, Jacobians, vmap.

A transform converts a function of tensors to another one; transforms nest in any order. They
leave nothing in ``.grad``, and results require grad only if an outer transform or graph needs it.
"""

from typing import TYPE_CHECKING

from cograd import _absent
from cograd._vmap import vmap

from ._forward import hessian, jacfwd, jvp, linearize
from ._functionalize import functionalize
from ._modules import functional_call, replace_all_batch_norm_modules_, stack_module_state
from ._reverse import grad, grad_and_value, jacrev, vjp

__all__ = [
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]

if not TYPE_CHECKING:
    __getattr__ = _absent.reporter(__name__)
    del TYPE_CHECKING
