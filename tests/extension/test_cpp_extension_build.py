# SPDX-License-Identifier: BSD-3-Clause
"""cograd.utils.cpp_extension: compiling, the cache, locks, errors. The sources here need no ops."""

import ctypes
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from cograd.utils import cpp_extension
from cograd.utils.cpp_extension import __main__, _cache, _compile, _compiler, _job, _load
from cograd.utils.cpp_extension.__main__ import main

pytestmark = pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="there is no C++ compiler"
)

EXPORT = '__attribute__((visibility("default")))'


def source(value, extra=""):
    """Returns C or C++ source whose `answer()` returns an expression."""
    begin, end = '#ifdef __cplusplus\nextern "C"\n#endif\n', "\n"
    return f"{extra}\n{begin}{EXPORT} int answer(void) {{ return {value}; }}{end}"


def answer(path):
    return ctypes.CDLL(str(path)).answer()


def build(name, *files, **kwargs):
    """Builds a library that need not contain ops; returns its path."""
    return cpp_extension.load(name, [str(f) for f in files], is_python_module=False, **kwargs)


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    """Returns an empty cache directory of this test."""
    path = tmp_path / "cache"
    monkeypatch.setenv("COGRAD_EXTENSIONS_DIR", str(path))
    for name in ("CXX", "CC", "MAX_JOBS"):
        monkeypatch.delenv(name, raising=False)
    return path


