# SPDX-License-Identifier: BSD-3-Clause
"""Networks that write in place train with full backward hooks as they do without."""

import functools

import pytest

import cograd as torch
from cograd import nn


def with_hooks(module, kind):
    for m in module.modules():
        if kind in ("full", "both"):
            m.register_full_backward_hook(lambda m, grad_input, grad_output: None)
        if kind in ("pre", "both"):
            m.register_full_backward_pre_hook(lambda m, grad_output: None)
    return module


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x
        return self.relu(out)


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.beyond_torch
@pytest.mark.parametrize("kind", ["full", "pre", "both"])
def test_residual_network_trains_as_without_hooks(kind):
    def train(hook):
        torch.manual_seed(0)
        net = nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            Block(4),
            Block(4),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Dropout(0.5),
            nn.Linear(4, 2),
        )
        hook(net)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(
                net(torch.randn(4, 3, 8, 8)), torch.tensor([0, 1, 0, 1])
            )
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, [p.detach().clone() for p in net.parameters()]

    losses, parameters = train(lambda net: net)
    hooked_losses, hooked = train(functools.partial(with_hooks, kind=kind))
    assert hooked_losses == losses
    assert all(torch.equal(a, b) for a, b in zip(hooked, parameters, strict=True))
