# SPDX-License-Identifier: BSD-3-Clause
"""Makes the shared libraries that `cograd._C` needs loadable wherever pip installed them.

`libcograd.so` searches OpenBLAS at `../../scipy_openblas32/lib`, which is right when both packages
share one site-packages. They do not if one is in the user site, in a `--target` directory or in
an editable install of another environment: then this module loads the library by its path, and
the dynamic linker reuses the loaded copy because its name matches.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys

_SONAME = "libscipy_openblas.so"
_VARIABLE = "OPENBLAS_NUM_THREADS"  # read when the library is loaded
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def openblas_path() -> str | None:
    """Returns the path of OpenBLAS' shared library in the package scipy-openblas32.

    The package is located without being imported.

    Returns:
        The path, or None when the package or the file is missing.
    """
    spec = importlib.util.find_spec("scipy_openblas32")
    if spec is None or spec.origin is None:
        return None
    path = os.path.join(os.path.dirname(spec.origin), "lib", _SONAME)
    return path if os.path.exists(path) else None


def preload_openblas() -> None:
    """Loads OpenBLAS into the process, and tells it to start no threads: cograd never uses them.

    Called by `cograd/__init__.py` before `_C` is imported. Other copies of OpenBLAS, such as
    NumPy's, are not affected.

    Raises:
        ImportError: scipy-openblas32 is not installed, or its library cannot be loaded.
    """
    site = os.path.dirname(_PACKAGE)
    path: str | None = os.path.join(site, "scipy_openblas32", "lib", _SONAME)
    if path is None or not os.path.exists(path):
        path = openblas_path()
    if path is None:
        raise ImportError(
            f"cograd needs {_SONAME} from the package scipy-openblas32, which was not found; "
            "install it with: pip install scipy-openblas32"
        )
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = "1"
    try:
        ctypes.CDLL(path)
    except OSError as e:
        raise ImportError(f"cograd: cannot load {path}: {e}") from e
    finally:
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before


def explain_failure(error: ImportError) -> ImportError:
    """Returns the error to raise when the binaries do not load, with the command that diagnoses it.

    ``python -m cograd doctor`` imports this package first, so it is run from here.
    """
    path = os.path.join(_PACKAGE, "commands", "doctor.py")
    if sys.argv[:2] == ["-m", "doctor"] and "cograd" in getattr(sys, "orig_argv", ()):
        import runpy

        sys.argv = [path, *sys.argv[2:]]
        runpy.run_path(path, run_name="__main__")
    hint = f"{error}\n(to find out what is wrong, run: {sys.executable} {path})"
    return ImportError(hint, name=error.name, path=error.path)
