# SPDX-License-Identifier: BSD-3-Clause
"""Compiles and links a job, or finds it in the cache."""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import Any

from cograd import __version__
from cograd.utils.cpp_extension import _cache, _compiler, _paths
from cograd.utils.cpp_extension._cache import Entry
from cograd.utils.cpp_extension._job import (
    CompilerNotFoundError,
    ExtensionError,
    Job,
    Source,
    digest,
)


def obtain(job: Job) -> Entry:
    """Returns the build of a job: from the cache, or built now.

    Raises:
        CompilerNotFoundError: nothing is cached and there is no compiler.
        CompileError: the sources do not compile or link.
    """
    key = job.key()
    entry = _cache.find(job, key, _compiler.identities(job.languages))
    if entry is not None:
        if job.verbose:
            print(f"cograd: {job.name} is in the cache: {entry.path}")
        return entry
    for language in job.languages:
        _compiler.compiler_command(language)  # raises with advice
    try:
        os.makedirs(job.directory, exist_ok=True)
        _cache.sweep(job.directory)
        probe = _cache.make_temporary(job.directory)
    except OSError as e:
        return _without_cache(job, key, e)
    from cograd.utils.cpp_extension._cache import BuildLock

    os.rmdir(probe)
    with BuildLock(os.path.join(job.directory, f"{key}.lock"), job.verbose) as lock:
        entry = _cache.find(job, key, _compiler.identities(job.languages))
        return entry if entry is not None else _make(job, key, lock.beat)


def _without_cache(job: Job, key: str, reason: OSError) -> Entry:
    """Builds in a directory that is removed at exit, because the cache is not writable."""
    import atexit
    import tempfile
    import warnings

    folder = tempfile.mkdtemp(prefix="cograd_extensions-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    warnings.warn(
        f"cograd: the extension cache {job.directory} cannot be written ({reason.strerror}), so "
        f"{job.name!r} is built for this process only; set {_paths.ROOT_VARIABLE} to a "
        "writable directory",
        RuntimeWarning,
        stacklevel=5,
    )
    job.directory = folder
    return _make(job, key, None)


def _make(job: Job, key: str, beat: Any) -> Entry:
    """Builds in a temporary directory and publishes the result."""
    compiler = _compiler.identities(job.languages) or ""
    folder = _cache.make_temporary(job.directory)
    try:
        job.prepare()
        # A debugger looks for generated sources where they will be, which is then decided now.
        chosen = digest(os.path.basename(folder).encode())[:8] if job.has_debug_info else ""
        deps, objects = _compile(job, folder, beat, f"{key}-{chosen}" if chosen else "")
        stamps, volatile = _stamp(deps, job)
        _write_stub(job, folder)
        built = os.path.join(folder, job.file_name)
        with open(built, "rb") as file:
            data = file.read()
        record = {
            "name": job.name,
            "file": job.file_name,
            "kind": job.kind,
            "size": len(data),
            "digest": digest(data),
            "compiler": compiler,
            "deps": stamps,
            "built": time.time(),
            "version": __version__,
            "volatile": volatile,
        }
        _cache.write_record(folder, record)
        if not job.keep:
            for name in objects:
                os.unlink(os.path.join(folder, name))
        os.chmod(folder, 0o755)
        variant = (
            chosen or digest(repr((compiler, [s[0::3] for s in stamps], volatile)).encode())[:8]
        )
        final = os.path.join(job.directory, f"{key}-{variant}")
        _cache.publish(folder, final)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    if job.explicit:
        _point(job, final)
    entry = Entry(final, record)
    entry.data = data
    return entry


def _point(job: Job, folder: str) -> None:
    """Makes `build_directory/name.so` and `.pyi` links to the newest build."""
    for name in (job.file_name, f"{job.name}.pyi"):
        if not os.path.exists(os.path.join(folder, name)):
            continue
        link = os.path.join(job.directory, name)
        temporary = f"{link}.{os.getpid()}"
        try:
            os.symlink(os.path.join(os.path.basename(folder), name), temporary)
            os.replace(temporary, link)
        except OSError:  # a file system without links
            shutil.copy2(os.path.join(folder, name), link)


def _stamp(deps: list[str], job: Job) -> tuple[list[list[Any]], bool]:
    """Returns the state of each included file, and whether one changed during the build.

    Such a build is used once but never found again: it is unknown which text the compiler read.
    """
    stamps = []
    volatile = False
    sources = {s.path: digest(s.data) for s in job.sources if s.path}
    for path in sorted(set(deps)):
        try:
            stamp = _cache.stamp_file(path)
        except OSError:
            volatile = True
            continue
        changed = _changed_since(job.started, path) and not _cache.is_system(path)
        if changed or sources.get(path, stamp[3]) != stamp[3]:
            volatile = True
        stamps.append(stamp)
    return stamps, volatile


