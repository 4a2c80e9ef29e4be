# SPDX-License-Identifier: BSD-3-Clause
"""Modules that are compared with torch's, and the values that a comparison reads.

A row is a constructor and its inputs as text; this file runs with either package. In a row,
``nn`` is the package's module, ``T(...)`` makes a random input and ``I(..., hi=n)`` one of
integers. A family of modules adds its rows to ``ROWS``. torch's values are written by

    python tests/nn_rows.py tests/nn_rows.npz        # with a Python that has torch
"""

import sys
import warnings
import zlib

import numpy as np

CONVOLUTIONS = """
nn.Conv1d(4, 6, 3) | T(2, 4, 9)
nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2, bias=False) | T(4, 11)
nn.Conv1d(3, 2, 4, padding='same') | T(2, 3, 8)
nn.Conv2d(3, 5, 3) | T(2, 3, 7, 6)
nn.Conv2d(3, 5, (3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 2)) | T(2, 3, 9, 8)
nn.Conv2d(4, 4, 3, padding=1, groups=4) | T(1, 4, 6, 6)
nn.Conv2d(4, 8, 3, padding=1, groups=4) | T(1, 4, 6, 6)
nn.Conv2d(2, 3, 3, padding='same', padding_mode='reflect') | T(2, 2, 5, 6)
nn.Conv2d(2, 3, 2, padding='same', padding_mode='circular') | T(2, 2, 5, 6)
nn.Conv2d(2, 3, 3, padding=2, padding_mode='replicate', bias=False) | T(2, 5, 6)
nn.Conv2d(2, 3, 3, padding='valid') | T(0, 2, 5, 6)
nn.Conv2d(8, 16, 1) | T(2, 8, 5, 5)
nn.Conv3d(2, 3, 2, padding=1) | T(2, 2, 4, 3, 5)
nn.Conv3d(2, 4, (1, 3, 2), stride=(2, 1, 1), groups=2) | T(2, 4, 5, 4)
nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1) | T(2, 4, 5)
nn.ConvTranspose1d(4, 6, 3, groups=2, dilation=2) | T(4, 5)
nn.ConvTranspose2d(4, 2, 3) | T(2, 4, 3, 4)
nn.ConvTranspose2d(4, 4, (3, 2), (2, 3), (1, 0), (1, 2), groups=2, bias=False) | T(2, 4, 3, 4)
nn.ConvTranspose2d(3, 2, 3, stride=1, padding=1, output_padding=1, dilation=2) | T(1, 3, 4, 4)
nn.ConvTranspose3d(2, 3, 2, stride=2) | T(1, 2, 3, 2, 3)
nn.Unfold((2, 3), padding=1, stride=2) | T(2, 3, 5, 6)
nn.Fold((5, 6), (2, 3), padding=1, stride=2) | T(2, 12, 9)
"""

