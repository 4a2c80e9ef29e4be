# SPDX-License-Identifier: BSD-3-Clause
"""Custom ops written in Python and registered by name, with the names of torch.library.

``custom_op`` turns an annotated function into an op ``namespace::name``, which is available as
``cograd.ops.namespace.name``. ``register_autograd`` registers its gradient. ``register_jvp``
registers tangents, which are otherwise derived from the gradient, and ``register_vmap`` a
batching rule. ``opcheck`` finds undeclared writes and aliases, missing registrations and wrong
gradients.
"""

from typing import TYPE_CHECKING

from cograd import _absent

from ._custom_op import CustomOpDef, custom_op
from ._opcheck import OpCheckError, opcheck
from ._registry import (
    Library,
    define,
    impl,
    impl_abstract,
    register_autograd,
    register_fake,
    register_jvp,
    register_kernel,
    register_vmap,
)
from ._schema import infer_schema

__all__ = [
    "CustomOpDef",
    "Library",
    "OpCheckError",
    "custom_op",
    "define",
    "impl",
    "impl_abstract",
    "infer_schema",
    "opcheck",
    "register_autograd",
    "register_fake",
    "register_jvp",
    "register_kernel",
    "register_vmap",
]

if not TYPE_CHECKING:
    __getattr__ = _absent.reporter(__name__)
    del TYPE_CHECKING
