# SPDX-License-Identifier: BSD-3-Clause
"""The version of the installed package."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("cograd")
except PackageNotFoundError:  # running from a source tree that was never installed
    __version__ = "0+unknown"