POOLING = """
nn.MaxPool1d(2) | T(2, 3, 7)
nn.MaxPool1d(3, 2, 1, ceil_mode=True) | T(3, 8)
nn.MaxPool2d(2) | T(2, 3, 5, 6)
nn.MaxPool2d((3, 2), (2, 1), (1, 0), return_indices=True) | T(2, 3, 7, 6)
nn.MaxPool2d(3, 2, 1, dilation=2, ceil_mode=True) | T(1, 2, 10, 9)
nn.MaxPool3d(2, 1) | T(1, 2, 4, 3, 5)
nn.AvgPool1d(3, 2, 1) | T(2, 3, 8)
nn.AvgPool1d(3, 2, 1, True, False) | T(3, 8)
nn.AvgPool2d(2) | T(2, 3, 5, 6)
nn.AvgPool2d((3, 2), (2, 1), (1, 0), True) | T(2, 3, 7, 6)
nn.AvgPool2d(3, 2, 1, True, False) | T(2, 3, 8, 6)
nn.AvgPool2d(3, 2, 1, True, True, 5) | T(3, 8, 6)
nn.AvgPool3d(2, 1, 1, False, False) | T(1, 2, 4, 3, 5)
nn.AdaptiveAvgPool1d(3) | T(2, 3, 7)
nn.AdaptiveAvgPool2d((3, None)) | T(2, 3, 7, 5)
nn.AdaptiveAvgPool2d(7) | T(3, 4, 5)
nn.AdaptiveAvgPool3d((2, 3, 4)) | T(1, 2, 5, 4, 6)
nn.AdaptiveMaxPool1d(3, return_indices=True) | T(2, 3, 7)
nn.AdaptiveMaxPool2d((3, None)) | T(2, 3, 7, 5)
nn.AdaptiveMaxPool3d(2) | T(2, 5, 4, 6)
nn.LPPool1d(2, 3, 2) | P(2, 3, 8)
nn.LPPool2d(3, 2) | P(2, 3, 5, 6)
nn.LPPool3d(2, 2, ceil_mode=True) | P(1, 2, 3, 5, 4)
nn.FractionalMaxPool2d(2, output_size=(3, 4), _random_samples=P(2, 3, 2) / 3) | T(2, 3, 6, 7)
nn.FractionalMaxPool3d(2, output_ratio=0.6, _random_samples=P(1, 2, 3) / 3) | T(1, 2, 5, 7, 6)
nn.MaxUnpool1d(2) | T(1, 2, 2), tensor([[[1, 2], [0, 3]]])
nn.MaxUnpool2d(2, 2) | T(1, 1, 2, 2), tensor([[[[0, 3], [8, 10]]]])
"""

NORMS = """
nn.BatchNorm1d(4) | T(5, 4)
nn.BatchNorm1d(3, momentum=None) | T(4, 3, 6)
nn.BatchNorm1d(3, affine=False, track_running_stats=False) | T(4, 3, 6)
nn.BatchNorm2d(3, eps=0.1, momentum=0.3) | T(4, 3, 2, 5)
nn.BatchNorm2d(3).eval() | T(4, 3, 2, 5)
nn.BatchNorm3d(2) | T(3, 2, 2, 3, 2)
nn.InstanceNorm1d(3) | T(2, 3, 6)
nn.InstanceNorm1d(3, affine=True) | T(3, 6)
nn.InstanceNorm2d(3, affine=True, track_running_stats=True) | T(2, 3, 4, 5)
nn.InstanceNorm2d(3, track_running_stats=True).eval() | T(2, 3, 4, 5)
nn.InstanceNorm3d(2) | T(2, 2, 3, 2, 2)
nn.GroupNorm(2, 6) | T(3, 6, 4)
nn.GroupNorm(3, 6, affine=False) | T(3, 6)
nn.GroupNorm(1, 4, eps=0.1) | T(2, 4, 3, 2)
nn.LocalResponseNorm(3, 0.5, 0.6, 2.0) | T(2, 5, 4)
nn.LocalResponseNorm(2) | T(2, 5, 4, 3)
"""

