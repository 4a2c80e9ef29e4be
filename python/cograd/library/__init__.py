# SPDX-License-Identifier: BSD-3-Clause
"""Ops of your own, written in Python, under a name: torch.library's names.

``custom_op`` turns a function with annotations into an op ``namespace::name``; it is found as
``cograd.ops.namespace.name``. Its gradient is registered with ``register_autograd``, and, where
they are not to follow from that, tangents with ``register_jvp`` and batching with
``register_vmap``. ``opcheck``
looks for undeclared writes and aliases, missing registrations and wrong gradients.
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
