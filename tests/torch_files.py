# SPDX-License-Identifier: BSD-3-Clause
"""What the files of recorded/torch_files hold, made by torch there and by cograd in tests."""

from collections import OrderedDict

NAMES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
         "float64", "complex64", "complex128")  # fmt: skip


def trained(torch):
    """A module and its optimizer after a step."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(5, 3)).sum().backward()
    optimizer.step()
    return model, optimizer


def everything(torch, model=None, optimizer=None):
    """All that a file may hold, by name."""
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
