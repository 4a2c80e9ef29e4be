# SPDX-License-Identifier: BSD-3-Clause
"""Leaks that the address sanitizer sees while the interpreter lives: `pytest -p fuzz.leaks`, too.

Python frees few of its objects at exit, so what it ends with is no measure. Python's containers
are in the collector's lists and so never leaks to it: it finds what C++ lost, not what Python keeps.
"""

import ctypes
import gc

_library = ctypes.CDLL(None)
_check = getattr(_library, "__lsan_do_recoverable_leak_check", None)


def found():
    """Whether there are leaks, which were then written to stderr; False without a sanitizer."""
    if _check is None:
        return False
    gc.collect()
    return _check() != 0


def pytest_sessionfinish(session):
    if found():
        session.exitstatus = 1
