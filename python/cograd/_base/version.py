# SPDX-License-Identifier: BSD-3-Clause
"""The version of the installed package, written by CMake: importlib.metadata costs 10 ms."""

try:
    from cograd._base.build_info import version as __version__
except ImportError:  # running from a source tree that was never built
    __version__ = "0+unknown"
