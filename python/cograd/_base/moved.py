# SPDX-License-Identifier: BSD-3-Clause
"""Maps the old names of modules and classes that have moved, so that old pickles load."""

from __future__ import annotations

import sys
from types import ModuleType

__all__ = ["MOVED", "keep_old_places"]

# The old name, and the module that has its classes and functions now.
MOVED = {
    "cograd._alias": "cograd._as_torch.alias",
    "cograd._checks": "cograd._functions.checks",
    "cograd._compile": "cograd._as_torch.no_compiler",
    "cograd._dtypes": "cograd._base.dtypes",
    "cograd._foreach": "cograd._functions.foreach",
    "cograd._handles": "cograd._base.handles",
    "cograd._launcher": "cograd._base.launcher",
    "cograd._losses": "cograd",
    "cograd._lowrank": "cograd.linalg._lowrank",
    "cograd._memory_format": "cograd._base.memory_format",
    "cograd._modes": "cograd._as_torch.switches",
    "cograd._native": "cograd",
    "cograd._numeric": "cograd",
    "cograd._pytree": "cograd._base.pytree",
    "cograd._recurrent": "cograd._functions.recurrent",
    "cograd._return_types": "cograd._base.return_types",
    "cograd._spectral": "cograd._functions.stft",
    "cograd._symbols": "cograd._as_torch.symbols",
    "cograd._torch_objects": "cograd._files.objects",
    "cograd._vmap": "cograd._transforms.vmap",
    "cograd._windows": "cograd._functions.windows",
    "cograd.distributed._collectives": "cograd.distributed",
    "cograd.distributed._gathering": "cograd.distributed",
    "cograd.distributed._group": "cograd.distributed._mpi.group",
    "cograd.distributed._objects": "cograd.distributed",
    "cograd.distributed._p2p": "cograd.distributed",
    "cograd.nn.functional._top": "cograd._functions.pools",
    "cograd.nn.modules.embedding_bag": "cograd.nn.modules",
    "cograd.nn.modules.layers": "cograd.nn.modules",
    "cograd.nn.modules.param_container": "cograd.nn.modules",
    "cograd.nn.modules.vision": "cograd.nn.modules",
    "cograd.utils.cpp_extension._errors": "cograd.utils.cpp_extension",
}
# Classes that have moved within their package out of a module that still exists.
LEFT = {
    "cograd.nn.modules.batchnorm": (
        "CrossMapLRN2d GroupNorm InstanceNorm1d InstanceNorm2d InstanceNorm3d LocalResponseNorm"
    ),
    "cograd.nn.modules.conv": "Fold Unfold",
    "cograd.nn.modules.lazy": (
        "LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyConv1d LazyConv2d LazyConv3d "
        "LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d LazyInstanceNorm1d "
        "LazyInstanceNorm2d LazyInstanceNorm3d LazyLinear"
    ),
    "cograd.nn.modules.loss_labels": "NLLLoss2d",
}


def keep_old_places(package: ModuleType) -> None:
    """Puts the classes of LEFT that ``package`` has into the modules where they were."""
    for place, names in LEFT.items():
        if place.startswith(f"{package.__name__}."):
            vars(sys.modules[place]).update(
                {name: getattr(package, name) for name in names.split()}
            )
