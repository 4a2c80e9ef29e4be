# SPDX-License-Identifier: BSD-3-Clause
"""CONTRIBUTING's steps for adding an operation or an optimizer: their code works unchanged."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import cograd as torch

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "CONTRIBUTING.md"
CXX = shutil.which("g++") or shutil.which("c++")

pytestmark = [
    pytest.mark.skipif(not PAGE.is_file(), reason="not run from a source checkout"),
    pytest.mark.skipif(CXX is None, reason="no C++ compiler"),
]


def blocks():
    return re.findall(r"```c\+\+\n(.*?)```", PAGE.read_text(), re.S)


def compiles(source, *include):
    """Returns the compiler's errors for a text; ``include`` comes before the project's headers."""
    folders = [f"-I{f}" for f in (*include, ROOT / "csrc", ROOT / "csrc" / "include")]
    command = [CXX, "-std=c++20", "-fsyntax-only", "-DCOGRAD_BUILDING", *folders, "-x", "c++", "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True, timeout=120)
    return done.stderr


def rows_with(row, folder):
    """Returns the file that expands the rows, which reads a table with one more row."""
    table = (ROOT / "csrc/kernels/elementwise/elementwise.def").read_text()
    copy = folder / "kernels" / "elementwise" / "elementwise.def"
    copy.parent.mkdir(parents=True)
    copy.write_text(table.replace("// Special functions.", row + "// Special functions.", 1))
    assert row in copy.read_text()
    source = (ROOT / "csrc/ops/elementwise/rows.cpp").read_text()
    own = 'name == std::string_view("log_cosh")'
    check = f"[](auto name) {{ return {own}; }}(cograd::rows::Row_log_cosh::spec.name)"
    return source + f"static_assert({check});"


def test_the_row_is_an_operation(tmp_path):
    row, _ = blocks()
    assert compiles(rows_with(row, tmp_path), tmp_path) == ""


def test_a_row_with_a_column_missing_is_not(tmp_path):
    row, _ = blocks()
    broken = row.replace(", X, g * tanh(x)", ", g * tanh(x)")
    assert broken != row and "error" in compiles(rows_with(broken, tmp_path), tmp_path)


def test_the_struct_is_an_operation():
    _, struct = blocks()
    assert compiles(struct) == ""
    assert "error" in compiles(struct.replace("kSaved = 1", "kSaved = 0"))


def test_the_module_is_an_optimizer():
    (source,) = re.findall(r"```python\n(# SPDX.*?)```", PAGE.read_text(), re.S)
    module = {"__package__": "cograd.optim", "__name__": "cograd.optim.sign_descent"}
    exec(compile(source, "sign_descent.py", "exec"), module)
    kind = module["SignDescent"]
    p = torch.tensor([1.0, -2.0], requires_grad=True)
    optimizer = kind([p], lr=0.5, weight_decay=1.0)
    p.grad = torch.tensor([1.0, 1.0])
    optimizer.step()
    assert p.tolist() == [0.5, -1.5]
    assert "    lr: the learning rate" in kind.__doc__
    assert "    beta: decay rate of the running mean.\n    weight_decay:" in kind.__doc__
    with pytest.raises(ValueError, match="Invalid beta value: 1"):
        kind([p], beta=1)
    a = torch.tensor([1.0], requires_grad=True)
    inner = a.clone()
    recorded = kind([inner], differentiable=True, lr=0.5)
    inner.grad = a * 3
    recorded.step()
    inner.sum().backward()
    assert a.grad.tolist() == [1.0]
