# SPDX-License-Identifier: BSD-3-Clause
"""`CppExtension` and `BuildExtension` for setup.py; the only module that imports setuptools.

An extension without Python in its sources becomes `name.so`, which every Python version loads with
`cograd.ops.load_library`; if all extensions of a distribution are of that kind, its wheel is tagged
`py3-none-<platform>`.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from typing import Any

import setuptools
from setuptools.command.build_ext import build_ext

from cograd.utils.cpp_extension import _compiler
from cograd.utils.cpp_extension._job import Job, read_source


class _Extension(setuptools.Extension):  # type: ignore[misc]
    """An extension that is compiled against cograd's headers."""

    cograd_torch_compat: bool | None = None
    cograd_debug: bool | str = False


def _check_wheel_command() -> None:
    """Raises if setup.py was called for a wheel that this setuptools cannot build."""
    if "bdist_wheel" not in sys.argv or importlib.util.find_spec("wheel") is not None:
        return
    numbers = [int(n) for n in re.findall(r"\d+", setuptools.__version__)[:2]]
    if numbers < [70, 1]:
        raise RuntimeError(
            f"a wheel needs setuptools 70.1 or later, or the package wheel; setuptools "
            f"{setuptools.__version__} is installed: pip install -U 'setuptools>=70.1', or leave "
            "out --no-build-isolation"
        )


def CppExtension(name: str, sources: list[Any], *args: Any, **kwargs: Any) -> _Extension:
    """Returns a setuptools.Extension with cograd's headers and library.

    Args:
        name: the dotted name of the module, or of the file to pass to `cograd.ops.load_library`.
        sources: C++ and C files.
        args: as for setuptools.Extension.
        kwargs: as for setuptools.Extension; `extra_compile_args` may be a dict with the key
            "cxx". `with_torch_compat` and `debug` are those of `load`.

    Raises:
        RuntimeError: setup.py builds a wheel, but neither setuptools nor another package can.
    """
    _check_wheel_command()
    compat = kwargs.pop("with_torch_compat", None)
    debug = kwargs.pop("debug", False)
    kwargs.pop("py_limited_api", None)  # the module either contains no Python, or all of pybind11
    kwargs.pop("dlink", None)
    arguments = kwargs.get("extra_compile_args")
    if isinstance(arguments, dict):
        kwargs["extra_compile_args"] = list(arguments.get("cxx", []))
    kwargs.setdefault("language", "c++")
    extension = _Extension(name, [os.fspath(s) for s in sources], *args, **kwargs)
    extension.cograd_torch_compat = compat
    extension.cograd_debug = debug
    return extension


def CUDAExtension(*args: Any, **kwargs: Any) -> _Extension:
    """Raises NotImplementedError: extensions run on the CPU."""
    raise NotImplementedError("CUDAExtension: extensions run on the CPU; use CppExtension")


def SyclExtension(*args: Any, **kwargs: Any) -> _Extension:
    """Raises NotImplementedError: extensions run on the CPU."""
    raise NotImplementedError("SyclExtension: extensions run on the CPU; use CppExtension")


class BuildExtension(build_ext):  # type: ignore[misc]
    """The build_ext command for setup.py; sources are compiled in parallel, without ninja.

    `BuildExtension.with_options(no_python_abi_suffix=True)` returns a command with options set:
    `no_python_abi_suffix` names the file `name.so`; by default this applies to extensions without
    Python in them. `use_ninja` is accepted and ignored.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.no_python_abi_suffix: bool | None = kwargs.pop("no_python_abi_suffix", None)
        self.use_ninja = kwargs.pop("use_ninja", False)
        super().__init__(*args, **kwargs)

    @classmethod
    def with_options(cls, **options: Any) -> type[BuildExtension]:
        """Returns this command with options set."""

        class CommandWithOptions(cls):  # type: ignore[misc, valid-type]
            """BuildExtension with options."""

            def __init__(self, *args: Any, **kwargs: Any) -> None:
                kwargs.update(options)
                super().__init__(*args, **kwargs)

        return CommandWithOptions

    def run(self) -> None:
        """Builds all extensions, and tags the wheel as py3-none if none of them uses Python."""
        super().run()
        ours = [e for e in self.extensions if isinstance(e, _Extension)]
        if ours and len(ours) == len(self.extensions) and not any(map(self._bound, ours)):
            self._tag_wheel()

    def _tag_wheel(self) -> None:
        wheel: Any = self.distribution.command_obj.get("bdist_wheel")
        if wheel is None or getattr(wheel, "py_limited_api", False):
            return
        tag = wheel.get_tag()
        wheel.get_tag = lambda: ("py3", "none", tag[2])

    def _bound(self, extension: _Extension) -> bool:
        """Returns whether an extension's sources use Python."""
        return self._job(extension).uses_python

    def _job(self, extension: _Extension) -> Job:
        defines = [
            f"-D{name}" if value is None else f"-D{name}={value}"
            for name, value in extension.define_macros
        ]
        defines += [f"-U{name}" for name in extension.undef_macros]
        folders = [f"-L{folder}" for folder in extension.library_dirs]
        folders += [f"-Wl,-rpath,{folder}" for folder in extension.runtime_library_dirs]
        libraries = [f"-l{name}" for name in extension.libraries if name != "cograd"]
        depth = extension.name.count(".")
        relative = "/".join(["$ORIGIN", *[".."] * depth, "cograd", "lib"])
        return Job(
            extension.name.rpartition(".")[2],
            [read_source(s) for s in [*extension.sources, *extension.extra_objects]],
            extra_cflags=[*defines, *extension.extra_compile_args],
            extra_ldflags=[
                *folders,
                f"-Wl,-rpath,{relative}",
                *extension.extra_link_args,
                *libraries,
            ],
            extra_include_paths=extension.include_dirs,
            build_directory=self.build_temp,
            verbose=self.verbose > 1 if isinstance(self.verbose, int) else bool(self.verbose),
            with_torch_compat=extension.cograd_torch_compat,
            debug=extension.cograd_debug or bool(self.debug),
        )

    def get_ext_filename(self, fullname: str) -> str:
        """Returns the file's name, without Python's ABI tag if the sources do not use Python."""
        name = str(super().get_ext_filename(fullname))
        extension = self.ext_map.get(fullname)
        plain = self.no_python_abi_suffix
        if plain is None:
            plain = isinstance(extension, _Extension) and not self._bound(extension)
        if not plain:
            return name
        folder, file = os.path.split(name)
        return os.path.join(folder, file.split(".")[0] + os.path.splitext(file)[1])

    def copy_extensions_to_source(self) -> None:
        """Always copies: setuptools compares times in whole seconds, and builds can be faster."""
        force: Any = self.force
        self.force: Any = True
        try:
            super().copy_extensions_to_source()
        finally:
            self.force = force

    def build_extension(self, ext: Any) -> None:
        """Compiles and links one extension, unless the build directory contains it."""
        if not isinstance(ext, _Extension):
            super().build_extension(ext)
            return
        import shutil

        from cograd.utils.cpp_extension import _build

        job = self._job(ext)
        print(f"building {ext.name!r} with {_compiler.version_line(_compiler.compiler_command())}")
        entry = _build.obtain(job)
        target = self.get_ext_fullpath(ext.name)
        os.makedirs(os.path.dirname(os.path.abspath(target)), exist_ok=True)
        shutil.copyfile(entry.path, target)
        os.chmod(target, 0o755)
        sys.stdout.flush()


__all__ = ["BuildExtension", "CUDAExtension", "CppExtension", "SyclExtension"]
