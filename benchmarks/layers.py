# SPDX-License-Identifier: BSD-3-Clause
"""Measures convolutions, normalisation, pooling and whole networks."""

# mypy: ignore-errors
from __future__ import annotations

from .case import bench, group

group("conv", "Convolutions (float32)", geomean=1.0, each=0.9)
group("layers", "Layers, forward and backward (float32)", geomean=1.3)
group("networks", "Training steps (float32)", each=1.0)

# name: input, weight, padding, stride, groups
CONVOLUTIONS = {
    "3x3 64->64 56x56": ((8, 64, 56, 56), (64, 64, 3, 3), 1, 1, 1),
    "3x3 128->128 28x28": ((8, 128, 28, 28), (128, 128, 3, 3), 1, 1, 1),
    "1x1 256->64 56x56": ((8, 256, 56, 56), (64, 256, 1, 1), 0, 1, 1),
    "7x7/2 3->64 224": ((8, 3, 224, 224), (64, 3, 7, 7), 3, 2, 1),
    "depthwise 3x3 128 56x56": ((8, 128, 56, 56), (128, 1, 3, 3), 1, 1, 128),
    "1d k=3 256 L=512": ((8, 256, 512), (256, 256, 3), 1, 1, 1),
}


@bench("conv", name="conv", rounds=5, case=CONVOLUTIONS, backward=(False, True))
def conv(torch, case, backward):
    torch.manual_seed(0)
    size, kernel, padding, stride, groups = CONVOLUTIONS[case]
    x = torch.randn(size, requires_grad=backward)
    w = torch.randn(kernel, requires_grad=backward)
    f = torch.conv1d if len(size) == 3 else torch.conv2d
    y = f(x, w, None, stride, padding, 1, groups)
    g = torch.randn(y.shape)
    call = "f(x, w, None, stride, padding, 1, groups)"
    return f"torch.autograd.grad({call}, (x, w), g)" if backward else call, vars()


def step(torch, size, text, **names):
    """Returns a statement that runs ``text``, an expression in x, and its backward."""
    torch.manual_seed(0)
    x = torch.randn(size, requires_grad=True)
    nn, F = torch.nn, torch.nn.functional
    names = {**names, "x": x, "F": F, "nn": nn, "torch": torch}
    g = torch.randn(eval(text, names).shape)
    return f"torch.autograd.grad({text}, x, g)", {**names, "g": g}


@bench("layers", name="batch_norm 8x64x56x56", rounds=5)
def batch_norm(torch):
    return step(torch, (8, 64, 56, 56), "m(x)", m=torch.nn.BatchNorm2d(64))


@bench("layers", name="group_norm 8x64x56x56", rounds=5)
def group_norm(torch):
    return step(torch, (8, 64, 56, 56), "m(x)", m=torch.nn.GroupNorm(8, 64))


@bench("layers", name="max_pool2d 3/2 8x64x112x112", rounds=5)
def max_pool2d(torch):
    return step(torch, (8, 64, 112, 112), "F.max_pool2d(x, 3, 2, 1)")


@bench("layers", name="max_pool2d 2/2 8x64x56x56", rounds=5)
def max_pool2d_even(torch):
    return step(torch, (8, 64, 56, 56), "F.max_pool2d(x, 2)")


@bench("layers", name="avg_pool2d 2/2 8x64x56x56", rounds=5)
def avg_pool2d(torch):
    return step(torch, (8, 64, 56, 56), "F.avg_pool2d(x, 2)")


@bench("layers", rounds=5, backward=(False, True), target=0.9)
def adaptive_avg_pool2d_to_1(torch, backward):
    if backward:
        return step(torch, (8, 512, 14, 14), "F.adaptive_avg_pool2d(x, 1)")
    f, x = torch.nn.functional.adaptive_avg_pool2d, torch.randn(8, 512, 14, 14)
    return "f(x, 1)", vars()


@bench("layers", name="interpolate", rounds=5, mode=("nearest", "bilinear", "bicubic"))
def interpolate(torch, mode):
    return step(torch, (8, 32, 28, 28), f"F.interpolate(x, scale_factor=2, mode={mode!r})")


def training(torch, model, x, y):
    """Returns a statement that runs one training step of a classifier."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    F = torch.nn.functional

    def train():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    return "train()", vars()


@bench("networks", name="LeNet, batch 64, 28x28", rounds=5)
def lenet(torch):
    torch.manual_seed(0)
    nn = torch.nn
    model = nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten()),
        *(nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10)),
    )
    return training(torch, model, torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,)))


def resnet18(nn):
    """Returns a ResNet-18 with a thousand classes."""

    class Block(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outputs)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outputs)
            self.relu = nn.ReLU(inplace=True)
            self.short = nn.Identity()
            if stride != 1 or inputs != outputs:
                self.short = nn.Sequential(
                    nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
                )

        def forward(self, x):
            y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
            return self.relu(y + self.short(x))

    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    layers.append(nn.MaxPool2d(3, 2, 1))
    width = 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(width, outputs, stride), Block(outputs, outputs, 1)]
        width = outputs
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)]
    return nn.Sequential(*layers)


@bench("networks", name="ResNet-18, batch 8, 64x64", rounds=5)
def resnet(torch):
    torch.manual_seed(0)
    x, y = torch.randn(8, 3, 64, 64), torch.randint(0, 1000, (8,))
    return training(torch, resnet18(torch.nn), x, y)


def unet(nn, torch):
    """Returns a small U-Net: three sizes of images, 16 to 64 channels, two classes."""

    def convolutions(inputs, outputs):
        layers = []
        for channels in (inputs, outputs):
            layers.append(nn.Conv2d(channels, outputs, 3, padding=1, bias=False))
            layers += [nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
        return nn.Sequential(*layers)

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            widths = (16, 32, 64)
            self.down = nn.ModuleList(map(convolutions, (3, 16, 32), widths))
            self.pool = nn.MaxPool2d(2)
            self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in (32, 16))
            self.join = nn.ModuleList(convolutions(2 * w, w) for w in (32, 16))
            self.last = nn.Conv2d(16, 2, 1)

        def forward(self, x):
            kept = []
            for i, down in enumerate(self.down):
                x = down(x if i == 0 else self.pool(x))
                kept.append(x)
            for up, join, before in zip(self.up, self.join, kept[1::-1], strict=True):
                x = join(torch.cat([before, up(x)], 1))
            return self.last(x)

    return UNet()


@bench("networks", name="U-Net of 16 to 64 channels, batch 4, 96x96", rounds=5)
def unet_small(torch):
    torch.manual_seed(0)
    x, y = torch.randn(4, 3, 96, 96), torch.randint(0, 2, (4, 96, 96))
    return training(torch, unet(torch.nn, torch), x, y)
