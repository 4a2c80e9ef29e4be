# SPDX-License-Identifier: BSD-3-Clause
"""Runs the suite's tests on another device: `pytest --device fake`, or `--device cuda:0`.

The device is the default one, and what reads values into NumPy copies them to the CPU first, as a
program for a GPU would. left_out.toml lists the tests that are about the CPU, with the reasons.
"""

import fnmatch
import os
import sys
import threading
from pathlib import Path

import numpy as np

import cograd as torch

HERE = Path(__file__).resolve().parent


def start(name):
    """Makes the device the default; called before the tests are imported."""
    if name == "fake":
        os.environ["COGRAD_FAKE_DEVICE"] = "1"
    elif name.startswith("cuda"):
        sys.path.insert(0, str(HERE / "cuda"))
        import fakes

        os.environ.update(fakes.environment())
        torch.cuda.set_fallback("silent")
    torch.set_default_device(name)
    read_through_the_cpu()
    make_on(torch.device(name))
    let_threads_inherit()


def read_through_the_cpu():
    numpy, array = torch.Tensor.numpy, torch.Tensor.__array__

    torch.Tensor.numpy = lambda self, *args, **kwargs: numpy(on_cpu(self), *args, **kwargs)
    torch.Tensor.__array__ = lambda self, *args, **kwargs: array(on_cpu(self), *args, **kwargs)


def on_cpu(tensor):
    return tensor if tensor.device.type in ("cpu", "meta") else tensor.cpu()


def make_on(device):
    """Makes what ignores the default device create on it."""
    from_numpy = torch.from_numpy
    torch.from_numpy = lambda array: from_numpy(array).to(device)
    if device.type != "fake":  # its generator is the CPU's
        generator = torch.Generator
        torch.Generator = lambda at=device: generator(at)


def let_threads_inherit():
    """Makes threads start with the default device of the one that starts them: it is per thread."""
    begin = threading.Thread.start

    def start_on(self):
        device, run = torch.get_default_device(), self.run

        def run_on():
            torch.set_default_device(device)
            run()

        self.run = run_on
        begin(self)

    threading.Thread.start = start_on


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


def deselect(config, items, name):
    patterns = left_out(name)
    left = [i for i in items if any(matches(i.nodeid, p) for p in patterns)]
    config.hook.pytest_deselected(items=left)
    gone = set(left)
    items[:] = [i for i in items if i not in gone]


def matches(test, pattern):
    """True if the pattern names the test, its function, class, file or directory."""
    return test.startswith((pattern + "::", pattern + "[", pattern + "/")) or (
        fnmatch.fnmatchcase(test, pattern.replace("[", "[[]"))
    )
