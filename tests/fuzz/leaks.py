# SPDX-License-Identifier: BSD-3-Clause
"""Lets the address sanitizer search for leaks before Python exits; also `pytest -p fuzz.leaks`.

Python does not free all of its objects at exit, so a search at exit would report them. This search
finds only memory that C++ lost: Python's containers are in the lists of its collector.
"""

import ctypes
import gc

_library = ctypes.CDLL(None)
_check = getattr(_library, "__lsan_do_recoverable_leak_check", None)


def found():
    """Returns whether there are leaks, after writing them to stderr; False without a sanitizer."""
    if _check is None:
        return False
    gc.collect()
    return _check() != 0


def pytest_sessionfinish(session):
    if found():
        session.exitstatus = 1
