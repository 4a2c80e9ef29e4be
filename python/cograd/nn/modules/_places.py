# SPDX-License-Identifier: BSD-3-Clause
"""Where torch 2.13 keeps each layer: for imports by that path, and for pickles that name it."""

from __future__ import annotations

import sys
from types import ModuleType

__all__ = ["install"]

# torch.nn.modules.X has these names; here their classes are in other modules.
PLACES = {
    "activation": "MultiheadAttention RReLU Softmax2d",
    "batchnorm": "LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d SyncBatchNorm",
    "channelshuffle": "ChannelShuffle",
    "container": "ParameterDict ParameterList",
    "conv": (
        "LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d "
        "LazyConvTranspose3d"
    ),
    "distance": "CosineSimilarity PairwiseDistance",
    "dropout": "AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout",
    "flatten": "Flatten Unflatten",
    "fold": "Fold Unfold",
    "instancenorm": (
        "InstanceNorm1d InstanceNorm2d InstanceNorm3d LazyInstanceNorm1d LazyInstanceNorm2d "
        "LazyInstanceNorm3d"
    ),
    "linear": "LazyLinear",
    "loss": (
        "CTCLoss MultiLabelMarginLoss MultiLabelSoftMarginLoss MultiMarginLoss NLLLoss2d "
        "TripletMarginWithDistanceLoss"
    ),
    "normalization": "CrossMapLRN2d GroupNorm LayerNorm LocalResponseNorm RMSNorm",
    "pixelshuffle": "PixelShuffle PixelUnshuffle",
    "sparse": "Embedding EmbeddingBag",
    "upsampling": "Upsample UpsamplingBilinear2d UpsamplingNearest2d",
}
# Base classes of some, and the modules here that have them.
BASES = {"dropout._DropoutNd": "layers", "instancenorm._InstanceNorm": "batchnorm"}


def install(name: str) -> None:
    """Puts the table's names where torch has them: in modules of package ``name``, or new ones."""
    package = sys.modules[name]
    for place, text in PLACES.items():
        full = f"{name}.{place}"
        module = sys.modules.get(full)
        classes = {layer: getattr(package, layer) for layer in text.split()}
        if module is None:
            module = ModuleType(full, f"Layers that torch.nn.modules.{place} has.")
            module.__dict__["__all__"] = list(classes)
            sys.modules[full] = module
            setattr(package, place, module)
        vars(module).update(classes)
    for path, own in BASES.items():
        place, base = path.split(".")
        setattr(sys.modules[f"{name}.{place}"], base, getattr(sys.modules[f"{name}.{own}"], base))