def _changed_since(start: float, path: str) -> bool:
    """Returns whether a file was written between `start` and now.

    Ignores a time in the future: it comes from an archive, or from another host's clock.
    """
    try:
        status = os.stat(path)
    except OSError:
        return True
    now = time.time()
    return start < status.st_mtime <= now or start < status.st_ctime <= now


def _object_name(index: int, source: Source) -> str:
    return f"{index}_{os.path.splitext(os.path.basename(source.path or source.label))[0]}.o"


def _compile(job: Job, folder: str, beat: Any, published: str = "") -> tuple[list[str], list[str]]:
    """Compiles and links in `folder`; returns the included files and the objects' names.

    Args:
        job: the job.
        folder: the directory to work in.
        beat: called about once a second.
        published: the later name of `folder`, for the debugger.

    Raises:
        CompileError: a command failed.
    """
    from cograd.utils.cpp_extension import _messages
    from cograd.utils.cpp_extension._compile import Command, run_all

    for name, data in job.files.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)
    prelude: list[str] = []
    deps: list[str] = []
    beside = None
    if job.uses_python:
        from cograd.utils.cpp_extension import _python_modules

        prelude, deps, beside = _python_modules.precompiled(job)
    moved: list[str] = []
    if published:
        here = os.path.realpath(folder)
        there = os.path.join(os.path.dirname(here), published)
        moved = [f"-fdebug-prefix-map={here}={there}"]
    commands: list[Command] = []
    objects: list[str] = []
    linked: list[str] = []
    for i, source in enumerate(job.sources):
        if source.language == "link":
            linked.append(source.path or source.label)
            continue
        name = _object_name(i, source)
        command = [*_compiler.compiler_command(source.language)]
        command += _compiler.compile_flags(job, source.language)
        if source.language == "c++":
            command += prelude
        command += [*moved, *_compiler.include_flags(job), "-MD", "-MF", f"{name}.d"]
        command += ["-c", source.path or source.label, "-o", name]
        label = source.label if source.path else "inline sources"
        commands.append(Command(command, label))
        objects.append(name)
    if not objects and not linked:
        raise ExtensionError(f"{job.name}: there are no sources")
    header_status = 1
    try:
        extra = [beside.command] if beside is not None else []
        results = run_all(
            [*commands, *extra], folder, title=job.name, verbose=job.verbose, beat=beat
        )
        header_status = next((r.status for r in results if r.command.optional), 1)
        results = [r for r in results if not r.command.optional]
    finally:
        if beside is not None:
            beside.finish(header_status)
    if any(r.status for r in results):
        raise _messages.failure(job, results, folder)
    for name, compiled in zip(objects, commands, strict=True):
        _check_written(job, folder, compiled.args[0], name, f"{name}.d")
    if not job.verbose:
        _warn(results)
    link = [*_compiler.compiler_command(), *objects, *linked, "-o", job.file_name]
    if job.debug:
        link.append("-g")
    link += _compiler.link_flags(job)
    results = run_all(
        [Command(link, "linking")], folder, title=job.name, verbose=job.verbose, beat=beat
    )
    if results[0].status:
        raise _messages.failure(job, results, folder)
    _check_written(job, folder, link[0], job.file_name)
    for name in objects:
        path = os.path.join(folder, f"{name}.d")
        deps += _cache.read_depfile(path)
        os.unlink(path)
    return deps, objects


def _check_written(job: Job, folder: str, program: str, *names: str) -> None:
    """Raises if a compiler reported no error but did not write one of its files."""
    for name in names:
        if not os.path.isfile(os.path.join(folder, name)):
            raise CompilerNotFoundError(
                f"{job.name}: {program!r} reported no error but did not write {name}; it is "
                "not a C++ compiler that cograd can use. Set CXX (for C: CC) to one, or unset it."
            )


def _warn(results: list[Any]) -> None:
    """Prints the compiler's warnings, which the user requested with -W flags."""
    for result in results:
        if "warning:" in result.output:
            print(result.output.rstrip(), file=sys.stderr)


def _write_stub(job: Job, folder: str) -> None:
    if job.standalone:
        return
    from cograd.utils.cpp_extension import _read_cpp

    text = _read_cpp.module_stub(job)
    with open(os.path.join(folder, f"{job.name}.pyi"), "w", encoding="utf-8") as file:
        file.write(text)
