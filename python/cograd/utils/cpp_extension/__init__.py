# SPDX-License-Identifier: BSD-3-Clause
"""Builds and loads ops written in C++ and C, with torch's names.

::

    from cograd.utils import cpp_extension

    ops = cpp_extension.load_inline(
        "my_ops",
        "cograd::Tensor twice(const cograd::Tensor& x) { return x * 2; }",
        functions="twice",
    )

`load` and `load_inline` compile once and cache the result; `CppExtension` and `BuildExtension`
are for setup.py; `python -m cograd.utils.cpp_extension` shows and cleans the cache. They need only
a C++ compiler.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cograd.utils.cpp_extension._job import CompileError, CompilerNotFoundError, ExtensionError
from cograd.utils.cpp_extension._paths import (
    get_default_build_root,
    include_paths,
    library_paths,
)

if TYPE_CHECKING:
    from cograd.utils.cpp_extension._helpers import (
        check_compiler_is_gcc,
        check_compiler_ok_for_platform,
        get_compiler_abi_compatibility_and_version,
        get_cxx_compiler,
        is_ninja_available,
        remove_extension_h_precompiler_headers,
        verify_ninja_availability,
    )
    from cograd.utils.cpp_extension._setuptools import (
        BuildExtension,
        CppExtension,
        CUDAExtension,  # noqa: F401
        SyclExtension,  # noqa: F401
    )

__all__ = [
    "BuildExtension",
    "CompileError",
    "CompilerNotFoundError",
    "CppExtension",
    "ExtensionError",
    "check_compiler_is_gcc",
    "check_compiler_ok_for_platform",
    "get_compiler_abi_compatibility_and_version",
    "get_cxx_compiler",
    "get_default_build_root",
    "include_paths",
    "is_ninja_available",
    "library_paths",
    "load",
    "load_inline",
    "remove_extension_h_precompiler_headers",
    "verify_ninja_availability",
]

_Flags = str | Sequence[str] | None
_Path = str | os.PathLike[str]

CUDA_HOME: str | None = None
_SETUPTOOLS = ("BuildExtension", "CppExtension", "CUDAExtension", "SyclExtension")
_HELPERS = (
    "check_compiler_is_gcc",
    "check_compiler_ok_for_platform",
    "get_compiler_abi_compatibility_and_version",
    "get_cxx_compiler",
    "is_ninja_available",
    "remove_extension_h_precompiler_headers",
    "verify_ninja_availability",
)


def load(
    name: str,
    sources: _Path | Sequence[_Path],
    extra_cflags: _Flags = None,
    extra_cuda_cflags: _Flags = None,
    extra_sycl_cflags: _Flags = None,
    extra_ldflags: _Flags = None,
    extra_include_paths: _Flags = None,
    build_directory: _Path | None = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    with_sycl: bool | None = None,
    is_python_module: bool = True,
    is_standalone: bool = False,
    keep_intermediates: bool = True,
    *,
    with_torch_compat: bool | None = None,
    debug: bool | str = False,
) -> Any:
    """Compiles source files, unless the result is cached, and loads it.

    Args:
        name: name of the extension: an identifier, also the macro COGRAD_EXTENSION_NAME.
        sources: C++ files, C files (`.c`), objects and archives. Several are compiled in parallel,
            in MAX_JOBS processes, or as many as there are cores.
        extra_cflags: flags for the compiler, after cograd's own.
        extra_cuda_cflags: must be None; so must `extra_sycl_cflags`.
        extra_sycl_cflags: see `extra_cuda_cflags`.
        extra_ldflags: flags for the linker.
        extra_include_paths: directories to search for headers.
        build_directory: directory of the results, with links `name.so` and `name.pyi` to the
            newest; by default a directory in COGRAD_EXTENSIONS_DIR, or in the user's cache.
        verbose: prints the compiler's commands, and whether the result is new or cached.
        with_cuda: must not be true; nor may `with_sycl`.
        with_sycl: see `with_cuda`.
        is_python_module: False loads the library, which registers its ops, and returns its path.
        is_standalone: True builds a program and returns its path.
        keep_intermediates: False removes the object files.
        with_torch_compat: adds headers such as `torch/extension.h` that map torch's C++ names to
            cograd's. None adds them if the sources use such names.
        debug: True builds without optimisation, with checks of every element access and with
            UndefinedBehaviorSanitizer, and with AddressSanitizer if its runtime is preloaded.
            "address" raises unless that runtime is preloaded.

    Returns:
        The module: the sources' own if they use pybind11 or Python's C API; otherwise one with the
        registered ops, which are also in `cograd.ops`.

    Raises:
        CompilerNotFoundError: there is no compiler; the message says what to install.
        CompileError: the sources do not compile or link.
        ImportError: the result cannot be loaded.
        NotImplementedError: sources or flags are for a GPU.
    """
    import time

    started = time.time()
    _refuse_gpu(
        extra_cuda_cflags=extra_cuda_cflags,
        extra_sycl_cflags=extra_sycl_cflags,
        with_cuda=with_cuda,
        with_sycl=with_sycl,
    )
    from cograd.utils.cpp_extension._job import Job, read_source

    files = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    if not files:
        raise ValueError("load(): sources is empty; expected at least one file")
    job = Job(
        name,
        [read_source(f) for f in files],
        extra_cflags=extra_cflags,
        extra_ldflags=extra_ldflags,
        extra_include_paths=extra_include_paths,
        build_directory=build_directory,
        verbose=verbose,
        is_standalone=is_standalone,
        keep_intermediates=keep_intermediates,
        with_torch_compat=with_torch_compat,
        debug=debug,
        started=started,
    )
    return _finish(job, is_python_module)


def load_inline(
    name: str,
    cpp_sources: str | Sequence[str],
    cuda_sources: str | Sequence[str] | None = None,
    sycl_sources: str | Sequence[str] | None = None,
    functions: str | Sequence[str] | Mapping[str, str] | None = None,
    extra_cflags: _Flags = None,
    extra_cuda_cflags: _Flags = None,
    extra_sycl_cflags: _Flags = None,
    extra_ldflags: _Flags = None,
    extra_include_paths: _Flags = None,
    build_directory: _Path | None = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    with_sycl: bool | None = None,
    is_python_module: bool = True,
    with_pytorch_error_handling: bool = True,
    keep_intermediates: bool = True,
    use_pch: bool = False,
    no_implicit_headers: bool = False,
    *,
    with_torch_compat: bool | None = None,
    debug: bool | str = False,
) -> Any:
    """Compiles C++ given as strings, unless the result is cached, and loads it.

    `cograd/extension.h` is included before the sources, or `cograd/python.h` if they use pybind11.
    Compile errors show the lines of the strings.

    Args:
        name: see `load`.
        cpp_sources: one string or several, compiled as one unit in their order.
        cuda_sources: kernels in CUDA C++, one string or several, that NVRTC compiles at their first
            call. C++ calls each by its name, `scale(cograd::cuda::threads(n), y, x, n)`
            (`cograd/cuda.h`); the module has them as `cograd.cuda.Kernel`.
        sycl_sources: must be None.
        functions: C++ functions, or Function structs, to make callable from Python: a name, a
            list, or a dict from name to docstring. Argument names, defaults and, without a dict,
            docstrings (the comment above) are read from the declarations. None: the sources
            contain COGRAD_LIBRARY, TORCH_LIBRARY or PYBIND11_MODULE themselves.
        extra_cflags: see `load`, for this and all further arguments.
        extra_cuda_cflags: options of NVRTC.
        extra_sycl_cflags: must be None.
        extra_ldflags: flags for the linker.
        extra_include_paths: directories to search for headers.
        build_directory: directory of the results.
        verbose: prints the compiler's commands, and whether the result is new or cached.
        with_cuda: accepted and ignored: kernels are compiled at run time.
        with_sycl: must not be true.
        is_python_module: False loads the library, which registers its ops, and returns its path.
        with_pytorch_error_handling: accepted and ignored: C++ exceptions always reach Python.
        keep_intermediates: False removes the object files.
        use_pch: accepted and ignored: a precompiled header is used if it saves time.
        no_implicit_headers: True includes nothing before the sources.
        with_torch_compat: see `load`.
        debug: see `load`.

    Returns:
        The module, as `load`.

    Raises:
        CompilerNotFoundError: there is no compiler; the message says what to install.
        CompileError: the sources do not compile or link.
        ImportError: the result cannot be loaded.
        NotImplementedError: sources or flags are for a GPU.
    """
    import sys

    _refuse_gpu(sycl_sources=sycl_sources, extra_sycl_cflags=extra_sycl_cflags, with_sycl=with_sycl)
    from cograd.utils.cpp_extension import _inline

    texts = _strings("cpp_sources", cpp_sources)
    kernels = None
    if cuda_sources:
        import shlex

        flags = extra_cuda_cflags or []
        kernels = _inline.Kernels(
            _strings("cuda_sources", cuda_sources),
            shlex.split(flags) if isinstance(flags, str) else _strings("extra_cuda_cflags", flags),
        )
    job = _inline.make_job(
        name,
        texts,
        _inline.function_docs(functions),
        kernels=kernels,
        no_implicit_headers=no_implicit_headers,
        caller=sys._getframe(1).f_code.co_filename,
        extra_cflags=extra_cflags,
        extra_ldflags=extra_ldflags,
        extra_include_paths=extra_include_paths,
        build_directory=build_directory,
        verbose=verbose,
        keep_intermediates=keep_intermediates,
        with_torch_compat=with_torch_compat,
        debug=debug,
    )
    made = _finish(job, is_python_module)
    if kernels and is_python_module:
        from cograd.cuda import Kernel

        for kernel in kernels.names():
            if not hasattr(made, kernel):
                setattr(made, kernel, Kernel(kernels.text, kernel, options=kernels.options))
    return made


def _strings(argument: str, given: str | Sequence[str]) -> list[str]:
    texts = [given] if isinstance(given, str) else list(given)
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(
                f"load_inline(): {argument} must be a string or a list of strings, got an element "
                f"of type {type(text).__name__}"
            )
    return texts


def _finish(job: Any, is_python_module: bool) -> Any:
    from cograd.utils.cpp_extension import _build, _load

    entry = _build.obtain(job)
    if job.standalone:
        return entry.path
    if not is_python_module:
        _load.register(entry.path, f"extension:{job.name}", entry.data)
        return entry.path
    if job.has_python_entry:
        return _load.load_python(job.name, entry.path, job.registers, entry.data)
    return _load.load_ops(job.name, entry.path, entry.data)


def _refuse_gpu(**arguments: Any) -> None:
    for argument, value in arguments.items():
        if value:
            raise NotImplementedError(
                f"{argument}: cograd compiles no such code; leave it out. Kernels for NVIDIA GPUs "
                "are text: load_inline(cuda_sources=...), or cograd.cuda.kernel()"
            )


if not TYPE_CHECKING:  # type checkers would accept every name

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        if name in _SETUPTOOLS:
            return getattr(import_module("cograd.utils.cpp_extension._setuptools"), name)
        if name in _HELPERS:
            return getattr(import_module("cograd.utils.cpp_extension._helpers"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
