# SPDX-License-Identifier: BSD-3-Clause
"""The torch that results are compared with, where it is installed."""

import importlib.metadata
import importlib.util

import pytest

RELEASE = "2.13"


def installed():
    """The version of an installed torch, or None."""
    if importlib.util.find_spec("torch") is None:
        return None
    return importlib.metadata.version("torch")


def is_installed():
    """Whether it is the release whose semantics are cograd's; others have other results."""
    return (installed() or "").startswith(RELEASE + ".")


def needed(allow_module_level=False):
    """That torch; skips the test, or the module, without it."""
    if not is_installed():
        reason = f"compares with torch {RELEASE}, installed is {installed()}"
        pytest.skip(reason, allow_module_level=allow_module_level)
    import torch

    return torch
