# SPDX-License-Identifier: BSD-3-Clause
"""The installed package: binaries, symbols, files, sizes, import time.

With COGRAD_WHEEL set to a wheel, or to a directory that has one for this Python, the wheel is
checked too; .ci/run does that.
"""

import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import zipfile
from pathlib import Path

import pytest

import cograd
from cograd._base import build_info

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(cograd.__file__).parent
BINARIES = Path(cograd._C.__file__).parent  # another directory than PACKAGE in an editable install
EDITABLE = PACKAGE != BINARIES
LIBRARY = BINARIES / "lib" / "libcograd.so"
CUDA = BINARIES / "lib" / "libcograd_cuda.so"
needs_nm = pytest.mark.skipif(shutil.which("nm") is None, reason="binutils are not installed")
needs_readelf = pytest.mark.skipif(shutil.which("readelf") is None, reason="no binutils")


def run(*command, **kwargs):
    return subprocess.run(command, check=True, capture_output=True, text=True, **kwargs).stdout


def wheel():
    given = os.environ.get("COGRAD_WHEEL")
    if not given:
        pytest.skip("COGRAD_WHEEL is not set")
    path = Path(given) if Path(given).is_absolute() else ROOT / given
    if path.is_dir():
        tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
        (path,) = path.glob(f"cograd-*-{tag}-{tag}-*.whl")
    return path


# ---------------------------------------------------------------------------- symbols


@needs_nm
def test_libcograd_has_no_python_symbol():
    symbols = [line.split()[-1] for line in run("nm", "-D", str(LIBRARY)).splitlines()]
    assert len(symbols) > 50
    python = [s for s in symbols if re.match(r"_?Py[A-Z_]|.*pybind11|_Py", s)]
    assert not python, f"libcograd.so uses Python: {python[:5]}"


@needs_nm
def test_exported_symbols_are_ours():
    """The library exports only the project's own names, besides what the C++ run time shares."""
    lines = run("nm", "-DC", "--defined-only", str(LIBRARY)).splitlines()
    exported = [line.split(None, 2)[2] for line in lines if line.split()[1] in "TDBR"]
    foreign = [s for s in exported if "cograd" not in s]
    assert not foreign, f"exported by accident: {foreign[:5]}"


@needs_readelf
def test_libcograd_needs_only_the_system_and_openblas():
    needed = re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", str(LIBRARY)))
    system = r"lib(c|m|mvec|stdc\+\+|gcc_s|pthread|dl|rt|asan|ubsan|tsan)\.so\.\d+|ld-linux.*"
    ours = [n for n in needed if not re.fullmatch(system, n)]
    assert ours == ["libscipy_openblas.so"]


@needs_readelf
@needs_nm
def test_the_part_for_gpus_needs_nothing_of_nvidias():
    """It finds the driver and the compiler at run time, so it is in every wheel."""
    needed = re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", str(CUDA)))
    assert "libcograd.so" in needed and not [n for n in needed if "cuda" in n or "nv" in n]
    lines = run("nm", "-DC", "--defined-only", str(CUDA)).splitlines()
    exported = [line.split(None, 2)[2] for line in lines if line.split()[1] in "TDBR"]
    assert "cograd_cuda_start" in exported
    assert not [s for s in exported if "cograd" not in s]
    maps = "import cograd; print('libcograd_cuda' in open('/proc/self/maps').read())"
    assert run(sys.executable, "-c", maps).strip() == "False"


@needs_readelf
@pytest.mark.skipif(EDITABLE, reason="built in place")
def test_rpaths_are_relative():
    for path, expected in (
        (LIBRARY, "$ORIGIN/../../scipy_openblas32/lib"),
        (Path(cograd._C.__file__), "$ORIGIN/lib"),
        (CUDA, "$ORIGIN"),
    ):
        (runpath,) = re.findall(r"R(?:UN)?PATH.*\[(.*)\]", run("readelf", "-d", str(path)))
        assert runpath == expected


# ---------------------------------------------------------------------------- installed files


