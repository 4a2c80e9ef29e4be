# SPDX-License-Identifier: BSD-3-Clause
"""The contents of the files in recorded/torch_files, created with torch there, with cograd here."""

from collections import OrderedDict

NAMES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
         "float64", "complex64", "complex128")  # fmt: skip


def trained(torch):
    """Returns a module and its optimizer after one step."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(5, 3)).sum().backward()
    optimizer.step()
    return model, optimizer


def everything(torch, model=None, optimizer=None):
    """Returns everything that a file may contain, by name."""
    if model is None:
        model, optimizer = trained(torch)
    base = torch.arange(12.0)
    return {
        "dtypes": {n: torch.arange(6).reshape(2, 3).to(getattr(torch, n)) for n in NAMES},
        "base": base,
        "view": base.view(3, 4).t()[1:],
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "leaf": torch.ones(2, requires_grad=True),
        "size": torch.Size([1, 2]),
        "dtype": torch.float16,
        "device": torch.device("cpu"),
        "ordered": OrderedDict([("b", 1), ("a", 2)]),
        "others": [1, -2.5, "text", None, True, b"\x00ab", 2**70, (1, (2,)), {3, 4}, 1 + 2j],
        "empty": torch.empty(0, 3),
        "scalar": torch.tensor(3.5),
        "state": model.state_dict(),
        "optimizer": optimizer.state_dict(),
    }


def with_attributes(torch):
    """Returns tensors with attributes, of each kind that is written differently."""
    found = {
        "tensor": torch.arange(3.0, requires_grad=True),
        "uint16": torch.arange(3).to(torch.uint16),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "buffer": torch.nn.Buffer(torch.ones(2)),
    }
    for name, t in found.items():
        t.no_decay, t.tags, t.other = name, [1, {"a": None}], torch.full((2,), 5.0)
    return found


def values(torch):
    """Returns data that is no tensor, number or container."""
    base = torch.arange(3.0)
    return {
        "base": base,
        "storage": base.storage(),
        "again": base.storage(),
        "layout": torch.strided,
        "keys": {torch.Size([1]): 2, (torch.Size([]),): 3, torch.device("cpu"): 4},
        "classes": [
            torch.nn.Parameter,
            torch.Tensor,
            torch.Size,
            torch.storage.UntypedStorage,
            torch.storage.TypedStorage,
            OrderedDict,
            set,
        ],
    }


# Layers that torch has in other modules than cograd, or whose pickles hold hooks: layer | shapes.
LAYERS = """
nn.AlphaDropout() | 2,3
nn.Dropout() | 2,3
nn.Dropout1d() | 2,3
nn.Dropout2d() | 2,3,2,2
nn.Dropout3d() | 2,3,2,2,2
nn.FeatureAlphaDropout() | 2,3
nn.ChannelShuffle(2) | 1,4,2,2
nn.CosineSimilarity() | 2,3 | 2,3
nn.PairwiseDistance() | 2,3 | 2,3
nn.CrossMapLRN2d(2) | 1,3,2,2
nn.GroupNorm(2, 4) | 2,4
nn.LayerNorm(3) | 2,3
nn.LocalResponseNorm(2) | 1,3,4
nn.RMSNorm(3) | 2,3
nn.InstanceNorm2d(2, affine=True) | 2,2,3,3
nn.Flatten() | 2,3,2
nn.Unflatten(1, (1, 3)) | 2,3
nn.Fold((3, 3), 2) | 1,4,4
nn.Unfold(2) | 1,1,3,3
nn.PixelShuffle(2) | 1,4,2,2
nn.PixelUnshuffle(2) | 1,1,4,4
nn.Upsample(scale_factor=2) | 1,1,2,2
nn.UpsamplingBilinear2d(scale_factor=2) | 1,1,2,2
nn.UpsamplingNearest2d(4) | 1,1,2,2
nn.RReLU() | 2,3
nn.Softmax2d() | 1,3,2,2
nn.MultiLabelMarginLoss() | 3 | long 3
nn.MultiMarginLoss() | 2,3 | long 2
nn.TripletMarginWithDistanceLoss() | 2,3 | 2,3 | 2,3
nn.Embedding(4, 2, padding_idx=0) | long 3
nn.EmbeddingBag(4, 2) | long 2,3
nn.MultiheadAttention(4, 2) | 3,2,4 | 3,2,4 | 3,2,4
nn.TransformerEncoderLayer(4, 2, 8) | 3,1,4
nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 8, activation='gelu'), 1) | 3,1,4 | 2,1,4
nn.LSTM(2, 3, num_layers=2, bidirectional=True) | 4,1,2
nn.GRUCell(2, 3) | 4,2
nn.Conv1d(1, 2, 2, padding='same', padding_mode='circular') | 1,1,5
nn.ConvTranspose2d(1, 2, 2, stride=2) | 1,1,3,3
nn.AdaptiveAvgPool2d((2, None)) | 1,1,4,4
nn.ReflectionPad1d(1) | 1,1,3
nn.utils.weight_norm(nn.Linear(3, 2)) | 2,3
nn.utils.spectral_norm(nn.Linear(3, 2)) | 2,3
"""


def layers(torch):
    """Yields a module and its inputs for each row."""
    for row in LAYERS.strip().splitlines():
        text, *shapes = (part.strip() for part in row.split("|"))
        inputs = []
        for shape in shapes:
            sizes = [int(n) for n in shape.split()[-1].split(",")]
            numbers = torch.randint(0, 3, sizes) if "long" in shape else torch.randn(sizes)
            inputs.append(numbers)
        yield eval(text, {"nn": torch.nn}).eval(), inputs


def whole_objects(torch):
    """Returns objects that are no layers but are pickled with programs' models."""
    generator = torch.Generator().manual_seed(5)
    torch.rand(3, generator=generator)
    return {
        "generator": generator,
        "next": torch.rand(2, generator=generator.clone_state()),
        "max": torch.arange(4.0).reshape(2, 2).max(0),
        "lazy": torch.nn.LazyLinear(3),
        "list": torch.nn.ParameterList([torch.ones(1)]),
        "dict": torch.nn.ParameterDict({"a": torch.nn.Parameter(torch.ones(1))}),
        "normal": torch.distributions.Normal(0.0, 1.0),
    }