IMAGES = """
nn.Upsample(scale_factor=2) | T(2, 3, 4)
nn.Upsample((7, 9)) | T(2, 3, 4, 5)
nn.Upsample(scale_factor=1.7, mode='nearest-exact') | T(2, 3, 4, 5)
nn.Upsample(7, mode='linear') | T(2, 3, 4)
nn.Upsample(7, mode='linear', align_corners=True) | T(2, 3, 4)
nn.Upsample(scale_factor=(1.6, 2.3), mode='bilinear') | T(2, 3, 4, 5)
nn.Upsample(scale_factor=1.6, mode='bilinear', recompute_scale_factor=True) | T(2, 3, 4, 5)
nn.Upsample((3, 2), mode='bilinear', align_corners=True) | T(2, 3, 7, 5)
nn.Upsample((6, 9), mode='bicubic') | T(2, 3, 4, 5)
nn.Upsample((3, 9), mode='bicubic', align_corners=True) | T(2, 3, 4, 5)
nn.Upsample((3, 5, 4), mode='trilinear') | T(1, 2, 2, 3, 5)
nn.Upsample((3, 5), mode='area') | T(1, 2, 7, 5)
nn.UpsamplingNearest2d(scale_factor=2) | T(1, 2, 3, 4)
nn.UpsamplingBilinear2d(scale_factor=2) | T(1, 2, 3, 4)
nn.PixelShuffle(2) | T(2, 8, 3, 4)
nn.PixelUnshuffle(2) | T(2, 3, 4, 6)
nn.ChannelShuffle(3) | T(2, 6, 4)
nn.ZeroPad1d((1, 2)) | T(2, 3, 4)
nn.ZeroPad2d(2) | T(2, 3, 4, 5)
nn.ZeroPad3d(1) | T(1, 2, 2, 3, 2)
nn.ConstantPad1d(2, 1.5) | T(2, 3, 4)
nn.ConstantPad2d((1, 0, 2, -1), 1.5) | T(2, 3, 4, 5)
nn.ConstantPad3d(1, -1.0) | T(1, 2, 2, 3, 2)
nn.ReflectionPad1d((1, 2)) | T(2, 3, 4)
nn.ReflectionPad2d((1, 2, 0, 1)) | T(2, 3, 4, 5)
nn.ReflectionPad3d(1) | T(1, 2, 3, 4, 2)
nn.ReplicationPad1d((1, 6)) | T(2, 3, 4)
nn.ReplicationPad2d(2) | T(3, 4, 5)
nn.ReplicationPad3d(2) | T(1, 2, 3, 4, 2)
nn.CircularPad1d((1, 2)) | T(2, 3, 4)
nn.CircularPad2d((1, 2, 0, 1)) | T(2, 3, 4, 5)
nn.CircularPad3d(1) | T(1, 2, 3, 4, 2)
nn.Softmax2d() | T(2, 3, 4, 5)
nn.RReLU(0.1, 0.4).eval() | T(2, 3, 4)
nn.Dropout1d(0.4).eval() | T(2, 3, 4)
nn.Dropout2d(0.4, True).eval() | T(2, 3, 4, 2)
nn.Dropout3d(0.4).eval() | T(2, 3, 4, 2, 2)
nn.AlphaDropout().eval() | T(2, 3, 4)
nn.FeatureAlphaDropout().eval() | T(2, 3, 4)
"""

ACTIVATIONS = """
nn.CELU(0.5) | T(3, 4)
nn.ELU(0.5) | T(3, 4)
nn.GELU() | T(3, 4)
nn.GELU('tanh') | T(3, 4)
nn.GLU(1) | T(3, 4)
nn.Hardshrink(0.3) | T(3, 4)
nn.Hardsigmoid() | T(3, 4)
nn.Hardswish() | T(3, 4)
nn.Hardtanh(-0.5, 0.3) | T(3, 4)
nn.LeakyReLU(0.2) | T(3, 4)
nn.LogSigmoid() | T(3, 4)
nn.LogSoftmax(1) | T(3, 4)
nn.Mish() | T(3, 4)
nn.PReLU(4) | T(3, 4)
nn.ReLU() | T(3, 4)
nn.ReLU6() | T(3, 4)
nn.SELU() | T(3, 4)
nn.SiLU() | T(3, 4)
nn.Sigmoid() | T(3, 4)
nn.Softmax(0) | T(3, 4)
nn.Softmin(-1) | T(3, 4)
nn.Softplus(2, 1.5) | T(3, 4)
nn.Softshrink(0.2) | T(3, 4)
nn.Softsign() | T(3, 4)
nn.Tanh() | T(3, 4)
nn.Tanhshrink() | T(3, 4)
nn.Threshold(0.1, -3.0) | T(3, 4)
nn.Dropout(0.4).eval() | T(3, 4)
"""

