# SPDX-License-Identifier: BSD-3-Clause
"""Compiled kernels on disk: used again, repaired, and done without where nothing can be written."""

import os

import fakes
import pytest

why = fakes.why_not()
pytestmark = pytest.mark.skipif(why is not None, reason=str(why))

ADD = """
x = torch.ones(3).to("cuda")
assert (x + x).cpu().tolist() == [2.0, 2.0, 2.0]
"""
NO_COMPILER = {"CXX": "/bin/false"}


def kept(folder):
    return sorted(folder.glob("*.cubin"))


def test_programs_are_used_again(tmp_path):
    fakes.run(ADD, COGRAD_KERNEL_CACHE=tmp_path)
    files = kept(tmp_path)
    assert files
    assert [f.name for f in tmp_path.iterdir()] == [f.name for f in tmp_path.glob("*.cubin")]
    fakes.run(ADD, COGRAD_KERNEL_CACHE=tmp_path, **NO_COMPILER)
    assert kept(tmp_path) == files


@pytest.mark.parametrize("damage", ["truncated", "changed", "empty"])
def test_a_damaged_file_is_compiled_again(tmp_path, damage):
    fakes.run(ADD, COGRAD_KERNEL_CACHE=tmp_path)
    good = {f: f.read_bytes() for f in kept(tmp_path)}
    for path, data in good.items():
        middle = len(data) // 2
        changed = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        path.write_bytes({"truncated": data[:-1], "changed": changed, "empty": b""}[damage])
    fakes.run(ADD, COGRAD_KERNEL_CACHE=tmp_path)
    assert all(len(f.read_bytes()) == len(data) for f, data in good.items())
    fakes.run(ADD, COGRAD_KERNEL_CACHE=tmp_path, **NO_COMPILER)


def test_a_folder_that_cannot_be_written(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    fakes.run(ADD, COGRAD_KERNEL_CACHE=blocked)
    fakes.run(ADD, COGRAD_KERNEL_CACHE="")
    assert os.listdir(tmp_path) == ["file"]


def test_a_compiler_that_fails_is_an_error(tmp_path):
    program = """
x = torch.ones(3).to("cuda")
raises(RuntimeError, "could not compile add_float32", lambda: x + x)
"""
    fakes.run(program, COGRAD_KERNEL_CACHE=tmp_path, **NO_COMPILER)
    assert not kept(tmp_path)


def test_a_compiler_that_is_missing_is_an_error(tmp_path):
    program = """
x = torch.ones(3).to("cuda")
raises(RuntimeError, "pip install 'cograd[cuda]'", lambda: x + x)
"""
    fakes.run(program, COGRAD_KERNEL_CACHE=tmp_path, COGRAD_NVRTC=tmp_path / "nowhere.so")
