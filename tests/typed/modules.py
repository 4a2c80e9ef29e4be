# SPDX-License-Identifier: BSD-3-Clause
"""Shows type checkers modules, optimizers, data and extensions; see tensors.py."""

from __future__ import annotations

from typing import Any

from typing_extensions import assert_type

import cograd as torch
import cograd.nn.functional as F
from cograd import Tensor, nn
from cograd.utils.cpp_extension import BuildExtension, CppExtension
from cograd.utils.data import DataLoader, Dataset, TensorDataset


class Net(nn.Module):
    """A model."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 8)
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.scale = nn.Parameter(torch.ones(8))

    def forward(self, x: Tensor) -> Tensor:
        """The output."""
        h = F.relu(self.first(x))
        for layer in self.layers:
            h = h + layer(h)
        return h * self.scale


model = Net()
x = torch.randn(4, 2)
assert_type(model(x), Any)
assert_type(model.forward(x), Tensor)
assert_type(model.first.weight, nn.Parameter)
assert_type(model.to("cpu").eval().double(), Net)
assert_type(model.layers[0], nn.Module)
assert_type(model.layers[1:], nn.ModuleList)
assert_type(nn.Sequential(nn.Tanh())[0], nn.Module)
assert_type(list(model.parameters()), list[nn.Parameter])
assert_type(dict(model.named_parameters()), dict[str, nn.Parameter])
assert_type(nn.CrossEntropyLoss().forward(x, x), Tensor)
assert_type(F.cross_entropy(x, x), Tensor)
assert_type(nn.utils.clip_grad_norm_(model.parameters(), 1.0), Tensor)
model.register_forward_hook(lambda m, args, out: None).remove()

optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
assert_type(optimizer.step(), None)
assert_type(optimizer.step(lambda: 1.0), float)
assert_type(optimizer.zero_grad(), None)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
assert_type(schedule.step(), None)
torch.save(model.state_dict(), "net.pt")


class Squares(Dataset[int]):
    """Numbers."""

    def __getitem__(self, index: int) -> int:
        return index**2

    def __len__(self) -> int:
        return 3


for batch in DataLoader(Squares(), batch_size=2):
    batch
assert_type(TensorDataset(x)[0], tuple[Tensor, ...])
assert_type(torch.utils.data.get_worker_info() is None, bool)
assert_type(torch.distributions.Normal(0.0, 1.0).sample(), Tensor)
CppExtension("ext", ["ext.cpp"])
BuildExtension.with_options()
