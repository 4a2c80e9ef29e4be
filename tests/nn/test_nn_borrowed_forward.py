# SPDX-License-Identifier: BSD-3-Clause
"""forward called with another object than a module: it reads what torch's reads, not internals."""

import warnings
from types import SimpleNamespace

import nn_rows
import pytest

import cograd as torch
from cograd import nn

# In torch, forward of these calls other methods of its module or reads private attributes.
CALL_METHODS = (
    "nn.BatchNorm",
    "nn.CircularPad",
    "nn.Conv",
    "nn.InstanceNorm",
    "nn.Lazy",
    "nn.Sequential",
)
ROWS = [row for row in nn_rows.ROWS if not row.startswith(CALL_METHODS)]


def public(module):
    """Returns an object with the public attributes of a module and its members."""
    members = {name: v for name, v in vars(module).items() if not name.startswith("_")}
    members |= module._parameters | module._buffers | module._modules
    return SimpleNamespace(**members)


def arguments(row):
    constructor, inputs = (part.strip() for part in row.split("|"))
    _, names = nn_rows.makers(torch, row)
    return eval(constructor, dict(names)).double(), eval(f"[{inputs}]", dict(names))


@pytest.mark.parametrize("row", ROWS)
def test_forward_reads_public_attributes(row):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module, inputs = arguments(row)
        torch.manual_seed(0)
        expected = nn_rows.tensors_in(torch, module(*inputs))
        torch.manual_seed(0)
        found = nn_rows.tensors_in(torch, type(module).forward(public(module), *inputs))
    assert len(found) == len(expected) > 0
    assert all(torch.equal(a, b) for a, b in zip(found, expected))


@pytest.mark.parametrize("cell", [nn.RNNCell, nn.LSTMCell, nn.GRUCell])
def test_cells_read_public_attributes(cell):
    module, x = cell(3, 4), torch.randn(2, 3)
    found = nn_rows.tensors_in(torch, cell.forward(public(module), x))
    expected = nn_rows.tensors_in(torch, module(x))
    assert all(torch.equal(a, b) for a, b in zip(found, expected))


def test_linear_and_relu_as_functions_of_a_namespace():
    weight, bias, x = torch.randn(4, 3), torch.randn(4), torch.randn(2, 3)
    found = nn.Linear.forward(SimpleNamespace(weight=weight, bias=bias), x)
    assert torch.equal(found, x @ weight.T + bias)
    assert torch.equal(nn.ReLU.forward(SimpleNamespace(inplace=False), x), x.relu())
    with pytest.raises(AttributeError, match="weight"):
        nn.Linear.forward(SimpleNamespace(), x)


def test_families_keep_their_names_and_can_be_extended():
    assert nn.ReLU.forward.__qualname__ == "ReLU.forward"
    assert nn.ReLU.forward.__module__ == "cograd.nn.modules.activation"
    assert nn.MaxPool2d.forward.__doc__ == nn.MaxPool3d.forward.__doc__ is not None

    class Twice(nn.ReLU):
        def forward(self, input):
            return 2 * super().forward(input)

    x = torch.randn(3)
    assert torch.equal(Twice()(x), 2 * x.relu())

    class Renamed(nn.ReLU):
        pass

    assert torch.equal(Renamed(inplace=True)(x.clone()), x.relu())


def test_output_padding_has_the_arguments_of_torch():
    class Equalized(nn.ConvTranspose2d):
        """Computes its forward as programs for torch do, with another weight."""

        def forward(self, input, output_size=None):
            geometry = (self.stride, self.padding, self.kernel_size, 2, self.dilation)
            extra = self._output_padding(input, output_size, *geometry)
            arguments = (self.bias, self.stride, self.padding, extra, self.groups, self.dilation)
            return nn.functional.conv_transpose2d(input, self.weight * 2, *arguments)

    torch.manual_seed(0)
    layer, x = Equalized(2, 3, 3, stride=2, bias=False), torch.randn(1, 2, 4, 5)
    plain = nn.ConvTranspose2d.forward(layer, x, [10, 12])
    assert torch.allclose(layer(x, output_size=[10, 12]), 2 * plain)
    assert layer(x).shape == (1, 3, 9, 11)