PLAIN = """
nn.Bilinear(2, 3, 4) | T(5, 2), T(5, 3)
nn.CosineSimilarity(1) | T(3, 4), T(3, 4)
nn.PairwiseDistance(3.0, keepdim=True) | T(3, 4), T(3, 4)
nn.DataParallel(nn.Linear(3, 4)) | T(2, 3)
nn.Embedding(5, 3, padding_idx=1) | I(2, 4)
nn.Flatten(1, 2) | T(2, 3, 4, 2)
nn.Identity(3, a=1) | T(3, 4)
nn.LayerNorm((3, 4), 0.1) | T(2, 3, 4)
nn.LayerNorm(4, bias=False) | T(2, 3, 4)
nn.Linear(3, 4, bias=False) | T(2, 5, 3)
nn.Linear(3, 4) | T(3)
nn.RMSNorm((3, 4), 0.1) | T(2, 3, 4)
nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)) | T(5, 3)
nn.Unflatten(1, (2, 3)) | T(2, 6, 3)
nn.MaxUnpool3d(2) | T(1, 1, 1, 1, 2), tensor([[[[[1, 14]]]]])
nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 6, 0.0), 2, nn.LayerNorm(4)) | T(3, 2, 4)
nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 6, 0.0), 2) | T(3, 2, 4), T(5, 2, 4)
"""

LOSSES = """
nn.BCELoss(P(4)) | P(3, 4) / 3, P(3, 4) / 3
nn.BCEWithLogitsLoss(pos_weight=P(4), reduction='sum') | T(3, 4), B(3, 4).double()
nn.CosineEmbeddingLoss(0.2) | T(3, 4), T(3, 4), tensor([1, -1, -1])
nn.CrossEntropyLoss(P(4), ignore_index=2, label_smoothing=0.1) | T(5, 4), I(5, hi=4)
nn.CrossEntropyLoss(reduction='none') | T(2, 4, 3), P(2, 4, 3)
nn.GaussianNLLLoss(full=True) | T(3, 4), T(3, 4), P(3, 4)
nn.HingeEmbeddingLoss(0.7) | T(4), tensor([1, -1, -1, 1])
nn.HuberLoss(delta=0.4) | T(3, 4), T(3, 4)
nn.KLDivLoss('batchmean') | T(3, 4), P(3, 4)
nn.KLDivLoss('sum', log_target=True) | T(3, 4), T(3, 4)
nn.L1Loss() | T(3, 4), T(3, 4)
nn.MSELoss(reduction='sum') | T(3, 4), T(3, 4)
nn.MarginRankingLoss(0.1) | T(4), T(4), tensor([1, -1, -1, 1])
nn.NLLLoss(P(4), ignore_index=1) | T(5, 4), I(5, hi=4)
nn.NLLLoss2d() | T(2, 4, 2, 3), I(2, 2, 3, hi=4)
nn.PoissonNLLLoss(full=True) | T(3, 4), P(3, 4) * 2
nn.SmoothL1Loss(beta=0.4) | T(3, 4), T(3, 4)
nn.SoftMarginLoss() | T(4), tensor([1, -1, -1, 1])
nn.TripletMarginLoss(0.5, swap=True) | T(3, 4), T(3, 4), T(3, 4)
"""

