# SPDX-License-Identifier: BSD-3-Clause
"""The stable ABI: the exports of libcograd, and one compiled op that loads in every Python."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import leaf

import cograd as torch
from cograd.autograd import gradcheck
from cograd.utils import cpp_extension

ROOT = Path(__file__).parents[2]
SOURCES = Path(__file__).parents[1] / "extensions"
LIBRARY = Path(cpp_extension.library_paths()[0]) / "libcograd.so"
needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="there is no C++ compiler"
)
needs_tools = pytest.mark.skipif(
    not (ROOT / "tools").is_dir() or shutil.which("nm") is None, reason="no source tree, or no nm"
)
USE = """
import sys
import cograd
cograd.ops.load_library(sys.argv[1])
x = cograd.tensor([0.5, -2.0], dtype=cograd.float64, requires_grad=True)
assert cograd.autograd.gradcheck(lambda t: cograd.ops.t_prebuilt.sinc(t, scale=1.5), (x,))
try:
    cograd.ops.t_prebuilt.sinc(x, -1.0)
except ValueError as e:
    assert "sinc" in str(e)
else:
    raise AssertionError("no error")
print("fine in", sys.version.split()[0])
"""


def nm(*args):
    return subprocess.run(["nm", *args], capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def prebuilt(tmp_path_factory):
    """Returns the path of the compiled op: COGRAD_PREBUILT_OP, or one compiled now."""
    given = os.environ.get("COGRAD_PREBUILT_OP")
    if given:
        return Path(given)
    if not any(map(shutil.which, ("c++", "g++", "clang++"))):
        pytest.skip("there is no C++ compiler")
    folder = tmp_path_factory.mktemp("prebuilt")
    # In a separate process, which also loads it.
    code = (
        "import sys; from cograd.utils import cpp_extension; cpp_extension.load('t_prebuilt', "
        "sys.argv[1], build_directory=sys.argv[2], is_python_module=False)"
    )
    command = [sys.executable, "-c", code, str(SOURCES / "prebuilt.cpp"), str(folder)]
    subprocess.run(command, check=True)
    return folder / "t_prebuilt.so"


def test_prebuilt_op_loads_here(prebuilt):
    torch.ops.load_library(prebuilt)
    x = leaf([0.5, 2.0])
    assert gradcheck(torch.ops.t_prebuilt.sinc, (x,))
    assert torch.ops.t_prebuilt.sinc(x).grad_fn.name() == "SincBackward"
    with pytest.raises(ValueError, match="t_prebuilt::sinc.*scale is -1"):
        torch.ops.t_prebuilt.sinc(x, -1.0)


def test_prebuilt_op_knows_nothing_of_python(prebuilt):
    names = re.findall(r"\bU (\S+)", nm("-D", "--undefined-only", str(prebuilt)))
    assert names
    assert not [n for n in names if n.startswith(("Py", "_Py"))]
    own = [n for n in names if "cograd" in n]
    assert own
    assert all(n.startswith("cograd_") for n in own), own


def test_prebuilt_op_loads_in_other_pythons(prebuilt):
    """The op loads in all environments with cograd beside the source tree (see .ci/run)."""
    done = []
    for python in sorted(ROOT.glob(".venv*/bin/python")):
        probe = [str(python), "-c", "import cograd.utils.cpp_extension"]
        if subprocess.run(probe, capture_output=True, check=False).returncode != 0:
            continue
        command = [str(python), "-c", USE, str(prebuilt)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        done.append(result.stdout)
    if not done:
        pytest.skip("no other environment has cograd")


@needs_tools
def test_exported_symbols_are_those_of_the_baseline():
    command = [sys.executable, "tools/abi_check.py", "--library", str(LIBRARY)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@needs_tools
def test_nothing_else_is_exported():
    for line in nm("-D", "--defined-only", "--with-symbol-versions", str(LIBRARY)).splitlines():
        name = line.split()[-1]
        assert re.search(r"@@?COGRAD_(1|PRIVATE)$|^COGRAD_(1|PRIVATE)$", name), line


@pytest.fixture(scope="module")
def tool():
    path = ROOT / "tools" / "abi_check.py"
    if not path.exists():
        pytest.skip("not in a source tree")
    spec = importlib.util.spec_from_file_location("abi_check", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_abi_check_finds_what_breaks(tool):
    old = [
        "function cograd_a: void cograd_a(int32_t x)",
        "struct cograd_tensor_info size 72",
        "struct cograd_tensor_info.dim at 48 size 4",
        "constant COGRAD_OK 0",
    ]
    assert tool.compare(old, old) == ([], [])
    assert tool.compare(old, [*old, "constant COGRAD_NEW 1"]) == ([], ["constant COGRAD_NEW 1"])
    for i, line in enumerate(old):
        gone, _ = tool.compare(old, old[:i] + old[i + 1 :])
        assert gone == [f"gone: {line}"]
    for changed in (
        "function cograd_a: void cograd_a(int64_t x)",
        "struct cograd_tensor_info.dim at 52 size 4",
        "struct cograd_tensor_info size 64",
        "constant COGRAD_OK 1",
    ):
        new = [changed if tool.key(changed) == tool.key(x) else x for x in old]
        broken, _ = tool.compare(old, new)
        assert len(broken) == 1, changed
    grown = [x.replace("size 72", "size 80") for x in old]
    assert tool.compare(old, grown) == ([], [])


def test_additions_after_a_release_need_the_next_minor_version(tool):
    old = ["constant COGRAD_OK 0", "struct cograd_op_desc size 96"]
    released = ["minor 3", *old]
    assert tool.check_minor(released, old, 3) == []
    for newer in ([*old, "constant COGRAD_NEW 1"], [old[0], "struct cograd_op_desc size 104"]):
        assert tool.check_minor(released, newer, 4) == []
        for minor in (3, 5):
            wrong = tool.check_minor(released, newer, minor)
            assert f"is {minor}, expected 4" in wrong[0]
            assert wrong[1:] == [f"newer than the release: {newer[-1]}"]
    assert "is 4, expected 3" in tool.check_minor(released, old, 4)[0]
    assert tool.check_minor(released, old[1:], 4) == ["gone: constant COGRAD_OK 0"]


def test_abi_check_reads_the_whole_header(tool):
    text = "\n".join(header.read_text() for header in tool.HEADERS)
    assert len(tool.prototypes()) == text.count("\nCOGRAD_C_API ")
    assert set(tool.structs()) == set(re.findall(r"\n\} (cograd_\w+);", text))
    assert {"COGRAD_FLOAT64", "COGRAD_MUTATED", "COGRAD_OP_TUPLE", "COGRAD_OP_CUDA"} <= set(
        tool.constants()
    )


def test_flags_of_ops_have_bits_of_their_own(tool):
    text = "\n".join(header.read_text() for header in tool.HEADERS)
    found = re.findall(r"\b(COGRAD_OP_\w+)\s*=\s*(0x[0-9A-F]+|\d+)", text)
    flags = {k: int(v, 0) for k, v in found}
    field, unit = flags.pop("COGRAD_OP_RESULT"), flags.pop("COGRAD_OP_RESULT_UNIT")
    assert field & unit and not field & (unit - 1)
    assert len(flags) > 6
    assert all(v & field == 0 for v in flags.values()), flags
    assert all(v > 0 and v & (v - 1) == 0 for v in flags.values()), flags
    assert len(set(flags.values())) == len(flags), flags


@needs_compiler
@pytest.mark.skipif(shutil.which("abidiff") is None, reason="abidiff is not installed")
def test_abidiff_looks_at_the_kept_symbols_alone(tool, tmp_path):
    cc = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    (tmp_path / "versions.map").write_text(
        "COGRAD_1 { global: kept; moved; local: *; };\nCOGRAD_PRIVATE { global: own; };\n"
    )

    def library(name, *functions):
        source, built = tmp_path / f"{name}.c", tmp_path / f"lib{name}.so"
        source.write_text("".join(f"int {f}(void) {{ return 1; }}\n" for f in functions))
        script = f"-Wl,--version-script={tmp_path / 'versions.map'}"
        subprocess.run([cc, "-shared", "-fPIC", "-o", built, source, script], check=True)
        return built

    old = library("old", "kept", "moved", "own")
    assert tool.abidiff(old, old) == []
    assert tool.abidiff(old, library("private", "kept", "moved")) == []
    gone = tool.abidiff(old, library("gone", "kept", "own"))
    assert any("moved@@COGRAD_1" in line for line in gone)
    assert tool.abidiff(tmp_path / "missing.so", old)[0].startswith("abidiff failed")


@needs_compiler
def test_library_of_another_major_is_refused(tmp_path):
    """A library linked against a libcograd whose symbols have another version is refused."""
    (tmp_path / "fake.c").write_text("void cograd_op_register(void) {}\n")
    (tmp_path / "fake.map").write_text("COGRAD_2 { global: cograd_*; local: *; };\n")
    (tmp_path / "op.c").write_text(
        "void cograd_op_register(const void*);\n"
        "__attribute__((constructor)) static void init(void) { cograd_op_register(0); }\n"
    )
    cc = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    fake = tmp_path / "libcograd.so"
    run = [cc, "-shared", "-fPIC"]
    flags = ["-Wl,-soname,libcograd.so", f"-Wl,--version-script={tmp_path / 'fake.map'}"]
    subprocess.run([*run, "-o", fake, tmp_path / "fake.c", *flags], check=True)
    op = tmp_path / "op.so"
    subprocess.run([*run, "-o", op, tmp_path / "op.c", fake], check=True)
    with pytest.raises(ImportError, match="COGRAD_2"):
        torch.ops.load_library(op)