@pytest.fixture
def counted(tmp_path, monkeypatch):
    """Makes CXX a script that counts its calls; returns a function that returns the count."""
    log = tmp_path / "calls"
    log.write_text("")
    script = tmp_path / "counting-c++"
    real = shutil.which("c++") or shutil.which("g++")
    script.write_text(
        f'#!/bin/sh\necho x >> "{log}"\nsleep "${{SLOW:-0}}"\n'
        f'[ -z "$BEGUN" ] || echo "$(wc -l < "{log}")" >> "$BEGUN"\nexec {real} "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    return lambda: len(log.read_text().split())


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def run_python(code, **kwargs):
    """Starts a Python that runs code in which the names in `kwargs` are defined."""
    # A background job of a shell starts with SIGINT ignored, and Python keeps it so.
    header = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    header += "".join(f"{k} = {v!r}\n" for k, v in kwargs.items())
    text = header + textwrap.dedent(code)
    return subprocess.Popen(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


LOAD = """
import ctypes
from cograd.utils import cpp_extension
path = cpp_extension.load("demo", [file], is_python_module=False)
print(ctypes.CDLL(path).answer())
"""


# ---------------------------------------------------------------------------- the cache


def test_second_load_compiles_nothing(tmp_path, root, counted):
    file = write(tmp_path / "a.cpp", source(1))
    first = build("demo", file)
    assert counted() == 2  # one unit, one link
    assert build("demo", file) == first
    assert counted() == 2
    assert Path(first).parent.parent == root / "demo"
    assert answer(first) == 1


def test_hit_in_another_process(tmp_path, counted):
    file = write(tmp_path / "a.cpp", source(2))
    build("demo", file)
    calls = counted()
    out, err = run_python(LOAD, file=str(file)).communicate()
    assert out.strip() == "2", err
    assert counted() == calls


def test_source_edit_and_back(tmp_path, counted):
    file = write(tmp_path / "a.cpp", source(1))
    first = build("demo", file)
    write(file, source(2))
    second = build("demo", file)
    assert (answer(first), answer(second)) == (1, 2)
    calls = counted()
    write(file, source(1))
    assert build("demo", file) == first
    assert counted() == calls


def test_header_edit_between_loads_in_one_process(tmp_path, counted):
    header = write(tmp_path / "inc" / "value.h", "#define VALUE 10\n")
    nested = write(tmp_path / "inc" / "outer.h", '#include "value.h"\n')
    file = write(tmp_path / "a.cpp", '#include "inc/outer.h"\n' + source("VALUE"))
    first = build("demo", file)
    assert answer(first) == 10
    write(header, "#define VALUE 11\n")  # the same size: the content decides
    second = build("demo", file)
    assert answer(second) == 11
    assert second != first
    write(header, "#define VALUE 10\n")
    calls = counted()
    assert build("demo", file) == first
    assert counted() == calls
    os.utime(nested)
    assert build("demo", file) == first
    assert counted() == calls, "a new time stamp alone rebuilt the module"


def test_header_with_kept_time_and_size_is_noticed(tmp_path):
    header = write(tmp_path / "value.h", "#define VALUE 1\n")
    os.utime(header, (1e9, 1e9))
    file = write(tmp_path / "a.cpp", '#include "value.h"\n' + source("VALUE"))
    assert answer(build("demo", file)) == 1
    write(header, "#define VALUE 2\n")
    os.utime(header, (1e9, 1e9))
    assert answer(build("demo", file)) == 2


@pytest.mark.skipif(shutil.which("ccache") is None, reason="there is no ccache")
def test_header_that_ccache_names_by_a_relative_path_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", f"ccache {shutil.which('g++') or shutil.which('c++')}")
    monkeypatch.setenv("CCACHE_DIR", str(tmp_path / "ccache"))
    monkeypatch.setenv("CCACHE_BASEDIR", str(tmp_path))
    header = write(tmp_path / "value.h", "#define VALUE 1\n")
    file = write(tmp_path / "a.cpp", '#include "value.h"\n' + source("VALUE"))
    assert answer(build("demo", file)) == 1
    write(header, "#define VALUE 2\n")
    assert answer(build("demo", file)) == 2


def test_header_removed(tmp_path):
    header = write(tmp_path / "value.h", "#define VALUE 1\n")
    file = write(tmp_path / "a.cpp", '#include "value.h"\n' + source("VALUE"))
    build("demo", file)
    header.unlink()
    with pytest.raises(cpp_extension.CompileError, match=r"value\.h: No such file"):
        build("demo", file)


def test_header_changed_while_compiling_is_not_cached(tmp_path, counted, monkeypatch):
    header = write(tmp_path / "value.h", "#define VALUE 1\n")
    file = write(tmp_path / "a.cpp", '#include "value.h"\n' + source("VALUE"))
    monkeypatch.setenv("SLOW", "0.5")
    timer = threading.Timer(0.25, lambda: write(header, "#define VALUE 2\n"))
    timer.start()
    build("demo", file)
    timer.join()
    monkeypatch.setenv("SLOW", "0")
    calls = counted()
    assert answer(build("demo", file)) == 2
    assert counted() > calls


@pytest.mark.parametrize(
    "change",
    [
        {"extra_cflags": ["-DVALUE=3"]},
        {"extra_cflags": "-DVALUE=3 -DOTHER"},
        {"extra_include_paths": "three"},
        {"debug": "undefined"},
    ],
)
def test_flags_are_part_of_the_key(tmp_path, counted, monkeypatch, change):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "one" / "value.h", "#ifndef VALUE\n#define VALUE 1\n#endif\n")
    write(tmp_path / "three" / "value.h", "#define VALUE 3\n")
    extra = "#ifdef COGRAD_DEBUG\n#define VALUE 3\n#else\n#include <value.h>\n#endif"
    file = write(tmp_path / "a.cpp", source("VALUE", extra))
    plain = {"extra_include_paths": ["one"]}
    first = build("demo", file, **plain)
    assert answer(first) == 1
    assert answer(build("demo", file, **{**plain, **change})) == 3
    calls = counted()
    assert build("demo", file, **plain) == first
    assert counted() == calls


def test_another_compiler_builds_again(tmp_path, counted, monkeypatch):
    file = write(tmp_path / "a.cpp", source(1))
    first = build("demo", file)
    script = Path(os.environ["CXX"])
    script.write_text(script.read_text() + "# a new version\n")
    second = build("demo", file)
    assert counted() == 4
    assert first != second


def test_cached_build_needs_no_compiler(tmp_path, monkeypatch):
    file = write(tmp_path / "a.cpp", source(7))
    first = build("demo", file)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build("demo", file) == first


def test_damaged_module_is_built_again(tmp_path, counted):
    file = write(tmp_path / "a.cpp", source(5))
    path = Path(build("demo", file))
    fresh = path.parent.parent / "copy"
    for damage in ("truncated", "zeroed", "missing", "record"):
        shutil.copytree(path.parent, fresh)
        if damage == "truncated":
            data = path.read_bytes()
            path.unlink()
            path.write_bytes(data[:-100])
        elif damage == "zeroed":
            size = path.stat().st_size
            path.unlink()
            path.write_bytes(bytes(size))
        elif damage == "missing":
            path.unlink()
        else:
            (path.parent / _cache.RECORD).write_text("{")
        calls = counted()
        out, err = run_python(LOAD, file=str(file)).communicate()
        assert out.strip() == "5", (damage, err)
        assert counted() == calls + 2
        shutil.rmtree(fresh)


def test_build_directory_gets_links(tmp_path):
    folder = tmp_path / "out"
    file = write(tmp_path / "a.cpp", source(1))
    build("demo", file, build_directory=folder)
    assert answer((folder / "demo.so").resolve()) == 1
    assert (folder / "demo.pyi").exists()
    write(file, source(2))
    build("demo", file, build_directory=folder)
    assert answer((folder / "demo.so").resolve()) == 2


def test_keep_intermediates(tmp_path):
    file = write(tmp_path / "a.cpp", source(1))
    kept = Path(build("kept", file)).parent
    bare = Path(build("bare", file, keep_intermediates=False)).parent
    assert list(kept.glob("*.o"))
    assert not list(bare.glob("*.o"))


def test_no_temporary_folders_stay(tmp_path, root):
    good = write(tmp_path / "a.cpp", source(1))
    build("demo", good)
    bad = write(tmp_path / "b.cpp", "int f() { return x; }\n")
    with pytest.raises(cpp_extension.CompileError):
        build("demo", bad)
    left = [p.name for p in (root / "demo").iterdir()]
    assert not [n for n in left if n.startswith(_cache.TEMPORARY) or n.endswith(".lock")]


# ---------------------------------------------------------------------------- several processes


def test_processes_that_build_the_same_compile_once(tmp_path, counted, monkeypatch):
    monkeypatch.setenv("SLOW", "0.3")
    file = write(tmp_path / "a.cpp", source(9))
    running = [run_python(LOAD, file=str(file)) for _ in range(6)]
    results = [p.communicate() for p in running]
    assert [out.strip() for out, _ in results] == ["9"] * 6, results
    assert counted() == 2


def test_threads_that_build_the_same_compile_once(tmp_path, counted, monkeypatch):
    monkeypatch.setenv("SLOW", "0.1")
    file = write(tmp_path / "a.cpp", source(9))
    paths = []
    threads = [threading.Thread(target=lambda: paths.append(build("demo", file))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(paths)) == 1
    assert len(paths) == 4
    assert counted() == 2


def start_slow_build(file, root, monkeypatch):
    """Starts a build that takes a minute; returns it once the compiler runs."""
    monkeypatch.setenv("SLOW", "60")
    process = run_python(LOAD, file=str(file))
    deadline = time.monotonic() + 20
    while not list(root.glob(f"demo/{_cache.TEMPORARY}*")) or not list(root.glob("demo/*.lock")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.2)
    monkeypatch.setenv("SLOW", "0")
    return process


def test_killed_build_leaves_nothing_broken(tmp_path, root, counted, monkeypatch):
    file = write(tmp_path / "a.cpp", source(4))
    process = start_slow_build(file, root, monkeypatch)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert list(root.glob(f"demo/{_cache.TEMPORARY}*"))
    start = time.monotonic()
    assert answer(build("demo", file)) == 4
    assert time.monotonic() - start < 20
    assert not list(root.glob(f"demo/{_cache.TEMPORARY}*")), "the dead build's folder stayed"


def test_interrupted_build_cleans_up(tmp_path, root, counted, monkeypatch):
    file = write(tmp_path / "a.cpp", source(4))
    process = start_slow_build(file, root, monkeypatch)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert "KeyboardInterrupt" in err
    assert not list(root.glob(f"demo/{_cache.TEMPORARY}*"))


def test_stopped_builder_does_not_block_others(tmp_path, root, counted, monkeypatch, capfd):
    """Another process takes over a lock whose holder does nothing."""
    file = write(tmp_path / "a.cpp", source(4))
    process = start_slow_build(file, root, monkeypatch)
    try:
        process.send_signal(signal.SIGSTOP)
        monkeypatch.setattr(_cache, "SILENCE", 1.0)
        start = time.monotonic()
        assert answer(build("demo", file)) == 4
        assert time.monotonic() - start < 20
        assert "breaking the stale lock" in capfd.readouterr().err
    finally:
        process.kill()
        process.communicate()


def test_lock_inherited_from_a_dead_process(tmp_path, capfd):
    """Children inherit flock; the text in the file shows that the holder died."""
    path = str(tmp_path / "lock")
    code = """
    import os, sys, time
    from cograd.utils.cpp_extension._cache import BuildLock
    lock = BuildLock(path)
    lock.__enter__()
    if os.fork() == 0:
        time.sleep(30)
        os._exit(0)
    print("locked", flush=True)
    os._exit(0)
    """
    process = run_python(code, path=path)
    with process.stdout, process.stderr:
        assert process.stdout.readline() == "locked\n"
        process.wait()
    start = time.monotonic()
    with _cache.BuildLock(path):
        assert time.monotonic() - start < 10
    assert "breaking the stale lock" in capfd.readouterr().err


def test_old_lock_file_does_not_matter(tmp_path, root):
    file = write(tmp_path / "a.cpp", source(4))
    build("demo", file)
    (entry,) = __main__.entries(str(root))
    key = Path(entry.folder).name.partition("-")[0]
    shutil.rmtree(entry.folder)
    write(root / "demo" / f"{key}.lock", "999999 elsewhere\n")
    start = time.monotonic()
    assert answer(build("demo", file)) == 4
    assert time.monotonic() - start < 10


def test_waiting_is_told(tmp_path, capfd):
    path = str(tmp_path / "lock")
    inside = threading.Event()

    def hold():
        code = """
        import time
        from cograd.utils.cpp_extension._cache import BuildLock
        with BuildLock(path):
            print("locked", flush=True)
            time.sleep(0.5)
        """
        process = run_python(code, path=path)
        process.stdout.readline()
        inside.set()
        process.communicate()

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait()
    with _cache.BuildLock(path, verbose=True):
        pass
    thread.join()
    assert "waiting for process" in capfd.readouterr().err


# ---------------------------------------------------------------------------- sources and flags


def test_c_source_is_compiled_as_c(tmp_path):
    text = "int *f(void *p) { int *class = p; return class; }\n" + source(
        "__STDC_VERSION__ >= 201112L"
    )
    file = write(tmp_path / "a.c", text)
    assert answer(build("demo", file)) == 1
    assert answer(build("demo", file, extra_cflags=["-std=c++17", "-DX"])) == 1


def test_two_sources_and_headers_in_other_folders(tmp_path, counted):
    write(tmp_path / "include" / "two.h", "int two();\n")
    one = write(tmp_path / "x" / "a.cpp", "#include <two.h>\n" + source("40 + two()"))
    two = write(tmp_path / "y" / "a.cpp", "#include <two.h>\nint two() { return 2; }\n")
    path = build("demo", one, two, extra_include_paths=[str(tmp_path / "include")])
    assert answer(path) == 42
    assert counted() == 3


def test_sources_are_compiled_at_once(tmp_path, counted, monkeypatch):
    begun = tmp_path / "begun"
    monkeypatch.setenv("SLOW", "1")
    monkeypatch.setenv("BEGUN", str(begun))
    monkeypatch.setattr(_compile, "max_jobs", lambda count: count)
    files = [write(tmp_path / f"{i}.cpp", f"int f{i}() {{ return 1; }}\n") for i in range(4)]
    build("demo", *files)
    # How many had begun when each one continued; one after the other it would be 1, 2, 3, 4, 5.
    assert begun.read_text().split() == ["4", "4", "4", "4", "5"]
    assert counted() == 5


def test_max_jobs(monkeypatch):
    monkeypatch.setenv("MAX_JOBS", "3")
    assert (_compile.max_jobs(8), _compile.max_jobs(2)) == (3, 2)
    monkeypatch.setenv("MAX_JOBS", "many")
    with pytest.raises(ValueError, match=r"MAX_JOBS='many'"):
        _compile.max_jobs(8)


def test_spaces_and_odd_characters_in_paths(tmp_path, monkeypatch):
    folder = tmp_path / "my #1 $folder é"
    monkeypatch.setenv("COGRAD_EXTENSIONS_DIR", str(folder / "the cache"))
    header = write(folder / "in clude" / "val ue.h", "#define VALUE 1\n")
    file = write(folder / "a b.cpp", '#include "val ue.h"\n' + source("VALUE"))
    folders = [str(folder / "in clude")]
    assert answer(build("demo", file, extra_include_paths=folders)) == 1
    write(header, "#define VALUE 2\n")
    assert answer(build("demo", file, extra_include_paths=folders)) == 2


def test_relative_flags_and_linked_objects(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "inc" / "v.h", "int lib();\n")
    write(tmp_path / "lib.cpp", "int lib() { return 6; }\n")
    compiler = _compiler.compiler_command()
    subprocess.run([*compiler, "-fPIC", "-c", "lib.cpp", "-o", "lib.o"], check=True)
    write(tmp_path / "a.cpp", "#include <v.h>\n" + source("lib()"))
    assert answer(build("demo", "a.cpp", "lib.o", extra_cflags=["-Iinc"])) == 6
    assert answer(build("demo", "a.cpp", extra_cflags=["-Iinc"], extra_ldflags=["lib.o"])) == 6
    write(tmp_path / "lib.cpp", "int lib() { return 7; }\n")
    subprocess.run([*compiler, "-fPIC", "-c", "lib.cpp", "-o", "lib.o"], check=True)
    assert answer(build("demo", "a.cpp", extra_cflags=["-Iinc"], extra_ldflags=["lib.o"])) == 7


def test_standalone_program(tmp_path):
    file = write(tmp_path / "a.cpp", '#include <cstdio>\nint main() { std::puts("ran"); }\n')
    path = cpp_extension.load("prog", str(file), is_standalone=True)
    assert subprocess.run([path], capture_output=True, text=True, check=True).stdout == "ran\n"


def test_depfile_escapes():
    text = "a.o: /x/a\\ b.h /y/c$$d.h \\\n  /z/e\\#f.h /w/back\\slash.h\n\n/other:\n"
    assert _cache.split_depfile(text) == ["/x/a b.h", "/y/c$d.h", "/z/e#f.h", "/w/back\\slash.h"]


def test_dependency_files_of_ccache(tmp_path):
    """A precompiled header's relative paths count, too: they are those of ccache's base_dir."""
    folder = tmp_path / "build"
    folder.mkdir()
    depfile = write(folder / "deps", "a.gch: a.h /usr/include/b.h \\\n ../include/c.h\n")
    assert _cache.read_depfile(depfile) == ["/usr/include/b.h", str(tmp_path / "include/c.h")]


def test_debug_finds_undefined_behaviour(tmp_path):
    text = f'extern "C" {EXPORT} int shift(int n) {{ return 1 << n; }}\n'
    file = write(tmp_path / "a.cpp", text)
    code = """
    import ctypes
    from cograd.utils import cpp_extension
    path = cpp_extension.load("demo", [file], is_python_module=False, debug=True)
    ctypes.CDLL(path).shift(99)
    """
    _, err = run_python(code, file=str(file)).communicate()
    assert "runtime error: shift exponent 99 is too large" in err, err


def test_debug_finds_bad_access_under_asan(tmp_path):
    library = _compiler.runtime_library(_compiler.compiler_command(), "libasan.so")
    if library is None:
        pytest.skip("no libasan")
    text = (
        "#include <vector>\n"
        f'extern "C" {EXPORT} int peek(int n) {{ int* p = new int[4](); int v = p[n]; '
        "delete[] p; return v; }\n"
    )
    file = write(tmp_path / "a.cpp", text)
    code = """
    import ctypes
    from cograd.utils import cpp_extension
    path = cpp_extension.load("demo", [file], is_python_module=False, debug="address")
    print(ctypes.CDLL(path).peek(3), flush=True)
    print(ctypes.CDLL(path).peek(4), flush=True)
    """
    without = run_python(code, file=str(file)).communicate()[1]
    assert "LD_PRELOAD" in without
    env = {"LD_PRELOAD": library, "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0"}
    os.environ.update(env)
    try:
        out, err = run_python(code, file=str(file)).communicate()
    finally:
        for name in env:
            del os.environ[name]
    assert out.strip() == "0", err
    assert "heap-buffer-overflow" in err, err


# ---------------------------------------------------------------------------- errors


def test_compile_error_shows_the_users_line(tmp_path, root):
    text = (
        "#include <vector>\n\nint first() { return 1; }\nint second() { return undefined_name; }\n"
    )
    file = write(tmp_path / "broken.cpp", text)
    with pytest.raises(cpp_extension.CompileError) as info:
        build("demo", file, extra_cflags=["-DSOME_FLAG"])
    message = str(info.value)
    assert message.startswith("Error building extension 'demo'")
    assert f"{file}:4:" in message
    assert "'undefined_name' was not declared" in message
    assert "int second() { return undefined_name; }" in message
    assert "-DSOME_FLAG" in message
    assert "-DSOME_FLAG" in info.value.command
    assert "undefined_name" in Path(info.value.log).read_text()
    assert isinstance(info.value, RuntimeError)


def test_inline_error_has_the_lines_of_the_string():
    code = """
int good() { return 1; }
int bad() { return missing; }
"""
    with pytest.raises(cpp_extension.CompileError) as info:
        cpp_extension.load_inline("demo", ["int zero();", code], no_implicit_headers=True)
    message = str(info.value)
    assert "cpp_sources[1]:3:20: error: 'missing'" in message
    assert "int bad() { return missing; }" in message
    lines = Path(__file__).read_text().splitlines()
    number = lines.index("int bad() { return missing; }") - 1
    assert f"line 1 of cpp_sources[1] is line {number} of {__file__}" in message
    assert "main.cpp:" not in message


def test_many_errors_are_cut(tmp_path):
    file = write(tmp_path / "a.cpp", "".join(f"int f{i}() {{ return x{i}; }}\n" for i in range(40)))
    with pytest.raises(cpp_extension.CompileError) as info:
        build("demo", file)
    message = str(info.value)
    assert "x0" in message
    assert "and 35 more errors" in message
    assert "x39" in info.value.output
    assert len(message.splitlines()) < 60


def test_template_error_is_reported_once_with_the_users_line(tmp_path):
    text = (
        "#include <algorithm>\n#include <vector>\n"
        "void f(std::vector<int>& v) {\n  std::sort(v.begin(), v.end(), 3);\n}\n"
    )
    file = write(tmp_path / "a.cpp", text)
    with pytest.raises(cpp_extension.CompileError) as info:
        build("demo", file)
    message = str(info.value)
    assert f"{file}:4:" in message
    assert message.count("cannot be used as a function") == 1
    assert info.value.output.count("cannot be used as a function") > 1


def test_undefined_symbol_is_found_at_link_time(tmp_path):
    file = write(tmp_path / "a.cpp", "int nowhere();\n" + source("nowhere()"))
    with pytest.raises(cpp_extension.CompileError) as info:
        build("demo", file)
    assert "nowhere() is declared but not defined" in str(info.value)


def test_no_compiler(tmp_path, monkeypatch):
    file = write(tmp_path / "a.cpp", source(1))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(cpp_extension.CompilerNotFoundError) as info:
        build("demo", file)
    message = str(info.value)
    assert "none of c++, g++, clang++ is on the PATH" in message
    assert "install" in message
    assert "conda install -c conda-forge cxx-compiler" in message
    monkeypatch.undo()
    monkeypatch.setenv("CXX", "no-such-compiler -x")
    with pytest.raises(cpp_extension.CompilerNotFoundError, match="'no-such-compiler'"):
        build("demo", file)


@pytest.mark.parametrize("program", ["/bin/true", "sh -c true"])
def test_a_program_that_is_no_compiler(tmp_path, monkeypatch, program):
    """The program reports no error and writes nothing."""
    monkeypatch.setenv("CXX", program)
    with pytest.raises(cpp_extension.CompilerNotFoundError, match="did not write.*Set CXX"):
        build("demo", write(tmp_path / "a.cpp", source(1)))


def test_compiler_that_cannot_run(tmp_path, monkeypatch):
    script = write(tmp_path / "broken", "#!/bin/sh\necho cannot do it >&2\nexit 3\n")
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    with pytest.raises(cpp_extension.CompileError, match="exit status 3(?s:.*)cannot do it"):
        build("demo", write(tmp_path / "a.cpp", source(1)))


@pytest.mark.parametrize(
    "argument", ["extra_cuda_cflags", "extra_sycl_cflags", "with_cuda", "with_sycl"]
)
def test_gpu_arguments_are_refused(tmp_path, argument):
    file = write(tmp_path / "a.cpp", source(1))
    with pytest.raises(NotImplementedError, match=argument):
        build("demo", file, **{argument: ["-x"] if "flags" in argument else True})
    build("demo", file, **{argument: [] if "flags" in argument else False})


def test_bad_arguments(tmp_path):
    file = write(tmp_path / "a.cpp", source(1))
    with pytest.raises(ValueError, match=r"name='a-b'"):
        build("a-b", file)
    with pytest.raises(TypeError, match="name: expected a string"):
        build(3, file)
    with pytest.raises(FileNotFoundError, match=r"nowhere\.cpp"):
        build("demo", "nowhere.cpp")
    with pytest.raises(ValueError, match="unknown kind of source"):
        build("demo", write(tmp_path / "a.txt", ""))
    with pytest.raises(NotImplementedError, match=r"a\.cu: .*load_inline\(cuda_sources="):
        build("demo", write(tmp_path / "a.cu", ""))
    with pytest.raises(ValueError, match="at least one file"):
        build("demo")
    with pytest.raises(NotImplementedError, match="sycl_sources"):
        cpp_extension.load_inline("demo", "", sycl_sources="x")
    with pytest.raises(ValueError, match="debug='thread'"):
        build("demo", file, debug="thread")


def test_cache_that_cannot_be_written(tmp_path, monkeypatch):
    blocked = write(tmp_path / "file", "")
    monkeypatch.setenv("COGRAD_EXTENSIONS_DIR", str(blocked / "cache"))
    file = write(tmp_path / "a.cpp", source(8))
    with pytest.warns(RuntimeWarning, match="COGRAD_EXTENSIONS_DIR"):
        path = build("demo", file)
    assert answer(path) == 8


def test_read_only_cache_still_serves(tmp_path, root, counted):
    file = write(tmp_path / "a.cpp", source(8))
    first = build("demo", file)
    calls = counted()
    folders = [root, *(p for p in root.rglob("*") if p.is_dir())]
    for folder in folders:
        folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        assert build("demo", file) == first
        assert counted() == calls
        if os.geteuid() != 0:  # root can write everywhere
            write(file, source(9))
            with pytest.warns(RuntimeWarning, match="cannot be written"):
                assert answer(build("demo", file)) == 9
    finally:
        for folder in folders:
            folder.chmod(0o755)


def test_other_abi_is_refused(tmp_path):
    mark = f'{EXPORT} extern const char mark[] = "COGRAD_ABI:99.0;";\n'
    file = write(tmp_path / "a.cpp", mark + source(1))
    with pytest.raises(ImportError, match=r"ABI 99\.0, but this cograd .* rebuild"):
        build("demo", file)
    path = next((tmp_path / "cache").glob("demo/*/demo.so"))
    with pytest.raises(ImportError, match=r"ABI 99\.0"):
        _load.load_library(path)
    major, minor = _load.abi_version()
    for text, good in (
        (f"{major}.{minor}", True),
        (f"{major}.{minor + 1}", False),
        (f"{major - 1}.0", False),
    ):
        data = f"..COGRAD_ABI:{text};..".encode()
        if good:
            _load.check_abi("x", data)
        else:
            with pytest.raises(ImportError, match="rebuild"):
                _load.check_abi("x", data)


def test_verbose_shows_the_commands(tmp_path, capfd):
    file = write(tmp_path / "a.cpp", source(1))
    build("demo", file, verbose=True)
    out = capfd.readouterr().out
    assert "-shared" in out
    assert str(file) in out
    build("demo", file, verbose=True)
    assert "is in the cache" in capfd.readouterr().out


# ---------------------------------------------------------------------------- command line


def test_list_and_prune(tmp_path, root, capsys):
    one, two = write(tmp_path / "1.cpp", source(1)), write(tmp_path / "2.cpp", source(2))
    build("one", one)
    kept = build("two", two)
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    assert "2 builds" in out
    assert out.count(" ok ") == 2
    (entry,) = [e for e in __main__.entries(str(root)) if e.name == "one"]
    record = json.loads((Path(entry.folder) / _cache.RECORD).read_text())
    record["version"] = "0.0.1"
    (Path(entry.folder) / _cache.RECORD).write_text(json.dumps(record))
    assert main(["prune", "--dry-run"]) == 0
    assert "would remove" in capsys.readouterr().out
    assert main(["prune"]) == 0
    assert not (root / "one").exists()
    assert Path(kept).exists()
    os.utime(Path(kept).parent / _cache.RECORD, (1e9, 1e9))
    assert main(["prune", "--days", "30"]) == 0
    assert not Path(kept).exists()
    build("two", two)
    assert main(["prune", "two"]) == 0
    assert main(["list"]) == 0
    assert "0 builds" in capsys.readouterr().out.splitlines()[-1]


def test_prune_spares_foreign_files(tmp_path, root):
    precious = write(root / "notes" / "thesis.txt", "years of work")
    deep = write(root / "mine" / "0123" / "data", "x")
    build("one", write(tmp_path / "1.cpp", source(1)))
    assert main(["prune", "--all"]) == 0
    assert precious.exists()
    assert deep.exists()


def test_doctor_without_compiler(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "FAIL  C++ compiler" in out
    assert "install" in out


# ---------------------------------------------------------------------------- helpers


def test_helpers(monkeypatch, tmp_path):
    compiler = cpp_extension.get_cxx_compiler()
    assert cpp_extension.check_compiler_ok_for_platform(compiler)
    good, version = cpp_extension.get_compiler_abi_compatibility_and_version(compiler)
    assert good
    assert len(version) >= 2
    assert cpp_extension.check_compiler_is_gcc(compiler) in (True, False)
    assert cpp_extension.is_ninja_available() == (shutil.which("ninja") is not None)
    assert not cpp_extension.check_compiler_ok_for_platform("no-such-compiler")
    (folder,) = cpp_extension.include_paths()
    assert (Path(folder) / "cograd" / "dtype.h").exists()
    (folder,) = cpp_extension.library_paths()
    assert (Path(folder) / "libcograd.so").exists()
    assert cpp_extension.include_paths(torch_include_dirs=False) == []
    with pytest.raises(NotImplementedError, match="'cuda'"):
        cpp_extension.include_paths("cuda")
    with pytest.raises(NotImplementedError, match="CppExtension"):
        cpp_extension.CUDAExtension("a", ["a.cu"])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cpp_extension.get_default_build_root() == str(tmp_path / "cograd_extensions")


def _planted(path):
    path.mkdir()
    path.chmod(0o777)


@pytest.mark.parametrize(
    "plant",
    [None, _planted, lambda path: path.symlink_to(path.parent)],
    ids=["new", "open", "link"],
)
def test_root_among_temporary_folders_is_private(monkeypatch, tmp_path, plant):
    for name in ("XDG_CACHE_HOME", "COGRAD_EXTENSIONS_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    shared = tmp_path / f"cograd_extensions-{os.geteuid()}"
    if plant is None:
        assert cpp_extension.get_default_build_root() == str(shared)
        assert cpp_extension.get_default_build_root() == str(shared)
        assert stat.S_IMODE(shared.stat().st_mode) == 0o700
        return
    plant(shared)
    with pytest.warns(RuntimeWarning, match="only you can write"):
        root = cpp_extension.get_default_build_root()
    assert root == cpp_extension.get_default_build_root() != str(shared)
    assert stat.S_IMODE(os.lstat(root).st_mode) == 0o700


def test_lock_that_is_a_link_is_not_followed(tmp_path):
    victim = write(tmp_path / "victim", "text")
    path = tmp_path / "key.lock"
    path.symlink_to(victim)
    with _cache.BuildLock(str(path)) as lock:
        assert lock.broken
    assert not _cache.BuildLock(str(path)).acquire_now()
    assert victim.read_text() == "text"


@pytest.mark.parametrize(
    "flags", [["-L{}", "-lval"], ["-L", "{}", "-l", "val"], ["-L{}", "-l:libval.a"], "-L{} -lval"]
)
def test_a_library_that_is_searched_for_may_change(tmp_path, flags):
    if isinstance(flags, str):
        flags = flags.format(tmp_path)
    else:
        flags = [flag.format(tmp_path) for flag in flags]

    def key():
        return _job.Job("a", [], extra_ldflags=flags).key()

    before = key()
    library = write(tmp_path / "libval.a", "one")
    first = key()
    assert first != before and first == key()
    write(library, "longer")
    assert key() != first


def test_libraries_of_the_environment_may_change(tmp_path, monkeypatch):
    monkeypatch.setenv("LIBRARY_PATH", f"{tmp_path}:")
    before = _job.Job("a", [], extra_ldflags=["-lval"]).key()
    write(tmp_path / "libval.so", "one")
    assert _job.Job("a", [], extra_ldflags=["-lval"]).key() != before


def test_wrapped_compiler_has_both_identities(tmp_path, monkeypatch):
    bin_folder, wrapper_folder = tmp_path / "bin", tmp_path / "wrap"
    real = write(bin_folder / "mycxx", "#!/bin/sh\nexit 0\n")
    ccache = write(tmp_path / "ccache", "#!/bin/sh\nexit 0\n")
    wrapper_folder.mkdir()
    (wrapper_folder / "mycxx").symlink_to(ccache)
    for file in (real, ccache):
        file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper_folder}{os.pathsep}{bin_folder}")
    before = _compiler.identity(["mycxx"])
    assert str(real) in before
    assert str(ccache) in before
    write(real, "#!/bin/sh\nexit 0 # new\n")
    assert _compiler.identity(["mycxx"]) != before


def test_import_is_light():
    code = """
    import sys, cograd
    before = set(sys.modules)
    from cograd.utils import cpp_extension
    heavy = {"setuptools", "subprocess", "distutils", "sysconfig", "shutil", "tempfile", "json"}
    print(sorted(heavy & (set(sys.modules) - before)))
    """
    out, err = run_python(code).communicate()
    assert out.strip() == "[]", err
