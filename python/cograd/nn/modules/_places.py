# SPDX-License-Identifier: BSD-3-Clause
"""Makes each layer importable from its module in torch 2.13, for imports and pickles."""

from __future__ import annotations

import sys
from types import ModuleType

__all__ = ["install"]

# torch.nn.modules.X defines these names; in cograd their classes are in other modules.
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
# Base classes, and the cograd modules that define them.
BASES = {"dropout._DropoutNd": "layers", "instancenorm._InstanceNorm": "batchnorm"}


def install(name: str) -> None:
    """Adds the table's names to modules of the package ``name``; creates missing modules."""
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