def test_version_is_the_same_everywhere():
    version = importlib.metadata.version("cograd")
    assert cograd.__version__ == version
    assert build_info.version == version
    pyproject = ROOT / "pyproject.toml"
    if pyproject.exists():
        assert f'\nversion = "{version}"\n' in pyproject.read_text()
        assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()


def test_typed_and_headers_installed():
    assert (PACKAGE / "py.typed").exists()
    headers = {p.name for p in (BINARIES / "include" / "cograd").glob("*.h")}
    assert {"dtype.h", "error.h"} <= headers
    if (ROOT / "csrc").is_dir():
        assert headers == {p.name for p in (ROOT / "csrc/include/cograd").glob("*.h")}


def test_run_time_requirements():
    requires = importlib.metadata.requires("cograd")
    names = {re.match(r"[\w-]+", r)[0] for r in requires if "extra ==" not in r}
    assert names == {"numpy", "scipy-openblas32", "safetensors"}


@pytest.mark.skipif(not (ROOT / "tools" / "gen_stubs.py").exists(), reason="no source checkout")
@pytest.mark.parametrize("generator", ["gen_surface.py", "gen_stubs.py"])
def test_generated_files_are_up_to_date(generator):
    command = [sys.executable, str(ROOT / "tools" / generator), "--check"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.skipif(not (ROOT / "Makefile").exists(), reason="no source checkout")
def test_makefile_installs_what_pyproject_asks_for():
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        from requirements import arrays
    finally:
        sys.path.pop(0)
    text = (ROOT / "pyproject.toml").read_text()
    extra = set(arrays("project.optional-dependencies", text)["build"])
    makefile = (ROOT / "Makefile").read_text()
    block = re.search(r"^BUILD_REQS := (.*?[^\\])\n", makefile, re.M | re.S)[1]
    assert set(re.findall(r'"([^"]+)"', block)) == extra
    assert set(arrays("build-system", text)["requires"]) <= extra


@pytest.mark.skipif(not (ROOT / "CMakeLists.txt").exists(), reason="no source checkout")
@pytest.mark.parametrize("order,bytes", [("BIG_ENDIAN", 8), ("LITTLE_ENDIAN", 4)])
def test_other_processors_are_refused_before_anything_is_compiled(tmp_path, order, bytes):
    """CMake believes what it is told about a compiler that it must not try."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    cmake, ninja = (shutil.which(name, path=path) for name in ("cmake", "ninja"))
    if cmake is None or ninja is None:
        pytest.skip("CMake and Ninja are not installed")
    told = {
        "MAKE_PROGRAM": ninja,
        "CXX_COMPILER_FORCED": 1,
        "CXX_BYTE_ORDER": order,
        "SIZEOF_VOID_P": bytes,
    }
    command = [cmake, "-G", "Ninja", "-S", ROOT, "-B", tmp_path / "build"]
    command += [f"-DCMAKE_{name}={value}" for name, value in told.items()]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode != 0
    said = " ".join(result.stderr.split())
    assert "cograd needs a little-endian 64-bit processor" in said
    assert f"is {order} with pointers of {bytes} bytes" in said


# ---------------------------------------------------------------------------- import


@pytest.mark.skipif(not (ROOT / "Makefile").exists(), reason="no source checkout")
@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize("edited", [False, True])
def test_source_edited_during_a_build_is_built_again(tmp_path, edited):
    shutil.copy(ROOT / "Makefile", tmp_path)
    files = ["csrc/a.cpp", "python/a.py", "cmake/a.cmake", "CMakeLists.txt", "pyproject.toml"]
    files += ["README.md", "LICENSE", "tools/preflight.sh", "tools/requirements.py"]
    for name in [*files, ".venv/stamps/venv", ".venv/stamps/deps-run"]:  # older first
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
        time.sleep(0.01)
    work = "sleep 0.1; touch csrc/a.cpp" if edited else "sleep 0.1"
    run("make", "install", f"BUILD=sh -c '{work}'", cwd=tmp_path)
    asked = subprocess.run(["make", "-q", "install"], cwd=tmp_path, check=False)
    assert asked.returncode == int(edited)


def test_import_loads_nothing_heavy():
    code = "import sys, cograd; print(' '.join(m.split('.')[0] for m in sys.modules))"
    loaded = set(run(sys.executable, "-c", code).split())
    assert not loaded & {"torch", "scipy", "matplotlib", "safetensors", "sklearn", "setuptools"}


def test_import_loads_few_modules():
    """The benchmarks (`package`) measure the time; here the modules are counted."""
    code = (
        "import sys, numpy; before = set(sys.modules); import cograd; "
        "print(' '.join(set(sys.modules) - before))"
    )
    loaded = set(run(sys.executable, "-c", code).split())
    own = {name for name in loaded if name.split(".")[0] == "cograd"}
    lazy = ("cuda", "fft", "library", "linalg", "nn", "ops", "optim", "serialization", "signal")
    lazy += ("testing", "utils")
    assert not {f"cograd.{name}" for name in lazy} & own
    assert 20 < len(own) <= 37, sorted(own)
    if not EDITABLE:
        assert len(loaded - own) <= 10, sorted(loaded - own)


def test_import_from_another_place_of_openblas(tmp_path):
    """OpenBLAS is found even if it is not beside the package, as with a user site."""
    if EDITABLE:
        pytest.skip("built in place")
    site = Path(sysconfig.get_paths()["platlib"])
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    shutil.copytree(PACKAGE, here / "cograd", ignore=shutil.ignore_patterns("__pycache__"))
    (here / "numpy").symlink_to(site / "numpy")
    if (site / "numpy.libs").exists():
        (here / "numpy.libs").symlink_to(site / "numpy.libs")
    (there / "scipy_openblas32").symlink_to(site / "scipy_openblas32")
    code = "import cograd; print(cograd.__file__, (cograd.ones(3, 3) @ cograd.ones(3, 3)).sum())"
    env = {**os.environ, "PYTHONPATH": f"{here}{os.pathsep}{there}"}
    # -S: no site-packages, so the only copies are the ones above.
    out = run(sys.executable, "-S", "-c", code, env=env, cwd=tmp_path)
    assert out.startswith(str(here))
    assert "27" in out
    env["PYTHONPATH"] = str(here)
    failed = subprocess.run(
        [sys.executable, "-S", "-c", code], env=env, cwd=tmp_path, capture_output=True, text=True
    )
    assert failed.returncode != 0
    assert "pip install scipy-openblas32" in failed.stderr


def test_isa_levels_agree():
    """The baseline kernels, which every x86-64 CPU runs, give the same results."""
    code = (
        "import cograd as t; t.manual_seed(0); x = t.randn(1000); "
        "print((x * 2 + x.exp()).sum().item(), x.tanh().sum().item())"
    )
    plain = run(sys.executable, "-c", code).split()
    base = run(sys.executable, "-c", code, env={**os.environ, "COGRAD_ISA": "base"}).split()
    for a, b in zip(plain, base, strict=True):
        assert float(a) == pytest.approx(float(b), rel=1e-5)


# ---------------------------------------------------------------------------- the wheel


def test_wheel_contents():
    path = wheel()
    names = zipfile.ZipFile(path).namelist()
    files = [n for n in names if not n.endswith("/")]
    assert "cograd/lib/libcograd.so" in files
    assert "cograd/lib/libcograd_cuda.so" in files
    written = {
        p.name
        for folder in ("text", "nn_text", "lib_text", "args")
        for p in (ROOT / "csrc/cuda" / folder).glob("*.h")
    }
    assert written <= {n.rpartition("/")[2] for n in files if n.startswith("cograd/lib/cuda/")}
    assert "cograd/py.typed" in files
    assert "cograd/_C.pyi" in files
    assert any(re.fullmatch(r"cograd/_C\.cpython-.*\.so", n) for n in files)
    assert any(n.startswith("cograd/include/cograd/") for n in files)
    assert any(n.endswith("licenses/LICENSE") for n in files)
    assert "cograd/include/cograd/class.h" in files
    strange = [n for n in files if not re.match(r"cograd(-[\d.]+\.dist-info)?/", n)]
    assert not strange, f"files outside the package: {strange[:5]}"
    # Kernels for GPUs are text, which NVRTC compiles.
    texts = [n for n in files if n.startswith("cograd/lib/cuda/")]
    assert not [n for n in files if n.endswith((".pyc", ".cpp", ".o")) and n not in texts]
    copies = [n for n in files if "openblas" in n and not n.endswith(".py")]
    assert not copies, "OpenBLAS is a dependency, not a copy"


def test_wheel_says_what_it_is_made_of():
    """PEP 770: it has a bill of materials, and the licences of what is compiled in and linked."""
    with zipfile.ZipFile(wheel()) as archive:
        (bill,) = [n for n in archive.namelist() if ".dist-info/sboms/" in n and "cograd.cdx" in n]
        told = json.loads(archive.read(bill))
        (notices,) = [n for n in archive.namelist() if n.endswith("THIRD_PARTY_NOTICES.txt")]
        text = archive.read(notices).decode()
    assert told["bomFormat"] == "CycloneDX"
    assert told["metadata"]["component"]["version"] == cograd.__version__
    names = {c["name"] for c in told["components"]}
    assert {"pybind11", "pocketfft", "libstdc++", "scipy-openblas32"} <= names
    for name in ("pybind11", "pocketfft", "OpenBLAS", "LAPACK", "libgfortran"):
        assert name in text


@pytest.mark.skipif(not (ROOT / "tools" / "wheel.py").exists(), reason="no source checkout")
def test_wheels_are_packed_in_one_way(tmp_path, monkeypatch):
    """The same files in another order, with other times, give the same bytes, a valid archive."""
    spec = importlib.util.spec_from_file_location("wheel_tool", ROOT / "tools" / "wheel.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    files = {"a-1.dist-info/RECORD": b"x,,\n", "a/lib/b.so": bytes(range(256)) * 40, "a/c.py": b""}
    packed = []
    for i, names in enumerate([list(files), list(files)[::-1]]):
        path = tmp_path / f"{i}.whl"
        with zipfile.ZipFile(path, "w") as archive:
            for name in names:
                info = zipfile.ZipInfo(name, (2000 + i, 1, 1, 0, 0, 0))
                archive.writestr(info, files[name])
        tool.repack(path)
        packed.append(path.read_bytes())
    assert packed[0] == packed[1]
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert {n: archive.read(n) for n in archive.namelist()} == files
        assert archive.namelist()[-1].endswith("RECORD")
        assert archive.getinfo("a/lib/b.so").external_attr >> 16 == 0o100755
        assert archive.getinfo("a/c.py").date_time == (2023, 11, 14, 22, 13, 20)


@pytest.mark.skipif(not (ROOT / "tools" / "wheels.py").exists(), reason="no source checkout")
def test_wheels_are_built_with_what_has_headers(tmp_path, monkeypatch):
    pytest.importorskip("scipy_openblas32")
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    tool = importlib.import_module("wheels")
    broken = tmp_path / "python3.14"
    broken.write_text("#!/bin/sh\necho 3 14 0\n")
    broken.chmod(0o755)
    assert tool.minor(str(broken)) == 0  # no headers, or no lock
    broken.write_text("#!/bin/sh\necho 3 14 1\n")
    assert tool.interpreters([str(broken)]) == {14: str(broken)}
    assert tool.minor(str(tmp_path / "none")) == 0
    assert sys.version_info[1] not in tool.interpreters([])
    with pytest.raises(SystemExit, match="headers"):
        tool.interpreters([str(tmp_path / "none")])


@needs_nm
def test_binaries_do_not_say_where_they_were_built():
    if EDITABLE:
        pytest.skip("built in place")
    for path in (LIBRARY, CUDA, Path(cograd._C.__file__)):
        assert str(ROOT / "csrc").encode() not in path.read_bytes()


def test_wheel_is_manylinux_and_small():
    path = wheel()
    assert "manylinux" in path.name
    size = path.stat().st_size / 1e6
    assert size < 7.0, f"{path.name} has {size:.1f} MB"
    with zipfile.ZipFile(path) as archive:
        parts = [
            i for i in archive.infolist() if re.search(r"lib/(libcograd_cuda|cuda/)", i.filename)
        ]
    gpu = sum(i.compress_size for i in parts) / 1e6
    assert gpu < 1.0, f"the part for GPUs has {gpu:.2f} MB"
