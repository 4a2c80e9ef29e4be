# SPDX-License-Identifier: BSD-3-Clause
"""Finds the installed torch that results are compared with."""

import importlib.metadata
import importlib.util

import pytest

RELEASE = "2.13"


def installed():
    """Returns the version of the installed torch, or None."""
    if importlib.util.find_spec("torch") is None:
        return None
    return importlib.metadata.version("torch")


def is_installed():
    """Returns whether it is the release whose semantics cograd follows; others differ."""
    return (installed() or "").startswith(RELEASE + ".")


def needed(allow_module_level=False):
    """Returns that torch; skips the test, or the module, without it."""
    if not is_installed():
        reason = f"compares with torch {RELEASE}, installed is {installed()}"
        pytest.skip(reason, allow_module_level=allow_module_level)
    import torch

    return torch
