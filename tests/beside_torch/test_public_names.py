# SPDX-License-Identifier: BSD-3-Clause
"""The names of public modules: __all__ is present everywhere, and no names leak in."""

import importlib
import pkgutil
from types import FunctionType, ModuleType

import pytest
from op_items import each_cell

import cograd


def public_modules():
    found = [m.name for m in pkgutil.walk_packages(cograd.__path__, "cograd.")]
    # Importing pytest_as_torch makes this process use cograd as torch.
    return ["cograd", *(n for n in found if "._" not in n and n != "cograd.pytest_as_torch")]


def names_outside(module):
    """Returns public names that are neither in __all__ nor modules of the package."""
    return [
        name
        for name, value in vars(module).items()
        if name[0] != "_"
        and name.isidentifier()  # pytest adds others to modules that it rewrites
        and name not in module.__all__
        and not (isinstance(value, ModuleType) and value.__name__ == f"{module.__name__}.{name}")
    ]


def only_gathers(module):
    """Returns whether a module defines nothing itself: all its names come from others."""
    own = (
        isinstance(v, (FunctionType, type)) and v.__module__ == module.__name__
        for n, v in vars(module).items()
        if n[0] != "_"
    )
    return hasattr(module, "__path__") and not any(own)


@each_cell("name", public_modules())
def test_all_is_there_and_true(name):
    module = importlib.import_module(name)
    assert "__all__" in vars(module)
    assert len(set(module.__all__)) == len(module.__all__)
    assert [n for n in module.__all__ if not hasattr(module, n)] == []


def test_the_package_has_no_stray_names():
    assert names_outside(cograd) == []


@each_cell("name", public_modules())
def test_a_module_that_gathers_has_no_stray_names(name):
    module = importlib.import_module(name)
    if not only_gathers(module):
        assert "__all__" in vars(module)
        return
    allowed = {"cograd.multiprocessing": ["multiprocessing"]}
    assert names_outside(module) == allowed.get(name, [])


@pytest.mark.parametrize("name", ["", ".nn", ".nn.functional", ".optim", ".utils", ".utils.data"])
@pytest.mark.parametrize("stray", ["Any", "TYPE_CHECKING", "annotations", "import_module", "math"])
def test_typing_helpers_are_not_offered(name, stray):
    assert not hasattr(importlib.import_module("cograd" + name), stray)


def test_everything_but_modules_is_imported_by_a_star():
    names = {}
    exec("from cograd import *", names)
    assert names["sin"] is cograd.sin
    assert names["stft"] is cograd.stft
    assert names["float32"] is cograd.float32
    assert "nn" not in names
    assert not [n for n in names if n[0] == "_" and n != "__builtins__"]
