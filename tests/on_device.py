# SPDX-License-Identifier: BSD-3-Clause
"""Runs the suite's tests on another device: `pytest --device fake`, or `--device cuda:0`.

Factories that a test calls and modules create on the device, and what reads values into NumPy
copies them to the CPU first, as a program for a GPU would. cograd's own calls of factories are left
alone, so a tensor that it forgets to create on the device meets the others and raises.
left_out.toml lists the tests that are about the CPU, with the reasons.
"""

import fnmatch
import functools
import os
import sys
import zlib
from pathlib import Path

import cograd as torch

HERE = Path(__file__).resolve().parent


FACTORIES = (
    "tensor as_tensor asarray zeros ones empty full eye arange range linspace logspace rand randn "
    "randint randperm empty_strided scalar_tensor tril_indices triu_indices from_numpy "
    "sparse_coo_tensor sparse_csr_tensor sparse_csc_tensor sparse_compressed_tensor hann_window "
    "hamming_window blackman_window bartlett_window kaiser_window"
).split()


def start(name):
    """Makes what tests create be on the device; called before they are imported."""
    if name == "fake":
        os.environ["COGRAD_FAKE_DEVICE"] = "1"
    elif name.startswith("cuda"):
        sys.path.insert(0, str(HERE / "cuda"))
        import fakes

        os.environ.update(fakes.environment())
    torch._C._set_fallback("silent")
    device = torch.device(name)
    for factory in FACTORIES:
        setattr(torch, factory, on_device(getattr(torch, factory), device))
    for module in all_modules():
        if "__init__" in vars(module):
            module.__init__ = initialised_on(module.__init__, device)
    torch.nn.Parameter.__new__ = parameter_on(torch.nn.Parameter.__new__, device)
    read_through_the_cpu()
    if device.type != "fake":  # its generator is the CPU's
        torch.Generator = generator_on(torch.Generator, device)


def generator_on(kind, device):
    def create(at=None):
        return kind(device if at is None and called_by_a_test() else at)

    return create


def called_by_a_test():
    """True if the caller's caller is not a part of cograd, whose own tensors are left alone."""
    module = sys._getframe(2).f_globals.get("__name__", "")
    return module.partition(".")[0] != "cograd"


def on_device(factory, device):
    """Returns the factory with the device as the default where a test calls it."""
    takes_it = factory.__name__ != "from_numpy"

    @functools.wraps(factory)
    def create(*args, **kwargs):
        if not called_by_a_test():
            return factory(*args, **kwargs)
        if not takes_it:
            return factory(*args, **kwargs).to(device)
        if kwargs.get("device") is None and not isinstance(kwargs.get("out"), torch.Tensor):
            kwargs["device"] = torch.get_default_device()
            if kwargs["device"].type == "cpu":
                kwargs["device"] = device
        return factory(*args, **kwargs)

    return create


def all_modules():
    found, left = {torch.nn.Module}, [torch.nn.Module]
    while left:
        new = [c for c in left.pop().__subclasses__() if c not in found]
        found.update(new)
        left += new
    return found - {torch.nn.Module}


def initialised_on(init, device):
    """Returns a module's __init__ with the device as the default."""

    @functools.wraps(init)
    def initialise(self, *args, **kwargs):
        if torch.get_default_device().type != "cpu":
            return init(self, *args, **kwargs)
        with device:
            return init(self, *args, **kwargs)

    return initialise


def parameter_on(new, device):
    def make(cls, data=None, *args, **kwargs):
        if data is None and called_by_a_test():
            data = torch._C._ops.empty((0,), device=device)
        return new(cls, data, *args, **kwargs)

    return make


def read_through_the_cpu():
    numpy, array = torch.Tensor.numpy, torch.Tensor.__array__
    torch.Tensor.numpy = lambda self, *args, **kwargs: numpy(on_cpu(self), *args, **kwargs)
    torch.Tensor.__array__ = lambda self, *args, **kwargs: array(on_cpu(self), *args, **kwargs)


def on_cpu(tensor):
    return tensor if tensor.device.type in ("cpu", "meta") else tensor.cpu()


def left_out(name):
    """Returns the reason for each pattern of tests that cannot run on the device."""
    try:
        import tomllib
    except ImportError:  # Python 3.10
        import tomli as tomllib
    table = tomllib.loads((HERE / "left_out.toml").read_text())
    kind = name.partition(":")[0]
    return {
        test: group["reason"]
        for group in table["group"]
        if kind in group.get("devices", [kind])
        for test in group["tests"]
    }


def deselect(config, items):
    """Deselects what is left out, and all but every N-th test, which the test's name chooses."""
    patterns, every = left_out(config.getoption("--device")), config.getoption("--every")
    left = [
        i
        for i in items
        if zlib.crc32(i.nodeid.encode()) % every or any(matches(i.nodeid, p) for p in patterns)
    ]
    config.hook.pytest_deselected(items=left)
    gone = set(left)
    items[:] = [i for i in items if i not in gone]


def matches(test, pattern):
    """True if the pattern names the test, its function, class, file or directory."""
    return test.startswith((pattern + "::", pattern + "[", pattern + "/")) or (
        fnmatch.fnmatchcase(test, pattern.replace("[", "[[]"))
    )