LAZY = """
nn.LazyBatchNorm1d() | T(3, 4)
nn.LazyBatchNorm3d() | T(2, 3, 2, 2, 3)
nn.LazyConv1d(4, 3) | T(2, 3, 5)
nn.LazyConv3d(4, 2) | T(2, 3, 3, 2, 4)
nn.LazyConvTranspose2d(4, 2) | T(2, 3, 4, 3)
nn.LazyConvTranspose3d(2, 2) | T(1, 3, 2, 3, 2)
nn.LazyInstanceNorm2d(affine=True) | T(2, 3, 4, 2)
nn.LazyInstanceNorm3d() | T(2, 3, 2, 2, 3)
nn.LazyLinear(4) | T(3, 5)
nn.LazyConv2d(4, 3, padding=1) | T(2, 3, 4, 5)
nn.LazyConvTranspose1d(4, 3, bias=False) | T(2, 3, 4)
nn.LazyBatchNorm2d() | T(2, 3, 4, 5)
nn.LazyInstanceNorm1d(affine=True) | T(2, 3, 4)
"""

ROWS = [
    line
    for text in (CONVOLUTIONS, POOLING, NORMS, IMAGES, ACTIVATIONS, PLAIN, LOSSES, LAZY)
    for line in text.strip().splitlines()
]


def makers(torch, row):
    """Returns the names that a row's text may use; the numbers depend only on the row."""
    rng = np.random.default_rng(zlib.crc32(row.encode()))

    def of(array):
        return torch.from_numpy(np.ascontiguousarray(array))

    return rng, {
        "nn": torch.nn,
        "T": lambda *s: of(rng.uniform(-1, 1, s)),
        "P": lambda *s: of(rng.uniform(0.1, 2, s)),
        "I": lambda *s, lo=0, hi=5: of(rng.integers(lo, hi, s)),
        "B": lambda *s: of(rng.integers(0, 2, s).astype(bool)),
        "tensor": torch.tensor,
        "torch": torch,
        "inf": float("inf"),
    }


def set_state(torch, module, rng):
    """Fills parameters and buffers with random numbers, positive ones for variances."""
    for name, t in module.state_dict().items():
        if t.dtype.is_floating_point and "_random_samples" not in name:
            values = rng.uniform(0.5, 1.5, tuple(t.shape))
            if not name.endswith("running_var"):
                values = values - 1
            t.copy_(torch.from_numpy(np.asarray(values)))


def tensors_in(torch, value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [t for v in value for t in tensors_in(torch, v)]
    return []


def evaluate(torch, row, module=None):
    """Returns name -> array: results, gradients of inputs and parameters, and the final state."""
    rng, names = makers(torch, row)
    constructor, inputs = (part.strip() for part in row.split("|"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = eval(constructor, dict(names))
        module = made if module is None else module
        module.double()
        args = eval(f"[{inputs}]", dict(names))
        if "Lazy" in constructor:
            module(*args)  # creates the parameters of lazy modules
        set_state(torch, module, rng)
        for a in tensors_in(torch, args):
            a.requires_grad_(a.dtype.is_floating_point)
        clones = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
        results = tensors_in(torch, module(*clones))
    found = {f"result {i}": t.detach().numpy() for i, t in enumerate(results)}
    floating = [t for t in results if t.dtype.is_floating_point and t.requires_grad]
    if floating:
        seeds = [torch.from_numpy(rng.uniform(-1, 1, tuple(t.shape))) for t in floating]
        torch.autograd.backward(floating, seeds)
    for i, a in enumerate(tensors_in(torch, args)):
        if a.grad is not None:
            found[f"gradient of input {i}"] = a.grad.numpy()
    for name, p in module.named_parameters():
        if p.grad is not None:
            found[f"gradient of {name}"] = p.grad.numpy()
    for name, t in module.state_dict().items():
        found[f"state {name}"] = t.detach().numpy()
    found["repr"] = np.array(repr(module))
    return found


def record(torch, path):
    """Writes the values that ``torch`` computes for all rows."""
    arrays = {}
    for row in ROWS:
        for name, value in evaluate(torch, row).items():
            arrays[f"{row} # {name}"] = value
    np.savez_compressed(
        path, **{f"a{i}": v for i, v in enumerate(arrays.values())}, names=np.array(list(arrays))
    )


if __name__ == "__main__":
    import torch as reference

    record(reference, sys.argv[1])
