# SPDX-License-Identifier: BSD-3-Clause
"""Old pickles name modules that have moved since; the table is cograd/_base/moved.py."""

import importlib
import pickle
import pickletools
import sys
from pathlib import Path

import pytest

import cograd as torch
from cograd import nn
from cograd._base import finders, moved

# Commit 0e83af8 wrote this before modules moved: a ModuleList of every layer that has moved since,
# and functions and values of modules that have.
RECORDED = Path(__file__).parents[1] / "recorded" / "old_names.pkl"


@pytest.fixture
def recorded():
    return pickle.loads(RECORDED.read_bytes())


def test_layers(recorded):
    layers = recorded["layers"]
    assert len(layers) == 54
    for layer in layers:
        assert type(layer) is getattr(nn, type(layer).__name__)
    assert layers[0].p == 0.25 and layers[4].unflattened_size == (2, 3)
    assert layers[7].normalized_shape == (2,) and layers[7].weight.tolist() == [0.5, 0.5]
    lazy = next(layer for layer in layers if type(layer) is nn.LazyLinear)
    with torch.no_grad():
        assert lazy(torch.ones(1, 5)).shape == (1, 2) and type(lazy) is nn.Linear


def test_functions_and_values(recorded):
    names = """vander unravel_index embedding stft hann_window vmap lstm_cell max_pool2d
        native_dropout finfo lu use_deterministic_algorithms compile _foreach_add _check SymInt"""
    assert recorded["functions"] == [getattr(torch, name) for name in names.split()]
    assert recorded["max"].values.tolist() == [2.0] and recorded["max"].indices.tolist() == [1]
    assert recorded["format"] is torch.channels_last and recorded["layout"] is torch.strided


def test_the_pickle_has_old_names():
    """So it keeps testing the table, and all of the table that a layer can be in."""
    texts = [arg for _, arg, _ in pickletools.genops(RECORDED.read_bytes()) if type(arg) is str]
    for name in moved.MOVED:
        if name.startswith("cograd.nn"):
            assert name in texts
    assert texts.count("cograd._numeric") == 1


@pytest.mark.parametrize("old", moved.MOVED)
def test_a_new_module_has_the_names(old):
    new = importlib.import_module(moved.MOVED[old])
    module = importlib.import_module(old)
    assert sys.modules[old] is module
    for name in getattr(new, "__all__", ())[:3]:
        assert getattr(module, name) is getattr(new, name)
    with pytest.raises(AttributeError):
        module.nothing_of_this_name


@pytest.mark.parametrize("place", moved.LEFT)
def test_classes_that_left_a_module(place):
    module = importlib.import_module(place)
    for name in moved.LEFT[place].split():
        assert pickle.loads(f"c{place}\n{name}\n.".encode()) is getattr(nn, name)
        assert getattr(nn, name).__module__ != module.__name__


def old_names():
    return [f for f in sys.meta_path if type(f).__name__ == "_OldNames"]


def test_the_finder_is_asked_last():
    watches = old_names()
    assert len(watches) == 1
    finders.watch_old_names()
    assert old_names() == watches
    with pytest.raises(ModuleNotFoundError, match="cograd._no_such_module"):
        importlib.import_module("cograd._no_such_module")
